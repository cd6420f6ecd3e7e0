# SPDX-License-Identifier: MIT
"""
What travels for an object: a record of some hundred bytes.

A record names the process that owns the object, by the number of its port; a pool, by a random number; a block, by
CUDA's 64 bytes, and where in the block the memory lies; the event that says when it is ready, by CUDA's 64 bytes. A
token names what the sender keeps until the receiver has the object; 0 means nothing.

Records come from other processes. Nothing in them is believed: their form is checked when they are read, and what a
record says of memory is compared with the block that was imported. The extension writes and reads them (py_record.c);
here is what Python needs of them.
"""

from collections import namedtuple

from ._cenote import read_record

POOL, BLOCK, VIEW, EVENT = 1, 2, 3, 4
ON_HOST, HAS_READY, READ_ONLY = 1, 2, 4
MAGIC, DIMENSIONS_AT, HEAD_BYTES = b"cenP", 7, 232
BYTES_MAX = HEAD_BYTES + 8 * 32  # with 32 dimensions

# dtype, view_offset and shape are a view's.
Record = namedtuple("Record", "kind flags port pool device pointer offset nbytes ready token dtype view_offset shape")


def find(data):
    """The record that these bytes begin with. ValueError: there is none."""
    return read(data[:HEAD_BYTES + 8 * data[DIMENSIONS_AT]] if len(data) > DIMENSIONS_AT else b"")


def read(data):
    """The record in these bytes. ValueError: there is none."""
    return Record(*read_record(bytes(data)))
