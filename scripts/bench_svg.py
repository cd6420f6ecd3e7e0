# SPDX-License-Identifier: MIT
"""
Plots of what was measured, as SVG.

Results that have an x are curves, both scales logarithmic, since what is compared differs by powers of ten. Others have
a line each: bars from zero on a linear scale where the longest is at most LINEAR_RATIO times the shortest, else dots on
a logarithmic scale, where a bar's length would mean nothing. No two series of a picture have the same colour. Colours
are given twice, for light and dark pages.
"""

import math
from xml.sax.saxutils import escape

WIDTH = 760
LEFT, RIGHT, TOP, BOTTOM = 76, 40, 44, 46
PLOT_HEIGHT = 300
LEGEND_LINE = 20
BAR_HEIGHT, BAR_GAP, ROW_GAP = 14, 3, 12
NAME_WIDTH = 290
COLOURS = 8
LINEAR_RATIO = 20
YARDSTICK = "pthread mutex, lock and unlock"  # how fast the machine is: one series beside it compares nothing
OUR_COLOUR, THEIR_COLOUR = 0, 7  # where there are more names than colours: Cenote, and what it is compared with

# Ours in front; the others by their order.
LIGHT = ("#0969da", "#bf5700", "#1a7f37", "#8250df", "#cf222e", "#00a0b4", "#e85aad", "#57606a")
DARK = ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#f85149", "#39d0e0", "#ff9bce", "#9198a1")


def style():
    """The sheet of both colours."""
    def colours(palette):
        return " ".join(f".c{i} {{ stroke: {c} }} .f{i} {{ fill: {c} }}" for i, c in enumerate(palette))
    return ("<style>\n"
            ".page { fill: #ffffff; stroke: #d0d7de }\n"
            "text { font: 12px 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; fill: #1f2328 }\n"
            ".title { font-size: 15px; font-weight: 600 } .small { font-size: 11px; fill: #59636e }\n"
            ".grid { stroke: #d8dee4; stroke-width: 1 } .row { stroke: #eaeef2; stroke-width: 1 }\n"
            ".curve { fill: none; stroke-width: 2 } .other { stroke-dasharray: 5 3 }\n"
            f"{colours(LIGHT)}\n"
            "@media (prefers-color-scheme: dark) {\n"
            ".page { fill: #0d1117; stroke: #3d444d } text { fill: #e6edf3 } .small { fill: #9198a1 }\n"
            ".grid { stroke: #30363d } .row { stroke: #21262d }\n"
            f"{colours(DARK)}\n"
            "}\n</style>\n")


def picture(height, title, body):
    """The whole file."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img">\n<title>{escape(title)}</title>\n{style()}'
            f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>\n'
            f'<text class="title" x="16" y="26">{escape(title)}</text>\n' + "\n".join(body) + "\n</svg>\n")


def text(x, y, words, anchor="start", kind=""):
    """A line of text."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def tick_text(value, unit):
    """A power of ten as one reads it."""
    if unit == "ns":
        for name in ("ns", "µs", "ms"):
            if value < 999:
                return f"{value:g} {name}"
            value /= 1000
        return f"{value:g} s"
    if unit == "bytes":
        for name in ("B", "KiB", "MiB"):
            if value < 1024:
                return f"{value:.3g} {name}"
            value /= 1024
        return f"{value:.3g} GiB"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


class Scale:
    """From a value to a place, by powers of ten."""

    def __init__(self, values, start, end):
        self.low = math.floor(math.log10(min(values)) + 1e-9)
        self.high = max(self.low + 1, math.ceil(math.log10(max(values)) - 1e-9))
        self.start, self.end = start, end

    def at(self, value):
        """Where a value stands."""
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self):
        """Powers of ten, not more than fit."""
        step = max(1, (self.high - self.low) // 8)
        return [10.0 ** power for power in range(self.low, self.high + 1, step)]


class LinearScale:
    """From a value to a place, from zero on."""

    def __init__(self, values, start, end):
        step = 10.0 ** math.floor(math.log10(max(values)))
        self.step = next(part * step for part in (0.2, 0.5, 1, 2) if max(values) / (part * step) <= 6)
        self.high = math.ceil(max(values) / self.step - 1e-9) * self.step
        self.start, self.end = start, end

    def at(self, value):
        """Where a value stands."""
        return self.start + value / self.high * (self.end - self.start)

    def ticks(self):
        """Multiples of a round number."""
        return [self.step * i for i in range(round(self.high / self.step) + 1)]


def is_ours(name):
    """Is this contestant Cenote?"""
    return name.startswith("cenote")


def contestants_of(rows):
    """Ours first, then the others, each with a colour's number."""
    names = list(dict.fromkeys(row["contestant"] for row in rows))
    names.sort(key=lambda name: not is_ours(name))
    return names


def legend(names, x, y):
    """A line each."""
    body = []
    for i, name in enumerate(names):
        kind = "" if is_ours(name) else " other"
        body.append(f'<path class="curve c{i}{kind}" d="M{x} {y + i * LEGEND_LINE - 4} h26"/>')
        body.append(text(x + 34, y + i * LEGEND_LINE, name))
    return body


def axes(across, up, x_unit, y_unit):
    """The grid and what it means."""
    body = []
    for value in up.ticks():
        body.append(f'<path class="grid" d="M{LEFT} {up.at(value):.1f} H{WIDTH - RIGHT}"/>')
        body.append(text(LEFT - 8, up.at(value) + 4, tick_text(value, y_unit), "end", "small"))
    for value in across:
        body.append(text(value[0], TOP + PLOT_HEIGHT + 18, tick_text(value[1], x_unit), "middle", "small"))
        body.append(f'<path class="grid" d="M{value[0]:.1f} {TOP} V{TOP + PLOT_HEIGHT}"/>')
    body.append(text(WIDTH - RIGHT, TOP + PLOT_HEIGHT + 34, x_unit, "end", "small"))
    return body


def spaced(places):
    """Those that leave room for their texts."""
    kept = []
    for place in places:
        if not kept or place[0] - kept[-1][0] > 52:
            kept.append(place)
    return kept


def draw_curves(rows, title):
    """Time against x."""
    names = contestants_of(rows)
    xs = sorted({row["x"] for row in rows})
    across = Scale(xs, LEFT, WIDTH - RIGHT)
    across.low, across.high = math.log10(xs[0]), math.log10(xs[-1])
    up = Scale([row["median"] for row in rows], TOP + PLOT_HEIGHT, TOP)
    body = axes(spaced([(across.at(x), x) for x in xs]), up, rows[0]["x_name"], rows[0]["unit"])
    for i, name in enumerate(names):
        points = sorted((row["x"], row["median"]) for row in rows if row["contestant"] == name)
        places = [(across.at(x), up.at(y)) for x, y in points]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        body.append(f'<path class="curve c{i}{"" if is_ours(name) else " other"}" d="M{path}"/>')
        body += [f'<circle class="f{i}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
    top = TOP + PLOT_HEIGHT + BOTTOM + 10
    return picture(top + len(names) * LEGEND_LINE, title, body + legend(names, LEFT, top))


def colour_numbers(rows):
    """A colour for each name; where there are too many of them, one for ours and one for the others."""
    names = contestants_of(rows)
    if len(names) <= COLOURS:
        return {name: i for i, name in enumerate(names)}
    return {name: OUR_COLOUR if is_ours(name) else THEIR_COLOUR for name in names}


def draw_lines(rows, title):
    """A line for each result, with its name: a bar, or a dot where the scale is logarithmic."""
    values = [row["median"] for row in rows]
    linear = max(values) <= LINEAR_RATIO * min(values)
    across = (LinearScale if linear else Scale)(values, NAME_WIDTH, WIDTH - RIGHT - 70)
    colours, body, y = colour_numbers(rows), [], TOP + 10
    names = list(dict.fromkeys(row["row"] for row in rows))
    for name in names:
        if len(names) > 1:
            body.append(text(16, y + 4, name, kind="small"))
            y += ROW_GAP
        for row in (r for r in rows if r["row"] == name):
            end, colour, middle = across.at(row["median"]), colours[row["contestant"]], y + BAR_HEIGHT / 2
            body.append(text(NAME_WIDTH - 10, y + BAR_HEIGHT - 3, row["contestant"], "end"))
            if linear:
                body.append(f'<rect class="f{colour}" x="{NAME_WIDTH}" y="{y}" height="{BAR_HEIGHT}" '
                            f'width="{max(1.0, end - NAME_WIDTH):.1f}"/>')
            else:
                body.append(f'<path class="row" d="M{NAME_WIDTH} {middle} H{WIDTH - RIGHT - 70}"/>')
                body.append(f'<circle class="f{colour}" cx="{end:.1f}" cy="{middle}" r="5"/>')
            body.append(text(end + (6 if linear else 10), y + BAR_HEIGHT - 3, value_text(row["median"], row["unit"]),
                             kind="small"))
            y += BAR_HEIGHT + BAR_GAP
        y += ROW_GAP
    grid = [f'<path class="grid" d="M{across.at(v):.1f} {TOP} V{y - ROW_GAP}"/>' for v in across.ticks()]
    labels = [text(across.at(v), y + 4, tick_text(v, rows[0]["unit"]), "middle", "small") for v in across.ticks()]
    if not linear:
        labels.append(text(WIDTH - 16, 26, "logarithmic scale", "end", "small"))
    if len(set(colours.values())) < len(colours):
        y += LEGEND_LINE
        for x, colour, name in ((NAME_WIDTH, OUR_COLOUR, "Cenote"), (NAME_WIDTH + 90, THEIR_COLOUR, "for comparison")):
            labels.append(f'<circle class="f{colour}" cx="{x + 5}" cy="{y}" r="5"/>')
            labels.append(text(x + 16, y + 4, name))
    return picture(y + 20, title, grid + body + labels)


def value_text(value, unit):
    """Beside a bar or a dot: three digits."""
    if unit != "ns":
        return f"{value:.3g}"
    for name in ("ns", "µs", "ms"):
        if value < 999.5:
            return f"{value:.3g} {name}"
        value /= 1000
    return f"{value:.3g} s"


def draw_group(rows, title):
    """The picture of a group; None where there is nothing to see in one, or nothing is compared."""
    rows = [row for row in rows if row["median"] > 0]
    if len({row["contestant"] for row in rows} - {YARDSTICK}) < 2 or len({row["unit"] for row in rows}) > 1:
        return None
    curved = [row for row in rows if row.get("x") is not None and row["x"] > 0]
    if curved and len({row["x"] for row in curved}) > 1 and len(contestants_of(curved)) <= COLOURS:
        return draw_curves(curved, title)
    return draw_lines(rows, title)
