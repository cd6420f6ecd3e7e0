#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Small real programs of PyTorch, JAX, CuPy and Triton under `cenote run`, compared bit by bit with runs without it.

    gpu_frameworks.py [--cenote COMMAND] [--json FILE] [torch] [jax] [cupy] [triton]

Each program computes some results and prints a digest of each. It runs twice without Cenote and once in each way under
it, all at the same time. A result passes when it is the same everywhere. One that differs between the two runs without
Cenote is not repeatable, and says nothing. A framework that is not installed is skipped.

On a GPU the CUDA runtime must be NVIDIA's own, so a program also fails when it finds Cenote's in its process.

Needs a GPU and the frameworks.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

TIMEOUT_S = 180
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
PASSED = {"CENOTE_POOLS": "driver"}
# What makes runs repeatable, and lets several share the GPU.
ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
               "XLA_FLAGS": "--xla_gpu_deterministic_ops=true"}
# framework: the ways under `cenote run`, each with its environment
WAYS = {
    "torch": {"own allocator": {}, "cudaMallocAsync": ASYNC, "driver's pools": {**ASYNC, **PASSED}},
    "jax": {"own allocator": {}, "cuda_async": {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}},
    "cupy": {"Cenote's pools": {}, "driver's pools": PASSED},
    "triton": {"own allocator": {}, "cudaMallocAsync": ASYNC},
}


def digest(arrays):
    """A digest of the bytes of some arrays of numpy's."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()[:24]


# ---- PyTorch ----


def torch_sort(torch):
    """Sorts, unique numbers, the largest, sums: kernels of CUB and Thrust."""
    numbers = torch.rand(1 << 20, device="cuda")
    keys = torch.randint(1000, (1 << 18,), device="cuda")
    return [*numbers.sort(stable=True), keys.argsort(stable=True), *keys.unique(return_counts=True),
            *numbers.topk(100), keys.cumsum(0), keys.bincount(minlength=1000), (numbers > 0.5).nonzero()]


def torch_sparse(torch):
    """Products with sparse matrices."""
    dense = torch.rand(512, 512, device="cuda")
    matrix = torch.where(dense > 0.9, dense, torch.zeros_like(dense))
    other = torch.rand(512, 64, device="cuda")
    listed = matrix.to_sparse().coalesce()
    return [torch.sparse.mm(listed, other), matrix.to_sparse_csr() @ other,
            torch.sparse.mm(listed, listed).coalesce().to_dense()]


def torch_convolution(torch):
    """Convolutions, forward and backward."""
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
                                 torch.nn.Conv2d(32, 16, 5, stride=2), torch.nn.AdaptiveAvgPool2d(1)).cuda()
    images = torch.rand(8, 3, 64, 64, device="cuda", requires_grad=True)
    result = layers(images)
    result.square().sum().backward()
    return [result, images.grad, *(parameter.grad for parameter in layers.parameters())]


def torch_fft(torch):
    """Fourier transforms of sizes with several plans."""
    numbers = torch.rand(64, 1000, device="cuda")
    return [torch.fft.rfft(numbers), torch.fft.fft2(numbers), torch.fft.irfft(torch.fft.rfft(numbers[:, :500]))]


def torch_solver(torch):
    """Decompositions and solutions of linear equations."""
    matrix = torch.rand(128, 128, device="cuda") + 128 * torch.eye(128, device="cuda")
    right = torch.rand(128, 8, device="cuda")
    symmetric = matrix @ matrix.T
    return [torch.linalg.solve(matrix, right), torch.linalg.cholesky(symmetric), *torch.linalg.qr(matrix),
            torch.linalg.eigvalsh(symmetric), torch.linalg.inv(matrix)]


def torch_graph(torch):
    """A captured graph, replayed with other numbers."""
    weights, static = torch.rand(256, 256, device="cuda"), torch.rand(64, 256, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            (static @ weights).relu()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (static @ weights).relu().sort(dim=1)[0]
    results = []
    for _ in range(4):
        static.copy_(torch.rand(64, 256, device="cuda"))
        graph.replay()
        results.append(result.clone())
    return results


def torch_attention(torch):
    """Attention, forward and backward, in two precisions."""
    results = []
    for kind in (torch.float32, torch.bfloat16):
        parts = [torch.rand(2, 8, 128, 64, device="cuda").to(kind).requires_grad_() for _ in range(3)]
        result = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        result.float().square().sum().backward()
        results += [result, *(part.grad for part in parts)]
    return results


def torch_streams(torch):
    """Work in several streams, ordered by events, with memory that goes from one to the next."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    numbers = torch.rand(1 << 16, device="cuda")
    streams[0].wait_stream(torch.cuda.current_stream())
    for step in range(40):
        stream, following = streams[step % 4], streams[(step + 1) % 4]
        with torch.cuda.stream(stream):
            numbers.record_stream(stream)
            numbers = (numbers * 1.01 + step).sort()[0]
        following.wait_stream(stream)
    torch.cuda.synchronize()
    return [numbers]


def program_torch():
    """Each chapter's results."""
    import torch
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False

    def run(chapter):
        torch.manual_seed(1)
        tensors = [tensor.detach().cpu() for tensor in chapter(torch)]
        return [(tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy() for tensor in tensors]

    return torch.__version__, run, [torch_sort, torch_sparse, torch_convolution, torch_fft, torch_solver, torch_graph,
                                    torch_attention, torch_streams]


# ---- JAX ----


def jax_training(jax):
    """A small network that learns, compiled as a whole."""
    numpy = jax.numpy
    keys = jax.random.split(jax.random.key(1), 3)
    inputs = jax.random.normal(keys[0], (128, 64))
    weights = [jax.random.normal(keys[1], (64, 64)) / 8, jax.random.normal(keys[2], (64, 1)) / 8]
    targets = numpy.square(inputs).mean(axis=1, keepdims=True)

    def loss(weights):
        return numpy.square(numpy.tanh(inputs @ weights[0]) @ weights[1] - targets).mean()

    @jax.jit
    def step(weights):
        value, slopes = jax.value_and_grad(loss)(weights)
        return value, [weight - 0.1 * slope for weight, slope in zip(weights, slopes)]

    losses = []
    for _ in range(50):
        value, weights = step(weights)
        losses.append(value)
    if losses[-1] >= losses[0]:
        raise ArithmeticError("it does not learn")
    return [numpy.stack(losses), *weights]


def jax_libraries(jax):
    """Sorting, Fourier transforms, a convolution and a solver."""
    numpy = jax.numpy
    numbers = jax.random.uniform(jax.random.key(2), (256, 256))
    image = jax.random.uniform(jax.random.key(3), (2, 3, 32, 32))
    filters = jax.random.uniform(jax.random.key(4), (8, 3, 3, 3))
    return [numpy.sort(numbers.reshape(-1)), numpy.fft.fft2(numbers),
            numpy.linalg.solve(numbers + 256 * numpy.eye(256), numbers[:, :4]),
            jax.lax.conv(image, filters, (1, 1), "SAME")]


def program_jax():
    """Each chapter's results."""
    import jax
    import numpy
    if jax.default_backend() not in ("gpu", "cuda"):
        raise OSError(f"JAX computes on '{jax.default_backend()}' here")
    return jax.__version__, lambda chapter: [numpy.asarray(array) for array in chapter(jax)], [jax_training,
                                                                                            jax_libraries]


# ---- CuPy ----


def cupy_arrays(cupy):
    """Arithmetic, sorting, sums and products."""
    numbers = cupy.random.RandomState(1).random_sample((512, 512))
    return [cupy.sort(numbers.ravel()), numbers.sum(axis=0), numbers @ numbers.T, cupy.unique(numbers.round(2)),
            cupy.cumsum(numbers.ravel())]


def cupy_kernel(cupy):
    """A kernel written here, compiled at run time, in streams of its own."""
    source = r"""extern "C" __global__ void scale(float *numbers, float factor, int count)
    { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < count) numbers[i] = numbers[i] * factor + i; }"""
    kernel = cupy.RawKernel(source, "scale")
    first = numbers = cupy.arange(100000, dtype=cupy.float32)  # kept: its memory belongs to another stream
    cupy.cuda.get_current_stream().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(20):
            kernel((391,), (256,), (numbers, cupy.float32(1.5), cupy.int32(100000)))
            numbers = numbers + cupy.float32(1)
        stream.synchronize()
    return [first, numbers]


def cupy_libraries(cupy):
    """Fourier transforms and a solver."""
    numbers = cupy.random.RandomState(2).random_sample((128, 128))
    return [cupy.fft.fft2(numbers), cupy.linalg.solve(numbers + 128 * cupy.eye(128), numbers[:, :4])]


def cupy_pool(cupy):
    """The same arithmetic with every array a block of the device's memory pool."""
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    try:
        return cupy_arrays(cupy) + cupy_kernel(cupy)
    finally:
        cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)


def program_cupy():
    """Each chapter's results."""
    import cupy
    return cupy.__version__, lambda chapter: [cupy.asnumpy(array) for array in chapter(cupy)], [
        cupy_arrays, cupy_kernel, cupy_libraries, cupy_pool]


# ---- Triton ----


def program_triton():
    """Each chapter's results."""
    global tl  # where Triton looks for the names that a kernel uses
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def softmax_kernel(result, source, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        at = tl.arange(0, BLOCK)
        numbers = tl.load(source + row * columns + at, mask=at < columns, other=-float("inf"))
        numbers = tl.exp(numbers - tl.max(numbers, axis=0))
        tl.store(result + row * columns + at, numbers / tl.sum(numbers, axis=0), mask=at < columns)

    @triton.jit
    def add_kernel(result, first, second, count, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        total = tl.load(first + at, mask=at < count) + tl.load(second + at, mask=at < count)
        tl.store(result + at, total, mask=at < count)

    def softmax(torch):
        source = torch.rand(300, 700, device="cuda")
        result = torch.empty_like(source)
        softmax_kernel[(300,)](result, source, 700, BLOCK=1024)
        if not torch.allclose(result, source.softmax(1)):
            raise ArithmeticError("softmax is wrong")
        return [result]

    def add(torch):
        first, second = torch.rand(100001, device="cuda"), torch.rand(100001, device="cuda")
        for _ in range(20):
            result = torch.empty_like(first)
            add_kernel[(triton.cdiv(100001, 1024),)](result, first, second, 100001, BLOCK=1024)
            first = result
        return [first]

    def run(chapter):
        torch.manual_seed(1)
        return [tensor.cpu().numpy() for tensor in chapter(torch)]

    return triton.__version__, run, [softmax, add]


# ---- Running them ----


PROGRAMS = {"torch": program_torch, "jax": program_jax, "cupy": program_cupy, "triton": program_triton}


def compute(framework):
    """In a process of its own: a line for each result. An exception is a result too."""
    version, run, chapters = PROGRAMS[framework]()
    results = {}
    for chapter in chapters:
        try:
            results[chapter.__name__] = digest(run(chapter))
        except Exception as failure:  # pylint: disable=broad-except
            traceback.print_exc()
            results[chapter.__name__] = f"failed: {type(failure).__name__}: {str(failure).strip()[:200]}"
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    names = sorted({Path(line.split()[-1]).name for line in maps.splitlines() if ".so" in line})
    print(json.dumps({"version": version, "results": results,
                      "libraries": [name for name in names if name.startswith(("libcenote", "libcudart", "libcuda."))]
                      }), flush=True)


def start(options, framework, in_front, environment):
    """A process that computes, and the file that it prints to."""
    command = [options.cenote, "run"] * in_front + [sys.executable, __file__, "--role", framework]
    output = tempfile.TemporaryFile("w+", encoding="utf-8")
    process = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT, **environment}, stdout=output,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return process, output


def finish(process, output):
    """What a process computed, or None and the end of what it printed."""
    try:
        process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    output.seek(0)
    lines = output.read().splitlines()
    answers = [line for line in lines if line.startswith('{"version"')]
    if process.returncode or not answers:
        return None, "\n".join([f"ended with {process.returncode}"] + lines[-15:])
    return json.loads(answers[-1]), "\n".join(line for line in lines if line != answers[-1])


def compare(options, framework):
    """Runs one framework's program in all its ways. Returns what to keep, and whether all is well."""
    processes = {"alone": start(options, framework, False, {}), "alone again": start(options, framework, False, {})}
    for way, environment in WAYS[framework].items():
        processes[way] = start(options, framework, True, environment)
    answers, printed = {}, {}
    for way, (process, output) in processes.items():
        answers[way], printed[way] = finish(process, output)
    alone, again = answers["alone"], answers["alone again"]
    if not alone or not again:
        print(f"skipped: {framework} does not run here without Cenote: {printed['alone'] or printed['alone again']}")
        return None, True
    good = True
    print(f"{framework} {alone['version']}; without Cenote: {', '.join(alone['libraries'])}")
    for way in WAYS[framework]:
        if not answers[way]:
            print(f"FAILED: {framework}, {way}: {printed[way]}")
            good = False
            continue
        print(f"  {way}: {', '.join(answers[way]['libraries'])}")
        if any(name.startswith("libcenote.so") for name in answers[way]["libraries"]):
            print(f"FAILED: {framework}, {way}: Cenote's runtime is in the process")
            good = False
    for chapter, expected in alone["results"].items():
        if expected.startswith("failed"):
            print(f"  {chapter:20} without Cenote too: {expected}")
            continue
        if again["results"][chapter] != expected:
            print(f"  {chapter:20} not repeatable without Cenote")
            continue
        wrong = {way: answers[way]["results"][chapter] for way in WAYS[framework]
                 if answers[way] and answers[way]["results"][chapter] != expected}
        good = good and not wrong
        print(f"  {chapter:20} {expected} " + ("the same in all ways" if not wrong else f"NOT THE SAME: {wrong}"))
        for way in wrong:
            print(printed[way])
    return {way: answer for way, answer in answers.items() if answer}, good


def main():
    """The command line."""
    built = Path(__file__).resolve().parent.parent / "build" / "bin" / "cenote"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=list(PROGRAMS), help=", ".join(PROGRAMS))
    parser.add_argument("--cenote", default=str(built))
    parser.add_argument("--json")
    parser.add_argument("--role", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        return compute(options.role)
    kept, good = {}, True
    for framework in options.what:
        if not importlib.util.find_spec(framework):
            print(f"skipped: {framework} is not installed")
            continue
        kept[framework], well = compare(options, framework)
        good = good and well
        sys.stdout.flush()
    if options.json:
        Path(options.json).write_text(json.dumps(kept) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
