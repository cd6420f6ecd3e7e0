#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Processes that share, the cenote command at a terminal, and a folder to meet in: for tests of cenote ps, top and map.

    sharers.py LIBRARY USER

Exporters and importers are Python processes with ctypes: this file, run as above. They do what they are told, line by
line, and say when they have done it, so nothing is waited for by the clock.
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import Skip, open_terminal, run_tests  # pylint: disable=wrong-import-position

MIB = 1 << 20
BLOCK = 3 * MIB
POSIX, FABRIC = 1, 8  # CU_MEM_HANDLE_TYPE_…
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


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp"""
    _fields_ = [("type", ctypes.c_int), ("requestedHandleTypes", ctypes.c_int), ("location", Location),
                ("win32HandleMetaData", ctypes.c_void_p), ("allocFlags", ctypes.c_ubyte * 8)]


class AccessDescription(ctypes.Structure):
    """CUmemAccessDesc"""
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Handle(ctypes.Structure):
    """CUipcMemHandle, CUipcEventHandle, CUmemFabricHandle"""
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Role:  # pylint: disable=too-many-public-methods
    """What a process does that the test has started."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.cenote_last_error.restype = ctypes.c_char_p
        self.pool, self.blocks = ctypes.c_void_p(), []
        self.memory, self.events, self.physical = [], [], []
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        """Calls a function, which must succeed."""
        result = getattr(self.library, name)(*arguments)
        if result:
            sys.exit(f"{name}: {result}: {self.library.cenote_last_error().decode()}")

    def create(self, handle_types=POSIX):
        """Makes a pool."""
        properties = PoolProperties(1, int(handle_types), Location(1, 0))
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

    def allocate_legacy(self, sock, size):
        """Allocates memory and sends a legacy handle of it."""
        handle = Handle()
        self.memory.append(ctypes.c_uint64())
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory[-1]), ctypes.c_size_t(int(size)))
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), self.memory[-1])
        os.write(int(sock), bytes(handle))

    def free_legacy(self, number):
        """Frees it."""
        self.call("cuMemFree_v2", self.memory[int(number)])

    def open_legacy(self, sock):
        """Opens memory by its handle."""
        handle = Handle.from_buffer_copy(os.read(int(sock), 64))
        self.memory.append(ctypes.c_uint64())
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(self.memory[-1]), handle, 1)

    def close_legacy(self, number):
        """Closes it."""
        self.call("cuIpcCloseMemHandle", self.memory[int(number)])

    def make_event(self, sock):
        """Makes an event and sends its handle."""
        handle = Handle()
        self.events.append(ctypes.c_void_p())
        self.call("cuEventCreate", ctypes.byref(self.events[-1]), 6)  # between processes, without times
        self.call("cuIpcGetEventHandle", ctypes.byref(handle), self.events[-1])
        os.write(int(sock), bytes(handle))

    def open_event(self, sock):
        """Opens an event."""
        handle = Handle.from_buffer_copy(os.read(int(sock), 64))
        self.events.append(ctypes.c_void_p())
        self.call("cuIpcOpenEventHandle", ctypes.byref(self.events[-1]), handle)

    def destroy_event(self, number):
        """Destroys one, made or opened."""
        self.call("cuEventDestroy_v2", self.events[int(number)])

    def create_memory(self, handle_types):
        """Makes physical memory."""
        properties = AllocationProperties(1, int(handle_types), Location(1, 0))
        self.physical.append(ctypes.c_uint64())
        self.call("cuMemCreate", ctypes.byref(self.physical[-1]), ctypes.c_size_t(2 * MIB), ctypes.byref(properties),
                  ctypes.c_ulonglong(0))

    def create_physical(self, sock):
        """Makes physical memory and sends its descriptor."""
        self.create_memory(POSIX)
        self.pass_on(sock)

    def create_by_fabric(self, sock):
        """Makes physical memory and sends its fabric handle."""
        handle = Handle()
        self.create_memory(FABRIC)
        self.call("cuMemExportToShareableHandle", ctypes.byref(handle), self.physical[-1], FABRIC,
                  ctypes.c_ulonglong(0))
        os.write(int(sock), bytes(handle))

    def import_by_fabric(self, sock):
        """Imports physical memory by its fabric handle."""
        handle = Handle.from_buffer_copy(os.read(int(sock), 64))
        self.physical.append(ctypes.c_uint64())
        self.call("cuMemImportFromShareableHandle", ctypes.byref(self.physical[-1]), ctypes.byref(handle), FABRIC)

    def send_pool_by_fabric(self, sock):
        """Sends the pool's fabric handle."""
        handle = Handle()
        self.call("cuMemPoolExportToShareableHandle", ctypes.byref(handle), self.pool, FABRIC, ctypes.c_ulonglong(0))
        os.write(int(sock), bytes(handle))

    def receive_pool_by_fabric(self, sock):
        """Imports a pool by its fabric handle."""
        handle = Handle.from_buffer_copy(os.read(int(sock), 64))
        self.call("cuMemPoolImportFromShareableHandle", ctypes.byref(self.pool), ctypes.byref(handle), FABRIC,
                  ctypes.c_ulonglong(0))

    def pass_on(self, sock):
        """Sends a descriptor of the last physical memory once more."""
        descriptor = ctypes.c_int()
        self.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), self.physical[-1], 1, ctypes.c_ulonglong(0))
        self.call("cenote_send_descriptor", int(sock), descriptor)
        os.close(descriptor.value)

    def allocate_alone(self, size):
        """Allocates memory, writes it, and tells nobody."""
        self.memory.append(ctypes.c_uint64())
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory[-1]), ctypes.c_size_t(int(size)))
        self.call("cuMemsetD8_v2", self.memory[-1], ctypes.c_ubyte(1), ctypes.c_size_t(int(size)))
        self.call("cuCtxSynchronize")

    def receive_descriptor(self, sock):
        """Takes a descriptor, and does nothing with it."""
        self.call("cenote_recv_descriptor", int(sock), ctypes.byref(ctypes.c_int()))

    def map_physical(self, sock):
        """Imports physical memory, maps it, and keeps nothing but the mapping."""
        descriptor, handle, address = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_uint64()
        access = AccessDescription(Location(1, 0), 3)
        self.call("cenote_recv_descriptor", int(sock), ctypes.byref(descriptor))
        self.call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor.value), 1)
        os.close(descriptor.value)
        self.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(2 * MIB), ctypes.c_size_t(0),
                  ctypes.c_uint64(0), ctypes.c_ulonglong(0))
        self.call("cuMemMap", address, ctypes.c_size_t(2 * MIB), ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0))
        self.call("cuMemSetAccess", address, ctypes.c_size_t(2 * MIB), ctypes.byref(access), ctypes.c_size_t(1))
        self.call("cuMemRelease", handle)

    def become(self, user):
        """Is another user from now on."""
        os.setresgid(int(user), int(user), int(user))
        os.setresuid(int(user), int(user), int(user))
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: a change of user clears it, and with it /proc/self


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
        self.process = subprocess.Popen([*prefix, sys.executable, __file__, str(test.library), str(user or "")],
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


def stop(player):
    """Stops a process, and waits until it is."""
    os.kill(player.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, player.pid, os.WSTOPPED | os.WNOWAIT)


# ---- Where they meet ----


class Test:
    """A folder for the processes of a test to meet in, and the command."""

    def __init__(self, build, folder):
        self.cenote, self.library = Path(build) / "bin" / "cenote", Path(build) / "lib" / "libcenote.so.1"
        self.folder, self.runtime = Path(folder), Path(folder) / "runtime"
        self.players, self.things, self.variables = [], contextlib.ExitStack(), {}

    def environment(self, **variables):
        """The environment of a process that meets the others."""
        passed = {name: value for name, value in os.environ.items() if not name.startswith(("CENOTE_", "LC_"))
                  and name not in ("CUDA_VISIBLE_DEVICES", "LANG", "LD_LIBRARY_PATH", "NO_COLOR", "TERM")}
        return {**passed, "CENOTE_DEVICE": "host", "CENOTE_HOST_MEMORY": "1G",
                "CENOTE_RUNTIME_DIR": str(self.runtime), "CENOTE_FABRIC_DIR": str(self.folder / "fabric"),
                **self.variables, **variables}

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

    def ask_private(self, player):
        """The memory that cenote ps finds in this process and in no other."""
        return [memory for memory in json.loads(self.run("ps", "--json")[0])["private"] if memory["pid"] == player.pid]

    def ask_physical(self, *players):
        """The physical memory that cenote ps finds in some of these; others on the machine may have some, too."""
        pids = {player.pid for player in players}
        return [physical for physical in json.loads(self.run("ps", "--json")[0])["physical"]
                if pids & {process["pid"] for process in physical["processes"]}]

    def table(self, *words, **settings):
        """What the command prints, without physical and private memory: processes that are none of the test's have some."""
        text, complaint = self.run(*words, **settings)
        rows = re.sub(r"^-  .* physical .*\n(?:  \d+ .* (?:has|maps) .*\n)*", "", text, flags=re.M)
        rows = re.sub(r"^\d+ .* private .*\n", "", rows, flags=re.M)
        rows = re.sub(r"^physical: (?:.*\n)*?.*\bhave\s+it\.\n", "", rows, flags=re.M)
        if rows != text:
            rows = re.sub(r"\APID .*\n(?=no |\Z)", "", rows)
            rows = rows.replace("shares pools, or gives out handles", "shares anything")
        return rows, complaint

    @staticmethod
    def need(reason, *command):
        """Skips a test where a command cannot be run."""
        if not shutil.which(command[0]) or subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
            raise Skip(reason)

    def start(self, *sockets, user=None, prefix=()):
        """A process that will share, and has these sockets; a command may stand before it."""
        return Player(self, sockets, user, prefix)

    def copy_for_others(self):
        """The command and its libraries, where every user can run them."""
        self.folder.chmod(0o755)
        (self.folder / "bin").mkdir()
        (self.folder / "lib").mkdir()
        shutil.copy(self.cenote, self.folder / "bin" / "cenote")
        for library in self.library.parent.glob("libcenote*.so.1"):
            shutil.copy(library, self.folder / "lib" / library.name)
        return self.folder / "bin" / "cenote"

    def start_as(self, user, *sockets):
        """A process of another user."""
        try:
            return self.start(*sockets, user=user)
        except (AssertionError, OSError):
            raise Skip("another user cannot run this Python or open the library") from None

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


@contextlib.contextmanager
def sharing(build):
    """A Test with a folder and processes of its own."""
    with tempfile.TemporaryDirectory(prefix="cenote-test-") as folder, contextlib.closing(Test(build, folder)) as test:
        yield test


def run_sharing(tests, build, *names):
    """Runs all tests, or those that are named, each with a Test; True when all passed."""
    def run_one(body):
        with sharing(build) as test:
            body(test)
    return run_tests([(body.__name__, functools.partial(run_one, body))
                      for body in tests if not names or body.__name__ in names])


if __name__ == "__main__":
    play(*sys.argv[1:])
