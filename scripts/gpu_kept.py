#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Kept memory on a GPU: what the tests cannot show on the host device.

    PYTHONPATH=BUILD/python gpu_kept.py BUILD [--bytes N] [--json FILE] [outlive] [swap] [hostile] [torch] [room]

outlive  A process commits an object of N bytes (8 GiB) and is killed; when no process has a context, others open it:
         in how many milliseconds, and is every byte right? The daemon is killed in between. Beside it, the time that
         the same bytes take from a file.
swap     Three readers check every byte of the newest generation over and over, while a writer commits new ones.
hostile  Descriptors that are no memory of a GPU, handed to cenoted as if they were: what it says, and what happens to
         a program that opens such an object.
torch    The weights of a PyTorch model are kept once; the next process uses them without a copy. The outputs must be
         the same, bit by bit. Time to the first result beside a fresh load from a file.
room     Caches of an eighth of the GPU's free memory each, twelve of them: the oldest must give way.

Needs PyTorch. Without a GPU all of it runs on the host device, with tensors of the processor: use less --bytes.
"""

import argparse
import array
import fcntl
import hashlib
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEP_BYTES = 256 << 20
FACTOR = 0x2545F4914F6CDD1D
SWAPS, SWAP_BYTES, READERS = 8, 512 << 20, 3
LAYERS, WIDTH = 24, 2048
MESSAGE = struct.Struct("<4I 8Q 12I 16s 256s 512s")  # struct cn_kept_message
MAGIC, VERSION, CREATE, COMMIT, ON_GPU = 0x6B65CE74, 1, 1, 2, 2


# ---- In the processes that are started: each prints a line of JSON, or several ----


def say(**facts):
    """To the process that asked."""
    print(json.dumps(facts), flush=True)


def ready():
    """PyTorch and Cenote, with the device in use; a function that waits for it."""
    import torch  # pylint: disable=import-outside-toplevel
    import cenote.torch  # pylint: disable=import-outside-toplevel
    settle = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    cenote.devices()[0].synchronize()
    settle()
    return torch, cenote, settle


def fill(torch, tensor, seed):
    """Every byte of a tensor of integers is known by its place and the seed."""
    for at in range(0, tensor.numel(), STEP_BYTES // 8):
        part = tensor[at:at + STEP_BYTES // 8]
        part.copy_(torch.arange(at + seed, at + seed + part.numel(), device=tensor.device) * FACTOR)


def is_right(torch, tensor, seed):
    """Is every byte as fill() left it?"""
    for at in range(0, tensor.numel(), STEP_BYTES // 8):
        part = tensor[at:at + STEP_BYTES // 8]
        if not torch.equal(part, torch.arange(at + seed, at + seed + part.numel(), device=tensor.device) * FACTOR):
            return False
    return True


def role_writer(name, size):
    """Commit an object, and wait to be killed."""
    torch, cenote, settle = ready()
    kept = cenote.kept
    begin = time.perf_counter()
    made = kept.create(name, {"weights": int(size)})
    created = time.perf_counter()
    tensor = cenote.torch.tensor(made[0], dtype=torch.int64)
    fill(torch, tensor, 1)
    settle()
    del tensor
    filled = time.perf_counter()
    made.commit()
    say(create_ms=(created - begin) * 1e3, fill_ms=(filled - created) * 1e3,
        commit_ms=(time.perf_counter() - filled) * 1e3)
    sys.stdin.read()


def role_reader(name, size):
    """Open it, and look at every byte."""
    torch, cenote, _ = ready()
    kept = cenote.kept
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        model = kept.open(name)
        times.append((time.perf_counter() - begin) * 1e3)
        part, tensor = model[0], cenote.torch.tensor(model[0], dtype=torch.int64)
        right = len(times) > 1 or is_right(torch, tensor, 1)
        assert right and part.nbytes == int(size)
        del tensor, part
        model.release()
    say(first_ms=times[0], again_ms=statistics.median(times[1:]), right=right)


def role_save(name, path):
    """Write an object's bytes to a file."""
    _, cenote, _ = ready()
    tensor = cenote.torch.tensor(cenote.kept.open(name)[0])
    with open(path, "wb") as file:
        for at in range(0, tensor.numel(), STEP_BYTES):
            file.write(memoryview(tensor[at:at + STEP_BYTES].cpu().numpy()))
    say(saved=True)


def role_file(path, size):
    """The same bytes from a file, through page-locked memory."""
    torch, _, settle = ready()
    on_gpu = torch.cuda.is_available()
    tensor = torch.empty(int(size), dtype=torch.uint8, device="cuda" if on_gpu else "cpu")
    buffer = torch.empty(STEP_BYTES, dtype=torch.uint8, pin_memory=on_gpu)
    begin = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        for at in range(0, int(size), STEP_BYTES):
            count = file.readinto(memoryview(buffer.numpy()))
            tensor[at:at + count].copy_(buffer[:count])
    settle()
    say(load_ms=(time.perf_counter() - begin) * 1e3, right=is_right(torch, tensor.view(torch.int64), 1))


def role_swap_reader(name):
    """Check the newest generation again and again until it has the last one."""
    torch, cenote, _ = ready()
    kept = cenote.kept
    checks, wrong, generations = 0, 0, set()
    say(ready=True)
    while True:
        model = kept.open(name)
        seed = int.from_bytes(model.blob, "little")
        tensor = cenote.torch.tensor(model[0], dtype=torch.int64)
        while True:
            wrong += not is_right(torch, tensor, seed)
            checks += 1
            if model.look().newest_generation != model.generation or seed == SWAPS - 1:
                break
        generations.add(model.generation)
        del tensor
        model.release()
        if seed == SWAPS - 1:
            break
    say(checks=checks, wrong=wrong, generations=len(generations))


def role_swap_writer(name, size):
    """Commit one generation after the other; each is another pattern."""
    torch, cenote, settle = ready()
    kept = cenote.kept
    for seed in range(SWAPS):
        with kept.create(name, int(size), blob=seed.to_bytes(8, "little")) as made:
            tensor = cenote.torch.tensor(made[0], dtype=torch.int64)
            fill(torch, tensor, seed)
            settle()
            del tensor
        say(committed=seed)
        sys.stdin.readline()


def role_opener(name, good):
    """Open an object of bad faith, and then a good one."""
    _, cenote, _ = ready()
    kept = cenote.kept
    begin = time.perf_counter()
    try:
        kept.open(name)
        error = None
    except cenote.CudaError as caught:
        error = str(caught)
    took_ms = (time.perf_counter() - begin) * 1e3
    with kept.open(good) as model:
        right = model[0].tobytes() == b"good"
        try:
            model[0].copy_from(b"good")
            write = "succeeds"
        except cenote.CudaError as caught:
            write = caught.name
        say(error=error, took_ms=took_ms, good=right, write_to_a_read_only_opening=write)


def make_model(torch, width, device):
    """A stack of layers; with WIDTH 1.6 GB of weights."""
    kind = {"dtype": torch.bfloat16 if torch.cuda.is_available() else torch.float32, "device": device}
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(width, 4 * width, **kind), torch.nn.GELU(),
                   torch.nn.Linear(4 * width, width, **kind), torch.nn.LayerNorm(width, **kind)]
    return torch.nn.Sequential(*layers).eval()


def use_weights(torch, model, weights):
    """load_state_dict(weights, assign=True), which PyTorch has from 2.1 on."""
    for name, module in model.named_modules():
        for own in module._parameters:  # pylint: disable=protected-access
            setattr(module, own, torch.nn.Parameter(weights[f"{name}.{own}"], requires_grad=False))


def role_model(way, path, started, width):
    """make: draw weights, save them and keep them. file, kept: the first result with weights from there."""
    import torch  # pylint: disable=import-outside-toplevel
    import cenote.torch  # pylint: disable=import-outside-toplevel
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given = torch.linspace(-1, 1, 16 * int(width), device=device).reshape(16, int(width))
    given = given.to(torch.bfloat16) if device == "cuda" else given
    (given @ given.t()).sum().item()  # the device and its library are ready
    imported = time.time()
    if way == "make":
        torch.manual_seed(7)
        model = make_model(torch, int(width), device)
        torch.save(model.state_dict(), path)
        cenote.torch.keep("model", model.state_dict())
        imported = time.time()
    else:
        model = make_model(torch, int(width), "meta")
        use_weights(torch, model, cenote.torch.load("model") if way == "kept" else
                    torch.load(path, map_location=device, weights_only=True))
    loaded = time.time()
    with torch.no_grad():
        result = model(given).float().cpu().numpy().tobytes()
    done = time.time()
    say(sha256=hashlib.sha256(result).hexdigest(), import_s=imported - float(started),
        load_ms=(loaded - imported) * 1e3,
        first_result_ms=(done - imported) * 1e3, since_start_s=done - float(started),
        weights_bytes=sum(each.numel() * each.element_size() for each in model.state_dict().values()))


def role_room():
    """Twelve caches where eight have room."""
    _, cenote, _ = ready()
    size, times, counts = cenote.devices()[0].free_bytes // 8 >> 21 << 21, [], []
    for number in range(12):
        begin = time.perf_counter()
        cenote.kept.create(f"room/{number}", size, cache=True).__exit__(None, None, None)
        times.append(round((time.perf_counter() - begin) * 1e3, 1))
        counts.append(len(cenote.kept.list("room/")))
    say(bytes=size, create_commit_release_ms=times, there=counts,
        left=sorted(int(each.name[5:]) for each in cenote.kept.list("room/")))


# ---- What is shown ----


def ask_gpu(question):
    """What nvidia-smi says."""
    try:
        return subprocess.run(["nvidia-smi", question, "--format=csv,noheader"], capture_output=True, text=True,
                              check=False).stdout.strip()
    except OSError:
        return ""


def sealed_file():
    """A memory file whose size is fixed: what the tests' stand-in for a driver hands out as memory of a GPU."""
    descriptor = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
    os.truncate(descriptor, 2 << 20)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return descriptor


class Show:
    """A daemon, and processes that use it."""

    def __init__(self, build, folder, size):
        self.build, self.folder, self.size = build, Path(folder), size
        self.results = {}
        os.environ["CENOTE_KEPT_SOCKET"] = str(self.folder / "kept")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(self.folder / "ready"))
        self.notify.settimeout(60)
        self.daemon = subprocess.Popen(
            [build / "src" / "cenoted", "--supervise", "--socket", self.folder / "kept", "--bytes-max", "1T"],
            env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "ready")}, stderr=subprocess.DEVNULL)
        self.notify.recv(64)

    def start(self, role, *arguments):
        """A process in a role."""
        return subprocess.Popen([sys.executable, __file__, str(self.build), "--role", role, *map(str, arguments)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @staticmethod
    def hear(process):
        """What it says next."""
        line = process.stdout.readline()
        assert line, "a process has ended before it said something"
        return json.loads(line)

    def run(self, role, *arguments):
        """What a process in a role says; it must end well."""
        with self.start(role, *arguments) as process:
            said = self.hear(process)
            process.stdin.close()
        assert process.returncode == 0, role
        return said

    def tell(self, part, **facts):
        """One line of results."""
        print(part, json.dumps(facts), flush=True)
        self.results.setdefault(part, []).append(facts)

    def outlive(self):
        """See above."""
        writer = self.start("writer", "big", self.size)
        self.tell("outlive", bytes=self.size, **self.hear(writer))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        for _ in range(100):  # until no process has a context
            if not ask_gpu("--query-compute-apps=pid"):
                break
            time.sleep(0.1)
        for question in ("--query-gpu=name,driver_version,persistence_mode,memory.used", "--query-compute-apps=pid"):
            self.tell("outlive", without_the_writer=question, nvidia_smi=ask_gpu(question))
        self.tell("outlive", **self.run("reader", "big", self.size))
        child = int(Path(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children").read_text().split()[0])
        os.kill(child, signal.SIGKILL)
        self.notify.recv(64)
        self.tell("outlive", daemon="killed", **self.run("reader", "big", self.size))
        self.from_file()
        subprocess.run([self.build / "bin" / "cenote", "kept", "--retire", "big"], check=False, capture_output=True)

    def from_file(self):
        """The same bytes from a file: in the page cache, and not."""
        path = self.folder / "weights"
        self.run("save", "big", path)
        self.tell("outlive", file="in the page cache", **self.run("file", path, self.size))
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.tell("outlive", file="from the disk", **self.run("file", path, self.size))
        path.unlink()

    def swap(self):
        """See above."""
        size = min(SWAP_BYTES, self.size)
        writer = self.start("swap_writer", "swapped", size)
        self.hear(writer)
        readers = [self.start("swap_reader", "swapped") for _ in range(READERS)]
        for reader in readers:
            self.hear(reader)
        for _ in range(SWAPS - 1):
            writer.stdin.write("next\n")
            writer.stdin.flush()
            self.hear(writer)
        writer.communicate("end\n")
        for reader in readers:
            said = self.hear(reader)
            reader.communicate()
            self.tell("swap", bytes=size, writer_generations=SWAPS, **said)
            assert not said["wrong"] and not reader.returncode

    def ask(self, kind, hold, name, uuid, descriptors):
        """One request to the daemon, as a program of bad faith makes it; the refusal that it answers."""
        message = MESSAGE.pack(MAGIC, VERSION, kind, 0, hold, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0o666, 1, 0, 0, ON_GPU, 0, 0,
                               len(descriptors), 0, 0, uuid, name.encode(), struct.pack("<Q", 2 << 20))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.connect(str(self.folder / "kept"))
            sock.settimeout(10)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            sock.sendmsg([message], rights)
            answer, _, _, _ = sock.recvmsg(MESSAGE.size, 4096)
        return struct.unpack_from("<4I", answer)[3]

    def hostile(self):
        """See above."""
        import cenote.kept  # pylint: disable=import-outside-toplevel
        kept = cenote.kept
        uuid = cenote.devices()[0].uuid
        cenote.kept.put("good", b"good")
        made = [(path, lambda path=path: os.open(path, os.O_RDWR)) for path in
                ("/dev/null", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")]
        made += [("a pipe", lambda: os.pipe()[0]), ("an eventfd", lambda: os.eventfd(0)),
                 ("a memory file", sealed_file)]
        for number, (what, make) in enumerate(made):
            try:
                descriptor = make()
            except OSError as error:
                self.tell("hostile", descriptor=what, error=str(error))
                continue
            name = f"hostile/{number}"
            refusal = self.ask(CREATE, number + 1, name, uuid, [descriptor])
            os.close(descriptor)
            if refusal:
                self.tell("hostile", descriptor=what, daemon_refuses=refusal)
                continue
            committed = self.ask(COMMIT, number + 1, name, uuid, [])
            self.tell("hostile", descriptor=what, committed=not committed, **self.run("opener", name, "good"))

    def torch(self):
        """See above."""
        width, path = WIDTH if self.size >= 1 << 30 else WIDTH // 16, self.folder / "model.pt"
        said = {way: [self.run("model", way, path, time.time(), width) for _ in range(count)]
                for way, count in (("make", 1), ("file", 3), ("kept", 3))}
        path.unlink()
        for way, runs in said.items():
            self.tell("torch", way=way, **min(runs, key=lambda run: run["first_result_ms"]))
        assert len({run["sha256"] for runs in said.values() for run in runs}) == 1, "the outputs differ"

    def room(self):
        """See above."""
        import cenote  # pylint: disable=import-outside-toplevel
        cenote.devices()
        if cenote.device_kind() == "host":
            self.tell("room", skipped="the host device has the daemon's limits alone")
            return
        said = self.run("room")
        self.tell("room", **said)
        assert said["left"] == [*range(12 - len(said["left"]), 12)], "another than the oldest was retired"

    def end(self):
        """Stop the daemon, and with it all that it keeps."""
        self.daemon.terminate()
        self.daemon.wait()
        self.notify.close()


def main():
    """Exit status 1 if something was wrong."""
    if "--role" in sys.argv:
        at = sys.argv.index("--role")
        return globals()["role_" + sys.argv[at + 1]](*sys.argv[at + 2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--bytes", type=int, default=8 << 30)
    parser.add_argument("--json", type=Path)
    parser.add_argument("parts", nargs="*", default=["outlive", "swap", "hostile", "torch", "room"])
    options = parser.parse_intermixed_args()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        show = Show(options.build.resolve(), folder, options.bytes)
        for part in options.parts:
            begin = time.perf_counter()
            try:
                getattr(show, part)()
            except Exception as error:  # pylint: disable=broad-except
                failed.append(part)
                show.tell(part, failed=repr(error))
            show.tell(part, seconds=round(time.perf_counter() - begin, 1))
        show.end()
    if options.json:
        options.json.write_text(json.dumps(show.results, indent=1) + "\n")
    print("failed: " + " ".join(failed) if failed else "all is well")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
