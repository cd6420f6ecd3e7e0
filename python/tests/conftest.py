# SPDX-License-Identifier: MIT
"""
What the tests have in common. A test that asks for a pool must leave no block of it.

The device is the host's, unless CENOTE_DEVICE says otherwise.
"""

import gc
import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("CENOTE_DEVICE", "host")
sys.path.insert(0, str(Path(__file__).parent))

import cenote  # noqa: E402 (the device is chosen first)
from cenote import _cenote, _share  # noqa: E402


def record_of(thing, *arguments, **words):
    """What travels for an object."""
    return _share.describe(thing, _cenote.hold(thing), *arguments, **words)


@pytest.fixture(scope="session", autouse=True)
def library():
    """Initialized before anything is counted."""
    cenote.devices()[0].synchronize()


@pytest.fixture
def check_leaks():
    """
    A function that checks another one: done often, it leaves no memory of Python's and no descriptor. Caches fill at
    first, and now and then again; so the best of some rounds counts.
    """
    def held():
        gc.collect()
        return sys.getallocatedblocks(), len(os.listdir("/proc/self/fd"))

    def check(often, count=300, rounds=4):
        often(count)
        grown = []
        for _ in range(rounds):
            before = held()
            often(count)
            grown.append([after - was for after, was in zip(held(), before)])
        assert min(blocks for blocks, _ in grown) < count / 4, "references are lost"
        assert min(descriptors for _, descriptors in grown) <= 0, "descriptors are left open"

    return check


@pytest.fixture
def pool():
    """A pool of which no block may be left."""
    with cenote.Pool() as made:
        yield made
        gc.collect()
        assert _share.keeper.wait_empty(30), "something is still on its way"
        assert made.stats.live_blocks == 0


@pytest.fixture
def closed():
    """A pool that cannot be shared."""
    with cenote.Pool(shareable=False) as made:
        yield made
