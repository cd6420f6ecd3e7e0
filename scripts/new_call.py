#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Walks through adding a function of CUDA's: says what is done, what comes next and what to write there. Run it again
after each step. No GPU is needed.

    new_call.py NAME [--build BUILD]

NAME is the function as a programmer writes it: cuDeviceGetName, cudaMemGetInfo. When everything is written, this builds
what it needs (in BUILD, by default build), writes anew what is made from the sources and committed, and marks the new
questions of tests/conformance as not asked yet.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import abi_table
import generate_api as api
import generate_calls
import generate_pointers

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include/cenote"
LAYERS = {"driver": "src/driver", "runtime": "src/runtime"}
PAGES = ("tests/abi/table.inc", "docs/pointers.md", "docs/error_sentences.md")


class Next(Exception):
    """What has to be written next."""


def words_in(folder, pattern="*.[ch]"):
    """Each file of a folder with the words in it."""
    return {file: set(re.findall(r"\w+", file.read_text())) for file in sorted((ROOT / folder).rglob(pattern))}


def find_prototype(library, name):
    """Step 1: the header, which is the manual, too."""
    header = api.HEADERS[library][0]
    exported = set(api.read_names(ROOT / "scripts/nvidia_names.txt", library))
    if not any(re.fullmatch(name + r"(_v\d+)?(_pts[zd])?", n) for n in exported):
        raise Next(f"another name: NVIDIA's library has no {name} (scripts/nvidia_names.txt)")
    try:
        function = api.Function(library, name, name, "-", "0", "done", "-", frozenset())
        return api.read_prototypes([function], HEADERS)[name]
    except api.Wrong:
        others = [n for n in exported if re.fullmatch(name + r"(_v\d+)?(_pts[zd])?", n) and n != name]
        raise Next(f"include/cenote/{header}: its prototype, beside its relatives, with a comment that says what it\n"
                   "does, returns and leaves untouched. Types and values are NVIDIA's, the names of parameters ours."
                   + (f"\nThe library also has {', '.join(sorted(others))}: which of them NVIDIA's headers make of\n"
                      "the name, a #define at the top of the header says." if others else "")) from None


def suggest_row(library, name):
    """A row of api.list."""
    exported = set(api.read_names(ROOT / "scripts/nvidia_names.txt", library))
    text = "".join((HEADERS / h).read_text() for h in api.HEADERS[library])
    meant = re.search(rf"^#define {name}\s+(?:\w+\()?(\w+)", text, re.M)
    symbol = meant[1] if meant and meant[1] in exported else name
    thread = next((symbol + s for s in ("_ptsz", "_ptds") if symbol + s in exported), "-")
    return " ".join(filter(None, [library, name, symbol, thread, "SINCE", "done", "host" * (library == "driver")]))


def find_row(library, name):
    """Step 2: the list."""
    for function in api.read_list(ROOT / "src/api.list"):
        if function.name == name and function.state != "form":
            return function
    raise Next(f"src/api.list: a row, in the chapter of its relatives:\n\n    {suggest_row(library, name)}\n\n"
               "SINCE is the version that brought this form: 11040 for CUDA 11.4. NVIDIA's cudaTypedefs.h has it at\n"
               f"the end of PFN_{name}_v…. The head of the list explains the other columns: on a GPU `host` leaves\n"
               "the call to the driver, which is right for most.")


def find_call(name):
    """Step 3: what is done with its pointers."""
    try:
        calls = generate_pointers.read_calls(ROOT)
    except api.Wrong as wrong:
        raise Next(f"src/pointers.list: {wrong}.\nThe head of that list says how a line looks.") from None
    return next(c for c in calls if c.function and c.function.name == name and c.function.state != "form")


def wanted_functions(call):
    """The functions that have to be written."""
    function = call.function
    by_hand = function.thread != "-" and "own" in function.by_hand
    wanted = call.names[:2 if by_hand else 1]
    if function.has_gpu:
        wanted = wanted + [f"gpu_{s}" for s in call.symbols[:2 if "gpu" in function.by_hand else 1]]
    return wanted


def find_code(call):
    """Step 4: the functions."""
    parameters = ", ".join(call.prototype.parameters) or "void"
    if call.function.thread != "-" and "own" not in call.function.by_hand:
        generate_calls.twin(call, call.names[1], call.names[0])  # or it says that this one must be written
    words = words_in(LAYERS[call.library])
    for name in wanted_functions(call):
        homes = [file for file, found in words.items() if name in found and
                 re.search(rf"\b{name}\b[^;]*?\)\s*\n\{{", file.read_text())]
        if not homes:
            folder = {"own": "driver/common", "host": "driver/host", "gpu": "driver/gpu",
                      "runtime": "runtime"}.get(name.split("_")[0], "runtime")
            raise Next(f"src/{folder}: the function, in the file of its relatives:\n\n"
                       f"    {call.prototype.result} {name}({parameters})\n\n"
                       "It begins as its relatives do. A failure says why: return cn_error(CODE, \"…\").")
        yield homes[0].relative_to(ROOT)


def find_questions(name):
    """Step 5: what the driver is asked."""
    chapters = [file for file, words in words_in("tests/conformance").items() if name in words]
    if not chapters:
        raise Next("tests/conformance: questions, in the chapter of its relatives; ask.h there is the manual.\n"
                   "Ask for each error that the manual has, for NULL, and for what is left as it was.")
    return chapters


def run(*command):
    """A command that must succeed."""
    if subprocess.run([str(word) for word in command], cwd=ROOT, check=False).returncode:
        raise Next(f"what this says: {' '.join(map(str, command))}")


def write_pages():
    """Step 6: what is made from the sources, and committed."""
    (ROOT / PAGES[0]).write_text(abi_table.make_table(HEADERS))
    run(sys.executable, "scripts/generate_pointers.py", "table", ROOT, ROOT / PAGES[1])
    run(sys.executable, "scripts/error_sentences.py", "write")


def mark_questions(build, chapters):
    """Step 7: the new questions, as not asked yet."""
    asked = sorted({c.stem for c in chapters if "CHAPTER(" in c.read_text()} | {"entry"})
    programs = [f"tests/conformance-{chapter}" for chapter in asked]
    module = ROOT / "tests/conformance/kernels.ptx"
    run("ninja", "--quiet", "-C", build, *programs)
    for chapter, program in zip(asked, programs):
        run("env", "CENOTE_DEVICE=host", f"CONFORMANCE_MODULE={module}", sys.executable,
            "tests/conformance/compare.py", "--unasked", build / program, f"tests/conformance/golden/{chapter}.txt")


def walk(name, build):
    """All steps, as far as they are done."""
    library = "runtime" if name.startswith("cuda") else "driver"
    find_prototype(library, name)
    print("1 header      done")
    find_row(library, name)
    print("2 list        done")
    call = find_call(name)
    print("3 pointers    done")
    print(f"4 code        done: {', '.join(map(str, dict.fromkeys(find_code(call))))}")
    chapters = find_questions(name)
    print(f"5 questions   done: {', '.join(str(c.relative_to(ROOT)) for c in chapters)}")
    write_pages()
    print(f"6 made        done: {', '.join(PAGES)}")
    mark_questions(build, chapters)
    print("7 answers     done: what is printed above is marked as not asked yet (make gpu-golden asks)")
    tests = [file.name for file, words in words_in("tests/unit").items() if name in words]
    print(f"8 tests       {', '.join(tests) or 'tests/unit has none: write what no question can ask'}")
    print("Then: a line in CHANGELOG.md, make format, make check.")


def main():
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    options = parser.parse_args()
    try:
        walk(options.name, options.build.resolve())
    except (Next, api.Wrong) as to_do:
        sys.exit(f"next: {to_do}")


if __name__ == "__main__":
    main()
