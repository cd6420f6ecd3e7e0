# SPDX-License-Identifier: MIT
"""What scripts/nodes.sh refuses: root runs it, in a directory whose name every user knows.

Usage: nodes_script_test.py BUILD.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/harness")]
from tap import Skip, by_name, run_tests  # pylint: disable=wrong-import-position

BUILD, NOBODY = Path(sys.argv[1]).resolve(), 65534
VERBS = [("run", 1, "true"), ("cut", 1), ("mend", 1), ("kill", 1), ("boot", 1), ("wire", 1), ("stop",)]


class Folder:
    """A folder for a test, and nodes.sh with its directory in there."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="cenote-nodes-"))
        self.nodes = self.path / "nodes"
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def shell(self, *arguments, **environment):
        """Returns its status and what it said; not by a pipe, which what it starts would keep open."""
        variables = {**os.environ, "NODES_DIRECTORY": str(self.nodes),
                     "NODES_DAEMON": str(BUILD / "src" / "cenote-imexd"), **environment}
        with open(self.path / "said", "w+", encoding="utf-8") as said:
            done = subprocess.run([ROOT / "scripts/nodes.sh", *map(str, arguments)], env=variables, cwd=self.path,
                                  stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=60, check=False)
            said.seek(0)
            return done.returncode, said.read().strip()

    def expect_refused(self, text, *arguments):
        """It fails with a sentence that has this in it."""
        status, said = self.shell(*arguments)
        assert status == 1 and said.startswith("nodes.sh: ") and text in said, (arguments, status, said)

    def start(self, *arguments):
        """Two nodes."""
        status, said = self.shell("start", 2, *arguments)
        if status:
            raise Skip(said)

    def plant(self):
        """What an intruder would: all the files of start, and a daemon that leaves a trace."""
        self.nodes.mkdir(mode=0o700)
        trap = self.path / "trap"
        trap.write_text(f"#!/bin/sh\ntouch {self.path}/trapped\n", encoding="ascii")
        trap.chmod(0o755)
        (self.nodes / "daemon").write_text(f"{trap}\n", encoding="ascii")
        with open(f"/proc/{os.getpid()}/stat", encoding="ascii") as stat:
            own = f"{os.getpid()} {stat.read().rsplit(')', 1)[1].split()[19]}\n"
        for name in ("bridge.pid", "node1.pid"):
            (self.nodes / name).write_text(own, encoding="ascii")

    def expect_untouched(self):
        """Nothing of it was run or removed."""
        assert (self.nodes / "daemon").exists() and not (self.path / "trapped").exists()


def a_directory_that_exists_is_not_taken():
    """Empty, with files, or a link, also one that leads nowhere; what is there stays as it is."""
    with Folder() as folder:
        folder.nodes.mkdir()
        status, said = folder.shell("start", 1)
        if status == 1 and "exists" not in said:
            raise Skip(said)
        assert status == 1 and not list(folder.nodes.iterdir()), said
        folder.nodes.rmdir()
        for target in ("elsewhere", "nowhere"):
            folder.nodes.symlink_to(folder.path / target)
            (folder.path / "elsewhere").mkdir(exist_ok=True)
            folder.expect_refused("exists", "start", 1)
            folder.expect_refused("exists", "start", 1, f"{folder.nodes}/")
            folder.nodes.unlink()
        assert not list((folder.path / "elsewhere").iterdir()) and not (folder.path / "nowhere").exists()


def a_directory_of_another_user_is_not_used():
    """Whatever files it has."""
    if os.getuid():
        raise Skip("only root can make a directory of another user")
    with Folder() as folder:
        folder.plant()
        os.chown(folder.nodes, NOBODY, NOBODY)
        for verb in VERBS:
            folder.expect_refused("another user", *verb)
        folder.expect_refused("another user", "stop", folder.nodes)
        folder.expect_untouched()


def a_link_and_an_open_directory_are_not_used():
    """Though it belongs to this user."""
    with Folder() as folder:
        folder.plant()
        other = folder.path / "other"
        folder.nodes.rename(other)
        folder.nodes.symlink_to(other)
        for verb in VERBS:
            folder.expect_refused("is a link", *verb)
        folder.expect_refused("is a link", "stop", f"{folder.nodes}//")
        folder.expect_untouched()
        folder.nodes.unlink()
        other.rename(folder.nodes)
        folder.nodes.chmod(0o777)
        for verb in VERBS:
            folder.expect_refused("open to others", *verb)
        folder.expect_untouched()


def a_directory_without_nodes_is_not_removed():
    """A user's own one, or none."""
    with Folder() as folder:
        folder.expect_refused("no nodes run", "stop")
        mine = folder.path / "mine"
        mine.mkdir(mode=0o700)
        (mine / "file").touch()
        folder.expect_refused("did not make", "stop", mine)
        assert (mine / "file").exists()


def a_process_that_has_an_old_pid_is_not_killed():
    """The file has the PID of a process that was started at another time; and one has no time at all."""
    with Folder() as folder, subprocess.Popen(["sleep", "1000"]) as sleeper:
        try:
            folder.plant()
            for name, start in (("bridge.pid", 1), ("node1.pid", 1), ("node1.parent", 1), ("node2.parent", "")):
                (folder.nodes / name).write_text(f"{sleeper.pid} {start}\n", encoding="ascii")
            folder.expect_refused("node1 has ended", "run", 1, "true")
            folder.expect_refused("node1 has ended", "boot", 1)
            folder.expect_refused("node1 has ended", "kill", 1)
            assert folder.shell("stop") == (0, "")
            assert sleeper.poll() is None and not folder.nodes.exists()
        finally:
            sleeper.kill()


def is_alive(pid):
    """And not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def start_and_stop_take_a_directory():
    """Which nobody else can read, relative to the folder or not; a second start is refused, and harms nothing."""
    with Folder() as folder:
        other = folder.path / "other"
        folder.start("other")
        try:
            assert other.stat().st_mode & 0o777 == 0o700
            folder.expect_refused("nodes.sh stop", "start", 2, other)
            assert folder.shell("run", 2, "true", NODES_DIRECTORY="other/") == (0, "")
            holders = [path.read_text(encoding="ascii").split()[0] for path in other.glob("*.pid")]
            assert len(holders) == 3, holders
        finally:
            stopped = folder.shell("stop", "other")
        assert stopped == (0, "") and not other.exists()
        assert not any(is_alive(holder) for holder in holders), holders


sys.exit(not run_tests(by_name(a_directory_that_exists_is_not_taken, a_directory_of_another_user_is_not_used,
                               a_link_and_an_open_directory_are_not_used, a_directory_without_nodes_is_not_removed,
                               a_process_that_has_an_old_pid_is_not_killed, start_and_stop_take_a_directory)))
