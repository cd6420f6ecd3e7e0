#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Real programs as benchmarks: how long they take and how much of the GPU's memory they hold, over Cenote's pools, over
the driver's, and with the frameworks' own allocators.

    gpu_programs.py [--cenote COMMAND] [--phases PROGRAM] [--rounds N] [--json FILE] [PROGRAM…]

    torch-step      PyTorch: a step of a small network, many small tensors; microseconds a step
    torch-lengths   PyTorch: a transformer that trains with another batch and length in each step
    torch-queue     torch.multiprocessing: a tensor from one process to another and back; microseconds a tensor
    jax-eager       JAX without compilation: 30 steps, each call a kernel
    cupy-pair       CuPy's MemoryAsyncPool: an array made and freed
    torch-phases    PyTorch's allocators, without tensors: the sizes of bench/phases.c in one stream; microseconds a
                    step
    phases          bench/phases.c: reserved at most, to what is asked for at most

Each program runs in a process for each way, one after the other, N times (2); the table has the best time and the most
memory. What is held is what the device has less of than when the process had made its context. A framework that is not
installed is skipped. torch.multiprocessing shares memory of PyTorch's own allocator alone.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

TIMEOUT_S = 120
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
JAX_ASYNC = {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}
# program: its framework, and the ways: whether under `cenote run`, and the environment
OWN, DRIVER, CENOTE = "own allocator", "driver's pools", "Cenote's pools"
TORCH_WAYS = {OWN: (False, {}), "expandable segments": (False, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
              DRIVER: (False, ASYNC), CENOTE: (True, ASYNC)}
PROGRAMS = {
    "torch-step": ("torch", TORCH_WAYS),
    "torch-lengths": ("torch", TORCH_WAYS),
    "torch-queue": ("torch", {"without Cenote": (False, {}), "under Cenote": (True, {})}),
    "torch-phases": ("torch", TORCH_WAYS),
    "jax-eager": ("jax", {OWN: (False, {}), DRIVER: (False, JAX_ASYNC), CENOTE: (True, JAX_ASYNC)}),
    "cupy-pair": ("cupy", {DRIVER: (False, {}), CENOTE: (True, {})}),
}
# As in bench/phases.c, two rounds of these medians.
MEDIANS = 2 * [1 << 10, 16 << 10, 256 << 10, 2 << 20, 64 << 10, 4 << 10, 1 << 20]
SLOTS, PHASE_STEPS, LIVE_BYTES, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX = 16384, 40000, 4 << 30, 256, 512 << 20
DRAW_START = 88172645463325252
STEPS, LENGTH_STEPS, TENSORS, PAIRS, EAGER_STEPS = 300, 60, 200, 20000, 30


class Device:
    """How much less memory the device has free than at first, by all processes together."""

    def __init__(self):
        self.library, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        for result in (self.library.cuInit(0), self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                       self.library.cuCtxSetCurrent(context)):
            if result:
                sys.exit(f"no GPU: {result}")
        self.first, self.most = self.free(), 0

    def free(self):
        """Bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        if self.library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
            sys.exit("cuMemGetInfo failed")
        return free.value

    def look(self):
        """Remember what is held now, if it is the most so far."""
        self.most = max(self.most, self.first - self.free())


# ---- The programs: each returns microseconds ----


def torch_step(device):
    """Many small tensors."""
    import torch
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    inputs = torch.randn(128, 256, device="cuda")
    for step in range(2 * STEPS):  # the first half warms up
        if step == STEPS:
            torch.cuda.synchronize()
            start = time.perf_counter()
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    taken = time.perf_counter() - start
    device.look()
    return taken * 1e6 / STEPS


def torch_lengths(device):
    """Tensors of many sizes, up to a gigabyte."""
    import torch
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8).cuda()
    head = torch.nn.Linear(1024, 32000).cuda()
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-4)
    random = torch.Generator().manual_seed(2)
    shapes = [(int(torch.randint(1, 17, (), generator=random)), int(torch.randint(16, 769, (), generator=random)))
              for _ in range(LENGTH_STEPS)]
    taken = 0
    for number, shape in enumerate(shapes):
        start = time.perf_counter()
        tokens = torch.randn(*shape, 1024, device="cuda")
        targets = torch.randint(32000, (shape[0] * shape[1],), device="cuda")
        loss = torch.nn.functional.cross_entropy(head(model(tokens)).reshape(-1, 32000), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        taken += time.perf_counter() - start if number >= 5 else 0
        device.look()
    return taken * 1e6 / (LENGTH_STEPS - 5)


def answer_tensors(there, back):
    """The other process: each tensor comes back as a number."""
    for _ in range(TENSORS + 10):
        tensor = there.get()
        back.put(float(tensor[0]))
        del tensor


def torch_queue(device):
    """Tensors to another process."""
    import torch
    import torch.multiprocessing
    context = torch.multiprocessing.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    other = context.Process(target=answer_tensors, args=(there, back))
    other.start()
    for number in range(TENSORS + 10):
        if number == 10:
            start = time.perf_counter()
        tensor = torch.full((1 << 16,), float(number), device="cuda")
        there.put(tensor)
        if back.get() != number:
            sys.exit("the other process has read another number")
    taken = time.perf_counter() - start
    device.look()
    other.join()
    return taken * 1e6 / TENSORS


def draw(state):
    """As bench/draws.h does: the next number is the next state."""
    state ^= state << 13 & (1 << 64) - 1
    state ^= state >> 7
    return state ^ state << 17 & (1 << 64) - 1


def draw_bytes(state, median):
    """As bench/phases.c does."""
    up = (state & 0xff).bit_count()
    size = median << up >> 4
    size += (state >> 8) % (size + 1)
    if (state >> 40) % 1000 == 0:
        size <<= 6
    return min(max(size, BLOCK_BYTES_MIN), BLOCK_BYTES_MAX)


def torch_phases(device):
    """Sizes that shift by phase."""
    import torch
    torch.ones(1, device="cuda")
    device.first = device.free()  # what PyTorch takes to begin with is not the allocator's
    stream = torch.cuda.current_stream()
    blocks, state, live = [None] * SLOTS, DRAW_START, 0

    def empty(slot):
        nonlocal live
        if blocks[slot]:
            torch.cuda.caching_allocator_delete(blocks[slot][0])
            live -= blocks[slot][1]
            blocks[slot] = None

    start = time.perf_counter()
    for median in MEDIANS:
        for _ in range(PHASE_STEPS):
            state = draw(state)
            size = draw_bytes(state, median)
            state = draw(state)
            slot = state % SLOTS
            state = draw(state)  # there the stream, of one
            empty(slot)
            while live + size > LIVE_BYTES:
                state = draw(state)
                empty(state % SLOTS)
            blocks[slot] = (torch.cuda.caching_allocator_alloc(size, 0, stream), size)
            live += size
    taken = time.perf_counter() - start
    torch.cuda.synchronize()
    device.look()
    return taken * 1e6 / (len(MEDIANS) * PHASE_STEPS)


def jax_eager(device):
    """A small network, one kernel after the other."""
    import jax
    numpy = jax.numpy
    keys = jax.random.split(jax.random.key(1), 9)
    weights = [jax.random.normal(key, (256, 256)) / 16 for key in keys[1:]]
    inputs = jax.random.normal(keys[0], (128, 256))
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        values = inputs
        for step in range(EAGER_STEPS):
            values = numpy.tanh(values @ weights[step % len(weights)]) + inputs
        values.block_until_ready()
        best = min(best, time.perf_counter() - start)
        device.look()
    return best * 1e6


def cupy_pair(device):
    """Arrays that come and go."""
    import cupy
    pool = cupy.cuda.MemoryAsyncPool()
    cupy.cuda.set_allocator(pool.malloc)
    for pair in range(2 * PAIRS):
        if pair == PAIRS:
            start = time.perf_counter()
        block = pool.malloc(4096 << pair % 8)
        del block
    taken = time.perf_counter() - start
    device.look()
    return taken * 1e6 / PAIRS


ROLES = {"torch-step": torch_step, "torch-lengths": torch_lengths, "torch-queue": torch_queue, "jax-eager": jax_eager,
         "cupy-pair": cupy_pair, "torch-phases": torch_phases}


# ---- Running them ----


def run_once(options, name, in_front, environment):
    """One process; None: it failed."""
    command = [options.cenote, "run"] * in_front + [sys.executable, __file__, "--role", name]
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **environment}
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S,
                              check=False)
    except subprocess.TimeoutExpired:
        print(f"{name}: no result within {TIMEOUT_S} seconds")
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        print(f"{name}: ended with {done.returncode}")
        return None
    return json.loads(lines[-1])


def measure(options, name):
    """All ways of a program. None: it is not installed; otherwise its rows."""
    framework, ways = PROGRAMS[name]
    if not importlib.util.find_spec(framework):
        print(f"{name}: skipped, {framework} is not installed here")
        return None
    results = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, (in_front, environment) in ways.items():
            results[way].append(run_once(options, name, in_front, environment))
    rows, first = {}, None
    for way, found in results.items():
        if None in found:
            rows[way] = None
            continue
        rows[way] = {"us": min(row["us"] for row in found), "held": max(row["held"] for row in found)}
        first = first or rows[way]
        print(f"{name:14} {way:20} {rows[way]['us']:10.1f} us  x {rows[way]['us'] / first['us']:5.3f}   "
              f"{rows[way]['held'] / 2**20:8.0f} MiB  x {rows[way]['held'] / max(first['held'], 1):5.3f}", flush=True)
    return rows


def phases(options):
    """bench/phases.c over the driver, over Cenote, and on the host device."""
    good = True
    for under, environment in (([], {}), ([options.cenote, "run"], {}),
                               ([options.cenote, "run"], {"CENOTE_DEVICE": "host"})):
        if environment:
            print("on the host device:", flush=True)
        done = subprocess.run([*under, options.phases], env={**os.environ, **environment}, timeout=TIMEOUT_S,
                              check=False)
        good = good and done.returncode == 0
    return good


def main():
    """Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cenote", default="cenote")
    parser.add_argument("--phases", default="bench-phases")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--role", choices=ROLES)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    options = parser.parse_args()
    if options.role:
        device = Device()
        taken = ROLES[options.role](device)
        print(json.dumps({"us": taken, "held": device.most}), flush=True)
        return 0
    names = options.programs or [*PROGRAMS, "phases"]
    for name in names:
        if name not in PROGRAMS and name != "phases":
            parser.error(f"no such program: {name}")
    report, good = {}, True
    for name in names:
        if name == "phases":
            good = phases(options) and good
            continue
        report[name] = measure(options, name)
        good = good and (report[name] is None or None not in report[name].values())
    if options.json:
        Path(options.json).write_text(json.dumps(report) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
