# SPDX-License-Identifier: MIT
"""What strangers attach to messages, and what recv() finds no room for."""

import contextlib
import errno
import gc
import os
import resource
import socket
import struct
import threading
import time

import cenote
import pytest
from cenote import _closer, _record, _share, _socket
from socket_test import unread

PATIENCE_S = 30
LINGER_S = 3  # how long a test stands still that fails


def closers():
    """The threads that close what came."""
    return [thread for thread in threading.enumerate() if thread.name == "cenote-closer"]


def join_closers():
    """Wait until all is closed."""
    for thread in closers():
        thread.join(PATIENCE_S)
    assert not closers()


@contextlib.contextmanager
def lingering(count=1):
    """
    Sockets whose last close waits: for LINGER_S, or until this context ends. They are to be sent and closed here.
    """
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            sock.connect(server.getsockname())
            stack.enter_context(server.accept()[0])  # closed with bytes unread, it resets the connection
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sock.send(bytes(4096))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
            made.append(sock)
        yield made
    join_closers()


def send_away(sock, data, files):
    """Send files, and close them."""
    socket.send_fds(sock, [data], [file.fileno() for file in files])
    for file in files:
        file.close()


def stranger_message():
    """As long as one of cenote.send()."""
    return _socket.HEAD.pack(_socket.MAGIC, _record.BYTES_MAX) + bytes(_record.BYTES_MAX)


@pytest.mark.parametrize(("piece", "before", "match"), [
    (0, 0, "not Cenote's"), (0, 2, "too many"), (0, 15, "too many"), (30, 2, "too many"), (30, 15, "too many")])
def test_a_file_that_is_slow_to_close_holds_up_nobody(piece, before, match):
    """At any place among a message's descriptors, and with any part of it. Another thread is still closing it."""
    one, two = socket.socketpair()
    message = stranger_message()
    with lingering() as slow, one, two, open("/dev/null") as null:
        if piece:
            one.send(message[:piece])
        send_away(one, message[piece:], [open(os.dup(null.fileno())) for _ in range(before)] + slow)
        with pytest.raises(ValueError, match=match):
            cenote.recv(two)
        assert closers()


@pytest.fixture
def closer(monkeypatch):
    """The one closer, for what comes over a socketpair()."""
    monkeypatch.setattr(_closer, "_closers", {})
    return _closer.closer_of(None)


def wait_stuck(closer):
    """Until its thread is closing the last of what is left."""
    while closer.left or not closer.turn.locked():
        time.sleep(0)


def test_a_message_whose_every_byte_brings_files(closer):
    """It is refused with the first of them that is too many."""
    one, two = socket.socketpair()
    with lingering() as slow, one, two, open("/dev/null") as null:
        send_away(one, stranger_message()[:16], slow)
        for _ in range(8):
            socket.send_fds(one, [b"x"], [null.fileno()] * 10)
        with pytest.raises(ValueError, match="too many"):
            cenote.recv(two)
        assert unread(two) == 7 and len(closer.left) <= 11


def test_what_is_left_to_close_has_a_bound(pool, closer, monkeypatch):
    """One thread closes it. While too much is left, messages stay in their socket, and other users' are read."""
    monkeypatch.setattr(_closer, "LEFT_MAX", 2)
    one, two = socket.socketpair()
    with one, two:
        with lingering(4) as slow:
            for count, each in enumerate(slow):
                send_away(one, stranger_message(), [each])
                length = unread(two)
                with pytest.raises(ValueError, match="take long to close" if count == 3 else "not Cenote's"):
                    cenote.recv(two)
                if count == 0:
                    wait_stuck(closer)
                assert len(closers()) == 1 and len(closer.left) == min(count, 2)
            assert unread(two) == length
            _closer.closer_of(os.getuid() + 1)
        with pytest.raises(ValueError, match="not Cenote's"):
            cenote.recv(two)
        cenote.send(one, pool)
        assert cenote.recv(two).imported


def test_users_have_a_bound(closer, monkeypatch):
    """A user whose descriptors are closed makes room for another."""
    monkeypatch.setattr(_closer, "USERS_MAX", 2)
    first, last = _closer.closer_of(1), _closer.closer_of(2)
    assert closer is not _closer.closer_of(None) and _closer.closer_of(2) is last is not first
    with _closer.closer_of(None).turn, last.turn:
        assert _closer.closer_of(2) is last
        with pytest.raises(ValueError, match="2 other users"):
            _closer.closer_of(3)
    assert _closer.closer_of(3)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_closes_what_comes(closer):
    """The thread that has the turn is its parent's."""
    with lingering() as slow:
        one, two = socket.socketpair()
        with one, two:
            send_away(one, stranger_message(), slow)
            with pytest.raises(ValueError, match="not Cenote's"):
                cenote.recv(two)
        wait_stuck(closer)
        child = os.fork()
        if not child:
            os._exit(closer.turn.locked())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- Room ----


@contextlib.contextmanager
def no_descriptor_left(left):
    """This process can open only so many more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/dev/null") as null:
        used = [os.dup(null.fileno()) for _ in range(left)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    used.append(os.dup(null.fileno()))
            for each in used[:left]:
                os.close(each)
            yield
        finally:
            for each in used[left:]:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET], ids=lambda kind: kind.name)
@pytest.mark.parametrize("left", [0, 1])
def test_a_receiver_without_a_descriptor_is_told_so(pool, kind, left):
    """The message is lost, and its block comes back; the next one is received."""
    one, two = socket.socketpair(socket.AF_UNIX, kind)
    with one, two:
        cenote.send(one, pool.allocate(8))
        with no_descriptor_left(left), pytest.raises(OSError, match="is lost") as raised:
            cenote.recv(two)
        assert raised.value.errno == errno.EMFILE
        assert _share.keeper.wait_empty(PATIENCE_S) and pool.stats.live_blocks == 0
        cenote.send(one, pool.allocate(16))
        assert cenote.recv(two).nbytes == 16
    join_closers()


SO_PASSPIDFD = 76


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET], ids=lambda kind: kind.name)
@pytest.mark.parametrize("options", [[socket.SO_PASSCRED], [socket.SO_PASSSEC], [SO_PASSPIDFD],
                                     [socket.SO_PASSCRED, socket.SO_PASSSEC, SO_PASSPIDFD]])
def test_a_socket_that_says_who_sends(pool, kind, options):
    """What it says takes no room of the descriptors, and leaves none open."""
    one, two = socket.socketpair(socket.AF_UNIX, kind)
    with one, two:
        for option in options:
            try:
                two.setsockopt(socket.SOL_SOCKET, option, 1)
            except OSError as error:
                pytest.skip(f"this system has no such option: {error}")
        before = len(os.listdir("/proc/self/fd"))
        for size in range(8, 16):
            cenote.send(one, pool.allocate(size))
            assert cenote.recv(two).nbytes == size
        join_closers()
        assert _share.keeper.wait_empty(PATIENCE_S)
        _share.imports.handles.clear()
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) - before < 8
