"""Pictures as SVG text, written directly: a curve, small images, and two texts side by side."""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FONT = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12"'


def curve(values: Sequence[float], title: str, width: int = 640, height: int = 260) -> str:
    """Values in order, with a running mean; the axis starts at 0."""
    left, bottom, top = 44, height - 28, max(values)

    def point(i: float, value: float) -> str:
        x = left + (width - left - 12) * i / max(1, len(values) - 1)
        return f"{x:.1f},{bottom - (bottom - 28) * value / top:.1f}"

    window = max(1, len(values) // 30)
    means = [sum(values[max(0, i - window) : i + 1]) for i in range(len(values))]
    means = [m / (i + 1 - max(0, i - window)) for i, m in enumerate(means)]
    thin = " ".join(point(i, v) for i, v in enumerate(values))
    thick = " ".join(point(i, v) for i, v in enumerate(means))
    ticks = [
        f'<text x="{left - 6}" y="{point(0, top * part).partition(",")[2]}" '
        f'text-anchor="end">{top * part:.2g}</text>'
        for part in (0, 0.5, 1)
    ]
    return _svg(
        width,
        height,
        f'<text x="{left}" y="16">{html.escape(title)}</text>',
        f'<polyline points="{thin}" fill="none" stroke="#bcd" stroke-width="1"/>',
        f'<polyline points="{thick}" fill="none" stroke="#247" stroke-width="2"/>',
        *ticks,
        f'<text x="{width - 12}" y="{height - 8}" text-anchor="end">{len(values)} steps</text>',
    )


def images(pixels: Any, columns: int = 12, dot: int = 6) -> str:
    """Small images with grey levels from 0, white, to 1, black, in rows."""
    parts: list[str] = []
    high, wide = dot * (len(pixels[0]) + 1), dot * (len(pixels[0][0]) + 1)
    for number, image in enumerate(pixels):
        row, column = divmod(number, columns)
        for i, line in enumerate(image):
            for j, level in enumerate(line):
                grey = 255 - round(255 * min(max(float(level), 0.0), 1.0))
                at = f'x="{wide * column + dot * j}" y="{high * row + dot * i}"'
                size = f'width="{dot}" height="{dot}"'
                parts.append(f'<rect {at} {size} fill="rgb({grey},{grey},{grey})"/>')
    return _svg(wide * columns, high * -(-len(pixels) // columns), *parts)


def difference(before: str, after: str, line: int = 17, column: int = 640) -> str:
    """Two programs beside one another; red is gone, green is new, whatever values are called."""
    left, right = before.splitlines(), after.splitlines()
    plain = [[re.sub(r"%\d+", "%", text) for text in side] for side in (left, right)]
    rows: list[tuple[str, str, bool]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, plain[0], plain[1], False).get_opcodes():
        for i in range(max(b - a, d - c)):
            old = left[a + i] if a + i < b else ""
            new = right[c + i] if c + i < d else ""
            rows.append((old, new, tag != "equal"))
    parts: list[str] = []
    for i, (old, new, changed) in enumerate(rows):
        y = line * (i + 1)
        for text, x, colour in ((old, 0, "#fdd"), (new, column, "#dfd")):
            if changed and text:
                parts.append(f'<rect x="{x}" y="{y - 13}" width="{column - 8}" height="{line}" ')
                parts.append(f'fill="{colour}"/>')
            parts.append(
                f'<text x="{x + 4}" y="{y}" xml:space="preserve">{html.escape(text[:88])}</text>'
            )
    return _svg(2 * column, line * (len(rows) + 1), *parts)


def save(file: Path, picture: str) -> None:
    """Writes a picture, and says where it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(picture)
    print(f"picture: {file}")


def _svg(width: int, height: int, *parts: str) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    white = f'<rect width="{width}" height="{height}" fill="white"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {FONT}>'
    return "\n".join((head, white, *parts, "</svg>", ""))


def scatter(points: np.ndarray, title: str, width: int = 480) -> str:
    """Points (count, 2) as dots."""
    low, high = points.min(0), points.max(0)
    places = 20 + (width - 40) * (points - low) / (high - low)
    dots = [f'<circle cx="{x:.1f}" cy="{width + 20 - y:.1f}" r="1.5"/>' for x, y in places]
    return _svg(width, width + 20, f'<text x="20" y="16">{html.escape(title)}</text>', *dots)
