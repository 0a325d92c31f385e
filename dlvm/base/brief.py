"""Long text in few lines, for a screen: what is left out is counted."""

from __future__ import annotations

LINES = 100
"""Lines that a screen shows of one thing."""
WIDTH = 400
"""Characters that it shows of one line, such as one that holds the bytes of an array."""


def shortened(text: str, lines: int = LINES, width: int = WIDTH) -> str:
    """The first lines of a text, each up to a width, and how much is left out."""
    every = text.splitlines()
    shown = [_narrowed(line, width) for line in every[:lines]]
    rest = len(every) - lines
    return "\n".join([*shown, f"... and {rest:,} more lines"] if rest > 0 else shown)


def _narrowed(line: str, width: int) -> str:
    rest = len(line) - width
    return f"{line[:width]}... and {rest:,} more characters" if rest > 0 else line
