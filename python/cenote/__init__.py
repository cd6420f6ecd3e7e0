# SPDX-License-Identifier: MIT
"""
Device memory that processes share.

    import cenote, numpy

    pool = cenote.Pool()                       # a GPU's memory, or this machine's where there is none
    block = pool.allocate(4096)
    numbers = numpy.asarray(block.view(1024, "float32"))

A Block is memory in the order of a Stream. NumPy, PyTorch, CuPy and JAX use it without a copy. It goes to other
processes through multiprocessing's queues and connections, by send() and recv() over a socket, or by name.
"""

import builtins

from . import _cenote

_cenote.check_interpreter()

from . import _errors, _pickling  # noqa: E402, F401 (the second registers itself)
from ._cenote import Block, Device, Event, Importer, Pool, PoolStats, Stream, View, __version__, device_kind, \
    devices
from ._errors import *  # noqa: F403 (the classes are made from the library's list)
from ._errors import CudaError
from ._share import Watch, attach, in_flight, share
from ._socket import recv, send

__all__ = ["Block", "CudaError", "Device", "Event", "Importer", "Pool", "PoolStats", "Stream", "View", "Watch",
           "attach", "device_kind", "devices", "in_flight", "recv", "send", "share",
           # Not those that would hide Python's own, as TimeoutError.
           *(name for name in _errors.__all__[1:] if not hasattr(builtins, name))]
