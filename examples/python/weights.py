#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A trainer hands its weights to a worker after each step. A worker is killed in the middle; nothing stays behind.

    python3 weights.py           with PyTorch, on a GPU or without one

The weights are copied once, into memory that processes can share, and sent as a name: the worker's tensors are the same
memory. The trainer lets go of them at once. They stay as long as the worker holds them, and go back to the pool when it
has let go of them, or has died.
"""

import gc
import select
import signal
import sys

import torch
import torch.multiprocessing as mp

import cenote
import cenote.torch

STEPS, KILLED_AT = 20, 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def work(connection):
    """The worker: an answer of the newest model for each that it gets."""
    inputs = torch.ones(1, 8, device=DEVICE)
    while True:
        try:
            step, weights = connection.recv()
        except EOFError:
            return
        connection.send((step, torch.nn.functional.linear(inputs, weights["weight"], weights["bias"]).sum().item()))


def start_worker(context):
    """A worker, and the connection to it."""
    ours, theirs = context.Pipe()
    worker = context.Process(target=work, args=(theirs,))
    worker.start()
    theirs.close()
    return worker, ours


def wait_until_nothing_is_held(pool):
    """A death is told by the pool's descriptor."""
    with pool.watch() as watch:
        while pool.stats.importers:
            select.select([watch], [], [])
            watch.read()


def main():
    """Twenty steps, two workers."""
    cenote.torch.register()
    context = mp.get_context("spawn")
    pool = cenote.torch.default_pool(DEVICE)
    model = torch.nn.Linear(8, 8, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    worker, connection = start_worker(context)
    answers = 0
    for step in range(STEPS):
        model(torch.ones(1, 8, device=DEVICE)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        weights = {name: cenote.torch.share(each.detach()) for name, each in model.named_parameters()}
        connection.send((step, weights))
        del weights
        if step == KILLED_AT:
            worker.kill()
            worker.join()
            assert worker.exitcode == -signal.SIGKILL
            worker, connection = start_worker(context)
            continue
        assert connection.recv()[0] == step
        answers += 1
    connection.close()
    worker.join()
    gc.collect()
    wait_until_nothing_is_held(pool)
    stats = pool.stats
    print(f"{answers} answers of {STEPS}; blocks in use: {stats.live_blocks}, held for others: {stats.deferred_blocks}")
    return 0 if not stats.live_blocks and not stats.deferred_blocks else 1


if __name__ == "__main__":
    sys.exit(main())
