# SPDX-License-Identifier: MIT
"""
For asyncio: waiting without holding up the loop.

    await cenote.aio.synchronize(stream)
    await cenote.aio.send(sock, block)             # sockets that do not block, of any type; a stream writer's, too
    block = await cenote.aio.recv(sock)
    async for importers in cenote.aio.importers(pool): ...
    async for event in cenote.aio.kept_events("models/"): ...
"""

from __future__ import annotations

import asyncio
import select
import weakref
from typing import TYPE_CHECKING, AsyncIterator

from . import _socket
from . import kept as _kept
from ._cenote import Block, Event, Importer, KeptEvent, Pool, Stream, View

if TYPE_CHECKING:
    import socket

    from ._cenote import StreamLike


async def synchronize(thing: Stream | Event | Block | View) -> None:
    """Wait for all work of a Stream, of a Block's or View's stream, or for an Event."""
    thing = getattr(thing, "block", thing)
    waits = getattr(thing, "stream", thing)
    await asyncio.get_running_loop().run_in_executor(None, waits.synchronize)


_awaited = weakref.WeakKeyDictionary()  # loop -> for what its tasks wait


async def _until(add, remove, descriptor):
    """Until a descriptor is ready. A loop has one function for each: a second task would take the first one's."""
    loop = asyncio.get_running_loop()
    awaited, this = _awaited.setdefault(loop, set()), (add.__name__, descriptor)
    if this in awaited:
        raise RuntimeError("another task is waiting for this socket: let one task read it, and one write")
    future = loop.create_future()
    awaited.add(this)
    try:
        add(descriptor, lambda: future.done() or future.set_result(None))
        await future
    finally:
        awaited.remove(this)
        remove(descriptor)


async def _ready(sock, events):
    """Until a socket is."""
    loop = asyncio.get_running_loop()
    if events == select.POLLIN:
        await _until(loop.add_reader, loop.remove_reader, sock.fileno())
    else:
        await _until(loop.add_writer, loop.remove_writer, sock.fileno())


async def _run(begin, sock, events):
    """All steps that begin() makes, sending() or receiving(). `events`: what it begins with."""
    while True:
        steps, deadline = begin(), asyncio.get_running_loop().time() + _socket.REST_SECONDS
        try:
            while True:
                awaited, error = next(steps)
                try:
                    await asyncio.wait_for(_ready(sock, awaited), deadline - asyncio.get_running_loop().time())
                except asyncio.TimeoutError:
                    raise error from None
        except StopIteration as end:
            return end.value
        except BlockingIOError:
            await _ready(sock, events)
        finally:
            steps.close()


async def send(sock: socket.socket, thing: Pool | Block | View | Event) -> None:
    """
    cenote.send(), without waiting in the loop: neither while the socket is full, nor for the stream of a block that
    another user or a container gets. Cancelled in the middle of a message, it leaves a half in the socket.
    """
    stream = _socket.work_before(sock, thing)
    if stream is not None:
        await asyncio.get_running_loop().run_in_executor(None, stream._wait)
    with _socket.socket_of(sock) as own:
        await _run(lambda: _socket.sending(own, thing, stream is None), own, select.POLLOUT)


async def recv(sock: socket.socket, stream: StreamLike = None) -> Pool | Block | View | Event:
    """
    cenote.recv(), without waiting in the loop for a message, or for its sender, which is asked for the memory.
    Cancelled when a message has begun, it gives the object up, and the sender is told.
    """
    with _socket.socket_of(sock) as own:
        make = await _run(lambda: _socket.receiving(own, stream), own, select.POLLIN)
    made = asyncio.get_running_loop().run_in_executor(None, make)
    made.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else may ask, if cancelled
    await asyncio.wait([made])  # cancelled, this lets it go on: the thread has the message's descriptors
    return made.result()


async def importers(pool: Pool) -> AsyncIterator[list[Importer]]:
    """Pool.importers(), now and each time that a process imports the pool or leaves it."""
    loop = asyncio.get_running_loop()
    with pool.watch() as watch:
        while True:
            yield pool.importers()
            while not watch.read():
                await _until(loop.add_reader, loop.remove_reader, watch.fileno())


async def kept_events(prefix: str = "") -> AsyncIterator[KeptEvent]:
    """What happens to kept objects whose names begin so: cenote.kept.watch(), without waiting in the loop."""
    loop = asyncio.get_running_loop()
    with _kept.watch(prefix) as watch:
        while True:
            event = watch.read()
            if event is None:
                await _until(loop.add_reader, loop.remove_reader, watch.fileno())
            else:
                yield event


__all__ = ["importers", "kept_events", "recv", "send", "synchronize"]
