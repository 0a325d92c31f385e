"""Checks derivatives along random directions, by machine code: for programs that run long.

Of each argument some random directions are drawn. Along each the slope of ``<w, f>`` by differences
must equal ``<J' w, v>`` of the adjoint, and the slope of ``f`` that of the tangent. A wrong element
moves every random direction, so that it is noticed unless its error drowns in those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlvm.base.errors import IRError, UserError
from dlvm.compile import Options, Road
from dlvm.ir import Array, Module
from dlvm.trust.rules import IsWrong, guilty

from .differences import CLEAR, FIRST, Slope, agreed, slope
from .findings import Checked, Fault, GradientError, Identity, Report, error_of
from .levels import Levels, flat, silent
from .look import OTHER

DIRECTIONS = 4
"""Random directions for each argument."""
NOISE = 2.0**-42
"""Assumed rounding of a value, relative to the largest one: some thousand roundings."""
VISIBLE = 1e-3
METHOD = "central differences along random directions, extrapolated (Richardson), in f64"


@dataclass(frozen=True)
class Level:
    """A function of vectors by machine code, its adjoint at a cotangent ``w``, its tangent."""

    f: Callable[[Array], Array]
    x: Array
    value: Array
    w: Array
    adjoint: Array
    tangent: Callable[[Array], Array]


@dataclass
class Samples:
    """One check of samples while it runs."""

    levels: Levels
    name: str
    labels: tuple[str, ...]
    dice: np.random.Generator
    is_wrong: IsWrong
    checked: list[Checked] = field(default_factory=list[Checked])

    def run(self) -> Report:
        """Checks every order; returns the report or raises the first fault."""
        below: list[Array] = []
        for order in range(1, self.levels.order + 1):
            level, seeds = self._level(order - 1, below)
            below = [*below, *seeds]
            for i, label in enumerate(self.labels):
                self.checked.append(self._argument(level, i, label, order))
        if not any(c.seen for c in self.checked if c.order == 1):
            raise GradientError(
                f"nothing of the gradient of {self.name} could be checked",
                remedy="pass arguments where the function changes visibly, and is smooth",
            )
        orders = tuple(range(1, self.levels.order + 1))
        checked, laws = tuple(self.checked), tuple[Identity, ...]()
        return Report(self.name, orders, checked, laws, True, METHOD, sampled=True)

    def _level(self, k: int, below: Sequence[Array]) -> tuple[Level, list[Array]]:
        """The function of one level with its derivatives, and the seeds that were drawn."""
        levels, names = self.levels, self.levels.names[k]
        function, adjoint, tangent = (
            _compiled(levels.expanded, n) for n in (names.of, names.adjoint, names.tangent)
        )
        at = levels.function(k, below)

        def values(x: Array) -> list[Array]:
            out = function(at.moved_to(x))
            return [np.full((1,), np.nan)] if out is None else [out[j] for j in at.floats]

        start = values(at.x)
        seeds = [np.where(np.isfinite(y), self.dice.standard_normal(y.shape), 0.0) for y in start]
        back = adjoint([*levels.arrays, *below, *seeds])
        if back is None:
            raise UserError(f"{self.name} raises an error at these arguments")

        def along(v: Array) -> Array:
            out = tangent([*at.arrays, *at.parts(v)])
            return np.full(flat(start).shape, np.nan) if out is None else flat(out)

        def f(x: Array) -> Array:
            return np.resize(flat(values(x)), flat(start).shape)

        return Level(f, at.x, flat(start), flat(seeds), flat(back), along), seeds

    def _argument(self, level: Level, i: int, label: str, order: int) -> Checked:
        sizes = [self.levels.arrays[j].size for j in self.levels.wrt]
        start, size = sum(sizes[:i]), sizes[i]
        seen, worst = 0, 0.0
        for _ in range(DIRECTIONS if size else 0):
            v = np.zeros(level.x.size)
            v[start : start + size] = self.dice.standard_normal(size)
            v *= np.sqrt(np.maximum(1.0, np.abs(level.x)))
            error = self._direction(level, v, label, order)
            if error is not None:
                seen, worst = seen + 1, max(worst, error)
        return Checked(label, order, DIRECTIONS, seen, DIRECTIONS - seen, worst)

    def _direction(self, level: Level, v: Array, label: str, order: int) -> float | None:
        """The relative error along one direction; None where differences tell nothing."""
        noise = np.full(
            level.value.shape, NOISE * float(np.max(np.abs(level.value), initial=1e-300))
        )

        def by(first: float) -> Slope:
            return slope(level.f, level.x, v, noise, first, level.value)

        def compared(s: Slope) -> tuple[float, float]:
            used = np.isfinite(level.value) & (level.w != 0)
            w = level.w[used]
            return float(np.sum(w * s.value[used])), float(np.sum(np.abs(w) * s.error[used]))

        slopes = {
            "reverse mode": float(level.adjoint @ v),
            "forward mode": float(np.sum(level.w * level.tangent(v))),
        }
        s = by(FIRST)
        for mode, slope_ in slopes.items():
            expected, error = compared(s)
            if abs(slope_ - expected) > CLEAR * error and not _odd(s):
                s = agreed(s, by(OTHER))
                expected, error = compared(s)
            if abs(slope_ - expected) > CLEAR * error and not _odd(s):
                said = f"{label} along a direction"
                raise self._error(Fault(label, said, order, mode, slope_, expected, error))
        expected, error = compared(s)
        largest = max(abs(expected), *map(abs, slopes.values()))
        if _odd(s) or not CLEAR * error <= VISIBLE * largest:
            return None
        return max(abs(x - expected) for x in slopes.values()) / largest

    def _error(self, fault: Fault) -> GradientError:
        levels = self.levels
        given = (levels.module, levels.arrays, fault.order, self.is_wrong, fault.of_values)
        return error_of(self.name, fault, guilty(*given))


def _odd(s: Slope) -> bool:
    """Whether there is no slope to compare with: at a kink, a jump, or where nothing is finite."""
    return bool(np.any(s.kink) or np.any(s.jump) or not np.all(np.isfinite(s.error)))


def _compiled(module: Module, name: str) -> Callable[[Sequence[Array]], Sequence[Array] | None]:
    """A function of an expanded module as machine code; None where the program refuses to run."""
    road = Road(module.led_by(name), Options(threads=1))
    prints = module.function(name).has_effect

    def run(arrays: Sequence[Array]) -> Sequence[Array] | None:
        call: Any = road.executable.run
        given = [np.array(a) for a in arrays]
        try:
            return call(given, silent) if prints else call(given)
        except IRError:  # a mistake of this check, and no refusal of the program's
            raise
        except UserError:
            return None

    return run
