"""The buffers of one call to code that checks every access, and what it says went wrong.

A table of where every argument, result, constant and temporary lies is filled in before the call;
after it, the first access that went outside of its buffer is told with the line of its kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import CompilerError, Origin
from dlvm.gen.program.memory import Arena
from dlvm.gen.program.steps import Program
from dlvm.ir import Array, Dim
from dlvm.ir.sizes.dims import evaluate
from dlvm.ir.sizes.dims import symbols as symbols_of

from .bounds import HEAD, ROOM, SITES, Site


@dataclass(frozen=True, slots=True)
class Region:
    """A buffer of one call: what it is called, where it lies, and its elements."""

    name: str
    begin: int
    bytes: int
    element: str = "bytes"
    each: int = 1


LOCK = threading.Lock()
"""One call at a time: the table belongs to the code."""


@dataclass(frozen=True)
class Checker:
    """What a program that checks itself needs to know of its temporaries and kernels."""

    temporaries: tuple[tuple[str, Dim, Dim, str, int], ...]
    origins: Mapping[str, Origin | None]

    @staticmethod
    def of(program: Program, arena: Arena) -> Checker:
        """The temporaries of a program where its plan puts them, and the lines of its kernels."""
        rows = tuple(
            (s.name, offset, s.bytes, str(s.dtype), s.dtype.bytes)
            for s, offset in arena.offsets.items()
        )
        return Checker(rows, {k.name: k.origin for k in program.kernels()})

    def regions(self, base: int, symbols: Mapping[str, int]) -> list[Region]:
        """The temporaries of a call."""
        return [
            Region(name, base + evaluate(at, symbols), evaluate(size, symbols), element, each)
            for name, at, size, element, each in self.temporaries
            if not _inner(at) and not _inner(size)
        ]

    def fill(self, table: Array, regions: Sequence[Region]) -> None:
        """Tell the code where everything lies."""
        if len(regions) > ROOM:
            raise CompilerError(f"a call with {len(regions)} buffers can't be checked")
        table[:HEAD] = 0
        table[5] = len(regions)
        for i, r in enumerate(regions):
            table[HEAD + 2 * i], table[HEAD + 2 * i + 1] = r.begin, r.begin + r.bytes

    def failure(self, table: Array, regions: Sequence[Region]) -> CompilerError | None:
        """The error for the first access that went outside, if one did."""
        if not table[0]:
            return None
        site = SITES.get(int(table[1]), Site("?", "?", writes=False))
        at, size, root = (int(n) for n in (table[2], table[3], table[4]))
        inside = [r for r in regions if r.begin <= root < r.begin + max(r.bytes, 1)]
        near = min(inside or regions, key=lambda r: max(r.begin - at, at - r.begin - r.bytes, 0))
        kernel = site.function.partition(".")[0]
        origin = self.origins.get(kernel)
        verb = "writes" if site.writes else "reads"
        where = f" ({origin})" if origin is not None else ""
        index, count = (at - near.begin) // near.each, near.bytes // near.each
        return CompilerError(
            f"kernel {site.function}{where} {verb} {size} bytes at index {index} of {near.name}, "
            f"which has {count} elements ({near.element})\n  {site.instruction}"
        )


def _inner(size: Any) -> bool:
    """Whether a size depends on the turn of a loop, so that it is no fixed place."""
    return not isinstance(size, int) and any(s.startswith("%") for s in symbols_of(size))


def region_of(name: str, array: Array) -> Region:
    """Where an array lies."""
    a = np.asarray(array)
    return Region(name, int(a.ctypes.data), int(a.nbytes), str(a.dtype), max(a.itemsize, 1))
