#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The Python package on a GPU: frameworks that share a block, and what sharing takes beside torch.multiprocessing.

    PYTHONPATH=BUILD/python gpu_python.py [--json FILE] [--hand-overs N] [exchange] [killed] [hand-over] [price]

exchange   A block that PyTorch fills in one process is used by PyTorch, CuPy, JAX and cuda.core in another: the same
           memory, no copy, each in a stream of its own that waits for the one before. Nobody waits for a stream until
           the end; the first kernel is slow, so that a missing wait shows.
killed     N weight hand-overs (1000) of 64 MiB from one process to consumers of which one after the other is killed at
           a random moment: how much memory the sender holds then. Cenote, and torch.multiprocessing.
hand-over  Microseconds for a tensor of 64 MiB over a Connection, start-up left out: from before send() until the
           consumer has it (one way), and until the consumer's answer is here (and back). Cenote and
           torch.multiprocessing in turns: the same tensor again, a new one each time, and a number for comparison.
price      Nanoseconds for memory and back: Pool.allocate() and Block.free(), CuPy's pool, PyTorch's allocator.

Needs PyTorch; without a GPU, all but `exchange` and `price` run with tensors of the processor. A framework that is not
installed is left out, and named.
"""

import argparse
import gc
import importlib.util
import json
import multiprocessing
import os
import random
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the device's memory

NUMBERS = 1 << 20
TENSOR_BYTES = 64 << 20
SLOW_CYCLES = 200_000_000  # about a tenth of a second
KEPT = 2                   # tensors that a consumer holds
CONSUMER_HAND_OVERS = 50   # that a consumer sees, on average, before it is killed
READY_CONSUMERS = 6        # started ahead
ROUNDS, ROUND_HAND_OVERS = 7, 50
PAIRS, PRICE_ROUNDS = 20000, 7
PRICE_BYTES = (4 << 10, 1 << 20, 64 << 20)


def device_of(torch):
    """What PyTorch has."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def settle(torch):
    """Wait for the device, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


# ---- exchange ----


def use_torch(block):
    """PyTorch adds one, in a stream of its own. Returns the address that it sees."""
    import torch
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        numbers = torch.from_dlpack(block.view(NUMBERS, "float32"))
        numbers += 1
    block.join(stream)
    return numbers.data_ptr()


def use_cupy(block):
    """CuPy adds one."""
    import cupy
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        numbers = cupy.from_dlpack(block.view(NUMBERS, "float32"))
        numbers += 1
    block.join(stream)
    return numbers.data.ptr


def use_jax(block):
    """JAX, whose arrays do not change, reads: both additions are there."""
    import jax.numpy
    numbers = jax.numpy.from_dlpack(block.view(NUMBERS, "float32"))
    wrong = int((numbers != jax.numpy.arange(NUMBERS, dtype="float32") + 2).sum())
    if wrong:
        raise AssertionError(f"JAX reads {wrong} wrong numbers")
    return numbers.unsafe_buffer_pointer()


def use_cuda_core(block):
    """cuda.core copies the block in a stream of its own, and the copy is right."""
    import torch
    from cuda.core import Buffer, Device
    from cuda.core.utils import StridedMemoryView
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    view = StridedMemoryView.from_any_interface(block.view(NUMBERS, "float32"), stream_ptr=int(stream.handle))
    copy = device.allocate(block.nbytes, stream=stream)
    Buffer.from_handle(view.ptr, block.nbytes).copy_to(copy, stream=stream)
    block.join(stream)
    stream.sync()
    numbers = torch.from_dlpack(copy).view(torch.float32)
    if not torch.equal(numbers, torch.arange(NUMBERS, dtype=torch.float32, device="cuda") + 2):
        raise AssertionError("cuda.core's copy is wrong")
    return view.ptr


USERS = {"torch": use_torch, "cupy": use_cupy, "jax": use_jax, "cuda.core": use_cuda_core}


def exchange_consumer(connection, names):
    """The other process: each framework in turn, then an event for the way back."""
    import cenote
    for name in names:  # start-up first: it synchronises
        __import__({"cuda.core": "cuda.core", "jax": "jax.numpy"}.get(name, name))
    if "jax" in names:
        import jax.numpy
        jax.numpy.zeros(1).block_until_ready()
    connection.send("ready")
    block = connection.recv()
    facts = {"address": block.ptr, "filled on arrival": block.stream.done, "addresses": {}}
    for name in names:
        facts["addresses"][name] = USERS[name](block)
    event = cenote.Event()
    event.record(block.stream)
    connection.send((facts, event))
    connection.recv()


def is_installed(name):
    """Whether a framework is here."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def part_exchange(_options):
    """One block, two processes, four frameworks."""
    import cenote
    import cenote.torch
    import torch
    names = [name for name in USERS if is_installed(name)]
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    consumer = multiprocessing.get_context("spawn").Process(target=exchange_consumer, args=(theirs, names))
    consumer.start()
    theirs.close()
    with cenote.Pool() as pool:
        stream = torch.cuda.Stream()
        block = pool.allocate(NUMBERS * 4, stream)
        ours.recv()
        with torch.cuda.stream(stream):
            numbers = cenote.torch.tensor(block, NUMBERS, torch.float32)
            wanted = torch.arange(NUMBERS, dtype=torch.float32, device="cuda")
            numbers.copy_(wanted * 0)
            torch.cuda._sleep(1)  # a kernel's first launch takes long
            stream.synchronize()
            torch.cuda._sleep(SLOW_CYCLES)
            numbers.copy_(wanted)
            ours.send(block)
            facts, event = ours.recv()
            cenote.Stream(stream).wait(event)
            added = len({"torch", "cupy"} & set(names))
            wrong = int((numbers != wanted + added).sum())
        ours.send("done")
        consumer.join()
        del numbers, block
        gc.collect()
        left = pool.stats.live_blocks
    facts["the same address in all"] = set(facts["addresses"].values()) == {facts["address"]}
    facts |= {"wrong numbers": wrong, "blocks left": left, "consumer's status": consumer.exitcode,
              "left out": [name for name in USERS if name not in names]}
    good = facts["the same address in all"] and not wrong and not left and not consumer.exitcode
    return facts, good and not facts["filled on arrival"]


# ---- killed ----


def consume(connection, device):
    """A consumer: holds the latest tensors, looks at each, and answers."""
    import torch
    kept = [torch.zeros(1, device=device)]
    connection.send_bytes(b"ready")
    while True:
        try:
            tensor = connection.recv()
        except (EOFError, ConnectionResetError):
            return
        kept = [*kept[-KEPT + 1:], tensor]
        kept[0][0].item()
        connection.send_bytes(b"have")
        del tensor


class Consumers:
    """Processes that are started before they are needed. They come from a server that has PyTorch imported already."""

    def __init__(self, device):
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["torch", "cenote.torch"])
        self.device = device
        self.waiting = []

    def next(self):
        """The next one, and a connection to it."""
        while len(self.waiting) <= READY_CONSUMERS:
            ours, theirs = self.context.Pipe()
            process = self.context.Process(target=consume, args=(theirs, self.device), daemon=True)
            process.start()
            theirs.close()
            self.waiting.append((process, ours))
        process, connection = self.waiting.pop(0)
        connection.recv_bytes()
        return process, connection

    def end(self):
        """All that were not needed."""
        for process, connection in self.waiting:
            connection.close()
            process.join()


class Cenote:
    """Tensors over Cenote."""

    name = "cenote.torch"

    def __init__(self, torch):
        import cenote.torch
        self.torch, self.package, self.device = torch, cenote.torch, device_of(torch)
        cenote.torch.register()

    def make(self):
        """New weights."""
        return self.package.empty(TENSOR_BYTES // 4, device=self.device)

    def held(self):
        """Bytes that the sender has in use: what was not freed, and what was and has not come back."""
        stats = self.package.default_pool(self.device).stats
        return stats.used_bytes + stats.deferred_bytes

    def end(self):
        """PyTorch's own way again."""
        self.package.unregister()


class Torch:
    """Tensors over torch.multiprocessing."""

    name = "torch.multiprocessing"

    def __init__(self, torch):
        self.torch, self.device = torch, device_of(torch)

    def make(self):
        """New weights."""
        made = self.torch.empty(TENSOR_BYTES // 4, device=self.device)
        return made if self.device == "cuda" else made.share_memory_()

    def held(self):
        """The same, after PyTorch has been asked to look for what came back."""
        if self.device == "cpu":
            return 0  # files, which the system counts
        self.torch.cuda.ipc_collect()
        return self.torch.cuda.memory_allocated()

    def end(self):
        """Nothing."""


def hand_over_and_kill(way, consumers, count, seed):
    """What the sender holds after each consumer's death, in MiB."""
    draw = random.Random(seed)
    held, done, kills = [], 0, 0
    process, connection = consumers.next()
    while done < count:
        weights = way.make()
        weights.fill_(done)
        last = draw.random() < 1 / CONSUMER_HAND_OVERS or done == count - 1
        try:
            connection.send(weights)
            if not last or draw.random() < 0.5:
                connection.recv_bytes()
        finally:
            del weights
        done += 1
        if last:
            process.kill()
            process.join()
            connection.close()
            kills += 1
            gc.collect()
            held.append(settled(way))
            if done < count:
                process, connection = consumers.next()
    return {"hand-overs": done, "kills": kills, "seed": seed, "held after each kill (MiB)": held}


def settled(way):
    """What the sender holds now: the lowest of several looks, because a death is noticed a moment later."""
    lowest = way.held()
    end = time.monotonic() + 0.3
    while lowest and time.monotonic() < end:
        time.sleep(0.01)
        lowest = min(lowest, way.held())
    return round(lowest / (1 << 20))


def part_killed(options):
    """N hand-overs each way."""
    import torch
    import torch.multiprocessing  # noqa: F401 (installs PyTorch's reducers)
    consumers = Consumers(device_of(torch))
    facts = {}
    for kind in (Cenote, Torch):
        way = kind(torch)
        way.make()  # the allocator's and the device's first use
        settle(torch)
        facts[way.name] = hand_over_and_kill(way, consumers, options.hand_overs, options.seed)
        way.end()
    consumers.end()
    return facts, not any(facts[Cenote.name]["held after each kill (MiB)"])


# ---- hand-over ----


def answer(connection, device):
    """A consumer that answers, and lets go of what it had before."""
    import torch
    kept = torch.zeros(1, device=device)
    connection.send_bytes(b"ready")
    while True:
        message = connection.recv()
        if message is None:
            break
        arrived = time.perf_counter_ns()  # all processes of a machine have the same clock
        kept = message
        connection.send_bytes(arrived.to_bytes(8, "little"))
    del kept


def time_hand_overs(connection, count, make):
    """Microseconds, medians: one way, and back. The one before is let go when the next has arrived."""
    one_way, and_back, before = [], [], None
    for _ in range(count):
        message = make()
        start = time.perf_counter_ns()
        connection.send(message)
        arrived = connection.recv_bytes()
        and_back.append((time.perf_counter_ns() - start) / 1000)
        one_way.append((int.from_bytes(arrived, "little") - start) / 1000)
        before = message  # noqa: F841 (kept until now)
    return statistics.median(one_way), statistics.median(and_back)


def part_hand_over(options):
    """Both ways in turns, each with a consumer of its own, over connections of the same kind."""
    import torch
    import torch.multiprocessing  # noqa: F401
    context = multiprocessing.get_context("spawn")
    device, consumers, rows = device_of(torch), [], {}
    for kind in (Cenote, Torch):
        ours, theirs = context.Pipe()
        process = context.Process(target=answer, args=(theirs, device), daemon=True)
        process.start()
        theirs.close()
        ours.recv_bytes()
        consumers.append((kind, ours, process))
    for _ in range(options.rounds + 1):
        for kind, connection, _process in consumers:
            way = kind(torch)
            same = way.make()
            settle(torch)
            for row, make in (("the same tensor", lambda same=same: same), ("a new tensor", way.make),
                              ("a number", lambda: 1)):
                for kind_of_time, microseconds in zip(("one way", "and back"),
                                                      time_hand_overs(connection, ROUND_HAND_OVERS, make)):
                    rows.setdefault(f"{row}, {kind_of_time}", {}).setdefault(way.name, []).append(microseconds)
            way.end()
    for _kind, connection, process in consumers:
        connection.send(None)
        process.join()
    facts = {}
    for row, ways in rows.items():
        # The first round is start-up.
        ways = {name: sorted(round(each, 1) for each in times[1:]) for name, times in ways.items()}
        medians = {name: statistics.median(times) for name, times in ways.items()}
        facts[row] = {"microseconds": medians, "rounds": ways, "times faster": round(medians[Torch.name]
                                                                                   / medians[Cenote.name], 2)}
    return facts, True


# ---- price ----


def cenote_pair(nbytes):
    """Pool.allocate() and Block.free()"""
    import cenote
    allocate = cenote.Pool().allocate

    def pairs(count):
        for _ in range(count):
            allocate(nbytes).free()
    return pairs


def cenote_torch_pair(nbytes):
    """cenote.torch.empty()"""
    import cenote.torch
    import torch

    def pairs(count):
        for _ in range(count):
            cenote.torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    return pairs


def torch_pair(nbytes):
    """torch.empty()"""
    import torch

    def pairs(count):
        for _ in range(count):
            torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    return pairs


def torch_raw_pair(nbytes):
    """PyTorch's allocator without a tensor"""
    import torch
    allocate, free = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
    stream = torch.cuda.current_stream()

    def pairs(count):
        for _ in range(count):
            free(allocate(nbytes, 0, stream))
    return pairs


def cupy_pairs(pool, nbytes):
    """Allocations of a pool's; each block goes back at once."""
    allocate = pool.malloc

    def pairs(count):
        for _ in range(count):
            allocate(nbytes)
    return pairs


def cupy_pair(nbytes):
    """CuPy's MemoryPool.malloc()"""
    import cupy
    return cupy_pairs(cupy.cuda.MemoryPool(), nbytes)


def cupy_async_pair(nbytes):
    """CuPy's MemoryAsyncPool.malloc(), the driver's pool"""
    import cupy
    return cupy_pairs(cupy.cuda.MemoryAsyncPool(), nbytes)


PRICES = {"cenote.Pool": cenote_pair, "cenote.torch.empty": cenote_torch_pair, "torch.empty": torch_pair,
          "torch, without a tensor": torch_raw_pair, "cupy.cuda.MemoryPool": cupy_pair,
          "cupy.cuda.MemoryAsyncPool": cupy_async_pair}


def part_price(_options):
    """All in turns; the first round is start-up."""
    import torch
    facts = {}
    for nbytes in PRICE_BYTES:
        ways = {name: make(nbytes) for name, make in PRICES.items()
                if is_installed("cupy") or not name.startswith("cupy")}
        times = {name: [] for name in ways}
        for _ in range(PRICE_ROUNDS + 1):
            for name, pairs in ways.items():
                settle(torch)
                start = time.perf_counter_ns()
                pairs(PAIRS)
                times[name].append((time.perf_counter_ns() - start) / PAIRS)
                settle(torch)
        medians = {name: round(statistics.median(each[1:])) for name, each in times.items()}
        facts[f"{nbytes} bytes (ns a pair)"] = medians
    return facts, True


# ---- The script ----


PARTS = {"exchange": part_exchange, "killed": part_killed, "hand-over": part_hand_over, "price": part_price}
NEED_GPU = ("exchange", "price")


def main():
    """Each part, whatever became of the one before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--hand-overs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=", ".join(PARTS))
    options = parser.parse_args()
    if not is_installed("torch") or not is_installed("cenote"):
        print("skipped: PyTorch or the package cenote is not here")
        return 0
    import cenote
    import torch
    print(f"cenote {cenote.__version__} on {cenote.devices()[0].name}, PyTorch {torch.__version__}, "
          f"Python {sys.version.split()[0]}")
    results, failed = {}, []
    for name in options.parts or PARTS:
        if name in NEED_GPU and not torch.cuda.is_available():
            print(f"{name}: skipped: PyTorch has no GPU here")
            continue
        try:
            results[name], good = PARTS[name](options)
        except Exception as error:  # the other parts go on
            import traceback
            traceback.print_exc()
            results[name], good = {"error": repr(error)}, False
        print(f"{name}: {'ok' if good else 'FAILED'}\n{json.dumps(results[name], indent=1)}", flush=True)
        if not good:
            failed.append(name)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"failed: {' '.join(failed)}" if failed else "all well")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
