# SPDX-License-Identifier: MIT
"""That scripts/nodes_bench.py measures what it should; how long something takes is not tested.

Usage: nodes_bench_test.py BUILD. CENOTE_TEST_TRANSPORT=ucx: over UCX.
"""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/harness"))
from tap import Skip, by_name, run_tests  # pylint: disable=wrong-import-position

BUILD, TRANSPORT = Path(sys.argv[1]), os.environ.get("CENOTE_TEST_TRANSPORT", "tls")


def the_benchmark_measures_and_the_exporter_sleeps():
    """Not how long it takes: that all figures are there, and that the exporting program has not run."""
    command = [ROOT / "scripts/nodes_bench.py", BUILD, "--transport", TRANSPORT, "--quick", "--rounds", "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
    if done.returncode and done.stdout.startswith("nodes.sh:"):
        raise Skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout
    rows = [line.split("|")[2].split() for line in done.stdout.splitlines() if line.startswith("| ")]
    assert sum(row[-1] in ("GB/s", "µs") for row in rows) == 20, done.stdout
    assert "hop between a program and its daemon" in done.stdout


sys.exit(not run_tests(by_name(the_benchmark_measures_and_the_exporter_sleeps)))
