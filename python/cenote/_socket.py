# SPDX-License-Identifier: MIT
"""
send() and recv(): objects over a Unix socket.

A message is a head, a record, and descriptors: the pool's, and the write end of a pipe that is closed when the
receiver has the object, or when the message is lost (see _keeper.py). Nothing of it is unpickled: a receiver need not
trust the sender. The rest of a message that has begun is waited for REST_SECONDS in all, however slowly it comes; and
descriptors that may take long to close are closed by another thread (_closer.py). The system closes none of them, as it
would if recvmsg() had too little room: all descriptors are taken, and too many are a reason to refuse a message.

sending() and receiving() are generators, so that the calls here and those of cenote.aio wait in their own ways: in the
middle of a message they yield what they wait for, and the error if that takes too long. Before a message has begun, a
socket that does not wait raises BlockingIOError. What receiving() returns is called to make the object, which takes
long if the sender does not answer: cenote.aio does that in another thread.
"""

from __future__ import annotations

import errno
import functools
import os
import select
import socket
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from . import _cenote, _closer, _keeper, _record, _share
from ._cenote import Block, Event, Pool, View

if TYPE_CHECKING:
    from ._cenote import StreamLike

HEAD = struct.Struct("<8sQ")
MAGIC = b"\xcenotepy1"
DESCRIPTORS_MAX = 2
REST_SECONDS = 5


class HasDescriptor(Protocol):
    """A socket, or a Connection."""

    def fileno(self) -> int:
        """Its number."""


@contextmanager
def socket_of(channel):
    """
    A socket object, or one of a copy of the descriptor of something else, for the time of a call: of a Connection, an
    integer, or the socket that asyncio's streams show, which cannot send.
    """
    if isinstance(channel, socket.socket):
        yield channel
        return
    descriptor = channel if isinstance(channel, int) else channel.fileno()
    borrowed = _cenote.socket_of(descriptor)
    try:
        yield borrowed
    finally:
        borrowed.close()


def _peer(sock):
    """The process and the user of the other side; of a socketpair(), those that made it."""
    return struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[:2]


def _opens_our_events(sock):
    """
    Whether the other side finds our events: the same user's process, which sees the same files. One in a container
    does not.
    """
    process, user = _peer(sock)
    try:
        return user == os.getuid() and os.readlink(f"/proc/{process}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return False


def work_before(channel, thing):
    """The Stream to wait for before a block is sent, because the receiver cannot; None: there is none."""
    if not isinstance(thing, (Block, View)):
        return None
    stream = (thing.block if isinstance(thing, View) else thing).stream
    if stream._is_idle():
        return None
    with socket_of(channel) as sock:
        return None if _opens_our_events(sock) else stream


def _wait(sock, events, deadline):
    """Until the socket is ready. False: the deadline has passed. (select() knows descriptors below 1024 alone.)"""
    poll = select.poll()
    poll.register(sock, events)
    left = deadline - time.monotonic()
    return left > 0 and bool(poll.poll(left * 1000))


def _is_stream(sock):
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM


def send(channel: HasDescriptor | int, thing: Pool | Block | View | Event) -> None:
    """
    Send a Pool, Block, View or Event over a connected Unix socket: a socket, its number, or a duplex Connection.

    The receiver calls recv(). Nothing is copied. What was sent may be freed or dropped at once: it stays until the
    receiver has it, or cannot get it any more. A block's memory is ready for the receiver when its stream has come to
    what it has now; a receiver of another user or in a container cannot wait for that, so the call waits instead.
    Over a socketpair() or a Pipe() it takes the receiver for a process of this user, outside of containers.
    """
    stream = work_before(channel, thing)
    if stream is not None:
        stream._wait()
    with socket_of(channel) as sock:
        _run(sending(sock, thing, stream is None), sock)


def sending(sock, thing, ready):
    """send(). `ready`: the receiver is to wait for the stream's work."""
    if not isinstance(thing, (Pool, Block, View, Event)):
        raise TypeError(f"send() takes a Pool, Block, View or Event, not a {type(thing).__name__}")
    if sock.family != socket.AF_UNIX:
        raise ValueError("the socket is not a Unix socket: descriptors cannot travel over it")
    held, exported, token = _cenote.hold(thing), None, _share.keeper.new_token()
    data = _share.describe(thing, held, ready=ready)
    try:  # first: a signal's handler may raise an exception when a call has returned
        descriptors = [_share.keeper.keep_travelling(held, token)]
        del held
        if not isinstance(thing, Event):
            pool = thing if isinstance(thing, Pool) else (thing.block if isinstance(thing, View) else thing).pool
            exported = pool._export()
            descriptors.append(exported.fileno())
        head = HEAD.pack(MAGIC, len(data))
        sent = socket.send_fds(sock, [head, data], descriptors)
        rest = (head + data)[sent:]
        while rest:  # a half cannot be taken back
            try:
                rest = rest[sock.send(rest, socket.MSG_DONTWAIT):]
            except BlockingIOError:
                yield select.POLLOUT, TimeoutError("the socket is full in the middle of a message")
    finally:
        _cenote.keep_sent(token)
        if exported is not None:
            exported.close()


def _run(steps, sock):
    """All steps of sending() or receiving()."""
    deadline = None  # until a message has begun
    while True:
        try:
            events, error = next(steps)
        except StopIteration as end:
            return end.value
        if deadline is None:
            deadline = time.monotonic() + REST_SECONDS
        if not _wait(sock, events, deadline):
            steps.close()
            raise error


def recv(channel: HasDescriptor | int, stream: StreamLike = None) -> Pool | Block | View | Event:
    """
    Receive what send() sent in another process. Waits until a message comes.

    Use the memory in the order of `stream`, or of the device's default stream: that one waits for the sender's work.
    EOFError: the other side has closed the socket. ValueError: something else came. OSError with EMFILE: this process
    has too many descriptors open, and the message is lost.
    """
    with socket_of(channel) as sock:
        return _run(receiving(sock, stream), sock)()


def _closer_of(sock):
    """What closes the descriptors of messages that come. Who has the other side of a socketpair() is not known."""
    process, user = _peer(sock)
    return _closer.closer_of(None if process == os.getpid() else user)


def receiving(sock, stream):
    """recv(), up to what asks the sender: a function that makes the object, to be called once, in any thread."""
    _cenote.check_stream(stream)  # later, the message would be lost
    closer = _closer_of(sock)
    whole = _record.BYTES_MAX + HEAD.size
    data, descriptors, flags = _keeper.receive(sock, HEAD.size if _is_stream(sock) else whole)
    try:
        if not data:
            raise EOFError("the other side has closed the socket")
        record = yield from _read_message(sock, data, descriptors, flags)
        make = functools.partial(_make, record, descriptors, stream, closer)
        descriptors = []  # they are its own now
        return make
    finally:
        closer.close(descriptors)


def _make(record, descriptors, stream, closer):
    """The object of a message. The sender keeps it until its descriptors are closed."""
    try:
        pool = descriptors[1] if len(descriptors) > 1 else None
        if pool is None and _record.read(record).kind != _record.EVENT:
            raise ValueError("the message came without a pool's descriptor")
        return _share.rebuild(record, pool, stream, tells=False)
    finally:
        closer.close(descriptors)


def _read_message(sock, data, descriptors, flags):
    """The bytes of a record. Descriptors that come with the rest are added to the list."""
    if len(data) < HEAD.size and _is_stream(sock):
        data += yield from _read_all(sock, HEAD.size - len(data), descriptors)
    if len(data) < HEAD.size or flags & socket.MSG_TRUNC:
        raise ValueError("what came is not a message of cenote.send()")
    magic, length = HEAD.unpack_from(data)
    if magic != MAGIC or length > _record.BYTES_MAX:
        raise ValueError("what came is not a message of cenote.send()")
    if _is_stream(sock):
        data += yield from _read_all(sock, length, descriptors)
    _check_count(descriptors)
    if flags & socket.MSG_CTRUNC:  # all of the message is read, so the next one can be
        raise OSError(errno.EMFILE, "a message is lost: this process can open no descriptor more for those that came")
    return data[HEAD.size:]


def _check_count(descriptors):
    if len(descriptors) > DESCRIPTORS_MAX:
        raise ValueError("the message came with too many descriptors")


def _read_all(sock, length, descriptors):
    data = b""
    while len(data) < length:
        _check_count(descriptors)  # each byte may bring more
        try:
            more, others, _ = _cenote.receive(sock.fileno(), length - len(data), socket.MSG_DONTWAIT)
        except BlockingIOError:  # the rest of a message is on its way, even if the socket does not wait
            yield select.POLLIN, ValueError("only a part of a message came")
            continue
        descriptors += others
        if not more:
            raise EOFError("the other side has closed the socket in the middle of a message")
        data += more
    return data
