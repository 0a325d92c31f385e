"""What running scripts tell of each compile: a line (``DLVM_LOG``), and files (``DLVM_DUMP``).

Each program gets a folder of its own, named by the process, its number and its function, so that
several processes may write into one folder. The page that lists them is made anew from what lies
there after each compile.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from dlvm.base import environment
from dlvm.base.errors import UserError
from dlvm.base.units import duration
from dlvm.compile import MODULES, Road, interpreting

FEW = 3
"""Number of causes that the reason of a compile names."""
NUMBERS = itertools.count(1)
ABOUT = "program.json"
PAGE = "index.html"
HEAD = """<!doctype html><meta charset="utf-8"><title>compiled programs</title>
<style>body { font: 15px system-ui, sans-serif; margin: 2em; }
td, th { text-align: left; vertical-align: top; padding: .2em 1em .2em 0; }</style>
<table><tr><th>program</th><th>types</th><th>why</th><th>time</th><th>files</th></tr>
"""


@dataclass(frozen=True, slots=True)
class Compile:
    """One compile: all causes of it, and the types for which it was made.

    The causes are what differs from the program that is most alike.
    """

    causes: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The first causes, on one line."""
        more = f" and {len(self.causes) - FEW} more" if len(self.causes) > FEW else ""
        return ", ".join(self.causes[:FEW]) + more


def told(label: str, fn: Callable[..., Any], compile: Compile, road: Road) -> None:
    """Tells of a compile as the environment requests."""
    if environment.logging_compiles():
        types, spent = ", ".join(compile.types), duration(sum(road.report.seconds.values()))
        line = f"dlvm: {label} compiled for ({types}) in {spent}: {'; '.join(compile.causes)}"
        print(line, file=sys.stderr, flush=True)
    if folder := environment.value("DLVM_DUMP"):
        try:
            _dump(Path(folder), label, fn, compile, road)
        except OSError as error:
            raise UserError(
                f"DLVM_DUMP={folder!r}: expected a folder that can be written to: {error}",
                remedy="name another folder, or unset DLVM_DUMP",
            ) from None


def _dump(folder: Path, label: str, fn: Callable[..., Any], compile: Compile, road: Road) -> None:
    """Writes one program, then the page of all."""
    from dlvm.viewing.model import model, texts_below
    from dlvm.viewing.page import page

    seconds = dict(road.report.seconds)
    own = folder / f"{os.getpid()}-{next(NUMBERS):04}-{label}"
    own.mkdir(parents=True)
    data = model(road)
    texts = {stage: road.text(stage) for stage in MODULES} | texts_below(data)
    for name, text in texts.items():
        (own / f"{name}.txt").write_text(text, "utf8")
    (own / "source.py").write_text(_source(fn), "utf8")
    (own / "view.html").write_text(page(data), "utf8")
    report = {} if interpreting() else road.report.to_dict()
    about = {"name": label, "causes": compile.causes, "types": compile.types, "seconds": seconds}
    (own / ABOUT).write_text(json.dumps({**about, "report": report}, indent=2, default=str), "utf8")
    (folder / PAGE).write_text(_page(folder), "utf8")


def _source(fn: Callable[..., Any]) -> str:
    try:
        return f"# {inspect.getsourcefile(fn)}\n{inspect.getsource(fn)}"
    except (OSError, TypeError):
        return "# the source of this function cannot be found\n"


def _page(folder: Path) -> str:
    """The page that lists the programs in a folder, in the order in which they were written."""
    found = sorted(folder.glob(f"*/{ABOUT}"), key=lambda about: about.stat().st_mtime_ns)
    return HEAD + "\n".join(map(_row, found)) + "\n</table>\n"


def _row(about: Path) -> str:
    facts: dict[str, Any] = json.loads(about.read_text("utf8"))
    name = about.parent.name
    files = sorted(f.name for f in about.parent.iterdir())
    links = " ".join(f'<a href="{escape(name)}/{escape(f)}">{escape(f)}</a>' for f in files)
    spent = duration(sum(facts["seconds"].values()))
    cells = (facts["name"], ", ".join(facts["types"]), "; ".join(facts["causes"]), spent)
    return f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in cells)}<td>{links}</td></tr>"
