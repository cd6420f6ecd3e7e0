# SPDX-License-Identifier: MIT
"""
What was measured, as text: the goals for a terminal, tables for docs/performance.md.

The page is written by hand but for what stands between two marks, which is written anew from a run:

    <!-- bench: machine -->…<!-- end -->          what it was measured on, and when
    <!-- bench: goals -->…<!-- end -->            every goal, and whether it was met
    <!-- bench: suite NAME -->…<!-- end -->       the tables and plots of a program
    <!-- bench: group NAME -->…<!-- end -->       those of one group
"""

import os
import re

import bench_svg

MATRIX_COLUMNS_MAX = 6
GIB = 1 << 30


def amount(value, unit="ns"):
    """A value as one reads it. Times get a unit that fits."""
    if unit != "ns":
        return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    for name in ("ns", "µs", "ms"):
        if value < 9999.5:
            return f"{value:.1f} {name}" if value < 99.95 else f"{value:,.0f} {name}"
        value /= 1000
    return f"{value:.1f} s"


def measured(results):
    """All rows but those of the absent."""
    return [row for row in results["rows"] if "absent" not in row]


def goals(results):
    """For each goal: what, the goal, what was reached, whether that is enough."""
    found = []
    for row in measured(results):
        goal = row["goal"]
        if not goal:
            continue
        wanted, reached = f"x {goal['most']:.3g} of {goal['of']}", f"x {goal['reached']:.3g}"
        what = f"{row['group']}, {row['row']}" + ("" if row["contestant"] == "cenote" else f": {row['contestant']}")
        found.append((what, wanted, reached, goal["met"]))
    return found


def goals_text(results):
    """For a terminal."""
    lines = ["Goals"]
    for what, wanted, reached, met in goals(results):
        lines.append(f"  {'met   ' if met else 'MISSED'}  {what}: {reached}, at most {wanted}")
    return "\n".join(lines)


# ---- For the page ----


def table(heads, rows):
    """A table of Markdown: the first column to the left, the others to the right."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "--:|" * (len(heads) - 1)]
    return lines + ["| " + " | ".join(cells) + " |" for cells in rows]


def unique(values):
    """In the order in which they came."""
    return list(dict.fromkeys(values))


def cell(row):
    """A time, and beside it how many times the baseline's."""
    if row is None:
        return "–"
    text = amount(row["median"], row["unit"])
    if row["ratio"] and row["contestant"] != row["baseline"]:
        text += f" (x {row['ratio']:.3g})"
    return f"**{text}**" if row["contestant"].startswith("cenote") else text


def matrix(rows, names, contestants):
    """A line for each row, a column for each contestant."""
    by_key = {(row["row"], row["contestant"]): row for row in rows}
    return table(["", *contestants], [[name, *(cell(by_key.get((name, c))) for c in contestants)] for name in names])


def spread(row):
    """Half of what lies between the quartiles, in percent of the median."""
    return f"± {50 * (row['q3'] - row['q1']) / row['median']:.0f} %" if row["median"] else ""


def listing(rows, names):
    """A line for each contestant."""
    lines = []
    for row in rows:
        what = row["contestant"] if len(names) == 1 else f"{row['row']}: {row['contestant']}"
        ratio = f"x {row['ratio']:.3g}" if row["ratio"] else ""
        lines.append([what, amount(row["median"], row["unit"]), spread(row), ratio])
    baselines = unique(row["baseline"] for row in rows if row["baseline"])
    return table(["", "median", "spread", f"to {baselines[0]}" if len(baselines) == 1 else "to the baseline"], lines)


def group_lines(results, group, plot):
    """The table and the plot of a group."""
    rows = [row for row in measured(results) if row["group"] == group]
    absent = [row for row in results["rows"] if "absent" in row and row["group"] == group]
    lines = ["", f"**{group}**", ""]
    if rows:
        names, contestants = unique(r["row"] for r in rows), unique(r["contestant"] for r in rows)
        if len(names) > 1 and len(contestants) <= MATRIX_COLUMNS_MAX:
            lines += matrix(rows, names, contestants)
        else:
            lines += listing(rows, names)
        if plot:
            lines += ["", f"![{group}]({plot})"]
    for row in absent:
        lines += ["", f"{row['row']}: without {row['contestant']}: {row['absent']}."]
    return lines


def machine_lines(results):
    """What it was measured on."""
    machine = results["machine"]
    virtual = ", a virtual machine" if machine["hypervisor"] else ""
    return ["", f"Measured on {results['date'][:10]} with Cenote {results['version']}: {machine['processor']}, "
            f"{machine['cpus']} CPUs, {machine['memory_bytes'] / GIB:.0f} GiB{virtual}, Linux {machine['kernel']}; "
            f"{results['seconds']} seconds{', a quick run' if results['quick'] else ''}."]


def goal_lines(results):
    """The goals as a table."""
    rows = [[what, wanted, reached, "yes" if met else "**no**"] for what, wanted, reached, met in goals(results)]
    return ["", *table(["", "goal, at most", "reached", "met"], rows)]


def plot_name(group):
    """A file's name for a group."""
    return re.sub(r"[^a-z0-9]+", "-", group.lower()).strip("-") + ".svg"


def draw(results, group, folder):
    """Draw a group where there is something to see. Returns the file's name, or None."""
    picture = bench_svg.draw_group([row for row in measured(results) if row["group"] == group], group)
    if picture is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / plot_name(group)).write_text(picture, encoding="utf-8")
    return plot_name(group)


def part_lines(results, words, folder, page):
    """What belongs between a pair of marks."""
    kind, name = words[0], " ".join(words[1:])
    if kind == "machine":
        return machine_lines(results)
    if kind == "goals":
        return goal_lines(results)
    groups = unique(r["group"] for r in results["rows"] if r["suite" if kind == "suite" else "group"] == name)
    if kind not in ("suite", "group") or not groups:
        return ["", "Not measured in this run."]
    lines = []
    for group in groups:
        plot = draw(results, group, folder)
        lines += group_lines(results, group, os.path.relpath(folder / plot, page.parent) if plot else None)
    return lines


def write_page(results, page):
    """Write what stands between the marks anew; plots go to a folder beside the page, with its name."""
    folder = page.with_suffix("")

    def part(match):
        lines = part_lines(results, match[1].split(), folder, page)
        return "\n".join([f"<!-- bench: {match[1]} -->", *lines, "", "<!-- end -->"])
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"<!-- bench: (.*?) -->.*?<!-- end -->", part, text, flags=re.S)
    page.write_text(text, encoding="utf-8")
