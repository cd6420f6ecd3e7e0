#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs the example workflow of packaging/action/example as GitHub's runner would: the steps of action.yml and then those
of the workflow, each in a shell of its own, with the files by which steps tell the next ones of variables and paths.

    try_action.py [--built BUILD] [FOLDER]

FOLDER, a temporary one if none is given, holds the project and what is installed. It needs make, a compiler, CMake and
Meson; in a bare system, `apt-get install` of these comes first, as on GitHub's runners.

With --built nothing is compiled: the Meson and the ninja that the action finds are stand-ins, which install what BUILD
has. The options that the action gives to Meson must be options of BUILD.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "packaging" / "action" / "example"


def stand_in(build, folder, *words):
    """What a stand-in for Meson or ninja does when it is called with these words."""
    meson, prefix = (folder / "meson").read_text(), folder / "prefix"
    if words[0] == "setup":
        said = subprocess.run([meson, "introspect", "--buildoptions", build], check=True, text=True,
                              stdout=subprocess.PIPE)
        options = {option["name"]: option["value"] for option in json.loads(said.stdout)}
        given = dict(word[2:].split("=", 1) for word in words if word.startswith("-D"))
        assert set(given) <= set(options), f"not options of Cenote's: {set(given) - set(options)}"
        prefix.write_text(json.dumps([given["prefix"], options["prefix"], options["libdir"]]))
    elif words[0] == "install":
        wanted, built, libraries = json.loads(prefix.read_text())
        subprocess.run([meson, "install", "-C", build, "--quiet", "--no-rebuild", "--destdir", folder / "tree"],
                       check=True)
        shutil.move(folder / "tree" / built.lstrip("/"), wanted)
        # The action asks for the folder lib.
        for path in Path(wanted, libraries).iterdir():
            there = Path(wanted, "lib", path.name)
            if not there.exists():
                there.symlink_to(path)
    else:
        assert words[-1] == "product", words


def make_stand_ins(build, folder):
    """A meson and a ninja for the path; returns their folder."""
    tools = folder / "tools"
    tools.mkdir()
    (folder / "meson").write_text(shutil.which("meson"))
    again = f'"{sys.executable}" "{__file__}" --stand-in "{build}" "{folder}"'
    for name in ("meson", "ninja"):
        (tools / name).write_text(f'#!/bin/sh\nexec {again} "$@"\n')
        (tools / name).chmod(0o755)
    return tools


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


def run_workflow(folder, build=None):
    """The project's own copy, and all steps."""
    if build:
        os.environ["PATH"] = f"{make_stand_ins(build, folder)}{os.pathsep}{os.environ['PATH']}"
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


def main():
    """The command line."""
    if sys.argv[1:2] == ["--stand-in"]:
        stand_in(sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--built", type=Path)
    options = parser.parse_args()
    build = options.built and options.built.resolve()
    if options.folder:
        run_workflow(options.folder.resolve(), build)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            run_workflow(Path(temporary), build)


if __name__ == "__main__":
    main()
