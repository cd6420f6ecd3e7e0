#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Makes from src/api.list what the build needs of it, so that a function is named once.

    generate_api.py cenote-driver-map VERSION API_LIST CENOTE_LIST PRIVATE_LIST… OUT
                                                              version script of libcenote-driver.so; what is private
                                                              between the two libraries has Cenote's own version
    generate_api.py cenote-map API_LIST NAME... OUT           version script of libcenote.so, with these names besides:
                                                              the runtime under NVIDIA's version node, so that a
                                                              drop-in libcudart.so.13 which needs libcenote.so has no
                                                              code of its own for what Cenote implements
    generate_api.py dropin-cuda-map API_LIST NAMES OUT        version script of the drop-in libcuda.so.1
    generate_api.py dropin-cudart-map API_LIST NAMES OUT      version script of the drop-in libcudart.so.13
    generate_api.py driver-map API_LIST NAME... OUT           version script of the tests' driver, with these names
                                                              besides
    generate_api.py entry-table API_LIST OUT                  C: the table behind cuGetProcAddress
    generate_api.py slot-names API_LIST OUT                   C: what the slots are called, in the same order
    generate_api.py versions API_LIST OUT                     C header: the version that brought each function
    generate_api.py missing driver|runtime NAMES API_LIST OUT C: what NVIDIA exports and Cenote does not
    generate_api.py stub driver|runtime NAMES API_LIST OUT    C: all names of a drop-in, to link programs with
    generate_api.py missing-nvml NAMES OUT                    C: all that NVIDIA's libnvidia-ml.so.1 exports; what
                                                              Cenote has takes precedence
    generate_api.py nvml-map NAMES OUT                        version script of the drop-in libnvidia-ml.so.1
    generate_api.py cuda12-jumps NAMES API_LIST OUT           assembler: the calls of libcudart.so.12 that are CUDA 13's
    generate_api.py missing-cuda12 NAMES API_LIST OUT         C: those that Cenote does not have
    generate_api.py cuda12-map NAMES OUT                      version script of the drop-in libcudart.so.12
    generate_api.py forwards driver NAMES API_LIST OUT        C: the same as a table, beside
    generate_api.py forward-jumps driver NAMES API_LIST OUT   assembler: the functions that lead to the real driver
    generate_api.py redirect-names NAMES OUT                  C: the runtimes' functions that programs call, sorted
    generate_api.py answers-test API_LIST HEADER_DIR OUT      C: a test that calls every function with zeros

HEADER_DIR is the directory of cuda.h and cuda_runtime_api.h; their prototypes are read as text. NAMES is
scripts/nvidia_names.txt.
"""

import re
import sys
from collections import namedtuple
from pathlib import Path

Prototype = namedtuple("Prototype", "result parameters")

LIBRARIES = ("driver", "runtime")
STATES = ("done", "form", "later", "edge")
CODES = {"driver": ("host", "host,gpu", "own", "own,gpu"), "runtime": ("-",)}
# After a function whose form for the thread's own default stream is written, and not made by the build.
BY_HAND_MARK = "*"
HEADERS = {"driver": ("cuda.h", "cudaProfiler.h"), "runtime": ("cuda_runtime_api.h", "cuda_profiler_api.h")}
# The symbol version that NVIDIA's libcudart.so.13 gives all that it exports.
CUDART_NODE = "libcudart.so.13"
# The symbol version of what Cenote's libraries export. Programs that were linked when there was one library look for it
# in libcenote.so, so that has it, too.
CENOTE_NODE = "CENOTE_1"
# The version that brought the forms whose default stream is the thread's own.
PER_THREAD_SINCE = 7000
# Exported by the runtime, but not as functions that answer with an error code. The drop-in writes them by hand.
BY_HAND = re.compile(r"__cuda|cudaCreateChannelDesc$")

CUDART12_NODE = "libcudart.so.12"
# What CUDA 12 calls by another name than CUDA 13.
RENAMED_IN_12 = {
    "cudaMemAdvise_v2": "cudaMemAdvise", "cudaMemPrefetchAsync_v2": "cudaMemPrefetchAsync",
    "cudaMemPrefetchAsync_v2_ptsz": "cudaMemPrefetchAsync_ptsz",
    "cudaStreamGetCaptureInfo_v3": "cudaStreamGetCaptureInfo",
    "cudaStreamGetCaptureInfo_v3_ptsz": "cudaStreamGetCaptureInfo_ptsz", "cudaThreadExit": "cudaDeviceReset",
    "cudaThreadGetCacheConfig": "cudaDeviceGetCacheConfig", "cudaThreadGetLimit": "cudaDeviceGetLimit",
    "cudaThreadSetCacheConfig": "cudaDeviceSetCacheConfig", "cudaThreadSetLimit": "cudaDeviceSetLimit",
    "cudaThreadSynchronize": "cudaDeviceSynchronize",
}
# What src/dropin/cuda12.c has, and what has the name of another call of CUDA 13, or other structures.
OWN_IN_12 = re.compile(r"cudaRuntimeGetVersion$|cudaGetDeviceProperties_v2$|cudaPointerGetAttributes$|cudaMemAdvise$|"
                       r"cudaMemPrefetchAsync(_ptsz)?$|cudaStreamGetCaptureInfo(_v2)?(_ptsz)?$|cudaSetDoubleFor")
OTHER_IN_12 = re.compile(r"cudaGetDeviceProperties$|cudaGraph|cudaStreamUpdateCaptureDependencies|cudaImportExternal|"
                         r"cudaExternalMemory|cuda(Signal|Wait)ExternalSemaphores|cuda(Create|Get)\w*Object")


class Function(namedtuple("Function", "library name symbol thread since state code by_hand")):
    """A row of api.list. `by_hand`: of what the form for the thread's own default stream is written: own, gpu."""

    @property
    def has_gpu(self):
        """Is there a gpu_cuX?"""
        return self.code.endswith("gpu")


class Wrong(Exception):
    """Something in the input is not as it must be; the text says where."""


def significant_lines(path):
    """The lines of a list file without comments, each with its number."""
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if line:
            yield number, line


def read_function(library, name, symbol, thread, since, state, code="-"):
    """A row of api.list."""
    by_hand = {part for part, column in (("own", thread), ("gpu", code)) if column.endswith(BY_HAND_MARK)}
    return Function(library, name, symbol, thread.rstrip(BY_HAND_MARK), since, state, code.rstrip(BY_HAND_MARK),
                    frozenset(by_hand))


def read_list(path):
    """The functions of api.list, in its order."""
    functions = []
    seen = set()
    for number, line in significant_lines(path):
        fields = line.split()
        if fields[0] not in LIBRARIES:
            raise Wrong(f"{path}:{number}: library is {fields[0]}")
        columns = {"driver": 7, "runtime": 6}[fields[0]]
        if len(fields) != columns:
            raise Wrong(f"{path}:{number}: {len(fields)} columns instead of {columns}")
        function = read_function(*fields)
        if function.code not in CODES[function.library]:
            raise Wrong(f"{path}:{number}: code is {function.code}")
        if function.state not in STATES:
            raise Wrong(f"{path}:{number}: state is {function.state}")
        if not re.fullmatch(r"\d+" if function.library == "driver" else r"\d+|-", function.since):
            raise Wrong(f"{path}:{number}: version is {function.since}")
        for symbol in symbols(function):
            if symbol in seen:
                raise Wrong(f"{path}:{number}: {symbol} for the second time")
            seen.add(symbol)
        functions.append(function)
    return functions


def read_plain(path):
    """The names of a file with one name a line."""
    return [line for _, line in significant_lines(path)]


def read_names(path, library):
    """The names of nvidia_names.txt that belong to a library."""
    pairs = (line.split() for _, line in significant_lines(path))
    return [name for owner, name in pairs if owner == library]


def read_names12(path):
    """What the runtime of the last CUDA 12 exports."""
    return read_names(path, "runtime12") + read_names(path, "later12")


def symbols(function):
    """The one or two symbols of a function."""
    return [function.symbol] + ([function.thread] if function.thread != "-" else [])


def all_symbols(functions, library=None):
    """The symbols of all functions, or of one library's."""
    return [s for f in functions if library in (None, f.library) for s in symbols(f)]


def own_name(function, symbol):
    """What the function behind a symbol of the driver's is called, in C and in the library; on a GPU maybe another."""
    return f"{function.code.split(',')[0]}_{symbol}"


def header_text(path):
    """A header without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", Path(path).read_text(), flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)


def split_parameters(text):
    """Parameter declarations of a list, without default values; none for (void)."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    parts.append(part)
    parts = [re.sub(r"\b__dv\s*\([^()]*\)|=.*", "", " ".join(p.split())).strip() for p in parts]
    return [] if parts in ([""], ["void"]) else parts


def parameter_name(parameter):
    """The name that a parameter declaration declares."""
    match = re.search(r"\(\s*\*\s*(\w+)\s*\)", parameter) or re.search(r"(\w+)\s*(?:\[\w*\]\s*)*$", parameter)
    return match[1]


def read_prototypes(functions, header_dir):
    """The prototype of every function, by its name."""
    texts = {library: "".join(header_text(Path(header_dir) / header) for header in headers)
             for library, headers in HEADERS.items()}
    prototypes = {}
    for function in functions:
        pattern = (r"((?:\b[A-Za-z_]\w*[\s*]+)+)\b(?:%s|%s)\s*(\((?:[^()]|\([^()]*\))*\))\s*;"
                   % (function.name, function.symbol))
        match = re.search(pattern, texts[function.library])
        if not match:
            raise Wrong(f"{header_dir}: no prototype of {function.name} in {' or '.join(HEADERS[function.library])}")
        # Macros around the type: __host__, CUDARTAPI and the like.
        result = re.sub(r"\b(?:extern|__\w+|[A-Z][A-Z_]+)\b", "", match[1])
        prototypes[function.name] = Prototype(" ".join(result.split()), split_parameters(match[2][1:-1]))
    return prototypes


def c_file(text, *includes):
    """A generated C file."""
    lines = ["/* Generated by the scripts from src/api.list. */",
             '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"']
    return "\n".join(lines + [f"#include {i}" for i in includes] + ["", text, ""])


def version_node(node, names):
    """A part of a linker version script: a version, and some names that are exported with it."""
    exported = "".join(f"\t{name};\n" for name in sorted(set(names)))
    return f"{node} {{\nglobal:\n{exported}}};\n"


def version_script(node, names):
    """A linker version script that exports some names and nothing else."""
    return version_node(node, names).replace("};\n", "local:\n\t*;\n};\n").lstrip()


def meant_by_headers(functions):
    """All but the forms that the headers do not mean by a function's name, and do not declare."""
    return [f for f in functions if f.state != "form"]


def thread_declarations(functions):
    """Declarations of the per-thread symbols, which the headers show only to those who ask for them."""
    return "".join(f"extern __typeof__({f.name}) {f.thread};\n" for f in functions if f.thread != "-")


def dropin_names(files, library):
    """What a drop-in shows: Cenote's functions, all names of NVIDIA's, and what cenote_… functions it has."""
    return all_symbols(read_list(files[0]), library) + read_names(files[1], library) + ["cenote_*"]


def entry_table(functions):
    """The driver's functions, sorted by name and version, for a binary search."""
    driver = sorted((f for f in functions if f.library == "driver"), key=lambda f: (f.name, int(f.since)))
    # By their symbols: in C a name is the headers' form, and most others are not declared.
    declarations = "".join(f'extern void entry_{s}(void) __asm__("{s}");\n' for s in all_symbols(driver))
    rows = "".join(
        f'\t{{"{f.name}", {f.since}, (void *)entry_{f.symbol}, '
        f'(void *)entry_{f.thread if f.thread != "-" else f.symbol}}},\n'
        for f in driver)
    return c_file(
        '#pragma GCC diagnostic ignored "-Wpedantic"\n\n'
        + declarations
        + f"\nconst struct cn_entry cn_entries[] = {{\n{rows}}};\n"
        + "const size_t cn_entry_count = sizeof cn_entries / sizeof cn_entries[0];",
        '"driver/entry/entry.h"')


def slot_names(functions):
    """The table cn_slot_names of src/driver/gpu/gpu.h."""
    rows = ""
    for f in (f for f in functions if f.library == "driver"):
        for s in symbols(f):
            thread = s == f.thread
            since = max(int(f.since), PER_THREAD_SINCE) if thread else f.since
            rows += f'\t{{"{f.name}", "{s}", {since}, {str(thread).lower()}}},\n'
    return c_file(f"const struct cn_slot_name cn_slot_names[] = {{\n{rows}}};\n"
                  "const size_t cn_slot_count = sizeof cn_slot_names / sizeof cn_slot_names[0];",
                  '"driver/gpu/gpu.h"')


def versions(functions):
    """CN_SINCE_cuX, to ask a driver for the form of cuX that our headers have."""
    rows = "".join(f"#define CN_SINCE_{f.name} {f.since}\n"
                   for f in meant_by_headers(functions) if f.library == "driver")
    return c_file(rows)


def missing_names(names, functions):
    """The names of NVIDIA's that are not Cenote's."""
    ours = set(all_symbols(functions))
    return [n for n in names if n not in ours and not BY_HAND.match(n)]


def missing(names, answer="cn_missing", header="dropin/missing.h"):
    """A function for every name. Weak: what the drop-in writes itself wins."""
    rows = "".join(f"MISSING({n})\n" for n in names)
    macro = ("#define MISSING(name) \\\n\tint name(void); \\\n"
             f'\t__attribute__((weak, visibility("default"))) int name(void) {{ return (int){answer}(#name); }}\n\n')
    return c_file(macro + rows.rstrip("\n"), f'"{header}"')


def stub(names):
    """Functions without code. Programs are linked with them, and run with others."""
    rows = "".join(f"STUB({n})\n" for n in sorted(set(names)))
    return c_file("#define STUB(name) void name(void); void name(void) {}\n\n" + rows.rstrip("\n"))


def split_cuda12(names, functions):
    """The names of CUDA 12's runtime with CUDA 13's name for each, and those that Cenote does not have."""
    ours = set(all_symbols(functions, "runtime"))
    same = {n: RENAMED_IN_12.get(n, n) for n in names
            if not OWN_IN_12.match(n) and not OTHER_IN_12.match(n) and RENAMED_IN_12.get(n, n) in ours}
    return same, [n for n in names if n not in same and not OWN_IN_12.match(n) and not BY_HAND.match(n)]


def cuda12_jumps(same):
    """The rows of src/dropin/cuda12.S that are CUDA 13's."""
    return "".join(f"\tSAME\t{name}, {target}\n" for name, target in same.items())


def forwards(names):
    """The table cn_forwards of src/dropin/forward.h, beside the jumps of the same names."""
    functions = "".join(f"MISSING({n})\n" for n in names)
    rows = "".join(f'\t{{"{n}", missing_{n}}},\n' for n in names)
    macro = "#define MISSING(name) static int missing_##name(void) { return (int)cn_missing(#name); }\n\n"
    return c_file(macro + functions + f"\nconst struct cn_forward cn_forwards[] = {{\n{rows}}};",
                  '"dropin/forward.h"', '"dropin/missing.h"')


def forward_jumps(names):
    """The rows of src/dropin/forward.S."""
    return "".join(f"\tFORWARD\t{n}\n" for n in names)


def redirect_names(path):
    """The table cn_redirect_lists of tools/redirect/redirect.h: the newest runtime first."""
    text, rows = "", ""
    for owner, node, first in (("runtime", CUDART_NODE, 13000), ("runtime12", CUDART12_NODE, 12040)):
        names = "".join(f'\t"{n}",\n' for n in sorted(read_names(path, owner)))
        text += f"static const char *const names_{owner}[] = {{\n{names}}};\n"
        rows += f'\t{{{first}, "{node}", names_{owner}, sizeof names_{owner} / sizeof names_{owner}[0]}},\n'
    return c_file(f"{text}const struct cn_redirect_list cn_redirect_lists[CN_REDIRECT_LISTS] = {{\n{rows}}};",
                  '"redirect.h"')


def answer_call(function, symbol, prototype):
    """A C function that calls one symbol with zeros and tells its error code."""
    variables = "".join(f"\tstatic {p};\n" for p in prototype.parameters)
    arguments = ", ".join(parameter_name(p) for p in prototype.parameters)
    if prototype.result in ("CUresult", "cudaError_t"):
        body = f"\treturn (int){symbol}({arguments});\n"
    else:
        body = f"\t(void){symbol}({arguments});\n\treturn 0;\n"
    return f"static int call_{symbol}(void)\n{{\n{variables}{body}}}\n"


def answers_test(functions, header_dir):
    """The table that tests/abi/answers_test.c walks."""
    functions = meant_by_headers(functions)
    prototypes = read_prototypes(functions, header_dir)
    calls = "\n".join(answer_call(f, s, prototypes[f.name]) for f in functions for s in symbols(f))
    rows = "".join(f'\t{{"{f.name}", "{s}", {int(f.state == "done")}, {int(f.library == "runtime")}, call_{s}}},\n'
                   for f in functions for s in symbols(f))
    return c_file(thread_declarations(functions) + "\n" + calls
                  + f"\nconst struct answer answers[] = {{\n{rows}}};\n"
                  + "const int answer_count = (int)(sizeof answers / sizeof answers[0]);",
                  "<cuda.h>", "<cudaProfiler.h>", "<cuda_profiler_api.h>", "<cuda_runtime_api.h>", '"answers.h"')


MISSING = {"missing": missing, "forwards": forwards, "forward-jumps": forward_jumps}


def run(arguments):
    """Does what the command line says; the last argument is the file to write."""
    command, rest = arguments[0], arguments[1:-1]
    if command == "cenote-driver-map":
        text = version_script(CENOTE_NODE, all_symbols(read_list(rest[1]), "driver") + read_plain(rest[2]))
        text += version_node(f"CENOTE_PRIVATE_{rest[0]}", [name for path in rest[3:] for name in read_plain(path)])
    elif command == "cenote-map":
        text = version_script(CENOTE_NODE, rest[1:])
        text += version_node(CUDART_NODE, all_symbols(read_list(rest[0]), "runtime"))
    elif command == "dropin-cuda-map":
        # NVIDIA's libcuda.so.1 has no symbol versions.
        text = version_script("", dropin_names(rest, "driver"))
    elif command == "dropin-cudart-map":
        text = version_script(CUDART_NODE, dropin_names(rest, "runtime"))
    elif command == "driver-map":
        text = version_script("", all_symbols(read_list(rest[0]), "driver") + rest[1:])
    elif command == "entry-table":
        text = entry_table(read_list(rest[0]))
    elif command == "slot-names":
        text = slot_names(read_list(rest[0]))
    elif command == "versions":
        text = versions(read_list(rest[0]))
    elif command == "redirect-names":
        text = redirect_names(rest[0])
    elif command == "stub":
        text = stub(all_symbols(read_list(rest[2]), rest[0]) + read_names(rest[1], rest[0]))
    elif command == "missing-nvml":
        text = missing(read_names(rest[0], "nvml"), "cn_nvml_missing", "nvml/nvml_missing.h")
    elif command == "nvml-map":
        # NVIDIA's libnvidia-ml.so.1 has no symbol versions either.
        text = version_script("", read_names(rest[0], "nvml"))
    elif command == "cuda12-map":
        text = version_script(CUDART12_NODE, read_names12(rest[0]) + ["cenote_*"])
    elif command == "cuda12-jumps":
        text = cuda12_jumps(split_cuda12(read_names12(rest[0]), read_list(rest[1]))[0])
    elif command == "missing-cuda12":
        text = missing(split_cuda12(read_names12(rest[0]), read_list(rest[1]))[1])
    elif command in MISSING:
        text = MISSING[command](missing_names(read_names(rest[1], rest[0]), read_list(rest[2])))
    elif command == "answers-test":
        text = answers_test(read_list(rest[0]), rest[1])
    else:
        raise Wrong(f"no command {command}\n{__doc__}")
    Path(arguments[-1]).write_text(text)


if __name__ == "__main__":
    try:
        run(sys.argv[1:])
    except IndexError:
        sys.exit(__doc__)
    except Wrong as wrong:
        sys.exit(f"generate_api.py: {wrong}")
