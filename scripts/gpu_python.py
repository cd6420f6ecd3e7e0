#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The Python package on a GPU, with PyTorch, CuPy, JAX and cuda.core.

    gpu_python.py [--json FILE] [--rounds N] [exchange] [handover] [price] [kill]

exchange: one block, in two processes and four libraries, without a copy and in stream order. The first process writes it
with PyTorch behind a long kernel and sends it at once; the second looks at it with all four, writes it with CuPy and sends
an event back. Each library must see the same address, and the numbers of after the write.

handover: time to hand 64 MiB to another process over a Connection, beside torch.multiprocessing: from send() until the
other's answer is here. Both once the memory is known; the table has medians.

price: nanoseconds for Pool.allocate() and Block.free(), beside CuPy's pool and PyTorch's caching allocator.

kill: hand-overs to consumers that are killed at random; the pool must be empty in the end.

Needs a GPU, PyTorch, and the package (PYTHONPATH, or installed). What is not installed is left out, and said.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time
import traceback
from pathlib import Path

NUMBERS = 1 << 20
BYTES_64_MIB = 64 << 20
WAIT_S = 120
SLEEP_CYCLES = 400_000_000  # some tenths of a second
SPAWN = multiprocessing.get_context("spawn")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def has(name):
    """Is a library installed?"""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


# ---- The four libraries: each gives an address and a sum ----


def with_torch(view):
    """PyTorch's, by DLPack."""
    import torch
    tensor = torch.from_dlpack(view)
    return tensor.data_ptr(), float(tensor.sum())


def with_cupy(view):
    """CuPy's, by DLPack and by __cuda_array_interface__."""
    import cupy
    array, other = cupy.from_dlpack(view), cupy.asarray(view)
    if other.data.ptr != array.data.ptr:
        raise AssertionError("the two protocols gave two addresses")
    return array.data.ptr, float(array.sum())


def with_jax(view):
    """JAX's, by DLPack."""
    import jax
    array = jax.dlpack.from_dlpack(view)
    return array.unsafe_buffer_pointer(), float(array.sum())


def with_cuda_core(view):
    """cuda.core's StridedMemoryView, and a copy through its own stream."""
    try:
        from cuda.core.utils import StridedMemoryView
        from cuda.core import Device
    except ImportError:
        from cuda.core.experimental.utils import StridedMemoryView
        from cuda.core.experimental import Device
    import numpy
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    memory = StridedMemoryView(view, stream_ptr=int(stream.handle))
    stream.sync()
    from cuda.bindings import driver
    numbers = numpy.empty(memory.shape, dtype=numpy.float32)
    result, = driver.cuMemcpyDtoH(numbers.ctypes.data, memory.ptr, numbers.nbytes)
    if int(result):
        raise RuntimeError(f"cuMemcpyDtoH: {result}")
    return memory.ptr, float(numbers.sum(dtype=numpy.float64))


LIBRARIES = {"torch": with_torch, "cupy": with_cupy, "jax": with_jax, "cuda.core": with_cuda_core}


def look(view, expected):
    """What each library sees: "same memory", or what is wrong."""
    seen = {}
    for name, function in LIBRARIES.items():
        if not has(name):
            seen[name] = "not installed"
            continue
        try:
            address, total = function(view)
            right = address == view.ptr and total == expected
            seen[name] = "same memory" if right else f"address {address:#x}, not {view.ptr:#x}; sum {total}"
        except Exception:  # the others are asked, too
            seen[name] = traceback.format_exc()
    return seen


def exchange_child(conn):
    """Looks, writes with CuPy (or PyTorch), and sends back the event of its write."""
    import cenote
    view = conn.recv()
    seen = look(view, 3.0 * NUMBERS)
    event = cenote.Event()
    stream = cenote.Stream()
    stream.wait(view.block)
    if has("cupy"):
        import cupy
        with cupy.cuda.ExternalStream(stream.handle):
            cupy.from_dlpack(view)[:] = 5
    else:
        import torch
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle)):
            torch.from_dlpack(view).fill_(5)
    event.record(stream)
    conn.send((seen, event))
    conn.recv()  # the other has opened the event
    stream.synchronize()


def exchange(_options):
    """Returns what the libraries saw in both processes."""
    import cenote
    import torch
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=exchange_child, args=(theirs,))
    process.start()
    theirs.close()
    pool = cenote.Pool()
    side = torch.cuda.Stream()
    block = pool.allocate(4 * NUMBERS, side.cuda_stream)
    view = block.view(NUMBERS, "float32")
    with torch.cuda.stream(side):
        tensor = torch.from_dlpack(view)
        tensor.fill_(1)
        torch.cuda._sleep(SLEEP_CYCLES)
        tensor.fill_(3)
        ours.send(view)
        sent_before_it_was_written = not side.query()
    if not ours.poll(WAIT_S):
        raise TimeoutError("the other process does not answer")
    there, event = ours.recv()
    ours.send("have it")
    block.stream.wait(event)
    here = look(view, 5.0 * NUMBERS)
    process.join(WAIT_S)
    return {"there": there, "here": here, "sent before it was written": sent_before_it_was_written,
            "exit status": process.exitcode}


# ---- The time of a hand-over ----


def take(conn, make):
    """Takes what comes, and answers with a byte."""
    import torch
    torch.zeros(1, device="cuda")
    if make == "cenote":
        import cenote
        cenote.devices()
    conn.send("ready")
    while True:
        thing = conn.recv()
        if thing is None:
            return
        conn.send_bytes(b"!")
        del thing


def hand_over(make, rounds):
    """Seconds of each hand-over."""
    import torch
    context = SPAWN
    if make == "torch":
        import torch.multiprocessing
        context = torch.multiprocessing.get_context("spawn")
        things = [torch.empty(BYTES_64_MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
    else:
        import cenote
        pool = cenote.Pool()
        things = [pool.allocate(BYTES_64_MIB) for _ in range(4)]
    ours, theirs = context.Pipe()
    process = context.Process(target=take, args=(theirs, make))
    process.start()
    theirs.close()
    if ours.recv() != "ready":
        raise RuntimeError("the other process is not ready")
    times = []
    for number in range(rounds + 20):
        begin = time.perf_counter()
        ours.send(things[number % len(things)])
        ours.recv_bytes()
        times.append(time.perf_counter() - begin)
    ours.send(None)
    process.join(WAIT_S)
    return times[20:]


def handover(options):
    """Medians in microseconds."""
    medians = {}
    for make in ("cenote", "torch", "cenote", "torch"):
        medians.setdefault(make, []).append(statistics.median(hand_over(make, options.rounds)) * 1e6)
    best = {make: min(values) for make, values in medians.items()}
    return {"microseconds": medians, "times faster": best["torch"] / best["cenote"]}


# ---- The price of an allocation ----


def nanoseconds(function, often=100_000):
    """The best of some rounds: what is left when nothing else runs."""
    best = float("inf")
    for _ in range(7):
        begin = time.perf_counter_ns()
        for _ in range(often):
            function()
        best = min(best, (time.perf_counter_ns() - begin) / often)
    return best


def price(_options):
    """Nanoseconds a pair, each with a call that does nothing beside it."""
    import cenote
    import torch
    pool, stream = cenote.Pool(), cenote.Stream()
    allocate = pool.allocate
    keep = pool.allocate(1 << 20, stream)
    torch.zeros(1, device="cuda")
    found = {
        "a call that does nothing": nanoseconds(lambda: None),
        "cenote: pool.allocate(4096, stream).free()": nanoseconds(lambda: allocate(4096, stream).free()),
        "cenote: pool.allocate(4096), freed with the object": nanoseconds(lambda: allocate(4096)),
        "torch.empty(4096, uint8), dropped": nanoseconds(lambda: torch.empty(4096, dtype=torch.uint8, device="cuda")),
    }
    take_one, give_back = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
    found["torch.cuda.caching_allocator_alloc and _delete"] = nanoseconds(lambda: give_back(take_one(4096)), 20_000)
    if has("cupy"):
        import cupy
        alloc = cupy.cuda.alloc
        found["cupy.cuda.alloc(4096), dropped"] = nanoseconds(lambda: alloc(4096))
        found["cupy.empty(4096, uint8), dropped"] = nanoseconds(lambda: cupy.empty(4096, dtype="uint8"))
    keep.free()
    return found


# ---- Consumers that are killed ----


def consume(conn):
    """Keeps what it gets until there is a next."""
    while True:
        thing = conn.recv()
        conn.send_bytes(b"!")
        del thing


def kill(options):
    """Returns how many hand-overs and consumers there were, and what is left in the pool."""
    import cenote
    pool = cenote.Pool()
    generator = random.Random(1)
    done = consumers = 0
    while done < options.rounds:
        ours, theirs = SPAWN.Pipe()
        process = SPAWN.Process(target=consume, args=(theirs,))
        process.start()
        theirs.close()
        consumers += 1
        last = done + generator.randrange(20, 80)
        try:
            while True:
                block = pool.allocate(BYTES_64_MIB)
                ours.send(block)
                del block
                done += 1
                if done >= last:
                    os.kill(process.pid, signal.SIGKILL)
                    last = 1 << 60
                ours.recv_bytes()
        except (EOFError, OSError):
            pass
        ours.close()
        process.join(WAIT_S)
    end = time.monotonic() + 30
    while time.monotonic() < end and (pool.stats.used_bytes or cenote.in_flight()):
        time.sleep(0.01)
    stats = pool.stats
    return {"hand-overs": done, "killed consumers": consumers, "blocks left": stats.live_blocks,
            "bytes left": stats.used_bytes, "most bytes at a time": stats.used_high_bytes}


PARTS = {"exchange": exchange, "handover": handover, "price": price, "kill": kill}


def main():
    """The parts one after the other: a failure does not keep the next from running."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    options = parser.parse_args()
    results, failed = {}, False
    for name in options.parts or PARTS:
        begin = time.monotonic()
        try:
            results[name] = PARTS[name](options)
        except Exception:  # written down
            results[name] = {"failed": traceback.format_exc()}
            failed = True
        results[name]["seconds"] = round(time.monotonic() - begin, 1)
        print(name, json.dumps(results[name], indent=2), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=2))
    return failed


if __name__ == "__main__":
    sys.exit(main())
