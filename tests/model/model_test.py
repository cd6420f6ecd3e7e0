#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP): the protocols between processes, and between threads, as models that spin checks through all states.

    model_test.py C_COMPILER...

Each model (*.pml) is checked within bounds, for its assertions (safety) and for its formula (liveness, under weak
fairness). Then each mistake that it names ("wrong N") is made, and must be found: it shows that the model can fail. In
soak mode (CENOTE_SOAK_SECONDS is set) the bounds are larger, and the mistakes are left out.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import Skip, run_tests  # pylint: disable=wrong-import-position

HERE = Path(__file__).resolve().parent
KINDS = {
    # spin's definitions, the compiler's, the checker's arguments, what a violation is called
    "safety": ([], ["-DSAFETY"], ["-E"], "assertion violated"),
    "liveness": (["-DLIVENESS"], ["-DNFAIR=4"], ["-E", "-a", "-f"], "acceptance cycle"),
}
DEPTH_MAX = 100000
MEMORY_MAX_MIB = 6000

# A model, what is fixed when its checker is compiled, its bounds, and which promises are looked at.
Setup = namedtuple("Setup", "model fixed bounds kinds", defaults=[("liveness", "safety")])
SETUPS = [
    Setup("hold", "", "LIVES=2 IMPORTS=2 TROUBLES=1"),
    Setup("parts", "", "LIVES=2 IMPORTS=2 TRIMS=1 TROUBLES=1"),
    Setup("event", "", "RECORDS_OF_0=1 RECORDS_OF_1=1 AT_ONCE=1 CUTS=0 WAITS=1 LIES=0 TROUBLES=1"),
    Setup("event", "", "RECORDS_OF_0=2 RECORDS_OF_1=1 AT_ONCE=0 CUTS=0 WAITS=1 LIES=0 TROUBLES=0"),
    Setup("event", "", "RECORDS_OF_0=0 RECORDS_OF_1=1 AT_ONCE=0 CUTS=1 WAITS=1 LIES=0 TROUBLES=2"),
    Setup("event", "", "RECORDS_OF_0=1 RECORDS_OF_1=1 AT_ONCE=0 CUTS=0 WAITS=1 LIES=2 TROUBLES=0"),
    Setup("account", "", "TAKES=1 TAKES_OF_MAKER=0 TROUBLES=1", ("safety",)),
    Setup("account", "", "TAKES=1 TAKES_OF_MAKER=0 TROUBLES=0", ("liveness",)),
    Setup("node", "", "LIVES=2 OPENS=2 OPERATIONS=1 CONNECTIONS=2 SESSIONS=2 TROUBLES=1"),
    Setup("owned", "", "TAKES=2", ("safety",)),
    Setup("owned", "", "TAKES=1", ("liveness",)),
]
SOAK_SETUPS = [
    Setup("hold", "IMPORTERS=2", "LIVES=1 IMPORTS=1 TROUBLES=1"),
    Setup("hold", "", "LIVES=2 IMPORTS=3 TROUBLES=2"),
    Setup("hold", "SLOTS=2", "LIVES=1 IMPORTS=2 TROUBLES=1"),
    Setup("parts", "", "LIVES=2 IMPORTS=2 TRIMS=2 TROUBLES=1"),
    Setup("event", "", "RECORDS_OF_0=2 RECORDS_OF_1=1 AT_ONCE=0 CUTS=0 WAITS=1 LIES=0 TROUBLES=1"),
    Setup("event", "", "RECORDS_OF_0=1 RECORDS_OF_1=1 AT_ONCE=0 CUTS=2 WAITS=1 LIES=0 TROUBLES=1"),
    Setup("event", "", "RECORDS_OF_0=1 RECORDS_OF_1=1 AT_ONCE=0 CUTS=3 WAITS=1 LIES=0 TROUBLES=1", ("safety",)),
    Setup("account", "", "TAKES=1 TAKES_OF_MAKER=0 TROUBLES=1", ("liveness",)),
    Setup("account", "", "TAKES=1 TAKES_OF_MAKER=1 TROUBLES=1", ("safety",)),
    Setup("node", "", "LIVES=2 OPENS=2 OPERATIONS=1 CONNECTIONS=2 SESSIONS=2 TROUBLES=2"),
    Setup("node", "", "LIVES=2 OPENS=1 OPERATIONS=1 CONNECTIONS=3 SESSIONS=1 TROUBLES=2"),
    Setup("node", "", "LIVES=2 OPENS=3 OPERATIONS=2 CONNECTIONS=2 SESSIONS=2 TROUBLES=1"),
    Setup("owned", "", "TAKES=3", ("safety",)),
    Setup("owned", "", "TAKES=2", ("liveness",)),
]


def run(command, folder, **variables):
    """The exit status of a command, and what it prints."""
    done = subprocess.run([str(word) for word in command], cwd=folder, env={**os.environ, **variables},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    return done.returncode, done.stdout


class Checkers:
    """The compiled checkers: one for each model, kind and what is fixed in it."""

    def __init__(self, compiler, folder, pool):
        self.compiler = compiler
        self.folder = Path(folder)
        self.pool = pool
        self.made = {}

    def make(self, model, fixed, kind):
        """Have one compiled, soon."""
        key = (model, fixed, kind)
        if key not in self.made:
            self.made[key] = self.pool.submit(self.compile, *key)

    def compile(self, model, fixed, kind):
        """The folder of a checker."""
        folder = self.folder / f"{model}-{fixed}-{kind}"
        folder.mkdir()
        defined, options, _, _ = KINDS[kind]
        fixed_here = [f"-D{word}" for word in fixed.split()]
        preprocessor = " ".join([*self.compiler, "-E", "-x", "c"])
        for command in (["spin", f"-P{preprocessor}", "-a", *defined, *fixed_here, HERE / f"{model}.pml"],
                        [*self.compiler, "-O1", "-w", f"-DMEMLIM={MEMORY_MAX_MIB}", *options, "-o", "pan", "pan.c"]):
            status, text = run(command, folder)
            if status:
                raise AssertionError(f"{' '.join(map(str, command))}: exit status {status}\n{text}")
        return folder

    def search(self, setup, kind, wrong):
        """What a checker prints, and the number of states that it has visited."""
        folder = self.made[setup.model, setup.fixed, kind].result()
        bounds = dict(word.split("=") for word in setup.bounds.split())
        _, text = run([folder / "pan", f"-m{DEPTH_MAX}", "-w22", *KINDS[kind][2]], folder, WRONG=str(wrong), **bounds)
        states = re.search(r"([0-9.e+]+) states, stored", text)
        if not states:
            raise AssertionError(text)
        return text, int(float(states[1]))


def holds(checkers, setup, kind):
    """A promise is kept in all states. Returns how many there are."""
    text, states = checkers.search(setup, kind, 0)
    if "errors: 0" not in text or "not completed" in text or "too small" in text or "MEMLIM" in text:
        raise AssertionError(text)
    return f"{states} states"


def notices(checkers, setup, kind, wrong):
    """A mistake is found. Returns after how many states."""
    text, states = checkers.search(setup, kind, wrong)
    if "errors: 1" not in text or KINDS[kind][3] not in text:
        raise AssertionError(f"wrong {wrong} was not noticed\n{text}")
    return f"after {states} states"


def mistakes(setup):
    """What a model says that can be made wrong in it: number, kind, the bounds for it, a sentence."""
    text = (HERE / f"{setup.model}.pml").read_text()
    for number, kind, bounds, sentence in re.findall(r"^ \* wrong (\d+) (\w+)([^:]*): (.*)$", text, re.M):
        yield int(number), kind, f"{setup.bounds} {bounds}", sentence


def plan(soak):
    """All tests: name, function, setup, and what else it needs. The long ones first."""
    setups = SOAK_SETUPS if soak else SETUPS
    tests = [(f"{s.model}: {kind}, {s.fixed} {s.bounds}".replace("  ", " "), holds, s, [kind])
             for s in setups for kind in s.kinds]
    for model in [] if soak else dict.fromkeys(s.model for s in setups):
        first = next(s for s in setups if s.model == model)
        for number, kind, bounds, sentence in mistakes(first):
            tests.append((f"{model}: noticed: {sentence}", notices, Setup(model, "", bounds), [kind, number]))
    return tests


def skip(reason):
    """A test that cannot be run."""
    raise Skip(reason)


def main(*compiler):
    """Runs all; True when none failed."""
    tests = plan("CENOTE_SOAK_SECONDS" in os.environ)
    missing = next((tool for tool in ("spin", compiler[0]) if not shutil.which(tool)), None)
    if missing:
        return run_tests([(name, functools.partial(skip, f"{missing} is not installed")) for name, *_ in tests])
    with tempfile.TemporaryDirectory(prefix="cenote-model-") as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        checkers = Checkers(compiler, folder, pool)
        for _, _, setup, (kind, *_) in tests:
            checkers.make(setup.model, setup.fixed, kind)
        return run_tests([(name, pool.submit(function, checkers, setup, *rest).result)
                          for name, function, setup, rest in tests])


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
