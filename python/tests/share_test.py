# SPDX-License-Identifier: MIT
"""Between processes of multiprocessing: queues, connections, pools of processes, and processes that are killed."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler

import cenote
import numpy
import pytest
from cenote import _cenote, _keeper, _record, _share
from conftest import record_of

SPAWN = multiprocessing.get_context("spawn")
PATIENCE_S = 30


@contextmanager
def peer(target, *arguments):
    """A process with a connection to it. It must end well, unless the test has killed it."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=target, args=(theirs, *arguments))
    process.start()
    theirs.close()
    try:
        yield ours, process
    finally:
        ours.close()
        process.join(PATIENCE_S)
        assert process.exitcode in (0, -signal.SIGKILL)


def kill(process):
    """Kill a process and wait until it is gone."""
    os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE_S)


def wait_empty():
    """Wait until everything has arrived or is lost."""
    assert _share.keeper.wait_empty(PATIENCE_S)


def wait_back(pool):
    """Wait until no process holds a block: a watch tells of each that goes."""
    with pool.watch() as watch:
        while pool.importers():
            assert wait([watch], PATIENCE_S)
            watch.read()


def answer(conn, *_):
    """Says what it gets, until the other side closes the connection."""
    while True:
        try:
            thing = conn.recv()
        except EOFError:
            return
        if isinstance(thing, cenote.Pool):
            conn.send(("pool", thing.imported))
        elif isinstance(thing, cenote.Event):
            thing.synchronize()
            conn.send(("event", thing.done))
        elif isinstance(thing, cenote.View):
            conn.send((thing.shape, thing.dtype, numpy.asarray(thing).tolist()))
        else:
            conn.send((thing.imported, thing.nbytes, thing.tobytes()))
        del thing


def hold(conn, *_):
    """Keeps what it gets, and says so."""
    held = []
    while True:
        try:
            held.append(conn.recv())
        except EOFError:
            return
        conn.send(len(held))


# ---- What can be sent ----


def test_a_block_goes_and_may_be_dropped_at_once(pool):
    with peer(answer) as (conn, _):
        for text in (b"first", b"second", b"third"):
            block = pool.allocate(16)
            block.copy_from(text.ljust(16))
            conn.send(block)
            del block
            assert conn.recv() == (True, 16, text.ljust(16))
        wait_empty()


def test_a_view_may_be_dropped_at_once(pool):
    with peer(answer) as (conn, _):
        view = cenote.share(numpy.arange(6, dtype="int16").reshape(2, 3), pool)
        conn.send(view)
        del view
        assert conn.recv() == ((2, 3), "int16", [[0, 1, 2], [3, 4, 5]])


def test_parts_views_pools_and_events(pool):
    with peer(answer) as (conn, _):
        block = pool.allocate(64)
        array = numpy.asarray(block.view(16, "int32"))
        array[:] = range(16)
        conn.send(cenote.Block.from_dlpack(array[4:6]))
        assert conn.recv() == (True, 8, array[4:6].tobytes())
        conn.send(block.view(3, "int32", offset=40))
        assert conn.recv() == ((3,), "int32", [10, 11, 12])
        conn.send(pool)
        assert conn.recv() == ("pool", True)
        event = cenote.Event()
        event.record()
        conn.send(event)
        assert conn.recv() == ("event", True)
        wait_empty()


def test_blocks_of_no_bytes(pool):
    """They are nowhere, in every process."""
    empty = pool.allocate(0)
    whole = numpy.asarray(pool.allocate(64))
    part = cenote.Block.from_dlpack(whole[8:8])
    with peer(answer) as (conn, _), cenote.Stream() as stream:
        gate = threading.Event()
        stream.call(gate.wait)  # nothing is ready at once
        for block in (empty, part, pool.allocate(0, stream)):
            conn.send(block)
            assert conn.recv() == (True, 0, b"")
        gate.set()
        conn.send(cenote.share(numpy.zeros((3, 0), "int16"), pool))
        assert conn.recv() == ((3, 0), "int16", [[], [], []])
        wait_empty()
    done = attach_elsewhere(empty.name())
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    here = cenote.attach(empty.name())
    assert (here.ptr, here.nbytes, here.pool.imported) == (0, 0, True)
    here.free()


def test_what_is_anothers_is_not_sent_on(pool):
    own = pool.allocate(8)
    block = cenote.attach(own.name())
    with peer(answer) as (conn, _):
        for thing in (block, block.view(), block.pool):
            with pytest.raises(ValueError, match="only its owner can send it"):
                conn.send(thing)
    with pytest.raises(ValueError, match="only its owner can send it"):
        block.name()
    assert cenote.in_flight() == []


def test_it_is_one_memory(pool):
    with peer(change) as (conn, _):
        view = cenote.share(numpy.zeros(4), pool)
        conn.send(view)
        assert conn.recv() == "changed"
        assert numpy.asarray(view).tolist() == [1, 2, 3, 4]


def change(conn):
    """Writes into what it gets."""
    numpy.asarray(conn.recv())[:] = [1, 2, 3, 4]
    conn.send("changed")


def test_the_reader_comes_after_the_writer(pool):
    """The sender's stream has not come to the write when the block is sent; the receiver's bytes are of after it."""
    gate = threading.Event()
    with peer(answer) as (conn, _), cenote.Stream() as stream:
        block = pool.allocate(8, stream)
        block.copy_from(bytes(8))
        with memoryview(block) as memory:
            stream.call(gate.wait)
            stream.call(lambda: memory.__setitem__(slice(0, 8), b"in order"))
            conn.send(block)
            assert not conn.poll() and not stream.done
            gate.set()
            assert conn.recv() == (True, 8, b"in order")


def test_an_early_free_is_deferred(pool):
    with peer(read_late) as (conn, _):
        block = pool.allocate(1 << 16)
        block.copy_from(b"mine" * (1 << 14))
        first = block.ptr
        conn.send(block)
        assert conn.recv() == "have it"
        block.free()
        wait_empty()  # now it is the library that keeps it
        others = [pool.allocate(1 << 16) for _ in range(20)]
        assert first not in [other.ptr for other in others]
        assert pool.stats.deferred_blocks == 1
        conn.send("read")
        assert conn.recv() == b"mine"
    wait_back(pool)
    assert pool.stats.deferred_blocks == 0


def read_late(conn):
    """Reads when it is told to."""
    block = conn.recv()
    conn.send("have it")
    conn.recv()
    conn.send(bytes(memoryview(block)[:4]))


# ---- Ways of multiprocessing ----


def add(view, number):
    """In a worker: a new view of the sum."""
    return cenote.share(numpy.asarray(view) + number)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_pool_of_processes(pool, method):
    with multiprocessing.get_context(method).Pool(2) as workers:
        views = [cenote.share(numpy.full(10, number), pool) for number in range(8)]
        sums = workers.starmap(add, [(view, 100) for view in views])
        assert [numpy.asarray(total)[0] for total in sums] == list(range(100, 108))
        del views, sums
        workers.close()
        workers.join()
    wait_empty()


def produce(queue, count):
    """Sends and ends at once: what is on its way arrives."""
    for number in range(count):
        queue.put(cenote.share(numpy.full(4, number)))


def test_a_producer_that_ends_after_its_last_block():
    queue = SPAWN.Queue()
    process = SPAWN.Process(target=produce, args=(queue, 5))
    process.start()
    got = [numpy.asarray(queue.get()) for _ in range(5)]
    process.join(PATIENCE_S)
    assert process.exitcode == 0
    assert [int(array[0]) for array in got] == list(range(5))  # its process has ended, the memory is there


def test_an_argument_of_a_process(pool):
    block = pool.allocate(8)
    block.copy_from(b"argument")
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=send_back, args=(theirs, block))
    process.start()
    assert ours.recv() == b"argument"
    process.join(PATIENCE_S)
    assert process.exitcode == 0


def send_back(conn, block):
    """Says what its argument holds."""
    conn.send(block.tobytes())


def test_a_queue_in_one_process_gives_the_same_object(pool):
    queue = SPAWN.Queue()
    block = pool.allocate(8)
    queue.put(block)
    assert queue.get() is block
    wait_empty()
    queue.close()
    queue.join_thread()


FORKED = """
import multiprocessing, cenote
def child(conn):
    conn.send(cenote.share(b"from a forked child"))
ours, theirs = multiprocessing.get_context("fork").Pipe()
process = multiprocessing.get_context("fork").Process(target=child, args=(theirs,))
process.start()
assert bytes(ours.recv()) == b"from a forked child"
process.join()
assert process.exitcode == 0
"""


def test_fork_before_the_first_use():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")


# ---- Ends ----


def test_what_a_killed_process_held_comes_back(pool):
    with peer(hold) as (conn, process):
        for count in range(1, 4):
            conn.send(pool.allocate(1000))
            assert conn.recv() == count
        wait_empty()
        importer, = pool.importers()
        assert (importer.pid, importer.held_blocks) == (process.pid, 3)
        assert pool.stats.deferred_blocks == 3
        kill(process)
        wait_back(pool)
    assert pool.stats.deferred_blocks == 0 and pool.stats.exported_blocks == 0


def test_what_nobody_will_read_comes_back(pool):
    """The receiver is killed before it reads: no limbo."""
    with peer(stop) as (conn, process):
        assert conn.recv() == "waiting"
        for _ in range(3):
            conn.send(pool.allocate(1000))
        assert len(cenote.in_flight()) == 3
        kill(process)
        wait_empty()
    assert pool.stats.live_blocks == 0


def stop(conn):
    """Reads nothing."""
    conn.send("waiting")
    threading.Event().wait()


def test_a_sender_may_close_its_end_at_once(pool):
    """The reader still gets everything, and then the end; a reader that is killed instead leaves nothing."""
    with peer(count_until_the_end) as (conn, process):
        report, theirs = SPAWN.Pipe(duplex=False)
        conn.send(theirs)
        theirs.close()
        for _ in range(5):
            conn.send(pool.allocate(1000))
        conn.close()
        assert report.poll(PATIENCE_S) and report.recv() == 5
        report.close()
        process.join(PATIENCE_S)
    with peer(stop) as (conn, process):
        conn.recv()
        conn.send(pool.allocate(1000))
        conn.close()
        assert len(cenote.in_flight()) == 1
        kill(process)
    wait_empty()


def count_until_the_end(conn):
    """Says how many blocks came before the end."""
    report, held = conn.recv(), []
    try:
        while True:
            held.append(conn.recv())
    except EOFError:
        report.send(len(held))


def test_a_queue_keeps_what_may_still_be_read(pool):
    """The reader of a queue dies; another may come."""
    queue = SPAWN.Queue()
    with peer(stop) as (conn, process):
        conn.recv()
        block = pool.allocate(5)
        block.copy_from(b"later")
        queue.put(block)
        del block
        kill(process)
    process = SPAWN.Process(target=read_queue, args=(queue,))
    process.start()
    process.join(PATIENCE_S)
    assert process.exitcode == 0
    wait_empty()
    queue.close()
    queue.join_thread()


def test_a_reader_of_a_queue_that_dies_with_a_block_leaves_nothing(pool):
    """The sender was told before the reader had the block: others could still read the queue."""
    queue = SPAWN.Queue()
    process = SPAWN.Process(target=read_and_die, args=(queue,))
    process.start()
    for _ in range(3):
        queue.put(pool.allocate(1000))
    process.join(PATIENCE_S)
    assert process.exitcode == -signal.SIGKILL
    wait_empty()
    wait_back(pool)
    queue.close()
    queue.join_thread()


def read_and_die(queue):
    """Holds three blocks for no time at all."""
    held = [queue.get() for _ in range(3)]
    os.kill(os.getpid(), signal.SIGKILL)
    del held


def read_queue(queue):
    """Reads once."""
    assert queue.get().tobytes() == b"later"


@pytest.mark.parametrize("after", range(6))
def test_a_consumer_killed_anywhere_leaves_nothing(pool, after):
    """Six blocks are sent without waiting; the consumer is killed when it has taken some of them."""
    with peer(hold) as (conn, process):
        for _ in range(6):
            conn.send(pool.allocate(100_000))
        for _ in range(after):
            conn.recv()
        kill(process)
        wait_empty()
        wait_back(pool)
    assert pool.stats.live_blocks == 0 and pool.stats.used_bytes == 0


def test_the_sender_is_killed():
    """What has arrived stays; its owner's end is not ours."""
    with peer(own) as (conn, process):
        view = conn.recv()
        conn.send("got it")
        name = conn.recv()
        kill(process)
        assert bytes(view) == b"what was sent"
        assert "ConnectionError" in attach_elsewhere(name).stderr


def own(conn):
    """Sends memory and the name of a block, and waits."""
    conn.send(cenote.share(b"what was sent"))
    conn.recv()
    block = cenote.share(b"more").block
    conn.send(block.name())
    threading.Event().wait()


# ---- A pool that comes more than once ----


def test_a_pool_under_anothers_number(pool):
    """A stranger that knows another sender's number gets nothing of that sender's, and takes nothing away."""
    one, two = socket.socketpair()
    with cenote.Pool() as strangers, one, two:
        theirs, ours = cenote.share(b"strangers", strangers).block, cenote.share(b"trusted", pool).block
        forged = record_of(theirs).replace(number_of(theirs), number_of(ours))
        exported = strangers._export()
        assert _share.rebuild(forged, exported, tells=False).tobytes() == b"strangers"
        cenote.send(one, ours)
        assert cenote.recv(two).tobytes() == b"trusted"
        exported.close()
        ours.free()
        theirs.free()


def test_a_pool_imported_again_while_its_blocks_are_there(pool):
    """CUDA counts imports, and destroys none of them beside a block: the last Pool object ends them all."""
    block, exported = cenote.share(b"here", pool).block, pool._export()
    imported = [_share.rebuild(record_of(block), exported, tells=False) for _ in range(2)]
    first, *others = (each.pool for each in imported)
    assert others == [first] and others[0] is first and first.imported
    first.close()
    imported.append(_share.rebuild(record_of(block), exported, tells=False))
    exported.close()
    assert imported[2].pool is not first and imported[2].pool.handle == first.handle
    del first, others
    _share.imports.handles.clear()
    assert [each.tobytes() for each in imported] == [b"here"] * 3 and len(pool.importers()) == 1
    del imported
    wait_back(pool)


def test_what_comes_again_is_still_known_as_imported(pool):
    """By its address, too: it is another process's memory, which only that process can send."""
    received, (one, two) = [], socket.socketpair()
    with one, two:
        for _ in range(3):
            cenote.send(one, pool.allocate(8))
            received.append(cenote.recv(two))
            assert _cenote.Block.from_dlpack(received[0].view()).imported
    pools = {id(each.pool) for each in received}
    assert len(pools) == 1


def number_of(block):
    """By which processes know its pool."""
    return _record.read(record_of(block)).pool


# ---- The exporter's means ----


def test_importers_can_be_limited_and_shut_out(pool):
    with peer(hold_or_say) as (conn, process):
        pool.limit(10_000)
        blocks = [pool.allocate(6000) for _ in range(3)]
        conn.send(blocks[0])
        assert conn.recv() == "have it"
        conn.send(blocks[1])
        assert conn.recv() == "OutOfMemoryError"
        pool.limit(None)
        conn.send(blocks[1])
        assert conn.recv() == "have it"
        importer, = pool.importers()
        assert importer.pid == process.pid and importer.held_bytes >= 12000
        pool.evict(importer)
        for _ in range(100_000):  # "soon afterwards": the importer is told by a message
            conn.send(blocks[2])
            said = conn.recv()
            if said != "have it":
                break
        assert said == "InvalidValueError"
    wait_back(pool)


def hold_or_say(conn):
    """Keeps what it can get, and says which error there was."""
    held = []
    while True:
        try:
            held.append(conn.recv())
            conn.send("have it")
        except EOFError:
            return
        except cenote.CudaError as error:
            conn.send(type(error).__name__)


# ---- Senders are told ----


def hand_out(conn, count=1, clients_max=None):
    """Sends blocks, and says on request that nothing is on its way any more."""
    if clients_max is not None:
        _keeper.CLIENTS_MAX = clients_max
    with cenote.Pool() as pool:
        for _ in range(count):
            conn.send(pool.allocate(8))
        while True:
            try:
                wish = conn.recv()
            except EOFError:
                return
            if wish == "another":
                conn.send(pool.allocate(8))
            else:
                wait_empty()
                conn.send((cenote.in_flight(), pool.stats.live_blocks))


def test_a_sender_that_hangs_holds_up_nobody():
    """It is told when it goes on; another one at once."""
    with peer(hand_out, 20) as (conn, process), peer(hand_out) as (other, _):
        held = [conn.recv()]
        messages = [conn.recv_bytes() for _ in range(19)]
        os.kill(process.pid, signal.SIGSTOP)
        held += [ForkingPickler.loads(message) for message in messages]
        held.append(other.recv())
        other.send("are you told?")
        assert other.recv() == ([], 0)
        os.kill(process.pid, signal.SIGCONT)
        conn.send("are you told?")
        assert conn.recv() == ([], 0)


def test_a_sender_that_has_closed_the_connection_is_told_over_another():
    """It serves one receiver at a time, so that each one that comes drives out the other."""
    with peer(hand_out, 1, 1) as (conn, _), peer(pass_on, conn) as (other, _):
        for _ in range(3):
            held = conn.recv()
            conn.send("are you told?")
            assert conn.recv() == ([], 0)
            assert not held.freed
            conn.send("another")
            other.send("you now")
            assert other.recv() == ([], 0)
            conn.send("another")
        conn.recv()


def pass_on(conn, sender):
    """Takes what a sender has for another, and has it told."""
    while True:
        try:
            conn.recv()
        except EOFError:
            return
        held = sender.recv()
        sender.send("are you told?")
        conn.send(sender.recv())
        del held


SOCKET_FIRST = """
import multiprocessing, sys
import cenote
sys.path.insert(0, {folder!r})
from share_test import SPAWN, peer, send_both_ways
if __name__ == "__main__":
    with peer(send_both_ways) as (conn, _):
        held = [cenote.recv(conn), conn.recv()]
        conn.send("are you told?")
        print(conn.recv())
"""


def send_both_ways(conn):
    """A block over the socket, and one as multiprocessing does."""
    with cenote.Pool() as pool:
        cenote.send(conn, pool.allocate(8))
        conn.send(pool.allocate(8))
        conn.recv()
        wait_empty()
        conn.send(pool.stats.live_blocks)


def test_a_sender_is_told_whose_pool_came_by_another_way(tmp_path):
    """The pool is known when the first block comes that is to be told of. In a new process: nobody was told there."""
    program = tmp_path / "program.py"
    program.write_text(SOCKET_FIRST.format(folder=os.path.dirname(__file__)))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_senders_that_have_ended_leave_no_socket():
    before = None
    for _ in range(4):
        with peer(hand_out) as (conn, _):
            conn.recv()
            conn.send("are you told?")
            assert conn.recv() == ([], 0)
        _share.imports.__init__()  # the pools of others, which have descriptors
        if before is None:
            before = len(os.listdir("/proc/self/fd"))
    end = time.monotonic() + PATIENCE_S
    while len(os.listdir("/proc/self/fd")) > before:  # the library's thread closes what led to them
        assert time.monotonic() < end
        os.sched_yield()


# ---- Names ----


ATTACH = "import cenote, sys; sys.stdout.write(cenote.attach(bytes.fromhex(sys.argv[1])).tobytes().decode())"


def attach_elsewhere(name):
    """What a new process says that attaches."""
    return subprocess.run([sys.executable, "-c", ATTACH, name.hex()], capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)


def test_a_block_by_name(pool):
    block = pool.allocate(5)
    block.copy_from(b"named")
    name = block.name()
    assert isinstance(name, bytes)
    done = attach_elsewhere(name)
    assert (done.stdout, done.stderr, done.returncode) == ("named", "", 0)
    wait_back(pool)
    assert cenote.attach(name).tobytes() == b"named"  # here, too
    block.free()
    assert "InvalidValueError" in attach_elsewhere(name).stderr


def test_wrong_names_are_refused(pool):
    name = pool.allocate(5).name()
    for wrong in (b"", b"x" * 300, name[:-1], name + b"x", b"xxxx" + name[4:], name[:4] + b"\xff" + name[5:]):
        with pytest.raises(ValueError):
            cenote.attach(wrong)
    refused = 0
    for at in range(len(name)):
        damaged = bytearray(name)
        damaged[at] ^= 0x55
        try:
            cenote.attach(bytes(damaged)).free()
        except (ValueError, ConnectionError, cenote.CudaError):
            refused += 1
    assert refused > len(name) * 0.8  # not all matters here: what the memory is ready after has happened


# ---- Many ----


def test_threads_send_at_the_same_time(pool):
    failures = []

    def work(conn):
        try:
            for number in range(40):
                block = pool.allocate(64)
                block.copy_from(number.to_bytes(64, "little"))
                conn.send(block)
                del block
                assert conn.recv()[2] == number.to_bytes(64, "little")
        except Exception as error:  # seen below
            failures.append(error)

    with peer(answer) as (one, _), peer(answer) as (two, _):
        threads = [threading.Thread(target=work, args=(conn,)) for conn in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        wait_empty()


def test_hand_overs_leak_nothing(pool, check_leaks):
    with peer(answer) as (conn, _):
        def hand_over(count):
            for _ in range(count):
                conn.send(pool.allocate(64))
                conn.recv()
            wait_empty()

        check_leaks(hand_over)
