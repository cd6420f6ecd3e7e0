#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Makes the manual page of cenote.h from its comments, which are the manual.

    generate_manual.py CENOTE_H CENOTE_LIST OUT_FOLDER

Writes cenote.3, and for each function of CENOTE_LIST that the header declares a page that leads there, so that
`man cenote_send_pool` finds it.

The header is read as it is laid out: a comment that begins at the left margin belongs to what follows it without an
empty line between. Within a comment, lines that begin with the name of an error are a list of errors; other lines that
are indented are shown as they are.
"""

import re
import sys
from pathlib import Path

import generate_api as api

DATE = "2026-11-15"
TITLE = "what CUDA leaves to its users"
# The chapters, as the header's first comment has them, begin with these.
CHAPTERS = (("cenote_last_error", "Errors"), ("cenote_send_descriptor", "Descriptors"),
            ("CENOTE_POOL_IMPORTERS_MAX", "Sharing"), ("cenote_pool_statistics", "Pools"),
            ("cenote_name", "Housekeeping"), ("cenote_process", "Surveys"), ("cenote_kept_st", "Kept memory"),
            ("cenote_device_kind", "This process"), ("cenote_label", "Checking"), ("cenote_dim", "Kernels"))


def escape(text):
    """Text that roff takes for text."""
    text = text.replace("\\", "\\e").replace("…", "\\[u2026]").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def running_text(text):
    """The same, with functions in bold and parameters, types and variables as they are."""
    return re.sub(r"\b(cenote_\w+|cu[A-Z]\w+)\(\)", r"\\fB\1\\fP()", escape(text))


def comment_lines(comment):
    """The lines of a comment without its stars."""
    inner = re.sub(r"^/\*+ ?|\s*\*+/$", "", comment.strip())
    return [re.sub(r"^\s*\*(?: |$)", "", line).rstrip() for line in inner.splitlines()]


def paragraphs(lines):
    """Runs of lines with nothing between them."""
    run = []
    for line in [*lines, ""]:
        if line:
            run.append(line)
        elif run:
            yield run
            run = []


def as_errors(lines):
    """A list of errors and what each says."""
    out = []
    for line in lines:
        entry = re.match(r"\s+(CUDA_\w+)\s+(.*)", line)
        if entry:
            out += [".TP", f".B {entry[1]}"]
        out.append(running_text(entry[2] if entry else line.strip()))
    return out


def as_roff(lines):
    """A comment's text."""
    out = []
    for run in paragraphs(lines):
        if re.match(r"\s+CUDA_\w+\s", run[0]):
            out += as_errors(run)
        elif run[0].startswith("  "):
            width = min(len(line) - len(line.lstrip()) for line in run)
            out += [".PP", ".nf", *(escape(line[width:]) for line in run), ".fi"]
        else:
            out += [".PP", *map(running_text, run)]
    return out


def as_code(lines):
    """A declaration, as it stands in the header but for what is for the compiler."""
    text = re.sub(r"\bCENOTE_API\s+|\s*__attribute__\(\(\w+\)\)", "", "\n".join(lines)).expandtabs(8)
    return [".PP", ".nf", *map(escape, text.splitlines()), ".fi"]


def chunks(text):
    """The header's parts: a comment's lines, perhaps none, and the lines of what it belongs to, perhaps none."""
    for part in re.split(r"\n\s*\n", text):
        match = re.match(r"(/\*.*?\*/)?\n?(.*)", part.strip("\n"), re.S)
        yield comment_lines(match[1]) if match[1] else [], match[2].splitlines()


def is_shown(code):
    """Is it for those who use the header?"""
    return bool(re.match(r"CENOTE_API|typedef|#define CENOTE_[A-Z_]+[A-Z]\s", code[0])) if code else False


def heading(code):
    """What a part is about: functions, or a type."""
    text = "\n".join(code)
    functions = re.findall(r"\b(cenote_\w+)\(", text) if "CENOTE_API" in text else []
    named = functions or re.findall(r"^typedef struct (\w+)|^#define (CENOTE_\w+)", text, re.M)
    return [name if isinstance(name, str) else name[0] or name[1] for name in named]


def describe(header):
    """The chapters."""
    out, chapters = [], dict(CHAPTERS)
    start, end = header.index("#define CENOTE_VERSION_PATCH"), header.index("#define CENOTE_KERNEL(")
    body = header[start:end].partition("\n")[2]
    for comment, code in chunks(body):
        if comment and not is_shown(code):
            out += as_roff(comment)
        if not is_shown(code):
            continue
        names = heading(code)
        out += [f".SH {chapters.pop(name).upper()}" for name in names if name in chapters]
        if "CENOTE_API" in code[0] or len(names) == 1:
            out.append(f".SS {', '.join(names)}" if names else ".PP")
        out += as_code(code) + as_roff(comment)
    if chapters:
        raise api.Wrong(f"the header has no {', '.join(chapters)}")
    out += as_code(["CENOTE_KERNEL(name, type...);"])
    return out


def introduction(header):
    """The header's first comment, but for its table of contents."""
    [comment] = re.findall(r"^/\*\n \* cenote\.h:.*?\*/", header, re.S | re.M)
    return as_roff([line for line in comment_lines(comment)[2:] if not line.startswith("  ")])


def functions_of(header, names):
    """The functions of a list that the header declares."""
    return [name for name in names if re.search(rf"\bCENOTE_API\b[^;]*\b{name}\(", header)]


def page(header, names):
    """cenote.3"""
    lines = ['.\\" SPDX-License-Identifier: MIT', '.\\" Generated by scripts/generate_manual.py from cenote.h.',
             f'.TH CENOTE 3 {DATE} Cenote "Cenote"', ".SH NAME", ",\n".join(["cenote", *names]) + f" \\- {TITLE}",
             ".SH SYNOPSIS", ".nf", "#include <cenote.h>", ".PP",
             "gcc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs cenote)", ".fi", ".SH DESCRIPTION",
             *introduction(header), *describe(header), ".SH SEE ALSO", ".BR cenote (1)"]
    # A heading begins a paragraph by itself.
    shown = [line for before, line in zip(["", *lines], lines)
             if line != ".PP" or not before.startswith((".SH", ".SS"))]
    return "\n".join(shown) + "\n"


def main(header_path, list_path, folder):
    """Writes the pages."""
    header = Path(header_path).read_text()
    names = functions_of(header, api.read_plain(list_path))
    (Path(folder) / "cenote.3").write_text(page(header, names))
    for name in names:
        (Path(folder) / f"{name}.3").write_text(".so man3/cenote.3\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except TypeError:
        sys.exit(__doc__)
    except api.Wrong as wrong:
        sys.exit(f"generate_manual.py: {wrong}")
