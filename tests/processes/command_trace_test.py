#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of `cenote trace`: what it writes can be drawn, and is what happened.

    command_trace_test.py BUILD_DIRECTORY SUBJECT DRIVER C_COMPILER...

SUBJECT is trace_subject.c, built; DRIVER what the cuda device has for a driver here. Every file is looked at as a
viewer reads it (see Trace.check), whatever it shows.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import Skip, by_name, run_tests  # pylint: disable=wrong-import-position

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Trace:
    """A file that was written, in parts."""

    def __init__(self, path):
        self.file = json.loads(path.read_text())
        self.events = self.file["traceEvents"]
        self.slices = self.of_kind("X")
        self.processes = self.named("process_name")
        self.labels = {event["pid"]: event["args"]["labels"] for event in self.of_kind("M")
                       if event["name"] == "process_labels"}
        self.tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in self.of_kind("M")
                       if event["name"] == "thread_name"}
        self.check()

    def of_kind(self, *kinds):
        """The events of these phases."""
        return [event for event in self.events if event["ph"] in kinds]

    def named(self, what):
        """A member of the metadata of each process."""
        return {event["pid"]: event["args"]["name"] for event in self.of_kind("M") if event["name"] == what}

    def check(self):
        """What a viewer needs: known tracks, times in order, slices that nest, arrows with both ends in slices."""
        assert self.file["displayTimeUnit"] == "ns" and self.file["otherData"]["lost"] == 0, self.file["otherData"]
        assert all(event["ph"] in "MXCisf" and isinstance(event["pid"], int) and isinstance(event["tid"], int)
                   for event in self.events)
        for event in self.of_kind("X", "C", "i", "s", "f"):
            assert event["pid"] in self.processes and event["ts"] >= 0 and event["name"], event
        for event in self.slices:
            assert (event["pid"], event["tid"]) in self.tracks and event["dur"] > 0, event
        assert len({tid for _, tid in self.tracks}) == len(self.tracks)  # Perfetto knows a thread by its number alone
        for track in self.tracks:
            self.check_track(track)
        for event in self.of_kind("C"):
            assert all(value >= 0 for value in event["args"].values()), event
        arrows = {}
        for event in self.of_kind("s", "f"):
            assert event["ph"] not in arrows.setdefault(event["id"], {}), event
            arrows[event["id"]][event["ph"]] = event
        for arrow in arrows.values():
            assert set(arrow) == {"s", "f"} and arrow["s"]["ts"] <= arrow["f"]["ts"], arrow
            assert arrow["s"]["name"] == arrow["f"]["name"] and arrow["s"]["cat"] == arrow["f"]["cat"], arrow
            assert arrow["f"]["bp"] == "e", arrow
            # Chrome may take one that ends there. Perfetto takes the last of the track that has begun, and draws from
            # that of the two which began first.
            begin, end = self.around(arrow["s"]), self.around(arrow["f"])
            for place, around in ((arrow["s"], begin), (arrow["f"], end)):
                assert around["ts"] < place["ts"] or around["dur"] < 0.002 or begin["dur"] < 0.002, (place, around)
                assert not [event for event in self.slices if event["tid"] == place["tid"]
                            and around["ts"] < event["ts"] <= place["ts"]], (place, around)
            assert begin["ts"] <= end["ts"], (arrow, begin, end)

    def check_track(self, track):
        """Slices of a track lie beside or within each other; those of a kind begin in order."""
        events = [event for event in self.slices if (event["pid"], event["tid"]) == track]
        begun = [event["ts"] for event in events if event["cat"] != "sharing"]
        assert begun == sorted(begun), track
        open_ends = []
        for event in sorted(events, key=lambda event: event["ts"]):
            begin, end = round(event["ts"] * 1000), round(event["ts"] * 1000) + round(event["dur"] * 1000)
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], event
            assert bool(open_ends) or event["cat"] != "sharing", event
            assert not open_ends or event["cat"] != "stream", event
            open_ends.append(end)

    def around(self, end, *kinds):
        """The innermost slice, of these kinds if any, that an arrow's end lies in."""
        found = [event for event in self.slices if (event["pid"], event["tid"]) == (end["pid"], end["tid"])
                 and event["ts"] <= end["ts"] < event["ts"] + event["dur"] and (not kinds or event["cat"] in kinds)]
        return max(found, key=lambda event: event["ts"])

    def arrows(self):
        """Each as (name, what it leads from, what it leads to, between processes), sorted."""
        begins = {event["id"]: event for event in self.of_kind("s")}
        ends = ((begins[event["id"]], event) for event in self.of_kind("f"))
        whole = ("call", "stream")
        return sorted((begin["name"], self.around(begin, *whole)["name"], self.around(end, *whole)["name"],
                       begin["pid"] != end["pid"]) for begin, end in ends)

    def calls(self, name=None, process=None):
        """The calls of a name, of a process."""
        return [event for event in self.slices if event["cat"] == "call" and name in (None, event["name"])
                and process in (None, event["pid"])]

    def roles(self, name):
        """Of two processes the one that made a call, and the other."""
        [call] = self.calls(name)
        [other] = set(self.processes) - {call["pid"]}
        return call["pid"], other

    def values(self, process, pool, what):
        """What a counter has counted."""
        return [event["args"][what] for event in self.of_kind("C") if (event["pid"], event["name"]) == (process, pool)]

    def stream(self, name, process=None):
        """What went through a stream."""
        return [event for event in self.slices if event["cat"] == "stream" and process in (None, event["pid"])
                and self.tracks[event["pid"], event["tid"]] == name]


class Test:
    """The command, the subject, and a folder."""

    def __init__(self, build, subject, driver, compiler, folder):
        self.build, self.subject, self.driver, self.compiler = Path(build), subject, driver, compiler
        self.folder = Path(folder)
        self.cenote, self.examples = self.build / "bin" / "cenote", self.build / "examples"
        self.file = self.folder / "trace.json"
        (self.folder / "records").mkdir()

    def environment(self, **variables):
        """The environment without what has a say in Cenote; records and names go to this test's folder."""
        passed = {name: value for name, value in os.environ.items() if not name.startswith("CENOTE_")
                  and name not in ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD")}
        return {**passed, "TMPDIR": str(self.folder / "records"), "CENOTE_RUNTIME_DIR": str(self.folder / "runtime"),
                "CENOTE_DEVICE": "host", **variables}

    def words(self, *program):
        """The command line that traces a program into the file."""
        return [str(word) for word in (self.cenote, "trace", "-o", self.file, *program)]

    def run(self, *words, status=0, **variables):
        """What a command prints on both channels; it must end with this status."""
        done = subprocess.run([str(word) for word in words], env=self.environment(**variables), cwd=self.folder,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", check=False)
        assert done.returncode == status, f"{words}: {done.returncode}, not {status}\n{done.stdout}{done.stderr}"
        assert not list((self.folder / "records").iterdir())
        return done.stdout, done.stderr

    def trace(self, *program, status=0, **variables):
        """The trace of a program that must end with this status."""
        self.file.unlink(missing_ok=True)
        _, complaint = self.run(*self.words(*program), status=status, **variables)
        assert complaint.splitlines()[-1].endswith(f": {self.file}"), complaint
        return Trace(self.file)

    def play(self, role, status=0):
        """The trace of the subject in a role."""
        return self.trace(self.subject, role, status=status)

    # ---- Between processes ----

    def draws_events_between_processes(self):
        """The example whose two processes keep the order by events: a pool, a block, two events, two waits."""
        trace = self.trace(self.examples / "share_allocations")
        assert len(trace.processes) == 2 and not trace.labels, trace.processes
        arrows = trace.arrows()
        assert [arrow for arrow in arrows if not arrow[3]] == [], arrows
        assert [arrow[:3] for arrow in arrows] == [
            ("block", "cudaMemPoolExportPointer", "cudaMemPoolImportPointer"),
            ("event", "EventRecord", "StreamWaitEvent"), ("event", "EventRecord", "StreamWaitEvent"),
            ("event", "cudaIpcGetEventHandle", "cudaIpcOpenEventHandle"),
            ("event", "cudaIpcGetEventHandle", "cudaIpcOpenEventHandle"),
            ("pool", "cudaMemPoolExportToShareableHandle", "cudaMemPoolImportFromShareableHandle")], arrows
        exporter, importer = trace.roles("cudaMemPoolExportPointer")
        assert list(trace.processes) == [exporter, importer], trace.processes  # the parent first
        [wait] = [event for event in trace.stream("stream 1", importer) if event["name"] == "StreamWaitEvent"]
        [record] = [event for event in trace.stream("stream 1", exporter) if event["name"] == "EventRecord"]
        assert wait["ts"] + wait["dur"] > record["ts"] and wait["args"]["event"] == f"event 1 of {exporter}", wait
        counters = {(event["pid"], event["name"], *event["args"]) for event in trace.of_kind("C")}
        assert counters == {(exporter, "pool 1", "bytes in use"),
                            (importer, f"pool 1 of {exporter}", "bytes imported")}, counters
        for counter in counters:
            values = trace.values(*counter)
            assert values[-1] == 0 and max(values) > 0, values
        names = {event["name"] for event in trace.stream("stream 1")}
        assert {"number", "multiply", "add"} < names, names  # kernels, from a module

    def draws_other_ways_to_share(self):
        """Memory of cuMemCreate() by descriptor, and legacy handles."""
        arrows = self.trace(self.examples / "shareable_allocation").arrows()
        assert ("memory", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", True) in arrows, arrows
        arrows = self.trace(self.examples / "legacy_ipc").arrows()
        assert ("memory", "cudaIpcGetMemHandle", "cudaIpcOpenMemHandle", True) in arrows, arrows
        assert ("event", "EventRecord", "StreamWaitEvent", True) in arrows or \
               ("event", "EventRecord", "cudaEventSynchronize", True) in arrows, arrows

    def draws_the_demo(self):
        """What is freed early is used again when the importer releases it; one process is killed, and shown as such."""
        trace = self.trace(self.cenote, "demo")
        exporter, importer = trace.roles("cenote_send_pool")
        assert trace.labels == {importer: "killed"} and trace.processes[importer].endswith("(killed)"), trace.labels
        [killed] = trace.of_kind("i")
        last = max(event["ts"] + event["dur"] for event in trace.slices if event["pid"] == importer)
        assert killed["pid"] == importer and killed["name"] == "killed" and killed["ts"] >= last, killed
        arrows = trace.arrows()
        assert ("used again", "cuMemFree", "cuMemAllocFromPoolAsync", True) in arrows, arrows
        [outer] = trace.calls("cenote_send_pool")
        [inner] = trace.calls("cuMemPoolExportToShareableHandle")
        assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.001, inner
        [got, *_] = trace.calls("cenote_recv_block")
        assert got["args"]["event"] == f"event 1 of {exporter}", got

    def follows_descriptors(self):
        """What cenote_send_descriptor() sends is what cenote_recv_descriptor() gets."""
        trace = self.play("send")
        arrows = trace.arrows()
        assert ("descriptor", "cenote_send_descriptor", "cenote_recv_descriptor", False) in arrows, arrows

    # ---- Within one ----

    def draws_streams(self):
        """What waits in a stream begins when it is its turn; kernels have names, threads and their streams tracks."""
        trace = self.play("work")
        [process] = trace.processes
        names = [event["name"] for event in trace.stream("stream 1")]
        assert names == ["MemAllocAsync", "LaunchHostFunc", "MemsetD8Async", "EventRecord", "scale",
                         "MemFreeAsync"], names
        gate, fill, record = trace.stream("stream 1")[1:4]
        assert abs(fill["ts"] - gate["ts"] - gate["dur"]) < 0.002 and fill["args"]["queued_ns"] > 0, fill
        [wait, copy] = trace.stream("stream 2")
        assert (wait["name"], copy["name"]) == ("StreamWaitEvent", "MemcpyDtoDAsync"), wait
        assert wait["ts"] < gate["ts"] + gate["dur"] < wait["ts"] + wait["dur"] and copy["args"]["bytes"] == 64, wait
        assert trace.arrows() == [("event", "EventRecord", "StreamWaitEvent", False),
                                  ("event", "EventRecord", "cuEventSynchronize", False)], trace.arrows()
        assert record["args"]["event"] == wait["args"]["event"] == "event 1", record
        threads = {name for (_, tid), name in trace.tracks.items() if tid < 1 << 22}
        assert {"second"} < threads and len(threads) == 2, threads
        [second] = [tid for (_, tid), name in trace.tracks.items() if name == "second"]
        [own] = trace.stream(f"default stream of thread {second}")
        [legacy] = trace.stream("default stream")
        assert own["name"] == "MemsetD8Async" and legacy["name"] == "MemsetAsync", legacy
        assert trace.values(process, "default pool", "bytes in use") == [4096, 0], trace.of_kind("C")
        assert not trace.calls("cuMemsetD8Async", process + 1) and len(trace.calls("cudaMemsetAsync")) == 1
        assert len(trace.calls("cuMemsetD8Async")) == 2  # and not what cudaMemsetAsync calls

    def says_why_calls_failed(self):
        """The result, the sentence, and the program's status, which is the command's."""
        trace = self.play("fail", status=3)
        [free] = trace.calls("cuMemFree")
        assert free["args"]["result"] == "CUDA_ERROR_INVALID_VALUE" and "12345" not in free["args"]["error"], free
        assert free["args"]["address"] == "0x3039" and len(free["args"]["error"]) > 10, free
        [destroy] = trace.calls("cudaEventDestroy")
        assert destroy["args"]["result"].startswith("cudaError") and destroy["cname"] == "terrible", destroy
        assert list(trace.labels.values()) == ["exit status 3"], trace.labels

    def finds_calls_by_address(self):
        """dlsym() of a library that was opened, and cuGetProcAddress()."""
        trace = self.play("look-up")
        assert len(trace.calls("cuStreamCreate")) == 1 and len(trace.calls("cuStreamQuery")) == 1, trace.slices

    # ---- Beginning and end of processes ----

    def shows_the_killed(self):
        """A process that is killed within a call: what it did is there, and the call did not return."""
        trace = self.play("die", status=-signal.SIGKILL)
        [process] = trace.processes
        [call] = trace.calls("cenote_recv_descriptor")
        assert call["args"]["result"] == "did not return" and trace.labels == {process: "killed"}, call
        assert len(trace.calls("cuStreamCreate")) == 1

    def tells_programs_of_a_process_apart(self):
        """One program that executes another, in the same process."""
        trace = self.play("execute", status=3)
        first, second = trace.processes
        assert trace.labels == {first: "executed another program", second: "exit status 3"}, trace.labels
        assert len(trace.calls("cuStreamCreate", first)) == 1 and len(trace.calls("cuMemFree", second)) == 1

    def follows_forks(self):
        """A forked child has a file of its own, also when it ends by _exit()."""
        trace = self.play("fork")
        parent, child = trace.processes
        assert trace.labels == {child: "exit status 4"} and len(trace.calls("cuStreamSynchronize", parent)) == 1
        [query] = trace.calls("cuStreamQuery", child)
        assert query["args"]["result"] == "CUDA_ERROR_NOT_INITIALIZED", query

    def waits_for_orphans(self):
        """The file is written when the last process has ended, though the program has ended before."""
        with subprocess.Popen(self.words(self.subject, "orphan"), env=self.environment(), stdin=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            complaint = process.communicate()[1].decode()
        assert process.returncode == 0, complaint
        trace = Trace(self.file)
        assert len(trace.processes) == 2 and len(trace.calls("cuStreamCreate")) == 2, complaint

    def passes_signals_on(self):
        """An interrupt is the program's, and what was recorded until then is written."""
        with subprocess.Popen(self.words(self.subject, "wait"), env=self.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            assert process.stdout.read(1) == b"!"
            process.send_signal(signal.SIGINT)
            complaint = process.communicate()[1].decode()
        assert process.returncode == -signal.SIGINT, complaint
        trace = Trace(self.file)
        assert list(trace.labels.values()) == ["killed"] and len(trace.calls("cuStreamCreate")) == 1, trace.labels

    def says_what_is_wrong(self):
        """Command lines and programs that are none, a file that cannot be written, a program without calls."""
        for words, part in (((), "missing program"), (("-o",), "-o takes a file"), (("--speed", "true"), "--speed"),
                            (("--devices", "many", "true"), "takes a number")):
            _, complaint = self.run(self.cenote, "trace", *words, status=2)
            assert part in complaint and "cenote help trace" in complaint, complaint
        self.file.unlink(missing_ok=True)
        for program, status in (("absent-program", 127), (self.folder, 126)):
            assert str(program) in self.run(*self.words(program), status=status)[1]
            assert not self.file.exists()
        assert "/absent/x" in self.run(self.cenote, "trace", "-o", "/absent/x", "true", status=1)[1]
        _, complaint = self.run(*self.words("sh", "-c", "exit 5"), status=5)
        assert "0 processes, 0 calls, 0 arrows" in complaint and "no call was recorded" in complaint, complaint
        assert json.loads(self.file.read_text())["traceEvents"] == []
        text, complaint = self.run(self.cenote, "trace", "-o", "-", "sh", "-c", "echo printed")
        printed, text = text.split("\n", 1)
        assert printed == "printed" and json.loads(text)["traceEvents"] == [], text
        assert "0 arrows: standard output\n" in complaint and not (self.folder / "-").exists(), complaint
        self.run(self.cenote, "trace", "true")
        assert (self.folder / "cenote-trace.json").exists()

    # ---- The cuda device ----

    def traces_the_cuda_device(self):
        """There a stream's times are what the program has learned, or with --marks what host functions have seen."""
        for marks in ((), ("--marks",)):
            trace = self.trace("--device", "cuda", *marks, self.examples / "share_allocations", CENOTE_DEVICE="auto",
                               CENOTE_LIBCUDA=self.driver)
            assert len(trace.processes) == 2, trace.processes
            assert len([arrow for arrow in trace.arrows() if arrow[3]]) == 6, trace.arrows()
            [done] = [event for event in trace.stream("stream 1") if "add" in event["name"].split(", ")]
            assert done["args"]["done"] == "at its end" or (not marks and done["args"]["done"] == "by its end"), done
            assert not marks or done["name"] == "add", done

    # ---- Programs that know nothing of Cenote ----

    def traces_python(self):
        """Two Python processes that have opened the library by themselves."""
        trace = self.trace(sys.executable, ROOT / "examples" / "share.py", self.build / "lib" / "libcenote.so.1")
        assert len(trace.processes) == 2 and all("share.py" in name for name in trace.processes.values())
        arrows = [arrow[:3] for arrow in trace.arrows() if arrow[3]]
        assert ("block", "cudaMemPoolExportPointer", "cudaMemPoolImportPointer") in arrows, arrows
        assert arrows.count(("event", "EventRecord", "StreamWaitEvent")) == 2, arrows

    # ---- A page ----

    def page(self, *program):
        """The page of a program, and what is in it: the same as in the file that is written at the same time."""
        page = self.folder / "trace.html"
        page.unlink(missing_ok=True)
        self.file.unlink(missing_ok=True)
        _, complaint = self.run(*self.words("--html", page, *program))
        assert complaint.splitlines()[-1].endswith(f": {page}"), complaint
        text = page.read_text(encoding="utf-8")
        [inside] = re.findall(r'<script type="application/json" id="trace">(.*?)</script>', text, flags=re.S)
        assert json.loads(inside) == json.loads(self.file.read_text(encoding="utf-8"))
        return page, text, Trace(self.file)

    def writes_a_page(self):
        """One file that needs no other and no network, whatever programs are called; alone, beside JSON, to a reader."""
        strange = self.folder / "<!--<script>alert(1)"
        strange.symlink_to(self.subject)
        _, text, _ = self.page(strange, "work")
        assert "<!--<script>" not in text and "\\u003c!--\\u003cscript>" in text
        assert not re.search(r"""(?:src|href|action)\s*=|url\(|@import|fetch\(|https?://(?!www\.w3\.org/2000/svg)""", text)
        assert text.count("<script") == 2 and "default-src 'none'" in text and "@TRACE@" not in text
        (self.folder / "cenote-trace.json").unlink(missing_ok=True)
        printed, complaint = self.run(self.cenote, "trace", "--html", "-", self.subject, "work")
        assert printed.rstrip().endswith("</html>") and complaint.splitlines()[-1].endswith("standard output"), complaint
        assert not (self.folder / "cenote-trace.json").exists()
        _, complaint = self.run(self.cenote, "trace", "--html", self.folder / "none" / "page", self.subject, "work",
                                status=1)
        assert "none/page" in complaint, complaint
        _, complaint = self.run(self.cenote, "trace", "--html", "-", "-o", "-", self.subject, status=2)
        assert "cannot both be standard output" in complaint, complaint

    def draws_the_page_in_a_browser(self):
        """A browser draws a row for each call and each piece of a stream's work, and every arrow."""
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if not browser:
            raise Skip("no Chromium here")
        page, _, trace = self.page(self.examples / "share_allocations")
        drawn = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/user",
                                "--window-size=1600,4000", "--virtual-time-budget=5000", "--dump-dom", page.as_uri()],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=False, timeout=120)
        if drawn.returncode or not drawn.stdout:
            raise Skip("Chromium does not start here")
        rows = [event for event in trace.slices if event["cat"] != "sharing"]
        assert f'data-rows="{len(rows)}" data-arrows="{len(trace.arrows())}"' in drawn.stdout, drawn.stdout[-3000:]
        assert drawn.stdout.count('<g class="row') == len(rows), len(rows)
        for name in ("cudaMemPoolExportPointer", "cudaMemPoolImportPointer", "multiply", "share_allocations"):
            assert name in drawn.stdout.split("</script>")[-1] or name in drawn.stdout.split("<script")[0], name

    def traces_a_program_of_the_toolkit(self):
        """An example that was built with NVIDIA's headers and linked with NVIDIA's runtime."""
        nvcc = shutil.which("nvcc")
        home = os.environ.get("CUDA_PATH") or (nvcc and Path(nvcc).resolve().parent.parent)
        if not home:
            raise Skip("no CUDA toolkit here (neither CUDA_PATH nor nvcc leads to one)")
        libraries = [Path(home) / folder / "libcudart.so" for folder in ("lib64", "lib", "targets/x86_64-linux/lib")]
        library = next((library for library in libraries if library.exists()), None)
        if not library:
            raise Skip("the CUDA toolkit here has no libcudart.so")
        program = self.folder / "share_a_pool"
        self.run(*self.compiler, "-isystem", Path(home) / "include", ROOT / "examples" / "share_a_pool.c", library,
                 "-ldl", "-o", program)
        trace = self.trace(program)
        assert [arrow[:3] for arrow in trace.arrows()] == [
            ("block", "cudaMemPoolExportPointer", "cudaMemPoolImportPointer"),
            ("pool", "cudaMemPoolExportToShareableHandle", "cudaMemPoolImportFromShareableHandle")], trace.arrows()


def main(build, subject, driver, *compiler):
    """Runs all tests; True when all passed."""
    with tempfile.TemporaryDirectory(prefix="cenote-test-") as folder:
        test = Test(build, subject, driver, compiler, folder)
        return run_tests(by_name(
            test.draws_events_between_processes, test.draws_other_ways_to_share, test.draws_the_demo,
            test.follows_descriptors, test.draws_streams, test.says_why_calls_failed, test.finds_calls_by_address,
            test.shows_the_killed, test.tells_programs_of_a_process_apart, test.follows_forks, test.waits_for_orphans,
            test.passes_signals_on, test.says_what_is_wrong, test.traces_the_cuda_device, test.traces_python,
            test.writes_a_page, test.draws_the_page_in_a_browser, test.traces_a_program_of_the_toolkit))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
