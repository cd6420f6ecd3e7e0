# SPDX-License-Identifier: MIT
"""
The keeper: a thread that keeps what was sent until it has arrived, and the port at which other processes ask.

A block that its owner frees stays with the processes that have imported it; the library sees to that. A block that is
on its way is not imported yet: it must not be freed before it arrives, not even by the program itself. So what is sent
is held (py_hold.c) and kept (py_keep.c) under a number, its token, and let go when the first of these happens:

- the receiver has it: it writes the token to our port, perhaps with others (py_tell.c);
- nobody can receive it any more: the other end of the pipe or socket it was written to is closed, or the process that
  began with it has ended;
- the descriptor that travelled with it is closed, by the receiver that has it, or by the system that found no
  receiver;
- its message was read, and for UNTOLD_LOOKS looks the reader has not said a word: it died, or forgot it. (Looks are
  counted, not seconds: a sender that was stopped has lost no time.)

Other processes of the same user find the port by its number, in the runtime directory of the library. They ask for
pools there, and write tokens. One that asks for anything else is disconnected, and so is the one that was silent for
longest when there are CLIENTS_MAX: it may come again.

The thread begins with the first thing that is sent, and does nothing while nothing is on its way. In a forked child
there is none, and nothing is kept. When the process ends, it waits up to LINGER_SECONDS for what is still on its way: a
worker may send its result and end.
"""

import errno
import multiprocessing.util
import os
import select
import socket
import stat
import struct
import sys
import threading
import time
import weakref
from collections import OrderedDict
from contextlib import suppress
from itertools import count

from . import _cenote
from ._cenote import tell_flush

LINGER_SECONDS = 5.0
LOOK_SECONDS = 1.0      # how often what has not arrived is looked after
UNTOLD_LOOKS = 600
ANSWER_SECONDS = 30.0   # a call of the sender's may hold the GIL, in which its keeper answers
ASK_POOL, HAVE = b"P", b"H"
ID_BYTES = 16
MESSAGE_BYTES_MAX = 4096
CLIENTS_MAX = 256
UNFINISHED_SECONDS = 60  # what has had no name for so long was left by a process that was killed
GATHER_SECONDS = 0.0003
MESSAGES_MAX = 256       # of a client, in one turn
REST_SECONDS = 0.01      # where no descriptor is left to accept a client with
PREFIX, UNFINISHED = "python-", "python.new-"
HUNG_UP = select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP


# ---- The directory ----


def runtime_path():
    """The library's runtime directory; the same rules as the library's."""
    user = os.getuid()
    return os.environ.get("CENOTE_RUNTIME_DIR", "").rstrip("/") or (
        f"/run/user/{user}/cenote" if os.path.isdir(f"/run/user/{user}") else f"/tmp/cenote-{user}")


def runtime_directory():
    """A Descriptor of the runtime directory, which is made if it is missing."""
    user, path = os.getuid(), runtime_path()
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    folder = _cenote.open_folder(path)
    found = os.fstat(folder.fileno())
    if found.st_uid != user or found.st_mode & 0o077:
        raise PermissionError(f"{path} must be this user's, with mode 0700")
    return folder


def path_in(folder, name):
    """A path that is short enough for a socket's address, wherever the folder is."""
    return f"/proc/self/fd/{folder.fileno()}/{name}"


def receive(sock, length):
    """Bytes, a list of Descriptors, and flags of a message. What is executed does not inherit the descriptors."""
    while True:
        try:
            return _cenote.receive(sock.fileno(), length, 0)
        except BlockingIOError:  # so it is if the socket has a time limit, which is Python's
            if not sock.gettimeout():
                raise
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            if not poll.poll(sock.gettimeout() * 1000):
                raise TimeoutError("timed out") from None


def connect(port):
    """A connection to another process's port. ConnectionError: it has ended, or this process cannot see it."""
    folder = runtime_directory()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    seconds, rest = divmod(ANSWER_SECONDS, 1)
    try:
        # The system waits for a place in the queue of those that connect; with Python's timeout it would not.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds), int(rest * 1e6)))
        sock.connect(path_in(folder, PREFIX + port.hex()))
        sock.settimeout(ANSWER_SECONDS)
        return sock
    except BlockingIOError:
        sock.close()
        raise TimeoutError from None
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        raise ConnectionError("the process that sent this has ended, or its runtime directory is another one") from None
    except BaseException:
        sock.close()
        raise
    finally:
        folder.close()


def ask(port, question):
    """
    What another process answers at its port, a message and a list of Descriptors, over a connection for this question
    alone: an answer that comes too late is not taken for the next one's.
    """
    try:
        with connect(port) as peer:
            peer.send(question)
            return receive(peer, MESSAGE_BYTES_MAX)[:2]
    except TimeoutError:
        raise TimeoutError(f"the process that sent this has not answered for {ANSWER_SECONDS:g} seconds") from None


def _sweep_unfinished(folder, name):
    """Remove a socket that has not got its name, if that is long ago."""
    with suppress(OSError):
        found = os.stat(name, dir_fd=folder.fileno(), follow_symlinks=False)
        if stat.S_ISSOCK(found.st_mode) and time.time() - found.st_mtime > UNFINISHED_SECONDS:
            os.unlink(name, dir_fd=folder.fileno())


def sweep(folder):
    """Remove the names of ended processes."""
    for name in os.listdir(folder.fileno()):
        if name.startswith(UNFINISHED):
            _sweep_unfinished(folder, name)
        if not name.startswith(PREFIX):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as probe:
            try:
                probe.connect(path_in(folder, name))
            except ConnectionRefusedError:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder.fileno())
            except OSError:
                pass  # it lives, and is busy; or has just gone


# ---- The thread ----


def _is_closed(popen):
    """Whether a Popen's sentinel is closed, so that its number may be another's."""
    finalizer = getattr(popen, "finalizer", None)
    return finalizer is not None and not finalizer.still_active()


class _Machine:
    """What the thread runs with. It is closed when neither the thread nor another function has it."""

    def __init__(self):
        self.is_wanted = True
        self.epoll = select.epoll()
        self.wake = _cenote.open_eventfd(0)   # something else is to be waited for
        self.empty = _cenote.open_eventfd(1)  # nothing is on its way
        self.epoll.register(self.wake, select.EPOLLIN)

    def start(self, run):
        """The thread."""
        threading.Thread(target=run, args=(self,), name="cenote-keeper", daemon=True).start()

    def end(self):
        """Let the thread end, if there is one."""
        self.is_wanted = False
        os.eventfd_write(self.wake.fileno(), 1)

    def close(self):
        """At once, in a forked child."""
        for each in (self.epoll, self.wake, self.empty):
            each.close()


class Keeper:
    """
    All of it; one in a process.

    A finaliser or a signal's handler may come in anywhere, and send something: what they find must be whole, and no
    lock is held that they would wait for.
    """

    def __init__(self, find_pool):
        self.port = bytes(ID_BYTES)   # zeros: there is none yet
        self._find_pool = find_pool   # a pool's number -> a new Descriptor of it, or None
        self._first = {}              # which machine, and which listener with its port, was made first
        self._machine = None
        self._listener = None
        self._clients = OrderedDict() # descriptor -> socket; the one that was silent for longest first
        self._starting = {}           # token -> weak reference to a Popen that has no process yet
        self._numbers = count(1)      # of tokens
        self._stopping = False

    # ---- What others call ----

    def new_token(self):
        """A number for what is to be kept."""
        return next(self._numbers)

    def keep(self, held, token, carrier=None):
        """Keep a Hold until its token is received, or `carrier`, a Connection or Popen, has come to its end."""
        if carrier is None or hasattr(carrier, "fileno"):
            _cenote.keep(held, token, carrier, -1 if carrier is None else carrier.fileno())
        else:
            self._starting[token] = weakref.ref(carrier)
            _cenote.keep(held, token, None, -1)

    def keep_travelling(self, held, token):
        """Keep a Hold until the descriptor that this returns is closed everywhere; for us _cenote.keep_sent() does."""
        self._start(False)
        return _cenote.keep_travelling(held, token)

    def let_go(self, tokens):
        """Keep no longer what will not be sent, or has come back to this process itself."""
        _cenote.keep_let_go(struct.pack(f"<{len(tokens)}Q", *tokens))

    def open_port(self):
        """The number at which other processes find this one."""
        if self._listener is None:
            self._start(True)
        return self.port

    def wait_empty(self, seconds):
        """Wait until nothing is on its way. False: something is, after so long."""
        if self._machine is not None:
            poll = select.poll()
            poll.register(self._machine.empty, select.POLLIN)
            poll.poll(seconds * 1000)
        return not _cenote.keep_list()

    def reset(self):
        """In a forked child: none of this is ours."""
        _cenote.keep_reset()
        for each in [self._listener, self._machine, *self._clients.values()]:
            with suppress(OSError):
                if each is not None:
                    each.close()
        self.__init__(self._find_pool)

    def stop(self):
        """The process ends: senders are told of what has arrived, and what is on its way may arrive first."""
        tell_flush()
        if self._machine is None or self._stopping:
            return
        self.wait_empty(LINGER_SECONDS)
        self._stopping = True
        os.eventfd_write(self._machine.wake.fileno(), 1)
        if self._listener is not None:
            with suppress(OSError):
                folder = runtime_directory()
                os.unlink(PREFIX + self.port.hex(), dir_fd=folder.fileno())
                folder.close()

    # ---- Beginning ----

    def _start(self, with_port):
        if self._machine is None:
            self._begin()
        if with_port and self._listener is None:
            self._listen()

    def _begin(self):
        """The thread. Another one, or a finaliser in this one, may do the same: the first machine counts."""
        made = _Machine()
        try:
            made.start(self._run)
            self._first.setdefault("machine", made)
        finally:
            machine = self._first.get("machine")
            if machine is not made:  # or an exception came
                made.end()
        _cenote.keep_begin(machine.epoll.fileno(), machine.wake.fileno(), machine.empty.fileno())
        self._machine = machine

    def _listen(self):
        """
        The port. The name appears when it can be connected to: a sweep takes any other for a dead one's. Nothing is
        left of it if it does not become the first, because another one is, or an exception comes.
        """
        port = os.urandom(ID_BYTES)
        folder = runtime_directory()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        names = UNFINISHED + port.hex(), PREFIX + port.hex()
        try:
            sweep(folder)
            listener.bind(path_in(folder, names[0]))
            listener.listen(128)
            listener.setblocking(False)
            os.rename(*names, src_dir_fd=folder.fileno(), dst_dir_fd=folder.fileno())
            self._first.setdefault("port", (listener, port))
        finally:
            first = self._first.get("port")
            if first is None or first[0] is not listener:
                listener.close()
                for name in names:
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder.fileno())
            folder.close()
        listener, self.port = first
        with suppress(FileExistsError):
            self._machine.epoll.register(listener, select.EPOLLIN)
        self._listener = listener

    # ---- The thread ----

    def _run(self, machine):
        look_at, is_resting = 0.0, False
        while machine.is_wanted and not self._stopping:
            try:
                if machine.epoll.poll(None if is_resting else LOOK_SECONDS):
                    is_resting = False
                    time.sleep(GATHER_SECONDS)  # what comes meanwhile wakes nobody, and the program goes on first
                    for descriptor, events in machine.epoll.poll(0):
                        with suppress(OSError):
                            self._handle(machine, descriptor, events)
                if time.monotonic() >= look_at:
                    look_at = time.monotonic() + LOOK_SECONDS
                    self._attach()
                    is_resting = _cenote.keep_look(UNTOLD_LOOKS)
            except Exception:  # there is no other thread for this: it goes on
                if not machine.is_wanted:
                    return
                with suppress(Exception):  # the program's own function
                    sys.excepthook(*sys.exc_info())
                time.sleep(REST_SECONDS)

    def _attach(self):
        """What processes begin with goes with them; if one was not started, at once."""
        for token, reference in self._starting.copy().items():
            popen = reference()
            if popen is not None and getattr(popen, "sentinel", None) is None:
                continue
            if popen is None or _is_closed(popen):
                self.let_go([token])
            else:
                try:
                    _cenote.keep_attach(token, popen, popen.sentinel)
                except OSError:
                    continue  # no descriptor is left for it now
                if _is_closed(popen):  # meanwhile
                    self.let_go([token])
            self._starting.pop(token, None)

    def _handle(self, machine, descriptor, events):
        if descriptor == machine.wake.fileno():
            os.eventfd_read(descriptor)
        elif self._listener is not None and descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._clients:
            self._serve(self._clients[descriptor])
        elif events & HUNG_UP:
            _cenote.keep_hung_up(descriptor)

    def _accept(self):
        try:
            client, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                time.sleep(REST_SECONDS)  # it is there still, and epoll says so at once
            raise
        while len(self._clients) >= CLIENTS_MAX:
            self._hang_up(next(iter(self._clients.values())))
        user = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if user != os.getuid():
            client.close()
            return
        client.setblocking(False)
        self._machine.epoll.register(client, select.EPOLLIN)
        self._clients[client.fileno()] = client

    def _serve(self, client):
        """What a client has sent: all, so that no turn is needed for each message."""
        self._clients.move_to_end(client.fileno())
        for _ in range(MESSAGES_MAX):
            try:
                message = client.recv(MESSAGE_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not self._answer(client, message):
                self._hang_up(client)
                return

    def _answer(self, client, message):
        """False: it is the end, or nonsense."""
        kind, rest = message[:1], message[1:]
        if kind == HAVE and rest and len(rest) % 8 == 0:
            _cenote.keep_let_go(rest)
        elif kind == ASK_POOL and len(rest) == ID_BYTES:
            self._send_pool(client, rest)
        else:
            return False
        return True

    def _hang_up(self, client):
        """What it has said so far counts: it does not say it again."""
        self._machine.epoll.unregister(client)
        del self._clients[client.fileno()]
        with client, suppress(OSError):
            client.shutdown(socket.SHUT_RD)  # the rest has an end then, and what comes later is refused
            while self._answer(client, client.recv(MESSAGE_BYTES_MAX)):
                pass

    def _send_pool(self, client, number):
        descriptor = None
        try:
            descriptor = self._find_pool(number)
            socket.send_fds(client, [ASK_POOL], [] if descriptor is None else [descriptor.fileno()])
        except Exception as error:  # the asker is told, and goes on to the next
            with suppress(OSError):
                client.send(b"E" + str(error).encode(errors="replace")[:MESSAGE_BYTES_MAX - 1])
        finally:
            if descriptor is not None:
                descriptor.close()


def stop_at_end(keeper):
    """
    Stop it when the process ends, after the threads of multiprocessing's queues have sent all. Such a thread may be
    the first to use it, which is too late to register it.
    """
    multiprocessing.util.Finalize(None, keeper.stop, exitpriority=-20)
