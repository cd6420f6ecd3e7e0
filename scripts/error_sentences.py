#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Every sentence that Cenote says when a call fails, read from the sources.

    error_sentences.py write    write docs/error_sentences.md anew (`make errors-page`)
    error_sentences.py check    fail if it is not what would be written, or if docs/errors.md quotes a sentence that no
                                source has
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/error_sentences.md")
REMEDIES = Path("docs/errors.md")
AREAS = {
    "base": "the system", "daemon": "daemons", "device": "devices", "device/cuda": "a GPU",
    "device/host": "the host device", "driver": "driver calls", "dropin": "drop-in libraries",
    "imexd": "cenote-imexd", "keeper": "cenoted", "nvml": "NVML", "pool": "pools", "runtime": "runtime calls",
    "ptx": "PTX", "share": "sharing",
}
HEAD = """\
# All sentences

Every sentence that a failed call can leave in `cenote_last_error()`, in the order of the alphabet, with its code and
where it comes from; … stands for what differs. Search this page for a few words of the sentence that you see.
[Errors and their remedies](errors.md) says what to do about the frequent ones, which are marked with ›.

`make errors-page` writes this page from the sources.

| sentence | code | from |
|---|---|---|
"""
FOOT = """
Next: [containers](containers.md)
"""
CALL = re.compile(r"\b(?:cn_error|CN_RUNTIME_REFUSE)\(")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# What printf puts something in the place of; an address or a mask with what stands before it.
PLACE = re.compile(r"(?:0x)?%(?:[-+ #0]*[0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z])")


def arguments_of(text, start):
    """The text of a call's arguments, which begin at start, without comments."""
    depth, at = 1, start
    while depth:
        if text[at] == '"':
            at = STRING.match(text, at).end()
            continue
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return text[start:at - 1]


def split(arguments):
    """The arguments at the commas between them."""
    parts, depth, at, begin = [], 0, 0, 0
    while at < len(arguments):
        if arguments[at] == '"':
            at = STRING.match(arguments, at).end()
            continue
        depth += (arguments[at] in "([{") - (arguments[at] in ")]}")
        if arguments[at] == "," and not depth:
            parts.append(arguments[begin:at])
            begin = at + 1
        at += 1
    return parts + [arguments[begin:]]


def shown(form):
    """A format as a person sees it, with … in place of what differs."""
    text = PLACE.sub("…", form.replace("%%", "%")).replace('\\"', '"').replace("\\\\", "\\")
    return "… is NULL" if re.fullmatch(r"[\w>-]+ is NULL", text) else text


def joined(argument):
    """The string literals of an argument, as the compiler joins them; the C library's macros for lengths between."""
    argument = re.sub(r'"\s*PRI[a-z]\d+\s*"', "x", argument)
    argument = re.sub(r'"\s*PRI[a-z]\d+', 'x"', argument)
    return re.sub(r'"\s*"', "", argument)


def sentences_of(call):
    """The code and the sentences of one call."""
    parts = split(call)
    code = re.findall(r"\bCUDA_ERROR_\w+|\bcudaError\w+", parts[0]) or ["as the driver or the handle says"]
    forms = [shown(form) for form in STRING.findall(joined(parts[1]))] if len(parts) > 1 else []
    if forms == ["…"]:  # the sentence itself is an argument
        forms = [shown(form) for part in parts[2:] for form in STRING.findall(joined(part))]
    return code, [form for form in forms if re.search(r"[A-Za-z]{3}", form)]


def read(root):
    """By sentence: the codes and the areas that say it."""
    found = defaultdict(lambda: (set(), set()))
    for file in sorted((root / "src").rglob("*.c")):
        text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S)
        folder = str(file.relative_to(root / "src").parent)
        area = AREAS.get(folder) or AREAS[folder.split("/")[0]]
        for call in CALL.finditer(text):
            codes, sentences = sentences_of(arguments_of(text, call.end()))
            for sentence in sentences:
                found[sentence][0].update(codes)
                found[sentence][1].add(area)
    return found


def quoted(root):
    """The sentences of docs/errors.md."""
    cells = re.findall(r"^\| \*([^|]+)\* \|", (root / REMEDIES).read_text(), re.M)
    return [cell.replace("\\*", "*").replace("0x…", "…") for cell in cells]


def render(root):
    """The page."""
    remedied = set(quoted(root))
    rows = []
    found = read(root)
    for sentence in sorted(found, key=lambda s: (re.sub(r"[^a-z ]", "", s.lower()).strip(), s)):
        codes, areas = found[sentence]
        text = sentence.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
        mark = "› " if sentence in remedied else ""
        names = ", ".join(f"`{c}`" if "_" in c or c.startswith("cuda") else c for c in sorted(codes))
        rows.append(f"| {mark}{text} | {names} | {', '.join(sorted(areas))} |\n")
    return HEAD + "".join(rows) + FOOT


def problems(root):
    """What is wrong with the two pages."""
    wrong = [f"no source says: {sentence}" for sentence in quoted(root) if sentence not in read(root)]
    if not (root / PAGE).exists() or (root / PAGE).read_text() != render(root):
        wrong.append(f"{PAGE} is not up to date: `make errors-page` writes it anew")
    return wrong


def main(command):
    """Does what the command line says; True when it went well."""
    if command == "write":
        (ROOT / PAGE).write_text(render(ROOT))
    wrong = problems(ROOT)
    print("\n".join(wrong), end="\n" if wrong else "")
    return not wrong


if __name__ == "__main__":
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit(__doc__)
    sys.exit(0 if main(sys.argv[1]) else 1)
