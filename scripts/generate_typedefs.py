#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Makes cudaTypedefs.h: the types of pointers to the driver's functions, as programs declare what they have from
cuGetProcAddress().

    generate_typedefs.py ROOT OUT

The types are named after the function and the CUDA version that brought it (src/api.list). ROOT is the sources'
folder.
"""

import sys
from pathlib import Path

from generate_api import meant_by_headers, read_list, read_prototypes

# Parameters of the forms that cuda.h does not declare, as far as NVIDIA's file shows them to programs. The one for
# green contexts is left out.
WAIT = "CUstream stream, CUdeviceptr addr, cuuint{}_t value, unsigned int flags"
FORMS = {
    ("cuGetProcAddress", 11030): "const char *symbol, void **pfn, int driverVersion, cuuint64_t flags",
    ("cuDeviceGetUuid", 9020): "CUuuid *uuid, CUdevice dev",
    ("cuCtxCreate", 3020): "CUcontext *pctx, unsigned int flags, CUdevice dev",
    ("cuCtxCreate", 11040):
        "CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags, CUdevice dev",
    ("cuCtxGetDevice", 13000): "CUdevice *device, CUcontext ctx",
    ("cuCtxSynchronize", 13000): "CUcontext ctx",
    ("cuMemPrefetchAsync", 8000): "CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream",
    ("cuMemAdvise", 8000): "CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device",
    ("cuStreamGetCaptureInfo", 10010):
        "CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out",
    ("cuStreamGetCaptureInfo", 11030):
        "CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, "
        "const CUgraphNode **dependencies_out, size_t *numDependencies_out",
    ("cuStreamWaitValue32", 8000): WAIT.format(32),
    ("cuStreamWaitValue64", 9000): WAIT.format(64),
    ("cuStreamWriteValue32", 8000): WAIT.format(32),
    ("cuStreamWriteValue64", 9000): WAIT.format(64),
    ("cuStreamBatchMemOp", 8000):
        "CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags",
    ("cuEventElapsedTime", 2000): "float *pMilliseconds, CUevent hStart, CUevent hEnd",
}
# Since this version functions have a form for the thread's own default stream.
FIRST_PER_THREAD = 7000

HEAD = """\
/* SPDX-License-Identifier: MIT */
/*
 * cudaTypedefs.h: the types of pointers to the driver's functions.
 *
 * PFN_cuX_v11020 is a pointer to the form of cuX that CUDA 11.2 brought, as cuGetProcAddress("cuX", …, 11020, …) finds
 * it, and PFN_cuX_v11020_ptsz or _ptds one to that for the thread's own default stream. `make abi-table` writes this
 * file, from src/api.list and cuda.h.
 */
#ifndef CENOTE_CUDATYPEDEFS_H
#define CENOTE_CUDATYPEDEFS_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif
"""
TAIL = """
#ifdef __cplusplus
}
#endif

#endif
"""


def per_thread(function):
    """How the type of a function's form for the thread's own default stream ends; empty: it has none."""
    return function.thread[function.thread.rindex("_"):] if function.thread != "-" else ""


def type_lines(function, parameters):
    """The types of a form of a function."""
    name = f"PFN_{function.name}_v"
    lines = [f"typedef CUresult(CUDAAPI *{name}{function.since})({parameters});"]
    if per_thread(function):
        since = max(int(function.since), FIRST_PER_THREAD)
        lines.append(f"typedef {name}{function.since} {name}{since}{per_thread(function)};")
    return lines


def make_header(root):
    """The text of cudaTypedefs.h, before clang-format."""
    functions = [f for f in read_list(root / "src" / "api.list")
                 if f.library == "driver" and not f.name.startswith("cuProfiler")]  # NVIDIA has another file for these
    meant = meant_by_headers(functions)
    prototypes = read_prototypes(meant, root / "include" / "cenote")
    lines = [HEAD]
    for function in functions:
        parameters = FORMS.get((function.name, int(function.since)))
        if function in meant:
            parameters = ", ".join(prototypes[function.name].parameters) or "void"
        if parameters:
            lines += type_lines(function, " ".join(parameters.split()))
    return "\n".join([*lines, TAIL])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(make_header(Path(sys.argv[1])))
