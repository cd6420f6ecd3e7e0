# SPDX-License-Identifier: MIT
"""
Objects in other processes: records of them, and objects made from records.

The sender's side writes a record (describe), the receiver's makes an object of it (restore, rebuild). How a record
travels is another matter: over a socket with descriptors (_socket.py), in a pickle (_pickling.py), or by hand
(block.name()).

A receiver needs the pool once. It comes as a descriptor with the record, or is asked for at the sender's port.
Imported pools and opened events are remembered, the latest of them: the next block of the same pool is only a few
calls, which the extension makes.
"""

from __future__ import annotations

import math
import os
import re
import threading
import weakref
from contextlib import suppress
from multiprocessing.util import register_after_fork
from typing import TYPE_CHECKING, Any

from . import _cenote, _keeper, _record
from ._cenote import Block, Event, Pool, View, devices

if TYPE_CHECKING:
    from ._cenote import StreamLike

ARRAY_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}  # a typestr's letter
FORMAT_KINDS = {**dict.fromkeys("bhilqn", "int"), **dict.fromkeys("cBHILQN", "uint"), **dict.fromkeys("efd", "float"),
                "?": "bool", "Zf": "complex", "Zd": "complex"}  # a buffer's format
POOLS_KEPT, EVENTS_KEPT = 64, 256


# ---- The sender ----


class _Exports:
    """Which pools of this process have been sent, and which streams' events."""

    def __init__(self):
        """In a forked child nothing is exported."""
        self.numbers = weakref.WeakKeyDictionary()  # Pool -> its number
        self.pools = weakref.WeakValueDictionary()  # number -> Pool
        self.streams = weakref.WeakValueDictionary()  # an event's 64 bytes -> Stream

    def give_number(self, pool):
        """Let a pool's object have its number. With a new one the pool is exported: CUDA wants it before any block."""
        pool._export().close()
        number = self.numbers.setdefault(pool, os.urandom(_keeper.ID_BYTES))
        self.pools[number] = pool
        pool._set_number(number)

    def descriptor_of(self, number):
        """A new Descriptor of the pool with this number; None: there is none any more."""
        pool = self.pools.get(number)
        with suppress(ValueError):  # it is closed, and nothing of it is on its way
            return None if pool is None else pool._export()
        return None


exports = _Exports()
keeper = _keeper.Keeper(exports.descriptor_of)
_keeper.stop_at_end(keeper)
register_after_fork(keeper, _keeper.stop_at_end)


def describe(thing, held, token=0, ready=True):
    """
    The record of an object, in bytes; `held` is its Hold. With `ready`, an event says when a block's memory is; else
    the caller has waited. A stream that has nothing to do needs no event.
    """
    data = _cenote.write_record(thing, held, keeper.port, token, ready)
    if data is None:
        exports.give_number(thing if isinstance(thing, Pool) else getattr(thing, "block", thing).pool)
        data = _cenote.write_record(thing, held, keeper.port, token, ready)
    return data


def remember_stream(stream, name):
    """The extension has made the event that says when what is sent from this stream is ready."""
    exports.streams[name] = stream


def block_name(block):
    """Block.name()"""
    keeper.open_port()
    return describe(block, _cenote.hold(block))


# ---- The receiver ----


class _Imports:
    """What this process has of others."""

    def __init__(self):
        """In a forked child nothing is imported."""
        self.lock = threading.RLock()
        self.pools = {}    # number -> Pool, the latest last: from senders of this user
        self.handles = {}  # handle -> Pool, likewise: from anybody, whose numbers say nothing
        self.events = {}   # an event's 64 bytes -> Event
        self.devices = {}  # uuid -> Device

    def device_of(self, uuid):
        """The device in this process."""
        if uuid not in self.devices:
            self.devices = {device.uuid: device for device in devices()}
        try:
            return self.devices[uuid]
        except KeyError:
            raise ValueError("the memory is on a device that this process does not see") from None

    def pool_of(self, record):
        """The record's pool: a known one, or asked for."""
        pool = self._known(self.pools, record.pool)
        if pool is None:
            device, asked = self.device_of(record.device), self._ask_for_pool(record)
            pool = Pool._import(asked.fileno(), device, bool(record.flags & _record.ON_HOST))
            self._keep(self.pools, record.pool, pool)
        return pool

    def pool_by(self, record, descriptor):
        """The pool that came with the record. To import it again takes little, and gives the same Pool."""
        pool = Pool._import(descriptor, self.device_of(record.device), bool(record.flags & _record.ON_HOST))
        if self._known(self.handles, pool.handle) is not pool:
            self._keep(self.handles, pool.handle, pool)
        return pool

    def _known(self, pools, key):
        with self.lock:
            pool = pools.get(key)
        return None if pool is None or pool.closed else pool

    def _keep(self, pools, key, pool):
        with self.lock:
            dropped = self._remember(pools, key, pool, POOLS_KEPT)
        del dropped  # its finaliser runs without the lock

    @staticmethod
    def _remember(things, key, thing, limit):
        """Under the lock. Returns what is forgotten for it, the oldest."""
        replaced = things.pop(key, None)
        things[key] = thing
        return things.pop(next(iter(things))) if len(things) > limit else replaced

    def _ask_for_pool(self, record):
        if record.port == keeper.port:
            descriptor = exports.descriptor_of(record.pool)
        else:
            message, descriptors = _keeper.ask(record.port, _keeper.ASK_POOL + record.pool)
            if message[:1] == b"E":
                raise ConnectionError(message[1:].decode(errors="replace"))
            descriptor = descriptors[0] if descriptors else None
        if descriptor is None:
            raise ConnectionError("the pool is gone")
        return descriptor

    def ready_of(self, record, device):
        """What the memory is ready after: an Event, or a Stream of this process, whose events CUDA does not open."""
        with self.lock:
            ready = exports.streams.get(record.ready) or self.events.get(record.ready)
        if ready is None:
            ready = Event.open(record.ready, device)
            with self.lock:
                dropped = self._remember(self.events, record.ready, ready, EVENTS_KEPT)
            del dropped
        return ready


imports = _Imports()


def _reset():
    _cenote.tell_reset()
    exports.__init__()
    imports.__init__()
    keeper.reset()
    _keeper.stop_at_end(keeper)  # for os.fork(); multiprocessing forgets it, and asks again


os.register_at_fork(after_in_child=_reset)


def tell(port, token):
    """Tell a sender that we have what it kept for us. If it has ended, it keeps nothing."""
    if not _cenote.tell(port, token):
        _cenote.tell_open(_keeper.runtime_path())
        _cenote.tell(port, token)


def restore(data):
    """The object of a record whose sender keeps it until then."""
    thing = _cenote.restore(data, keeper.port, imports.pools, imports.events, None)
    return rebuild(data) if thing is None else thing


def rebuild(data, descriptor=None, stream=None, tells=True):
    """The same, whatever it needs. `descriptor`: a Descriptor of its pool, if one came. `tells`: the token counts."""
    record = _record.read(data)
    token = record.token if tells else 0
    try:
        if token and record.port == keeper.port:  # it never left this process
            thing = _cenote.keep_thing(token)
            if thing is not None and not (thing.freed if isinstance(thing, Block) else thing.closed):
                is_view = record.kind == _record.VIEW
                return thing.view(record.shape, record.dtype, record.view_offset) if is_view else thing
        return _rebuild(data, record, descriptor, stream)
    finally:  # also if it cannot be had: it will not be read again
        if token and record.port == keeper.port:
            keeper.let_go([token])
        elif token:
            tell(record.port, token)


def give_up(message):
    """No object can be made of a message: tell the senders of all that is in it."""
    message = bytes(message)
    for found in re.finditer(re.escape(_record.MAGIC), message):
        with suppress(ValueError):
            record = _record.find(message[found.start():found.start() + _record.BYTES_MAX])
            if record.token and record.port == keeper.port:
                keeper.let_go([record.token])
            elif record.token:
                tell(record.port, record.token)


def _rebuild(data, record, descriptor, stream):
    if record.kind == _record.EVENT:
        return Event.open(record.ready, imports.device_of(record.device))
    pool = imports.pool_of(record) if descriptor is None else imports.pool_by(record, descriptor.fileno())
    if record.kind == _record.POOL:
        return pool
    events = {record.ready: imports.ready_of(record, pool.device)} if record.flags & _record.HAS_READY else {}
    thing = _cenote.restore(data, None, {record.pool: pool}, events, stream)
    if thing is None:
        raise ValueError("the pool is closed")
    return thing


def attach(name: bytes | bytearray | memoryview, stream: StreamLike = None) -> Block:
    """
    Get a block by the bytes that block.name() gave in another process of the same user.

    The block must not have been freed there. Its memory is used in the order of `stream`.
    """
    record = _record.read(name)
    if record.kind != _record.BLOCK or record.token:
        raise ValueError("these bytes are not the name of a block")
    return rebuild(bytes(name), stream=stream)


def in_flight() -> list[Pool | Block | Event]:
    """What was sent by this process, and has not arrived yet; for a View, its Block."""
    return _cenote.keep_list()


# ---- Methods ----


class Watch:
    """
    Tells when processes import a pool or leave it. Its fileno() is readable then, for selectors and asyncio.

    All watches of one pool share one count: only one reader should read it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """The descriptor; -1 when it is closed."""
        return self._descriptor

    def read(self) -> int:
        """How many importers have come or gone since the last read; 0: none. Does not wait."""
        try:
            return int.from_bytes(os.read(self._descriptor, 8), "little")
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self):
        with suppress(Exception):
            self.close()

    def __repr__(self):
        return f"<cenote.Watch {'closed' if self._descriptor < 0 else self._descriptor}>"


def pool_watch(pool):
    """Pool.watch()"""
    return Watch(pool._watch())


def device_source(source):
    """Address, bytes and stream of an array in device memory, for Block.copy_from()."""
    interface = getattr(source, "__cuda_array_interface__", None)
    if interface is None:
        raise TypeError(f"{type(source).__name__} has neither the buffer protocol nor __cuda_array_interface__")
    if interface.get("strides") is not None:
        raise ValueError("the array is not contiguous in C's order")
    return interface["data"][0], math.prod(interface["shape"]) * int(interface["typestr"][2:]), interface.get("stream")


# ---- share() ----


_kept_pool = None  # what share() uses if no pool is given


def _default_pool():
    global _kept_pool
    if _kept_pool is None:
        _kept_pool = Pool()
    return _kept_pool


def _name_type(kind, size, what):
    """An element type's name; None for its kind: it has none."""
    if kind is None:
        raise TypeError(f"elements of type {what} cannot be shared")
    return kind if kind == "bool" else f"{kind}{size * 8}"


def _describe_buffer(array):
    """The same of what has the buffer protocol."""
    try:
        view = memoryview(array)
    except ValueError as error:  # NumPy's, of a type that the protocol does not have
        raise TypeError(f"this array cannot be shared: {error}") from None
    with view:
        if not view.c_contiguous:
            raise ValueError("the array is not contiguous in C's order: share a copy that is")
        order, letters = re.fullmatch(r"([@=<>!]?)(.*)", view.format, re.DOTALL).groups()
        is_big_endian = order in (">", "!") and view.itemsize > 1
        kind = None if is_big_endian else FORMAT_KINDS.get(letters)
        return view.shape, _name_type(kind, view.itemsize, repr(view.format))


def _describe_array(array):
    """An array's shape and the name of its element type."""
    if isinstance(array, View):
        return array.shape, array.dtype
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        return _describe_buffer(array)
    found = re.fullmatch(r"[<|](\w)(\d+)", interface["typestr"])
    kind, size = (ARRAY_KINDS.get(found[1]), int(found[2])) if found else (None, 0)
    return interface["shape"], _name_type(kind, size, interface["typestr"])


def share(array: Any, pool: Pool | None = None, stream: StreamLike = None) -> View:
    """
    Copy an array into a block of a shareable pool, and return a View of the same shape and type.

    The array is a View or anything with the buffer protocol or __cuda_array_interface__: NumPy's, CuPy's, array.array,
    bytes. ValueError: it is not contiguous in C's order. TypeError: a View has no such element type. This is the one
    copy: sending the View makes none. Without `pool`, one of device 0 that this module keeps.
    """
    if pool is None:
        pool = _default_pool()
    shape, dtype = _describe_array(array)
    size = int(re.sub(r"\D", "", dtype) or 8) // 8
    block = pool.allocate(math.prod(shape) * size, stream)
    if block.nbytes:
        block.copy_from(array)
    return block.view(shape, dtype)
