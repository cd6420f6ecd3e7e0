# SPDX-License-Identifier: MIT
"""send() and recv() over sockets, with other processes and against strangers."""

import array
import contextlib
import fcntl
import gc
import itertools
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from multiprocessing.connection import Connection
from types import SimpleNamespace

import cenote
import numpy
import pytest
from cenote import _cenote, _closer, _keeper, _record, _share, _socket
from conftest import record_of

KINDS = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM]
PATIENCE_S = 30


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def pair(request):
    """Two connected sockets of each kind."""
    one, two = socket.socketpair(socket.AF_UNIX, request.param)
    for each in (one, two):
        each.settimeout(PATIENCE_S)
    with one, two:
        yield one, two


def wait_empty():
    """Wait until everything has arrived or is lost."""
    assert _share.keeper.wait_empty(PATIENCE_S)


def descriptors():
    """How many are open."""
    return len(os.listdir("/proc/self/fd"))


def test_objects_come_as_they_went(pair, pool):
    one, two = pair
    view = cenote.share(numpy.arange(6, dtype="float32").reshape(2, 3), pool)
    event = cenote.Event(interprocess=True)
    cenote.send(one, view)
    cenote.send(one, view.block)
    cenote.send(one.fileno(), pool)
    again = cenote.recv(two)
    assert again.shape == (2, 3) and numpy.asarray(again).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert cenote.recv(two.fileno()).nbytes == 24
    assert cenote.recv(two).imported
    assert event.name
    with pytest.raises(TypeError, match="Stream"):
        cenote.send(one, view.block.stream)


def test_what_is_sent_may_be_dropped(pair, pool):
    one, two = pair
    for text in (b"one", b"two"):
        block = pool.allocate(3)
        block.copy_from(text)
        cenote.send(one, block)
        del block
    assert len(cenote.in_flight()) == 2 and pool.stats.live_blocks == 2
    assert [cenote.recv(two).tobytes() for _ in range(2)] == [b"one", b"two"]
    wait_empty()


def test_what_nobody_receives_comes_back(pair, pool):
    one, two = pair
    for _ in range(3):
        cenote.send(one, pool.allocate(10))
    two.close()
    wait_empty()
    assert pool.stats.live_blocks == 0


def test_the_receivers_stream_comes_after_the_senders(pool):
    """In one process: its own event cannot be opened, so the streams wait for each other."""
    one, two = socket.socketpair()
    gate = threading.Event()
    with one, two, cenote.Stream() as writer, cenote.Stream() as reader:
        block = pool.allocate(4, writer)
        writer.call(gate.wait)
        cenote.send(one, block)
        received = cenote.recv(two, reader)
        assert received.stream is reader and not reader.done
        gate.set()
        reader.synchronize()
        received.free()
        block.free()
    wait_empty()


def test_a_stream_that_is_none_takes_no_message(pair, pool):
    one, two = pair
    closed = cenote.Stream()
    closed.close()
    cenote.send(one, pool.allocate(8))
    for wrong in ("x", closed, -1 << 70, SimpleNamespace(__cuda_stream__=lambda: (0, "x")),
                  SimpleNamespace(__cuda_stream__=lambda: 5)):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            cenote.recv(two, wrong)
    assert cenote.recv(two).nbytes == 8


RECEIVER = """
import cenote, socket, sys
with socket.socket(fileno=int(sys.argv[1])) as sock:
    pool = cenote.recv(sock)
    while True:
        try:
            block = cenote.recv(sock)
        except EOFError:
            break
        sock.send(block.tobytes())
        block.free()
"""


@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind.name)
def test_another_process(pool, kind):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with ours:
        with theirs:
            process = subprocess.Popen([sys.executable, "-c", RECEIVER, str(theirs.fileno())],
                                       pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
        ours.settimeout(PATIENCE_S)
        cenote.send(ours, pool)
        for text in (b"abc", b"defgh"):
            block = pool.allocate(len(text))
            block.copy_from(text)
            cenote.send(ours, block)
            del block
            assert ours.recv(100) == text
    assert process.communicate(timeout=PATIENCE_S)[1] == "" and process.returncode == 0
    wait_empty()


CONTAINED = """
import cenote, ctypes, os, socket, sys
NEW_FILES, NEW_USERS = 0x20000, 0x10000000
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(NEW_FILES) and libc.unshare(NEW_FILES | NEW_USERS):
    sys.exit(print("no mount namespace can be made:", os.strerror(ctypes.get_errno())))
print("contained", flush=True)
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(sys.argv[1])
    print(cenote.recv(sock).tobytes().decode())
"""


def test_a_receiver_in_a_container(pool, tmp_path, monkeypatch):
    """It does not find the event of the sender's stream, so the sender waits."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    gate, plain = threading.Event(), _socket._opens_our_events

    def ask(sock):
        waits = not plain(sock)
        if waits:
            threading.Thread(target=gate.set).start()
        return not waits

    monkeypatch.setattr(_socket, "_opens_our_events", ask)
    with socket.socket(socket.AF_UNIX) as listener, cenote.Stream() as stream:
        listener.bind(str(tmp_path / "socket"))
        listener.listen(1)
        process = subprocess.Popen([sys.executable, "-c", CONTAINED, tmp_path / "socket"], text=True,
                                   env={**os.environ, "CENOTE_RUNTIME_DIR": str(tmp_path / "runtime")},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = process.stdout.readline()
        if said.startswith("no mount"):
            process.communicate(timeout=PATIENCE_S)
            pytest.skip(said)
        sock, _ = listener.accept()
        block = pool.allocate(8, stream)
        with sock, memoryview(block) as memory:
            stream.call(gate.wait)
            stream.call(lambda: memory.__setitem__(slice(0, 8), b"in order"))
            cenote.send(sock, block)
            gate.set()
            stream.synchronize()
        assert process.communicate(timeout=PATIENCE_S) == ("in order\n", "")


def test_a_connection_of_multiprocessing(pool):
    import multiprocessing
    one, two = multiprocessing.Pipe()
    with one, two:
        cenote.send(one, cenote.share(b"over a pipe", pool))
        assert bytes(cenote.recv(two)) == b"over a pipe"
        one.send("and its own messages")
        assert two.recv() == "and its own messages"


def test_sockets_that_cannot_carry_it(pool):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
        with pytest.raises(ValueError, match="not a Unix socket"):
            cenote.send(sock, pool)
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(OSError):
        cenote.send(sock, pool)
    one, two = socket.socketpair()
    two.close()
    with one:
        with pytest.raises(OSError):
            cenote.send(one, pool)
        with pytest.raises(EOFError):
            cenote.recv(one)
    wait_empty()


def test_a_socket_that_does_not_wait(pool):
    one, two = socket.socketpair()
    with one, two:
        two.setblocking(False)
        with pytest.raises(BlockingIOError):
            cenote.recv(two)
        cenote.send(one, pool)
        assert cenote.recv(two).imported


# ---- Interrupted ----


class Interrupted(BaseException):
    """What a signal's handler raises."""


def interrupt(function, after):
    """Call it; the exception comes right after so many calls of C functions. False: there were not so many."""
    left = [after]

    def hook(_frame, event, _function):
        left[0] -= event == "c_return"
        if not left[0]:
            raise Interrupted

    sys.setprofile(hook)
    try:
        function()
        return False
    except Interrupted:
        return True
    finally:
        sys.setprofile(None)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # which close themselves
@pytest.mark.parametrize("by_number", [False, True])
def test_a_send_that_is_interrupted_leaves_nothing(pool, by_number):
    one, two = socket.socketpair()
    with one, two:
        test_objects_come_as_they_went((one, two), pool)  # what is made once is there
    wait_empty()
    gc.collect()
    for after in itertools.count(1):
        before, (one, two) = descriptors(), socket.socketpair()
        with one, two:
            channel = one.fileno() if by_number else one
            interrupted = interrupt(lambda: cenote.send(channel, pool.allocate(8)), after)
            os.fstat(one.fileno())
        wait_empty()
        gc.collect()
        assert (after, descriptors() - before) == (after, 0)
        if not interrupted:
            break
    assert after > 10


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("by_number", [False, True])
def test_a_receive_that_is_interrupted_leaves_nothing(pool, by_number):
    one, two = socket.socketpair()
    with one, two:
        test_objects_come_as_they_went((one, two), pool)
        for after in itertools.count(1):
            cenote.send(one, pool.allocate(8))
            before = descriptors()
            interrupted = interrupt(lambda: cenote.recv(two.fileno() if by_number else two), after)
            with contextlib.suppress(BlockingIOError):
                two.recv(4096, socket.MSG_DONTWAIT)  # it may not have begun
            wait_empty()
            gc.collect()
            assert descriptors() <= before, after
            if not interrupted:
                break
    assert after > 10


# ---- Strangers ----


def good_message(pool):
    """The bytes of a message, of a block that is gone."""
    return message_of(pool.allocate(8))


def message_of(block):
    """The bytes of a message."""
    data = record_of(block, ready=False)
    return _socket.HEAD.pack(_socket.MAGIC, len(data)) + data


def test_damaged_messages_are_refused(pool):
    message = good_message(pool)
    pieces = [b"x", b"x" * 16, message[:16], message[:40], b"x" * len(message),
              _socket.HEAD.pack(_socket.MAGIC, 1 << 60), message[:16] + b"\0" * (len(message) - 16),
              message]  # the last is whole, but came without a descriptor
    before = descriptors()
    for piece in pieces:
        one, two = socket.socketpair()
        with one, two:
            one.sendall(piece)
            one.shutdown(socket.SHUT_WR)
            with pytest.raises((ValueError, EOFError)):
                cenote.recv(two)
    assert descriptors() <= before  # an earlier test's may have been closed meanwhile


def test_wrong_descriptors_are_refused_and_closed(pool):
    message = good_message(pool)
    before = descriptors()
    with open("/dev/null") as null:
        for count in (0, 1, 2, 3, 10):
            one, two = socket.socketpair()
            with one, two:
                socket.send_fds(one, [message], [null.fileno()] * count)
                with pytest.raises((ValueError, cenote.CudaError)):
                    cenote.recv(two)
    for thread in threading.enumerate():
        if thread.name == "cenote-closer":
            thread.join(PATIENCE_S)
    assert descriptors() <= before  # an earlier test's may have been closed meanwhile


def test_a_closer_that_cannot_begin(pool, monkeypatch):
    """The error is the message's, and the next closer closes all."""
    def fail(_):
        raise RuntimeError("no thread")

    before, plain = descriptors(), threading.Thread.start
    with open("/dev/null") as null:
        for start in (fail, plain):
            monkeypatch.setattr(threading.Thread, "start", start)
            one, two = socket.socketpair()
            with one, two:
                socket.send_fds(one, [b"x" * 100], [null.fileno()] * 2)
                with pytest.raises(ValueError, match="not a message"):
                    cenote.recv(two)
    for thread in threading.enumerate():
        if thread.name == "cenote-closer":
            thread.join(PATIENCE_S)
    assert descriptors() <= before


def test_which_descriptors_close_at_once(tmp_path):
    """Others may be of a file system that their sender serves: a thread of its own closes them."""
    (tmp_path / "file").write_bytes(b"")
    reader, writer = os.pipe()
    file, place = (os.open(tmp_path / "file", flags) for flags in (os.O_RDONLY, os.O_PATH))
    assert [_closer._closes_at_once(each) for each in (reader, writer, place, file)] == [True, True, True, False]
    for each in (reader, writer, file, place):
        os.close(each)
    assert not _closer._closes_at_once(file)


def unread(sock):
    """How many bytes wait to be read."""
    count = array.array("i", [0])
    fcntl.ioctl(sock, termios.FIONREAD, count)
    return count[0]


def feed(sock, other, pieces):
    """Send one piece after the other, each when the one before has been read, until the other side has gone."""
    with contextlib.suppress(OSError):
        for piece in pieces:
            while unread(other):
                time.sleep(0)
            sock.send(piece)


@contextlib.contextmanager
def fed(pool, sizes):
    """A message that comes in pieces of these sizes, to a socket that does not wait."""
    block, ends = pool.allocate(8), os.pipe()
    message = message_of(block)
    exported = pool._export()
    cuts = [0, *itertools.takewhile(lambda at: at < len(message), itertools.accumulate(sizes)), len(message)]
    one, two = socket.socketpair()
    with one, two:
        two.setblocking(False)
        socket.send_fds(one, [message[:cuts[1]]], [ends[1], exported.fileno()])
        exported.close()
        for each in ends:
            os.close(each)
        pieces = [message[start:end] for start, end in zip(cuts[1:], cuts[2:])]
        feeder = threading.Thread(target=feed, args=(one, two, pieces))
        feeder.start()
        yield two
        two.shutdown(socket.SHUT_RDWR)
        while unread(two):
            two.recv(1000)
        feeder.join(PATIENCE_S)
        assert not feeder.is_alive()


def test_a_message_in_pieces_at_a_high_number(pool):
    """select() knows descriptors below 1024 alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip(f"no more than {hard} descriptors are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1200, hard))
    try:
        with fed(pool, [30, 40, 50]) as two:
            with socket.socket(fileno=fcntl.fcntl(two, fcntl.F_DUPFD_CLOEXEC, 1100)) as high:
                high.setblocking(False)
                assert cenote.recv(high).nbytes == 8
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_trickle_has_a_deadline(pool, monkeypatch):
    """A sender that sends a byte now and then is not waited for longer than one that sends nothing."""
    seconds = itertools.count()
    monkeypatch.setattr(_socket, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with fed(pool, [20, *[1] * 1000]) as two, pytest.raises(ValueError, match="only a part"):
        cenote.recv(two)


def test_the_deadline_begins_with_the_message(pool, monkeypatch):
    """However long the receiver has waited for its first byte."""
    now, plain = [0], _keeper.receive

    def receive(*arguments):
        now[0] += 365 * 86400
        return plain(*arguments)

    monkeypatch.setattr(_socket, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(_keeper, "receive", receive)
    with fed(pool, [30, 40, 50]) as two:
        assert cenote.recv(two).nbytes == 8


def test_any_damaged_byte_is_an_error_or_harmless(pool):
    view = cenote.share(numpy.arange(6, dtype="int32").reshape(2, 3), pool)
    data = record_of(view, ready=False)
    for at, change in itertools.product(range(len(data)), (0x01, 0x80, 0xff)):
        damaged = bytearray(data)
        damaged[at] ^= change
        try:
            thing = _share.rebuild(bytes(damaged), tells=False)
        except (ValueError, ConnectionError, cenote.CudaError):
            continue
        assert getattr(thing, "block", thing).imported
        if isinstance(thing, (cenote.Block, cenote.View)):
            assert thing.nbytes <= 24


def test_a_record_is_what_was_written(pool):
    array = numpy.asarray(pool.allocate(64))
    part = cenote.Block.from_dlpack(array[16:60])
    port = _share.keeper.open_port()
    record = _record.read(record_of(part.view((2, 3), "float32", 8), token=7))
    assert record[:3] == (_record.VIEW, _record.ON_HOST, port) and len(record.pool) == 16
    assert record[4] == part.device.uuid and len(record.pointer) == 64
    assert record[6:] == (16, 44, bytes(64), 7, "float32", 8, (2, 3))
    event = cenote.Event()
    assert _record.read(record_of(event))[:10] == (_record.EVENT, 0, port, bytes(16), event.device.uuid,
                                                          bytes(64), 0, 0, event.name, 0)
    assert _record.read(record_of(pool)).kind == _record.POOL
    with pytest.raises(TypeError):
        record_of(5)


def test_the_port_answers_only_what_it_knows(pool):
    """A client that says something else is disconnected; others go on."""
    name = _record.read(pool.allocate(8).name())
    for message in (b"?", b"P", b"P" + bytes(15), b"H" + bytes(7), b"P" * 1000):
        with _keeper.connect(name.port) as stranger:
            stranger.send(message)
            assert stranger.recv(100) == b""
    with _keeper.connect(name.port) as asker:
        asker.send(b"P" + bytes(16))
        assert socket.recv_fds(asker, 100, 1)[:2] == (b"P", [])  # no such pool
        asker.send(b"H" + bytes(8))  # nothing is kept under 0
        asker.send(b"P" + name.pool)
        _, found, _, _ = socket.recv_fds(asker, 100, 1)
        assert len(found) == 1
        os.close(found[0])


def test_names_of_killed_processes_are_swept(pool, tmp_path):
    script = "import cenote, os, signal; cenote.share(b'x').block.name(); os.kill(os.getpid(), signal.SIGKILL)"
    last = "import cenote, os, sys; b = cenote.share(b'x').block; b.name(); print(len(os.listdir(sys.argv[1])))"
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    environment = {**os.environ, "CENOTE_RUNTIME_DIR": str(folder)}
    for _ in range(3):
        subprocess.run([sys.executable, "-c", script], env=environment, check=False)
    subprocess.run([sys.executable, "-c", last, str(folder)], env=environment, check=True, capture_output=True)
    assert [name for name in os.listdir(folder) if name.startswith("python")] == []


# ---- Ports ----


class Port:
    """A port whose process is this test."""

    def __init__(self):
        self.number = os.urandom(_keeper.ID_BYTES)
        folder = _keeper.runtime_directory()
        self.path = os.path.realpath(_keeper.path_in(folder, "")) + f"/{_keeper.PREFIX}{self.number.hex()}"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(_keeper.path_in(folder, os.path.basename(self.path)))
        self.listener.listen()
        self.listener.settimeout(PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        os.unlink(self.path)

    def ask(self):
        """Have a thread ask for a pool. Returns the thread, and a list for what it gets."""
        got = []
        def ask():
            try:
                got.append(_share.imports._ask_for_pool(SimpleNamespace(port=self.number, pool=bytes(16))))
            except OSError as error:
                got.append(error)
        thread = threading.Thread(target=ask)
        thread.start()
        return thread, got

    def hear(self):
        """The next question. A process that only looks whether this port lives hangs up without a word."""
        while True:
            client, _ = self.listener.accept()
            client.settimeout(PATIENCE_S)
            question = client.recv(100)
            if question:
                assert question[:1] == _keeper.ASK_POOL
                return client
            client.close()


def test_an_answer_that_comes_too_late(monkeypatch, tmp_path):
    """It is not taken for the answer to the next question."""
    paths = [tmp_path / "late", tmp_path / "right"]
    files = [os.open(path, os.O_CREAT | os.O_RDWR) for path in paths]
    with Port() as port:
        monkeypatch.setattr(_keeper, "ANSWER_SECONDS", 0.1)
        thread, got = port.ask()
        late = port.hear()
        thread.join(PATIENCE_S)
        assert isinstance(got[0], TimeoutError) and "has not answered for 0.1 seconds" in str(got[0]), got
        monkeypatch.setattr(_keeper, "ANSWER_SECONDS", PATIENCE_S)
        with contextlib.suppress(OSError):
            socket.send_fds(late, [b"P"], files[:1])
        thread, got = port.ask()
        with late, port.hear() as client:
            socket.send_fds(client, [b"P"], files[1:])
            thread.join(PATIENCE_S)
    assert os.path.samestat(os.fstat(got[0].fileno()), os.stat(paths[1])) and not os.get_inheritable(got[0].fileno())
    for each in files:
        os.close(each)


def test_a_process_that_hangs_holds_up_no_other():
    with Port() as port:
        thread, got = port.ask()
        with port.hear():
            assert _share.imports.lock.acquire(blocking=False)
            _share.imports.lock.release()
        thread.join(PATIENCE_S)
        assert isinstance(got[0], ConnectionError), got


def fill_queue(port, others):
    """Connect to a port until it takes no more."""
    port.listener.listen(1)
    with contextlib.suppress(BlockingIOError):
        while True:
            other = others.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            other.setblocking(False)
            other.connect(port.path)


def test_a_process_that_accepts_nobody(monkeypatch):
    monkeypatch.setattr(_keeper, "ANSWER_SECONDS", 0.1)
    with Port() as port, contextlib.ExitStack() as others:
        fill_queue(port, others)
        thread, got = port.ask()
        thread.join(PATIENCE_S)
        assert isinstance(got[0], TimeoutError) and "has not answered for 0.1 seconds" in str(got[0]), got


def test_many_that_ask_at_the_same_time():
    """One that finds the port's queue full waits for its turn."""
    with Port() as port, contextlib.ExitStack() as others:
        fill_queue(port, others)
        count = len(os.listdir("/proc/self/fd"))
        thread, got = port.ask()
        while len(os.listdir("/proc/self/fd")) < count + 2 and thread.is_alive():  # until it has a folder and a socket
            time.sleep(0)
        came, asker = [port.listener], None
        while asker is None and not got:
            ready = select.select(came, [], [], PATIENCE_S)[0]
            asker = next((each for each in ready if each is not port.listener), None)
            if asker is None:
                came.append(others.enter_context(port.listener.accept()[0]))
        assert not got, got
        asker.send(b"Eno")
        thread.join(PATIENCE_S)
        assert isinstance(got[0], ConnectionError) and str(got[0]) == "no", got


def test_clients_have_a_bound(pool, monkeypatch):
    """Of too many the one that was silent for longest goes; it may come again."""
    name = _record.read(pool.allocate(8).name())
    monkeypatch.setattr(_keeper, "CLIENTS_MAX", 4)
    with contextlib.ExitStack() as clients:
        def come():
            client = clients.enter_context(_keeper.connect(name.port))
            client.send(b"P" + bytes(16))
            assert client.recv(100) == b"P"
            return client
        first, second, *_ = [come() for _ in range(4)]
        first.send(b"P" + bytes(16))
        assert first.recv(100) == b"P"
        come()
        assert second.recv(100) == b""
        first.send(b"P" + bytes(16))
        assert first.recv(100) == b"P"
        come()


@pytest.fixture
def accepting():
    """A Keeper without a thread, and its port."""
    keeper = _keeper.Keeper(lambda number: None)
    with Port() as port, select.epoll() as epoll:
        keeper._machine, keeper._listener = SimpleNamespace(epoll=epoll, close=epoll.close), port.listener
        yield keeper, port
        for client in keeper._clients.values():
            client.close()


def test_what_a_client_said_counts_when_it_is_one_too_many(pool, accepting, monkeypatch):
    """The keeper accepts another one before it reads it."""
    monkeypatch.setattr(_keeper, "CLIENTS_MAX", 1)
    keeper, port = accepting
    block, token = pool.allocate(8), _share.keeper.new_token()
    _share.keeper.open_port()
    _share.keeper.keep(_cenote.hold(block), token)
    with _keeper.connect(port.number) as first, _keeper.connect(port.number):
        keeper._accept()
        first.send(_keeper.ASK_POOL + bytes(16))
        first.send(_keeper.HAVE + struct.pack("<2Q", 0, token))
        keeper._accept()
        assert cenote.in_flight() == [] and len(keeper._clients) == 1
        assert first.recv(100) == _keeper.ASK_POOL and first.recv(100) == b""
        with pytest.raises(BrokenPipeError):
            first.send(_keeper.HAVE + struct.pack("<Q", 0))


def test_the_port_serves_its_own_user_alone(accepting, monkeypatch):
    keeper, port = accepting
    with _keeper.connect(port.number) as client:
        monkeypatch.setattr(os, "getuid", lambda user=os.getuid(): user + 1)
        keeper._accept()
        assert client.recv(100) == b"" and not keeper._clients


def test_a_forked_child_has_no_client(accepting, monkeypatch):
    """Its parent's clients would not hear of their end, if it held them."""
    keeper, port = accepting
    with _keeper.connect(port.number) as client:
        keeper._accept()
        monkeypatch.setattr(_cenote, "keep_reset", lambda: None)
        keeper.reset()
        assert client.recv(100) == b""
        assert not keeper._clients and port.listener.fileno() == -1


@pytest.mark.parametrize("what", ["readable by others", "another user's", "a link"])
def test_the_runtime_directory_is_this_users_alone(tmp_path, monkeypatch, what):
    """Ports of anybody else are not believed; and no descriptor of the directory is left."""
    path = tmp_path / "runtime"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("CENOTE_RUNTIME_DIR", str(path))
    _keeper.runtime_directory()
    if what == "readable by others":
        path.chmod(0o750)
    elif what == "a link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        monkeypatch.setattr(os, "getuid", lambda user=os.getuid(): user + 1)
    count = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NotADirectoryError if what == "a link" else PermissionError):
        _keeper.runtime_directory()
    assert len(os.listdir("/proc/self/fd")) == count


def test_what_a_killed_process_left_unfinished_is_swept(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as old, \
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as new:
        folder = _cenote.open_folder(tmp_path)
        for sock, name in ((old, "old"), (new, "new")):
            sock.bind(_keeper.path_in(folder, _keeper.UNFINISHED + name))
        long_ago = time.time() - 2 * _keeper.UNFINISHED_SECONDS
        os.utime(tmp_path / (_keeper.UNFINISHED + "old"), (long_ago, long_ago))
        (tmp_path / (_keeper.UNFINISHED + "file")).write_bytes(b"")
        os.utime(tmp_path / (_keeper.UNFINISHED + "file"), (long_ago, long_ago))
        _keeper.sweep(folder)
        assert sorted(os.listdir(tmp_path)) == [_keeper.UNFINISHED + "file", _keeper.UNFINISHED + "new"]


def test_an_end_that_was_another_descriptors(pool):
    """What epoll said of a number that has been closed since, and is another's now, lets nothing go."""
    block = pool.allocate(8)
    reader, writer = os.pipe()
    token = _share.keeper.new_token()
    _share.keeper.open_port()
    before = set(os.listdir("/proc/self/fd"))
    connection = Connection(os.dup(writer), readable=False)
    _share.keeper.keep(_cenote.hold(block), token, connection)
    for own in set(os.listdir("/proc/self/fd")) - before:
        _share.keeper._handle(_share.keeper._machine, int(own), select.EPOLLHUP)
    _share.keeper._handle(_share.keeper._machine, reader, select.EPOLLHUP)  # not one of the keeper's
    assert cenote.in_flight() == [block]
    _share.keeper.let_go([token])
    assert cenote.in_flight() == []
    for each in (reader, writer):
        os.close(each)
    wait_empty()
