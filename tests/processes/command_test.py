#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of the cenote command and of the drop-in libraries, as a stranger meets them.

    command_test.py BUILD_DIRECTORY C_COMPILER...

Programs "linked against NVIDIA's libraries" are made here: with stub libraries that have NVIDIA's names, sonames and
symbol versions, and nothing inside. Where a CUDA toolkit is installed, found by CUDA_PATH or by nvcc on the path, an
example is built with its headers and its own stub library as well.
"""

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
# pylint: disable-next=wrong-import-position
from command_programs import COMPLETE, DRIVER_PROGRAM, NAMED_PROCESS, OPENING_PROGRAM, RUNTIME_PROGRAM
from tap import Skip, by_name, open_terminal, run_tests  # pylint: disable=wrong-import-position

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HEADERS = ROOT / "include" / "cenote"
EXAMPLE = "shareable_allocation"
COMMANDS = ("demo", "run", "cc", "info", "smi", "ps", "top", "map", "kept", "metrics", "trace", "check", "imex", "gc",
            "bench")


def environment(variables):
    """The environment without what has a say in Cenote, and with these variables."""
    passed = {name: value for name, value in os.environ.items() if not name.startswith(("CENOTE_", "LC_"))
              and name not in ("CUDA_VISIBLE_DEVICES", "LANG", "LD_LIBRARY_PATH", "NO_COLOR", "TERM")}
    return {**passed, **variables}


def run(*command, status=0, **variables):
    """What a command prints on both channels; it must end with this status."""
    done = subprocess.run([str(word) for word in command], env=environment(variables), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}, not {status}\n"
                             + done.stdout + done.stderr)
    return done.stdout, done.stderr


def run_at_terminal(*command, columns=80, **variables):
    """What a command prints when its standard output is a terminal."""
    screen, end = open_terminal()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([str(word) for word in command], env=environment({"TERM": "xterm", **variables}),
                          stdin=subprocess.DEVNULL, stdout=end, stderr=subprocess.PIPE) as process:
        os.close(end)
        parts = []
        while True:
            try:
                parts.append(os.read(screen, 65536))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                break
        os.close(screen)
        complaint = process.stderr.read()
    assert process.returncode == 0, complaint
    return b"".join(parts).decode().replace("\r\n", "\n")


def without_colours(text):
    """The text that a terminal shows."""
    return re.sub("\033\\[[0-9;]*m", "", text)


def contains(text, *parts):
    """All parts stand in a text."""
    for part in parts:
        if part not in text:
            raise AssertionError(f"{part!r} is not in {text!r}")


class Command:
    """The command, and a folder for programs."""

    def __init__(self, build, compiler, folder):
        self.cenote, self.examples = Path(build) / "bin" / "cenote", Path(build) / "examples"
        self.library, self.driver = Path(build) / "lib" / "libcenote.so.1", Path(build) / "tests" / "libcuda-host.so"
        self.compiler, self.folder = compiler, Path(folder)

    def own_directories(self, name):
        """Variables with which processes meet in directories of a test's own; the folder with both."""
        folder = self.folder / name
        folder.mkdir()
        return {"CENOTE_RUNTIME_DIR": str(folder / "runtime"), "CENOTE_FABRIC_DIR": str(folder / "fabric")}

    def make_stub(self, soname, functions, version=None):
        """A library with this soname and these functions, with this version."""
        stub = self.folder / "stub.c"
        stub.write_text("".join(f"void {function}(void) {{}}\n" for function in functions))
        arguments = []
        if version:
            (self.folder / "stub.map").write_text(f"{version} {{ global: *; }};\n")
            arguments = [f"-Wl,--version-script={self.folder / 'stub.map'}"]
        run(*self.compiler, "-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{soname}", *arguments, stub, "-o",
            self.folder / "stub.so")
        return self.folder / "stub.so"

    def compile_program(self, name, source, soname, functions, version=None):
        """A program that needs a library of this soname and finds these functions in it, with this version."""
        stub = self.make_stub(soname, functions, version)
        (self.folder / f"{name}.c").write_text(source)
        program = self.folder / name
        run(*self.compiler, f"-I{HEADERS}", self.folder / f"{name}.c", stub, "-ldl", "-o", program)
        return program

    def run_example(self, headers, library):
        """Build the example with these headers and this libcuda, and run it over ours, with its module beside it."""
        source = ROOT / "examples" / f"{EXAMPLE}.c"
        run(*self.compiler, "-Wall", "-Wextra", "-Werror", "-isystem", headers, source, library, "-ldl", "-o",
            self.folder / EXAMPLE)
        for ending in ("so", "ptx"):
            shutil.copy(self.examples / f"{EXAMPLE}_kernels.{ending}", self.folder)
        text, complaint = run(self.cenote, "run", self.folder / EXAMPLE)
        contains(text, f"loaded {EXAMPLE}_kernels.ptx\n", "\ndone: two processes, one memory\n")
        assert not complaint, complaint

    def says_what_it_is(self):
        """--help, --version, help of each command; without a command, help is a complaint."""
        text, _ = run(self.cenote, "--help")
        contains(text, "Usage: cenote", *(f"\n  {name} " for name in COMMANDS))
        assert "\033" not in text
        contains(run(self.cenote, "--version")[0], "cenote ", "CUDA 13.0")
        for name in COMMANDS:
            help_text = run(self.cenote, "help", name)[0]
            contains(help_text, f"Usage: cenote {name}", "\nExit status: ")
            assert "\nOptions:\n" in help_text or name == "imex", help_text
            assert run(self.cenote, name, "--help")[0] == help_text
        contains(run(self.cenote, status=2)[1], "Usage: cenote")

    def refuses_what_it_does_not_understand(self):
        """Status 2, a sentence on standard error, and nothing on standard output."""
        for words, part in ((["fly"], "unknown command 'fly'\n"), (["help", "fly"], "unknown command 'fly'\n"),
                            (["runn"], "unknown command 'runn'; did you mean 'run'?"),
                            (["help", "dmeo"], "'dmeo'; did you mean 'demo'?"), (["-version"], "mean '--version'?"),
                            (["info", "--xml"], "unknown option '--xml'\n"),
                            (["info", "--jsn"], "unknown option '--jsn'; did you mean '--json'?"),
                            (["run", "--device-s", "2", "true"], "did you mean '--devices'?"),
                            (["info", "--json", "9"], "'9'"), (["run"], "missing program"),
                            (["demo", "--parts"], "--parts takes"), (["demo", "--parts=3,5"], "--parts takes"),
                            (["demo", "--svg"], "--svg takes"), (["demo", "--svg="], "--svg takes"),
                            (["demo", "--svg", "x", "--json"], "exclude each other"), (["demo", "again"], "'again'"),
                            (["gc", "--all"], "'--all'"),
                            (["run", "--speed", "9", "true"], "--speed"), (["run", "--devices"], "takes a number"),
                            (["run", "--devices", "many", "true"], "takes a number"),
                            (["run", "--devices", "0", "true"], "from 1 to 64"),
                            (["run", "--devices", "2x", "true"], "from 1 to 64"),
                            (["run", "--devices", "65", "true"], "--devices takes a number from 1 to 64"),
                            (["run", "--devices=18446744073709551617", "true"], "from 1 to 64"),
                            (["trace", "--devices", "100", "true"], "from 1 to 64"),
                            (["run", "--memory", "4X", "true"], "K, M, G or T"),
                            (["run", "--memory=0", "true"], "K, M, G or T"),
                            (["bench", "--seconds", "0"], "more than 0, and at most 3600"), (["imex"], "create, list"),
                            (["imex", "open", "0"], "'open'"), (["imex", "create"], "takes a channel number"),
                            (["imex", "create", "zero"], "'zero'"), (["imex", "create", "-1"], "'-1'"),
                            (["imex", "create", "07"], "'07'"), (["imex", "create", "99999999999"], "'99999999999'"),
                            (["imex", "create", "1", "2"], "'2'"), (["imex", "create", "1", "--mode"], "octal"),
                            (["imex", "create", "1", "--mode", "rw"], "'rw'"), (["imex", "list", "1"], "'1'"),
                            (["imex", "create", "1", "--mode=1777"], "'1777'"), (["imex", "list", "--xml"], "--xml"),
                            (["imex", "remove", ""], "''"), (["imex", "remove", "1", "--json"], "--json")):
            output, complaint = run(self.cenote, *words, status=2, CENOTE_IMEX_DIR=str(self.folder / "unused"))
            contains(complaint, part, "cenote help")
            assert not output, output
        assert not (self.folder / "unused").exists()

    def says_when_it_could_not_write(self):
        """What did not reach the reader was not said, also where it was written long before the end."""
        for words in (["--version"], ["bench", "--seconds", "0.01"], ["help"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([self.cenote, *words], env=environment({"CENOTE_DEVICE": "host"}), stdout=full,
                                      stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", check=False)
            assert done.returncode == 1, words
            contains(done.stderr, "cenote: standard output: ")

    def describes_devices(self):
        """info, for people and for programs, with what the environment says."""
        text, _ = run(self.cenote, "info", CENOTE_HOST_DEVICES="2", CENOTE_HOST_MEMORY="64M")
        contains(text, "Devices       2", "67108864 bytes", "CENOTE_HOST_MEMORY", "64M")
        data = json.loads(run(self.cenote, "info", "--json", CENOTE_HOST_DEVICES="3", CENOTE_HOST_MEMORY="64M",
                              CENOTE_HOST_WITHOUT="managed")[0])
        assert len(data["devices"]) == 3 and len({device["uuid"] for device in data["devices"]}) == 3
        assert data["devices"][2]["memory_bytes"] == 64 << 20
        assert data["devices"][0]["has"]["managed"] is False and data["devices"][0]["has"]["unified-addressing"] is True
        assert data["environment"]["CENOTE_HOST_WITHOUT"] == "managed" and data["cuda"] == "13.0"

    def says_what_can_be_shared(self):
        """info: each way to share is tried; one that does not work says why, and what to do."""
        here = self.own_directories("ways")
        ways = ["pool-descriptor", "memory-descriptor", "event", "legacy", "fabric"]

        def tried(**variables):
            device = json.loads(run(self.cenote, "info", "--json", **{**here, **variables})[0])["devices"][0]
            assert list(device["sharing"]) == ways, device
            assert all(way["works"] == (way["why_not"] is None) for way in device["sharing"].values()), device
            return device["sharing"], device["handle_types"]

        sharing, types = tried()
        assert [way for way in ways if not sharing[way]["works"]] == ["fabric"], sharing
        assert types == {"pools": ["descriptor", "fabric"], "allocations": ["descriptor", "fabric"]}, types
        contains(sharing["fabric"]["why_not"], "IMEX channel", "CENOTE_IMEX_DIR", "cenote imex create 0")
        channels = {"CENOTE_IMEX_DIR": str(self.folder / "channels-to-try")}
        run(self.cenote, "imex", "create", "0", **channels)
        assert all(way["works"] for way in tried(**channels)[0].values())
        sharing, types = tried(CENOTE_HOST_WITHOUT="ipc", **channels)
        assert not any(way["works"] for way in sharing.values()) and types == {"pools": [], "allocations": []}
        contains(sharing["pool-descriptor"]["why_not"], "CENOTE_HOST_WITHOUT=ipc takes it away")
        (self.folder / "for-all").mkdir()
        (self.folder / "for-all").chmod(0o755)
        sharing, _ = tried(CENOTE_RUNTIME_DIR=str(self.folder / "for-all"))
        assert [way for way in ways if sharing[way]["works"]] == ["memory-descriptor"], sharing
        contains(sharing["event"]["why_not"], "for-all", "0700")
        text, _ = run(self.cenote, "info", **here)
        contains(text, "pools, by descriptor      works\n", "by fabric handle  no: fabric handles need an IMEX channel",
                 "importers of a pool", "vm.max_map_count")
        assert "\033" not in text
        text = run_at_terminal(self.cenote, "info", columns=80, **here)
        contains(text, "\033[32mworks\033[0m", "\033[1;31mno:\033[0m")
        assert "\033" not in run_at_terminal(self.cenote, "info", NO_COLOR="1", **here)
        assert "\033" not in run_at_terminal(self.cenote, "info", TERM="dumb", **here)

    def says_which_driver_there_is(self):
        """info: where NVIDIA's libcuda.so.1 is, whether it is used, and if not why."""
        data = json.loads(run(self.cenote, "info", "--json", CENOTE_LIBCUDA="/absent/libcuda.so.1")[0])
        assert data["kind"] == "host" and data["driver"]["path"] is None, data["driver"]
        contains(data["driver"]["why_not"], "/absent/libcuda.so.1")
        contains(run(self.cenote, "info", "--json", status=1, CENOTE_LIBCUDA="/absent/libcuda.so.1",
                     CENOTE_DEVICE="cuda")[1], "CENOTE_DEVICE=cuda", "/absent/libcuda.so.1")
        there = {"CENOTE_LIBCUDA": str(self.driver)}
        data = json.loads(run(self.cenote, "info", "--json", CENOTE_DEVICE="cuda", **there)[0])
        assert data["kind"] == "cuda" and data["driver"] == {"path": str(self.driver), "why_not": None}, data["driver"]
        assert data["devices"][0]["sharing"]["pool-descriptor"]["works"], data["devices"]
        data = json.loads(run(self.cenote, "info", "--json", CENOTE_DEVICE="host", **there)[0])
        assert data["driver"] == {"path": str(self.driver), "why_not": "CENOTE_DEVICE=host"}, data["driver"]
        contains(run(self.cenote, "info", CENOTE_DEVICE="host", **there)[0], f"{self.driver}, not used: CENOTE_DEVICE=")

    def sweeps_dead_names(self):
        """gc: what a killed process left goes; a live one's name, and what is no name, stays."""
        here = self.own_directories("sweep")
        runtime, fabric = Path(here["CENOTE_RUNTIME_DIR"]), Path(here["CENOTE_FABRIC_DIR"]) / str(os.geteuid())

        def sweep(*words, status=0):
            return json.loads(run(self.cenote, "gc", "--json", *words, status=status, **here)[0])

        assert sweep() == {"directories": [], "removed": 0, "dead": 0, "live": 0, "error": None}
        assert not runtime.exists() and not fabric.exists(), "what is not there was made"
        fabric.mkdir(parents=True)
        dead = [f"{number:032x}" for number in range(300)]  # more than a process that makes a name looks at
        for name in dead:
            (fabric / f"{name}.lock").touch()
            (fabric / name).touch()
        others = ["notes", "0.lock", f"{0xabc:032X}.lock", f"{1:033x}.lock", f"{0xdef:032x}"]
        for name in others:
            (fabric / name).touch()
        with subprocess.Popen([sys.executable, "-c", NAMED_PROCESS, self.library], env=environment(here),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"\n"
            names = sorted(path.name for path in runtime.iterdir())
            [account] = [name for name in names if name.startswith("account-")]
            names.remove(account)
            assert len(names) == 2 and names[1] == f"{names[0]}.lock", names
            data = sweep("--dry-run")
            assert (data["removed"], data["dead"], data["live"]) == (0, 300, 1), data
            assert len(list(fabric.iterdir())) == 600 + len(others), "--dry-run has removed something"
            data = sweep()
            assert (data["removed"], data["dead"], data["live"]) == (300, 0, 1), data
            assert [entry["path"] for entry in data["directories"]] == [str(runtime), str(fabric)], data
            assert data["directories"][0]["names"] == [{"name": names[0], "state": "live"}], data
            assert sorted(entry["name"] for entry in data["directories"][1]["names"]) == dead
            assert sorted(path.name for path in fabric.iterdir()) == sorted(others)
            assert sorted(path.name for path in runtime.iterdir()) == sorted([account, *names]), "a live name was taken away"
            info = json.loads(run(self.cenote, "info", "--json", **here)[0])
            assert info["directories"][0] == {"path": str(runtime), "live": 1, "dead": 0}, info["directories"]
            process.send_signal(signal.SIGKILL)
            process.wait()
        contains(run(self.cenote, "gc", "--dry-run", **here)[0], f"{names[0]}  dead\n", f"{account}  dead\n",
                 "2 dead names, 0 live\n")
        contains(run(self.cenote, "gc", **here)[0], f"{names[0]}  removed\n", f"{account}  removed\n",
                 "2 dead names removed, 0 live\n")
        assert not list(runtime.iterdir())

    def sweeps_no_strange_directory(self):
        """gc: a link, or what is no directory, is left alone and named; the other directory is swept all the same."""
        here = self.own_directories("strange")
        runtime, fabric = Path(here["CENOTE_RUNTIME_DIR"]), Path(here["CENOTE_FABRIC_DIR"]) / str(os.geteuid())
        fabric.mkdir(parents=True)
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        for folder in (fabric, elsewhere):
            (folder / f"{7:032x}.lock").touch()
        runtime.symlink_to(elsewhere)
        text, complaint = run(self.cenote, "gc", status=1, **here)
        contains(complaint, "cenote gc: ", str(runtime), "link")
        contains(text, "1 dead name removed")
        assert list(elsewhere.iterdir()) and not list(fabric.iterdir())
        runtime.unlink()
        runtime.touch()
        contains(run(self.cenote, "gc", status=1, **here)[1], "no directory")
        near = {**here, "CENOTE_RUNTIME_DIR": "near"}
        contains(run(self.cenote, "gc", status=1, **near)[1], "absolute path")
        contains(json.loads(run(self.cenote, "gc", "--json", status=1, **near)[0])["error"], "absolute path")
        shutil.rmtree(fabric)
        text, complaint = run(self.cenote, "gc", status=1, **near)
        contains(complaint, "absolute path")
        assert not text, text

    def shows_what_happens(self):
        """demo: what is told is in order, goes from one process to the other, and leaves nothing behind."""
        here = self.own_directories("demo")
        data = json.loads(run(self.cenote, "demo", "--json", **here)[0])
        moments = data["moments"]
        times = [moment["time_ns"] for moment in moments]
        assert times == sorted(times) and times[0] == 0 and data["exporter"] != data["importer"]
        assert sorted({moment["chapter"] for moment in moments}) == [1, 2, 3, 4]
        assert [moment["chapter"] for moment in moments] == sorted(moment["chapter"] for moment in moments)
        sent = {moment["sends"]: moment for moment in moments if moment["sends"]}
        received = {moment["receives"]: moment for moment in moments if moment["receives"]}
        assert len(sent) >= 10 and sent.keys() == received.keys(), (sent, received)
        for arrow, moment in sent.items():
            assert moment["who"] != received[arrow]["who"], moment
            assert moment["time_ns"] <= received[arrow]["time_ns"], moment
            assert moment["stream"] == received[arrow]["stream"], moment
        texts = "\n".join(f"{moment['who']}: {moment['text']}" for moment in moments)
        contains(texts, "importer: read 42, freed A", f"exporter: 1 MiB waits for process {data['importer']}",
                 "importer: reads B: still 7", "exporter: B is back", "importer: is killed (signal 9), holding C",
                 "exporter: C is back; no importer is left", "exporter: removes 1 dead name")
        assert [moment["who"] for moment in moments if moment["tone"] == "killed"] == ["importer"]
        assert not list(Path(here["CENOTE_RUNTIME_DIR"]).iterdir()), "something was left behind"
        some = json.loads(run(self.cenote, "demo", "--json", "--parts", "3,4", **here)[0])["moments"]
        assert sorted({moment["chapter"] for moment in some}) == [3, 4]
        assert {moment["text"] for moment in some} >= {"reads B: still 7", "frees B while the importer has it"}
        again = json.loads(run(self.cenote, "demo", "--json", **here)[0])
        assert times != [moment["time_ns"] for moment in again["moments"]], "these times were not measured"
        run(self.cenote, "demo", CENOTE_DEVICE="cuda", CENOTE_LIBCUDA=str(self.driver), **here)

    def draws_what_happens(self):
        """demo: in a pipe without colours, at a terminal with them and no wider than it, in ASCII where need be."""
        text, complaint = run(self.cenote, "demo", LC_ALL="C.UTF-8")
        contains(text, "exporter, process", "importer, process", "\n      4.  The reader is killed", "●", "○", "▶", "✖")
        assert "\033" not in text and not complaint, complaint
        assert all(line == line.rstrip() for line in text.splitlines())
        for words, locale in ((["--ascii"], "C.UTF-8"), ([], "C")):
            text, _ = run(self.cenote, "demo", *words, LC_ALL=locale)
            contains(text, "*----", "->*", "X is killed")
            assert text.isascii()
        for columns in (60, 80, 133):
            text = run_at_terminal(self.cenote, "demo", columns=columns, LC_ALL="C.UTF-8")
            assert "\033[" in text
            shown = without_colours(text)
            assert "\033" not in shown
            picture = [line for line in shown.splitlines() if re.match(r"(?: {8}| *\d+\.\d\d ) ", line)]
            assert len(picture) > 30 and max(map(len, picture)) <= columns, shown
        assert "\033" not in run_at_terminal(self.cenote, "demo", NO_COLOR="1")

    def draws_a_picture(self):
        """demo --svg: a drawing, well-formed, for light pages and dark, in which no text is over another."""
        file = self.folder / "demo.svg"
        contains(run(self.cenote, "demo", "--svg", file)[0], f"wrote {file}")
        contains(file.read_text(), "prefers-color-scheme: dark")
        drawing = xml.etree.ElementTree.parse(file).getroot()
        width, height = int(drawing.get("width")), int(drawing.get("height"))
        boxes = []
        for element in drawing.iter("{http://www.w3.org/2000/svg}text"):
            size = {"title": 18, "chapter": 14, "small": 12, "time": 12}.get(element.get("class"), 13)
            wide = len(element.text) * size * 0.6  # of a wide sans serif's letters
            x, y = float(element.get("x")), float(element.get("y"))
            left = x - {"end": wide, "middle": wide / 2}.get(element.get("text-anchor"), 0)
            boxes.append((left, y - 0.8 * size, left + wide, y + 0.2 * size, element.text))
            assert left > 0 and left + wide < width and 0 < y < height, element.text
        assert len(boxes) > 60
        for number, one in enumerate(boxes):
            for other in boxes[:number]:
                apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
                assert apart, (one, other)
        text, _ = run(self.cenote, "demo", "--svg=-")
        assert text.startswith("<svg ") and text.endswith("</svg>\n")

    def demo_says_why_not(self):
        """demo: where nothing can be shared it shows nothing, and says why."""
        for words in ([], ["--json"], ["--svg", self.folder / "none.svg"]):
            text, complaint = run(self.cenote, "demo", *words, status=1, CENOTE_HOST_WITHOUT="ipc")
            contains(complaint, "cenote demo: the exporter: cuMemPoolCreate: CUDA_ERROR_NOT_SUPPORTED: ")
            assert not text and len(complaint.splitlines()) == 1, text + complaint
        assert not (self.folder / "none.svg").exists()
        contains(run(self.cenote, "demo", status=1, CUDA_VISIBLE_DEVICES="")[1], "CUDA_VISIBLE_DEVICES")
        contains(run(self.cenote, "demo", "--svg", self.folder / "absent" / "x.svg", status=1)[1], "absent/x.svg")

    def options(self, name):
        """The options that a command's help names."""
        return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", run(self.cenote, "help", name)[0]))

    def has_a_manual(self):
        """A page for each command, which has all its options and can be set without a complaint."""
        pages = {name: ROOT / "man" / f"cenote-{name}.1" for name in COMMANDS}
        for name, page in pages.items():
            text = page.read_text().replace("\\-", "-")
            contains(text, f"cenote {name}", "EXIT STATUS", *self.options(name))
            contains((ROOT / "man" / "cenote.1").read_text(), f"\n.BR cenote\\-{name} (1)")
        for variable in json.loads(run(self.cenote, "info", "--json")[0])["environment"]:
            contains((ROOT / "man" / "cenote.1").read_text(), variable)
        if not shutil.which("mandoc"):
            raise Skip("mandoc is not installed: the pages have not been set")
        run("mandoc", "-Tlint", "-Wwarning", ROOT / "man" / "cenote.1", *pages.values())

    def has_a_manual_of_its_header(self):
        """cenote.3, made from cenote.h: every function it declares, with each error that is said of it."""
        folder = self.folder / "manual"
        folder.mkdir()
        header = (ROOT / "include" / "cenote" / "cenote.h").read_text()
        run(sys.executable, ROOT / "scripts" / "generate_manual.py", ROOT / "include" / "cenote" / "cenote.h",
            ROOT / "src" / "cenote.list", folder)
        text = (folder / "cenote.3").read_text()
        declared = re.findall(r"^CENOTE_API [^;]*?\b(cenote_\w+)\(", header, re.M)
        shown = [name for line in re.findall(r"^\.SS (.*)", text, re.M) for name in line.split(", ")]
        assert len(declared) > 15 and set(declared) <= set(shown) and len(shown) == len(set(shown)), shown
        assert {page.stem for page in folder.iterdir()} == {"cenote", *declared}
        assert text.count("\n.B CUDA_ERROR_") == len(re.findall(r"^ \*   CUDA_ERROR_", header, re.M))
        assert "/*\n" not in text and "\n *" not in text
        if not shutil.which("mandoc"):
            raise Skip("mandoc is not installed: the page has not been set")
        run("mandoc", "-Tlint", "-Wwarning", folder / "cenote.3")

    def completes_words(self):
        """bash: commands, and each command's own options, which are those of its help."""
        if not shutil.which("bash"):
            raise Skip("bash is not installed")
        script = ROOT / "packaging" / "completion" / "cenote.bash"

        def complete(*words, **variables):
            return run("bash", "-c", COMPLETE, "bash", script, "cenote", *words, **variables)[0].split()

        assert set(COMMANDS) < set(complete("")) and complete("de") == ["demo"]
        assert set(complete("help", "")) == set(COMMANDS)
        for name in ("demo", "run", "cc", "info", "ps", "top", "map", "trace", "check", "gc"):
            assert self.options(name) <= set(complete(name, "--")), name
        assert complete("imex", "") == ["create", "list", "remove", "start", "status", "stop", "--help"]
        assert complete("imex", "create", "0", "-") == ["--mode"] and complete("imex", "list", "") == ["--json"]
        assert complete("imex", "start", "--") == ["--nodes", "--key", "--node", "--log", "--transport"]
        assert complete("imex", "start", "--transport", "") == ["tls", "ucx"]
        assert complete("run", "--device", "") == ["host", "cuda", "auto"]
        folder = self.folder / "to-complete"
        run(self.cenote, "imex", "create", "12", CENOTE_IMEX_DIR=str(folder))
        assert complete("imex", "remove", "", CENOTE_IMEX_DIR=str(folder)) == ["12"]
        assert complete("run", "--devices", "2", str(folder / "chan")) == [str(folder / "channel12")]
        if not shutil.which("zsh"):
            raise Skip("zsh is not installed: its completion has not been tried")
        for end in open_terminal():  # zsh makes its own
            os.close(end)
        self.completes_words_in_zsh(folder)

    def completes_words_in_zsh(self, channels):
        """The same, by a zsh at a terminal of its own; programs that are run are completed as if they stood alone."""
        wanted = {"cenote ": {*COMMANDS, "help"}, "cenote help ": set(COMMANDS), "cenote de": {"demo"},
                  "cenote imex ": {"create", "list", "remove", "start", "stop"}, "cenote imex list -": {"--json"},
                  "cenote imex create 0 --": {"--mode"}, "cenote imex remove ": {"12"},
                  "cenote run --device ": {"host", "cuda", "auto"}}
        wanted.update({f"cenote {name} --": self.options(name) for name in COMMANDS if name != "imex"})
        wanted.update({f"cenote {words} {channels}/chan": {"channel12"}
                       for words in ("run", "run --", "run --devices 2", "run ls", "trace -o", "trace -o x ls")})
        text, _ = run("zsh", HERE / "complete.zsh", ROOT / "packaging" / "completion", *wanted,
                      CENOTE_IMEX_DIR=str(channels), PATH=f"{self.cenote.parent}:{os.environ['PATH']}")
        offered = {line: set() for line in wanted}
        for number, word in (line.split(":", 1) for line in text.splitlines()):
            offered[list(wanted)[int(number) - 1]].add(word)
        for line, words in wanted.items():
            assert words <= offered[line], f"{line}: {offered[line]}, not {words}"

    def makes_and_removes_channels(self):
        """imex: channels come with the mode that was asked for, are listed by number, and go."""
        folder = self.folder / "channels"
        here = {"CENOTE_IMEX_DIR": str(folder)}
        before = os.umask(0o027)
        try:
            for number, *mode in (("10",), ("2", "--mode", "0444"), ("0", "--mode=666")):
                text, _ = run(self.cenote, "imex", "create", number, *mode, **here)
                contains(text, f"{folder}/channel{number}\n")
        finally:
            os.umask(before)
        for name in ("channel", "channel01", "channelx", "other"):
            (folder / name).touch()
        data = json.loads(run(self.cenote, "imex", "list", "--json", **here)[0])
        assert data["directory"] == str(folder), data
        assert [(channel["number"], channel["mode"]) for channel in data["channels"]] == \
            [(0, "0666"), (2, "0444"), (10, "0440")], data
        assert all(channel["user"] == os.geteuid() and channel["readable"] for channel in data["channels"]), data
        text, _ = run(self.cenote, "imex", "list", **here)
        assert [line.split()[:2] for line in text.splitlines()[1:]] == [["0", "0666"], ["2", "0444"], ["10", "0440"]]
        contains(run(self.cenote, "imex", "create", "2", status=1, **here)[1], "channel 2 is already there")
        assert (folder / "channel2").stat().st_mode & 0o777 == 0o444, "what was there was touched"
        for number in ("10", "0", "2"):
            contains(run(self.cenote, "imex", "remove", number, **here)[0], f"{folder}/channel{number}\n")
        contains(run(self.cenote, "imex", "remove", "2", status=1, **here)[1], "no channel 2")
        contains(run(self.cenote, "imex", "list", **here)[0], "no channel", "cenote imex create 0")
        assert json.loads(run(self.cenote, "imex", "list", "--json", **here)[0])["channels"] == []

    def makes_what_an_example_asks_for(self):
        """The example of fabric handles says what it lacks; done as it says, it works."""
        program = self.examples / "fabric"
        _, complaint = run(program, status=1, CENOTE_DEVICE="host")
        contains(complaint, "CUDA_ERROR_NOT_PERMITTED", "export CENOTE_IMEX_DIR=", "cenote imex create 0")
        here = {"CENOTE_IMEX_DIR": str(self.folder / "example-channels")}
        run(self.cenote, "imex", "create", "0", **here)
        text, complaint = run(program, CENOTE_DEVICE="host", **here)
        contains(text, "\ndone: two processes")
        assert not complaint, complaint

    def says_why_there_is_no_channel(self):
        """imex: a directory that is not set, not there, or takes nothing is status 1 and a sentence."""
        for words in (["create", "0"], ["list"], ["list", "--json"], ["remove", "0"]):
            for variables in ({}, {"CENOTE_IMEX_DIR": ""}):
                output, complaint = run(self.cenote, "imex", *words, status=1, **variables)
                contains(complaint, "cenote imex: CENOTE_IMEX_DIR is not set", "export CENOTE_IMEX_DIR=")
                assert not output, output
        (self.folder / "file").touch()
        for place, words, part in (("absent", ["list"], "create"), ("absent", ["remove", "0"], "create"),
                                   ("absent/deeper", ["create", "0"], "absent/deeper cannot be made"),
                                   ("file", ["create", "0"], "file: Not a directory"),
                                   ("/proc/self", ["create", "0"], "/proc/self/channel0 cannot be made")):
            _, complaint = run(self.cenote, "imex", *words, status=1, CENOTE_IMEX_DIR=str(self.folder / place))
            contains(complaint, "cenote imex: ", part)

    def says_why_there_is_no_device(self):
        """An environment that leaves no device, or is not understood, is status 1 and a sentence."""
        contains(run(self.cenote, "info", status=1, CUDA_VISIBLE_DEVICES="")[1], "CUDA_VISIBLE_DEVICES")
        contains(run(self.cenote, "info", status=1, CENOTE_HOST_MEMORY="lots")[1], "'lots'")

    def runs_programs(self):
        """run: status and output are the program's; devices and memory reach it; what cannot run is 126 or 127."""
        run(self.cenote, "run", "sh", "-c", "exit 7", status=7)
        assert run(self.cenote, "run", "--", "echo", "--devices")[0] == "--devices\n"
        text, _ = run(self.cenote, "run", "--devices=064", "env")  # the most
        contains(text, "CENOTE_HOST_DEVICES=064\n")
        text, _ = run(self.cenote, "run", "--devices", "2", "--memory=32M", self.cenote, "info", "--json")
        assert [device["memory_bytes"] for device in json.loads(text)["devices"]] == [32 << 20] * 2
        text, _ = run(self.cenote, "run", "sh", "-c", "echo $LD_LIBRARY_PATH", LD_LIBRARY_PATH="/elsewhere")
        assert text.rstrip().endswith("/lib/dropin:/elsewhere"), text
        contains(run(self.cenote, "run", self.folder / "absent", status=127)[1], "absent")
        (self.folder / "plain").write_text("not a program")
        contains(run(self.cenote, "run", self.folder / "plain", status=126)[1], "plain")

    def look_at(self, program, *options, **variables):
        """What `cenote run` says of a program before it executes it; it must be one line or none."""
        done = subprocess.run([self.cenote, "run", *options, program], env=environment(variables), check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              encoding="utf-8", errors="replace")
        lines = [line for line in done.stderr.splitlines() if line.startswith(f"cenote run: {program} ")]
        assert len(lines) <= 1 and done.returncode >= 0, (done.returncode, done.stderr)
        return lines[0] if lines else ""

    def make_program(self, name, *arguments, source="int main(void) { return 0; }\n"):
        """A program that does nothing."""
        (self.folder / f"{name}.c").write_text(source)
        run(*self.compiler, self.folder / f"{name}.c", *arguments, "-o", self.folder / name)
        return self.folder / name

    def says_when_the_runtime_is_another(self):
        """Programs of CUDA 11; those of 12 and 13 are served."""
        program = self.make_program("older", "-Wl,--no-as-needed", self.make_stub("libcudart.so.11.0", ["cudaMalloc"]))
        contains(self.look_at(program), "needs libcudart.so.11.0", "libcudart.so.12 alone", "CUDA 13")
        assert not self.look_at(program, CENOTE_DEVICE="cuda", CENOTE_LIBCUDA=str(self.driver))
        for soname in ("libcudart.so.12", "libcudart.so.13"):
            program = self.make_program("newer", "-Wl,--no-as-needed", self.make_stub(soname, ["cudaMalloc"]))
            assert not self.look_at(program)
        assert not self.look_at(self.cenote)

    def says_when_a_path_leads_away(self):
        """DT_RPATH goes before LD_LIBRARY_PATH; DT_RUNPATH does not."""
        folder = self.folder / "nvidia"
        folder.mkdir(exist_ok=True)
        for soname, function in (("libcuda.so.1", "cuInit"), ("libcudart.so.13", "cudaMalloc")):
            library = shutil.copy(self.make_stub(soname, [function]), folder / soname)
            for path in (folder, "/nowhere:$ORIGIN/nvidia", "${ORIGIN}/./nvidia:/x"):
                old = self.make_program("rpath", "-Wl,--no-as-needed", library, "-Wl,--disable-new-dtags",
                                        f"-Wl,-rpath,{path}")
                contains(self.look_at(old), f"will load {soname} from {self.folder}", "DT_RPATH", "--enable-new-dtags")
                assert not self.look_at(old, CENOTE_DEVICE="cuda", CENOTE_LIBCUDA=str(self.driver))
                new = self.make_program("runpath", "-Wl,--no-as-needed", library, "-Wl,--enable-new-dtags",
                                        f"-Wl,-rpath,{path}")
                assert not self.look_at(new)
            (folder / soname).unlink()
        ours = self.make_program("rpath-ours", "-Wl,--disable-new-dtags", f"-Wl,-rpath,{self.cenote.parent.parent}/lib/dropin")
        assert not self.look_at(ours)

    def says_when_nothing_can_be_loaded(self):
        """Programs that are static, for another machine, of 32 bits, or change their user."""
        contains(self.look_at(self.make_program("alone", "-static")), "is linked statically", "shared libraries")
        program = self.make_program("changed")
        image = bytearray(program.read_bytes())
        image[18:20] = b"\x16\0"  # e_machine: S/390
        program.write_bytes(image)
        contains(self.look_at(program), "another machine")
        image[4] = 1  # of 32 bits
        program.write_bytes(image)
        contains(self.look_at(program), "32-bit program")
        if os.getuid():
            raise Skip("a program that changes its user can be made by root alone")
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            raise Skip("programs do not change their user in this folder")
        program = self.make_program("changes-user")
        os.chown(program, 65534, -1)
        program.chmod(0o4755)
        contains(self.look_at(program), "set-user-ID", "run a copy")

    def looks_at_anything(self):
        """What is no program, what is broken, what cannot be read: nothing is said, and nothing is waited for."""
        whole = bytearray(self.make_program("whole").read_bytes())
        for change in (slice(32, 40), slice(54, 56), slice(56, 58), slice(64, 400), slice(0, 4)):
            broken = self.folder / "broken"  # and not executable: whatever happens is the command's doing
            broken.write_bytes(whole[:change.start] + b"\xff" * (change.stop - change.start) + whole[change.stop:])
            assert not self.look_at(broken)
        for length in (0, 3, 40, 64, 100, 2000):
            broken.write_bytes(whole[:length])
            assert not self.look_at(broken)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe, 0o755)
        assert not self.look_at(pipe)
        script = self.folder / "script"
        script.write_text("#!/bin/sh\nexit 0\n")
        script.chmod(0o755)
        assert not self.look_at(script)

    def serves_programs_of_the_driver(self):
        """A program linked with NVIDIA's libcuda.so.1 runs over Cenote's."""
        program = self.compile_program(
            "driver", DRIVER_PROGRAM, "libcuda.so.1",
            ["cuInit", "cuDeviceGetCount", "cuCtxCreate_v4", "cuMemAlloc_v2", "cuMemsetD8_v2", "cuMemcpyDtoH_v2",
             "cuArrayCreate_v2"])
        text, complaint = run(self.cenote, "run", "--devices", "2", program, CENOTE_LOG="debug")
        assert text == "results 0, devices 2, byte a5, array 801\nfound 1, mark 1\n", text
        contains(complaint, "]: NOT_SUPPORTED: ", "cuArrayCreate_v2")
        assert run(self.cenote, "run", program)[1] == "", "an error was printed without CENOTE_LOG"

    def serves_an_example(self):
        """Two processes that share memory: a whole program, linked with NVIDIA's libcuda.so.1."""
        source, thing = ROOT / "examples" / f"{EXAMPLE}.c", self.folder / "example.o"
        run(*self.compiler, f"-I{HEADERS}", "-c", source, "-o", thing)
        missing = [line.split()[-1] for line in run("nm", "-u", thing)[0].splitlines()]
        self.run_example(HEADERS, self.make_stub("libcuda.so.1", [name for name in missing if name.startswith("cu")]))

    def serves_an_example_of_the_toolkit(self):
        """The same program, built with NVIDIA's own headers and stub library."""
        nvcc = shutil.which("nvcc")
        home = os.environ.get("CUDA_PATH") or (nvcc and Path(nvcc).resolve().parent.parent)
        if not home or not Path(home, "include", "cuda.h").exists():
            raise Skip("no CUDA toolkit here (neither CUDA_PATH nor nvcc leads to one)")
        library = Path(home, "lib64", "stubs", "libcuda.so")
        if not library.exists():
            raise Skip("the CUDA toolkit here has no stub of libcuda")
        self.run_example(Path(home, "include"), library)

    def survives_being_closed(self):
        """A program may open the library when it needs it, and close it: what threads of ours still run is not gone."""
        source, program = self.folder / "opening.c", self.folder / "opening"
        source.write_text(OPENING_PROGRAM)
        run(*self.compiler, source, "-ldl", "-o", program)
        expected = "called\ncalled\nresults 0, stays 1\n"
        text, _ = run(self.cenote, "run", program)
        assert text == expected, text

    def serves_programs_of_the_runtime(self):
        """The same for libcudart.so.13, whose symbols have a version; what nvcc adds to a program is there."""
        program = self.compile_program(
            "runtime", RUNTIME_PROGRAM, "libcudart.so.13",
            ["cudaMalloc", "cudaMemset", "cudaMemcpy", "cudaLaunchKernel", "cudaGetLastError", "cudaMallocArray",
             "__cudaRegisterFatBinary", "__cudaRegisterFunction", "__cudaPushCallConfiguration",
             "__cudaPopCallConfiguration", "__cudaUnregisterFatBinary", "__cudaGetKernel", "__cudaLaunchKernel"],
            version="libcudart.so.13")
        text, complaint = run(self.cenote, "run", program, CENOTE_LOG="debug")
        assert text == ("results 0, byte 5a\nresults 0, block 3, shared 5, stream 0\nempty 1\nlaunch 200\nby handle 200\n"
                        "unloaded 400\n"
                        "array 801, last error 801\n"), text
        contains(complaint, "cudaMallocArray", "cudaLaunchKernel: INVALID_IMAGE: ")


def main(build, *compiler):
    """Runs all tests; True when all passed."""
    with tempfile.TemporaryDirectory() as folder:
        command = Command(build, compiler, folder)
        return run_tests(by_name(
            command.says_what_it_is, command.refuses_what_it_does_not_understand,
            command.says_when_it_could_not_write, command.describes_devices,
            command.says_why_there_is_no_device, command.says_what_can_be_shared, command.says_which_driver_there_is,
            command.shows_what_happens, command.draws_what_happens, command.draws_a_picture, command.demo_says_why_not,
            command.sweeps_dead_names, command.sweeps_no_strange_directory, command.has_a_manual,
            command.has_a_manual_of_its_header,
            command.completes_words, command.makes_and_removes_channels, command.says_why_there_is_no_channel,
            command.makes_what_an_example_asks_for, command.runs_programs,
            command.says_when_the_runtime_is_another, command.says_when_a_path_leads_away,
            command.says_when_nothing_can_be_loaded, command.looks_at_anything, command.serves_programs_of_the_driver,
            command.serves_programs_of_the_runtime, command.serves_an_example,
            command.serves_an_example_of_the_toolkit, command.survives_being_closed))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
