#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
PyTorch over Cenote's pools, beside PyTorch over the driver's and beside its own allocator.

    gpu_torch.py [--cenote COMMAND] [--rounds N] [--json FILE] [train] [gpt2] [share] [allocate]

train: a small training loop with a fixed seed, in a process for each of these ways. They take turns, some steps of one
after the same steps of the next. All must come to the same losses, bit by bit; the table has the median of the time a
step takes.

    own       PyTorch's own caching allocator, which Cenote does not see
    driver    PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync: every tensor is a block of the driver's pool
    cenote    the same under `cenote run`: a block of Cenote's
    passed    the same with CENOTE_POOLS=driver: Cenote is in front, the pools are the driver's
    under     PyTorch's own caching allocator under `cenote run`

gpt2: the same comparison with a real model: transformers' GPT2LMHeadModel, 12 layers, random weights, AdamW, batches
and lengths that change. Its backward pass sorts, so it launches kernels of libraries that PyTorch was linked with.

share: a tensor that PyTorch allocates in one process is read and written by PyTorch in another, through a pool of
Cenote's; nothing is copied. The exporter makes a shareable pool the device's current one, so that any tensor can be
shared; the importer gives PyTorch the imported address by __cuda_array_interface__.

allocate: what PyTorch's caching allocator takes to give out a block and take it back, beside its other backend over
the driver's pools and over Cenote's. It is asked in Python, so a call that does nothing is measured beside it.

Needs PyTorch with CUDA and a GPU.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

STEPS, AWAKE = 50, 100
GPT2_STEPS, GPT2_ROUNDS = 5, 6
GPT2_SHAPES = [(4, 64), (8, 128), (2, 256), (6, 96), (8, 33), (1, 200), (5, 160)]  # batch and length of each step
WIDTH, LAYERS, BATCH = 256, 8, 128
GOAL = 1.05  # of PyTorch's own allocator
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
# name: whether under `cenote run`, and the environment
WAYS = {
    "own": (False, {}),
    "driver": (False, ASYNC),
    "cenote": (True, ASYNC),
    "passed": (True, {**ASYNC, "CENOTE_POOLS": "driver"}),
    "under": (True, {}),
}
WAYS_OF = {"train": ["own", "driver", "cenote", "passed"], "gpt2": ["own", "under", "driver", "cenote"],
           "allocate": ["own", "driver", "cenote", "passed"]}
POSIX_DESCRIPTOR, PINNED, ON_DEVICE, INTERPROCESS_WITHOUT_TIMING = 1, 1, 1, 6
NUMBERS = 1 << 20


# ---- The driver's interface, NVIDIA's or Cenote's ----


class Location(ctypes.Structure):
    """CUmemLocation"""
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps"""
    _fields_ = [("allocType", ctypes.c_int), ("handleTypes", ctypes.c_int), ("location", Location),
                ("win32SecurityAttributes", ctypes.c_void_p), ("maxSize", ctypes.c_size_t),
                ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54)]


class SixtyFourBytes(ctypes.Structure):
    """A pointer's or an event's name."""
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Driver:
    """libcuda.so.1, as PyTorch in this process finds it."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.is_cenote = hasattr(self.library, "cenote_last_error")

    def call(self, name, *arguments):
        """Calls a function; a failure ends the program, under Cenote with the reason."""
        result = getattr(self.library, name)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(result, ctypes.byref(text))
            why = (text.value or b"an error without a name").decode()
            if self.is_cenote:
                self.library.cenote_last_error.restype = ctypes.c_char_p
                why += ": " + self.library.cenote_last_error().decode()
            sys.exit(f"{name}: {why}")

    def owner(self):
        """Whose the device's default pool is."""
        pool, used, room = ctypes.c_void_p(), ctypes.c_ulonglong(), ctypes.c_size_t(8)
        if not self.is_cenote:
            return "the driver's"
        self.call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), 0)
        failed = self.library.cenote_pool_stats(pool, ctypes.byref(used), room)
        return "the driver's, behind Cenote" if failed else "Cenote's"


# ---- The training loop ----


def build(torch):
    """A network of many small layers: a step is many small allocations and little arithmetic."""
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1)).cuda()
    return model, torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)


def small_network(torch):
    """Steps of a small network that learns one batch."""
    model, optimizer = build(torch)
    inputs = torch.randn(BATCH, WIDTH, device="cuda")
    targets = inputs.square().mean(dim=1, keepdim=True)
    while True:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def language_model(torch):
    """Steps of GPT-2, each with a batch of another shape."""
    import transformers
    # With warnings alone the attention's backward pass would take an algorithm that is not repeatable.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    config = transformers.GPT2Config(n_layer=12, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = transformers.GPT2LMHeadModel(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    random = torch.Generator().manual_seed(2)
    while True:
        for shape in GPT2_SHAPES:
            tokens = torch.randint(500, shape, generator=random).cuda()
            loss = model(input_ids=tokens, labels=tokens).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.detach()


def train(steps_of, step_count):
    """Does some steps for each line of standard input, and answers with the time and the losses."""
    import torch  # the process that asks does not need it
    torch.manual_seed(1)
    steps = steps_of(torch)
    matrix = torch.randn(4096, 4096, generator=torch.Generator().manual_seed(3)).to("cuda", torch.bfloat16)
    product = torch.empty_like(matrix)
    torch.cuda.synchronize()
    driver = Driver()
    print(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name(),
                      "backend": torch.cuda.get_allocator_backend(), "pools": driver.owner()}), flush=True)
    for _ in sys.stdin:
        for _ in range(AWAKE):  # a GPU that was idle runs slowly at first
            torch.mm(matrix, matrix, out=product)
        torch.cuda.synchronize()
        start = time.perf_counter()
        losses = [next(steps) for _ in range(step_count)]
        torch.cuda.synchronize()
        print(json.dumps({"us": (time.perf_counter() - start) * 1e6 / step_count,
                          "losses": [value.hex() for value in torch.stack(losses).tolist()]}), flush=True)


class TrainerEnded(Exception):
    """A process that trains is gone; the other measurements go on."""


class Trainer:
    """A process that trains, one way."""

    def __init__(self, options, role, way):
        in_front, environment = WAYS[way]
        command = [options.cenote, "run"] * in_front + [sys.executable, __file__, "--role", role]
        # The same results each time need a fixed workspace of the matrix library.
        environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", **environment}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.way, self.times, self.losses = way, [], []

    def hear(self):
        """The next answer. What a library prints on its own account is passed on."""
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
            print(line, end="")
        raise TrainerEnded(f"the process that trains in the way '{self.way}' has ended with {self.process.wait()}")

    def ask(self):
        """Some steps."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.hear()

    def end(self):
        """It must end well."""
        self.process.stdin.close()
        if self.process.wait():
            raise TrainerEnded(f"the process that trained in the way '{self.way}' has ended with "
                               f"{self.process.returncode}")


def compare(options, role, rounds):
    """Trains in all ways by turns. True when the losses are the same."""
    trainers = {way: Trainer(options, role, way) for way in options.way or WAYS_OF[role]}
    report = {}
    for way, trainer in trainers.items():
        report[way] = trainer.hear()
        print(f"{way:8} {report[way]['backend']}, pools are {report[way]['pools']}; PyTorch {report[way]['torch']}, "
              f"{report[way]['device']}", flush=True)
    for number in range(3 + rounds):
        order = list(trainers)
        for way in order[number % len(order):] + order[:number % len(order)]:
            answer = trainers[way].ask()
            trainers[way].losses += answer["losses"]
            if number >= 3:  # the first ones warm up
                trainers[way].times.append(answer["us"])
    for way, trainer in trainers.items():
        trainer.end()
        report[way]["us"] = statistics.median(trainer.times)
        report[way]["us_minimum"] = min(trainer.times)
    first = next(iter(trainers))
    print(f"\n{role + ': us a step, median':26} {'us':>8} {'minimum':>8} {'to ' + first:>10}")
    for way in trainers:
        ratio = report[way]["us"] / report[first]["us"]
        goal = "" if way != "cenote" or first != "own" else f"   goal {GOAL}: {'met' if ratio <= GOAL else 'MISSED'}"
        print(f"{way:26} {report[way]['us']:8.1f} {report[way]['us_minimum']:8.1f} {ratio:10.3f}{goal}")
    same = all(trainer.losses == trainers[first].losses for trainer in trainers.values())
    losses = [float.fromhex(value) for value in trainers[first].losses]
    print(f"losses: {losses[0]:.6f} ({losses[0].hex()}) at first, {losses[-1]:.6f} ({losses[-1].hex()}) after "
          f"{len(losses)} steps; {'the same in all ways, bit by bit' if same else 'NOT THE SAME'}", flush=True)
    for way, trainer in trainers.items():
        differs = [i for i, pair in enumerate(zip(trainer.losses, trainers[first].losses)) if pair[0] != pair[1]]
        if differs:
            print(f"{way}: step {differs[0]} is the first that differs: {trainer.losses[differs[0]]} instead of "
                  f"{trainers[first].losses[differs[0]]}")
    if options.json:
        path = Path(options.json)
        kept = json.loads(path.read_text()) if path.exists() else {}
        kept[role] = {"ways": report, "losses_same": same, "steps": len(losses), "losses": trainers[first].losses}
        path.write_text(json.dumps(kept) + "\n")
    return same and losses[-1] < losses[0]


# ---- A block and back ----


def allocate():
    """Prints the nanoseconds that a block and its free take, of some sizes, and calls that do nothing."""
    import torch
    torch.cuda.init()
    stream = torch.cuda.current_stream().cuda_stream
    # What torch.cuda.caching_allocator_alloc and _delete call, without their checks in Python.
    take, give = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
    give(take(1 << 20, stream))  # the allocator is ready
    times = {}
    for size in (4 << 10, 1 << 20, 64 << 20):
        rounds = []
        for _ in range(9):
            start = time.perf_counter_ns()
            for _ in range(2000):
                give(take(size, stream))
            rounds.append((time.perf_counter_ns() - start) / 2000)
            torch.cuda.synchronize()
        times[f"{size >> 10} KiB"] = statistics.median(rounds)
    rounds = []
    for _ in range(9):
        start = time.perf_counter_ns()
        for _ in range(2000):
            torch._C._cuda_getDevice()
            torch._C._cuda_getDevice()
        rounds.append((time.perf_counter_ns() - start) / 2000)
    times["two calls that do nothing"] = statistics.median(rounds)
    print(json.dumps({"backend": torch.cuda.get_allocator_backend(), "ns": times}), flush=True)


def compare_allocators(options):
    """Each way in three processes, by turns. True: they all answered."""
    ways = options.way or WAYS_OF["allocate"]
    turns = {way: [] for way in ways}
    for way in ways * 3:
        in_front, environment = WAYS[way]
        command = [options.cenote, "run"] * in_front + [sys.executable, __file__, "--role", "allocate"]
        ran = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False)
        if ran.returncode:
            return False
        turns[way].append(json.loads(ran.stdout)["ns"])
    print(f"\n{'ns a block and back, median':28}" + "".join(f"{way:>10}" for way in turns))
    for row in turns[ways[0]][0]:
        medians = [statistics.median(turn[row] for turn in turns[way]) for way in turns]
        print(f"{row:28}" + "".join(f"{median:10.0f}" for median in medians))
    return True


# ---- A tensor in two processes ----


class Imported:
    """Memory at an address, in the form in which PyTorch takes it."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<f4", "data": (address, False), "version": 3}


def export_tensor(sock):
    """Allocates a tensor, writes it, and shares it; then looks at what the importer made of it."""
    import torch
    torch.cuda.init()
    driver = Driver()
    pool, descriptor, event = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_void_p()
    name, event_name = SixtyFourBytes(), SixtyFourBytes()
    properties = PoolProperties(allocType=PINNED, handleTypes=POSIX_DESCRIPTOR, location=Location(ON_DEVICE, 0))
    torch.zeros(1, device="cuda")  # a context, and PyTorch's allocator ready
    driver.call("cuMemPoolCreate", ctypes.byref(pool), ctypes.byref(properties))
    driver.call("cuDeviceSetMemPool", 0, pool)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    tensor = torch.arange(NUMBERS, device="cuda", dtype=torch.float32) * 0.5
    driver.call("cuEventCreate", ctypes.byref(event), INTERPROCESS_WITHOUT_TIMING)
    driver.call("cuIpcGetEventHandle", ctypes.byref(event_name), event)
    driver.call("cuEventRecord", event, stream)
    driver.call("cuMemPoolExportToShareableHandle", ctypes.byref(descriptor), pool, POSIX_DESCRIPTOR, 0)
    driver.call("cuMemPoolExportPointer", ctypes.byref(name), ctypes.c_ulonglong(tensor.data_ptr()))
    print(f"exporter: pools are {driver.owner()}; a tensor of {NUMBERS} numbers at {tensor.data_ptr():#x}", flush=True)
    socket.send_fds(sock, [bytes(name) + bytes(event_name)], [descriptor.value])
    os.close(descriptor.value)
    if sock.recv(1) != b"!":
        sys.exit("exporter: the importer is gone")
    good = bool((tensor == torch.arange(NUMBERS, device="cuda", dtype=torch.float32) + 1).all())
    print(f"exporter: the tensor is now {tensor[:4].tolist()} ...: {'as it should be' if good else 'WRONG'}")
    sys.exit(0 if good else 1)


def import_tensor(sock):
    """Reads the exporter's tensor and writes into it, in order behind the exporter's work."""
    import torch
    torch.zeros(1, device="cuda")
    driver = Driver()
    pool, block, event = ctypes.c_void_p(), ctypes.c_ulonglong(), ctypes.c_void_p()
    names, descriptors, _, _ = socket.recv_fds(sock, 128, 1)
    name, event_name = (SixtyFourBytes.from_buffer_copy(names, at) for at in (0, 64))
    driver.call("cuMemPoolImportFromShareableHandle", ctypes.byref(pool), ctypes.c_void_p(descriptors[0]),
                POSIX_DESCRIPTOR, ctypes.c_ulonglong(0))
    os.close(descriptors[0])
    driver.call("cuIpcOpenEventHandle", ctypes.byref(event), event_name)
    driver.call("cuMemPoolImportPointer", ctypes.byref(block), pool, ctypes.byref(name))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    driver.call("cuStreamWaitEvent", stream, event, 0)
    tensor = torch.as_tensor(Imported(block.value, NUMBERS), device="cuda")
    good = tensor.data_ptr() == block.value
    good = good and bool((tensor == torch.arange(NUMBERS, device="cuda", dtype=torch.float32) * 0.5).all())
    print(f"importer: at {block.value:#x} it reads {tensor[:4].tolist()} ...: {'as it should be' if good else 'WRONG'}",
          flush=True)
    tensor.mul_(2).add_(1)
    torch.cuda.synchronize()
    del tensor
    driver.call("cuMemFreeAsync", block, stream)
    torch.cuda.synchronize()
    sock.send(b"!")
    driver.call("cuMemPoolDestroy", pool)
    sys.exit(0 if good else 1)


def share(options, under_cenote):
    """Both processes; True when both were content."""
    sockets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [options.cenote, "run"] * under_cenote + [sys.executable, __file__, "--role"]
    processes = []
    for role, sock in zip(("export", "import"), sockets):
        processes.append(subprocess.Popen(command + [role, "--socket", str(sock.fileno())], env={**os.environ, **ASYNC},
                                          pass_fds=[sock.fileno()]))
        sock.close()
    return not any([process.wait() for process in processes])


def main():
    """The command line."""
    built = Path(__file__).resolve().parent.parent / "build" / "bin" / "cenote"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["train", "gpt2", "share", "allocate"],
                        help="train, gpt2, share, allocate")
    parser.add_argument("--cenote", default=str(built))
    parser.add_argument("--rounds", type=int, help="of the measurements of train and gpt2")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--json")
    parser.add_argument("--without-cenote", action="store_true", help="share over the driver alone")
    parser.add_argument("--role", choices=["train", "gpt2", "export", "import", "allocate"], help=argparse.SUPPRESS)
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "train":
        return train(small_network, STEPS)
    if options.role == "gpt2":
        return train(language_model, GPT2_STEPS)
    if options.role == "allocate":
        return allocate()
    if options.role:
        with socket.socket(fileno=options.socket) as sock:
            return {"export": export_tensor, "import": import_tensor}[options.role](sock)
    if options.json:
        Path(options.json).unlink(missing_ok=True)
    good = True
    for role, rounds in (("train", 21), ("gpt2", GPT2_ROUNDS)):
        if role not in options.what:
            continue
        if role == "gpt2" and not importlib.util.find_spec("transformers"):
            print("skipped: gpt2: transformers is not installed")
            continue
        try:
            good = compare(options, role, options.rounds or rounds) and good
        except TrainerEnded as ended:
            print(f"FAILED: {role}: {ended}", flush=True)
            good = False
    if "share" in options.what:
        good = share(options, not options.without_cenote) and good
    if "allocate" in options.what:
        good = compare_allocators(options) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
