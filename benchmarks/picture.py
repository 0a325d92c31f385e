"""Pictures as SVG text, written directly: a bar for each race."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

ROW, LEFT, WIDTH = 18, 330, 460


def ratios(races: Sequence[dict[str, Any]]) -> str:
    """The best peer's time over ours, one bar for each race, on a logarithmic axis around 1."""
    shown = [r for r in races if r["peer"]]
    top = max([math.log2(r["peer"]) for r in shown] + [1.0])
    low = min([math.log2(r["peer"]) for r in shown] + [-1.0])
    height = ROW * (len(shown) + 2)

    def at(ratio: float) -> float:
        return LEFT + WIDTH * (math.log2(ratio) - low) / (top - low)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 60}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<text x="{LEFT}" y="14">time of the best peer / time of dlvm (right of the line: '
        "dlvm is faster)</text>",
    ]
    for i, race in enumerate(shown):
        y, x, one = ROW * (i + 1) + 8, at(race["peer"]), at(1.0)
        colour = "#2a7" if race["peer"] >= 1 else "#c63"
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">'
            f"{escape(race['name'])} {escape(race['size'])}</text>",
            f'<rect x="{min(x, one):.1f}" y="{y}" width="{abs(x - one):.1f}" '
            f'height="{ROW - 4}" fill="{colour}"/>',
            f'<text x="{max(x, one) + 4:.1f}" y="{y + 12}">{race["peer"]:.2f}</text>',
        ]
    lines.append(
        f'<line x1="{at(1.0):.1f}" x2="{at(1.0):.1f}" y1="{ROW}" y2="{height}" stroke="#333"/>'
    )
    return "\n".join([*lines, "</svg>", ""])
