# SPDX-License-Identifier: MIT
"""
The keeper: a thread that keeps what was sent until it has arrived, and the port at which other processes ask.

A block that its owner frees stays with the processes that have imported it; the library sees to that. A block that is
on its way is not imported yet: it must not be freed before it arrives, not even by the program itself. So what is sent
is held here (py_hold.c), by number (a token) or by descriptor, and let go when the first of these happens:

- the receiver has it: it writes the token to our port, perhaps with others (py_tell.c);
- nobody can receive it any more: the other end of the pipe or socket it was written to is closed, or the process that
  began with it has ended;
- the descriptor that travelled with it is closed, by the receiver that has it, or by the system that found no
  receiver;
- its message was read, and for UNTOLD_SECONDS the reader has not said a word: it could not make an object of it.

Other processes of the same user find the port by its number, in the runtime directory of the library. They ask for
pools there, and write tokens. One that asks for anything else is disconnected, and so is the one that was silent for
longest when there are CLIENTS_MAX: it may come again.

The thread begins with the first thing that is sent, and does nothing while nothing is on its way. In a forked child
there is none, and nothing is kept. When the process ends, it waits up to LINGER_SECONDS for what is still on its way: a
worker may send its result and end.
"""

import array
import errno
import fcntl
import multiprocessing.util
import os
import select
import socket
import stat
import struct
import termios
import threading
import time
import weakref
from collections import OrderedDict
from contextlib import suppress
from itertools import count

from ._cenote import hold, tell_flush

LINGER_SECONDS = 5.0
LOOK_SECONDS = 1.0      # how often what has not arrived is looked after
UNTOLD_SECONDS = 30.0
ANSWER_SECONDS = 5.0
ASK_POOL, HAVE = b"P", b"H"
ID_BYTES = 16
MESSAGE_BYTES_MAX = 4096
CLIENTS_MAX = 256
UNFINISHED_SECONDS = 60  # what has had no name for so long was left by a process that was killed
GATHER_SECONDS = 0.0003
MESSAGES_MAX = 256       # of a client, in one turn
REST_SECONDS = 0.01      # where no descriptor is left to accept a client with
PREFIX, UNFINISHED = "python-", "python.new-"
HUNG_UP = select.EPOLLHUP | select.EPOLLERR


# ---- The directory ----


def runtime_path():
    """The library's runtime directory; the same rules as the library's."""
    user = os.getuid()
    return os.environ.get("CENOTE_RUNTIME_DIR", "").rstrip("/") or (
        f"/run/user/{user}/cenote" if os.path.isdir(f"/run/user/{user}") else f"/tmp/cenote-{user}")


def runtime_directory():
    """A descriptor of the runtime directory, which is made if it is missing."""
    user, path = os.getuid(), runtime_path()
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    folder = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(folder)
    if found.st_uid != user or found.st_mode & 0o077:
        os.close(folder)
        raise PermissionError(f"{path} must be this user's, with mode 0700")
    return folder


def path_in(folder, name):
    """A path that is short enough for a socket's address, wherever the folder is."""
    return f"/proc/self/fd/{folder}/{name}"


def receive(sock, length, descriptors_max):
    """
    Bytes, descriptors and flags of a message. What is executed meanwhile does not inherit the descriptors; recv_fds()
    would drop the flag that says so.
    """
    item = array.array("i")
    data, ancillary, flags, _ = sock.recvmsg(length, socket.CMSG_LEN(descriptors_max * item.itemsize),
                                             socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            item.frombytes(content[:len(content) - len(content) % item.itemsize])
    return data, list(item), flags


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
        raise TimeoutError("the process that sent this does not answer") from None
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        raise ConnectionError("the process that sent this has ended, or its runtime directory is another one") from None
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(folder)


def _sweep_unfinished(folder, name):
    """Remove a socket that has not got its name, if that is long ago."""
    with suppress(OSError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISSOCK(found.st_mode) and time.time() - found.st_mtime > UNFINISHED_SECONDS:
            os.unlink(name, dir_fd=folder)


def sweep(folder):
    """Remove the names of ended processes."""
    for name in os.listdir(folder):
        if name.startswith(UNFINISHED):
            _sweep_unfinished(folder, name)
        if not name.startswith(PREFIX):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as probe:
            try:
                probe.connect(path_in(folder, name))
            except ConnectionRefusedError:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
            except OSError:
                pass  # it lives, and is busy; or has just gone


# ---- Channels ----


class Channel:
    """
    What carries messages, and by whose end the keeper knows that they are lost: the pipe or socket of a Connection, or
    the sentinel of a process that begins with them (a Popen of multiprocessing's).

    The descriptor is our own: the program may close its one at any time. As long as a message is on its way, a reader
    sees no end of the channel; and it reads the message before the end.
    """

    def __init__(self, carrier):
        self.descriptor = os.dup(_descriptor_of(carrier))
        self.tokens = set()
        self._is_connection = hasattr(carrier, "fileno")
        self._read = 0          # the latest token of which it is known that its message was read,
        self._read_since = 0.0  # and since when

    def _is_read(self):
        """Whether it is known that no byte is unread."""
        mode = os.fstat(self.descriptor).st_mode
        if not self._is_connection or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return False
        question = termios.FIONREAD
        if stat.S_ISSOCK(mode):
            with socket.socket(fileno=os.dup(self.descriptor)) as sock:
                if sock.family != socket.AF_UNIX:
                    return False  # the bytes may be in another machine
            question = termios.TIOCOUTQ
        return not any(fcntl.ioctl(self.descriptor, question, bytes(4)))

    def untold(self, now):
        """The tokens that were read so long ago that nobody will tell of them."""
        if not self._is_read():
            self._read = 0
            return []
        if not self._read:
            self._read, self._read_since = max(self.tokens), now
        if now - self._read_since < UNTOLD_SECONDS:
            return []
        tokens, self._read = [token for token in self.tokens if token <= self._read], 0
        return tokens


def _descriptor_of(carrier):
    """A Connection's or Popen's. None: the process is not there yet."""
    return carrier.fileno() if hasattr(carrier, "fileno") else getattr(carrier, "sentinel", None)


# ---- The thread ----


def _is_hung_up(descriptor):
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


class Keeper:
    """All of it; one in a process."""

    def __init__(self, find_pool):
        self.port = bytes(ID_BYTES)   # zeros: there is none yet
        self._find_pool = find_pool   # a pool's number -> a new descriptor of it, or None
        self._lock = threading.Lock()
        self._epoll = None
        self._wake = -1
        self._listener = None
        self._clients = OrderedDict() # descriptor -> socket; the one that was silent for longest first
        self._kept = {}               # token -> Hold, Connection or Popen or None
        self._channels = {}           # Connection or Popen, by identity -> Channel
        self._ends = {}               # descriptor of a Channel -> its Connection or Popen
        self._starting = {}           # token -> weak reference to a Popen that has no process yet
        self._travelling = {}         # descriptor of a pipe -> Hold
        self._numbers = count(1)      # of tokens
        self._resting = False         # the thread waits for no time
        self._empty = threading.Event()
        self._empty.set()
        self._stopping = False

    # ---- What others call ----

    def new_token(self):
        """A number for what is to be kept."""
        return next(self._numbers)

    def keep(self, thing, token, carrier=None):
        """Keep an object until its token is received, or `carrier`, a Connection or Popen, has come to its end."""
        with self._lock:
            self._kept[token] = (hold(thing), self._watch(carrier, token))
            if self._empty.is_set():
                self._empty.clear()
            if self._resting:
                self._resting = False
                os.eventfd_write(self._wake, 1)  # from now on the thread looks after it

    def keep_travelling(self, thing):
        """Keep an object until the descriptor that this returns is closed everywhere; the caller sends and closes."""
        self._start(False)
        held = hold(thing)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        with self._lock:
            self._travelling[reader] = held
            self._empty.clear()
            self._epoll.register(reader, 0)
        return writer

    def take(self, token):
        """What was kept under this token, which has come back to this process itself; None: nothing."""
        held = self._forget([token]).get(token)
        return None if held is None else held.thing

    def drop(self, tokens):
        """Keep no longer what will not be sent."""
        self._forget(tokens)

    def kept(self):
        """The objects that are on their way."""
        with self._lock:
            return [held.thing for held in [held for held, _ in self._kept.values()] + [*self._travelling.values()]]

    def open_port(self):
        """The number at which other processes find this one."""
        if self._listener is None:
            self._start(True)
        return self.port

    def reset(self):
        """In a forked child: none of this is ours."""
        for each in [self._listener, self._epoll, *self._clients.values()]:
            if each is not None:
                each.close()
        for descriptor in [self._wake, *self._travelling, *self._ends]:
            if descriptor >= 0:
                os.close(descriptor)
        self.__init__(self._find_pool)

    def stop(self):
        """The process ends: senders are told of what has arrived, and what is on its way may arrive first."""
        tell_flush()
        if self._epoll is None or self._stopping:
            return
        self._empty.wait(LINGER_SECONDS)
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._listener is not None:
            with suppress(OSError):
                folder = runtime_directory()
                os.unlink(PREFIX + self.port.hex(), dir_fd=folder)
                os.close(folder)

    # ---- Beginning ----

    def _start(self, with_port):
        if self._epoll is not None and (self._listener is not None or not with_port):
            return  # as with each message but the first
        with self._lock:
            if self._epoll is None:
                self._epoll = select.epoll()
                self._wake = os.eventfd(0)
                self._epoll.register(self._wake, select.EPOLLIN)
                threading.Thread(target=self._run, args=(self._epoll,), name="cenote-keeper", daemon=True).start()
            if with_port and self._listener is None:
                self._listen()

    def _listen(self):
        """Under the lock. The name appears when it can be connected to: a sweep takes any other for a dead one's."""
        port = os.urandom(ID_BYTES)
        folder = runtime_directory()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sweep(folder)
            listener.bind(path_in(folder, UNFINISHED + port.hex()))
            listener.listen(128)
            listener.setblocking(False)
            os.rename(UNFINISHED + port.hex(), PREFIX + port.hex(), src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            listener.close()
            raise
        finally:
            os.close(folder)
        self._epoll.register(listener, select.EPOLLIN)
        self._listener, self.port = listener, port

    def _watch(self, carrier, token):
        """Under the lock. Returns the carrier; None: only the receiver's word counts."""
        channel = self._channels.get(carrier)
        if channel is None:
            if carrier is None:
                return None
            if _descriptor_of(carrier) is None:
                self._starting[token] = weakref.ref(carrier)
                return None
            channel = Channel(carrier)
            try:
                self._epoll.register(channel.descriptor, 0)
            except PermissionError:  # a plain file
                os.close(channel.descriptor)
                return None
            self._channels[carrier] = channel
            self._ends[channel.descriptor] = carrier
        channel.tokens.add(token)
        return carrier

    def _look_after(self, now):
        """Let go of what will not arrive, as far as no descriptor tells of it."""
        with self._lock:
            lost = []
            for token, reference in list(self._starting.items()):
                popen = reference()
                if popen is None:
                    lost.append(token)  # no process was started
                elif _descriptor_of(popen) is not None:
                    del self._starting[token]
                    self._kept[token] = (self._kept[token][0], self._watch(popen, token))
            for channel in self._channels.values():
                lost += channel.untold(now)
            self._resting = not self._kept
        self._forget(lost)

    # ---- The thread ----

    def _run(self, epoll):
        look_at = 0.0
        while not self._stopping:
            ready = epoll.poll(None if self._resting else LOOK_SECONDS)
            now = time.monotonic()
            if now >= look_at:
                look_at = now + LOOK_SECONDS
                self._look_after(now)
            if not ready:
                continue
            time.sleep(GATHER_SECONDS)  # what comes meanwhile wakes no thread, and the program has its answer first
            for descriptor, events in epoll.poll(0):
                if self._stopping or self._epoll is not epoll:
                    return
                with suppress(OSError):
                    self._handle(descriptor, events)

    def _handle(self, descriptor, events):
        if descriptor == self._wake:
            os.eventfd_read(descriptor)
        elif self._listener is not None and descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._clients:
            self._serve(self._clients[descriptor])
        elif events & HUNG_UP:
            thing = self._hung_up(descriptor)
            del thing  # its finaliser runs without the lock

    def _hung_up(self, descriptor):
        """
        The other end of a descriptor of ours is said to be closed. Other threads close descriptors of channels, too,
        and the number may be another's by now: so it is looked at again. Returns what is let go.
        """
        with self._lock:
            if (descriptor in self._travelling or descriptor in self._ends) and not _is_hung_up(descriptor):
                return None
            if descriptor in self._travelling:
                self._epoll.unregister(descriptor)
                os.close(descriptor)
                thing = self._travelling.pop(descriptor)
                self._check_empty()
                return thing
            tokens = list(self._channels[self._ends[descriptor]].tokens) if descriptor in self._ends else []
        return self._forget(tokens)

    def _accept(self):
        try:
            client, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(REST_SECONDS)  # it is there still, and epoll says so at once
            raise
        while len(self._clients) >= CLIENTS_MAX:
            self._hang_up(next(iter(self._clients.values())))
        user = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if user != os.getuid():
            client.close()
            return
        client.setblocking(False)
        self._epoll.register(client, select.EPOLLIN)
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
            self._answer(client, message)
            if client.fileno() < 0:
                return

    def _answer(self, client, message):
        kind, rest = message[:1], message[1:]
        if kind == HAVE and rest and len(rest) % 8 == 0:
            self._forget(struct.unpack(f"<{len(rest) // 8}Q", rest))
        elif kind == ASK_POOL and len(rest) == ID_BYTES:
            self._send_pool(client, rest)
        else:
            self._hang_up(client)

    def _hang_up(self, client):
        self._epoll.unregister(client)
        del self._clients[client.fileno()]
        client.close()

    def _send_pool(self, client, number):
        descriptor = None
        try:
            descriptor = self._find_pool(number)
            socket.send_fds(client, [ASK_POOL], [] if descriptor is None else [descriptor])
        except Exception as error:  # the asker is told, and goes on to the next
            with suppress(OSError):
                client.send(b"E" + str(error).encode()[:MESSAGE_BYTES_MAX - 1])
        finally:
            if descriptor is not None:
                os.close(descriptor)

    # ---- Letting go ----

    def _forget(self, tokens):
        """Let go of what is kept; returns it. Its finalisers run when the caller drops it, without the lock."""
        things = {}
        with self._lock:
            for token in tokens:
                held, carrier = self._kept.pop(token, (None, None))
                things[token] = held
                self._starting.pop(token, None)
                if carrier is not None:
                    self._leave(carrier, token)
            self._check_empty()
        return things

    def _leave(self, carrier, token):
        """Under the lock. With its last message, the channel goes."""
        channel = self._channels[carrier]
        channel.tokens.discard(token)
        if not channel.tokens:
            del self._channels[carrier], self._ends[channel.descriptor]
            self._epoll.unregister(channel.descriptor)
            os.close(channel.descriptor)

    def _check_empty(self):
        """Under the lock."""
        if not self._kept and not self._travelling:
            self._empty.set()


def stop_at_end(keeper):
    """
    Stop it when the process ends, after the threads of multiprocessing's queues have sent all. Such a thread may be
    the first to use it, which is too late to register it; a forked child begins without.
    """
    multiprocessing.util.Finalize(None, keeper.stop, exitpriority=-20)
    multiprocessing.util.register_after_fork(keeper, stop_at_end)
