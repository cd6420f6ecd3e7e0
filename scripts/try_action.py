#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs the example workflow of packaging/action/example as GitHub's runner would: the steps of action.yml and then those
of the workflow, each in a shell of its own, with the files by which steps tell the next ones of variables and paths.

    try_action.py [FOLDER]

FOLDER, a temporary one if none is given, holds the project and what is installed. It needs make, a compiler, CMake and
Meson; in a bare system, `apt-get install` of these comes first, as on GitHub's runners.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "packaging" / "action" / "example"


def step(command, folder, files, **variables):
    """One step, with what those before it have left in the files."""
    environment = {**os.environ, **variables, **{name: str(path) for name, path in files.items()}}
    environment.update(line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines())
    paths = files["GITHUB_PATH"].read_text().split()
    environment["PATH"] = os.pathsep.join([*reversed(paths), os.environ["PATH"]])
    print(f"+ {command}", flush=True)
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], env=environment, cwd=folder, check=True)


def inputs(action):
    """The defaults of the action's inputs, by name."""
    return dict(re.findall(r'^  (\w+):\n    description: .*\n    default: "?([^"\n]*)"?$', action, re.M))


def run_workflow(folder):
    """The project's own copy, and all steps."""
    project = folder / "project"
    shutil.copytree(EXAMPLE, project)
    files = {name: folder / name.lower() for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT")}
    for path in files.values():
        path.touch()
    action = (ROOT / "action.yml").read_text()
    values = inputs(action)
    own = {name: values[word] for name, word in re.findall(r"(CENOTE_ACTION_\w+): \$\{\{ inputs\.(\w+) \}\}", action)}
    runs = re.findall(r"^ +run: '(.*)'$", action, re.M)
    assert len(runs) == 1 and len(own) == len(values) == 3, (runs, own)
    used = 0
    for kind, text in re.findall(r"^      - (uses|run): (.*)$", (EXAMPLE / "workflow.yml").read_text(), re.M):
        if kind == "run":
            step(text, project, files)
        elif "/cenote@" in text:
            step(runs[0], project, files, GITHUB_ACTION_PATH=str(ROOT), RUNNER_TEMP=str(folder), **own)
            used += 1
    assert used == 1
    print("the workflow has passed")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_workflow(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            run_workflow(Path(temporary))
