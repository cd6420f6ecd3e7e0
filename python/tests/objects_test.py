# SPDX-License-Identifier: MIT
"""The objects: how they are made, how they live, how they compare, and what they say of themselves."""

import copy
import gc
import os
import pickle
import re
import select
import subprocess
import sys
import threading
import weakref

import cenote
import numpy
import pytest


# ---- Devices ----


def test_the_version_is_the_librarys():
    assert [number.isdigit() for number in cenote.__version__.split(".")] == [True] * 3


def test_devices():
    devices = cenote.devices()
    assert devices[0] == cenote.Device(0) == cenote.Device()
    assert hash(devices[0]) == hash(cenote.Device(0))
    assert devices[0].kind == cenote.device_kind()
    assert len(devices[0].uuid) == 16
    assert 0 < devices[0].free_bytes <= devices[0].total_bytes
    assert devices[0].name in repr(devices[0])
    with pytest.raises(ValueError, match="device 1000"):
        cenote.Device(1000)


# ---- Streams ----


def test_a_stream_is_made_and_closed():
    with cenote.Stream() as stream:
        stream.synchronize()
        assert stream.done
        assert stream.__cuda_stream__() == (0, stream.handle)
        assert stream == stream and stream != cenote.Stream()
        assert f"{stream.handle:x}" in repr(stream)
    assert stream.closed
    assert "closed" in repr(stream)
    for use in (stream.synchronize, stream.record, lambda: stream.wait(stream)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_stream_of_another_library(pool):
    class Theirs:
        def __init__(self, handle):
            self.handle = handle

        def __cuda_stream__(self):
            return 0, self.handle

    with cenote.Stream() as own:
        for theirs in (Theirs(own.handle), own.handle):
            wrapped = cenote.Stream(theirs)
            assert wrapped == own and hash(wrapped) == hash(own)
            with pool.allocate(100, theirs) as block:
                assert block.stream == own
        wrapped.close()  # not ours to destroy
        own.synchronize()
    with pytest.raises(TypeError, match="__cuda_stream__"):
        cenote.Stream("stream")
    with pytest.raises(TypeError, match="version and a handle"):
        cenote.Stream(type("Wrong", (), {"__cuda_stream__": lambda self: (0,)})())


def test_an_owner_is_kept_that_comes_after_its_integer(pool):
    class Theirs:
        def __cuda_stream__(self):
            return 0, own.handle

    with cenote.Stream() as own:
        first = cenote.Stream(own.handle)
        theirs = Theirs()
        reference = weakref.ref(theirs)
        pool.allocate(8, theirs).free()
        del theirs
        assert reference() is not None and cenote.Stream(own.handle) is first


def test_the_default_stream_has_a_handle():
    assert cenote.Stream(0).handle == cenote.Stream(1).handle == cenote.Stream(2).handle == 1
    assert "default stream" in repr(cenote.Stream(0))


def test_a_function_in_a_stream_is_called_in_order():
    order, reached = [], threading.Event()
    with cenote.Stream() as stream:
        stream.call(lambda: order.append(1))
        stream.call(lambda: (order.append(2), reached.set()))
        stream.synchronize()
        assert order == [1, 2] and reached.is_set()
        with pytest.raises(TypeError):
            stream.call("nothing to call")


def test_streams_wait_for_streams_and_events():
    gate, order = threading.Event(), []
    with cenote.Stream() as first, cenote.Stream() as second, cenote.Stream() as third:
        first.call(gate.wait)
        first.call(lambda: order.append("first"))
        event = first.record(None)
        assert first.record(event) is event
        with pytest.raises(TypeError, match="Event, or None"):
            first.record("event")
        second.wait(first)
        second.call(lambda: order.append("second"))
        third.wait(event)
        third.wait(second)
        third.call(lambda: order.append("third"))
        assert not first.done and not second.done and not event.done
        gate.set()
        third.synchronize()
        assert order == ["first", "second", "third"] and event.done


# ---- Events ----


def test_events():
    with cenote.Event() as event, cenote.Stream() as stream:
        assert event.interprocess and len(event.name) == 64
        event.record(stream)
        event.synchronize()
        assert event.done and event == event and event != cenote.Event()
        assert "for processes" in repr(event)
    assert event.closed and "closed" in repr(event)
    with pytest.raises(ValueError, match="closed"):
        event.record()
    begin, end = (cenote.Event(interprocess=False, timing=True) for _ in range(2))
    begin.record()
    end.record()
    end.synchronize()
    assert end.since(begin) >= 0
    with pytest.raises(ValueError, match="timing"):
        cenote.Event(timing=True)
    with pytest.raises(ValueError, match="64 bytes"):
        cenote.Event.open(b"short")
    with pytest.raises(cenote.CudaError):
        cenote.Event.open(bytes(64))


# ---- Pools ----


def test_a_pool_is_made_and_closed():
    with cenote.Pool() as pool:
        assert pool.shareable and not pool.imported and pool.on_host and not pool.closed
        assert pool.device == cenote.Device(0)
        block = pool.allocate(1000)
        assert pool.stats.live_blocks == 1 and pool.stats.used_bytes >= 1000
        assert "1 blocks" in repr(pool)
    assert pool.closed
    with pytest.raises(ValueError, match="closed"):
        pool.allocate(1)
    with pytest.raises(ValueError, match="closed"):
        pool.stats
    assert memoryview(block).nbytes == 1000  # its memory lives on
    block.free()


def test_arguments_of_pools(pool):
    with pytest.raises(TypeError):
        pool.allocate()
    with pytest.raises(TypeError, match="wrong"):
        pool.allocate(1, wrong=2)
    with pytest.raises(TypeError):
        pool.allocate("many")
    with pytest.raises(OverflowError):
        pool.allocate(-1)
    for size in (2**64 + 4096, -1):
        with pytest.raises(OverflowError, match="not a number from 0"):
            cenote.Pool(max_size=size)
    with pytest.raises(ValueError, match="location"):
        cenote.Pool(location="moon")
    assert pool.allocate(nbytes=5, stream=None).nbytes == 5
    with pool.allocate(0) as empty:
        assert bytes(empty) == empty.tobytes() == b""
    with cenote.Pool(location=("numa", 0)) as near:
        assert near.on_host and near.allocate(10).nbytes == 10


@pytest.mark.parametrize("number", [numpy.int64, numpy.uint32, lambda value: numpy.array(value)[()]])
def test_numpys_integers_are_integers(pool, number):
    block = pool.allocate(number(64), number(0))
    assert block.nbytes == 64 and block.stream == cenote.Stream(number(1))
    assert block.view(number(4)).shape == (4,) and block.view((number(2), 4), offset=number(8)).shape == (2, 4)
    assert block.view(numpy.array([2, 4])).shape == (2, 4)
    with cenote.Stream() as stream:
        theirs = type("Theirs", (), {"__cuda_stream__": lambda self: (0, numpy.uint64(stream.handle))})()
        assert cenote.Stream(numpy.uint64(stream.handle)) == cenote.Stream(theirs) == stream
    pool.limit(number(1 << 20))
    pool.trim(number(0))
    with pytest.raises(cenote.NotFoundError):
        pool.evict(number(5))
    pool.release_threshold = number(1 << 20)
    assert pool.release_threshold == 1 << 20
    with cenote.Pool(number(0), max_size=number(1 << 22), release_threshold=number(7)) as other:
        assert other.release_threshold == 7
    assert cenote.Device(number(0)) == cenote.Device(0)
    block.copy_from(bytes(64))
    for wrong in (numpy.float64(4), "4", numpy.array([4])):
        for use in (pool.allocate, pool.limit, lambda size: cenote.Pool(max_size=size)):
            with pytest.raises(TypeError):
                use(wrong)
    with pytest.raises(TypeError):
        block.view(4.0)


def test_a_pool_keeps_memory_until_it_is_trimmed(pool):
    pool.allocate(1 << 20).free()
    cenote.devices()[0].synchronize()
    assert pool.stats.reserved_bytes > 0
    pool.trim()
    assert pool.stats.reserved_bytes == 0
    pool.release_threshold = 0
    pool.allocate(1 << 20).free()
    cenote.devices()[0].synchronize()
    assert pool.release_threshold == 0 and pool.stats.reserved_bytes == 0
    assert set(pool.picture()) <= set("#o._\n")


def test_a_watch_is_a_descriptor(pool):
    with pool.watch() as watch:
        assert watch.read() == 0
        assert select.select([watch], [], [], 0)[0] == []
        assert pool.importers() == []
    assert watch.fileno() == -1 and "closed" in repr(watch)
    pool.limit(1 << 20)
    pool.limit(None)
    with pytest.raises(ValueError, match="at least 1 byte"):
        pool.limit(0)  # the library's word for no limit, and a program's for nothing
    with cenote.Pool(shareable=False) as closed, pytest.raises(cenote.InvalidValueError):
        closed.watch()


# ---- Blocks ----


def test_a_block_is_freed_by_hand_by_with_and_by_itself(pool):
    block = pool.allocate(100)
    assert not block.freed and block.ptr and block.pool is pool
    block.free()
    assert block.freed and "freed" in repr(block)
    with pytest.raises(ValueError, match="freed"):
        block.free()
    with pytest.raises(ValueError, match="freed"):
        block.ptr
    with pool.allocate(100) as block:
        assert f"{block.ptr:x}" in repr(block)
    assert block.freed
    block = pool.allocate(100)
    reference = weakref.ref(block)
    del block
    assert reference() is None and pool.stats.live_blocks == 0


def test_with_does_not_hide_the_programs_exception(pool):
    with pytest.raises(ZeroDivisionError), pool.allocate(100) as block:
        view = block.view()
        1 / 0
    assert not block.freed and pool.stats.live_blocks == 1
    with pytest.raises(BufferError), block:
        pass
    del view
    with pytest.raises(ZeroDivisionError), block:
        1 / 0
    assert block.freed and pool.stats.live_blocks == 0


def test_blocks_compare_by_address(pool):
    first, second = pool.allocate(100), pool.allocate(100)
    assert first == first and first != second and len({first, second}) == 2
    assert first != "a block"
    with pytest.raises(TypeError):
        first < second


def test_a_block_keeps_its_pool_and_stream():
    pool, stream = cenote.Pool(), cenote.Stream()
    references = weakref.ref(pool), weakref.ref(stream)
    block = pool.allocate(100, stream)
    del pool, stream
    gc.collect()
    assert references[0]() is block.pool and references[1]() is block.stream
    block.free()
    del block
    assert references[0]() is None and references[1]() is None


def test_a_closed_stream_lives_as_long_as_its_blocks(pool):
    stream = cenote.Stream()
    block = pool.allocate(100, stream)
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        pool.allocate(100, stream)
    block.copy_from(b"still")
    assert bytes(memoryview(block)[:5]) == b"still"
    cenote.Stream().wait(block)
    block.free()
    assert pool.stats.live_blocks == 0


def test_a_free_is_in_stream_order(pool):
    gate = threading.Event()
    with cenote.Stream() as stream, cenote.Stream() as other:
        block = pool.allocate(100, stream)
        stream.call(gate.wait)
        block.free(other)  # returns, and comes behind the block's own stream
        assert not other.done
        gate.set()
        other.synchronize()


def test_use_and_join_order_streams(pool):
    gate, order = threading.Event(), []
    with cenote.Stream() as one, cenote.Stream() as two:
        block = pool.allocate(100, one)
        one.call(gate.wait)
        one.call(lambda: order.append(1))
        block.use(two)
        assert block.stream == two
        two.call(lambda: order.append(2))
        gate.set()
        block.join(one)
        block.free()
        two.synchronize()
        assert order == [1, 2]


class Meddling:
    """Arguments whose own code does something to the object that they are given to."""

    def __init__(self, meddle):
        self.meddle = meddle

    def __cuda_stream__(self):
        self.meddle()
        return 0, 1

    def __index__(self):
        self.meddle()
        return 0

    def __len__(self):
        self.meddle()
        return 0

    def __getitem__(self, _):
        raise IndexError

    @property
    def name(self):
        self.meddle()
        return "uint8"

    @property
    def __cuda_array_interface__(self):
        self.meddle()
        return {"data": (1, False), "shape": (1,), "typestr": "|u1"}


@pytest.mark.parametrize("use", [
    lambda block, argument: block.free(argument),
    lambda block, argument: block.use(argument),
    lambda block, argument: block.join(argument),
    lambda block, argument: block.copy_from(argument),
    lambda block, argument: block.view(argument),
    lambda block, argument: block.view(1, argument),
    lambda block, argument: block.view(1, "uint8", argument),
    lambda block, argument: block.__dlpack__(dl_device=(1, argument)),
])
def test_an_argument_that_frees_the_block(pool, use):
    """A stream's user count that falls too far, or a second free, would be seen here or when the stream goes."""
    stream = cenote.Stream()
    block = pool.allocate(100, stream)
    with pytest.raises(ValueError, match="freed"):
        use(block, Meddling(block.free))
    assert block.freed and "0 blocks" in repr(pool)
    stream.close()
    with pytest.raises(cenote.InvalidHandleError):
        cenote.Stream(stream.handle).synchronize()


def test_an_argument_that_makes_a_view_of_the_block(pool):
    block, views = pool.allocate(100), []
    with pytest.raises(BufferError):
        block.free(Meddling(lambda: views.append(block.view())))
    views.clear()
    block.free()


def test_an_argument_that_closes_the_pool_or_the_event():
    pool, event = cenote.Pool(), cenote.Event()
    with pytest.raises(ValueError, match="pool is closed"):
        pool.allocate(1, Meddling(pool.close))
    with pytest.raises(ValueError, match="event is closed"):
        event.record(Meddling(event.close))


def test_copies(pool):
    with pool.allocate(8) as block:
        block.copy_from(b"12345678")
        block.copy_from(bytearray(b"ab"))
        assert block.tobytes() == b"ab345678"
        with pytest.raises(ValueError, match="do not fit"):
            block.copy_from(bytes(9))
        with pytest.raises(TypeError):
            block.copy_from(5)


def test_what_cannot_be_pickled_or_copied_says_so(pool):
    with pool.allocate(8) as block:
        for thing in (pool, block, block.stream, cenote.Event()):
            with pytest.raises(TypeError):
                pickle.dumps(thing)
            with pytest.raises(TypeError):
                copy.copy(thing)
    with pytest.raises(TypeError):
        cenote.Block()


# ---- Where CUDA may not be called ----


def cycle_of(block):
    """What only a garbage collection frees."""
    cycle = [block]
    cycle.append(cycle)


@pytest.mark.parametrize("count", [1, 100])
def test_a_block_whose_last_reference_ends_in_a_function_of_a_stream(pool, count):
    with cenote.Stream() as stream:
        for _ in range(count):
            block = pool.allocate(1 << 20, stream)
            stream.call(lambda block=block: None)
            del block
        stream.synchronize()
        assert pool.stats.live_blocks == 0


def test_a_collection_in_a_function_of_a_stream(pool):
    gc.collect()
    gc.disable()
    try:
        with cenote.Stream() as stream:
            cycle_of(pool.allocate(100))
            cycle_of(pool.allocate(100).view(10))
            stream.call(gc.collect)
            stream.synchronize()
            assert pool.stats.live_blocks == 0
    finally:
        gc.enable()


def test_what_was_postponed_needs_no_further_call(pool):
    """The main thread frees it by itself. (What the representation says asks the library nothing.)"""
    with cenote.Stream() as stream:
        block = pool.allocate(1 << 20)
        stream.call(lambda block=block: None)
        del block
        stream.synchronize()
        assert "0 blocks" in repr(pool)


def test_a_pool_may_go_in_a_function_of_a_stream():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    with cenote.Stream() as stream, cenote.Pool() as other:
        before = descriptors()
        for _ in range(10):
            pool, event = cenote.Pool(), cenote.Event()
            pool.allocate(100, stream).free()
            stream.call(lambda mine=(pool, event, cenote.Stream()): None)
            del pool, event
        stream.synchronize()
        other.allocate(1).free()
        assert descriptors() <= before


def test_nothing_is_freed_or_closed_by_hand_in_a_function_of_a_stream(pool):
    block, said = pool.allocate(100), []

    def free():
        with pytest.raises(cenote.NotPermittedError) as error:
            block.free()
        said.append(str(error.value))

    with cenote.Stream() as stream:
        stream.call(free)
        stream.synchronize()
    assert "may not call CUDA" in said[0]
    assert not block.freed and pool.stats.live_blocks == 1
    block.free()


# ---- Threads, the end, leaks ----


def test_many_threads_allocate_and_free(pool):
    failures = []

    def work():
        try:
            with cenote.Stream() as stream:
                for size in range(1, 300):
                    with pool.allocate(size * 64, stream) as block:
                        block.copy_from(b"x" * size)
        except Exception as error:  # seen below
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and pool.stats.live_blocks == 0


def test_waiting_lets_other_threads_run():
    """A thread that waits for a stream must not hold up the one that lets the stream go on."""
    gate = threading.Event()
    with cenote.Stream() as stream:
        stream.call(gate.wait)
        threading.Thread(target=gate.set).start()
        stream.synchronize()


@pytest.mark.parametrize("copy", [lambda block: block.tobytes(), lambda block: block.copy_from(b"x")])
def test_a_copy_stays_in_its_stream(pool, copy):
    """A block that gets another stream, while it is copied, is copied in the one that it had, which is not gone."""
    first_gate, second_gate, entered = threading.Event(), threading.Event(), threading.Event()
    first, second = cenote.Stream(), cenote.Stream()
    handle = first.handle
    block = pool.allocate(100, first)
    first.call(lambda: (entered.set(), first_gate.wait()))
    entered.wait()
    copying = threading.Thread(target=copy, args=[block])
    copying.start()
    view = block.view()
    while user_count(block) < 2:
        pass
    block.use(second)
    second.call(second_gate.wait)
    first.close()
    del first
    first_gate.set()
    copying.join(20)
    waited_for_the_wrong_one = copying.is_alive()
    second_gate.set()
    copying.join()
    assert not waited_for_the_wrong_one
    with pytest.raises(cenote.InvalidHandleError):
        cenote.Stream(handle).synchronize()
    del view
    block.free()


def user_count(block):
    """How many use the block's memory, of which one is a view."""
    with pytest.raises(BufferError) as error:
        block.free()
    return int(re.search(r"by (\d+) views", str(error.value))[1])


AT_THE_END = """
import cenote, threading, gc
gc.disable()
pool, stream = cenote.Pool(), cenote.Stream()
event = cenote.Event()
block = pool.allocate(1000, stream)
view = memoryview(block)
cycle = [block]; cycle.append(cycle)
gate = threading.Event()
stream.call(gate.wait)
"""
WITH_A_THREAD = AT_THE_END + "threading.Thread(target=stream.synchronize, daemon=True).start()\n"


def check_ends(*programs):
    """Each ends well and says nothing."""
    for lines in programs:
        done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


not_under_asan = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="AddressSanitizer does not know that Python ends a thread in the middle of a call")


@not_under_asan
def test_the_interpreter_ends_with_everything_alive():
    check_ends(AT_THE_END, AT_THE_END + "gate.set()\n", AT_THE_END + "import sys; sys.modules.clear()\n")


@not_under_asan
def test_the_interpreter_ends_while_a_thread_waits():
    check_ends(WITH_A_THREAD, WITH_A_THREAD + "gate.set()\n")


def churn(pool):
    """Everything that makes objects."""
    with cenote.Stream() as stream, cenote.Event() as event:
        event.record(stream)
        stream.wait(event)
        stream.record()
        with pool.allocate(1000, stream) as block:
            block.copy_from(b"x")
            block.tobytes()
            memoryview(block).release()
            view = block.view((10, 10), "uint8")
            view.__dlpack__()
            view.__array_interface__, view.shape, view.dtype, repr(view), block.device
            del view
        pool.stats, pool.importers(), repr(pool)
        try:
            pool.evict(12345)
        except cenote.NotFoundError:
            pass


def test_nothing_leaks(pool, check_leaks):
    check_leaks(lambda count: [churn(pool) for _ in range(count)])
