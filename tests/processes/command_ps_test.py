#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of cenote ps, top and map: processes that share, and what the command says of them.

    command_ps_test.py BUILD_DIRECTORY

Exporters and importers are Python processes with ctypes. They do what they are told, line by line, and say when they
have done it, so nothing is waited for by the clock.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import Skip, open_terminal, run_tests  # pylint: disable=wrong-import-position

MIB = 1 << 20
BLOCK = 3 * MIB
FIRST_USER, SECOND_USER = 64123, 64124
LIMIT_S = 60


# ---- Processes that share ----


class Location(ctypes.Structure):
    """CUmemLocation"""
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps"""
    _fields_ = [("allocType", ctypes.c_int), ("handleTypes", ctypes.c_int), ("location", Location),
                ("win32SecurityAttributes", ctypes.c_void_p), ("maxSize", ctypes.c_size_t),
                ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54)]


class Role:
    """What a process does that the test has started."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.cenote_last_error.restype = ctypes.c_char_p
        self.pool, self.blocks = ctypes.c_void_p(), []
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        """Calls a function, which must succeed."""
        result = getattr(self.library, name)(*arguments)
        if result:
            sys.exit(f"{name}: {result}: {self.library.cenote_last_error().decode()}")

    def create(self):
        """Makes a pool."""
        properties = PoolProperties(1, 1, Location(1, 0))
        self.call("cuMemPoolCreate", ctypes.byref(self.pool), ctypes.byref(properties))

    def allocate(self, size=BLOCK):
        """Allocates a block."""
        self.blocks.append(ctypes.c_uint64())
        self.call("cuMemAllocFromPoolAsync", ctypes.byref(self.blocks[-1]), ctypes.c_size_t(int(size)), self.pool, None)

    def watch(self):
        """Makes the pool a shared one, for nobody yet."""
        descriptor = ctypes.c_int()
        self.call("cenote_pool_watch", self.pool, ctypes.byref(descriptor))

    def send_pool(self, sock):
        """Sends the pool over a socket."""
        self.call("cenote_send_pool", int(sock), self.pool)

    def send_block(self, sock, number):
        """Sends a block."""
        self.call("cenote_send_block", int(sock), self.blocks[int(number)], None)

    def receive_pool(self, sock):
        """Imports a pool."""
        self.call("cenote_recv_pool", int(sock), ctypes.byref(self.pool))

    def receive_block(self, sock):
        """Imports a block."""
        self.blocks.append(ctypes.c_uint64())
        self.call("cenote_recv_block", int(sock), self.pool, ctypes.byref(self.blocks[-1]),
                  ctypes.byref(ctypes.c_void_p()))

    def free(self, number):
        """Frees a block, and waits until that has happened."""
        self.call("cuMemFreeAsync", self.blocks[int(number)], None)
        self.call("cuStreamSynchronize", None)

    def become(self, user):
        """Is another user from now on."""
        os.setresgid(int(user), int(user), int(user))
        os.setresuid(int(user), int(user), int(user))
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: who changes its user may not look into its own /proc


def play(library, user):
    """Does what is read, line by line, and says so."""
    if user:
        Role.become(None, user)
    role = Role(library)
    print("ready", flush=True)
    for line in sys.stdin:
        name, *arguments = line.split()
        getattr(role, name)(*arguments)
        print("done", flush=True)


class Player:
    """The test's end of such a process."""

    def __init__(self, test, sockets, user, prefix):
        self.process = subprocess.Popen([*prefix, sys.executable, __file__, "--play", str(test.library), str(user or "")],
                                        env=test.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        pass_fds=[end.fileno() for end in sockets], encoding="utf-8")
        self.pid = self.process.pid
        test.players.append(self)
        self.answer("ready")

    def answer(self, wanted):
        """The process says what is wanted; one that is gone says nothing."""
        line = self.process.stdout.readline().strip()
        assert line == wanted, f"a process that shares said {line!r}"

    def tell(self, *words):
        """Has it do something."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        self.answer("done")

    def end(self):
        """Lets it end."""
        self.process.stdin.close()
        assert self.process.wait() == 0

    def kill(self):
        """Ends it whatever it does."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


# ---- The command at a terminal ----


class Terminal:
    """A command whose standard input and output are a terminal of the test's."""

    def __init__(self, command, variables, rows=24, columns=110):
        self.screen, self.other = open_terminal()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.other)
        self.process = subprocess.Popen([str(word) for word in command], env={**variables, "TERM": "xterm"},
                                        stdin=self.other, stdout=self.other, stderr=subprocess.PIPE,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.text = ""

    def resize(self, rows, columns):
        """Makes the terminal larger or smaller."""
        fcntl.ioctl(self.other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, *parts):
        """Reads until all of these have come, one after the other; what stood before the last."""
        end, passed = time.monotonic() + LIMIT_S, ""
        for part in parts:
            while part not in self.text:
                ready, _, _ = select.select([self.screen], [], [], max(0, end - time.monotonic()))
                assert ready, f"{part!r} does not come; this did: {self.text[-2000:]!r}"
                try:
                    self.text += os.read(self.screen, 65536).decode()
                except OSError as error:
                    assert error.errno == errno.EIO, error
                    raise AssertionError(f"{part!r} has not come, and the terminal is closed") from None
            passed, self.text = self.text.split(part, 1)
        return passed

    def read_frame(self):
        """The next whole frame."""
        return self.read_until("\033[H", "\033[J")

    def key(self, key):
        """Presses a key."""
        os.write(self.screen, key.encode())

    def end(self):
        """How it ended; the terminal must be as it was."""
        self.read_until("\033[?25h", "\033[?1049l")
        status = self.process.wait(LIMIT_S)
        after = termios.tcgetattr(self.other)
        assert after == self.before, (after, self.before)
        complaint = self.process.stderr.read().decode()
        assert not complaint, complaint
        return status

    def close(self):
        """Takes everything away."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        os.close(self.screen)
        os.close(self.other)


def contains(text, *parts):
    """All parts stand in a text."""
    for part in parts:
        if part not in text:
            raise AssertionError(f"{part!r} is not in {text!r}")


# ---- Tests ----


class Test:
    """A folder for the processes of a test to meet in, and the command."""

    def __init__(self, build, folder):
        self.cenote, self.library = Path(build) / "bin" / "cenote", Path(build) / "lib" / "libcenote.so"
        self.folder, self.runtime = Path(folder), Path(folder) / "runtime"
        self.players, self.things = [], contextlib.ExitStack()

    def environment(self, **variables):
        """The environment of a process that meets the others."""
        passed = {name: value for name, value in os.environ.items() if not name.startswith(("CENOTE_", "LC_"))
                  and name not in ("CUDA_VISIBLE_DEVICES", "LANG", "LD_LIBRARY_PATH", "NO_COLOR", "TERM")}
        return {**passed, "CENOTE_DEVICE": "host", "CENOTE_HOST_MEMORY": "1G",
                "CENOTE_RUNTIME_DIR": str(self.runtime), "CENOTE_FABRIC_DIR": str(self.folder / "fabric"), **variables}

    def run(self, *words, status=0, command=None, **settings):
        """What the command prints on both channels; it must end with this status."""
        done = subprocess.run([str(command or self.cenote), *map(str, words)], env=self.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", check=False, timeout=LIMIT_S, **settings)
        assert done.returncode == status, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout, done.stderr

    def ask(self, **settings):
        """The processes that cenote ps tells of."""
        return json.loads(self.run("ps", "--json", **settings)[0])["processes"]

    def start(self, *sockets, user=None, prefix=()):
        """A process that will share, and has these sockets; a command may stand before it."""
        return Player(self, sockets, user, prefix)

    def pair(self):
        """Two ends of a socket."""
        return [self.things.enter_context(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)]

    def exporter_and_importers(self, importer_count, block_count, exporter_prefix=(), importer_prefix=()):
        """An exporter with blocks, and importers that have imported its pool."""
        pairs = [self.pair() for _ in range(importer_count)]
        exporter = self.start(*(left for left, _ in pairs), prefix=exporter_prefix)
        exporter.tell("create")
        for _ in range(block_count):
            exporter.tell("allocate")
        importers = []
        for left, right in pairs:
            importer = self.start(right, prefix=importer_prefix)
            exporter.tell("send_pool", left.fileno())
            importer.tell("receive_pool", right.fileno())
            importer.give = lambda number, importer=importer, left=left, right=right: (
                exporter.tell("send_block", left.fileno(), number), importer.tell("receive_block", right.fileno()))
            importers.append(importer)
        return exporter, importers

    def close(self):
        """Ends what a test has left."""
        for player in self.players:
            player.kill()
        self.things.close()


def nobody_shares(test):
    """No process, no directory: that is no error."""
    text, complaint = test.run("ps")
    assert text == "no process of this user shares anything\n" and not complaint, text + complaint
    assert test.ask() == []
    contains(test.run("top", "--once")[0], "no process of this user")
    contains(test.run("map", status=1)[1], "no process of this user shares a pool")
    assert not test.runtime.exists()  # who looks makes nothing


def no_verdict_after_an_error(test):
    """Where nobody could look, nobody says that there is nothing."""
    test.runtime = Path("near")
    for words in (["ps"], ["top", "--once"], ["map"], ["map", "abcd"]):
        text, complaint = test.run(*words, status=1)
        contains(complaint, f"cenote {words[0]}: ", "absolute path")
        assert not text and len(complaint.splitlines()) == 1, text + complaint
    told = json.loads(test.run("ps", "--json", status=1)[0])
    assert told["processes"] == [], told
    contains(told["error"], "absolute path")


def says_who_holds_what(test):
    """Two importers of one pool: what each holds, what is freed and waits, and for whom."""
    exporter, (first, second) = test.exporter_and_importers(2, 4)
    first.give(0)
    first.give(1)
    second.give(1)
    [process] = test.ask()
    assert process["pid"] == process["pid_there"] == exporter.pid and process["answers"], process
    assert process["uid"] == os.geteuid() and process["program"].startswith("python"), process
    assert process["directory"] == str(test.runtime) and re.fullmatch("[0-9a-f]{32}", process["name"]), process
    [pool] = process["pools"]
    assert pool["used_bytes"] == 4 * BLOCK and pool["reserved_bytes"] == 32 * MIB, pool
    assert (pool["exported_blocks"], pool["exported_bytes"]) == (2, 2 * BLOCK), pool
    assert (pool["deferred_blocks"], pool["deferred_bytes"]) == (0, 0) and pool["place"] == "device 0", pool
    by_pid = {importer["pid"]: importer for importer in pool["importers"]}
    assert set(by_pid) == {first.pid, second.pid} and len(pool["importers"]) == 2, pool
    one, other = by_pid[first.pid], by_pid[second.pid]
    assert (one["held_blocks"], one["held_bytes"], one["deferred_blocks"]) == (2, 2 * BLOCK, 0), one
    assert (other["held_blocks"], other["held_bytes"], other["waiting_ns"]) == (1, BLOCK, 0), other
    assert one["uid"] == os.geteuid() and one["program"].startswith("python") and not one["leaving"], one
    assert one["age_ns"] > 0 and not one["deferred_at_least"], one

    exporter.tell("free", 1)
    exporter.tell("free", 3)  # was never exported: comes back at once
    [pool] = test.ask()[0]["pools"]
    assert (pool["deferred_blocks"], pool["deferred_bytes"]) == (1, BLOCK), pool
    assert pool["used_bytes"] == 3 * BLOCK and pool["exported_blocks"] == 2, pool
    assert all(importer["deferred_blocks"] == 1 and importer["deferred_bytes"] == BLOCK and importer["waiting_ns"] > 0
               for importer in pool["importers"]), pool
    text, _ = test.run("ps")
    contains(text, f"{exporter.pid} ", pool["id"][:8], f"\n  {first.pid} ", f"\n  {second.pid} ", " WAITED\n",
             "1 process, 1 shared pool, 32M reserved, 3.0M freed and held by importers\n")
    assert "\033" not in text

    first.tell("free", 1)
    second.kill()
    while True:  # that it is gone is noticed, and its block comes back, in its time
        [pool] = test.ask()[0]["pools"]
        if not pool["deferred_blocks"] and len(pool["importers"]) == 1:
            break
    assert pool["exported_blocks"] == 1 and pool["importers"][0]["pid"] == first.pid, pool
    exporter.end()
    assert test.ask() == [] and not list(test.runtime.iterdir())  # who ends takes its name along


def every_pool_of_every_process(test):
    """Several processes with several pools; one that is killed is not told of, and leaves the others."""
    players = [test.start() for _ in range(3)]
    for player in players:
        for _ in range(3):
            player.tell("create")
            player.tell("watch")
    told = {process["pid"]: process["pools"] for process in test.ask()}
    assert set(told) == {player.pid for player in players}, told
    assert all(len(pools) == 3 for pools in told.values()), told
    ids = [pool["id"] for pools in told.values() for pool in pools]
    assert len(set(ids)) == 9, ids
    players[0].kill()
    assert {process["pid"] for process in test.ask()} == {player.pid for player in players[1:]}
    contains(test.run("map", status=1)[1], "which of 6 pools")
    contains(test.run("map", "", status=2)[1], "is no pool")


def one_that_is_stopped_does_not_answer(test):
    """It is shown as such, and the others are told all the same."""
    stopped, other = test.start(), test.start()
    for player in (stopped, other):
        player.tell("create")
        player.tell("watch")
    os.kill(stopped.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    told = {process["pid"]: process for process in test.ask()}
    assert not told[stopped.pid]["answers"] and told[stopped.pid]["pools"] == [], told
    assert told[other.pid]["answers"] and len(told[other.pid]["pools"]) == 1, told
    os.kill(stopped.pid, signal.SIGCONT)
    assert all(process["answers"] for process in test.ask())


def across_containers(test):
    """Processes in another PID namespace are told of; a PID that means nothing here is not shown."""
    apart = ("unshare", "--pid", "--fork", "--kill-child")
    if not shutil.which("unshare") or subprocess.run([*apart, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("no PID namespace can be made here")
    _, [importer] = test.exporter_and_importers(1, 1, exporter_prefix=apart)
    importer.give(0)
    [process] = test.ask()
    assert process["answers"] and process["pid_there"] == 1 and process["pid"] > 1, process
    [importer] = process["pools"][0]["importers"]
    assert (importer["pid"], importer["program"], importer["held_blocks"]) == (0, "", 1), importer
    contains(test.run("ps")[0], "\n  ?  ")
    contains(test.run("map")[0], "that cannot be seen from here: 1 block")
    for player in test.players:
        player.kill()
    exporter, [importer] = test.exporter_and_importers(1, 1, importer_prefix=apart)
    importer.give(0)
    [process] = [process for process in test.ask() if process["pid"] == exporter.pid]
    [told] = process["pools"][0]["importers"]
    parent = Path(f"/proc/{told['pid']}/stat").read_text().rsplit(")", 1)[1].split()[1]
    assert int(parent) == importer.pid and told["held_blocks"] == 1, told  # `unshare` is what was started


def draws_a_pool(test):
    """Blocks, who holds them, and what is free, in the terminal, as JSON and as a drawing."""
    exporter, (first, second) = test.exporter_and_importers(2, 5)
    first.give(0)
    first.give(1)
    second.give(1)
    second.give(2)
    exporter.tell("free", 2)
    [pool] = test.ask()[0]["pools"]
    picture = json.loads(test.run("map", pool["id"][:6], "--json")[0])
    assert picture["pool"] == pool["id"] and picture["pid"] == exporter.pid, picture
    assert picture["bytes"] == 32 * MIB and len(picture["cells"]) == 1024, picture
    letters = {holder["pid"]: letter for letter, holder in picture["holders"].items()}
    a, b = letters[first.pid], letters[second.pid]
    cells_of_block = BLOCK * 1024 // (32 * MIB)
    wanted = a * cells_of_block + "+" * cells_of_block + b.upper() * cells_of_block + "#" * (2 * cells_of_block)
    assert picture["cells"] == wanted + "." * (1024 - len(wanted)), picture["cells"]
    text, _ = test.run("map")
    lines = text.splitlines()
    assert [line[8:] for line in lines[1:17]] == [picture["cells"][row:row + 64] for row in range(0, 1024, 64)], text
    contains(lines[0], pool["id"][:8], str(exporter.pid), "32K")
    contains(text, f"{a} {a.upper()}  is held by {first.pid}", "  +    is exported, and several hold it")
    drawing = test.folder / "map.svg"
    contains(test.run("map", pool["id"], "--svg", drawing)[0], str(drawing))
    root = xml.etree.ElementTree.parse(drawing).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
    contains("".join(root.itertext()), f"Pool {pool['id'][:8]} of {exporter.pid}", f"still held by {second.pid}")
    text, _ = test.run("map", "--svg", "-")
    assert text == drawing.read_text(), text
    contains(test.run("map", "--svg", "/absent/map.svg", status=1)[1], "/absent/map.svg")
    contains(test.run("map", "f" * 16, status=1)[1], "no process of this user shares a pool")


def draws_small_blocks(test):
    """A part of the picture is free only if nothing is in it; who holds something of it comes first."""
    exporter, [importer] = test.exporter_and_importers(1, 0)
    def cells():
        return json.loads(test.run("map", "--json")[0])["cells"]
    exporter.tell("allocate", 1000)
    assert cells() == "#" + "." * 1023
    exporter.tell("allocate", 1000)
    importer.give(1)
    assert cells() == "a" + "." * 1023
    exporter.tell("free", 1)
    assert cells() == "A" + "." * 1023
    importer.tell("free", 0)
    while cells() != "#" + "." * 1023:  # it comes back in its time
        pass


def refuses_what_it_does_not_understand(test):
    """Status 2, a sentence on standard error, and nothing on standard output."""
    for words, part in ((["ps", "--xml"], "--xml"), (["top", "--delay"], "--delay takes"), (["top", "9"], "'9'"),
                        (["top", "--delay", "no"], "--delay takes"), (["map", "xyz"], "'xyz' is no pool"),
                        (["map", "--svg"], "--svg takes"), (["map", "--json", "--svg", "x"], "not both"),
                        (["map", "a", "b"], "'b'")):
        text, complaint = test.run(*words, status=2)
        contains(complaint, part, f"Try: cenote help {words[0]}")
        assert not text, text
    for name in ("ps", "top", "map"):
        contains(test.run("help", name)[0], f"Usage: cenote {name}")
    text, complaint = test.run("top", status=1)
    contains(complaint, "no terminal", "--once")
    assert not text, text


def top_follows(test):
    """The whole screen, again and again, in its size; q ends it, and the terminal is as it was."""
    player = test.start()
    player.tell("create")
    player.tell("watch")
    terminal = Terminal([test.cenote, "top", "--delay", "0.1"], test.environment())
    test.things.callback(terminal.close)
    terminal.read_until("\033[?1049h", "\033[?25l", "cenote top", "PID", str(player.pid), "1 process,", "\033[J")
    other = test.start()
    other.tell("create")
    other.tell("watch")
    terminal.read_until(str(other.pid), "2 processes,")
    terminal.resize(3, 20)
    while True:  # until the frames have the new size
        lines = re.sub("\033\\[[0-9;]*[mK]", "", terminal.read_frame()).replace("\r", "").split("\n")
        if len(lines) == 3:
            break
    assert all(len(line) <= 20 for line in lines), lines
    contains(lines[0], "cenote top  ")
    contains(lines[1], "PID")
    terminal.key("q")
    assert terminal.end() == 0


def top_leaves_the_terminal_when_it_is_killed(test):
    """A signal that ends it ends it, and the terminal is as it was."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        terminal = Terminal([test.cenote, "top"], test.environment())
        test.things.callback(terminal.close)
        terminal.read_until("\033[?1049h", "no process of this user", "\033[J")
        if number == signal.SIGINT:
            terminal.key("\x03")
        else:
            terminal.process.send_signal(number)
        assert terminal.end() == -number


def other_users_are_not_shown(test):
    """One user's processes are not another's to see, though he names their directory."""
    if os.geteuid() != 0:
        raise Skip("only root may become another user")
    test.folder.chmod(0o755)
    (test.folder / "bin").mkdir()
    (test.folder / "lib").mkdir()
    shutil.copy(test.cenote, test.folder / "bin" / "cenote")
    for library in test.library.parent.glob("libcenote.so*"):
        shutil.copy(library, test.folder / "lib" / library.name)
    command = test.folder / "bin" / "cenote"
    test.runtime.mkdir(0o700)
    os.chown(test.runtime, FIRST_USER, FIRST_USER)
    try:
        player = test.start(user=FIRST_USER)
    except (AssertionError, OSError):
        raise Skip("another user cannot run this Python or open the library") from None
    player.tell("create")
    player.tell("watch")
    def ask_as(user, **settings):
        return test.run("ps", "--json", command=command, cwd="/", user=user, group=user, extra_groups=[], **settings)
    [process] = json.loads(ask_as(FIRST_USER)[0])["processes"]
    assert process["pid"] == player.pid and process["uid"] == FIRST_USER and len(process["pools"]) == 1, process
    for user in (SECOND_USER, 0):
        text, complaint = ask_as(user, status=1)
        assert json.loads(text)["processes"] == [], text
        contains(complaint, str(test.runtime))
    test.runtime.chmod(0o777)  # even where the directory would let him in
    text, complaint = ask_as(SECOND_USER, status=1)
    assert json.loads(text)["processes"] == [], text
    contains(complaint, "belongs to another user")


TESTS = (nobody_shares, no_verdict_after_an_error, says_who_holds_what, every_pool_of_every_process,
         one_that_is_stopped_does_not_answer, across_containers, draws_a_pool, draws_small_blocks,
         refuses_what_it_does_not_understand, top_follows, top_leaves_the_terminal_when_it_is_killed,
         other_users_are_not_shown)


def run_one(build, body):
    """Runs one with a folder and processes of its own."""
    with tempfile.TemporaryDirectory(prefix="cenote-test-") as folder:
        test = Test(build, folder)
        try:
            body(test)
        finally:
            test.close()


def main(build, *names):
    """Runs all, or those that are named; True when all passed."""
    return run_tests([(body.__name__, functools.partial(run_one, build, body))
                      for body in TESTS if not names or body.__name__ in names])


if __name__ == "__main__":
    if sys.argv[1] == "--play":
        play(sys.argv[2], sys.argv[3])
    else:
        sys.exit(0 if main(*sys.argv[1:]) else 1)
