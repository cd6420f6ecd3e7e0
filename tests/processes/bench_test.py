#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of the benchmark's scripts and of cenote bench. No time is asserted; the results are made up, or their form
is looked at.

    bench_test.py SOURCE_DIRECTORY BUILD_DIRECTORY BENCHMARK
"""

import contextlib
import copy
import io
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

SOURCE, BUILD, BENCHMARK = (Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(SOURCE / "tests" / "harness"))
sys.path.insert(0, str(SOURCE / "scripts"))
sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import bench  # noqa: E402
import bench_report  # noqa: E402
import bench_svg  # noqa: E402
from tap import by_name, run_tests  # noqa: E402

LIMIT_S = 120


def made_up_row(contestant, median, ratio=None, **more):
    """A result with a spread of a tenth."""
    row = {"suite": "made up", "group": "A group", "row": "a row", "contestant": contestant, "unit": "ns",
           "median": median, "q1": 0.95 * median, "q3": 1.05 * median, "minimum": 0.9 * median, "repetitions": 21,
           "baseline": "other" if ratio else None, "ratio": ratio, "goal": None, "x": None, "x_name": None}
    row.update(more)
    return row


def made_up(*rows):
    """A run's results."""
    return {"format": bench.FORMAT, "date": "2026-11-15T12:00:00Z", "quick": True, "version": "1.2.3",
            "machine": {"processor": "Abacus <9>", "cpus": 2, "memory_bytes": 8 << 30, "kernel": "6.1",
                        "hypervisor": True},
            "seconds": 7, "rows": list(rows)}


def compare(old, new, *options):
    """The exit status of `bench.py compare`, and what it prints; in this process, which is quicker."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, results in (("old", old), ("new", new)):
            paths.append(Path(folder) / name)
            paths[-1].write_text(results if isinstance(results, str) else json.dumps(results), encoding="utf-8")
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = bench.main(["compare", *map(str, paths), *options])
        except SystemExit as end:
            status = end.code
    return status, said.getvalue()


def what_is_slower_is_found():
    """In ratios where there are some, else in times."""
    old = made_up(made_up_row("cenote", 100, 2.0), made_up_row("cenote, alone", 100), made_up_row("other", 50, 1.0))
    new = copy.deepcopy(old)
    assert compare(old, new)[0] == 0, "nothing has changed"
    new["rows"][0]["ratio"] = 3.0
    status, text = compare(old, new)
    assert status == 1 and "slower" in text and "A group / a row / cenote" in text, text
    assert compare(old, new, "--threshold", "1.6")[0] == 0, "it is slower by half, and that was allowed"
    new = copy.deepcopy(old)
    new["rows"][1].update(made_up_row("cenote, alone", 150))
    status, text = compare(old, new)
    assert status == 1 and "cenote, alone" in text, text


def a_slow_machine_is_no_change():
    """Everything takes twice as long, ours and the other's: the ratio is the same."""
    old = made_up(made_up_row("cenote", 100, 2.0), made_up_row("other", 50, 1.0))
    new = made_up(made_up_row("cenote", 200, 2.0), made_up_row("other", 100, 1.0))
    status, text = compare(old, new)
    assert status == 0, text
    assert "1 compared" in text, "the other's results are not ours to watch: " + text


def what_lies_within_the_spread_is_no_change():
    """The quartiles overlap."""
    old = made_up(made_up_row("cenote", 100, q1=60, q3=160))
    new = made_up(made_up_row("cenote", 140, q1=90, q3=200))
    assert compare(old, new)[0] == 0
    new["rows"][0]["q1"] = 161
    assert compare(old, new)[0] == 1


def what_is_quicker_is_said():
    """And is no failure; neither is what has gone or come."""
    old = made_up(made_up_row("cenote", 100, 2.0), made_up_row("cenote, gone", 1))
    new = made_up(made_up_row("cenote", 40, 0.8), made_up_row("cenote, come", 1))
    status, text = compare(old, new)
    assert status == 0 and "quicker" in text and "cenote, gone" in text and "cenote, come" in text, text


def instructions_are_compared_strictly():
    """They do not depend on what else the machine does."""
    old = made_up(made_up_row("cenote", 1000, unit="instructions", q1=1000, q3=1000))
    new = made_up(made_up_row("cenote", 1030, unit="instructions", q1=1030, q3=1030))
    assert compare(old, new)[0] == 1
    new["rows"][0].update(median=1010, q1=1010, q3=1010)
    assert compare(old, new)[0] == 0


def what_is_no_result_is_refused():
    """With the status of a wrong command line."""
    good = made_up(made_up_row("cenote", 100))
    assert compare(good, "no JSON")[0] == 2
    assert compare(good, {"format": "another"})[0] == 2
    assert compare(good, made_up())[0] == 2, "nothing in common"
    bench.check_keys(good["rows"])
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            bench.check_keys(good["rows"] * 2)
    except SystemExit:
        return
    raise AssertionError("two results of one name were taken")


def curves():
    """A group with an x, and names that XML must not see as they are."""
    return [made_up_row(name, factor * x, row=f"{x} things", x=x, x_name="bytes")
            for name, factor in (("cenote & <ours>", 1), ("other", 30)) for x in (1, 1000, 1000000)]


def plots_are_well_formed():
    """Curves, dots and bars are XML, with a line for each contestant, a point for each result, and a colour each."""
    name = "{http://www.w3.org/2000/svg}"
    root = xml.etree.ElementTree.fromstring(bench_svg.draw_group(curves(), "A <group> & more"))
    assert root.tag == name + "svg" and root.find(name + "title").text == "A <group> & more"
    assert len(root.findall(name + "circle")) == 6
    texts = [text.text for text in root.iter(name + "text")]
    assert "cenote & <ours>" in texts and "other" in texts, texts
    dots = [made_up_row("cenote", 12), made_up_row("other", 120000), made_up_row("third", 12)]
    root = xml.etree.ElementTree.fromstring(bench_svg.draw_group(dots, "Dots: the scale is logarithmic"))
    assert len(root.findall(name + "rect")) == 1 and len(root.findall(name + "circle")) == 3
    assert len({circle.get("class") for circle in root.findall(name + "circle")}) == 3, "two series of one colour"
    assert "120 µs" in [text.text for text in root.iter(name + "text")]
    bars = [made_up_row("cenote", 12), made_up_row("other", 240), made_up_row("third", 12)]
    root = xml.etree.ElementTree.fromstring(bench_svg.draw_group(bars, "Bars: from zero"))
    drawn = root.findall(name + "rect")[1:]
    assert len(drawn) == 3 and not root.findall(name + "circle")
    widths = [float(bar.get("width")) for bar in drawn]
    assert abs(widths[1] / widths[0] - 20) < 0.5 and len({bar.get("class") for bar in drawn}) == 3, widths
    many = [made_up_row(f"cenote {i}", 10 + i) for i in range(9)] + [made_up_row("other", 20)]
    root = xml.etree.ElementTree.fromstring(bench_svg.draw_group(many, "Many"))
    texts = [text.text for text in root.iter(name + "text")]
    assert "Cenote" in texts and "for comparison" in texts, "two series, and which they are"
    same = [made_up_row("cenote", 10), made_up_row("other", 10)]
    xml.etree.ElementTree.fromstring(bench_svg.draw_group(same, "No difference"))
    assert bench_svg.draw_group(bars[:1], "One") is None
    alone = [made_up_row("cenote", 1, row="a"), made_up_row("cenote", 2, row="b")]
    assert bench_svg.draw_group(alone, "Nothing is compared") is None
    assert bench_svg.draw_group(alone + [made_up_row(bench_svg.YARDSTICK, 1)], "With a yardstick alone") is None
    mixed = [made_up_row("cenote", 1), made_up_row("other", 1, unit="bytes")]
    assert bench_svg.draw_group(mixed, "Two units") is None


def pages_are_written_between_their_marks():
    """What was written by hand stays, what was measured comes in, and again over itself."""
    goal = {"most": 1.5, "of": "other", "reached": 2, "met": False}
    results = made_up(*curves(), made_up_row("cenote", 100, 2.0, goal=goal, group="Another"),
                      {"suite": "made up", "group": "Another", "row": "a row", "contestant": "UCX",
                       "absent": "not installed"})
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.md"
        page.write_text("By hand.\n<!-- bench: machine -->old<!-- end -->\n<!-- bench: goals --><!-- end -->\n"
                        "<!-- bench: suite made up -->\n<!-- end -->\n<!-- bench: group none --><!-- end -->\nEnd.\n",
                        encoding="utf-8")
        bench_report.write_page(results, page)
        text = page.read_text(encoding="utf-8")
        assert text.startswith("By hand.\n") and text.endswith("End.\n") and "old" not in text, text
        for part in ("2026-11-15", "Cenote 1.2.3", "Abacus <9>", "| Another, a row | x 1.5 of other | x 2 | **no** |",
                     "![A group](page/a-group.svg)", "without UCX: not installed.", "Not measured in this run."):
            assert part in text, f"no '{part}' in\n{text}"
        xml.etree.ElementTree.fromstring((Path(folder) / "page" / "a-group.svg").read_text(encoding="utf-8"))
        bench_report.write_page(results, page)
        assert page.read_text(encoding="utf-8") == text, "written twice, it is another page"


def the_page_has_all_marks():
    """Every program's results have a place in docs/performance.md."""
    text = (SOURCE / "docs" / "performance.md").read_text(encoding="utf-8")
    benchmarks = bench.known(BUILD, "benchmarks")
    assert benchmarks, "Meson knows of none"
    for benchmark in benchmarks:
        name = benchmark["name"]
        assert f"<!-- bench: suite {name} -->" in text, f"docs/performance.md has no place for {name}"


def times_are_readable():
    """The units fit."""
    found = [bench_report.amount(value) for value in (1.25, 99.94, 99.96, 9999, 10000, 2.5e6, 3e10)]
    assert found == ["1.2 ns", "99.9 ns", "100 ns", "9,999 ns", "10.0 µs", "2,500 µs", "30.0 s"], found


def a_program_writes_results():
    """Each line is a result with all that the form wants, and each has a name of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results"
        done = subprocess.run([str(BENCHMARK), "--quick", "--json", str(path)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT_S,
                              env={**os.environ, "CENOTE_DEVICE": "host"})
        assert done.returncode == 0, done.stdout
        rows = bench.read_lines(path)
    bench.check_keys(rows)
    measured = [row for row in rows if "absent" not in row]
    assert measured, done.stdout
    for row in measured:
        assert set(row) == set(made_up_row("cenote", 1)), row
        assert 0 < row["minimum"] <= row["q1"] <= row["median"] <= row["q3"], row
        assert (row["ratio"] is None) == (row["baseline"] is None), row
        assert row["contestant"] in done.stdout, row
    assert subprocess.run([str(BENCHMARK), "--nonsense"], stderr=subprocess.DEVNULL, check=False,
                          timeout=LIMIT_S).returncode == 2
    return f"{len(measured)} results"


def cenote_bench(*options):
    """The exit status of the command, and what it prints."""
    done = subprocess.run([str(BUILD / "bin" / "cenote"), "bench", *options], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT_S,
                          env={**os.environ, "CENOTE_DEVICE": "host", "LC_ALL": "C.UTF-8"})
    return done.returncode, done.stdout


def the_command_prints_json():
    """All that it measures, with numbers that are some."""
    status, text = cenote_bench("--json", "--seconds", "0.1")
    assert status == 0, text
    results = json.loads(text)
    names = [row["name"] for row in results["rows"]]
    assert names == ["pair", "churn", "export", "import", "pool_import", "event_round_trip", "hand_over"], names
    for row in results["rows"]:
        assert row["samples"] >= 5 and row["unit"] == "ns" and row["ratio"] > 0, row
        for numbers in (row, row["beside"]):
            assert 0 < numbers["q1"] <= numbers["median"] <= numbers["q3"], row


def the_command_prints_lines():
    """One for each, and a complaint about a line that it does not understand."""
    status, text = cenote_bench("--seconds", "0.1")
    assert status == 0 and len(text.splitlines()) == 2 + 7, text
    assert "copied through a socket" in text and " x " in text, text
    for wrong in (["--seconds"], ["--seconds", "0"], ["--seconds", "soon"], ["--seconds", "nan"], ["--fast"]):
        status, text = cenote_bench(*wrong)
        assert status == 2 and "Try: cenote help bench" in text, f"{wrong}: {text}"


if __name__ == "__main__":
    sys.exit(not run_tests(by_name(
        what_is_slower_is_found, a_slow_machine_is_no_change, what_lies_within_the_spread_is_no_change,
        what_is_quicker_is_said, instructions_are_compared_strictly, what_is_no_result_is_refused,
        plots_are_well_formed, pages_are_written_between_their_marks, the_page_has_all_marks, times_are_readable,
        a_program_writes_results, the_command_prints_json, the_command_prints_lines)))
