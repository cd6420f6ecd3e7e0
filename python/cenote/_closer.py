# SPDX-License-Identifier: MIT
"""
Closing what other processes have sent.

Closing a file takes as long as its sender likes: a file system that the sender serves is asked, and a socket that
lingers waits for its peer. So a descriptor that came is closed by another thread, unless that is known to ask nobody.

Each user that sends has one such thread, so that one that never comes to an end holds up the descriptors of that user
alone. They have a bound: while LEFT_MAX wait, no message of that user's is read; it stays in its socket. Users have a
bound, too, because a stranger may have many: while the descriptors of USERS_MAX are being closed, nothing is read from
others. All whose user is not known count as one.
"""

import os
import threading
from contextlib import suppress

LEFT_MAX, USERS_MAX = 64, 64


def _closes_at_once(descriptor):
    """Whether closing it asks nobody. Told without asking the file that it is of."""
    try:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:["):
            return True
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii", errors="replace") as facts:
            flags = next(int(line.split()[1], 8) for line in facts if line.startswith("flags:"))
        return bool(flags & os.O_PATH)
    except (OSError, StopIteration, ValueError):
        return False


class _Closer:
    """
    Closes what one user's processes have sent.

    It never waits for a lock: a signal's handler may come in anywhere, and receive something.
    """

    def __init__(self):
        self.left = []                # what the thread is to close
        self.turn = threading.Lock()  # the thread has it

    def close(self, descriptors):
        """Close them, or have them closed."""
        for each in descriptors:
            if _closes_at_once(each.fileno()):
                each.close()
            else:
                self.left.append(each)
        if self.left and not self.turn.locked():
            with suppress(RuntimeError):  # no thread can be started: the next one closes these, too
                threading.Thread(target=self._run, name="cenote-closer", daemon=True).start()

    def _run(self):
        """One that finds the turn taken may go: the thread that has it looks once more when it has given it back."""
        while self.left and self.turn.acquire(blocking=False):
            try:
                while self.left:
                    self.left.pop(0).close()
            finally:
                self.turn.release()

    def is_idle(self):
        """Nothing is to be closed."""
        return not self.left and not self.turn.locked()


_closers = {}  # user -> _Closer


def _reset():
    """In a forked child: the threads that had turns are not there."""
    for closer in _closers.values():
        closer.turn = threading.Lock()


os.register_at_fork(after_in_child=_reset)


def closer_of(user):
    """The closer for what comes from a user; None: not known. ValueError: nothing more may be received from it now."""
    if user not in _closers and len(_closers) >= USERS_MAX:
        for other, closer in list(_closers.items()):
            if closer.is_idle():
                _closers.pop(other, None)
        if len(_closers) >= USERS_MAX:
            raise ValueError(f"files that {USERS_MAX} other users sent take long to close: nothing more is received")
    closer = _closers.setdefault(user, _Closer())
    if len(closer.left) >= LEFT_MAX:
        raise ValueError("files that the sender's user sent take long to close: nothing more is received from it")
    return closer
