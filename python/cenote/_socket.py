# SPDX-License-Identifier: MIT
"""
send() and recv(): objects over a Unix socket.

A message is a head, a record, and descriptors: the pool's, and the write end of a pipe that is closed when the
receiver has the object, or when the message is lost (see _keeper.py). Nothing of it is unpickled: a receiver need not
trust the sender. The rest of a message that has begun is waited for REST_SECONDS in all, however slowly it comes; and
a descriptor that may take long to close, as one of a file system that the sender serves may, is closed by a thread of
its own.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from . import _keeper, _record, _share
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
def _socket_of(channel):
    """A socket object, or a socket around the descriptor of a Connection or of an integer, for the time of a call."""
    if isinstance(channel, socket.socket):
        yield channel
        return
    descriptor = channel if isinstance(channel, int) else channel.fileno()
    borrowed = socket.socket(fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()


def _is_same_user(sock):
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", credentials)[1] in (os.getuid(), -1)


def _wait(sock, events, deadline):
    """Until the socket is ready. False: the deadline has passed. (select() knows descriptors below 1024 alone.)"""
    poll = select.poll()
    poll.register(sock, events)
    left = deadline - time.monotonic()
    return left > 0 and bool(poll.poll(left * 1000))


def _closes_at_once(descriptor):
    """Whether closing it asks nobody. Told without asking the file that it is of."""
    try:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:["):
            return True
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii", errors="replace") as facts:
            flags = next(int(line.split()[1], 8) for line in facts if line.startswith("flags:"))
        return bool(flags & os.O_PATH)
    except (OSError, StopIteration, ValueError):
        return False


def _close(descriptor):
    """Close what another process has sent."""
    if _closes_at_once(descriptor):
        os.close(descriptor)
    else:
        threading.Thread(target=os.close, args=(descriptor,), name="cenote-closer", daemon=True).start()


def _is_stream(sock):
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM


def send(channel: HasDescriptor | int, thing: Pool | Block | View | Event) -> None:
    """
    Send a Pool, Block, View or Event over a connected Unix socket: a socket, its number, or a duplex Connection.

    The receiver calls recv(). Nothing is copied. What was sent may be freed or dropped at once: it stays until the
    receiver has it, or cannot get it any more. A block's memory is ready for the receiver when its stream has come to
    what it has now; a receiver of another user cannot wait for that, so the call waits instead.
    """
    if not isinstance(thing, (Pool, Block, View, Event)):
        raise TypeError(f"send() takes a Pool, Block, View or Event, not a {type(thing).__name__}")
    with _socket_of(channel) as sock:
        if sock.family != socket.AF_UNIX:
            raise ValueError("the socket is not a Unix socket: descriptors cannot travel over it")
        ready = _is_same_user(sock)
        if not ready and isinstance(thing, (Block, View)):
            (thing.block if isinstance(thing, View) else thing).stream.synchronize()
        data = _share.describe(thing, ready=ready)
        descriptors = [_share.keeper.keep_travelling(thing)]
        try:
            if not isinstance(thing, Event):
                pool = thing if isinstance(thing, Pool) else (thing.block if isinstance(thing, View) else thing).pool
                descriptors.append(pool._export())
            head = HEAD.pack(MAGIC, len(data))
            sent = socket.send_fds(sock, [head, data], descriptors)
            _write_all(sock, (head + data)[sent:])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _write_all(sock, data):
    """The rest of a message: a half cannot be taken back, even if the socket does not wait."""
    deadline = time.monotonic() + REST_SECONDS
    while data:
        try:
            data = data[sock.send(data, socket.MSG_DONTWAIT):]
        except BlockingIOError:
            if not _wait(sock, select.POLLOUT, deadline):
                raise TimeoutError("the socket is full in the middle of a message") from None


def recv(channel: HasDescriptor | int, stream: StreamLike = None) -> Pool | Block | View | Event:
    """
    Receive what send() sent in another process. Waits until a message comes.

    Use the memory in the order of `stream`, or of the device's default stream: that one waits for the sender's work.
    EOFError: the other side has closed the socket. ValueError: something else came.
    """
    with _socket_of(channel) as sock:
        whole = _record.BYTES_MAX + HEAD.size
        data, descriptors, flags = _keeper.receive(sock, HEAD.size if _is_stream(sock) else whole, DESCRIPTORS_MAX)
        try:
            if not data:
                raise EOFError("the other side has closed the socket")
            record = _read_message(sock, data, flags)
            pool = descriptors[1] if len(descriptors) > 1 else None
            if pool is None and _record.read(record).kind != _record.EVENT:
                raise ValueError("the message came without a pool's descriptor")
            return _share.rebuild(record, pool, stream, tells=False)
        finally:
            for descriptor in descriptors:
                with suppress(OSError):
                    _close(descriptor)


def _read_message(sock, data, flags):
    """The bytes of a record."""
    deadline = time.monotonic() + REST_SECONDS
    if len(data) < HEAD.size and _is_stream(sock):
        data += _read_all(sock, HEAD.size - len(data), deadline)
    if len(data) < HEAD.size or flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
        raise ValueError("what came is not a message of cenote.send()")
    magic, length = HEAD.unpack_from(data)
    if magic != MAGIC or length > _record.BYTES_MAX:
        raise ValueError("what came is not a message of cenote.send()")
    if _is_stream(sock):
        data += _read_all(sock, length, deadline)
    return data[HEAD.size:]


def _read_all(sock, length, deadline):
    data = b""
    while len(data) < length:
        try:
            more = sock.recv(length - len(data), socket.MSG_DONTWAIT)
        except BlockingIOError:  # the rest of a message is on its way, even if the socket does not wait
            if not _wait(sock, select.POLLIN, deadline):
                raise ValueError("only a part of a message came") from None
            continue
        if not more:
            raise EOFError("the other side has closed the socket in the middle of a message")
        data += more
    return data
