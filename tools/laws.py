"""Write the tables of laws in docs/numerics.md: each law that is not exact, and what it says."""

from __future__ import annotations

import re
from pathlib import Path

import dlvm.opt  # noqa: F401  (the laws are registered)
from dlvm.ir import rules
from dlvm.ir.numerics import FAST, ROUNDING, LawClass

PAGE = Path(__file__).parents[1] / "docs" / "numerics.md"


def table(law_class: LawClass) -> str:
    """The laws of a class, in order of their names."""
    found = sorted((r.name, r.on, r.law) for r in rules() if r.law_class == law_class)
    lines = ["| law | on | says |", "|---|---|---|"]
    lines += [f"| `{name}` | `{root}` | {' '.join(law.split())} |" for name, root, law in found]
    return "\n".join(lines)


def written(text: str) -> str:
    """The page with its tables as they should be."""
    for law_class in (FAST, ROUNDING):
        begin, end = f"<!-- {law_class} -->\n", "\n<!-- end -->"
        pattern = re.escape(begin) + r".*?<!-- end -->"
        text = re.sub(pattern, lambda _: begin + table(law_class) + end, text, flags=re.S)  # noqa: B023
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf8")), "utf8")
