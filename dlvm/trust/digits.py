"""How many digits a program keeps: as compiled, as written, and without laws that round.

Each way runs on perturbed copies of the arguments beside the program as written in more digits, f64
for f32 and halves and NumPy's long double for f64. What counts is the largest error of a result on
all copies. A way may have four times that of the program as written, or of the roundings of its
longest sum, whichever is more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm import passes
from dlvm.ad import expand
from dlvm.base.errors import UserError
from dlvm.ir import F64, Array, Module, Op, rules
from dlvm.ir.decisions import Decision, overseen
from dlvm.ir.interpret import bind
from dlvm.ir.numerics import EXACT, Mode, numerics
from dlvm.ir.sizes.dims import evaluate
from dlvm.ir.types import EXTENDED
from dlvm.ops import Matmul, Sum

from .recast import WIDE, recast
from .rounding import epsilon

SAMPLES = 16
MOVED = 2.0**-14
"""How far, of its size, an element of a copy is moved at most."""
ALLOWED = 4.0
Run = Callable[[Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True)
class Errors:
    """The largest errors of the results of a program, and the sizes of what they should be."""

    found: tuple[float, ...]
    sizes: tuple[float, ...]
    grain: float
    """The rounding of the element type, relative."""

    def digits(self) -> tuple[float, ...]:
        """The decimal digits that each result has, at most those of its type."""
        pairs = zip(self.found, self.sizes, strict=True)
        return tuple(_digits(error, size, self.grain) for error, size in pairs)


def _digits(error: float, size: float, grain: float) -> float:
    if not size:
        return -np.log10(grain) if not error else 0.0
    return float(max(0.0, -np.log10(max(error / size, grain))))


@dataclass(frozen=True)
class Judged:
    """A program and copies of its arguments, with its results in more digits."""

    module: Module
    copies: Sequence[Sequence[Array]]
    exact: Sequence[Sequence[Array]]
    terms: int
    """The terms of the longest sum."""

    @staticmethod
    def of(module: Module, arrays: Sequence[Array], samples: int = SAMPLES) -> Judged:
        """Some perturbed copies, from a fixed seed."""
        dice = np.random.default_rng(0)
        copies = [[_moved(a, dice) for a in arrays] for _ in range(samples)]
        wide = in_more_digits(module)
        given = [
            [_as(a, p.type.dtype.numpy) for a, p in zip(c, wide.main.params, strict=True)]
            for c in copies
        ]
        with np.errstate(all="ignore"):
            exact = [wide.run(wide.main.name, *c) for c in given]
        return Judged(module, copies, exact, longest_sum(module, arrays))

    def errors(self, run: Run) -> Errors:
        """The largest errors of one way to run the program."""
        with np.errstate(all="ignore"):
            found = [run([np.array(a) for a in copy]) for copy in self.copies]
        pairs = list(zip(zip(*found, strict=True), zip(*self.exact, strict=True), strict=True))
        floats = [(a, b) for a, b in pairs if epsilon(np.asarray(a[0]))]
        grain = max((epsilon(np.asarray(a[0])) for a, _ in floats), default=0.0)
        errors = tuple(max(map(_apart, a, b)) for a, b in floats)
        return Errors(errors, tuple(max(map(_size, b)) for _, b in floats), grain)

    def literal(self) -> Errors:
        """Of the program as written, by the interpreter."""
        return self.errors(lambda xs: self.module.run(self.module.main.name, *xs))

    def worse(self, errors: Errors, literal: Errors) -> float:
        """How many times the errors that are allowed those of a way are, at its worst result."""
        grain = errors.grain * np.sqrt(self.terms)
        found = [0.0]
        for error, own, size in zip(errors.found, literal.found, errors.sizes, strict=True):
            allowed = ALLOWED * max(own, grain * size)
            if np.isfinite(own) and np.isfinite(size) and allowed:
                found.append(error / allowed if np.isfinite(error) else np.inf)
        return max(found)


def compiled(module: Module, mode: Mode = "default", without: str = "") -> Run:
    """Machine code of a program in a mode; the law of this name is not applied."""
    from dlvm.gen.build import build
    from dlvm.opt.pipelines import DEFAULT

    def may(decision: Decision) -> bool:
        return name_of(decision) != without

    with numerics(mode), overseen(may if without else None):
        code = build(passes.run(expand(module), DEFAULT))
    return lambda xs: code.run(xs, lambda _: None)


def name_of(decision: Decision) -> str:
    """The name of the law or pass that decides."""
    return getattr(decision.law, "__name__", str(decision.law))


def laws_of(module: Module, mode: Mode = "default") -> list[Decision]:
    """The first decision of each law that a mode applies to a program, of those that round."""
    from dlvm.opt.algebra.factors.choosing import LAWS_OF_FACTORS
    from dlvm.opt.pipelines import meaning

    found: dict[str, Decision] = {}
    rounding = {r.apply for r in rules() if r.law_class != EXACT} | set(LAWS_OF_FACTORS)

    def note(decision: Decision) -> bool:
        if decision.law in rounding:
            found.setdefault(name_of(decision), decision)
        return True

    with numerics(mode), overseen(note):
        passes.run(expand(module), meaning())
    return list(found.values())


def costliest(judged: Judged, mode: Mode = "default") -> Decision | None:
    """The law without which a program has most more digits, half of one at least."""
    best, found = sum(judged.errors(compiled(judged.module, mode)).digits()) + 0.5, None
    for decision in laws_of(judged.module, mode):
        run = compiled(judged.module, mode, without=name_of(decision))
        if (digits := sum(judged.errors(run).digits())) > best:
            best, found = digits, decision
    return found


def in_more_digits(module: Module) -> Module:
    """The program with f32 and halves as f64, and f64 as NumPy's long double."""
    if np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant and _has(module, F64):
        raise UserError(
            "expected a program of f32 or halves: NumPy has no longer type than f64 here",
            remedy="pass f32 arrays, whose digits are counted beside f64",
        )
    return recast(recast(module, {F64: EXTENDED}), WIDE)


def _has(module: Module, dtype: Any) -> bool:
    types = (t for fn in module.functions for t in (*(p.type for p in fn.params), *_results(fn)))
    return any(t.dtype == dtype for t in types)


def _results(fn: Any) -> list[Any]:
    return [t for op in fn.walk() for t in op.result_types]


def longest_sum(module: Module, arrays: Sequence[Array]) -> int:
    """The terms of the longest sum of a program."""
    main = module.main
    sizes = bind([p.type for p in main.params], arrays, [str(p.name) for p in main.params])
    found = [1]
    for fn in module.functions:
        for op in fn.walk():
            if isinstance(op, Matmul | Sum):
                found.append(_terms(op, sizes))
    return max(found)


def _terms(op: Op, sizes: dict[str, int]) -> int:
    axes = op.axes if isinstance(op, Sum) else (op.operands[0].type.rank - 1,)
    try:
        return int(np.prod([evaluate(op.operands[0].shape[a], sizes) for a in axes]))
    except KeyError:  # a size of another function
        return 1


def _moved(x: Array, dice: np.random.Generator) -> Array:
    """A copy with every element moved; of a matrix with a property that may have been stated, one.

    A symmetric one is moved as a whole, and an orthogonal one is not.
    """
    if not epsilon(x):
        return x
    wide = x.astype(np.float64)
    square = x.ndim > 1 and x.shape[-1] == x.shape[-2]
    if square and np.allclose(wide @ np.swapaxes(wide, -1, -2), np.eye(x.shape[-1]), atol=1e-5):
        return x
    alike = square and np.array_equal(wide, np.swapaxes(wide, -1, -2))
    by = 1 + MOVED * dice.uniform(-1, 1, () if alike else x.shape)
    return np.asarray(wide * by).astype(x.dtype)


def _as(x: Array, dtype: np.dtype[Any]) -> Array:
    return x.astype(dtype) if x.dtype != dtype else x


def _apart(a: Any, b: Any) -> float:
    wide = np.result_type(b, np.float64)
    return float(np.max(np.abs(np.asarray(a).astype(wide) - b), initial=0.0))


def _size(b: Any) -> float:
    return float(np.max(np.abs(b), initial=0.0))
