# SPDX-License-Identifier: MIT
"""
Reads C sources without a compiler: what a file defines, includes and mentions.

It knows where functions, types and variables begin and end at the outermost level, which is enough to ask about names,
lengths and uses. Types, expressions and conditional code it does not understand: all branches of an #if are read.
"""

import re
from dataclasses import dataclass, field

SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:[^\n\\]|\\\n|\\.)*)", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
# What may have an argument list before a declaration's own name.
WITH_ARGUMENT = ("__attribute__", "_Atomic", "_Alignas", "_Static_assert", "__asm__", "__typeof__", "__declspec")


@dataclass
class Definition:
    """A name that a file defines. kind: function, variable, type, constant or macro."""
    name: str
    kind: str
    line: int
    static: bool = False
    lines: int = 0  # of a function, from its first line to its last


@dataclass
class Source:
    """What is known of a file. uses: what it mentions, but for declarations at the outermost level; words: all."""
    includes: list = field(default_factory=list)
    definitions: list = field(default_factory=list)
    uses: dict = field(default_factory=dict)
    words: set = field(default_factory=set)
    declared: dict = field(default_factory=dict)  # functions and variables that are elsewhere: name -> line


def blank(text):
    """As many lines, and nothing on them."""
    return "\n" * text.count("\n")


def without_arguments(text):
    """A declaration without attributes and the like, and what they are given."""
    out, at = "", 0
    for found in re.finditer(r"\b(?:" + "|".join(WITH_ARGUMENT) + r")\s*\(", text):
        if found.start() < at:
            continue
        end, depth = found.end(), 1
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        out, at = out + text[at:found.start()], end
    return out + text[at:]


def split_commas(text):
    """The parts of a declaration that commas separate at its outermost level."""
    parts, depth = [""], 0
    for char in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


class Scanner:
    """Goes through a text that has neither comments nor strings nor directives."""

    def __init__(self, text):
        self.text, self.source = text, Source()

    def use(self, text):
        """The words in a text are mentioned."""
        for word in WORD.findall(text):
            self.source.uses[word] = self.source.uses.get(word, 0) + 1

    def define(self, name, kind, at, **more):
        """A definition begins at a place of the text."""
        self.source.definitions.append(Definition(name, kind, self.text.count("\n", 0, at) + 1, **more))

    def end_of_braces(self, at):
        """Where the braces that open at a place are closed."""
        depth = 0
        for found in re.finditer(r"[{}]", self.text[at:]):
            depth += 1 if found[0] == "{" else -1
            if not depth:
                return at + found.end()
        return len(self.text)

    def after_macros(self, at, end):
        """Behind calls of macros that stand alone, before something else."""
        while True:
            found = re.compile(r"\s*([A-Z][A-Z0-9_]*)\s*\(").match(self.text, at, end)
            if not found:
                return at
            close, depth = found.end(), 1
            while close < end and depth:
                depth += {"(": 1, ")": -1}.get(self.text[close], 0)
                close += 1
            if not self.text[close:end].strip() or not re.match(r"[ \t]*\n", self.text[close:end]):
                return at
            self.use(self.text[found.start():close])
            at = close

    def declare(self, statement, start):
        """A declaration without a body, or with an initialiser that has been cut off."""
        plain = without_arguments(statement)
        words = WORD.findall(plain)
        prototype = re.match(r"[^(=]*?\b(\w+)\s*\((?!\s*\*)", plain)
        if prototype and words[0] != "typedef":
            self.source.declared[prototype[1]] = self.text.count("\n", 0, start) + 1
        if not words or words[0] == "extern" or "_Static_assert" in statement:
            return
        if words[0] == "typedef":
            pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", plain)
            self.define(pointer[1] if pointer else WORD.findall(re.sub(r"\([^()]*\)|\[[^\]]*\]", "", plain))[-1],
                        "type", start)
            return
        if re.search(r"\(", plain) and not re.match(r"[^(]*\(\s*\*", plain):
            return  # a prototype
        for part in split_commas(plain):
            pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*[\[)]", part)
            names = WORD.findall(re.sub(r"\[.*", "", part.split("=")[0]))
            if (pointer or len(names) > 0) and len(words) > 1:
                name = pointer[1] if pointer else names[-1]
                if not re.fullmatch(r"\s*(struct|union|enum)\s+\w+\s*", plain):
                    self.define(name, "variable", start, static="static" in words)

    def body(self, statement, start, opening, end):
        """What has a body: a function, a type, or something with an initialiser. Returns where to go on."""
        plain = without_arguments(statement)
        inside = self.text[opening:end]
        tag = re.search(r"\b(struct|union|enum)\s+(\w+)\s*$|\b(enum|struct|union)\s*$", plain)
        called = re.search(r"(\w+)\s*\(\s*(\w*)", plain)
        if called and plain.rstrip().endswith(")") and "=" not in plain:
            # TEST(name) { … }: what a macro makes has the name that it is given, and is not looked at.
            by_macro = called[1].isupper()
            static = by_macro or bool(re.search(r"\bstatic\b", plain))
            lines = self.text.count("\n", start, end) + 1
            self.define(called[2] if by_macro else called[1], "function", start, static=static, lines=lines)
            self.use(plain.split("(", 1)[1] + inside)
            return end
        if tag and "=" not in plain:
            if tag[2]:
                self.define(tag[2], "type", start)
            if "enum" in tag[0]:
                for item in split_commas(inside[1:-1]):
                    word = WORD.search(item)
                    if word:
                        self.define(word[0], "constant", start)
            self.use(inside)
        else:
            self.use(inside)
        semicolon = self.text.find(";", end)
        rest = self.text[end:semicolon] if semicolon >= 0 else ""
        if rest.strip() or "=" in plain or "typedef" in plain:
            self.declare(plain.split("=")[0] + " " + rest.split("=")[0], start)
            self.use(rest)
        return semicolon + 1 if semicolon >= 0 else end

    def scan(self):
        """All of it."""
        at = 0
        while True:
            found = re.compile(r"[;{]").search(self.text, at)
            if not found:
                return self.source
            at = self.after_macros(at, found.start())
            statement = self.text[at:found.start()]
            start = at + len(statement) - len(statement.lstrip())
            if found[0] == ";":
                if "=" in statement:
                    self.use(statement.split("=", 1)[1])
                self.declare(statement, start)
                at = found.end()
            elif 'extern' in statement and not WORD.findall(statement.replace("extern", "", 1)):
                at = found.end()  # extern "C": its end is a stray brace
            else:
                at = self.body(statement, start, found.start(), self.end_of_braces(found.start()))


def scan(text):
    """What a C file's text defines, includes and mentions."""
    def keep_strings(found):
        return found[0] if found[0][0] == '"' else " " + blank(found[0])

    commentless = SKIPPED.sub(keep_strings, text)
    includes = [(commentless.count("\n", 0, f.start()) + 1, f[1]) for f in INCLUDE.finditer(commentless)]
    bare = SKIPPED.sub(lambda f: '""' if f[0][0] == '"' else " " + blank(f[0]), text)
    scanner = Scanner(DIRECTIVE.sub(lambda f: blank(f[0]), bare).replace('""', "  "))
    source = scanner.scan()
    source.includes = includes
    source.words = set(WORD.findall(re.sub(r"#[ \t]*define[ \t]+\w+", "", bare)))
    for directive in DIRECTIVE.finditer(bare):
        name = WORD.search(directive[2])
        if directive[1] == "define" and name:
            line = bare.count("\n", 0, directive.start()) + 1
            source.definitions.append(Definition(name[0], "macro", line))
            scanner.use(directive[2][name.end():])
        elif directive[1] in ("if", "elif", "ifdef", "ifndef"):
            scanner.use(directive[2])
    return source
