# SPDX-License-Identifier: MIT
"""Tensors between processes: torch.multiprocessing over Cenote, and processes that are killed."""

import gc
import os
import subprocess
import sys
import warnings
from pathlib import Path

import cenote
import pytest
from share_test import PATIENCE_S, kill, peer, wait_back, wait_empty

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch's own imports
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    import torch.multiprocessing
    import cenote.torch

SPAWN = torch.multiprocessing.get_context("spawn")
pytestmark = pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""),
                                reason="under AddressSanitizer PyTorch starts more slowly than these tests wait")


@pytest.fixture
def registered():
    """Tensors go over Cenote."""
    cenote.torch.register()
    yield
    cenote.torch.unregister()


def describe(conn):
    """Says what it gets, adds one to it, and says where it is."""
    while True:
        try:
            got = conn.recv()
        except EOFError:
            return
        facts = (type(got).__name__, got.dtype, tuple(got.shape), got.stride(), got.requires_grad,
                 cenote.torch.is_shareable(got), got.tolist())
        with torch.no_grad():
            got += 1
        del got
        conn.send(facts)


def send_back(conn):
    """Sends what it got: only a copy can be sent."""
    cenote.torch.register()
    got = conn.recv()
    assert not cenote.torch.is_shareable(got)
    with pytest.raises(RuntimeError, match="another process's memory"):
        conn.send(got)
    conn.send(cenote.torch.share(got))
    got += 1
    cenote.torch.register(copy=True)
    conn.send(got)
    with pytest.raises(EOFError):
        conn.recv()


def keep(conn):
    """Keeps what it gets, and says so."""
    kept = []
    while True:
        try:
            kept.append(conn.recv())
        except EOFError:
            return
        conn.send(len(kept))


def get_one(queue, results):
    """Adds up what comes from a queue."""
    for got in iter(queue.get, None):
        results.put(float(got.sum()))


def add_up(tensor):
    """For a pool of processes."""
    return float(tensor.sum())


def send_result(conn, count):
    """Makes tensors here and sends them, until the other side closes."""
    cenote.torch.register()
    for number in range(count):
        conn.send(cenote.torch.share(torch.full((4,), float(number))))
    with pytest.raises(EOFError):
        conn.recv()


# ---- What is sent ----


def test_a_tensor_is_the_same_memory_there(pool, registered):
    with peer(describe) as (conn, _):
        sent = cenote.torch.share(torch.arange(6.0).reshape(2, 3), pool)
        conn.send(sent)
        kind, dtype, shape, stride, requires_grad, _, numbers = conn.recv()
        assert (kind, dtype, shape, stride, requires_grad) == ("Tensor", torch.float32, (2, 3), (3, 1), False)
        assert numbers == [[0, 1, 2], [3, 4, 5]]
        assert sent.tolist() == [[1, 2, 3], [4, 5, 6]]
        wait_empty()


def test_parts_strides_types_and_parameters(pool, registered):
    whole = cenote.torch.share(torch.arange(12, dtype=torch.int16).reshape(3, 4), pool)
    parameter = torch.nn.Parameter(cenote.torch.share(torch.ones(2, 2), pool))
    with peer(describe) as (conn, _):
        conn.send(whole[1:, 1:3].t())
        assert conn.recv()[:5] == ("Tensor", torch.int16, (2, 2), (1, 4), False)
        assert whole[1:, 1:3].tolist() == [[6, 7], [10, 11]]
        conn.send(parameter)
        assert conn.recv()[:5] == ("Parameter", torch.float32, (2, 2), (2, 1), True)
        assert parameter.tolist() == [[2, 2], [2, 2]]
        wait_empty()


def test_no_file_is_made(pool, registered, monkeypatch):
    """PyTorch's own way would make one in /dev/shm, and send its descriptor."""
    def refuse(_):
        raise AssertionError("PyTorch's own reducer was called")
    monkeypatch.setattr(torch.multiprocessing.reductions, "reduce_storage", refuse)
    monkeypatch.setattr(torch.multiprocessing.reductions, "reduce_tensor", refuse)
    with peer(describe) as (conn, _):
        conn.send(cenote.torch.empty(4, pool=pool).zero_())
        assert conn.recv()[-1] == [0, 0, 0, 0]
        with pytest.raises(AssertionError, match="own reducer"):
            conn.send(torch.ones(4))


def test_other_tensors_go_pytorchs_way(registered):
    with peer(describe) as (conn, _):
        sent = torch.zeros(3)
        conn.send(sent)
        assert conn.recv()[5:] == (False, [0, 0, 0])
        assert sent.tolist() == [1, 1, 1]  # PyTorch has moved it into memory that both have
        with pytest.raises(RuntimeError, match="non-leaf"):
            conn.send(cenote.torch.share(torch.ones(3, requires_grad=True)) * 2)


def test_with_copy_they_are_copied_once():
    cenote.torch.register(copy=True)
    try:
        with peer(describe) as (conn, _):
            sent = torch.nn.Parameter(torch.zeros(2, 3).t())
            conn.send(sent)
            kind, _, shape, _, requires_grad, _, numbers = conn.recv()
            assert (kind, shape, requires_grad) == ("Parameter", (3, 2), True)
            assert numbers == [[0, 0]] * 3 and sent.sum() == 0
            wait_empty()
            assert cenote.torch.default_pool().stats.live_blocks == 0
    finally:
        cenote.torch.unregister()


def test_queues_and_pools_of_processes(pool, registered):
    queue, results = SPAWN.Queue(), SPAWN.Queue()
    process = SPAWN.Process(target=get_one, args=(queue, results))
    process.start()
    for number in range(5):
        queue.put(cenote.torch.share(torch.full((3,), float(number)), pool))
    assert [results.get(timeout=PATIENCE_S) for _ in range(5)] == [0, 3, 6, 9, 12]
    queue.put(None)
    process.join(PATIENCE_S)
    assert process.exitcode == 0
    with SPAWN.Pool(2) as workers:
        tensors = [cenote.torch.share(torch.ones(number), pool) for number in range(1, 5)]
        assert workers.map(add_up, tensors) == [1, 2, 3, 4]
    del tensors
    wait_empty()
    wait_back(pool)


def test_a_child_sends_its_tensors_and_they_outlive_its_own(registered):
    with peer(send_result, 3) as (conn, _):
        got = [conn.recv() for _ in range(3)]
        assert [float(each.sum()) for each in got] == [0, 4, 8]
    assert float(got[2].sum()) == 8  # the process has ended; what is held stays
    del got


def test_a_received_tensor_is_sent_on_as_a_copy(pool, registered):
    sent = cenote.torch.share(torch.ones(3), pool)
    with peer(send_back) as (conn, _):
        conn.send(sent)
        copy, later = conn.recv(), conn.recv()
        assert copy.tolist() == [1, 1, 1] and later.tolist() == sent.tolist() == [2, 2, 2]
        sent.zero_()
        assert later.tolist() == [2, 2, 2]
        del copy, later


# ---- Who lets go ----


def test_a_dropped_tensor_stays_with_its_receiver_and_comes_back_with_its_death(pool, registered):
    with peer(keep) as (conn, process):
        for number in range(4):
            conn.send(cenote.torch.share(torch.ones(1 << 10), pool))
            assert conn.recv() == number + 1
        wait_empty()
        gc.collect()
        assert (pool.stats.live_blocks, pool.stats.deferred_blocks) == (0, 4)
        kill(process)
        wait_back(pool)
        assert pool.stats.deferred_blocks == 0


def test_a_receiver_that_dies_before_it_reads_leaves_nothing(pool, registered):
    with peer(keep) as (conn, process):
        conn.send(cenote.torch.share(torch.ones(4), pool))
        assert conn.recv() == 1
        wait_empty()
        os.kill(process.pid, 19)  # SIGSTOP: it reads nothing more
        conn.send(cenote.torch.share(torch.ones(1 << 10), pool))
        gc.collect()
        assert pool.stats.live_blocks == 1
        kill(process)
        wait_empty()
        wait_back(pool)
        gc.collect()
        assert (pool.stats.live_blocks, pool.stats.deferred_blocks) == (0, 0)


def test_a_module_is_seen_by_all_as_it_learns(pool, registered):
    module = cenote.torch.share_module(torch.nn.Linear(2, 2, bias=False), pool)
    with torch.no_grad():
        module.weight.zero_()
    with peer(describe) as (conn, _):
        conn.send(module.weight)
        assert conn.recv()[-1] == [[0, 0], [0, 0]]
        with torch.no_grad():
            module.weight.add_(1)
        conn.send(module.weight)
        assert conn.recv()[-1] == [[2, 2], [2, 2]]  # its own addition, and ours


def test_the_example():
    """A trainer, two workers, one of which is killed."""
    example = Path(__file__).parents[2] / "examples" / "python" / "weights.py"
    done = subprocess.run([sys.executable, example], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S * 2,
                          check=True)
    assert done.stdout == "19 answers of 20; blocks in use: 0, held for others: 0\n"
