# SPDX-License-Identifier: MIT
"""Memory between nodes that are namespaces with links: across a link, over one that is cut, and after it was mended.

Usage: nodes_link_test.py BUILD. CENOTE_TEST_TRANSPORT=ucx: over UCX.
"""
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/harness"), str(ROOT / "scripts")]
from nodes_domain import Nodes, NoNodes  # pylint: disable=wrong-import-position
from tap import Skip, by_name, run_tests  # pylint: disable=wrong-import-position

BUILD, TRANSPORT = Path(sys.argv[1]), os.environ.get("CENOTE_TEST_TRANSPORT", "tls")


def use_cut_and_mend(nodes):
    """See the test."""
    exporter = nodes.run(1, "examples/two_hosts")
    digits = exporter.next()
    assert len(digits) == 128, digits
    first = nodes.run(2, "tests/nodes_subject", digits)
    first.find("copied")
    marks = nodes.marks()
    nodes.act("cut", 2)
    assert first.find("failed") == "failed: CUDA_ERROR_EXTERNAL_DEVICE"
    assert first.end() == 0
    nodes.logs[1].find("node 2 is gone", marks[1])
    third = nodes.run(3, "tests/nodes_subject", digits)  # another link is not touched
    third.find("copied")
    lost = nodes.run(2, "examples/two_hosts", digits)
    lost.find("node 1, which is not connected")
    marks = nodes.marks()
    nodes.act("mend", 2)
    nodes.logs[2].find("node 1 is up", marks[2])
    last = nodes.run(2, "examples/two_hosts", digits)
    last.find("the importer reads: greetings from the exporter")
    exporter.find("the exporter reads: thanks from the importer")
    assert last.end() == 0 and exporter.end() == 0


def a_link_is_used_cut_and_mended():
    """An importer on another node fails when the link is cut; another one succeeds when it is mended."""
    try:
        with Nodes(BUILD, 3, TRANSPORT) as nodes:
            use_cut_and_mend(nodes)
    except NoNodes as why:
        raise Skip(str(why)) from None


sys.exit(not run_tests(by_name(a_link_is_used_cut_and_mended)))
