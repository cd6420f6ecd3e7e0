#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Makes from tools/trace/calls.list what `cenote trace` needs of it.

    generate_trace.py acts CALLS_LIST OUT            C: ACT(name) for each meaning of a call
    generate_trace.py calls CALLS_LIST OUT           C: CALL(name, act, is_runtime) for each call
    generate_trace.py functions CALLS_LIST API_LIST CENOTE_H HEADER_DIR OUT
                                                     C: the functions that stand in front
    generate_trace.py map CALLS_LIST API_LIST OUT    version script of libcenote-trace.so

The runtime's functions have the symbol version of NVIDIA's libcudart.so.13, as libcenote.so's have, so that a program
over another version of the runtime is left alone. The driver's and Cenote's have none, and stand in front of all.
"""

import re
import sys
from collections import namedtuple
from pathlib import Path

import generate_api as api

Call = namedtuple("Call", "name parameters act before after learns wraps")
Symbol = namedtuple("Symbol", "symbol call prototype per_thread")

FIELDS = ("stream", "pool", "event", "address", "source", "bytes", "object", "handle")
# What is learnt from a call, also from one that is not recorded.
LEARNS = ("name(", "image(", "file(")
# What is put into a stream, and may be delayed.
SUBMIT = ("copy", "fill", "launch", "record", "allocate", "free")
# Older forms of these, which the headers do not declare, take the same arguments.
SAME = ("cuStreamDestroy", "cuEventDestroy", "cuIpcOpenMemHandle", "cuStreamWaitValue32", "cuStreamWaitValue64",
        "cuStreamWriteValue32", "cuStreamWriteValue64", "cuStreamBatchMemOp")


def is_late(value):
    """Can a value be looked at only when the call has succeeded? An argument itself is there at once."""
    return not value.startswith("blob(&") and (value.startswith("*") or "->" in value or "(" in value)


def wrap(function, data, kind):
    """The statements that put a host function of ours in place of the caller's."""
    return [f"void *wrapped = cn_trace_host_wrap(&call, (void *){function}, {data});",
            f"{data} = wrapped ? wrapped : {data};",
            f"{function} = wrapped ? cn_trace_{kind}_run : {function};"]


def delay(call, per_thread):
    """The statement that may let the stream of a call pause before it."""
    stream = next((re.search(r"= (.*);", s).group(1) for s in call.before if "->stream =" in s), None)
    return [f"\tcn_trace_delay({stream}, {str(per_thread).lower()});"] if call.act in SUBMIT and stream else []


def read_calls(path):
    """The calls of calls.list, in its order."""
    calls = []
    for number, line in api.significant_lines(path):
        name, act, *values = line.split()
        name, parameters = re.fullmatch(r"(\w+)(?:\((.*)\))?", name).groups()
        before, after, learns, words, wraps = [], [], [], [], []
        for value in values:
            if value.startswith("+") and "(" in value:
                after.append(f"cn_trace_{value[1:].replace('(', '(&call, ', 1)};")
                continue
            if value.startswith("+"):
                words.append(f"CN_NUMBER({value[1:]})")
                continue
            if value.startswith("wrap("):
                wraps = wrap(*value[5:-1].split(","))
                continue
            field, _, expression = value.partition("=")
            if not expression and field.startswith(LEARNS):
                learns.append(f"cn_trace_{field};")
                continue
            if field not in FIELDS or not expression:
                raise api.Wrong(f"{path}:{number}: {value}")
            late = is_late(expression)
            expression = re.sub(r"\b(blob|descriptor|made|given|pool_of|file_of)\(", r"cn_trace_\1(", expression)
            (after if late else before).append(f"call.record->{field} = CN_NUMBER({expression});")
        if words:
            after.append(f"cn_trace_words(&call, (uint64_t[]){{{', '.join(words)}}}, {len(words)});")
        calls.append(Call(name, parameters, act, before, after, learns, wraps))
    return calls


def acts(calls):
    """All meanings, each once."""
    return "".join(f"ACT({act})\n" for act in dict.fromkeys(call.act for call in calls))


def table(calls):
    """The calls as the command sees them."""
    return "".join(f"CALL({c.name}, CN_ACT_{c.act}, {int(c.name.startswith('cuda'))})\n" for c in calls)


def cenote_prototypes(path):
    """The prototypes of cenote.h, by name."""
    found = re.findall(r"CENOTE_API\s+(\w[\w\s*]*?)(\w+)\(([^;]*)\)(?:\s*__attribute__[^;]*)?;", api.header_text(path))
    return {name: api.Prototype(result.strip(), api.split_parameters(parameters)) for result, name, parameters in found}


def own_prototype(call):
    """That of a call whose line has its arguments."""
    types = api.split_parameters(call.parameters)
    return api.Prototype("CUresult", [f"{kind} argument{i}" for i, kind in enumerate(types)])


def forms(call, functions):
    """The functions of api.list that take a call's arguments."""
    return [f for f in functions if f.name == call.name and (f.state != "form" or call.name in SAME)]


def symbols(calls, functions, prototypes):
    """Every symbol that is to be stood in front of."""
    found = []
    for call in calls:
        if call.parameters is not None:
            found.append(Symbol(call.name, call, own_prototype(call), False))
        elif call.name.startswith("cenote_"):
            found.append(Symbol(call.name, call, prototypes[call.name], False))
        for form in forms(call, functions) if call.parameters is None else ():
            found += [Symbol(s, call, prototypes[call.name], s == form.thread) for s in api.symbols(form)]
    return found


def learn(call, result, arguments):
    """The lines of a call that is not recorded, and that something is learnt from."""
    return [f"\t\t{result} result = next({arguments});", "\t\tif (!result) {",
            *(f"\t\t\t{statement}" for statement in call.learns), "\t\t}", "\t\treturn result;", "\t}"]


def function(symbol):
    """One function that stands in front of another."""
    call, parameters = symbol.call, ", ".join(symbol.prototype.parameters) or "void"
    arguments = ", ".join(api.parameter_name(p) for p in symbol.prototype.parameters)
    result = symbol.prototype.result
    flags = "CN_TRACE_PER_THREAD" if symbol.per_thread else "CN_TRACE_OPEN" if call.name.startswith("cenote_") else "0"
    lines = [f'CN_SHOWN {result} front_{symbol.symbol}({parameters}) __asm__("{symbol.symbol}");',
             f"{result} front_{symbol.symbol}({parameters})", "{",
             "\tstruct cn_trace_call call;",
             f"\t__typeof__(front_{symbol.symbol}) *next = cn_trace_next(SYMBOL_{symbol.symbol});", "",
             "\tif (!next)", f"\t\treturn ({result})CN_TRACE_NOTHING_BEHIND;", *delay(call, symbol.per_thread),
             *(["\tcn_trace_watch();"] if call.act == "launch" else []),
             f"\tif (!cn_trace_begin(&call, CN_CALL_{call.name}, {flags}))" + (" {" if call.learns else "")]
    lines += learn(call, result, arguments) if call.learns else [f"\t\treturn next({arguments});"]
    lines += [f"\t{statement}" for statement in call.before + call.wraps]
    lines += ["\tcn_trace_call_begins(&call);", f"\t{result} result = next({arguments});"]
    if call.after or call.learns:
        lines += ["\tif (cn_trace_call_ends(&call, (int)result) && !result) {",
                  *(f"\t\t{statement}" for statement in call.after + call.learns), "\t}"]
    else:
        lines += ["\tcn_trace_call_ends(&call, (int)result);"]
    lines += [f"\tcn_trace_end(&call, CN_ACT_{call.act});", "\treturn result;", "}"]
    return "\n".join(lines) + "\n"


def functions(calls, listed, prototypes):
    """All of them, and the table that leads from one to what it stands in front of."""
    all_symbols = symbols(calls, listed, prototypes)
    enum = "".join(f"\tSYMBOL_{s.symbol},\n" for s in all_symbols)
    rows = "".join(f'\t{{"{s.symbol}", (void *)front_{s.symbol}, NULL}},\n' for s in all_symbols)
    text = (f"enum {{\n{enum}}};\n\n" + "\n".join(map(function, all_symbols))
            + f"\nstruct cn_trace_symbol cn_trace_symbols[] = {{\n{rows}}};\n"
            + "const size_t cn_trace_symbol_count = sizeof cn_trace_symbols / sizeof cn_trace_symbols[0];")
    return api.c_file('#pragma GCC diagnostic ignored "-Wpedantic"\n' + text,
                      '"trace.h"')


def version_script(calls, listed):
    """The runtime's functions have a version; what is not named here has none."""
    names = [s for c in calls if c.name.startswith("cuda") for f in forms(c, listed) for s in api.symbols(f)]
    return api.version_script(api.CUDART_NODE, names).replace("local:\n\t*;\n", "")


def run(arguments):
    """Does what the command line says; the last argument is the file to write."""
    command, rest = arguments[0], arguments[1:-1]
    calls = read_calls(rest[0])
    if command == "acts":
        text = acts(calls)
    elif command == "calls":
        text = table(calls)
    elif command == "functions":
        listed = api.read_list(rest[1])
        prototypes = api.read_prototypes(api.meant_by_headers(listed), rest[3])
        text = functions(calls, listed, {**prototypes, **cenote_prototypes(rest[2])})
    elif command == "map":
        text = version_script(calls, api.read_list(rest[1]))
    else:
        raise api.Wrong(f"no command {command}\n{__doc__}")
    Path(arguments[-1]).write_text(text)


if __name__ == "__main__":
    try:
        run(sys.argv[1:])
    except IndexError:
        sys.exit(__doc__)
    except api.Wrong as wrong:
        sys.exit(f"generate_trace.py: {wrong}")
