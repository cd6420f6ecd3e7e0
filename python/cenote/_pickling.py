# SPDX-License-Identifier: MIT
"""
multiprocessing: pools, blocks, views and events through queues, connections, pools of processes, and as arguments of
one.

A pickle of multiprocessing's has the object's record. The object is kept until the receiver has it, or until nobody
can read it any more: if the pickle is written to a pipe or socket of multiprocessing's, and the last reader of that
goes, the object is let go. Which pipe it is, multiprocessing does not tell a reducer; so it is looked up in the
calling frames, and where that fails (another version of Python's), only the receiver's word counts.

Other pickles are refused: nobody says when they have been read. block.name() is for those.
"""

import sys
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler

from . import _share
from ._cenote import Block, Event, Pool, View

FRAMES_MAX = 16


def _channel():
    """The Connection that the pickle in the making is written to; None: it is not known."""
    frame = sys._getframe(2)
    for _ in range(FRAMES_MAX):
        if frame is None:
            return None
        name = frame.f_code.co_name
        if name in ("send", "_feed"):
            # Connection.send(self, obj), or the thread of a queue, whose `send_bytes` is the method of a connection.
            variables = frame.f_locals
            caller = variables.get("self" if name == "send" else "send_bytes")
            if type(variables) is dict:
                variables.clear()  # a copy, up to Python 3.12: the frame keeps it, and the object with it
            connection = getattr(caller, "__self__", caller)
            if isinstance(connection, Connection) and not connection.closed:
                return connection
        frame = frame.f_back
    return None


def pack(thing):
    """The record of an object that is being pickled. The object is kept."""
    keeper = _share.keeper
    keeper.open_port()
    token = keeper.new_token()
    data = _share.describe(thing, token)
    keeper.keep(thing, token, _channel())
    return data


def _reduce(thing):
    return _share.restore, (pack(thing),)


for kind in (Pool, Block, View, Event):
    ForkingPickler.register(kind, _reduce)
