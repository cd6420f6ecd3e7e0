#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Writes a text file as a C array named NAME, a line of C for each line: for files that a program carries inside.

    embed_text.py NAME INPUT OUTPUT
"""

import sys
from pathlib import Path


def literal(line):
    """A line as a C string."""
    out = []
    for byte in line.encode("utf-8"):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= byte < 127 and char != "?":
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def main(name, source, target):
    """Writes the file."""
    lines = Path(source).read_text(encoding="utf-8").splitlines(keepends=True)
    text = "\n".join("\t" + literal(line) for line in lines)
    Path(target).write_text(f"static const char {name}[] =\n{text};\n", encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
