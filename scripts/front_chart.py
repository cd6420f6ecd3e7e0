#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The one chart of the README: what it takes to allocate and free a block on a GPU, from the table in docs/.

    front_chart.py ROOT OUT
"""

import re
import sys
from pathlib import Path

ROW = re.compile(r"^\| pair, 4 KiB \| ([\d.,]+) \| ([\d.,]+) \|", re.M)
WIDTH, HEIGHT, LEFT, BAR = 760, 132, 150, 26
STYLE = """\
.page { fill: #ffffff; stroke: #d0d7de }
text { font: 14px 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.small { font-size: 12px; fill: #59636e }
.other { fill: #8c959f } .ours { fill: #0969da }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; stroke: #3d444d }
text { fill: #e6edf3 } .small { fill: #9198a1 }
.other { fill: #6e7681 } .ours { fill: #58a6ff }
}
"""


def measured(root):
    """Nanoseconds of NVIDIA's pools and of Cenote's."""
    rows = [row for page in sorted((root / "docs").glob("*.md")) for row in ROW.findall(page.read_text())]
    if len(rows) != 1:
        sys.exit(f"front_chart.py: {len(rows)} rows of the pair of 4 KiB in docs/, not one")
    return [float(cell.replace(",", "")) for cell in rows[0]]


def draw(root):
    """The chart, as SVG."""
    driver_ns, cenote_ns = measured(root)
    room = WIDTH - LEFT - 90
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
             f'height="{HEIGHT}" role="img">',
             f"<title>Allocate and free 4 KiB on an H200: NVIDIA's pools {driver_ns:.0f} ns, "
             f"Cenote {cenote_ns:.0f} ns</title>",
             f"<style>\n{STYLE}</style>",
             f'<rect class="page" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
             f'<text class="title" x="20" y="30">Allocate and free a block on an H200: '
             f"{driver_ns / cenote_ns:.0f} times faster</text>",
             f'<text class="small" x="{WIDTH - 20}" y="30" text-anchor="end">4 KiB, nanoseconds to issue</text>']
    bars = (("NVIDIA's pools", "other", driver_ns), ("Cenote", "ours", cenote_ns))
    for number, (name, kind, value) in enumerate(bars):
        y = 48 + number * (BAR + 10)
        wide = room * value / max(driver_ns, cenote_ns)
        lines += [f'<text x="{LEFT - 10}" y="{y + 18}" text-anchor="end">{name}</text>',
                  f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{wide:.1f}" height="{BAR}" rx="3"/>',
                  f'<text x="{LEFT + wide + 8:.1f}" y="{y + 18}">{value:.0f} ns</text>']
    return "\n".join(lines + ["</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw(Path(sys.argv[1])))
