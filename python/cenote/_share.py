# SPDX-License-Identifier: MIT
"""
What the objects' methods do in Python.
"""

import math
import os
import re

from ._cenote import Pool

ARRAY_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}  # a typestr's letter
_kept_pool = None  # what share() uses if no pool is given


class Watch:
    """
    Tells when processes import a pool or leave it. Its fileno() is readable then, for selectors and asyncio.

    All watches of one pool share one count: only one reader should read it.
    """

    def __init__(self, descriptor):
        self._descriptor = descriptor

    def fileno(self):
        """The descriptor; -1 when it is closed."""
        return self._descriptor

    def read(self):
        """How many importers have come or gone since the last read; 0: none. Does not wait."""
        try:
            return int.from_bytes(os.read(self._descriptor, 8), "little")
        except BlockingIOError:
            return 0

    def close(self):
        """Close the descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
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


def _describe(array):
    """An array's shape and the name of its element type."""
    interface = getattr(array, "__cuda_array_interface__", None) or getattr(array, "__array_interface__", None)
    if interface is None:
        with memoryview(array) as view:
            return (view.nbytes,), "uint8"
    order, letter, size = re.fullmatch(r"([<>|])(\w)(\d+)", interface["typestr"]).groups()
    if order == ">" or letter not in ARRAY_KINDS:
        raise TypeError(f"elements of type {interface['typestr']} cannot be shared")
    kind = ARRAY_KINDS[letter]
    return interface["shape"], kind if kind == "bool" else f"{kind}{int(size) * 8}"


def _default_pool():
    global _kept_pool
    if _kept_pool is None:
        _kept_pool = Pool()
    return _kept_pool


def share(array, pool=None, stream=None):
    """
    Copy an array into a block of a shareable pool, and return a View of the same shape and type.

    The array is anything with the buffer protocol or an array interface: NumPy's, CuPy's, PyTorch's, bytes. This is the
    one copy: sending the View makes none. Without `pool`, one of device 0 that this module keeps.
    """
    if pool is None:
        pool = _default_pool()
    shape, dtype = _describe(array)
    size = int(re.sub(r"\D", "", dtype) or 8) // 8
    block = pool.allocate(math.prod(shape) * size, stream)
    if block.nbytes:
        block.copy_from(array)
    return block.view(shape, dtype)
