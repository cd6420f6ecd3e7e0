# SPDX-License-Identifier: MIT
"""
Memory that outlives its maker, by name.

    from cenote import kept

    with kept.create("models/llama/rank0", {"weights": 1 << 30}) as made:
        made["weights"].copy_from(weights)                  # committed at the end of `with`, unless an exception came

    with kept.open("models/llama/rank0") as model:          # in any process, also when the first one was killed
        array = numpy.asarray(model["weights"].view(shape, "float32"))

cenoted, a daemon, keeps the objects. Their parts are Blocks: of the host device's memory, or of a GPU's. A commit of a
name that exists makes a new generation; processes that have the older one open keep it until they release it.
"""

from __future__ import annotations

import builtins
import os
import select
from contextlib import suppress
from operator import index
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Self, SupportsIndex

from ._cenote import Kept, KeptEvent, KeptHolder, KeptInfo, View, kept_create, kept_list, kept_next, kept_open, \
    kept_retire, kept_watch
from ._share import device_source

if TYPE_CHECKING:
    from ._cenote import Device

__all__ = ["Kept", "KeptEvent", "KeptHolder", "KeptInfo", "Watch", "create", "list", "open", "put", "retire", "watch"]

CHANGEABLE, CACHE = 1, 2


def create(name: str, parts: Mapping[str, SupportsIndex] | Iterable[SupportsIndex] | SupportsIndex, *,
           blob: bytes | bytearray | memoryview = b"", changeable: bool = False, cache: bool = False,
           mode: SupportsIndex = 0o600, device: SupportsIndex | Device = 0) -> Kept:
    """
    Make an object for this process to write; no other one sees it before Kept.commit().

    parts: a mapping of labels to sizes in bytes, a sequence of sizes, or one size. The memory is all zero. blob: up to
    1 MiB for readers, say how tensors lie in the parts. changeable: one process at a time may open it for writing when
    it is committed. cache: it gives way, the oldest first, when a limit of this user's is reached. mode: who may read
    and write it, as of a file.
    """
    if hasattr(parts, "__index__") and not hasattr(parts, "__len__"):  # NumPy's arrays have both
        parts = [parts]
    pairs = parts.items() if hasattr(parts, "items") else [("", size) for size in parts]
    sizes = [(label, index(size)) for label, size in pairs]
    return kept_create(name, sizes, CHANGEABLE * bool(changeable) | CACHE * bool(cache), mode, bytes(blob), device)


def _size_of(source):
    """How many bytes put() copies."""
    if isinstance(source, View):  # not every element type has a buffer
        return source.nbytes
    if hasattr(source, "__cuda_array_interface__"):
        return device_source(source)[1]
    with memoryview(source) as view:
        return view.nbytes


def put(name: str, source: Any, **options: Any) -> int:
    """
    Keep a copy: create, copy, commit and release. Returns the generation.

    source: a Block or View, or any array with the buffer protocol or __cuda_array_interface__; or a mapping of labels
    to such, for an object of several parts. A pool's block is never kept as it is: another process could not have it
    without all of its pool. options: as of create().
    """
    sources = dict(source) if hasattr(source, "items") else {"": source}
    with create(name, {label: _size_of(each) for label, each in sources.items()}, **options) as made:
        for label, each in sources.items():
            made[label].copy_from(each)
        return made.generation


def open(name: str, *, generation: SupportsIndex = 0, write: bool = False) -> Kept:
    """
    Open a committed object; without a generation, the newest. Its parts can only be read.

    With `write`, for which it must be changeable, this process is the one that writes it until commit() or release().
    """
    return kept_open(name, generation, write)


def retire(name: str, *, generation: SupportsIndex = 0) -> None:
    """No process can open it any more; it is gone with the last process that has it open. For its owner."""
    kept_retire(name, generation)


def list(prefix: str = "", *, holders: bool = False) -> builtins.list[KeptInfo]:
    """What is kept under names that begin so, as KeptInfos by name; with `holders`, also its holders."""
    return sorted(kept_list(prefix, holders), key=lambda info: (info.name, info.generation))


class Watch:
    """
    Tells what happens to objects: each event is a KeptEvent. Iterating waits for the next one.

    Its fileno() is readable when there is one, for selectors and asyncio. If cenoted ends, or events come faster than
    they are read, OperatingSystemError is raised: list the objects, and watch again.
    """

    def __init__(self, prefix: str = "") -> None:
        self._descriptor = -1
        self._descriptor = kept_watch(prefix)

    def fileno(self) -> int:
        """The descriptor; -1 when it is closed."""
        return self._descriptor

    def read(self) -> KeptEvent | None:
        """The next event; None: there is none yet. Does not wait."""
        return kept_next(self._descriptor)

    def close(self) -> None:
        """End the watch."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> KeptEvent:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while True:
            event = self.read()
            if event is not None:
                return event
            poll.poll()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self):
        with suppress(Exception):
            self.close()

    def __repr__(self):
        return f"<cenote.kept.Watch {'closed' if self._descriptor < 0 else self._descriptor}>"


def watch(prefix: str = "") -> Watch:
    """Watch the objects whose names begin so."""
    return Watch(prefix)
