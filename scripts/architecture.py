#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Checks that the sources keep to the architecture that src/layers.list describes. Prints a line for each problem.

    architecture.py [ROOT]

include   a folder of src/ includes only what it may; tools and tests of whole programs include no header of src/
prefix    a name that other files see begins with a prefix of its folder
function  no function is longer than 70 lines
file      no file is longer than 800 lines
twice     no two files of src/ have the same name
unused    what src/ defines, src/ uses, and not its tests alone
static    a function or variable that only its own file uses is static
declare   a header declares no function of a layer above its own
mention   a file that a comment in src/ names is there

A line `except KIND WHAT... : REASON` in the list lets one problem pass; one that lets nothing pass is a problem itself.
"""

import ast
import re
import sys
from collections import namedtuple
from pathlib import Path

import c_scan

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
FOLDERS = ("src", "tests", "tools", "bench", "scripts", "examples", "python")

# what: the words by which an exception names it; text: for people
Problem = namedtuple("Problem", "kind what text")


class Layers:
    """What src/layers.list says."""

    def __init__(self, path):
        self.below = {}     # folder -> the folders and headers that it may include
        self.prefixes = {}  # prefix -> its folder
        self.public = {}    # folder -> prefixes of names that users see
        self.made = set()   # headers and sources that the build makes
        self.outside = {}   # folder outside of src/ -> headers of src/ that it may include
        self.exceptions = {}
        self.problems = []
        text = re.sub(r"\n[ \t]+(?=\S)", " ", re.sub(r"^#.*\n", "", path.read_text(), flags=re.M))
        for line in filter(None, map(str.strip, text.splitlines())):
            self.read(line)

    def read(self, line):
        """One line, with the indented ones that follow it."""
        kind, first, *rest = line.split()
        if kind == "layer":
            self.below[first] = rest
        elif kind == "prefix":
            for prefix in rest:
                if prefix in self.prefixes:
                    text = f"prefix {prefix} belongs to {self.prefixes[prefix]} and to {first}"
                    self.problems.append(Problem("list", (prefix,), text))
                self.prefixes.setdefault(prefix, first)
        elif kind == "public":
            self.public[first] = tuple(rest)
        elif kind == "made":
            self.made.update([first, *rest])
        elif kind == "outside":
            self.outside[first] = rest
        elif kind == "except" and " : " in line:
            self.exceptions[tuple(line.split(" : ")[0].split()[1:])] = False
        else:
            self.problems.append(Problem("list", (line,), f"cannot be read: {line}"))

    def folder_of(self, name):
        """The folder to which a name belongs by its longest prefix; None: to none."""
        words = name.lower().split("_")
        for count in range(len(words), 1, -1):
            folder = self.prefixes.get("_".join(words[:count]))
            if folder:
                return folder
        return None

    def is_excepted(self, problem):
        """Does an exception let it pass? That is noted."""
        key = (problem.kind, *problem.what)
        if key not in self.exceptions:
            return False
        self.exceptions[key] = True
        return True


class Tree:
    """The C files of src/, scanned, and the names that each part of the project mentions."""

    def __init__(self, root):
        self.root = root
        self.sources = {f: c_scan.scan(f.read_text()) for f in sorted((root / "src").rglob("*.[ch]"))}
        self.users = {}  # name -> the files of src/ that mention it, and scripts that make sources
        for file, source in self.sources.items():
            for name in source.uses:
                self.users.setdefault(name, set()).add(file)
        for file in [*(root / "src").rglob("*.S"), *(root / "scripts").glob("generate_*.py")]:
            for name in set(c_scan.WORD.findall(file.read_text())):
                self.users.setdefault(name, set()).add(file)
        self.test_words = set()
        for file in [*(root / "tests").rglob("*.[ch]"), *(root / "bench").rglob("*.[ch]")]:
            self.test_words.update(c_scan.WORD.findall(file.read_text()))

    def folder(self, file):
        """A file's folder below src/."""
        return file.parent.relative_to(self.root / "src").as_posix()

    def name(self, file):
        """A file as it is called in the report."""
        return file.relative_to(self.root).as_posix()


def check_includes(tree, layers):
    """Folders of src/ include what they may."""
    for file, source in tree.sources.items():
        folder = tree.folder(file)
        if folder not in layers.below:
            yield Problem("include", (folder,), f"{tree.name(file)}:1: no layer src/{folder} is in the list")
            continue
        for line, header in source.includes:
            below = str(Path(header).parent)
            if below in (folder, "cenote", ".") or below in layers.below[folder] or header in layers.below[folder]:
                continue
            yield Problem("include", (file.name, header),
                          f"{tree.name(file)}:{line}: {folder} may not include {header}")


def check_outside(tree, layers):
    """What is outside of src/ does not look inside."""
    for folder, allowed in layers.outside.items():
        for file in sorted((tree.root / folder).rglob("*.[ch]")):
            for line, header in c_scan.scan(file.read_text()).includes:
                is_own = (file.parent / header).exists()
                if (tree.root / "src" / header).exists() and not is_own and header not in allowed:
                    yield Problem("include", (file.name, header),
                                  f"{tree.name(file)}:{line}: {folder} may not include {header}")


def check_declarations(tree, layers):
    """No header declares what a layer above it defines: that would be a call upwards which no include shows."""
    homes = {d.name: tree.folder(file) for file, source in tree.sources.items() if file.suffix == ".c"
             for d in source.definitions if d.kind == "function" and not d.static}
    for file, source in tree.sources.items():
        folder = tree.folder(file)
        for name, line in source.declared.items():
            home = homes.get(name, folder)
            if home != folder and home not in layers.below.get(folder, ()):
                yield Problem("declare", (file.name, name), f"{tree.name(file)}:{line}: {name} is in {home}")


def is_seen(file, definition):
    """Do other files see a definition?"""
    if file.suffix == ".h":
        return definition.name != file_guard(file)
    return definition.kind in ("function", "variable") and not definition.static


def file_guard(file):
    """The macro that keeps a header from being read twice."""
    parts = file.parts[len(file.parts) - file.parts[::-1].index("src"):]
    return "CN_" + re.sub(r"\W", "_", "/".join(parts)).upper()


def check_prefixes(tree, layers):
    """What other files see has a prefix of its folder."""
    for file, source in tree.sources.items():
        folder = tree.folder(file)
        for definition in source.definitions:
            name = definition.name
            if not is_seen(file, definition) or name.startswith(layers.public.get(folder, ("\n",))):
                continue
            owner = layers.folder_of(name)
            if owner != folder:
                place = f"{tree.name(file)}:{definition.line}: {name}"
                text = f"has no prefix of {folder}" if not owner else f"has a prefix of {owner}, and is in {folder}"
                yield Problem("prefix", (name,), f"{place} {text}")


def check_uses(tree, _layers):
    """Everything is used by the product, and what one file alone uses is static."""
    for file, source in tree.sources.items():
        for definition in source.definitions:
            name = definition.name
            if not is_seen(file, definition) or not re.match(r"cn_", name, re.I):
                continue
            users = tree.users.get(name, set())
            if definition.kind == "macro":
                users = {f for f, other in tree.sources.items() if name in other.words} | users
            place = f"{tree.name(file)}:{definition.line}: {name}"
            if definition.kind in ("function", "variable", "macro") and not users:
                by_whom = "only tests use" if name in tree.test_words else "nothing uses"
                yield Problem("unused", (name,), f"{place}: {by_whom} it")
            elif file.suffix == ".c" and users == {file} and name not in tree.test_words:
                yield Problem("static", (name,), f"{place}: only its own file uses it")


def python_functions(text):
    """Name, line and length of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def check_lengths(tree, _layers):
    """Functions and files have an end."""
    files = [f for folder in FOLDERS for f in sorted((tree.root / folder).rglob("*"))
             if f.suffix in (".c", ".h", ".cc", ".S", ".py", ".sh")]
    for file in files:
        text = file.read_text()
        if len(text.splitlines()) > FILE_LINES_MAX:
            yield Problem("file", (file.name,), f"{tree.name(file)}:1: has {len(text.splitlines())} lines")
        functions = []
        if file.suffix in (".c", ".h"):
            source = tree.sources.get(file) or c_scan.scan(text)
            functions = [(d.name, d.line, d.lines) for d in source.definitions if d.kind == "function"]
        elif file.suffix == ".py":
            functions = python_functions(text)
        for name, line, lines in functions:
            if lines > FUNCTION_LINES_MAX:
                yield Problem("function", (file.name, name), f"{tree.name(file)}:{line}: {name} has {lines} lines")


def check_names(tree, _layers):
    """A file is found by its name alone."""
    seen = {}
    for file in sorted((tree.root / "src").rglob("*.[chS]")):
        if file.name in seen:
            yield Problem("twice", (file.name,), f"{tree.name(file)}:1: there is {tree.name(seen[file.name])} as well")
        seen.setdefault(file.name, file)


def check_mentions(tree, layers):
    """Comments do not send a reader to files that were renamed."""
    folders = [tree.root / folder for folder in ("", "src", "include")]
    names = {f.name for folder in (*FOLDERS, "include") for f in (tree.root / folder).rglob("*.[chS]")} | layers.made
    for file in sorted((tree.root / "src").rglob("*.[chS]")):
        text = file.read_text()
        for comment in re.finditer(r"/\*.*?\*/", text, re.S):
            for found in re.finditer(r"(?<![\w./<])((?:\w+/)*)(\w+\.[chS])\b", comment[0]):
                is_there = any((folder / found[0]).exists() for folder in folders) if found[1] else found[2] in names
                if not is_there:
                    line = text.count("\n", 0, comment.start() + found.start()) + 1
                    yield Problem("mention", (file.name, found[0]), f"{tree.name(file)}:{line}: there is no {found[0]}")


CHECKS = (check_includes, check_outside, check_declarations, check_prefixes, check_uses, check_lengths, check_names,
          check_mentions)


def problems_of(root):
    """All that is wrong in a tree."""
    layers, tree = Layers(root / "src/layers.list"), Tree(root)
    problems = list(layers.problems)
    for check in CHECKS:
        problems += [problem for problem in check(tree, layers) if not layers.is_excepted(problem)]
    for key, used in layers.exceptions.items():
        if not used:
            problems.append(Problem("list", key, f"src/layers.list: nothing needs `except {' '.join(key)}`"))
    return problems


def main():
    """The root is the first argument, or where this script is."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    problems = problems_of(root)
    for problem in problems:
        print(f"{problem.text}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
