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


@pytest.fixture(scope="session", autouse=True)
def library():
    """Initialized before anything is counted."""
    cenote.devices()[0].synchronize()


@pytest.fixture
def pool():
    """A pool of which no block may be left."""
    with cenote.Pool() as made:
        yield made
        gc.collect()
        assert made.stats.live_blocks == 0


@pytest.fixture
def closed():
    """A pool that cannot be shared."""
    with cenote.Pool(shareable=False) as made:
        yield made
