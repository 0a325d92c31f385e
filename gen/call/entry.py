"""The fast way into a program: ``enter`` with the table that describes one interface.

What ``entry`` gives is called with the arguments and gives the results, or ``NotImplemented``
where an argument is not what the program takes as it is: another type or shape, a view with
gaps, a donated array that others see. ``CallFailed`` carries the words of a status. A table holds
addresses, so each process makes its own; what it refers to lives as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dlvm.gen.cpu.driver import ENTRY
from dlvm.gen.llvm.binding import Library
from dlvm.ir import Array
from dlvm.ir.sizes.dims import evaluate

from .entry_code import ALIGNED, CONTIGUOUS, OWNED, WRITEABLE, Kind, ProgramField
from .interface import Interface
from .python_api import enter
from .sizes import SIZES, bound_by, first_axes, largest, row

KINDS: dict[type, Kind] = {np.ndarray: Kind.ARRAY} | {
    float: Kind.FLOAT,
    int: Kind.INT,
    bool: Kind.BOOL,
}
MAX_STACK_SIZES = 8192
"""Sizes of a call that may stand on the stack."""


class WordArray(np.ndarray[Any, Any]):
    """Words that machine code reads, and what they refer to."""

    kept: list[Any]


def entry(
    interface: Interface,
    library: Library,
    context: Array,
    tape: Array,
    kinds: Sequence[type] = (),
    *,
    bare: bool = False,
    choice: Array | None = None,
) -> Callable[..., Any] | None:
    """The entry for arguments of these types, arrays by default, or None where there is none.

    A call starts with the words of ``context``, and notes in ``tape`` how much its tape took.
    With ``bare`` the only result is given as it is, else there is a tuple of them. By ``choice``
    calls choose their threads.
    """
    serves = not interface.prints and not interface.calls and bound_by(interface) is not None
    if not serves or len(row(interface)) > MAX_STACK_SIZES or (found := enter()) is None:
        return None
    writer = _Writer(library, interface, context, tape, choice)
    words = {
        ProgramField.API: found.api,
        ProgramField.MAIN: library.address(ENTRY),
        ProgramField.CONSTANTS: writer.row(a.ctypes.data for a in interface.constants),
        ProgramField.CONTEXT: context.ctypes.data,
        ProgramField.TAPE: tape.ctypes.data,
        ProgramField.CHOICE: 0 if choice is None else choice.ctypes.data,
        ProgramField.BARE: int(bare and len(interface.results) == 1),
        **writer.sizes(),
        **writer.arguments(kinds or [np.ndarray] * len(interface.params)),
        **writer.results(),
    }
    table = np.array([words[at] for at in ProgramField], np.int64).view(WordArray)
    table.kept = writer.kept
    return found.make(table)


class _Writer:
    """Writes the parts of a table; ``kept`` is what they refer to."""

    def __init__(self, library: Library, interface: Interface, *kept: Any) -> None:
        self.library = library
        self.interface = interface
        self.kept: list[Any] = [library, interface, *kept]

    def row(self, words: Iterable[int]) -> int:
        """Where words have been put; there is room for one more, so that there is a place."""
        self.kept.append(np.array([*words, 0], np.int64))
        return int(self.kept[-1].ctypes.data)

    def records(self, records: Iterable[tuple[int, ...]]) -> int:
        """Where records have been put, one after the other."""
        return self.row(word for record in records for word in record)

    def identity(self, x: Any) -> int:
        """The address of an object."""
        self.kept.append(x)
        return id(x)

    def sizes(self) -> dict[ProgramField, int]:
        """The row of sizes, or how it is computed from axes of the arguments."""
        sizes = row(self.interface)
        if not self.interface.symbols:
            known = self.row(evaluate(d, {}) for d in sizes)
            return {
                ProgramField.SIZES: known,
                ProgramField.SIZES_OF: 0,
                ProgramField.SIZES_COUNT: 0,
                ProgramField.SYMBOLS: self.row(()),
                ProgramField.SYMBOLS_COUNT: 0,
                ProgramField.SYMBOLS_MOST: 0,
            }
        symbols = bound_by(self.interface) or []
        return {
            ProgramField.SIZES: 0,
            ProgramField.SIZES_OF: self.library.address(SIZES),
            ProgramField.SIZES_COUNT: len(sizes),
            ProgramField.SYMBOLS: self.records(symbols),
            ProgramField.SYMBOLS_COUNT: len(symbols),
            ProgramField.SYMBOLS_MOST: largest(self.interface),
        }

    def arguments(self, kinds: Sequence[type]) -> dict[ProgramField, int]:
        """What arguments must be, which are overwritten, and every axis that is checked."""
        params = self.interface.params
        donated = [i for i, p in enumerate(params) if p.donated]
        axes = [(i, axis, 1, 0) for i, p in enumerate(params) for axis in range(p.type.rank)]
        types = [
            p.type.dtype.numpy if t is np.ndarray else t for p, t in zip(params, kinds, strict=True)
        ]
        flags = [CONTIGUOUS | ALIGNED | (OWNED | WRITEABLE if p.donated else 0) for p in params]
        columns = zip(params, kinds, types, flags, strict=True)
        records = [(KINDS[t], self.identity(x), p.type.rank, f) for p, t, x, f in columns]
        return {
            ProgramField.PARAMS: self.records(records),
            ProgramField.PARAMS_COUNT: len(params),
            ProgramField.CHECKS: self.records(axes),
            ProgramField.CHECKS_COUNT: len(axes),
            ProgramField.CHECKS_FROM: first_axes(self.interface)[0][0] if params else 0,
            ProgramField.DONATED: self.row(donated),
            ProgramField.DONATED_COUNT: len(donated),
        }

    def results(self) -> dict[ProgramField, int]:
        """What is made for each result."""
        results = self.interface.results
        firsts = first_axes(self.interface)[1]
        records = [
            (
                -1 if r.overwrites is None else r.overwrites,
                self.identity(r.type.dtype.numpy),
                r.type.rank,
                first,
            )
            for r, first in zip(results, firsts, strict=True)
        ]
        return {
            ProgramField.RESULTS: self.records(records),
            ProgramField.RESULTS_COUNT: len(results),
        }
