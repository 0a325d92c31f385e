"""Output of commands: colours on a terminal, tables, JSON for scripts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from dlvm.base import environment

COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36, "bold": 1, "faint": 2}


def shows_colours(stream: TextIO | None = None) -> bool:
    """Whether a stream, the standard output by default, is a terminal and colours are wanted."""
    return (stream or sys.stdout).isatty() and not environment.value("NO_COLOR")


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour if the output is a terminal and NO_COLOR is not set."""
    return painted(text, colour) if shows_colours(stream) else text


def painted(text: str, colour: str) -> str:
    """The text in a colour."""
    return f"\033[{COLOURS[colour]}m{text}\033[0m"


WORDS = re.compile(
    r"(?P<faint>//.*|;.*)|(?P<yellow>@[\w.]+)|(?P<cyan>%[\w.]+)|(?P<bold>\b(?:func|return|kernel|body|"
    r"program|define|launch|serial|parallel|vector|load|store)\b)|(?P<green>\b[fibu]+\d+\b(?:\[[^]]*\])?)"
)
"""Words of a program that have a colour, by its name."""


def program_text(text: str, stream: TextIO | None = None) -> str:
    """The text of a program, in colours if the output is a terminal."""
    if not shows_colours(stream):
        return text
    return WORDS.sub(lambda found: painted(found[0], found.lastgroup or "bold"), text)


def print_json(found: Any) -> None:
    """Prints one JSON document; values that JSON lacks become strings."""
    print(json.dumps(found, indent=2, default=str))


def print_table(rows: Sequence[Sequence[Any]]) -> None:
    """Prints rows as aligned columns."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


def print_facts(facts: Mapping[str, Any]) -> None:
    """Prints a table of names and values."""
    print_table([(name, fact) for name, fact in facts.items()])
