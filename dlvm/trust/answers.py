"""The answers of programs, and whether two answers to the same question are equal.

``DLVM_VERIFY=passes``, ``dlvm bisect`` and ``reduce``, the fuzzers and ``dlvm.testing`` all compare
here. Integers and bools must be equal. Floats may differ by as much as rounding explains, which
``rounding`` measures by perturbing both programs, and only if their bits differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir import Array, Module
from dlvm.ir.taps import Line, listening

from .rounding import PATIENCE, Run, TooLong, epsilon, smallest

SHAKES = 8
"""Perturbed runs per program. A comparison of equal numbers survives all with probability 1/256."""
CHAOS = 8, 1 / 64
"""The number and the share of the elements of a result that a perturbed run changes by as much as
they are from which on the result is chaotic: the others kept their value only by chance."""
SAFETY = 16.0
"""Ratio of the allowed error to the largest change in a perturbed run."""


@dataclass(frozen=True)
class Answer:
    """The outcome of a program on some arrays: results, printed and tapped values, or an error."""

    results: tuple[Array, ...]
    told: tuple[tuple[str, Array], ...] = ()
    error: UserError | None = None
    wild: bool = False
    """Whether intermediate numbers were so large that identities of real numbers may fail."""

    @property
    def values(self) -> list[tuple[str, Array]]:
        """Every array that came out, with its name."""
        return [*((f"result {i}", r) for i, r in enumerate(self.results)), *self.told]


def answered(run: Callable[[Callable[[Any], None]], Iterable[Any]]) -> Answer:
    """The answer of loops or machine code; ``run`` is passed the function that prints lines."""
    told: list[tuple[str, Array]] = []

    def write(line: Line) -> None:
        told.append((f"print {line.label}", line.value))

    try:
        with listening(lambda name, value: told.append((f"tap {name}", value))):
            results = tuple(np.array(r) for r in run(write))
    except UserError as error:
        return Answer((), tuple(told), error)
    return Answer(results, tuple(told))


@dataclass(frozen=True)
class Difference:
    """The first difference between two answers: value, element, and the allowed error."""

    value: str
    index: tuple[int, ...]
    expected: Any
    found: Any
    allowed: float

    def __str__(self) -> str:
        place = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        bound = "exactly" if not self.allowed else f"within {self.allowed:.3g}"
        return f"{self.value}{place}: expected {self.expected} {bound}, found {self.found}"


class Question:
    """A module without declarations, and arguments for its first function; both are constant."""

    def __init__(
        self, module: Module, arrays: Sequence[Array], seed: int = 0, patience: int = PATIENCE
    ) -> None:
        self.module = module
        self.arrays = tuple(arrays)
        self.seed = seed
        self.patience = patience

    @cached_property
    def answer(self) -> Answer:
        """The answer of the interpreter."""
        return self.run()

    @property
    def too_long(self) -> bool:
        """Whether the run was stopped because it took too long."""
        return isinstance(self.answer.error, TooLong)

    def then(self, module: Module) -> Question:
        """The same question for a later form of the program.

        If the run took too long before, it is not repeated.
        """
        found = Question(module, self.arrays, self.seed, self.patience)
        if self.too_long:
            found.answer = self.answer
        return found

    def run(self, dice: np.random.Generator | None = None) -> Answer:
        """The answer of the interpreter; if ``dice`` are given, with every rounding perturbed."""
        machine = Run(self.module, dice=dice, patience=2 * self.patience if dice else self.patience)
        try:
            with np.errstate(all="ignore"):
                given = [np.array(a) for a in self.arrays]
                results = machine.enter(self.module.main.name, given)
        except UserError as error:
            return Answer((), tuple(machine.told), error, machine.wild[0])
        return Answer(tuple(map(np.array, results)), tuple(machine.told), None, machine.wild[0])

    @cached_property
    def freedom(self) -> list[Array] | None:
        """How far each element may be off; infinite if a perturbation changed it discontinuously.

        The answer is None if a perturbed run takes another path, so that nothing can be compared.
        """
        dice = np.random.default_rng(self.seed)
        start = [x for _, x in self.answer.values]
        far = [np.zeros(x.shape) for x in start]
        for _ in range(SHAKES):
            shaken = self.run(dice)
            moved = [x for _, x in shaken.values]
            same = len(moved) == len(start) and shaken.error is None
            if not same or any(a.shape != b.shape for a, b in zip(start, moved, strict=True)):
                return None
            far = [np.maximum(f, distance(a, b)) for f, a, b in zip(far, start, moved, strict=True)]
        return far

    @property
    def allowed(self) -> list[Array]:
        """The allowed error of each element of each result; infinite if nothing is known."""
        results, freedom = self.answer.results, self.freedom
        if freedom is None:
            return [np.full(r.shape, np.inf) for r in results]
        pairs = zip(results, (SAFETY * f for f in freedom), strict=False)
        return [allowed + _least(r, allowed) for r, allowed in pairs]


def distance(a: Array, b: Array) -> Array:
    """The distance of each pair of elements: 0 if equal, infinite if it has no meaning."""
    same = (a == b) | ((a != a) & (b != b))
    if not epsilon(a):
        return np.where(same, 0.0, np.inf)
    with np.errstate(all="ignore"):
        gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(same, 0.0, np.where(np.isfinite(gap), gap, np.inf))


def differ(expected: Question, found: Answer, other: Question | None = None) -> Difference | None:
    """The first difference between the expected answer and the one found, or None.

    ``other`` is the question to the program that gave ``found``. If the expected answer is a user's
    error, any answer is accepted, since a pass may drop an operation that raises; but a result may
    not be answered by an error.
    """
    asked = expected.answer
    if asked.error is not None:
        return None
    if (
        found.error is not None and expected.freedom is None
    ):  # rounding decides whether an index is in range
        return None
    if found.error is not None:
        return Difference("the call", (), "results", f"{found.error}", 0.0)
    pairs = list(zip(asked.values, found.values, strict=False))
    names = [name for name, _ in asked.values], [name for name, _ in found.values]
    if names[0] != names[1]:
        if expected.freedom is None:  # rounding decides which lines are printed
            return None
        return Difference("what is told", (), names[0], names[1], 0.0)
    for (name, a), (_, b) in pairs:
        if a.shape != b.shape or a.dtype != b.dtype:
            kinds = f"{a.dtype}{list(a.shape)}", f"{b.dtype}{list(b.shape)}"
            return Difference(name, (), *kinds, 0.0)
    gaps = [distance(a, b) for (_, a), (_, b) in pairs]
    if not any(gap.any() for gap in gaps) or (other is not None and asked.wild):
        return None
    return _beyond_rounding(expected, other, pairs, gaps)


def _beyond_rounding(
    expected: Question, other: Question | None, pairs: Sequence[Any], gaps: Sequence[Array]
) -> Difference | None:
    freedoms = [expected.freedom, expected.freedom if other is None else other.freedom]
    for i, ((name, a), (_, b)) in enumerate(pairs):
        allowed = np.zeros(a.shape)
        for freedom in freedoms:
            if freedom is None or freedom[i].shape != a.shape:
                return None
            allowed = allowed + SAFETY * freedom[i]
        allowed = allowed + _least(a, allowed)
        wrong = (gaps[i] > allowed) & ~_undefined(a, allowed)
        if wrong.any() and not _is_chaotic(a, allowed):
            at = tuple(map(int, np.argwhere(wrong)[0])) if a.shape else ()
            return Difference(name, at, a[at], b[at], float(allowed[at]))
    return None


def _is_chaotic(a: Array, allowed: Array) -> bool:
    """Whether so many elements are lost to rounding that the rest say nothing, like the signs of a
    recurrence that magnifies each error."""
    with np.errstate(all="ignore"):
        lost = np.count_nonzero(allowed > SAFETY * np.abs(a.astype(np.float64)))
    number, share = CHAOS
    return bool(lost >= max(number, share * a.size))


def _least(a: Array, allowed: Array) -> Array:
    """A few units in the last place per element, plus the smallest number, if anything rounds."""
    if not epsilon(a) or not allowed.any():
        return np.zeros(a.shape)
    with np.errstate(all="ignore"):
        size = np.abs(a.astype(np.float64))
    return SAFETY * (np.where(np.isfinite(size), epsilon(a) * size, 0.0) + smallest(a))


def _undefined(a: Array, allowed: Array) -> Array:
    """Where the expected value is not finite: identities of real numbers need not hold there."""
    if not epsilon(a) or not allowed.any():
        return np.zeros(a.shape, bool)
    return ~np.isfinite(a.astype(np.float64))


# -- special values ------------------------------------------------------------------------------


def unlike(expected: Question, found: Answer) -> Difference | None:
    """Where one answer has a NaN, an infinity or a sign of zero that the other has not.

    No law that applies by default may change these, and no rounding explains them, unless a
    comparison of nearly equal numbers depends on it: such elements are left out.
    """
    asked = expected.answer
    if asked.error is not None or found.error is not None:
        return None
    pairs = list(zip(asked.values, found.values, strict=False))
    if any(a.shape != b.shape or a.dtype != b.dtype for (_, a), (_, b) in pairs):
        return None
    for i, ((name, a), (_, b)) in enumerate(pairs):
        wrong = _special(a, b)
        if not wrong.any():
            continue
        freedom = expected.freedom
        if freedom is None or freedom[i].shape != a.shape:
            return None
        wrong = wrong & np.isfinite(freedom[i])
        if wrong.any():
            at = tuple(map(int, np.argwhere(wrong)[0])) if a.shape else ()
            return Difference(name, at, a[at], b[at], 0.0)
    return None


def _special(a: Array, b: Array) -> Array:
    """Where two arrays differ in what no rounding changes."""
    if not epsilon(a):
        return np.zeros(a.shape, bool)
    x, y = a.astype(np.float64), b.astype(np.float64)
    nan = np.isnan(x) != np.isnan(y)
    signs = (np.signbit(x) != np.signbit(y)) & (x == y) & (x == 0)
    far = np.isinf(x) != np.isinf(y)
    opposite = np.isinf(x) & np.isinf(y) & (x != y)
    return nan | signs | far | opposite
