"""Writes the page of a program: one file that needs nothing else, from its data and the scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from dlvm.base.html import escape, framed
from dlvm.base.units import size

SHOWN = 8
"""Arguments whose types stand in the header; those of more are folded."""


class Page(str):
    """A page of HTML as text, which a notebook shows in a frame."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f'<a page of {size(len(self))}: view("page.html") writes it to a file>'

    def _repr_html_(self) -> str:
        return framed(self)


def page(data: Mapping[str, Any]) -> Page:
    """The page that shows these data."""
    name = str(data["name"])
    parts = {
        "title": escape(f"{name} · dlvm view"),
        "heading": _heading(name, data["types"]),
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "diff": _packaged("diff.js"),
        "pane": _packaged("pane.js"),
        "tables": _packaged("tables.js"),
        "script": _packaged("page.js"),
    }
    filled = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _packaged("page.html"))
    return Page(filled)


def _heading(name: str, types: Sequence[str]) -> str:
    """The name with the types of the arguments, which fold where they would fill the window."""
    listed = f"<small>{escape(', '.join(types))}</small>"
    if len(types) <= SHOWN:
        return f"{escape(name)} {listed}"
    head = f"<summary>{escape(name)} <small>{len(types)} arguments</small></summary>"
    return f"<details>{head}{listed}</details>"


def _packaged(name: str) -> str:
    """A text file that lies beside this one, in a wheel too."""
    return (files("dlvm.viewing") / name).read_text("utf8")
