"""The memory plan as data: when each buffer is in use, and where in the arena it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlvm.gen.profile.records import Profile
from dlvm.gen.program.lives import Life, lives
from dlvm.gen.program.memory import plan
from dlvm.gen.program.steps import Program
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import substitute

from .below import Code
from .groups import Groups

Sizes = Mapping[str, Mapping[str, int]]
"""The sizes of the symbols of each function."""


def memory(code: Code, profile: Profile | None, sizes: Sizes, groups: Groups) -> list[Any]:
    """The plan of each function that is entered; sizes that are not given stay unknown."""
    found = lives(code.program, sizes) if profile is None else profile.buffers
    parts = (code.program, *code.program.callees)
    return [
        _of(part, [x for x in found if x.function == part.name], sizes, groups) for part in parts
    ]


def _of(program: Program, found: Sequence[Life], sizes: Sizes, groups: Groups) -> dict[str, Any]:
    arena, known = plan(program), sizes.get(program.name, {})
    at = {storage.name: _number(offset, known) for storage, offset in arena.offsets.items()}
    return {
        "name": program.name,
        "arena": _number(arena.bytes, known),
        "arena_text": str(arena.bytes),
        "steps": max((life.steps for life in found), default=0),
        "buffers": [_buffer(life, at, groups) for life in found],
    }


def _buffer(life: Life, at: Mapping[str, int | None], groups: Groups) -> dict[str, Any]:
    names = ("name", "bytes", "first", "last", "peak")
    return {
        **{name: getattr(life, name) for name in names},
        "at": at.get(life.name),
        "lines": [str(o) for o in life.lines],
        "group": groups.of(life.lines),
    }


def _number(size: Dim, known: Mapping[str, int]) -> int | None:
    found = substitute(size, known)
    return found if isinstance(found, int) else None
