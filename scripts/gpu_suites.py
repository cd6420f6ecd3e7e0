#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The tests on a GPU: what `make test` has built, run on the cuda device. scripts/gpu_test.sh calls this.

    gpu_suites.py suites       the test programs, by CENOTE_TEST_DEVICE=cuda
    gpu_suites.py conformance  the chapters, linked with libcenote.so
    gpu_suites.py answers DIR  answers that gpu_golden.sh wrote: of Cenote in front of the driver
    gpu_suites.py unchanged DIR  the same of the driver alone: are they still the golden ones?
    gpu_suites.py examples DIR   the examples of a folder that gpu_test.sh made
    gpu_suites.py sanitizer DIR  the same under compute-sanitizer

What is not run is listed with its reason. In the conformance suite an answer passes when it is the golden one, since
most calls are the driver's own here, or when docs/differences.md or docs/differences_gpu.md lists it as ours.
"""

import argparse
import importlib.util
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import run_tests
from run_tests import PROGRAM_SECONDS_MAX, Result, introspect, parse_tap, run, test_environment

ROOT = Path(__file__).resolve().parent.parent
CONFORMANCE = ROOT / "tests" / "conformance"
CHANNELS = Path("/dev/nvidia-caps-imex-channels")

NO_DEVICE = "uses no device: `make test` has run the same"
HOST_INSIDE = "looks into the host device"
KERNELS_IN_C = "its kernels are C, for the host device"
THE_DRIVERS = "its calls are the driver's own here; conformance asks them"
BY_HOST = "reads device memory from the host, as only the host device lets it"
SETTINGS = "is about settings of the host device"
OWN_DRIVER = "brings a driver or a device of its own: `make test` has run the same"

# Programs that are left out. One that is in no table is run.
PROGRAMS = {
    **dict.fromkeys(["bench_harness_test", "bits_test", "heap_test", "harness_test", "imex_test", "lock_test",
                     "map_test", "segment_test", "service_test", "socket_test", "span_test", "table_test",
                     "wire_test"], NO_DEVICE),
    **dict.fromkeys(["config_test", "memory_account_test", "share_limits_test"], SETTINGS),
    "nvml_test": "the drop-in answers for the host device; a GPU has NVIDIA's own library",
    "bench_test": "measures on the host device; the part bench is in its place",
    "threads_test": "uses objects that other threads destroy, on which the driver crashes",
    "inject_test": "starts a process with a context for each of a thousand faults, which takes a GPU many minutes",
    "port_fault_test": "faults of handles that are the driver's here",
    "seam_symbols": NO_DEVICE,
    "slow_test": "holds the calls that sharing makes over memory files",
    **dict.fromkeys(["command_trace_test", "gpu_command_test", "gpu_entry_test", "share_parts_test"], OWN_DRIVER),
    **dict.fromkeys(["event_forge_test", "follow_test", "queue_test", "reuse_test", "signal_test",
                     "signal_order_test"], HOST_INSIDE),
    **dict.fromkeys(["function_test", "handle_test", "launch_test", "per_thread_test", "stream_order_test",
                     "document_2_c_test", "document_2_cpp_test"], KERNELS_IN_C),
    **dict.fromkeys(["kernels_test", "kernels_run_test", "kernel_watch_test", "registered_test", "compiled_test",
                     "static_runtime_test"],
                    "is about PTX on the host device; kernels are the driver's here"),
    **dict.fromkeys(["context_test", "copy_test", "edge_test", "entry_test", "event_test",
                     "fabric_port_test",
                     "fabric_strangers_test", "jit_test",
                     "ipc_memory_limits_test", "ipc_memory_test", "memory_test", "port_memory_test", "port_test",
                     "runtime_memory_test",
                     "runtime_test", "shared_event_test", "stream_test", "vmm_import_test", "vmm_share_test",
                     "vmm_test"], THE_DRIVERS),
    **dict.fromkeys(["pool_order_test"], BY_HOST),
    **dict.fromkeys(["command_test", "documents_toolkit_test"],
                    "builds programs for the host device; the other parts of gpu-test are in its place"),
}
# Tests of programs that are run.
UNCHECKED = "copies and fills are the driver's here, which does not look whose the memory is"
TESTS = {
    "pool_api_test": {
        "host_pool_rights": UNCHECKED,
        "wrong_frees_are_refused": UNCHECKED,
        "managed_pool_refusals": "managed pools are the driver's here, without a sentence of Cenote's",
        "other_memory_in_stream_order": "frees of what is no pool's are the driver's here, and cuMemFree() waits",
        "prefetching_ends_with_the_block": "managed pools are the driver's here, which remembers it",
        "capabilities_can_be_missing": SETTINGS,
        "devices_can_have_no_pools": SETTINGS,
        "devices_can_share_no_pools": SETTINGS,
        "copies_by_the_current_contexts_device": SETTINGS,
        "rights_of_devices": SETTINGS,
    },
    "gpu_calls_test": {"a_refused_fabric_handle_has_a_sentence": "a real driver refuses all of these handles alike"},
    "kept_hostile_test": {"a_repeated_question_gains_no_rights": "a GPU's descriptors are not for reading only"},
    "wait_test": {"a_host_function_is_one_in_the_waiter_too": "host functions are the driver's here"},
    "gpu_order_test": {"a_forked_child_destroys_an_event": "it hangs there, most likely in the driver"},
    "share_attack_test": dict.fromkeys(["a_trim_gives_back_what_importers_have_filled",
                                        "the_machine_has_its_memory_back",
                                        "what_a_dead_importer_has_filled_is_given_back",
                                        "what_is_committed_meanwhile_is_not_lost"],
                                       "fills a memory file, as the host device has"),
    "share_calls_test": {"a_pool_of_an_unseen_device_is_refused": SETTINGS},
    "share_hostile_test": {
        "a_ledger_full_of_lies": "the importer that lies is the test itself, and here a hold ends with its process",
        **dict.fromkeys(["an_exporter_that_changes_its_mind", "blocks_out_of_bounds", "first_parts_that_are_none",
                         "marks_that_lie", "parts_that_are_none", "requests_out_of_bounds"],
                        "plays the other side with memory files, as the host device has"),
    },
    "share_siege_test": {
        "an_exporter_that_never_stops_talking": "the impostor's pool is one of the host device",
        "an_exporter_goes_on_beside_each_kind": "makes some thirty contexts, and its time is over before",
    },
    "limits_test": {"small_files_at_the_start": "the driver itself writes files when it starts, and dies of the limit"},
    "sweep_test": {"dead_names_go_and_live_ones_stay": "names are for handles that are the driver's here"},
}
SUITES = ("unit", "processes", "documents", "faults")
# The parts conformance and examples run those two suites; `cuda` is these again, for where there is no GPU.
SUITES_LEFT_OUT = {"abi": NO_DEVICE, "fuzz": "bytes from strangers, read alike on every device: `make test` reads them",
                   "install": NO_DEVICE, "model": NO_DEVICE}


def environment_of(test, options):
    """As run_tests has it, on the cuda device; what the caller says of the driver stays."""
    ours = {name: os.environ[name] for name in ("CENOTE_LIBCUDA", "CENOTE_POOLS") if name in os.environ}
    return {**test_environment(), **test["env"], **ours, "CENOTE_DEVICE": options.device,
            "CENOTE_TEST_DEVICE": options.device, "CENOTE_TEST_UNCOUNTED": "1"}


class Report(run_tests.Report):
    """Says what failed at once as well: a GPU is not always there to the end."""

    def add(self, title, results, seconds):
        super().add(title, results, seconds)
        for result in results:
            if result.status == "failed":
                print(f"    failed: {result.name}", flush=True)


# ---- Test programs ----


def chosen_tests(test, environment):
    """The names of a program's tests, and those of them that are left out, with reasons."""
    _, text = run(test["cmd"] + ["--list"], 60, env=environment)
    names = [line.split()[0] for line in text.splitlines() if line.strip()]
    left_out = TESTS.get(test["name"], {})
    return names, {name: reason for name, reason in left_out.items() if name in names}


def run_suite_program(test, options, directory):
    """One program, without the tests of it that are left out, and how long it took."""
    started = time.monotonic()
    environment = environment_of(test, options)
    names, left_out = chosen_tests(test, environment)
    wanted = [name for name in names if name not in left_out] if left_out else []
    status, text = run(test["cmd"] + wanted, PROGRAM_SECONDS_MAX, env=environment, cwd=test["workdir"] or directory)
    results = [Result(f"{test['name']}: {name}", "skipped", reason) for name, reason in left_out.items()]
    return results + parse_tap(test["name"], text, status), time.monotonic() - started


def run_suites(report, options, directory):
    """All programs of the suites that have a device in them."""
    if not options.only:
        report.add("suites left out", [Result(name, "skipped", reason) for name, reason in SUITES_LEFT_OUT.items()], 0)
    for suite in SUITES:
        members = [t for t in introspect(directory, "tests") if t["suite"][0].split(":")[-1] == suite]
        if options.only:
            members = [t for t in members if t["name"] in options.only]
        left_out = [] if options.only else [t for t in members if t["name"] in PROGRAMS]
        if left_out:
            report.add(f"{suite}, left out", [Result(t["name"], "skipped", PROGRAMS[t["name"]]) for t in left_out], 0)
        chosen = [t for t in members if t not in left_out]
        with ThreadPoolExecutor(options.jobs) as pool:
            lists = pool.map(lambda t: run_suite_program(t, options, directory), chosen)
            for test, (results, seconds) in zip(chosen, lists):
                report.add(test["name"], results, seconds)


# ---- Conformance ----


def load_compare():
    """The suite's own judge."""
    spec = importlib.util.spec_from_file_location("compare", CONFORMANCE / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge(compare, chapter, answers, ended):
    """One result for each question."""
    golden = compare.read_file(CONFORMANCE / "golden" / f"{chapter}.txt")
    documents = [str(ROOT / "docs" / name) for name in ("differences.md", "differences_gpu.md")]
    listed = compare.read_all(documents, chapter, golden, answers)
    results = [] if ended else [Result(f"{chapter} ended", "failed", "the program did not end well")]
    for question in list(golden) + [question for question in answers if question not in golden]:
        theirs, ours = golden.get(question), answers.get(question)
        # The driver's own answer is right in any case: also a crash of its, and one that Cenote's host device has not.
        same = ours is not None and ours == theirs
        why = None if same else compare.judge(question, theirs, ours, listed.get(question))
        results.append(Result(f"{question}: {why}" if why else question, "failed" if why else "passed", ""))
    return results


def run_conformance(report, options, directory):
    """The chapters that Meson has built."""
    compare = load_compare()
    for test in introspect(directory, "tests"):
        chapter = test["name"]
        if "conformance" not in test["suite"][0] or (options.only and chapter not in options.only):
            continue
        started = time.monotonic()
        environment = environment_of(test, options)
        environment["CONFORMANCE_MODULE"] = options.module or environment["CONFORMANCE_MODULE"]
        program = next(word for word in test["cmd"] if "conformance-" in word)
        status, text = run([directory / program], PROGRAM_SECONDS_MAX, env=environment, cwd=directory)
        answers = compare.read_answers(text.splitlines())
        report.add(f"conformance {chapter}", judge(compare, chapter, answers, status == 0), time.monotonic() - started)


def judge_unchanged(compare, chapter, answers):
    """One result for each question that the driver has ever answered the same twice."""
    golden = compare.read_file(CONFORMANCE / "golden" / f"{chapter}.txt")
    results = []
    for question in list(golden) + [question for question in answers if question not in golden]:
        then, now = golden.get(question, "not asked"), answers.get(question, "not asked")
        if then == compare.NOT_ASKED_YET:
            results.append(Result(question, "skipped", f"asked for the first time: {now}; make gpu-golden keeps it"))
            continue
        same = then == now or compare.VARIES in (then, now)
        text = question if same else f"{question}: {then} in the golden file, now {now}"
        results.append(Result(text, "passed" if same else "failed", ""))
    return results


def compare_answers(report, options):
    """The chapters whose answers are in a folder."""
    compare = load_compare()
    for path in sorted(Path(options.folder).glob("*.txt")):
        title, answers = f"{options.part} {path.stem}", compare.read_file(path)
        if not (CONFORMANCE / "golden" / path.name).exists():
            report.add(title, [Result(path.stem, "skipped", "there is no golden file")], 0)
        elif options.part == "unchanged":
            report.add(title, judge_unchanged(compare, path.stem, answers), 0)
        else:
            report.add(title, judge(compare, path.stem, answers, True), 0)


# ---- Examples ----


def example_lines(directory):
    """The examples, and the line that each prints when all went well."""
    lines = {}
    for test in introspect(directory, "tests"):
        if "examples" in test["suite"][0] and not test["name"].endswith(".py"):
            lines[test["name"]] = test["cmd"][-1]
    return lines


def example_runs(options, directory):
    """(title, command, environment, line, reason to leave it out) for each example and way."""
    folder, cenote = Path(options.folder), directory / "bin" / "cenote"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("CENOTE_")}
    library_path = f"{directory}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}"
    linked = {**plain, **{name: value for name, value in os.environ.items() if name == "CENOTE_LIBCUDA"},
              "CENOTE_DEVICE": options.device, "LD_LIBRARY_PATH": library_path}
    no_channel = None if list(CHANNELS.glob("channel*")) else f"no IMEX channel in {CHANNELS}"
    for name, line in example_lines(directory).items():
        reason = KERNELS_IN_C if name == "hello" else no_channel if name == "fabric" else None
        yield f"{name}, linked with libcenote", [folder / "cenote" / name], linked, line, reason
        if name != "hello":
            theirs = folder / "nvidia" / name
            yield f"{name}, NVIDIA's libraries alone", [theirs], plain, line, reason
            yield f"{name}, cenote run", [cenote, "run", theirs], plain, line, reason
    yield ("share.py", [sys.executable, ROOT / "examples" / "share.py", directory / "lib" / "libcenote.so.1"], linked,
           "done: two Python processes, one pool", None)


def run_examples(report, options, directory):
    """Each must end well, print its line and complain of nothing."""
    for title, command, environment, line, reason in example_runs(options, directory):
        started = time.monotonic()
        if reason:
            report.add(title, [Result(title, "skipped", reason)], 0)
            continue
        status, text = run([str(word) for word in command], 120, env=environment)
        good = status == 0 and line in text.splitlines()
        report.add(title, [Result(title, "passed" if good else "failed", f"{text}\nexit status {status}")],
                   time.monotonic() - started)


def run_sanitizer(report, options, directory):
    """No process of any example has a finding."""
    for title, command, environment, line, reason in example_runs(options, directory):
        started = time.monotonic()
        if "alone" in title:
            continue
        if reason:
            report.add(title, [Result(title, "skipped", reason)], 0)
            continue
        # share_a_pool asks an imported pool for memory, to show that it is refused: no finding.
        refused = ["--report-api-errors", "no"] if title.startswith("share_a_pool") else []
        sanitizer = ["compute-sanitizer", "--tool", options.tool, "--target-processes", "all", *refused]
        status, text = run(sanitizer + [str(word) for word in command], 300, env=environment)
        summaries = re.findall(r"ERROR SUMMARY: (\d+) error", text)
        good = status == 0 and line in text.splitlines() and summaries and not any(int(n) for n in summaries)
        report.add(f"{title}: {sum(int(n) for n in summaries)} findings",
                   [Result(title, "passed" if good else "failed", f"{text}\nexit status {status}")],
                   time.monotonic() - started)


def main():
    """The command line is gpu_test.sh's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["suites", "conformance", "answers", "unchanged", "examples",
                                         "sanitizer"])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", nargs="*", default=[], help="these programs or chapters, whatever the tables say")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--module", help="the conformance suite's kernels")
    parser.add_argument("--tool", default="memcheck")
    parser.add_argument("--device", default="cuda", help="host: to try this script where there is no GPU")
    options = parser.parse_args()
    directory = Path(options.build).resolve()
    report = Report()
    if options.part == "suites":
        run_suites(report, options, directory)
    elif options.part == "conformance":
        run_conformance(report, options, directory)
    elif options.part in ("answers", "unchanged"):
        compare_answers(report, options)
    elif options.part == "examples":
        run_examples(report, options, directory)
    else:
        run_sanitizer(report, options, directory)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
