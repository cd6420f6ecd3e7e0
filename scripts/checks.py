# SPDX-License-Identifier: MIT
"""
The checks of the sources. Each is a function (root, build, jobs) -> (status, text), in CHECKS.

What a formatter or an analyser says depends on its version, so each is used in the versions that the sources have been
tried with; elsewhere the check is skipped, and says so.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import architecture

CLANG_VERSION = "14"
CPPCHECK_VERSION = "2.10"
SOURCE_FOLDERS = ("include", "src", "tools", "tests", "bench", "examples", "python")


def output(command):
    """What a command prints, and its exit status."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    return done.returncode, done.stdout


def find_clang_tool(name):
    """The tool in the right version, or the reason why there is none."""
    found = []
    for candidate in (f"{name}-{CLANG_VERSION}", name):
        path = shutil.which(candidate)
        if not path:
            continue
        version = re.search(r"version (\d+)", output([path, "--version"])[1])
        if version and version[1] == CLANG_VERSION:
            return path, None
        found.append(version[1] if version else "unknown")
    return None, f"{name} {CLANG_VERSION} is not installed" + (f" (found {', '.join(found)})" if found else "")


def c_files(root):
    """All sources of ours that clang-format knows."""
    files = (f for folder in SOURCE_FOLDERS for f in (root / folder).rglob("*"))
    return sorted(f for f in files if f.suffix in (".c", ".h", ".cc"))


def check_format(root, _build, _jobs):
    """The sources are laid out as `make format` would."""
    tool, reason = find_clang_tool("clang-format")
    if not tool:
        return "skipped", reason
    status, text = output([tool, "--dry-run", "-Werror", *c_files(root)])
    places = sorted(set(re.findall(r"^(/.*?:\d+):.*error:", text, re.M)))
    return ("failed", "\n".join(places or [text]) + "\n`make format` puts this right.") if status else ("passed", "")


def check_text(root, _build, _jobs):
    """What holds for every text file: a licence line, no notes to self, no space at a line's end, 120 columns; and the
    library does not take a stranger's word where it runs with more rights."""
    files = c_files(root) + [f for f in root.glob("scripts/*") if f.suffix in (".py", ".sh")]
    files += [f for folder in ("python", "examples") for f in (root / folder).rglob("*.py")
              if root / "python" / "build" not in f.parents]
    files += [f for f in root.rglob("meson.build") if root / "build" not in f.parents]
    notes = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
    problems = []
    for file in files:
        lines = file.read_text().splitlines()
        name = file.relative_to(root)
        if not any("SPDX-License-Identifier: MIT" in line for line in lines[:2]):
            problems.append(f"{name}:1: no SPDX line")
        for number, line in enumerate(lines, 1):
            if notes.search(line):
                problems.append(f"{name}:{number}: a note to self")
            if line != line.rstrip():
                problems.append(f"{name}:{number}: space at the end of the line")
            if len(line.expandtabs(8)) > 120:
                problems.append(f"{name}:{number}: longer than 120 columns")
            if name.parts[0] == "src" and re.search(r"\bgetenv\s*\(", line):
                problems.append(f"{name}:{number}: getenv; a set-user-ID program needs secure_getenv")
    return ("failed", "\n".join(problems)) if problems else ("passed", "")


def compile_commands(root, build):
    """How the plain build compiles each source of ours, generated ones left out. Where it does so twice: at first."""
    commands = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        file = (Path(command["directory"]) / command["file"]).resolve()
        ours = root in file.parents and build not in file.parents and file.suffix == ".c"
        if ours and "<quadmath.h>" not in file.read_text():  # a header of gcc's, and a type that clang-tidy lacks
            # An option of gcc's alone, of which clang-tidy would say that it is none.
            command["command"] = command["command"].replace(" -fno-reorder-blocks-and-partition", "")
            commands.setdefault(file, command)
    return commands


def dependencies(build):
    """All files that each object of the plain build was made from, by the object's path below the build directory."""
    found, target = {}, None
    for line in output(["ninja", "-C", build, "-t", "deps"])[1].splitlines():
        if line.startswith("    ") and target:
            found[target].append((build / line.strip()).resolve())
        else:
            target = line.split(": #deps")[0] if ": #deps" in line else None
            found.setdefault(target, [])
    return found


class Passed:
    """
    Which sources passed clang-tidy as they are now, so that outside of CI it looks at those that have changed: each by
    a sum of the tool, its settings, the compiler's command and all files that the source was compiled from.
    """

    def __init__(self, root, build, tool):
        self.file = build / "clang-tidy.passed"
        self.sums = {} if os.environ.get("CI", "0") not in ("", "0", "false") else self.read()
        self.dependencies = dependencies(build)
        self.settings = output([tool, "--version"])[1] + (root / ".clang-tidy").read_text()
        self.contents = {}  # file -> sum of what is in it

    def read(self):
        """What is known from the last time."""
        try:
            return json.loads(self.file.read_text())
        except (OSError, ValueError):
            return {}

    def sum_of(self, file, command):
        """None: there is nothing to know it by."""
        files = self.dependencies.get(command.get("output"))
        if not files:
            return None
        whole = hashlib.sha256((self.settings + command["command"]).encode())
        for each in sorted({file, *files}):
            if each not in self.contents:
                self.contents[each] = hashlib.sha256(each.read_bytes() if each.exists() else b"").digest()
            whole.update(str(each).encode() + self.contents[each])
        return whole.hexdigest()

    def write(self, sums):
        """For the next time."""
        self.file.write_text(json.dumps({str(file): total for file, total in sums.items() if total}))


def check_clang_tidy(root, build, jobs):
    """No finding of the checks in .clang-tidy."""
    tool, reason = find_clang_tool("clang-tidy")
    if not tool:
        return "skipped", reason
    if not (build / "compile_commands.json").exists():
        return "skipped", "there is no plain build to take the compiler's options from"

    commands = compile_commands(root, build)
    passed = Passed(root, build, tool)
    sums = {file: passed.sum_of(file, command) for file, command in commands.items()}
    changed = sorted(file for file in commands if not sums[file] or passed.sums.get(str(file)) != sums[file])
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        # For a source with two commands it would look twice, and its checks are at a loss the second time.
        (Path(folder) / "compile_commands.json").write_text(json.dumps(list(commands.values())))

        def look(file):
            status, text = output([tool, "--quiet", "--warnings-as-errors=*", "-p", folder, file])
            if status:
                sums[file] = None
            return status, text

        texts = [text for status, text in pool.map(look, changed) if status]
    passed.write(sums)
    # The reports are long; the findings alone come last, where they are seen.
    findings = [line for text in texts for line in text.splitlines() if " error: " in line]
    return ("failed", "\n".join(texts + findings)) if texts else ("passed", "")


def check_cppcheck(root, _build, jobs):
    """No finding of cppcheck's in the library and the command."""
    tool = shutil.which("cppcheck")
    if not tool:
        return "skipped", "cppcheck is not installed"
    version = output([tool, "--version"])[1].split()[-1]
    if not version.startswith(CPPCHECK_VERSION):
        return "skipped", f"cppcheck {CPPCHECK_VERSION} is not installed (found {version})"
    folders = [root / folder for folder in ("src", "tools") if (root / folder).exists()]
    status, text = output([
        tool, "--quiet", "--error-exitcode=1", "--inline-suppr", "--std=c11", "-j", str(jobs),
        "--enable=warning,performance,portability", "--suppress=missingIncludeSystem",
        "--suppress=unknownMacro", "-D__linux__=1", "-D__x86_64__=1", "-D__GNUC__=12", "-D_GNU_SOURCE=1",
        "-I", root / "include", "-I", root / "src", *folders])
    return ("failed", text) if status else ("passed", "")


def check_asked(root, _build, _jobs):
    """Each function of the interface is in a question to the driver; that it is found by its name is not one."""
    lines = (line.split("#")[0].split() for line in (root / "src/api.list").read_text().splitlines())
    chapters = (root / "tests/conformance").glob("*.[ch]")
    words = {word for file in chapters for word in re.findall(r"\w+", file.read_text())}
    problems = [f"{words_of[1]} is asked about in no chapter" for words_of in lines
                if words_of and words_of[1] not in words]
    return ("failed", "\n".join(problems)) if problems else ("passed", "")


def check_architecture(root, _build, _jobs):
    """The layers, names and sizes are those of src/layers.list (architecture.py)."""
    problems = architecture.problems_of(root)
    return ("failed", "\n".join(problem.text for problem in problems)) if problems else ("passed", "")


CHECKS = {
    "format": check_format,
    "text": check_text,
    "architecture": check_architecture,
    "asked": check_asked,
    "clang-tidy": check_clang_tidy,
    "cppcheck": check_cppcheck,
}
