#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Puts the package together in the build directory, where the tests and a program with PYTHONPATH=build/python find it.

    stage.py STAMP SOURCE-FOLDER EXTENSION
"""

import os
import shutil
import sys
from pathlib import Path


def put(source, target):
    """Replaced, not written over: a process that runs the old one keeps it."""
    shutil.copyfile(source, target.with_name(target.name + ".new"))
    os.replace(target.with_name(target.name + ".new"), target)


def main():
    """The files of the package, and nothing that is left of an older one."""
    stamp, sources, extension = map(Path, sys.argv[1:])
    package = stamp.parent / "cenote"
    package.mkdir(exist_ok=True)
    files = [*sources.glob("*.py"), *sources.glob("*.pyi"), sources / "py.typed", extension]
    wanted = {file.name: file for file in files}
    for old in package.iterdir():
        if old.is_file() and old.name not in wanted:
            old.unlink()
    for name, file in wanted.items():
        put(file, package / name)
    stamp.touch()


main()
