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
no object can be made, the senders hear at once. A pickle for a Connection that is never written, because an exception
came before, keeps nothing when its memory goes.

An exception may come from a signal's handler, after any call.

Other pickles are refused: nobody says when they have been read. block.name() is for those.
"""

import sys
import threading
import weakref
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler

from . import _cenote, _share
from ._cenote import Block, Event, Pool, View

FRAMES_MAX = 16

# Where a pickle in the making is meant to go: of a function in the calling frames, by its name and its module's, what
# its variables say.
CARRIERS = {
    "send": {"multiprocessing.connection": lambda variables: variables["self"],
             "torch.multiprocessing.queue": lambda variables: variables["self"].conn},
    "_feed": {"multiprocessing.queues": lambda variables: variables["send_bytes"].__self__},
    "put": {"multiprocessing.queues": lambda variables: variables["self"]._writer},  # SimpleQueue's
    "_launch": {"multiprocessing.popen_spawn_posix": lambda variables: variables["self"],
                "multiprocessing.popen_forkserver": lambda variables: variables["self"]},
}


def _carrier():
    """The Connection, or the Popen of a process, that the pickle in the making is for; None: it is not known."""
    frame = sys._getframe(4)  # behind this one, pack(), a reducer and _dump()
    for _ in range(FRAMES_MAX):
        if frame is None:
            return None
        modules = CARRIERS.get(frame.f_code.co_name)
        find = modules and modules.get(frame.f_globals.get("__name__"))
        if find:
            variables = frame.f_locals
            carrier = find(variables)
            if type(variables) is dict:
                variables.clear()  # a copy, up to Python 3.12: the frame keeps it, and the object with it
            return carrier
        frame = frame.f_back
    return None


# ---- Pickles in the making ----


class _Making(threading.local):
    """
    Of this thread. Two lists of tokens are what is kept for a pickle: all, and those that go over a Connection and are
    not written yet.
    """

    def __init__(self):
        self.kept = None     # of the pickle that it makes; False: nothing yet; None: it makes none
        self.latest = False  # of the one that it has made, if that was not by dumps()
        self.made = {}       # by dumps(): of those whose memory is there, by what that memory is of


_making = _Making()
_plain_dump, _plain_dumps, _plain_loads = ForkingPickler.dump, ForkingPickler.dumps.__func__, ForkingPickler.loads
_plain_send_bytes = Connection._send_bytes


def _dump(pickler, thing):
    """ForkingPickler.dump()"""
    outer, _making.kept = _making.kept, False
    try:
        return _plain_dump(pickler, thing)
    except BaseException:
        if _making.kept:
            _share.keeper.let_go(_making.kept[0])
        raise
    finally:
        _making.latest, _making.kept = _making.kept, outer


def _dumps(cls, thing, protocol=None):
    """ForkingPickler.dumps()"""
    making = _making
    outer, making.latest = making.latest, False
    try:
        data = _plain_dumps(cls, thing, protocol)
        latest = making.latest
        if latest:
            made, key, unwritten = making.made, id(data.obj), latest[1]
            made[key] = unwritten, weakref.ref(data, partial(_drop, made, key, unwritten))
        return data
    except BaseException:
        latest = making.latest
        if latest:
            _share.keeper.let_go(latest[0])
        raise
    finally:
        making.latest = outer


def _drop(made, key, unwritten, _):
    """The memory of a pickle has gone."""
    made.pop(key, None)
    if unwritten:
        _share.keeper.let_go(unwritten)


def _was_refused(error):
    """Whether the system did not take a message, so that a part of it at most was written."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return isinstance(error, OSError) and trace.tb_frame.f_globals.get("__name__") == Connection.__module__


def _send_bytes(connection, data):
    """Connection._send_bytes()"""
    found, unwritten = _making.made.get(id(data.obj)), None
    if found:
        unwritten = found[0]
    elif type(data.obj) is bytes:  # which dumps() does not make
        latest, _making.latest = _making.latest, False
        unwritten = latest[1] if latest else None
    try:
        done = _plain_send_bytes(connection, data)
        _cenote.keep_written(unwritten, connection, len(data))
        return done
    except BaseException as error:
        if unwritten and not _was_refused(error):
            _cenote.keep_written(unwritten, connection, 0)  # it may be whole
        raise


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
    token, carrier, making = keeper.new_token(), _carrier(), _making
    if making.kept is not None:
        making.kept = making.kept or ([], [])
        making.kept[0].append(token)
        if isinstance(carrier, Connection):
            making.kept[1].append(token)
    held = _cenote.hold(thing)
    data = _share.describe(thing, held, token)
    keeper.keep(held, token, carrier)
    return data


def _reduce(thing):
    return _share.restore, (pack(thing),)


ForkingPickler.dump, ForkingPickler.dumps, ForkingPickler.loads = _dump, classmethod(_dumps), staticmethod(_loads)
Connection._send_bytes = _send_bytes
for kind in (Pool, Block, View, Event):
    ForkingPickler.register(kind, _reduce)
