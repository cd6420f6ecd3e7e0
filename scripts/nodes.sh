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
#     nodes.sh stop                        end all of it
#
# A node is a network, a mount and a PID namespace; all are connected by a bridge in a namespace of its own, so nothing
# of this machine's network is touched. Node N has the address 10.77.0.N and directories of its own; its programs use
# the host device unless CENOTE_DEVICE says otherwise. Works as root; else it says why not. DIRECTORY (NODES_DIRECTORY,
# /tmp/cenote-nodes) has the list of nodes, the key, the channels and the logs. NODES_TRANSPORT=ucx starts
# cenote-imexd-ucx in place of cenote-imexd; NODES_DAEMON is the path of the latter. NODES_APART=1: node N has the CPU
# N - 1 alone, if there are as many.
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
	local suffix needs
	case $transport in
	tls) suffix='' needs='GnuTLS (libgnutls28-dev)' ;;
	ucx) suffix=-ucx needs='UCX (libucx-dev)' ;;
	*) fail "NODES_TRANSPORT is tls or ucx" ;;
	esac
	for candidate in "${NODES_DAEMON:-}" "$here/build/bin/cenote-imexd" "$(command -v cenote-imexd || true)"; do
		[ -z "$candidate" ] || [ ! -x "$candidate$suffix" ] || { realpath "$candidate$suffix"; return; }
	done
	fail "cenote-imexd$suffix was not built: it needs $needs"
}

# A process that does nothing and has the namespaces: run in the background, its PID in a file.
hold()
{
	# /proc is that of this machine until it is mounted anew, and has the PID by which we know the process.
	# shellcheck disable=SC2016 # for the inner shell
	setsid unshare "$@" --fork --kill-child bash -c 'read -r pid _ </proc/self/stat
		[ "$1" = bridge ] || mount -t proc proc /proc
		trap "" CHLD # what dies in the node leaves no zombie
		echo $pid >"$0.new"; mv "$0.new" "$0"; exec sleep infinity' "$directory/$name.pid" "$name" \
		</dev/null >/dev/null 2>&1 &
	until [ -s "$directory/$name.pid" ]; do
		kill -0 $! 2>/dev/null || fail "no namespace could be made for $name"
		sleep 0.02
	done
	echo $! >"$directory/$name.parent"
}

enter()
{
	nsenter -t "$(cat "$directory/$1.pid")" "${@:2}"
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
	name=node$1
	mkdir -p "$directory/$name/run" "$directory/$name/fabric"
	chmod 0700 "$directory/$name/run"
	chmod 1777 "$directory/$name/fabric"
	hold --net --mount --pid
	ip link add "cenote$1" netns "$(cat "$directory/bridge.pid")" \
		type veth peer name eth0 netns "$(cat "$directory/$name.pid")"
	enter bridge --net ip link set "cenote$1" master nodes up
	enter "$name" --net ip address add "10.77.0.$1/24" dev eth0
	enter "$name" --net ip link set eth0 up
	enter "$name" --net ip link set lo up
	boot "$1"
}

# Its log grows.
boot()
{
	local daemon arguments=(--nodes "$directory/nodes_config.cfg")
	daemon=$(cat "$directory/daemon")
	[ "${daemon%-ucx}" != "$daemon" ] || arguments+=(--key "$directory/key")
	# shellcheck disable=SC2046 # a list of variables
	(exec nsenter -t "$(cat "$directory/node$1.pid")" --net --mount --pid env $(environment "$1") \
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
	local name="cenote$1"
	if ! enter bridge --net ip link show "wire$1" >/dev/null 2>&1; then
		enter bridge --net ip link add name "wire$1" type veth peer name "port$1"
		enter bridge --net ip link set "$name" nomaster promisc on
		enter bridge --net ip link set "wire$1" promisc on up
		enter bridge --net ip link set "port$1" master nodes up
		# Frames as long as on a real wire, where one of 64 KiB would hold up all others.
		enter bridge --net ip link set "port$1" gso_max_size 1500 gso_max_segs 1
		enter "node$1" --net ip link set eth0 gso_max_size 1500 gso_max_segs 1
	fi
	exec nsenter -t "$(cat "$directory/bridge.pid")" --net \
		python3 "$here/scripts/nodes_wire.py" "$name" "wire$1" "${@:2}"
}

start()
{
	case ${1:-} in
	[1-9] | [1-2][0-9] | 3[0-2]) ;;
	*) fail "start COUNT: from 1 to 32 (more would fill the system's table of neighbours, net.ipv4.neigh)" ;;
	esac
	check_rights
	daemon=$(find_daemon)
	[ ! -e "$directory/bridge.pid" ] || fail "$directory is in use: nodes.sh stop"
	mkdir -p "$directory/channels"
	echo "$daemon" >"$directory/daemon"
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
	[ $# -gt 1 ] || fail "run N COMMAND...: which command?"
	# shellcheck disable=SC2046 # a list of variables
	exec nsenter -t "$(cat "$directory/node$1.pid")" --net --mount --pid env -C "$PWD" $(environment "$1") \
		$(place "$1") "${@:2}"
}

stop()
{
	for file in "$directory"/*.parent; do
		# What is in the namespaces ends with it.
		[ ! -e "$file" ] || kill -KILL "$(cat "$file")" 2>/dev/null || true
	done
	rm -rf "$directory"
}

case ${1:-} in
run | cut | mend | kill | boot | wire) [ -e "$directory/node${2:-}.pid" ] || fail "there is no node '${2:-}'" ;;
esac
case ${1:-} in
start)
	directory=${3:-$directory}
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
