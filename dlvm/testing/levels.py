"""The derivatives of a program as programs: one level for each order.

Level k has the derivative of order k - 1 as its function; its adjoint and its tangent are
checked. All of them are in one module, which the references run, and in one compiled program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.compile import Options, Road, at_a_point, expand
from dlvm.ir import Array, Builder, Declaration, Function, FunctionRef, Module, Param
from dlvm.ir.interpret import Interpreter
from dlvm.ops import Call
from dlvm.trust.answers import Question


@dataclass(frozen=True)
class Names:
    """The names of the function of one level and of its derivatives."""

    of: str
    adjoint: str
    tangent: str
    with_adjoint: str
    with_tangent: str


@dataclass(frozen=True)
class Levels:
    """A program in f64, the parameters to differentiate with respect to, and its derivatives."""

    module: Module
    arrays: tuple[Array, ...]
    wrt: tuple[int, ...]
    order: int

    @cached_property
    def names(self) -> tuple[Names, ...]:
        """The functions of each level."""
        out: list[Names] = []
        of, taken = self.module.main.name, {e.name for e in self.module.entries}
        for k in range(1, self.order + 1):
            kinds = ("adjoint", "tangent", "with_adjoint", "with_tangent")
            out.append(Names(of, *(_free(f"{kind}_{k}", taken) for kind in kinds)))
            of = out[-1].adjoint
        return tuple(out)

    @cached_property
    def expanded(self) -> Module:
        """The module with every derivative expanded."""
        declared: list[Declaration] = []
        for n in self.names:
            declared.append(Declaration("adjoint", n.adjoint, n.of, self.wrt, seeded=True))
            declared.append(Declaration("tangent", n.tangent, n.of, self.wrt))
            all_ = tuple(range(self._count(len(declared) // 4)))
            for kind, name in (("adjoint", n.with_adjoint), ("tangent", n.with_tangent)):
                seeded = kind == "adjoint"
                declared.append(Declaration(kind, name, n.of, self.wrt, keep=all_, seeded=seeded))
        return expand(Module((*self.module.entries, *declared)))

    def function(self, level: int, seeds: Sequence[Array]) -> Mapping:
        """The function whose derivative is checked at a level, with the seeds of those below."""
        return Mapping(self.expanded, self.names[level].of, (*self.arrays, *seeds), self.wrt)

    def adjoint(self, level: int, seeds: Sequence[Array]) -> Question:
        """The cotangents of the arguments; the last seeds are those of this level."""
        return asked(self.expanded, self.names[level].adjoint, (*self.arrays, *seeds))

    def tangent(self, level: int, seeds: Sequence[Array], v: Sequence[Array]) -> Question:
        """The tangents of the results along ``v``."""
        return asked(self.expanded, self.names[level].tangent, (*self.arrays, *seeds, *v))

    def _count(self, level: int) -> int:
        """The number of results of the function of a level."""
        return len(self.module.main.results) if level == 0 else len(self.wrt)

    def values(
        self, level: int, below: Sequence[Array], seeds: Sequence[Array], v: Sequence[Array]
    ) -> Iterator[tuple[str, Sequence[Array]]]:
        """The values of the function of a level that each mode of differentiation returns."""
        n, count = self.names[level], self._count(level)
        reverse = asked(self.expanded, n.with_adjoint, (*self.arrays, *below, *seeds))
        yield "reverse mode", reverse.answer.results[-count:]
        forward = asked(self.expanded, n.with_tangent, (*self.arrays, *below, *v))
        yield "forward mode", forward.answer.results[:count]
        fn = self.expanded.function(n.of)
        wrt = [i in self.wrt for i in range(len(fn.params))]
        seeded = [r.dtype.is_float for r in fn.results]
        found = at_a_point(self.expanded, n.of, wrt, seeded, True, None)
        if found is not None:
            alone = Module((found.ahead, *found.made))
            linear = asked(alone, found.ahead.name, (*self.arrays, *below))
            yield "linearised", linear.answer.results[:count]

    # -- machine code ----------------------------------------------------------------------------

    def compiled(self, seeds: Sequence[Sequence[Array]], v: Sequence[Array]) -> list[list[Array]]:
        """The adjoint and the tangent of each level by machine code, from one program."""
        params = self.expanded.function(self.names[0].of).params
        whole = Module((self._every(), *self.expanded.entries))
        given = [*self.arrays, *(s for each in seeds for s in each), *v]
        road = Road(whole, Options())
        arrays = [np.array(a) for a in given]
        assert len(params) == len(self.arrays)
        flat = iter(road.executable.run(arrays) if not _prints(whole) else _quiet(road, arrays))
        return [[next(flat) for _ in self._results(name)] for name in self._all()]

    def _all(self) -> list[str]:
        return [name for n in self.names for name in (n.adjoint, n.tangent)]

    def _results(self, name: str) -> Sequence[Any]:
        return self.expanded.function(name).signature.results

    def _every(self) -> Function:
        """One function that calls the derivatives of all levels."""
        base = [Param(p.type, p.name) for p in self.module.main.params]
        seeds: list[list[Param]] = []
        for k, n in enumerate(self.names):
            types = self.expanded.function(n.adjoint).signature.params
            before = len(base) + sum(map(len, seeds))
            seeds.append([Param(t, f"seed_{k}_{i}") for i, t in enumerate(types[before:])])
        v = [Param(base[i].type, f"v_{i}") for i in self.wrt]
        results: list[Any] = []
        with Builder() as b:
            for k, n in enumerate(self.names):
                below = [s for each in seeds[:k] for s in each]
                for name, last in ((n.adjoint, seeds[k]), (n.tangent, v)):
                    types = self.expanded.function(name).signature.results
                    op = Call((*base, *below, *last), FunctionRef(name), types)
                    results += op.results
        params = (*base, *(s for each in seeds for s in each), *v)
        name = _free("derivatives", {e.name for e in self.expanded.entries})
        return Function(name, params, tuple(b.ops), tuple(results))


def _prints(module: Module) -> bool:
    return any(fn.has_effect for fn in module.functions)


def _quiet(road: Road, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """A run whose prints are discarded."""
    run: Any = road.executable.run
    return run(arrays, silent)


def _free(name: str, taken: set[str]) -> str:
    n, found = 1, name
    while found in taken:
        n, found = n + 1, f"{name}_{n}"
    taken.add(found)
    return found


def silent(text: str) -> None:
    """A sink for prints that nobody should see."""


def asked(module: Module, name: str, arrays: Sequence[Array]) -> Question:
    """The results of a function of an expanded module by the references; its errors are raised."""
    question = Question(module.led_by(name), arrays)
    if question.answer.error is not None:
        raise question.answer.error
    return question


@dataclass(frozen=True)
class Mapping:
    """A function of the module as one from vectors to vectors: its float results, end to end."""

    module: Module
    name: str
    arrays: tuple[Array, ...]
    wrt: tuple[int, ...]

    @cached_property
    def x(self) -> Array:
        """The point of the check."""
        return flat([self.arrays[i] for i in self.wrt])

    @cached_property
    def question(self) -> Question:
        """The results at the point, and how far rounding may move them."""
        return asked(self.module, self.name, self.arrays)

    @cached_property
    def values(self) -> list[Array]:
        """The float results at the point."""
        return [self.question.answer.results[j] for j in self.floats]

    @cached_property
    def floats(self) -> tuple[int, ...]:
        """Which of the results are floats."""
        results = self.module.function(self.name).results
        return tuple(j for j, r in enumerate(results) if r.dtype.is_float)

    def parts(self, x: Array) -> list[Array]:
        """A vector cut into arrays like the arguments."""
        sizes = [self.arrays[i].size for i in self.wrt]
        pieces = np.split(x, np.cumsum(sizes)[:-1]) if sizes else []
        return [p.reshape(self.arrays[i].shape) for p, i in zip(pieces, self.wrt, strict=True)]

    def moved_to(self, x: Array) -> list[Array]:
        """The arguments at another point."""
        moved = list(self.arrays)
        for i, part in zip(self.wrt, self.parts(x), strict=True):
            moved[i] = part
        return moved

    def __call__(self, x: Array) -> Array:
        """The value; NaN where the program refuses its arguments."""
        try:
            with np.errstate(all="ignore"):
                found = Interpreter(self.module, write=silent).enter(self.name, self.moved_to(x))
        except UserError:
            return np.full(self.size, np.nan)
        return flat([found[j] for j in self.floats])

    @cached_property
    def size(self) -> int:
        """The number of elements of the result."""
        return sum(y.size for y in self.values)

    @cached_property
    def value(self) -> Array:
        """The value at the point."""
        return flat(self.values)

    @cached_property
    def noise(self) -> Array:
        """How far rounding may move the value."""
        allowed = self.question.allowed
        return flat([allowed[j] for j in self.floats])


def flat(arrays: Sequence[Array]) -> Array:
    """Arrays end to end."""
    return np.concatenate([np.zeros(0), *(np.ravel(a) for a in arrays)])
