#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Makes several nodes of a domain on one machine: to try fabric handles between hosts, and to test them.
#
#     nodes.sh start COUNT [DIRECTORY]     make them, with a daemon in each (build/bin/cenote-imexd, or in PATH)
#     nodes.sh run N COMMAND...            run a command as a program of node N
#     nodes.sh cut N | mend N              take the link of node N down, and up again
#     nodes.sh kill N | boot N             kill all programs of node N, its daemon included; start its daemon again
#     nodes.sh wire N [OPTION...]          lead the link of node N through nodes_wire.py, until its input ends
#     nodes.sh stop [DIRECTORY]            end all of it, and remove DIRECTORY
#
# A node is a network, a mount and a PID namespace; all are connected by a bridge in a namespace of its own, so nothing
# of this machine's network is touched. Node N has the address 10.77.0.N and directories of its own; its programs use
# the host device unless CENOTE_DEVICE says otherwise. Works as root; else it says why not. DIRECTORY has the list of
# nodes, the key, the channels and the logs; start makes it, and it must not exist before. The default is
# NODES_DIRECTORY, or /tmp/cenote-nodes; the other verbs use that. NODES_TRANSPORT=ucx starts cenote-imexd-ucx in place
# of cenote-imexd; NODES_DAEMON is the path of the latter. NODES_APART=1: node N has the CPU N - 1 alone, if there are
# as many. NODES_SUPERVISE=1: a daemon that ends is started again, as by cenote imex start.
#
# Root runs what a file in DIRECTORY names, kills the processes that files in it name, and removes it. So DIRECTORY is
# never one that somebody else has made, and a process is named by its PID and the time of its start.
set -eu

directory=${NODES_DIRECTORY:-/tmp/cenote-nodes}
transport=${NODES_TRANSPORT:-tls}
here=$(cd "$(dirname "$0")/.." && pwd)

fail()
{
	echo "nodes.sh: $*" >&2
	exit 1
}

check_rights()
{
	[ "$(id -u)" = 0 ] || fail "namespaces with links between them need root"
	command -v ip >/dev/null || fail "the command ip is missing (package iproute2)"
	unshare --net --mount --pid --fork true 2>/dev/null || fail "this system does not allow namespaces"
}

find_daemon()
{
	local suffix needs daemon
	case $transport in
	tls) suffix='' needs='GnuTLS (libgnutls28-dev)' ;;
	ucx) suffix=-ucx needs='UCX (libucx-dev)' ;;
	*) fail "NODES_TRANSPORT is tls or ucx" ;;
	esac
	for daemon in "${NODES_DAEMON:-$here/build/bin/cenote-imexd}" "${NODES_DAEMON:-$(command -v cenote-imexd)}"; do
		[ ! -x "$daemon$suffix" ] || { realpath "$daemon$suffix"; return; }
	done
	fail "cenote-imexd$suffix was not built: it needs $needs"
}

make_directory()
{
	local why
	why=$(mkdir -m 0700 "$directory" 2>&1) && return
	[ ! -e "$directory" ] && [ ! -L "$directory" ] || why="$directory exists; if nodes run already: nodes.sh stop"
	fail "$why"
}

# That start has made the directory. The mode and the owner come from one look, which does not follow a link: in /tmp
# nobody else can replace a directory of ours afterwards.
check_directory()
{
	[ -e "$directory" ] || [ -L "$directory" ] || fail "no nodes run: there is no $directory"
	case $(stat -c '%u %A' "$directory") in
	"$(id -u) drwx--"?---) ;;
	*) fail "$directory is a link, belongs to another user or is open to others: nodes.sh start did not make it" ;;
	esac
	[ -f "$directory/daemon" ] || fail "nodes.sh start did not make $directory"
}

# When a process was started: field 22 of its stat, where the second one may have spaces. Fails if it has ended.
started()
{
	local stat fields
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	read -ra fields <<<"${stat##*) }"
	[ "${fields[0]}" != Z ] || return 1 # its parent has not looked yet
	echo "${fields[19]}"
}

# The PID that a file has, unless the process has ended: another one may have its PID by now.
process_of()
{
	local pid start
	read -r pid start <"$1" && [ -n "$start" ] && [ "$(started "$pid")" = "$start" ] && echo "$pid"
}

holder()
{
	process_of "$directory/$1.pid" || fail "$1 has ended: nodes.sh stop"
}

# A process that does nothing and has the namespaces: run in the background, its PID and its start in a file.
hold()
{
	# /proc is that of this machine until it is mounted anew, and has the PID by which we know the process.
	# shellcheck disable=SC2016 # for the inner shell
	setsid unshare "$@" --fork --kill-child bash -c 'read -ra stat </proc/self/stat
		[ "$1" = bridge ] || mount -t proc proc /proc
		trap "" CHLD # what dies in the node leaves no zombie
		echo "${stat[0]} ${stat[21]}" >"$0.new"; mv "$0.new" "$0"; exec sleep infinity' \
		"$directory/$name.pid" "$name" </dev/null >/dev/null 2>&1 &
	until [ -s "$directory/$name.pid" ]; do
		kill -0 $! 2>/dev/null || fail "no namespace could be made for $name"
		sleep 0.02
	done
	echo "$! $(started $!)" >"$directory/$name.parent"
}

enter()
{
	local pid
	pid=$(holder "$1") || exit
	nsenter -t "$pid" "${@:2}"
}

# What a command of a node begins with.
place()
{
	local cpus
	cpus=$(nproc --all)
	[ -z "${NODES_APART:-}" ] || echo "taskset -c $((($1 - 1) % cpus))"
}

environment()
{
	echo "CENOTE_DEVICE=${CENOTE_DEVICE:-host}" \
		"CENOTE_IMEX_DIR=$directory/channels CENOTE_RUNTIME_DIR=$directory/node$1/run" \
		"CENOTE_FABRIC_DIR=$directory/node$1/fabric CENOTE_IMEX_SOCKET=$directory/node$1/run/imex"
}

start_node()
{
	local bridge pid
	name=node$1
	mkdir -p "$directory/$name/run" "$directory/$name/fabric"
	chmod 0700 "$directory/$name/run"
	chmod 1777 "$directory/$name/fabric"
	hold --net --mount --pid
	bridge=$(holder bridge)
	pid=$(holder "$name")
	ip link add "cenote$1" netns "$bridge" type veth peer name eth0 netns "$pid"
	enter bridge --net ip link set "cenote$1" master nodes up
	enter "$name" --net ip address add "10.77.0.$1/24" dev eth0
	enter "$name" --net ip link set eth0 up
	enter "$name" --net ip link set lo up
	boot "$1"
}

# Its log grows.
boot()
{
	local pid daemon arguments=(--nodes "$directory/nodes_config.cfg")
	pid=$(holder "node$1")
	daemon=$(cat "$directory/daemon")
	[ "${daemon%-ucx}" != "$daemon" ] || arguments+=(--key "$directory/key")
	[ -z "${NODES_SUPERVISE:-}" ] || arguments+=(--supervise)
	# shellcheck disable=SC2046 # a list of variables
	(exec nsenter -t "$pid" --net --mount --pid env $(environment "$1") \
		setsid $(place "$1") "$daemon" "${arguments[@]}") </dev/null >/dev/null 2>>"$directory/node$1.log" &
}

# All but the process that has the namespaces. Returns when they are gone, and with them their sockets and locks.
kill_node()
{
	# shellcheck disable=SC2016 # for the inner shell
	enter "node$1" --mount --pid bash -c 'kill -KILL -1 2>/dev/null
		gone() { for entry in /proc/[0-9]*; do case ${entry#/proc/} in 1 | $$) ;; *) return 1 ;; esac; done; }
		until gone; do sleep 0.01; done'
}

# Between node N and the bridge come two more ends of links, and frames go from one to the other through a program.
wire()
{
	local name="cenote$1" bridge
	bridge=$(holder bridge)
	if ! enter bridge --net ip link show "wire$1" >/dev/null 2>&1; then
		enter bridge --net ip link add name "wire$1" type veth peer name "port$1"
		enter bridge --net ip link set "$name" nomaster promisc on
		enter bridge --net ip link set "wire$1" promisc on up
		enter bridge --net ip link set "port$1" master nodes up
		# Frames as long as on a real wire, where one of 64 KiB would hold up all others.
		enter bridge --net ip link set "port$1" gso_max_size 1500 gso_max_segs 1
		enter "node$1" --net ip link set eth0 gso_max_size 1500 gso_max_segs 1
	fi
	exec nsenter -t "$bridge" --net python3 "$here/scripts/nodes_wire.py" "$name" "wire$1" "${@:2}"
}

start()
{
	case ${1:-} in
	[1-9] | [1-2][0-9] | 3[0-2]) ;;
	*) fail "start COUNT: from 1 to 32 (more would fill the system's table of neighbours, net.ipv4.neigh)" ;;
	esac
	check_rights
	daemon=$(find_daemon)
	make_directory
	echo "$daemon" >"$directory/daemon"
	mkdir "$directory/channels"
	: >"$directory/channels/channel0"
	for ((i = 1; i <= $1; i++)); do
		echo "10.77.0.$i"
	done >"$directory/nodes_config.cfg"
	(umask 077; od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$directory/key")
	name=bridge
	hold --net
	enter bridge --net ip link add nodes type bridge
	enter bridge --net ip link set nodes up
	for ((i = 1; i <= $1; i++)); do
		start_node "$i"
	done
}

run()
{
	local pid
	[ $# -gt 1 ] || fail "run N COMMAND...: which command?"
	pid=$(holder "node$1")
	# shellcheck disable=SC2046 # a list of variables
	exec nsenter -t "$pid" --net --mount --pid env -C "$PWD" $(environment "$1") \
		$(place "$1") "${@:2}"
}

# Returns when all processes are gone. The one that has a PID namespace is the last to end there.
stop()
{
	local pid
	for file in "$directory"/*.parent; do
		if [ -e "$file" ] && pid=$(process_of "$file"); then
			kill -KILL "$pid" 2>/dev/null || true # what is in the namespaces ends with it
		fi
	done
	for file in "$directory"/*.pid; do
		while [ -e "$file" ] && process_of "$file" >/dev/null; do
			sleep 0.01
		done
	done
	rm -rf "$directory"
}

case ${1:-} in
start) directory=${3:-$directory} ;;
stop) directory=${2:-$directory} ;;
esac
directory=$(realpath -sm "$directory") # from any folder, and without a slash that would follow a link
case ${1:-} in
run | cut | mend | kill | boot | wire)
	check_directory
	[ -e "$directory/node${2:-}.pid" ] || fail "there is no node '${2:-}'"
	;;
stop) check_directory ;;
esac
case ${1:-} in
start)
	start "${2:-}"
	echo "$2 nodes. Their list, key and logs: $directory"
	;;
run) run "$2" "${@:3}" ;;
cut) enter bridge --net ip link set "cenote$2" down ;;
mend) enter bridge --net ip link set "cenote$2" up ;;
kill) kill_node "$2" ;;
boot) boot "$2" ;;
wire) wire "${@:2}" ;;
stop) stop ;;
*) sed -n '4,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
