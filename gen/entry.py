"""From arrays to arrays: checks, memory for the results, the call, and errors.

Arguments are checked against the parameter types and the symbols bound from their shapes;
results are fresh arrays, or the donated ones. The call runs without Python's lock, on an arena
of its own, so several threads may call at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dlvm.errors import DonationError, IRError
from dlvm.ir import Array, Module, TensorType
from dlvm.ir.dims import evaluate
from dlvm.ir.interpret import bind
from dlvm.target import Target

from . import status, tape
from .arenas import Arenas
from .driver import ENTRY
from .llvm import Library, assembly
from .memory import Arena
from .program import Program
from .program_text import program_text
from .report import Report

REMEMBERED = 256
"""For how many lists of shapes the sizes of symbols are kept."""

Call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 7)
Printer = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)


class Texts(Mapping[str, str]):
    """What stands between the kernels and the machine, each written when first asked for."""

    def __init__(self, **writers: Callable[[], str]) -> None:
        self._writers = writers
        self._written: dict[str, str] = {}

    def __getitem__(self, stage: str) -> str:
        if stage not in self._written:
            self._written[stage] = self._writers[stage]()
        return self._written[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._writers)

    def __len__(self) -> int:
        return len(self._writers)


@dataclass(eq=False)
class Executable:
    """A compiled function; ``run`` calls it."""

    module: Module
    program: Program
    arena: Arena
    target: Target
    llvm: str
    library: Library
    report: Report
    tape_bytes: int = 0
    """The most memory that the tape of one call took so far."""
    _arenas: Arenas = field(default_factory=Arenas)
    _solved: dict[Any, dict[str, int]] = field(default_factory=dict[Any, Any])

    @cached_property
    def texts(self) -> Texts:
        """The stages ``loops``, ``llvm`` and ``asm`` as text."""
        return Texts(
            loops=lambda: program_text(self.program, self.arena),
            llvm=lambda: self.llvm,
            asm=lambda: assembly(self.llvm, self.target),
        )

    @cached_property
    def _call(self) -> Callable[..., None]:
        return Call(self.library.address(ENTRY))

    @cached_property
    def _constants(self) -> list[Array]:
        return [np.array(a, order="C") for a in self.program.constants]

    def run(self, arrays: Sequence[Any], write: Callable[[str], None] = print) -> tuple[Array, ...]:
        """The results on these arguments; a donated one is the result that overwrites it."""
        fn = self.module.main
        if len(arrays) != len(fn.params):
            raise IRError(f"@{fn.name} takes {len(fn.params)} arguments, found {len(arrays)}")
        given = [np.asarray(a) for a in arrays]
        names = [p.name or f"argument {i}" for i, p in enumerate(fn.params)]
        symbols = self._sizes(given, names)
        self._check_donated(given, names)
        ready = [_readable(a) for a in given]
        results = self._results(ready, symbols)
        printing = Printing(self.program.prints, symbols, write)
        words = self._run(ready, results, symbols, printing)
        if printing.error is not None:
            raise printing.error
        if words[0]:
            raise status.error_of(words, self.module)
        return results

    def _sizes(self, arrays: list[Array], names: list[str]) -> dict[str, int]:
        """The sizes of symbols; the equations are solved once for each list of shapes."""
        key = tuple((a.dtype, a.shape) for a in arrays)
        found = self._solved.get(key)
        if found is None:
            found = bind([p.type for p in self.module.main.params], arrays, names)
            if len(self._solved) >= REMEMBERED:
                self._solved.clear()
            self._solved[key] = found
        return found

    def _check_donated(self, arrays: list[Array], names: list[str]) -> None:
        for i, param in enumerate(self.module.main.params):
            if not param.donated:
                continue
            flags = arrays[i].flags
            if not (flags.c_contiguous and flags.writeable and flags.aligned):
                raise DonationError(
                    f"{names[i]} is donated, but it is read-only or not contiguous",
                    remedy="donate a copy of it",
                )
            for j, other in enumerate(arrays):
                if j != i and np.may_share_memory(arrays[i], other):
                    raise DonationError(
                        f"{names[i]} is donated, but it overlaps with {names[j]}",
                        remedy="pass a copy of one of them",
                    )

    def _results(self, arrays: list[Array], symbols: dict[str, int]) -> tuple[Array, ...]:
        """A fresh array for each result, or the donated one that it is written into."""
        owners = {view.storage: i for i, view in enumerate(self.program.params)}
        return tuple(
            arrays[owners[view.storage]]
            if view.storage in owners
            else np.empty(_shape(view.type, symbols), view.type.dtype.numpy)
            for view in self.program.results
        )

    def _run(
        self,
        arrays: list[Array],
        results: Sequence[Array],
        symbols: dict[str, int],
        printing: Printing,
    ) -> list[int]:
        """Make the call; the words of its status."""
        words = (ctypes.c_int64 * status.WORDS)()
        context = (ctypes.c_int64 * tape.WORDS)()
        printer = Printer(printing)
        context[tape.PRINTER] = ctypes.cast(printer, ctypes.c_void_p).value or 0
        sizes = (ctypes.c_int64 * len(self.program.symbols))(
            *(symbols[s] for s in self.program.symbols)
        )
        with self._arenas.lease(evaluate(self.arena.bytes, symbols)) as arena:
            self._call(
                _addresses(arrays),
                _addresses(results),
                arena,
                sizes,
                _addresses(self._constants),
                words,
                context,
            )
        self.tape_bytes = max(self.tape_bytes, context[tape.HELD])
        return list(words)


class Printing:
    """What machine code calls to print; an error waits until the call has ended."""

    def __init__(
        self,
        prints: Sequence[tuple[str, TensorType]],
        symbols: dict[str, int],
        write: Callable[[str], None],
    ) -> None:
        self.prints, self.symbols, self.write = prints, symbols, write
        self.error: BaseException | None = None

    def __call__(self, index: int, address: int) -> None:
        """Print the tensor at an address under its label."""
        label, type_ = self.prints[index]
        array = np.empty(_shape(type_, self.symbols), type_.dtype.numpy)
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
        try:
            self.write(f"{label}{array}")
        except BaseException as error:
            self.error = self.error or error


def _addresses(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


def _shape(type_: TensorType, symbols: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, symbols) for d in type_.shape)


def _readable(array: Array) -> Array:
    """The array itself where machine code can read it as it is, else a copy."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")
