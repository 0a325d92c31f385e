"""Checks of declared derivatives and batched forms against their meaning.

An adjoint or a tangent is compared with the slope of the primal along a line, computed by finite
differences: for random v and w, <v, J' w> of the adjoint, or <J v, w> of the tangent, must equal
that slope of <f, w> along v. A batched form is compared with the function on every lane. Programs
are compared in f64. Richardson extrapolation from several step sizes estimates the error of the
differences, which is large at a kink. A custom derivative need not be the slope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.ad import expand
from dlvm.base.errors import UserError
from dlvm.ir import Array, Declaration, Function, Module, Op
from dlvm.ir.interpret import bind
from dlvm.ir.sizes.dims import evaluate
from dlvm.ops import NextAfter, StopGradient

from .alone import operands_of, reached
from .answers import Answer, Question, differ
from .failure import Failure
from .recast import widened
from .rounding import Run

STEP = 1e-3
LEAST = 1e-7
"""The assumed error of a slope, relative to the sum of the magnitudes of its terms."""
SAFETY = 30.0


@dataclass(frozen=True)
class Slopes:
    """One slope, by the rules and by differences; ``error`` bounds the error of the latter."""

    by_rules: float
    by_differences: float
    error: float

    @property
    def agree(self) -> bool:
        """Whether both slopes agree, or the differences are inconclusive."""
        gap = abs(self.by_rules - self.by_differences)
        return not np.isfinite(self.error) or not gap > self.error

    @property
    def tells(self) -> bool:
        """Whether the differences are accurate to three digits."""
        largest = max(abs(self.by_rules), abs(self.by_differences))
        return np.isfinite(self.error) and (self.error <= largest / 1000 or largest == 0)

    def __str__(self) -> str:
        found = f"{self.by_rules:.10g} by the rules, {self.by_differences:.10g} by differences"
        return f"the slope along a random line is {found} within {self.error:.2g}"


def check_declarations(
    declared: Module, expanded: Module, arrays: Sequence[Array]
) -> Failure | None:
    """The failure of the first declaration that is expanded wrongly, or None.

    Each is checked on the arguments with which the program calls it, or on some derived from them.
    """
    if not declared.declarations:
        return None
    whole, given = arguments_of(widened(declared), arrays)
    for d in declared.declarations:
        if d.name in given and (said := wrong(d, whole, given[d.name])) is not None:
            return Failure("answer", "differentiate", f"{d.kind} @{d.name} of @{d.of}: {said}")
    return None


def differentiated(
    declared: Module, arrays: Sequence[Array]
) -> Iterator[tuple[Module, Sequence[Array]]]:
    """The functions that a program takes derivatives of, in f64, then the program itself.

    Each is a module whose first function it is, with its arguments in the first call.
    """
    whole, given = arguments_of(widened(declared), arrays)
    for d in declared.declarations:
        if d.name in given and d.of in whole:
            yield whole.led_by(d.of), of_primal(d, whole, given[d.name])
    yield whole, given[whole.main.name]


def of_primal(d: Declaration, module: Module, given: Sequence[Array]) -> list[Array]:
    """The arguments of the primal, from those of a derived function; of lanes the first."""
    arrays = list(given[: len(module.function(d.of).params)])
    if d.kind != "batched":
        return arrays
    return [a if x is None else np.take(a, 0, x) for a, x in zip(arrays, d.axes, strict=True)]


def arguments_of(
    wide: Module, arrays: Sequence[Array]
) -> tuple[Module, Mapping[str, Sequence[Array]]]:
    """The expanded module, and the arguments of its functions when the first one is called."""
    whole = expand(wide)
    main = in_types_of(whole.main, arrays)
    ran = operands_of(whole, whole.main.name, main).items()
    given: dict[str, Sequence[Array]] = {op.called.name: xs for op, xs in ran if op.called}
    given.setdefault(whole.main.name, main)
    for d in wide.declarations:
        if d.of in given:
            own = _with_seeds(whole.function(d.of), given[d.of])
            given.setdefault(d.name, lanes_of(d, own) if d.kind == "batched" else own)
    return whole, given


def _with_seeds(fn: Function, arrays: Sequence[Array]) -> list[Array]:
    """The arguments of a derived function: those of its primal, then random seeds."""
    first, rest = fn.params[: len(arrays)], fn.params[len(arrays) :]
    sizes = bind([p.type for p in first], arrays, [p.name for p in first])
    dice = np.random.default_rng(2)
    shapes = [tuple(evaluate(n, sizes) for n in p.shape) for p in rest]
    return [*arrays, *(np.asarray(dice.uniform(-1, 1, shape)) for shape in shapes)]


def lanes_of(d: Declaration, arrays: Sequence[Array]) -> list[Array]:
    """The arguments of a batched function, made from those of one lane."""
    dice = np.random.default_rng(0)
    more = d.size - 1 if isinstance(d.size, int) else 1
    return [
        a if x is None else np.stack([a, *(_other(a, dice) for _ in range(more))][: more + 1], x)
        for a, x in zip(arrays, d.axes, strict=True)
    ]


def _other(a: Array, dice: np.random.Generator) -> Array:
    """The array with its elements in random order."""
    return dice.permutation(a.reshape(-1)).reshape(a.shape)


def in_types_of(fn: Function, arrays: Sequence[Array]) -> list[Array]:
    """Copies of the arrays in the element types of the parameters."""
    return [np.array(a).astype(p.dtype.numpy) for a, p in zip(arrays, fn.params, strict=True)]


def wrong(d: Declaration, module: Module, given: Sequence[Array]) -> str | None:
    """What is wrong with a derived function, or None; the primal's arguments come first."""
    primal = module.function(d.of)
    if d.kind == "batched":
        return _lanes_differ(d, module, given)
    if states_its_own(module, primal):
        return None
    found = slopes(d, module, given[: len(primal.params)])
    return None if found is None or found.agree else str(found)


def states_its_own(module: Module, fn: Function) -> bool:
    """Whether an operation in it has a stated derivative that may differ from its slope."""
    return next(stating(module, fn), None) is not None


def stating(module: Module, fn: Function) -> Iterator[Op]:
    """The operations of a function whose stated derivatives may differ from their slopes."""
    for op in reached(module, fn):
        if op.ruled is not None or isinstance(op, StopGradient | NextAfter):
            yield op


def slopes(d: Declaration, module: Module, given: Sequence[Array]) -> Slopes | None:
    """The slope along a random line; None if the primal raises an error."""
    arrays = in_types_of(module.function(d.of), given)
    dice = np.random.default_rng(0)
    v = [np.asarray(dice.uniform(-1, 1, arrays[i].shape)) for i in d.wrt]
    value = _function_of(module, d.of)
    start = value(arrays)
    if start is None:
        return None
    floats = [i for i, r in enumerate(module.function(d.of).results) if r.type.dtype.is_float]
    unit = d.kind == "adjoint" and not d.seeded
    w: list[Array] = [
        np.asarray(dice.uniform(0.5, 1, start[i].shape)) if not unit else np.ones(())
        for i in floats
    ]

    def height(t: float) -> float:
        moved = list(arrays)
        for i, direction in zip(d.wrt, v, strict=True):
            moved[i] = arrays[i] + t * direction
        values = value(moved)
        return np.nan if values is None else _inner([values[i] for i in floats], w)

    derived = _function_of(module, d.name)
    seeds = v if d.kind == "tangent" else w if d.seeded else []
    out = derived([*arrays, *seeds])
    if out is None:
        return None
    pairs = (out[len(d.keep) :], w) if d.kind == "tangent" else (out[: len(v)], v)
    by_differences, error = difference(height)
    size = _inner(*([np.abs(x) for x in side] for side in pairs))
    return Slopes(_inner(*pairs), by_differences, error + LEAST * size)


def _inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return sum(float(np.sum(x * y)) for x, y in zip(xs, ys, strict=True))


def difference(height: Callable[[float], float]) -> tuple[float, float]:
    """The slope at 0 and a bound of its error: central differences, extrapolated once.

    The difference between the slopes on either side halves with the step size, except at a kink.
    """
    steps = (STEP, STEP / 2, STEP / 4)
    middle = height(0.0)
    sides = [(height(h) - middle, height(-h) - middle) for h in steps]
    far, near, nearest = ((up - down) / (2 * h) for h, (up, down) in zip(steps, sides, strict=True))
    bent, less, least = ((up + down) / h for h, (up, down) in zip(steps, sides, strict=True))
    rough, best = (4 * near - far) / 3, (4 * nearest - near) / 3
    kink = abs(bent - 2 * less) + abs(less - 2 * least)
    rounding = 1e-15 * abs(middle) / STEP
    return best, SAFETY * (abs(best - rough) + rounding) + kink + 1e-12


def _function_of(module: Module, name: str) -> Callable[[Sequence[Array]], list[Array] | None]:
    def run(arrays: Sequence[Array]) -> list[Array] | None:
        try:
            with np.errstate(all="ignore"):
                return list(Run(module).enter(name, [np.asarray(a) for a in arrays]))
        except UserError:
            return None

    return run


def _lanes_differ(d: Declaration, module: Module, given: Sequence[Array]) -> str | None:
    """The first lane on which a batched form differs from the function, or None."""
    batched = _function_of(module, d.name)(given)
    if batched is None:
        return None
    lanes = next((a.shape[x] for a, x in zip(given, d.axes, strict=True) if x is not None), 0)
    alone = module.led_by(d.of)
    for lane in range(lanes):
        picked = [
            a if x is None else np.take(a, lane, x) for a, x in zip(given, d.axes, strict=True)
        ]
        question = Question(alone, picked)
        difference = differ(
            question, Answer(tuple(np.asarray(r[lane]) for r in batched), question.answer.told)
        )
        if difference is not None:
            return f"lane {lane}, {difference}"
    return None
