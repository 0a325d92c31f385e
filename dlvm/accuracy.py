"""How far two right programs of one meaning may be apart: forward error bounds, by shaking.

Every operation rounds, by as much as its class states. A program is run a few times with each
result moved by a random part of what its operation may be off, and each operand of a sum by a
rounding; how much that moves the results is, to first order, how much rounding can move them,
through branches and loops alike (stochastic arithmetic: Vignes 1993). A result that shaking moves
across a jump may be on either side of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlvm.errors import UserError
from dlvm.ir import Array, DType, Module, Op, dtype_of
from dlvm.ir.interpret import Interpreter
from dlvm.ops import Contraction, Elementwise, Reduction, Running, Scatter

RUNS = 6
"""How many times a program is shaken."""
SAFETY = 8.0
"""The largest of a few random errors is below the worst case by some factor."""
SUMS = (Reduction, Contraction, Running, Scatter)
_EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next float of a type; 0 for other types."""
    return _EPSILON.get(dtype.name, 0.0)


def silent(text: str) -> None:
    """Where prints go that nobody is to read."""


@dataclass(slots=True)
class Shaken(Interpreter):
    """An interpreter whose every result is off by as much as its operation may be."""

    dice: np.random.Generator = field(default_factory=np.random.default_rng)

    def step(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        """Run one operation, and move what it gave."""
        if isinstance(op, SUMS):
            operands = [self._moved(x, 1.0, np.abs(_wide(x))) for x in operands]
        found = super(Shaken, self).step(op, operands)
        if not isinstance(op, Elementwise):
            return found
        return tuple(self._moved(y, op.ulp, _scale(op, y, operands)) for y in found)

    def _moved(self, x: Array, ulp: float, scale: Any) -> Array:
        dtype = dtype_of(x)
        if dtype is None or not dtype.is_float:
            return x
        off = self.dice.uniform(-ulp, ulp, x.shape) * epsilon(dtype)
        exact = _wide(x)
        return np.where(np.isfinite(exact), exact + off * scale, exact).astype(x.dtype)


def _wide(x: Array) -> Array:
    return x.astype(np.float64)


def _scale(op: Elementwise, y: Array, operands: Sequence[Array]) -> Any:
    """What an error of one unit is measured by; nothing where no digit was lost."""
    size = np.abs(_wide(y))
    if op.cancels:
        return np.maximum(1.0, np.max([np.abs(_wide(x)) for x in (y, *operands)], axis=0))
    if op.ulp > Elementwise.ulp:
        return size
    matter = operands if len(operands) > 1 else operands[:0]
    whole = np.all([_whole(_wide(x)) for x in (size, *matter)], axis=0)
    handed_on = [np.abs(_wide(x)) == size for x in operands]
    return np.where(np.any([whole, *handed_on], axis=0), 0.0, size)


def _whole(x: Array) -> Array:
    """Whole numbers: a rounding of one number gives them exactly, as does arithmetic on them."""
    return np.asarray(x == np.trunc(x))


@dataclass(frozen=True)
class Answers:
    """What a program gives by the references, and how far each element may be from it."""

    values: tuple[Array, ...]
    allowed: tuple[Array, ...]


def answers(module: Module, name: str, arrays: Sequence[Any], runs: int = RUNS) -> Answers:
    """The results of an expanded module's function, with their error bounds."""
    given = [np.asarray(a) for a in arrays]
    with np.errstate(all="ignore"):
        meant = Interpreter(module, write=silent).enter(name, given)
        moved = [_shaken(module, name, given, k) for k in range(runs)]
        return Answers(meant, tuple(_allowed(i, y, moved) for i, y in enumerate(meant)))


def _shaken(
    module: Module, name: str, arrays: Sequence[Array], seed: int
) -> tuple[Array, ...] | None:
    machine = Shaken(module, write=silent, dice=np.random.default_rng(seed))
    try:
        return machine.enter(name, arrays)
    except UserError:  # an index or an assertion on the edge
        return None


def _allowed(i: int, y: Array, moved: Sequence[tuple[Array, ...] | None]) -> Array:
    """How far element by element; infinite where shaking changes more than digits."""
    dtype = dtype_of(y)
    if dtype is None or not dtype.is_float:
        changed = [np.full(y.shape, True) if m is None else m[i] != y for m in moved]
        return np.where(np.any(changed, axis=0), np.inf, 0.0) if changed else np.zeros(y.shape)
    exact = _wide(y)
    others = [np.full(y.shape, np.nan) if m is None else _wide(m[i]) for m in moved]
    spread = np.max([np.abs(o - exact) for o in others], axis=0, initial=0.0)
    bound = SAFETY * spread + 2 * epsilon(dtype) * np.abs(exact)
    steady = np.all([_kind(o) == _kind(exact) for o in others], axis=0)
    return np.where(
        np.isfinite(exact), np.where(steady, bound, np.inf), np.where(steady, 0, np.inf)
    )


def _kind(x: Array) -> Array:
    """Finite, which infinity, or none."""
    return np.asarray(np.where(np.isnan(x), 3.0, np.where(np.isinf(x), np.sign(x), 2.0)))


@dataclass(frozen=True)
class Difference:
    """The element in which two answers differ most, beyond what is allowed."""

    result: int
    index: tuple[int, ...]
    found: Any
    expected: Any
    allowed: float
    wrong: int


def difference(found: Sequence[Array], meant: Answers) -> Difference | None:
    """Where found results are further from what was meant than roundings explain, if anywhere."""
    for i, (a, b, allowed) in enumerate(zip(found, meant.values, meant.allowed, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return Difference(i, (), f"{a.dtype}{list(a.shape)}", f"{b.dtype}{list(b.shape)}", 0, 1)
        excess = _excess(a, b, allowed)
        if excess.size and excess.max() > 0:
            at = np.unravel_index(int(np.argmax(excess)), a.shape)
            index = tuple(int(n) for n in at)
            return Difference(
                i, index, a[index], b[index], float(allowed[index]), int((excess > 0).sum())
            )
    return None


def _excess(a: Array, b: Array, allowed: Array) -> Array:
    if a.dtype == np.dtype(object):  # a tape, which nobody sees
        return np.zeros(0)
    x, y = _wide(a), _wide(b)
    if a.dtype.kind in "biu":
        return np.where((a != b) & (allowed == 0), np.inf, 0.0)
    with np.errstate(all="ignore"):
        distance = np.where(_kind(x) == _kind(y), np.abs(x - y), np.inf)
        distance = np.where(np.isnan(distance) | (x == y), 0.0, distance)
        return np.where(np.isinf(allowed), 0.0, np.maximum(distance - allowed, 0.0))
