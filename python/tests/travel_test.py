# SPDX-License-Identifier: MIT
"""What is on its way to another process: it stays whatever its owner does, and goes when nobody can get it any more."""

import ctypes
import gc
import io
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import struct
import sys
import threading
import time
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import cenote
import numpy
import pytest
from cenote import _cenote, _keeper, _pickling, _record, _share
from share_test import PATIENCE_S, SPAWN, answer, attach_elsewhere, kill, peer, stop, wait_back, wait_empty

METHODS = ["spawn", "forkserver"]


@pytest.fixture
def pipe():
    """Both ends of a connection; the test says who reads, and when."""
    one, other = SPAWN.Pipe()
    with one, other:
        yield one, other


def answers_of(other, count):
    """What a new process says to so many things that lie in a connection."""
    with peer(answer_over) as (conn, _):
        conn.send(other)
        conn.send(count)
        return [conn.recv() for _ in range(count)]


def answer_over(conn):
    """Reads from the connection that it gets."""
    other = conn.recv()
    for _ in range(conn.recv()):
        thing = other.recv()
        if isinstance(thing, cenote.View):
            conn.send(numpy.asarray(thing).tolist())
        elif isinstance(thing, cenote.Block):
            conn.send(thing.tobytes())
        else:
            conn.send(type(thing).__name__)
        del thing


# ---- Given up by its owner ----


def test_a_freed_block_arrives(pipe, pool):
    one, other = pipe
    block = pool.allocate(1 << 16)
    block.copy_from(b"sent, then freed")
    first = block.ptr
    one.send(block)
    block.free()
    assert block.freed and first not in [pool.allocate(1 << 16).ptr for _ in range(20)]
    with pool.allocate(16) as inside:
        inside.copy_from(b"sent in a `with`")
        one.send(inside)
    assert inside.freed
    view = cenote.share(numpy.arange(3), pool)
    block = view.block
    one.send(view)
    del view  # which is the only one that the program has
    block.free()
    assert pool.stats.live_blocks == 3
    texts = answers_of(other, 3)
    assert texts[0][:16] == b"sent, then freed" and texts[1:] == [b"sent in a `with`", [0, 1, 2]]
    wait_empty()
    wait_back(pool)
    assert pool.stats.live_blocks == 0


def test_a_freed_block_is_freed_for_the_program(pipe, pool):
    one, other = pipe
    block = pool.allocate(8)
    one.send(block)
    block.free()
    for use in (block.free, block.tobytes, block.view, block.name, lambda: one.send(block)):
        with pytest.raises(ValueError, match="freed"):
            use()
    one.close()
    other.close()
    wait_empty()


def test_a_part_of_a_freed_block_arrives(pipe, pool):
    """The array that was taken in stays with what was sent."""
    one, other = pipe
    array = numpy.asarray(pool.allocate(64).view(8, "int64"))
    array[:] = range(8)
    part = cenote.Block.from_dlpack(array[2:4])
    one.send(part)
    part.free()
    del array
    assert answers_of(other, 1) == [numpy.arange(2, 4).tobytes()]
    wait_empty()
    wait_back(pool)


def gated_block(pool, stream):
    """A block in which its stream writes "in order" when a gate is set, and the gate."""
    block, gate = pool.allocate(8, stream), threading.Event()
    memory = memoryview(block)
    stream.call(gate.wait)
    stream.call(lambda: memory.__setitem__(slice(0, 8), b"in order"))
    return block, gate


def test_a_block_arrives_whose_stream_is_closed(pipe, pool):
    """The stream's event says when the memory is ready; it stays although the block has another stream."""
    one, other = pipe
    with peer(answer_over) as (conn, _), cenote.Stream() as later:
        conn.send(other)
        with cenote.Stream() as stream:
            block, gate = gated_block(pool, stream)
            one.send(block)
            block.use(later)
        del stream
        conn.send(1)
        gate.set()
        assert conn.recv() == b"in order"
        wait_empty()


def give_up(thing):
    """Free or close it."""
    thing.free() if isinstance(thing, cenote.Block) else thing.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_another_thread_gives_up_while_it_is_sent(pipe, pool, monkeypatch, when):
    """After it is held, and before or after it is described: it arrives, or the sender hears of it."""
    plain = _share.describe

    def describe(thing, *arguments, **words):
        if when == "before":
            give_up(thing)
        data = plain(thing, *arguments, **words)
        if when == "after":
            give_up(thing)
        return data

    monkeypatch.setattr(_share, "describe", describe)
    one, other = pipe
    event, another = cenote.Event(), cenote.Pool()
    event.record()
    for thing in (cenote.share(b"given up", pool).block, another):
        one.send(thing)
    if when == "before":
        with pytest.raises(ValueError, match="closed"):
            one.send(event)
    else:
        one.send(event)
    assert answers_of(other, 2) == [b"given up", "Pool"]
    if when == "after":
        assert answers_of(other, 1) == ["Event"]
    wait_empty()


def test_the_stream_is_changed_while_a_block_is_sent(pipe, pool, monkeypatch):
    """The event that the record names stays, although nobody else has its stream any more."""
    one, other = pipe
    plain = _share.remember_stream
    with cenote.Stream() as later, peer(answer_over) as (conn, _):
        conn.send(other)
        streams = [cenote.Stream()]
        block, gate = gated_block(pool, streams[0])

        def remember(stream, name):
            plain(stream, name)
            block.use(later)
            streams.pop().close()

        monkeypatch.setattr(_share, "remember_stream", remember)
        one.send(block)
        assert not streams
        conn.send(1)
        gate.set()
        assert conn.recv() == b"in order"
        wait_empty()


def test_a_block_of_a_closed_pool_cannot_be_sent(pipe):
    """Its receiver could not have the pool."""
    one, other = pipe
    with cenote.Pool() as pool:
        block = cenote.share(b"late", pool).block
        one.send(block)
        assert other.recv() is block  # now the pool has a number
    with pytest.raises(ValueError, match="pool is closed"):
        one.send(block)
    assert cenote.in_flight() == []


def test_what_comes_back_to_its_own_process(pipe, pool):
    """Also if the program has given it up."""
    one, other = pipe
    view = cenote.share(numpy.arange(3), pool)
    for thing in (view.block, view):
        one.send(thing)
    block = view.block
    del thing, view
    block.free()
    assert other.recv().tobytes() == numpy.arange(3).tobytes()
    assert numpy.asarray(other.recv()).tolist() == [0, 1, 2]
    with cenote.Pool() as closed:
        one.send(closed)
    assert other.recv().imported
    wait_empty()


def test_a_closed_streams_block_comes_back_to_its_own_process(pool):
    one, two = socket.socketpair()
    with one, two:
        with cenote.Stream() as stream:
            block, gate = gated_block(pool, stream)
            cenote.send(one, block)
        again = cenote.recv(two)
        gate.set()
        assert again.tobytes() == b"in order"


def test_what_is_of_a_closed_pool_arrives(pipe):
    one, other = pipe
    with cenote.Pool() as pool:
        one.send(cenote.share(b"of a closed pool", pool).block)
    assert pool.closed
    with pytest.raises(ValueError, match="closed"):
        pool.allocate(8)
    with cenote.Pool() as second:
        one.send(second)
    with cenote.Event() as event:
        event.record()
        one.send(event)
    with pytest.raises(ValueError, match="closed"):
        event.synchronize()
    assert answers_of(other, 3) == [b"of a closed pool", "Pool", "Event"]
    wait_empty()
    for closed in (pool, second, event):
        with pytest.raises(ValueError, match="closed"):
            one.send(closed)


def test_a_freed_block_over_a_socket(pool):
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, two:
        with pool.allocate(5) as block:
            block.copy_from(b"freed")
            cenote.send(one, block)
        assert pool.stats.live_blocks == 1
        assert cenote.recv(two).tobytes() == b"freed"
        wait_empty()


def test_it_is_freed_behind_the_streams_work(pipe, pool):
    """A block that is let go when nobody will read it goes back in the order of its stream, as with free()."""
    one, other = pipe
    gate = threading.Event()
    with cenote.Stream() as stream:
        block = pool.allocate(1 << 16, stream)
        first = block.ptr
        stream.call(gate.wait)
        one.send(block)
        block.free()
        one.close()
        other.close()
        wait_empty()
        with cenote.Stream() as another:
            assert pool.allocate(1 << 16, another).ptr != first
        gate.set()
        stream.synchronize()


# ---- Pickles that fail ----


def unpicklable():
    """Something that pickles refuse."""
    return threading.Lock()


def test_a_pickle_that_fails_keeps_nothing(pool):
    with peer(answer) as (conn, _):  # which sees the end of the connection, and ends
        with pytest.raises(TypeError):
            conn.send((pool.allocate(8), unpicklable()))
        assert cenote.in_flight() == []
    with pytest.raises(TypeError):
        multiprocessing.reduction.ForkingPickler.dumps([pool.allocate(8), unpicklable()])
    assert cenote.in_flight() == [] and pool.stats.live_blocks == 0


def test_a_pickle_inside_another_that_fails(pipe, pool):
    """What the inner one has sent stays."""
    one, other = pipe
    block = pool.allocate(8)
    block.copy_from(b"the good")

    class Sends:
        """Sends something else when it is pickled."""

        def __reduce__(self):
            one.send(block)
            raise ValueError("not this one")

    with peer(stop) as (conn, process), pytest.raises(ValueError, match="not this one"):
        try:
            conn.send((pool.allocate(16), Sends()))
        finally:
            kill(process)
    assert [each.nbytes for each in cenote.in_flight()] == [8]
    assert answers_of(other, 1) == [b"the good"]
    wait_empty()


@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_cannot_be_started(pool, method):
    process = multiprocessing.get_context(method).Process(target=print, args=(pool.allocate(8), unpicklable()))
    with pytest.raises(TypeError):
        process.start()
    assert cenote.in_flight() == []


def test_a_queue_keeps_nothing_that_it_has_sent(pool):
    """Its thread waits for the next thing then, in the function whose variables were looked at."""
    queue = SPAWN.Queue()
    queue.put(pool.allocate(8))
    queue.get()
    wait_empty()
    gc.collect()
    assert pool.stats.live_blocks == 0
    queue.close()
    queue.join_thread()


def test_a_queue_that_cannot_send(pool, capfd):
    queue = SPAWN.Queue()
    queue.put((pool.allocate(8), unpicklable()))
    queue.put("after it")
    assert queue.get() == "after it"
    assert cenote.in_flight() == [] and "TypeError" in capfd.readouterr().err
    queue.close()
    queue.join_thread()


# ---- Lost ----


def fail(_):
    """An object that cannot be made in the receiver."""
    raise ZeroDivisionError


class Unreadable:
    """Pickled well, it cannot be read."""

    def __reduce__(self):
        return fail, (0,)


def read_badly(conn):
    """Says what it could not read, until the end."""
    while True:
        try:
            conn.recv()
        except EOFError:
            return
        except ZeroDivisionError:
            conn.send("could not read it")


def look(often=1):
    """Let the keeper look after what has not arrived. (It may look by itself as well, once in a second.)"""
    for _ in range(often):
        _share.keeper._attach()
        _cenote.keep_look(_keeper.UNTOLD_LOOKS)


def test_a_reader_that_fails_before_the_block(pipe, pool):
    """It says so of all that is in the message."""
    with peer(read_badly) as (conn, _):
        conn.send((Unreadable(), pool.allocate(8), pool.allocate(8).view((2, 2)), cenote.Event()))
        assert conn.recv() == "could not read it"
        wait_empty()
    one, other = pipe
    one.send((Unreadable(), pool.allocate(8)))
    with pytest.raises(ZeroDivisionError):
        other.recv()
    assert cenote.in_flight() == []


def test_what_was_read_and_forgotten(pipe, pool):
    """As by a reader of a queue that died at once. When it has been long enough, the block goes."""
    one, other = pipe
    one.send(pool.allocate(8))
    other.recv_bytes()
    look(_keeper.UNTOLD_LOOKS - 10)
    assert len(cenote.in_flight()) == 1
    look(20)
    assert cenote.in_flight() == []


def test_what_was_lost_goes_however_busy_its_channel_is(pipe, pool):
    one, other = pipe
    one.send(pool.allocate(8))
    other.recv_bytes()
    look()
    one.send("this is not read")
    block = pool.allocate(16)
    one.send(block)
    look(_keeper.UNTOLD_LOOKS)
    assert cenote.in_flight() == [block]
    assert other.recv() == "this is not read" and other.recv() is block


@pytest.mark.parametrize("duplex", [True, False])
def test_what_was_lost_goes_where_there_is_always_more_to_read(pool, duplex):
    """A channel that is never empty: what was written behind a message says that it was read."""
    reader, writer = SPAWN.Pipe(duplex)
    with reader, writer:
        writer.send(pool.allocate(8))
        last = pool.allocate(16)
        writer.send("more")
        reader.recv_bytes()
        for _ in range(100):
            writer.send("more" * 10)
            look()
            reader.recv()
        writer.send(last)
        look(_keeper.UNTOLD_LOOKS)
        assert cenote.in_flight() == [last]
        assert reader.recv() == "more" * 10 and reader.recv() is last


class Interrupted(Exception):
    """What a signal's handler raises."""


def test_a_message_that_the_system_refuses_keeps_nothing(pool):
    """And the reader sees the end behind what came before."""
    one, other = SPAWN.Pipe()
    os.set_blocking(one.fileno(), False)
    with other:
        with one:
            with pytest.raises(BlockingIOError):
                while True:
                    one.send("this is read")
            with pytest.raises(BlockingIOError):
                one.send(pool.allocate(8))
            assert cenote.in_flight() == []
        with pytest.raises((EOFError, OSError)):
            while True:
                other.recv_bytes()


def test_a_message_that_is_never_written_keeps_nothing(pool):
    """A handler's exception came while the queue's lock was waited for."""
    queue = SPAWN.SimpleQueue()

    class Lock:
        def __enter__(self):
            raise Interrupted

        def __exit__(self, *_):
            pass

    queue._wlock, plain = Lock(), queue._wlock
    with pytest.raises(Interrupted):
        queue.put(pool.allocate(8))
    assert cenote.in_flight() == []
    queue._wlock = plain
    queue.put("after it")
    assert queue.get() == "after it"
    queue.close()


def test_a_message_that_is_whole_when_an_exception_comes_arrives(pipe, pool, monkeypatch):
    one, other = pipe
    plain = _pickling._plain_send_bytes

    def send_bytes(*arguments):
        plain(*arguments)
        raise Interrupted

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(_pickling, "_plain_send_bytes", send_bytes)
        one.send(cenote.share(b"whole", pool).block)
    assert answers_of(other, 1) == [b"whole"]


def test_a_handler_sends_before_a_message_is_written(pipe, pool, monkeypatch):
    """Each message keeps its own: both are read, and nobody says a word of them."""
    one, other = pipe
    plain = _pickling._plain_send_bytes

    def send_bytes(*arguments):
        monkeypatch.setattr(_pickling, "_plain_send_bytes", plain)
        one.send(pool.allocate(16))
        plain(*arguments)

    monkeypatch.setattr(_pickling, "_plain_send_bytes", send_bytes)
    one.send(pool.allocate(8))
    assert len(cenote.in_flight()) == 2
    other.recv_bytes()
    other.recv_bytes()
    look(_keeper.UNTOLD_LOOKS + 10)
    assert cenote.in_flight() == []


TORCH_SEND = """
def send(self, thing):
    buffer = io.BytesIO()
    ForkingPickler(buffer, -1).dump(thing)
    self.conn.send_bytes(buffer.getvalue())
"""


def send_as_torch(conn, thing):
    """What PyTorch's queue does, which has no dumps()."""
    variables = {"__name__": "torch.multiprocessing.queue", "io": io, "ForkingPickler": ForkingPickler}
    exec(TORCH_SEND, variables)  # pylint: disable=exec-used
    variables["send"](SimpleNamespace(conn=conn), thing)


@contextmanager
def coming_in(function, turn):
    """Call a function before the instruction of this number in _pickling.py. Gives a list: it was called."""
    def trace(frame, event, _):
        nonlocal count
        if frame.f_code.co_filename != _pickling.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == turn:
                called.append(function())
        return trace

    called, count, before = [], 0, sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 wants it to be said before
    sys.settrace(trace)
    try:
        yield called
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("send", [Connection.send, send_as_torch])
@pytest.mark.parametrize("sends_block", [True, False])
def test_a_handler_sends_anywhere_in_a_send(pipe, pool, send, sends_block):
    """Between any two instructions. Each message keeps its own, until it was read and nobody said a word of it."""
    one, other = pipe
    reader, writer = SPAWN.Pipe()
    one.send(pool)
    other.recv()
    turn, is_over = 0, False
    with reader, writer:
        while not is_over:
            turn += 1
            with coming_in(lambda: writer.send(pool.allocate(16) if sends_block else "no block"), turn) as called:
                send(one, pool.allocate(8))
            is_over = not called
            assert [each.nbytes for each in cenote.in_flight()].count(8) == 1, turn
            other.recv_bytes()
            if called:
                reader.recv_bytes()
            for _ in range(3):
                _cenote.keep_look(1)
            assert cenote.in_flight() == [], turn
            assert not _pickling._making.latest and not _pickling._making.made, turn
    assert turn > 50


def test_a_pickle_that_is_interrupted_when_it_is_made_keeps_nothing(pool, monkeypatch):
    """Its bytes are nobody's."""
    plain = _pickling._plain_dumps

    def dumps(*arguments):
        plain(*arguments)
        raise Interrupted

    monkeypatch.setattr(_pickling, "_plain_dumps", dumps)
    one, other = SPAWN.Pipe()
    with one, other:
        for make in (one.send, ForkingPickler.dumps):
            with pytest.raises(Interrupted):
                make(pool.allocate(8))
            assert cenote.in_flight() == []


def test_giving_up_reads_each_byte_once(pool, monkeypatch):
    """A message with many beginnings of records takes no longer than one without."""
    lengths, plain = [], _record.find

    def find(data):
        lengths.append(len(data))
        return plain(data)

    monkeypatch.setattr(_record, "find", find)
    block = pool.allocate(8)
    _share.give_up(_record.MAGIC * 1000 + _share.describe(block, _cenote.hold(block)))
    assert len(lengths) == 1001 and max(lengths) <= _record.BYTES_MAX


def test_a_pickle_that_takes_its_time(pipe, pool):
    """Its message is not there, so it has not been read; a later one was."""
    class Slow:
        def __reduce__(self):
            one.send(pool.allocate(16))
            other.recv_bytes()
            look(3 * _keeper.UNTOLD_LOOKS)
            return str, ("slow",)

    one, other = pipe
    block = cenote.share(b"patience", pool).block
    one.send((block, Slow()))
    assert cenote.in_flight() == [block]
    block.free()
    assert other.recv()[0].tobytes() == b"patience"
    wait_empty()


def test_a_message_that_waits_for_its_turn(pool):
    """Another process may write to the queue now, as long as it likes."""
    queue = SPAWN.SimpleQueue()
    block = cenote.share(b"patience", pool).block
    with queue._wlock:
        putter = threading.Thread(target=queue.put, args=(block,))
        putter.start()
        while not cenote.in_flight():
            time.sleep(0)
        look(3 * _keeper.UNTOLD_LOOKS)
        assert cenote.in_flight() == [block]
    putter.join(PATIENCE_S)
    assert queue.get() is block
    queue.close()


@pytest.mark.parametrize("duplex", [True, False])
def test_what_was_not_read_stays(pool, duplex):
    """However long it lies there, over a socket and over a pipe."""
    reader, writer = SPAWN.Pipe(duplex)
    block = cenote.share(b"after a year", pool).block
    writer.send(block)
    block.free()
    look(3 * _keeper.UNTOLD_LOOKS)
    writer.close()
    look(3 * _keeper.UNTOLD_LOOKS)
    assert answers_of(reader, 1) == [b"after a year"]
    wait_empty()
    reader.close()
    wait_back(pool)


def test_the_keeper_looks_by_itself(pipe, pool, monkeypatch):
    monkeypatch.setattr(_keeper, "UNTOLD_LOOKS", 1)
    monkeypatch.setattr(_keeper, "LOOK_SECONDS", 0.01)
    rests, plain = threading.Event(), _cenote.keep_look

    def keep_look(often):
        is_resting = plain(often)
        if is_resting:
            rests.set()
        return is_resting

    monkeypatch.setattr(_cenote, "keep_look", keep_look)
    one, other = pipe
    one.send(pool)
    assert other.recv() is pool
    for _ in range(3):
        assert rests.wait(PATIENCE_S)  # from now on it waits without time, until it is woken
        rests.clear()
        one.send(pool.allocate(8))
        other.recv_bytes()
        wait_empty()


def test_a_reader_over_tcp_that_ends(pool):
    with multiprocessing.connection.Listener(("localhost", 0)) as listener:
        process = SPAWN.Process(target=read_nothing, args=(listener.address,))
        process.start()
        with listener.accept() as conn:
            conn.send(pool.allocate(8))
            wait_empty()
        process.join(PATIENCE_S)


def read_nothing(address):
    """Waits for a message and does not make an object of it."""
    with multiprocessing.connection.Client(address) as conn:
        conn.recv_bytes()


def test_a_simple_queue_whose_readers_have_gone(pool):
    queue = SPAWN.SimpleQueue()
    process = SPAWN.Process(target=wait_for_ever, args=(queue,))
    process.start()
    queue.put(pool.allocate(8))
    kill(process)
    assert len(cenote.in_flight()) == 1  # this process may read it
    queue.close()
    wait_empty()


def wait_for_ever(_):
    """Reads nothing."""
    threading.Event().wait()


@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_is_killed_before_it_has_its_arguments(pool, method, tmp_path):
    """It is stopped while it imports what it needs, and killed then."""
    os.mkfifo(tmp_path / "fifo")
    context = multiprocessing.get_context(method)
    process = context.Process(target=print, args=(Waits(str(tmp_path / "fifo")), pool.allocate(8)))
    process.start()
    with open(tmp_path / "fifo", "rb", buffering=0) as told:
        assert told.read(1) == b"!"
        assert len(cenote.in_flight()) == 1
        look(3 * _keeper.UNTOLD_LOOKS)
        assert len(cenote.in_flight()) == 1  # it may take its time
        os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE_S)
    wait_empty()
    assert pool.stats.live_blocks == 0


class Waits:
    """When it is read it says so, and waits."""

    def __init__(self, path):
        self.path = path

    def __setstate__(self, state):
        descriptor = os.open(state["path"], os.O_WRONLY)
        os.write(descriptor, b"!")
        threading.Event().wait()


# ---- What the program has ----


def test_the_variables_of_a_function_called_send(pipe, pool):
    """multiprocessing's own functions of this name are looked at for where a pickle goes; others are not touched."""
    def send(self, thing):
        before = locals()
        self.send(thing)
        return before

    one, other = pipe
    block = pool.allocate(8)
    assert send(one, block) == {"self": one, "thing": block}
    assert other.recv() is block


def test_pools_of_another_library():
    """All objects of one such pool are one Pool: the number that others know it by lives as long as one of them."""
    driver, handle, address = ctypes.CDLL("libcenote-driver.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    properties = struct.pack("IIii72x", 1, 1, 1, 0)  # pinned, a descriptor, on device 0
    assert driver.cuMemPoolCreate(ctypes.byref(handle), properties) == 0
    blocks = []
    for text in (b"first", b"second"):
        assert driver.cuMemAllocFromPoolAsync(ctypes.byref(address), ctypes.c_size_t(8), handle, None) == 0
        blocks.append(cenote.Block._lent(address.value, len(text), driver, None))
        blocks[-1].copy_from(text)
    assert blocks[0].pool is blocks[1].pool
    names, addresses = [block.name() for block in blocks], [block.ptr for block in blocks]
    del blocks[0]
    assert attach_elsewhere(names[1]).stdout == "second"
    blocks.clear()
    for each in addresses:
        assert driver.cuMemFreeAsync(ctypes.c_uint64(each), None) == 0
    assert driver.cuMemPoolDestroy(handle) == 0
