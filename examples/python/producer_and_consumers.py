#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A producer and two consumers, with NumPy, on the host device. Nothing is copied between them.

The producer fills blocks and puts them into a queue, and drops each at once. A consumer adds up what it gets. The
second consumer kills itself in the middle, with a block in its hands: the block comes back to the pool, and the first
consumer takes what is left in the queue.

    PYTHONPATH=build/python examples/python/producer_and_consumers.py
"""

import multiprocessing
import os
import select
import signal
import sys

import cenote
import numpy

BLOCKS, NUMBERS = 20, 1 << 18


def consume(queue, answers, dies_after):
    """Adds up blocks until None comes. (Answers go over a connection: a killed process may leave a queue locked.)"""
    count = 0
    while (view := queue.get()) is not None:
        total = int(numpy.asarray(view).sum())
        count += 1
        if count == dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        answers.send(total)


def received(connection):
    """All answers of a consumer, until it ends."""
    totals = []
    try:
        while True:
            totals.append(connection.recv())
    except EOFError:
        return totals


def main():
    """Returns the exit status."""
    context = multiprocessing.get_context("spawn")
    pool = cenote.Pool()
    queues, answers, consumers = [], [], []
    for dies_after in (0, 3):
        ours, theirs = context.Pipe(duplex=False)
        queues.append(context.Queue())
        answers.append(ours)
        consumers.append(context.Process(target=consume, args=(queues[-1], theirs, dies_after)))
        consumers[-1].start()
        theirs.close()
    for number in range(BLOCKS):
        view = pool.allocate(NUMBERS * 8).view(NUMBERS, "int64")
        numpy.asarray(view)[:] = number
        queues[0 if number >= 6 else number % 2].put(view)  # the second gets 1, 3 and 5
        del view  # the queue keeps it until it has arrived
    totals = received(answers[1])
    consumers[1].join()
    print(f"the second consumer was killed by signal {-consumers[1].exitcode}")
    queues[0].put(None)
    totals += received(answers[0])
    consumers[0].join()
    expected = sum(range(BLOCKS)) - 5
    print(f"the sums of the others are {'right' if sum(totals) == expected * NUMBERS else 'WRONG'}")
    with pool.watch() as watch:
        while pool.importers():  # a killed process is told when it is really gone
            select.select([watch], [], [])
            watch.read()
    print(f"blocks that are left: {pool.stats.live_blocks}, freed and still held: {pool.stats.deferred_blocks}")
    if pool.stats.live_blocks or sum(totals) != expected * NUMBERS:
        return 1
    print("done: one producer, two consumers, no copies")
    return 0


if __name__ == "__main__":
    sys.exit(main())
