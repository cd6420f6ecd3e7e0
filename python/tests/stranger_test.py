# SPDX-License-Identifier: MIT
"""What strangers attach to messages, and what recv() finds no room for."""

import contextlib
import os
import socket
import struct
import threading
import time

import cenote
import pytest
from cenote import _closer, _record, _socket
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
