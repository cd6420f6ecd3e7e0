# SPDX-License-Identifier: MIT
"""
Short forms of scripts/nodes_soak.py, in seconds each; with CENOTE_SOAK_SECONDS for as long as it says.

Usage: nodes_soak_test.py BUILD. CENOTE_TEST_TRANSPORT=ucx: over UCX.
"""
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/harness"), str(ROOT / "scripts")]
import nodes_soak  # pylint: disable=wrong-import-position
from nodes_domain import Nodes, NoNodes  # pylint: disable=wrong-import-position
from tap import Skip, by_name, run_tests  # pylint: disable=wrong-import-position

BUILD, TRANSPORT = Path(sys.argv[1]), os.environ.get("CENOTE_TEST_TRANSPORT", "tls")
SOAK_S = int(os.environ.get("CENOTE_SOAK_SECONDS", 0))


def soak(function, count, amount, **more):
    """Run a soak on so many nodes."""
    try:
        with Nodes(BUILD, count, TRANSPORT) as nodes:
            return function(nodes, amount, seed=int(os.environ.get("CENOTE_TEST_SEED", 1)), **more)
    except NoNodes as why:
        raise Skip(str(why)) from None


def every_byte_is_handed_over():
    """Between four nodes, in blocks and memory."""
    return soak(nodes_soak.soak_hand_overs, 4, 1200, seconds=SOAK_S)


def a_killed_node_harms_no_other_and_comes_back():
    """One of three, with its daemon and all its programs."""
    return soak(nodes_soak.soak_kills, 3, 3, seconds=SOAK_S)


def a_short_cut_harms_nobody_and_a_long_one_is_noticed():
    """Of one link of three."""
    return soak(nodes_soak.soak_cuts, 3, 2, seconds=SOAK_S)


def strangers_and_changed_handles_get_nothing():
    """While others hand over."""
    return soak(nodes_soak.soak_strangers, 3, SOAK_S or 2)


sys.exit(not run_tests(by_name(every_byte_is_handed_over, a_killed_node_harms_no_other_and_comes_back,
                               a_short_cut_harms_nobody_and_a_long_one_is_noticed,
                               strangers_and_changed_handles_get_nothing)))
