# SPDX-License-Identifier: MIT
"""
Reads C headers: enums, structs, unions, typedefs, functions and macros, as the compiler's preprocessor shows them.

It understands declarations, not expressions or statements: enough for headers, and nothing but a C compiler is needed.
What a type's size or a macro's value is, the compiler is asked (abi_table.py).
"""

import os
import re
import subprocess
from dataclasses import dataclass, field
from typing import Optional

TOKEN = re.compile(r'^# (?P<line>\d+) "(?P<file>[^"]*)"[^\n]*$|^\s*#[^\n]*$|(?P<word>[A-Za-z_]\w*)|'
                   r'(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)|(?P<text>"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')|'
                   r"(?P<mark>\.\.\.|<<|>>|[^\s\w])", re.M)
BASE_WORDS = set("void char short int long signed unsigned float double _Bool _Complex __int128 __signed__ "
                 "_Float16 _Float32 _Float64 _Float128 _Float32x _Float64x __builtin_va_list".split())
QUALIFIERS = {"const": "const", "volatile": "volatile", "__const": "const", "__volatile__": "volatile",
              "restrict": "", "__restrict": "", "__restrict__": "", "_Atomic": "_Atomic", "__extension__": ""}
STORAGE = set("typedef extern static inline __inline __inline__ _Noreturn register _Thread_local __thread".split())
WITH_ARGUMENT = set("__attribute__ __attribute _Alignas __asm__ __asm asm __declspec".split())


@dataclass
class Enum:
    """An enum with the names of its enumerants."""
    name: Optional[str]
    enumerants: list
    file: str


@dataclass
class Member:
    """A member of a record: with a type, or with a record of its own (and then perhaps without a name)."""
    name: Optional[str]
    type: Optional[str]
    record: Optional["Record"] = None
    is_array: bool = False
    is_bits: bool = False


@dataclass
class Record:
    """A struct or union."""
    name: Optional[str]
    members: list
    file: str


@dataclass
class Typedef:
    """A name for a type; the type's text is empty where the name is the only one that the type has."""
    name: str
    type: str
    file: str


@dataclass
class Function:
    """A function's declaration."""
    name: str
    result: str
    parameters: list
    is_static: bool
    file: str


@dataclass
class Header:
    """What the headers declare."""
    enums: list = field(default_factory=list)
    records: list = field(default_factory=list)
    typedefs: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    skipped: list = field(default_factory=list)

    def of(self, directory):
        """Only what comes from the files of a directory."""
        root = os.path.realpath(directory) + os.sep

        def inside(things):
            return [t for t in things if os.path.realpath(t.file).startswith(root)]
        return Header(*map(inside, (self.enums, self.records, self.typedefs, self.functions, self.skipped)))


@dataclass
class Skipped:
    """A declaration that the parser did not understand, and why."""
    reason: str
    file: str


class Unexpected(Exception):
    """A declaration that the parser does not understand."""


class Parser:
    """A recursive descent over the tokens of a preprocessed file."""

    def __init__(self, text):
        self.tokens = []
        file = ""
        for match in TOKEN.finditer(text):
            if match["file"] is not None:
                file = match["file"]
            elif match.lastgroup:
                self.tokens.append((match[match.lastgroup], file))
        self.at = 0
        self.header = Header()

    def peek(self, ahead=0):
        """The text of a token, "" after the last."""
        return self.tokens[self.at + ahead][0] if self.at + ahead < len(self.tokens) else ""

    def take(self, *expected):
        """The next token's text; one of those expected, where any are given."""
        token = self.peek()
        if not token or (expected and token not in expected):
            raise Unexpected(f"{token!r} instead of {' or '.join(expected)}")
        self.at += 1
        return token

    def balanced(self):
        """The text between a bracket, which comes next, and the one that closes it."""
        start, depth = self.at, 0
        while True:
            token = self.take()
            depth += token in "([{"
            depth -= token in ")]}"
            if depth == 0:
                return " ".join(t for t, _ in self.tokens[start + 1:self.at - 1])

    def attributes(self):
        """Steps over attributes and the like."""
        while self.peek() in WITH_ARGUMENT or self.peek() == "__extension__":
            if self.take() != "__extension__":
                self.balanced()

    def parse(self):
        """All declarations of the file. One that is not understood is noted and stepped over."""
        while self.peek():
            start = self.at
            try:
                self.declaration()
            except Unexpected as reason:
                words = " ".join(t for t, _ in self.tokens[start:start + 12])
                self.header.skipped.append(Skipped(f"{words} …: {reason}", self.tokens[start][1]))
                self.at = start
                self.skip_declaration()
        return self.header

    def skip_declaration(self):
        """Steps over one declaration or function."""
        while self.peek() and self.peek() != ";":
            if self.peek() in "([{":
                body = self.peek() == "{"
                self.balanced()
                if body and self.peek() not in (";", ",", "__attribute__") and not re.match(r"\w", self.peek()):
                    return
            else:
                self.at += 1
        self.at += 1

    def declaration(self):
        """One declaration at the top of the file."""
        if self.peek() == ";":
            self.take()
            return
        if self.peek() in ("_Static_assert", "__asm__"):
            self.skip_declaration()
            return
        file = self.tokens[self.at][1]
        storage, base, defined = self.specifiers()
        while self.peek() != ";":
            name, before, after, parameters = self.declarator()
            if name is None:
                raise Unexpected("a declaration without a name")
            if "typedef" in storage:
                self.name_type(name, base, before + after, defined, file)
            elif parameters is not None:
                self.header.functions.append(Function(name, join(base, before), parameters, "static" in storage, file))
            self.attributes()
            if self.peek() == "{":
                self.balanced()
                return
            if self.peek() == "=":
                while self.peek() not in (",", ";"):
                    if self.peek() in ("(", "{", "["):
                        self.balanced()
                    else:
                        self.take()
            if self.take(",", ";") == ";":
                return
        self.take(";")

    def name_type(self, name, base, shape, defined, file):
        """A typedef. A type without a tag takes its first name from it."""
        if defined is not None and defined.name is None and not shape:
            defined.name = name
            base = ""
        self.header.typedefs.append(Typedef(name, join(base, shape), file))

    def specifiers(self):
        """Storage words, the type's text, and the enum or record that is defined on the way."""
        storage, words, defined, typed = set(), [], None, False
        while True:
            self.attributes()
            token = self.peek()
            if token in STORAGE:
                storage.add(self.take())
            elif token in QUALIFIERS:
                words += [QUALIFIERS[self.take()]]
            elif token in BASE_WORDS:
                words += [self.take()]
                typed = True
            elif token in ("struct", "union", "enum") and not typed:
                text, defined = self.tagged()
                words += [text]
                typed = True
            elif token in ("__typeof__", "typeof", "__typeof") and not typed:
                words += [self.take() + "(" + self.balanced() + ")"]
                typed = True
            elif re.match(r"[A-Za-z_]", token) and not typed:
                words += [self.take()]
                typed = True
            else:
                break
        if not typed:
            raise Unexpected(f"{token!r} where a type must begin")
        return storage, " ".join(w for w in words if w), defined

    def tagged(self):
        """struct, union or enum: its text, and what it defines if it has a body."""
        file = self.tokens[self.at][1]
        kind = self.take()
        self.attributes()
        tag = self.take() if re.match(r"[A-Za-z_]", self.peek()) else None
        self.attributes()
        text = f"{kind} {tag}" if tag else ""
        if self.peek() != "{":
            return text, None
        if kind == "enum":
            defined = Enum(text or None, self.enumerants(), file)
            self.header.enums.append(defined)
        else:
            defined = Record(text or None, self.members(), file)
            self.header.records.append(defined)
        return text, defined

    def enumerants(self):
        """The names between the braces of an enum."""
        names = []
        self.take("{")
        while self.peek() != "}":
            names.append(self.take())
            while self.peek() not in (",", "}"):
                if self.peek() == "(":
                    self.balanced()
                else:
                    self.take()
            if self.peek() == ",":
                self.take()
        self.take("}")
        return names

    def members(self):
        """The members between the braces of a struct or union."""
        members = []
        self.take("{")
        while self.peek() != "}":
            if self.peek() == ";":
                self.take()
                continue
            _, base, defined = self.specifiers()
            if self.peek() == ";":
                members.append(Member(None, None, defined))
            while self.peek() != ";":
                name, before, after, _ = self.declarator()
                member = Member(name, join(base, before + after) if base else None, None, "[" in after)
                if isinstance(defined, Record) and not before:
                    member.record = defined
                if self.peek() == ":":
                    self.take()
                    self.take()
                    member.is_bits = True
                self.attributes()
                members.append(member)
                if self.peek() == ",":
                    self.take()
            self.take(";")
        self.take("}")
        return members

    def declarator(self):
        """The declared name (or None), the type's text before and after it, and a function's parameter types."""
        before, after, name, parameters, nested = "", "", None, None, False
        while True:
            self.attributes()
            if self.peek() == "*":
                before += self.take()
            elif self.peek() in QUALIFIERS:
                before += (" " + QUALIFIERS[self.take()]).rstrip() + " "
            else:
                break
        if self.peek() == "(" and (self.peek(1) in ("*", "(") or self.peek(1) in WITH_ARGUMENT):
            self.take("(")
            name, inner_before, inner_after, _ = self.declarator()
            self.take(")")
            nested = True
        elif re.match(r"[A-Za-z_]", self.peek()):
            name = self.take()
        while self.peek() in ("[", "("):
            if self.peek() == "[":
                after += "[" + self.balanced() + "]"
            else:
                types = self.parameters()
                if not nested and not after:
                    parameters = types
                after += "(" + ", ".join(types) + ")"
        self.attributes()
        if nested:
            return name, before + "(" + inner_before, inner_after + ")" + after, None
        return name, before, after, parameters

    def parameters(self):
        """The types of a function's parameters."""
        types = []
        self.take("(")
        while self.peek() != ")":
            if self.peek() == "...":
                types.append(self.take())
            else:
                _, base, _ = self.specifiers()
                _, before, after, _ = self.declarator()
                types.append(join(base, before + after))
            if self.peek() == ",":
                self.take()
        self.take(")")
        return types


def join(base, shape):
    """A type's text from its two halves."""
    return f"{base} {shape}".strip() if shape else base


def preprocess(compiler, directory, source, *options):
    """What the preprocessor makes of a source text, with a directory of headers before all others."""
    command = [*compiler, "-std=gnu11", "-E", "-xc", "-I", str(directory), *options, "-"]
    return subprocess.run(command, input=source, text=True, check=True, stdout=subprocess.PIPE).stdout


def including(headers):
    """A source text that includes some headers."""
    return "".join(f"#include <{header}>\n" for header in headers)


def read_headers(compiler, directory, headers):
    """What the headers of a directory declare, and everything that they see declared by others."""
    everything = Parser(preprocess(compiler, directory, including(headers))).parse()
    ours = everything.of(directory)
    for skipped in ours.skipped:
        raise Unexpected(f"{skipped.file}: {skipped.reason}")
    return ours, everything


def read_macros(compiler, directory, headers):
    """The names of the macros without parameters that a directory's headers define, in order."""
    root = os.path.realpath(directory) + os.sep
    names, inside = {}, False
    for line in preprocess(compiler, directory, including(headers), "-dD").splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            inside = os.path.realpath(marker[1]).startswith(root)
        define = re.match(r"#define (\w+)(?: |$)", line)
        if define and inside:
            names[define[1]] = True
        undefine = re.match(r"#undef (\w+)", line)
        if undefine:
            names.pop(undefine[1], None)
    return list(names)


def expand(compiler, directory, headers, names, *options):
    """What each of some names becomes in a program that includes the headers."""
    source = including(headers) + "".join(f'@@ "{name}" {name}\n' for name in names)
    text = preprocess(compiler, directory, source, "-P", *options)
    return dict(re.findall(r'^@@ "(\w+)" ?(.*)$', text, re.M))
