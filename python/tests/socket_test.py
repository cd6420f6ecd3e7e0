# SPDX-License-Identifier: MIT
"""send() and recv() over sockets, with other processes and against strangers."""

import os
import socket
import subprocess
import sys
import threading

import cenote
import numpy
import pytest
from cenote import _record, _share, _socket

KINDS = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM]
PATIENCE_S = 30


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def pair(request):
    """Two connected sockets of each kind."""
    one, two = socket.socketpair(socket.AF_UNIX, request.param)
    for each in (one, two):
        each.settimeout(PATIENCE_S)
    with one, two:
        yield one, two


def wait_empty():
    """Wait until everything has arrived or is lost."""
    assert _share.keeper._empty.wait(PATIENCE_S) and cenote.in_flight() == []


def descriptors():
    """How many are open."""
    return len(os.listdir("/proc/self/fd"))


def test_objects_come_as_they_went(pair, pool):
    one, two = pair
    view = cenote.share(numpy.arange(6, dtype="float32").reshape(2, 3), pool)
    event = cenote.Event(interprocess=True)
    cenote.send(one, view)
    cenote.send(one, view.block)
    cenote.send(one.fileno(), pool)
    again = cenote.recv(two)
    assert again.shape == (2, 3) and numpy.asarray(again).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert cenote.recv(two.fileno()).nbytes == 24
    assert cenote.recv(two).imported
    assert event.name
    with pytest.raises(TypeError, match="Stream"):
        cenote.send(one, view.block.stream)


def test_what_is_sent_may_be_dropped(pair, pool):
    one, two = pair
    for text in (b"one", b"two"):
        block = pool.allocate(3)
        block.copy_from(text)
        cenote.send(one, block)
        del block
    assert len(cenote.in_flight()) == 2 and pool.stats.live_blocks == 2
    assert [cenote.recv(two).tobytes() for _ in range(2)] == [b"one", b"two"]
    wait_empty()


def test_what_nobody_receives_comes_back(pair, pool):
    one, two = pair
    for _ in range(3):
        cenote.send(one, pool.allocate(10))
    two.close()
    wait_empty()
    assert pool.stats.live_blocks == 0


def test_the_receivers_stream_comes_after_the_senders(pool):
    """In one process: its own event cannot be opened, so the streams wait for each other."""
    one, two = socket.socketpair()
    gate = threading.Event()
    with one, two, cenote.Stream() as writer, cenote.Stream() as reader:
        block = pool.allocate(4, writer)
        writer.call(gate.wait)
        cenote.send(one, block)
        received = cenote.recv(two, reader)
        assert received.stream is reader and not reader.done
        gate.set()
        reader.synchronize()
        received.free()
        block.free()
    wait_empty()


RECEIVER = """
import cenote, socket, sys
with socket.socket(fileno=int(sys.argv[1])) as sock:
    pool = cenote.recv(sock)
    while True:
        try:
            block = cenote.recv(sock)
        except EOFError:
            break
        sock.send(block.tobytes())
        block.free()
"""


@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind.name)
def test_another_process(pool, kind):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with ours:
        with theirs:
            process = subprocess.Popen([sys.executable, "-c", RECEIVER, str(theirs.fileno())],
                                       pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
        ours.settimeout(PATIENCE_S)
        cenote.send(ours, pool)
        for text in (b"abc", b"defgh"):
            block = pool.allocate(len(text))
            block.copy_from(text)
            cenote.send(ours, block)
            del block
            assert ours.recv(100) == text
    assert process.communicate(timeout=PATIENCE_S)[1] == "" and process.returncode == 0
    wait_empty()


def test_a_connection_of_multiprocessing(pool):
    import multiprocessing
    one, two = multiprocessing.Pipe()
    with one, two:
        cenote.send(one, cenote.share(b"over a pipe", pool))
        assert bytes(cenote.recv(two)) == b"over a pipe"
        one.send("and its own messages")
        assert two.recv() == "and its own messages"


def test_sockets_that_cannot_carry_it(pool):
    with socket.socket(socket.AF_INET) as sock, pytest.raises((ValueError, OSError)):
        cenote.send(sock, pool)
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(OSError):
        cenote.send(sock, pool)
    one, two = socket.socketpair()
    two.close()
    with one:
        with pytest.raises(OSError):
            cenote.send(one, pool)
        with pytest.raises(EOFError):
            cenote.recv(one)
    wait_empty()


def test_a_socket_that_does_not_wait(pool):
    one, two = socket.socketpair()
    with one, two:
        two.setblocking(False)
        with pytest.raises(BlockingIOError):
            cenote.recv(two)
        cenote.send(one, pool)
        assert cenote.recv(two).imported


# ---- Strangers ----


def good_message(pool):
    """The bytes of a message."""
    data = _record.write(_share.describe(pool.allocate(8), False))
    return _socket.HEAD.pack(_socket.MAGIC, len(data)) + data


def test_damaged_messages_are_refused(pool):
    message = good_message(pool)
    pieces = [b"x", b"x" * 16, message[:16], message[:40], b"x" * len(message),
              _socket.HEAD.pack(_socket.MAGIC, 1 << 60), message[:16] + b"\0" * (len(message) - 16),
              message]  # the last is whole, but came without a descriptor
    before = descriptors()
    for piece in pieces:
        one, two = socket.socketpair()
        with one, two:
            one.sendall(piece)
            one.shutdown(socket.SHUT_WR)
            with pytest.raises((ValueError, EOFError)):
                cenote.recv(two)
    assert descriptors() <= before  # an earlier test's may have been closed meanwhile


def test_wrong_descriptors_are_refused_and_closed(pool):
    message = good_message(pool)
    before = descriptors()
    with open("/dev/null") as null:
        for count in (0, 1, 2, 3, 10):
            one, two = socket.socketpair()
            with one, two:
                socket.send_fds(one, [message], [null.fileno()] * count)
                with pytest.raises((ValueError, cenote.CudaError)):
                    cenote.recv(two)
    assert descriptors() <= before  # an earlier test's may have been closed meanwhile


def test_any_damaged_byte_is_an_error_or_harmless(pool):
    block = pool.allocate(8)
    block.copy_from(b"original")
    data = _record.write(_share.describe(block, False))
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0xff
        try:
            thing = _share.rebuild(_record.read(bytes(damaged))._replace(token=0))
        except (ValueError, ConnectionError, OverflowError, TypeError, cenote.CudaError):
            continue
        assert thing.imported
        if isinstance(thing, (cenote.Block, cenote.View)):
            assert thing.nbytes <= 8


def test_a_record_is_what_was_written():
    record = _record.Record(_record.VIEW, 3, b"p" * 16, b"o" * 16, b"d" * 16, b"n" * 64, 5, 6, b"e" * 64, 7, "float32",
                            8, (2, 3))
    assert _record.read(_record.write(record)) == record


def test_the_port_answers_only_what_it_knows(pool):
    """A client that says something else is disconnected; others go on."""
    from cenote import _keeper
    name = _record.read(pool.allocate(8).name())
    for message in (b"?", b"P", b"P" + bytes(15), b"H" + bytes(7), b"P" * 1000):
        with _keeper.connect(name.port) as stranger:
            stranger.send(message)
            assert stranger.recv(100) == b""
    with _keeper.connect(name.port) as asker:
        asker.send(b"P" + bytes(16))
        assert socket.recv_fds(asker, 100, 1)[:2] == (b"P", [])  # no such pool
        asker.send(b"H" + bytes(8))  # nothing is kept under 0
        asker.send(b"P" + name.pool)
        _, found, _, _ = socket.recv_fds(asker, 100, 1)
        assert len(found) == 1
        os.close(found[0])


def test_names_of_killed_processes_are_swept(pool, tmp_path):
    script = "import cenote, os, signal; cenote.share(b'x').block.name(); os.kill(os.getpid(), signal.SIGKILL)"
    last = "import cenote, os, sys; b = cenote.share(b'x').block; b.name(); print(len(os.listdir(sys.argv[1])))"
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    environment = {**os.environ, "CENOTE_RUNTIME_DIR": str(folder)}
    for _ in range(3):
        subprocess.run([sys.executable, "-c", script], env=environment, check=False)
    subprocess.run([sys.executable, "-c", last, str(folder)], env=environment, check=True, capture_output=True)
    assert [name for name in os.listdir(folder) if name.startswith("python")] == []
