# SPDX-License-Identifier: MIT
"""
multiprocessing: pools, blocks, views and events through queues, connections, pools of processes, and as arguments of
one.

A pickle of multiprocessing's has the object's record. The object is kept until the receiver has it, or until nobody
can read it any more: if the pickle is written to a pipe or socket of multiprocessing's, and the last reader of that
goes, the object is let go; and if it begins a process, when that ends. Which it is, multiprocessing does not tell a
reducer; so it is looked up in the calling frames, and where that fails (another version of Python's), only the
receiver's word counts. A pickle that fails in the middle keeps nothing: for that, the method that makes one is wrapped;
so is the one that writes it, because only what is written can be read, and the one that reads it: of a message of which
no object can be made, the senders hear at once.

Other pickles are refused: nobody says when they have been read. block.name() is for those.
"""

import sys
import threading
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler

from . import _cenote, _share
from ._cenote import Block, Event, Pool, View

FRAMES_MAX = 16

# Where a pickle in the making is meant to go: of a function in the calling frames, what its variables say.
CARRIERS = {
    ("multiprocessing.connection", "send"): lambda variables: variables["self"],
    ("multiprocessing.queues", "_feed"): lambda variables: variables["send_bytes"].__self__,
    ("multiprocessing.queues", "put"): lambda variables: variables["self"]._writer,  # SimpleQueue's
    ("multiprocessing.popen_spawn_posix", "_launch"): lambda variables: variables["self"],
    ("multiprocessing.popen_forkserver", "_launch"): lambda variables: variables["self"],
    ("torch.multiprocessing.queue", "send"): lambda variables: variables["self"].conn,
}


def _carrier():
    """The Connection, or the Popen of a process, that the pickle in the making is for; None: it is not known."""
    frame = sys._getframe(2)
    for _ in range(FRAMES_MAX):
        if frame is None:
            return None
        find = CARRIERS.get((frame.f_globals.get("__name__"), frame.f_code.co_name))
        if find is not None:
            variables = frame.f_locals
            carrier = find(variables)
            if type(variables) is dict:
                variables.clear()  # a copy, up to Python 3.12: the frame keeps it, and the object with it
            return carrier
        frame = frame.f_back
    return None


# ---- Pickles in the making ----


class _Making(threading.local):
    """Of this thread."""

    tokens = None   # what is kept for the pickle that it makes; None: it makes none
    unwritten = ()  # what is kept for the one that it has made last


_making = _Making()
_plain_dump, _plain_send_bytes, _plain_loads = ForkingPickler.dump, Connection._send_bytes, ForkingPickler.loads


def _dump(pickler, thing):
    """ForkingPickler.dump()"""
    outer, _making.tokens = _making.tokens, []
    try:
        done = _plain_dump(pickler, thing)
        _making.unwritten = _making.tokens
        return done
    except BaseException:
        _share.keeper.let_go(_making.tokens)
        raise
    finally:
        _making.tokens = outer


def _send_bytes(connection, data):
    """Connection._send_bytes()"""
    tokens, _making.unwritten = _making.unwritten, ()
    done = _plain_send_bytes(connection, data)
    if tokens:
        _cenote.keep_written(tokens)
    return done


def _loads(data, **words):
    """ForkingPickler.loads()"""
    try:
        return _plain_loads(data, **words)
    except BaseException:
        _share.give_up(data)
        raise


def pack(thing):
    """The record of an object that is being pickled. The object is kept."""
    keeper = _share.keeper
    keeper.open_port()
    token = keeper.new_token()
    if _making.tokens is not None:
        _making.tokens.append(token)
    held = _cenote.hold(thing)
    data = _share.describe(thing, held, token)
    keeper.keep(held, token, _carrier())
    return data


def _reduce(thing):
    return _share.restore, (pack(thing),)


ForkingPickler.dump, Connection._send_bytes, ForkingPickler.loads = _dump, _send_bytes, staticmethod(_loads)
for kind in (Pool, Block, View, Event):
    ForkingPickler.register(kind, _reduce)
