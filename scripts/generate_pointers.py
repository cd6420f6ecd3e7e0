#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Makes from the prototypes of all calls, and from src/pointers.list, what stands between a program's pointers and the
calls: a function before each call that checks them (base/guard.h).

    generate_pointers.py slots ROOT OUT          assembler: the driver's functions, each with where it leads at first
    generate_pointers.py driver ROOT OUT         C: the checks before the driver's functions
    generate_pointers.py runtime ROOT OUT        C: the runtime's functions, as checks before runtime_…
    generate_pointers.py driver-calls ROOT OUT   C: the names of the driver's functions and of Cenote's own, by address
    generate_pointers.py runtime-calls ROOT OUT  C: the same of the runtime
    generate_pointers.py test ROOT OUT           C: a call of everything with each pointer wrong
    generate_pointers.py table ROOT OUT          docs/pointers.md with its table made anew; ROOT's own is the pattern

A call without a pointer that has to be checked before has no such function. ROOT is the sources' folder.
"""

import re
import sys
from collections import namedtuple
from pathlib import Path

from generate_api import (Prototype, Wrong, c_file, header_text, own_name, parameter_name, read_list, read_plain,
                          read_prototypes, significant_lines, split_parameters, symbols)

# A parameter that is a pointer: what is done with it, and how much of it there is (an expression of C).
Pointer = namedtuple("Pointer", "parameter name kind amount")
# A call: as in api.list, with the library "cenote" for Cenote's own. `names` are those of our functions behind its
# symbols, `function` its row in api.list.
Call = namedtuple("Call", "library symbols names prototype pointers function")

CHECKED = ("in", "out", "array", "string")
KINDS = {"in": True, "out": True, "array": True, "address": False, "self": False, "room": False, "record": False}
FORMS = ("src/driver/entry/entry.c", "src/driver/host/forms.c", "src/driver/host/forms_narrow.c")
TABLE = re.compile(r"(?<=<!-- made by scripts/generate_pointers.py -->\n).*?(?=<!-- end -->)", re.S)

SAID = {
    "in": "read, {}", "out": "written, {}", "array": "read, {} items", "string": "read, to the end of the string",
    "address": "not followed", "self": "checked inside the call",
    "room": "checked inside the call, as far as it is written", "record": "not checked",
}


def read_rows(path):
    """The rows of pointers.list, by symbol and parameter."""
    rows = {}
    for number, line in significant_lines(path):
        fields = line.split(None, 3)
        if len(fields) < 3 or fields[2] not in KINDS or KINDS[fields[2]] != (len(fields) == 4):
            raise Wrong(f"{path}:{number}: not a line of the form call parameter kind [expression]")
        rows[fields[0], fields[1]] = (fields[2], fields[3] if len(fields) == 4 else "")
    return rows


def plain_kind(parameter, name):
    """What the type of a pointer says of its use; None: it does not say."""
    stars = parameter.count("*")
    is_const = parameter.startswith("const ")
    base = re.sub(r"\b(const|struct|enum)\b", "", parameter.split("*")[0]).strip()
    if base == "char" and is_const and stars == 1:
        return "string", ""
    if base in ("void", "char") and stars == 1:
        return None
    return "in" if is_const and stars == 1 else "out", f"sizeof *{name}"


def read_pointers(symbol, prototype, rows):
    """The pointers of a call."""
    pointers = []
    for parameter in prototype.parameters:
        if "*" not in parameter or "(" in parameter:
            continue
        name = parameter_name(parameter)
        found = rows.pop((symbol, name), None) or plain_kind(parameter, name)
        if not found:
            raise Wrong(f"src/pointers.list: no line says what {symbol} does with {name}")
        pointers.append(Pointer(parameter, name, *found))
    return pointers


def form_prototypes(root):
    """The prototypes of the forms that no header has, by symbol. NARROW makes functions without parameters."""
    prototypes = {}
    for path in FORMS:
        text = header_text(root / path)
        for symbol, parameters in re.findall(r"\b(?:FORM|SAME)\(\s*host_(\w+),\s*\(([^()]*)\)", text) + \
                re.findall(r"^CUresult own_(\w+)\(([^()]*)\);$", text, re.M):
            prototypes[symbol] = Prototype("CUresult", split_parameters(parameters))
        for symbol, value in re.findall(r"\bGONE\(host_(\w+), (\w+)\)", text):
            prototypes[symbol] = Prototype("CUresult", split_parameters(
                f"CUstream stream, CUdeviceptr address, {value} value, unsigned int flags"))
    return prototypes


def own_calls(root):
    """Cenote's own calls that a program may make, with their prototypes."""
    text = header_text(root / "include/cenote/cenote.h")
    for name in read_plain(root / "src/cenote.list"):
        match = re.search(r"CENOTE_API ([\w\s*]+?)\b" + name + r"\s*\(((?:[^()]|\([^()]*\))*)\)", text)
        if match:
            yield name, Prototype(" ".join(match[1].split()), split_parameters(match[2]))


def read_calls(root):
    """All calls, in the order of the lists."""
    functions = read_list(root / "src/api.list")
    rows = read_rows(root / "src/pointers.list")
    declared = read_prototypes([f for f in functions if f.state != "form"], root / "include/cenote")
    forms = form_prototypes(root)
    calls = []
    for function in functions:
        if function.state == "form":
            prototype = forms.get(function.symbol, Prototype("CUresult", []))
        else:
            prototype = declared[function.name]
        pointers = read_pointers(function.symbol, prototype, rows)
        if function.library == "driver":
            names = [own_name(function, s) for s in symbols(function)]
        else:
            names = [f"runtime_{s}" if has_checked(pointers) else s for s in symbols(function)]
        calls.append(Call(function.library, symbols(function), names, prototype, pointers, function))
    for name, prototype in own_calls(root):
        calls.append(Call("cenote", [name], [name], prototype, read_pointers(name, prototype, rows), None))
    for symbol, name in rows:
        raise Wrong(f"src/pointers.list: {symbol} has no pointer {name}")
    return calls


def has_checked(pointers):
    """Is one of them checked before the call?"""
    return any(p.kind in CHECKED for p in pointers)


def is_checked(call):
    """Does a check stand before the call?"""
    return call.library != "cenote" and has_checked(call.pointers)


def check(pointer):
    """The condition of C that a pointer is good."""
    if pointer.kind == "string":
        return f'cn_guard_check_string({pointer.name}, "{pointer.name}")'
    if pointer.kind == "array":
        return f'cn_guard_check_array({pointer.name}, {pointer.amount}, sizeof *{pointer.name}, "{pointer.name}")'
    verb = {"in": "read", "out": "write"}[pointer.kind]
    return f'cn_guard_check_{verb}({pointer.name}, {pointer.amount}, "{pointer.name}")'


def checking(call, name, refusal, target):
    """A function that checks the pointers of a call, and calls it."""
    checks = " &&\n\t      ".join(check(p) for p in call.pointers if p.kind in CHECKED)
    arguments = ", ".join(parameter_name(p) for p in call.prototype.parameters)
    return (f"{call.prototype.result} {name}({', '.join(call.prototype.parameters)})\n{{\n"
            f"\tif (!({checks}))\n\t\treturn {refusal};\n\treturn {target}({arguments});\n}}\n")


def declaration(call, name):
    """A declaration with the type of a call."""
    return f"{call.prototype.result} {name}({', '.join(call.prototype.parameters) or 'void'});\n"


def slots(calls):
    """The rows of src/driver/entry/slots.S."""
    return "".join(f"\tSLOT\t{s}, {f'checked_{s}' if is_checked(c) else name}\n"
                   for c in calls if c.library == "driver" for s, name in zip(c.symbols, c.names))


def plain_slots(calls):
    """The slots on machines that have no jumps (base/jump.h): functions that call through them."""
    body, slot_rows, entry_rows = "", "", ""
    for call in (c for c in calls if c.library == "driver"):
        for symbol, name in zip(call.symbols, call.names):
            place = slot_rows.count("\n")
            target = f"((__typeof__(&{name}))cn_slots[{place}])"
            arguments = ", ".join(parameter_name(p) for p in call.prototype.parameters)
            parameters = ", ".join(call.prototype.parameters) or "void"
            body += (f"#undef {symbol}\n{declaration(call, name)}__attribute__((visibility(\"default\"))) "
                     f"{declaration(call, symbol)}{call.prototype.result} {symbol}({parameters})\n"
                     f"{{\n\treturn {target}({arguments});\n}}\n")
            slot_rows += f"\t(void *){f'checked_{symbol}' if is_checked(call) else name},\n"
            entry_rows += f"\t(void *){symbol},\n"
    return (f"#if !CN_HAS_JUMPS\n{body}void *cn_slots[] = {{\n{slot_rows}}};\n"
            f"void *const cn_slots_entries[] = {{\n{entry_rows}}};\n#endif")


def driver(calls):
    """The checks before the driver's functions, and cn_behind of src/driver/gpu/gpu.h."""
    body, rows = "", ""
    for call in (c for c in calls if c.library == "driver"):
        for symbol, name in zip(call.symbols, call.names):
            if not is_checked(call):
                rows += "\tNULL,\n"
                continue
            place = rows.count("\n")
            body += declaration(call, name) + declaration(call, f"checked_{symbol}")
            body += checking(call, f"checked_{symbol}", "CUDA_ERROR_INVALID_VALUE",
                             f"((__typeof__(&{name}))cn_behind[{place}])") + "\n"
            rows += f"\t(void *){name},\n"
    redeclared = '#pragma GCC diagnostic ignored "-Wredundant-decls"\n'  # forms are in no header
    return c_file(redeclared + '#pragma GCC diagnostic ignored "-Wpedantic"\n\n' + body
                  + f"void *cn_behind[] = {{\n{rows}}};\n\n" + plain_slots(calls),
                  '"base/guard.h"', '"base/jump.h"', '"driver/gpu/gpu.h"')


def runtime(calls):
    """The runtime's functions that have a check before them."""
    body = ""
    for call in (c for c in calls if c.library == "runtime" and is_checked(c)):
        for symbol, name in zip(call.symbols, call.names):
            body += checking(call, symbol, "cn_runtime_error(cudaErrorInvalidValue)", name) + "\n"
    return c_file(body, '"base/guard.h"', '"runtime/runtime.h"')


def call_table(table, rows, header):
    """A table of src/base/call.h: rows of a name and a symbol."""
    # By their symbols: in C a name is the headers' form, and most others are not declared.
    declarations = "".join(f'extern void call_{s}(void) __asm__("{s}");\n' for _, s in rows)
    entries = "".join(f'\t{{"{name}", (void *)call_{s}}},\n' for name, s in rows)
    return c_file('#pragma GCC diagnostic ignored "-Wpedantic"\n\n' + declarations
                  + f"\nconst struct cn_call {table}[] = {{\n{entries}\t{{NULL, NULL}},\n}};",
                  "<stddef.h>", '"base/call.h"', f'"{header}"')


def call_rows(calls, library):
    """Each function as a programmer writes it, with its symbols: itself, and the check before it."""
    check_prefix = {"driver": "checked_", "runtime": ""}[library]
    return [(c.function.name, row) for c in calls if c.library == library for s, name in zip(c.symbols, c.names)
            for row in ([name, check_prefix + s] if is_checked(c) else [name])]


def driver_calls(calls):
    """The table cn_driver_calls of src/driver/entry/entry.h: the driver's functions, and Cenote's own."""
    rows = call_rows(calls, "driver")
    return call_table("cn_driver_calls", rows + [(c.symbols[0], c.symbols[0]) for c in calls if c.library == "cenote"],
                      "driver/entry/entry.h")


def runtime_calls(calls):
    """The table cn_runtime_calls of src/runtime/runtime.h."""
    return call_table("cn_runtime_calls", call_rows(calls, "runtime"), "runtime/runtime.h")


def said(pointer):
    """What the table says of a pointer."""
    amount = pointer.amount
    if amount.startswith("sizeof *"):
        amount = "its size"
    elif amount.isdigit():
        amount += " bytes"
    elif amount:
        amount = f"`{amount}`" + ("" if pointer.kind == "array" else " bytes")
    return SAID[pointer.kind].format(amount)


def table(calls, root):
    """docs/pointers.md."""
    rows = "| call | pointer | what is done with it |\n|---|---|---|\n"
    for call in calls:
        for i, pointer in enumerate(call.pointers):
            name = "" if i else f"`{call.symbols[0]}`"
            rows += f"| {name} | `{pointer.name}` | {said(pointer)} |\n"
    return TABLE.sub(lambda _: "\n" + rows + "\n", (root / "docs/pointers.md").read_text())


# ---- The test --------------------------------------------------------------------------------------------------------

def good(parameter):
    """An argument as good as one can be without knowing the call; see tests/processes/pointers.h."""
    if "*" in parameter and "(" not in parameter:
        return "(void *)good_memory"
    base = re.sub(r"\b(const|struct|enum)\b", "", re.sub(r"\w+$", "", parameter)).strip()
    return f"GOOD_{re.sub(r'[^A-Za-z0-9]+', '_', base)}" if "(" not in parameter else "NULL"


def test_call(call, symbol, wrong, number):
    """A function that makes a call with one pointer wrong."""
    arguments = []
    for parameter in call.prototype.parameters:
        if parameter == wrong.parameter:
            arguments.append("wrong")
        else:
            arguments.append(good(parameter))
    body = f"{symbol}({', '.join(arguments)})"
    body = f"\treturn (int){body};\n" if call.prototype.result in ("CUresult", "cudaError_t") else \
        f"\t{body};\n\treturn -1;\n"
    return f"static int call_{number}(void *wrong)\n{{\n{body}}}\n"


def test(calls):
    """The table that tests/processes/pointers_test.c walks."""
    body, rows, number = "", "", 0
    for call in calls:
        for symbol in call.symbols if call.pointers else []:
            if call.library != "cenote":
                body += "#undef " + symbol + "\n" + declaration(call, symbol)
            for pointer in call.pointers:
                if pointer.kind == "record":
                    continue
                body += test_call(call, symbol, pointer, number)
                rows += (f'\t{{"{symbol}", "{pointer.name}", {str(pointer.kind not in ("address", "room")).lower()}, '
                         f'{str(pointer.kind == "self").lower()}, call_{number}}},\n')
                number += 1
    redeclared = '#pragma GCC diagnostic ignored "-Wredundant-decls"\n'
    return c_file(redeclared + body + f"\nconst struct wrong_call wrong_calls[] = {{\n{rows}}};\n"
                  "const int wrong_call_count = (int)(sizeof wrong_calls / sizeof wrong_calls[0]);",
                  '"pointers.h"')


def run(arguments):
    """Does what the command line says."""
    command, root, out = arguments
    root = Path(root)
    calls = read_calls(root)
    makers = {"slots": slots, "driver": driver, "runtime": runtime, "test": test,
              "driver-calls": driver_calls, "runtime-calls": runtime_calls,
              "table": lambda c: table(c, root)}
    if command not in makers:
        raise Wrong(f"no command {command}\n{__doc__}")
    Path(out).write_text(makers[command](calls))


if __name__ == "__main__":
    try:
        run(sys.argv[1:])
    except ValueError:
        sys.exit(__doc__)
    except Wrong as wrong_input:
        sys.exit(f"generate_pointers.py: {wrong_input}")
