# SPDX-License-Identifier: MIT
"""Memory between nodes over a link that is slow, stalls, or works one way only: scripts/nodes_wire.py is the link.

Usage: nodes_wire_test.py BUILD. CENOTE_TEST_TRANSPORT=ucx: over UCX.
"""
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/harness"), str(ROOT / "scripts")]
from nodes_domain import Nodes, NoNodes  # pylint: disable=wrong-import-position
from nodes_soak import LOST_S_MAX, await_all_up, finish, start_pairs  # pylint: disable=wrong-import-position
from tap import Skip, by_name, run_tests  # pylint: disable=wrong-import-position

BUILD, TRANSPORT = Path(sys.argv[1]), os.environ.get("CENOTE_TEST_TRANSPORT", "tls")
PLACES = [(1, 2), (2, 1)]
SLOW_RATE, SLOW_MS, TURNS, LIMIT_S = 1000000, 50, 6, 100
QUEUE = 200000  # bytes that the wire holds; it drops what is more
SLOWER_RATE, COPIERS, ANSWER_S = 300000, 8, 20


def with_wire(test, *options):
    """Two nodes and a wire between them."""
    try:
        with Nodes(BUILD, 2, TRANSPORT) as nodes:
            wire = nodes.wire(2, *options)
            said = test(nodes, wire)
            assert wire.end() == 0
            return said
    except NoNodes as why:
        raise Skip(str(why)) from None


def tell(wire, *words):
    """Change the wire."""
    wire.tell(*words)
    wire.expect("done")


def carried_by(wire):
    """The bytes that it has carried, each way."""
    wire.tell("count")
    words = wire.next().split()
    return int(words[1]), int(words[4])


def copy_slowly(nodes, wire):
    """Hand over in turns, both ways."""
    marks = nodes.marks()
    pairs = start_pairs(nodes, PLACES, 1)
    begin_s = time.monotonic()
    for pair in pairs:
        pair.serve(TURNS)
    for pair in pairs:
        assert pair.await_end(LIMIT_S) == TURNS
    took_s = time.monotonic() - begin_s
    assert took_s > TURNS * 2 * SLOW_MS / 1000, f"{took_s} s: the wire is not slow"
    assert not any("gone" in line for node in nodes.logs for line in nodes.logs[node].lines[marks[node]:])
    carried = carried_by(wire)
    assert min(carried) > 1 << 16, carried
    for pair in pairs:
        pair.end()
    return f"{2 * TURNS} turns in {took_s:.1f} s, {carried} bytes"


def a_slow_link_is_not_a_dead_one():
    """1 MB/s, and 50 ms each way: copies end right, and nobody counts as gone."""
    return with_wire(copy_slowly, "--rate", SLOW_RATE, "--delay-ms", SLOW_MS, "--queue", QUEUE)


def copy_in_a_queue(nodes, _wire):
    """Several programs at once: the last of them waits for its first bytes longer than a program waits for an answer."""
    exporter = nodes.run(1, "examples/two_hosts")
    digits, begin_s = exporter.next(), time.monotonic()
    copiers = [nodes.run(2, "tests/nodes_subject", digits) for _ in range(COPIERS)]
    for copier in copiers:
        line = copier.next(LIMIT_S)
        assert line == "copied", line
    took_s = time.monotonic() - begin_s
    assert took_s > ANSWER_S, f"{took_s} s: nobody had to wait"
    return f"{COPIERS} copies of 1 MiB in {took_s:.1f} s"


def a_late_answer_is_no_failure_while_the_daemons_live():
    """It was one: a program gave up after 20 seconds, and its stream failed."""
    if TRANSPORT != "tls" and "CENOTE_SOAK_SECONDS" not in os.environ:
        raise Skip("takes 30 seconds, and a program waits the same over TLS; a soak runs it")
    return with_wire(copy_in_a_queue, "--rate", SLOWER_RATE)


def stall_and_go(nodes, wire, *words):
    """The link stalls: both nodes notice, and what was asked fails. It moves: all works."""
    pairs = start_pairs(nodes, PLACES, 1)
    for pair in pairs:
        pair.serve()
        pair.await_progress()
    for pair in pairs:
        pair.mark()
    marks, since_s = nodes.marks(), time.monotonic()
    tell(wire, "stall", *words)
    longest_s = max(pair.await_lost(since_s) for pair in pairs)
    for pair in pairs:
        pair.abandon(pair.importer_node, marks[pair.exporter_node])
    assert longest_s < LOST_S_MAX
    tell(wire, "go")
    await_all_up(nodes, 2, marks)
    for pair in pairs:
        pair.serve()
        pair.await_progress()
    finish(pairs)
    return f"noticed within {longest_s:.1f} s"


def a_stalled_link_is_gone_until_it_moves():
    """Nothing is closed; nothing comes."""
    return with_wire(stall_and_go)


def a_link_that_works_one_way_is_gone():
    """What node 2 sends is lost; it still hears node 1."""
    return with_wire(lambda nodes, wire: stall_and_go(nodes, wire, "left"))


sys.exit(not run_tests(by_name(a_slow_link_is_not_a_dead_one, a_late_answer_is_no_failure_while_the_daemons_live,
                               a_stalled_link_is_gone_until_it_moves, a_link_that_works_one_way_is_gone)))
