#!/bin/bash
# SPDX-License-Identifier: MIT
#
# cenoted under a real systemd, with the units of packaging/systemd: socket activation, the descriptor store, a daemon
# that is killed, restart, re-execution of systemd itself, and stop. docs/kept.md says what comes of it.
#
#     try_systemd.sh BUILD
#
# Needs root, systemd and overlayfs. systemd is PID 1 of namespaces of its own (processes, mounts, control groups), on a
# copy-on-write view of this machine's files; nothing of the machine is changed.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)

# What a boot would do to the machine itself, or what a namespace has no use for.
masked="systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service
	systemd-modules-load.service systemd-sysctl.service systemd-random-seed.service systemd-remount-fs.service
	systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service systemd-sysusers.service
	systemd-update-utmp.service systemd-journald.service systemd-journald.socket
	systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-journal-flush.service
	kmod-static-nodes.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount dev-hugepages.mount
	dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount
	systemd-timesyncd.service systemd-resolved.service systemd-networkd.service local-fs.target swap.target
	modprobe@.service systemd-pstore.service systemd-ask-password-console.path systemd-ask-password-wall.path"

# ---- PID 1 of the namespaces ----

boot()
{
	local root=$1
	mount --make-rprivate /
	mount -t tmpfs tmpfs "$root"
	mkdir "$root/upper" "$root/work" "$root/all"
	mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/all"
	cd "$root/all"
	mount -t proc proc proc
	mount --bind proc/sys proc/sys
	mount -o remount,bind,ro proc/sys
	mount --rbind /dev dev
	mount -t sysfs -o ro sysfs sys
	mount -t tmpfs tmpfs sys/fs/cgroup
	mount -t tmpfs tmpfs run
	mount --bind "$here" ".$here"
	mount --bind "$build" ".$build"
	umount sys/fs/cgroup
	mount -t cgroup2 cgroup2 sys/fs/cgroup
	rm -rf etc/systemd/system
	mkdir -p etc/systemd/system
	install "$build/src/cenoted" usr/bin/cenoted
	cp "$here/packaging/systemd/cenoted.socket" etc/systemd/system/
	sed 's,@bindir@,/usr/bin,' "$here/packaging/systemd/cenoted.service.in" > etc/systemd/system/cenoted.service
	for unit in $masked; do
		ln -sf /dev/null "etc/systemd/system/$unit"
	done
	printf '[Unit]\nRequires=cenoted.socket\n' > etc/systemd/system/kept.target
	exec env -i container=cenote PATH=/usr/bin:/usr/sbin:/bin:/sbin \
		chroot . /lib/systemd/systemd --system --unit=kept.target --log-target=console --log-level=notice
}

if [ "${2:-}" = boot ]; then
	boot "$3"
fi

# ---- Outside ----

root=$(mktemp -d)
groups=$(mktemp -d)
group=$groups/cenote-$$
mount -t cgroup2 cgroup2 "$groups"
mkdir "$group"
(
	echo "$BASHPID" > "$group/cgroup.procs"
	exec unshare --mount --pid --fork --cgroup --uts --ipc "$0" "$build" boot "$root"
) >"$root.log" 2>&1 </dev/null &
unshare_pid=$!
init=

# All processes of a PID namespace end with its first one; then their groups are empty.
finish()
{
	[ -z "$init" ] || kill -9 "$init" 2>/dev/null || true
	wait "$unshare_pid" 2>/dev/null || true
	for _ in $(seq 50); do
		find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
		sleep 0.1
	done
	umount "$groups"
	rm -rf "$root" "$root.log" "$groups"
}
trap finish EXIT

inside()
{
	nsenter -t "$init" --mount --pid --cgroup --uts --ipc --root --wd=/ \
		env CENOTE_DEVICE=host CENOTE_RUNTIME_DIR=/run/test \
		PYTHONPATH="$build/python" PYTHONDONTWRITEBYTECODE=1 "$@"
}

for _ in $(seq 300); do
	init=$(tr -d ' ' < "/proc/$unshare_pid/task/$unshare_pid/children" 2>/dev/null || true)
	[ -n "$init" ] && inside systemctl is-active -q cenoted.socket 2>/dev/null && break
	sleep 0.1
done
if ! inside systemctl is-active -q cenoted.socket; then
	echo "systemd does not start here:"
	tail -20 "$root.log"
	exit 1
fi
inside systemctl --version | head -1
inside /usr/bin/python3 "$here/scripts/try_systemd.py"
