# SPDX-License-Identifier: MIT
"""
What travels for an object: a record of some hundred bytes.

A record names the process that owns the object, by the number of its port; a pool, by a random number; a block, by
CUDA's 64 bytes, and where in the block the memory lies; the event that says when it is ready, by CUDA's 64 bytes. A
token names what the sender keeps until the receiver has the object; 0 means nothing.

Records come from other processes. Nothing in them is believed: read() checks their form, and what a record says of
memory is compared with the block that was imported.
"""

import struct
from collections import namedtuple

MAGIC = b"cenP"
VERSION = 1
POOL, BLOCK, VIEW, EVENT = 1, 2, 3, 4
ON_HOST, HAS_READY = 1, 2
DIMENSIONS_MAX = 32
NO_BYTES = bytes(64)

# magic, version, kind, flags, dimensions; port, pool, device; pointer; offset, nbytes; ready; token; element type
HEAD = struct.Struct("<4sBBBB16s16s16s64sQQ64sQ16s")
BYTES_MAX = HEAD.size + 8 + 8 * DIMENSIONS_MAX

Record = namedtuple("Record", "kind flags port pool device pointer offset nbytes ready token dtype view_offset shape",
                    defaults=(0, 0, bytes(16), bytes(16), bytes(16), NO_BYTES, 0, 0, NO_BYTES, 0, "", 0, ()))


def write(record, token=None):
    """The bytes of a record, with this token or its own."""
    token = record.token if token is None else token
    head = HEAD.pack(MAGIC, VERSION, record.kind, record.flags, len(record.shape), record.port, record.pool,
                     record.device, record.pointer, record.offset, record.nbytes, record.ready, token,
                     record.dtype.encode())
    return head + struct.pack(f"<Q{len(record.shape)}Q", record.view_offset, *record.shape)


def read(data):
    """The record in these bytes. ValueError: there is none."""
    data = bytes(data)
    if len(data) < HEAD.size or data[:4] != MAGIC:
        raise ValueError("these bytes are not Cenote's")
    _, version, kind, flags, dimensions, *fields, dtype = HEAD.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"these bytes are of version {version} of the format; this module reads {VERSION}")
    if kind not in (POOL, BLOCK, VIEW, EVENT) or dimensions > DIMENSIONS_MAX:
        raise ValueError("these bytes are damaged")
    if len(data) != HEAD.size + 8 + 8 * dimensions:
        raise ValueError("these bytes are not whole")
    view_offset, *shape = struct.unpack_from(f"<Q{dimensions}Q", data, HEAD.size)
    return Record(kind, flags, *fields, dtype.rstrip(b"\0").decode("ascii", "replace"), view_offset, tuple(shape))
