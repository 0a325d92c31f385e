"""The programs of a model for values of its weights: one serves all sizes for which it is right.

The first program leaves every size open that the file leaves open. Where an equation of sizes does
not hold for all of them, it is made for a case of sizes in which the equation holds: equal sizes
under two names, even ones, those of at most 512. A call of another case gets another program. Only
where no case is found is a program made for the sizes of the call alone, which is told once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlvm.base.errors import CompilerError, ShapeError, UserError
from dlvm.dsl.call.compiled import Compiled
from dlvm.dsl.call.doubtful import check
from dlvm.dsl.call.programs import COMPILING
from dlvm.dsl.trace.sizes import bare
from dlvm.dsl.trace.specs import Spec, spec
from dlvm.dsl.trace.warned import warned
from dlvm.ir import TensorType
from dlvm.ir.sizes.cases import Case, where_at_least, where_equal
from dlvm.ir.unify import unify

Array = np.ndarray[Any, Any]
Types = Mapping[str, TensorType]
Compile = Callable[[Mapping[str, Spec]], Compiled]
MOST = 64
"""Most programs that are kept; beyond it the one that was not used for longest is dropped."""
REMEMBERED = 4096
"""Most lists of sizes whose program is remembered."""
NARROWED = 32
"""Most cases of sizes that are tried for one program."""


@dataclass(eq=False)
class Program:
    """A program, the static values and the types of inputs for which it was made."""

    static: Any
    types: Types
    run: Compiled

    def serves(self, static: Any, given: Types) -> bool:
        """Whether it is right for inputs of these types."""
        if static != self.static or given.keys() != self.types.keys():
            return False
        with contextlib.suppress(ShapeError):
            check(self.run.doubts, self.values(given))
            return True
        return False

    def values(self, given: Types) -> dict[str, int]:
        """The values of its symbols for inputs of these types; a ShapeError if there are none."""
        found = unify([*self.types.values()], [given[n] for n in self.types])
        return {name: int(size) for name, size in found.items()}


@dataclass
class Programs:
    """Programs of one model with the same weights, the latest used first."""

    label: str
    made: list[Program] = field(default_factory=list[Program])
    known: dict[Any, Program] = field(default_factory=dict[Any, Program])
    told: bool = False

    def find(self, static: Any, open_: Types, given: Types, make: Compile) -> Compiled:
        """The program for inputs of the types ``given``, made if there is none.

        ``open_`` are their types with the symbols of the file.
        """
        key = (static, *given.items())
        if (program := self.known.get(key)) is not None:
            return program.run
        with COMPILING:
            program = next((p for p in self.made if p.serves(static, given)), None)
            if program is None:
                program = self._program(static, open_, given, make)
            self._keep(program)
            if len(self.known) >= REMEMBERED:
                self.known.clear()
            self.known[key] = program
        return program.run

    def _keep(self, program: Program) -> None:
        self.made[:] = [program, *(p for p in self.made if p is not program)]
        for old in self.made[MOST:]:
            self.known = {k: p for k, p in self.known.items() if p is not old}
        del self.made[MOST:]

    def _program(self, static: Any, open_: Types, given: Types, make: Compile) -> Program:
        """A program for as many sizes as one serves, else for the sizes that are given."""
        names = [*open_]
        found = unify([open_[n] for n in names], [given[n] for n in names], names)
        case = Case.of({name: int(size) for name, size in found.items()})
        try:
            return _by_cases(static, open_, case, make)
        except UserError as error:
            if not found:
                raise
            program = Program(static, given, make(_specs(given)))
            self._tell(error)
            return program

    def _tell(self, error: UserError) -> None:
        if not self.told:
            self.told = True
            reason = error.message.removeprefix("onnx: ")
            warned(
                f"onnx: {self.label} gets a program for each list of sizes, of which {MOST} are "
                f"kept, because not all of its sizes can be open: {reason}",
                None,
            )


def _by_cases(static: Any, types: Types, case: Case, make: Compile) -> Program:
    """The program of the first case, from the widest on, for which there is one."""
    for tried in range(NARROWED):
        present = {n: t.with_shape(tuple(map(case.substituted, t.shape))) for n, t in types.items()}
        try:
            program = Program(static, present, make(_specs(present)))
            check(program.run.doubts, case.values)
            return program
        except UserError as error:
            narrower = None if tried + 1 == NARROWED else _narrower(case, error)
            if narrower is None:
                raise
            case = narrower
    raise CompilerError("no case of sizes was tried")


def _narrower(case: Case, error: UserError) -> Case | None:
    """The case in which the two sizes of an error fit each other as they do now."""
    if len(error.sides) != 2:
        return None
    a, b = map(bare, error.sides)
    now, then = case.now(a), case.now(b)
    if now == then:
        found = where_equal(case, a, b)
    elif 1 in (now, then):  # which stretches
        found = where_equal(case, a if now == 1 else b, 1)
    else:
        found = where_at_least(case, *((a, b) if now > then else (b, a)))
    return None if found is case else found


def _specs(types: Types) -> dict[str, Spec]:
    return {name: spec(str(t)) for name, t in types.items()}


def key_of(static: Mapping[str, Array]) -> Sequence[Any]:
    """The values of static inputs as a key."""
    return tuple((n, x.dtype.str, x.shape, x.tobytes()) for n, x in sorted(static.items()))
