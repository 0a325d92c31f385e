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
from dlvm.ir.dims import evaluate

from .entry_code import ALIGNED, CONTIGUOUS, OWNED, WRITEABLE, Kind, Table
from .interface import Interface
from .python_api import enter
from .sizes import SIZES, bound_by, first_axes, largest, row

KINDS: dict[type, Kind] = {np.ndarray: Kind.ARRAY} | {
    float: Kind.FLOAT,
    int: Kind.INT,
    bool: Kind.BOOL,
}
MOST = 8192
"""Sizes of a call that may stand on the stack."""


class Words(np.ndarray[Any, Any]):
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
    if not serves or len(row(interface)) > MOST or (found := enter()) is None:
        return None
    writer = _Writer(library, interface, context, tape, choice)
    words = {
        Table.API: found.api,
        Table.MAIN: library.address(ENTRY),
        Table.CONSTANTS: writer.row(a.ctypes.data for a in interface.constants),
        Table.CONTEXT: context.ctypes.data,
        Table.TAPE: tape.ctypes.data,
        Table.CHOICE: 0 if choice is None else choice.ctypes.data,
        Table.BARE: int(bare and len(interface.results) == 1),
        **writer.sizes(),
        **writer.arguments(kinds or [np.ndarray] * len(interface.params)),
        **writer.results(),
    }
    table = np.array([words[at] for at in Table], np.int64).view(Words)
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

    def sizes(self) -> dict[Table, int]:
        """The row of sizes, or how it is computed from axes of the arguments."""
        sizes = row(self.interface)
        if not self.interface.symbols:
            known = self.row(evaluate(d, {}) for d in sizes)
            return {
                Table.SIZES: known,
                Table.SIZES_OF: 0,
                Table.SIZES_COUNT: 0,
                Table.SYMBOLS: self.row(()),
                Table.SYMBOLS_COUNT: 0,
                Table.SYMBOLS_MOST: 0,
            }
        symbols = bound_by(self.interface) or []
        return {
            Table.SIZES: 0,
            Table.SIZES_OF: self.library.address(SIZES),
            Table.SIZES_COUNT: len(sizes),
            Table.SYMBOLS: self.records(symbols),
            Table.SYMBOLS_COUNT: len(symbols),
            Table.SYMBOLS_MOST: largest(self.interface),
        }

    def arguments(self, kinds: Sequence[type]) -> dict[Table, int]:
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
            Table.PARAMS: self.records(records),
            Table.PARAMS_COUNT: len(params),
            Table.CHECKS: self.records(axes),
            Table.CHECKS_COUNT: len(axes),
            Table.CHECKS_FROM: first_axes(self.interface)[0][0] if params else 0,
            Table.DONATED: self.row(donated),
            Table.DONATED_COUNT: len(donated),
        }

    def results(self) -> dict[Table, int]:
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
        return {Table.RESULTS: self.records(records), Table.RESULTS_COUNT: len(results)}
