"""Functions that dlvm.from_sympy makes beside those of sympy.lambdify with NumPy, on one thread.

    python -m benchmarks.formulas [--quick] [--json formulas.json]

Results are compared before anything is timed; all contenders take turns. ``lambdify/`` is the time
of ``sympy.lambdify(args, expr, "numpy")`` over ours, ``cse/`` that of the same with ``cse=True``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sympy

import dlvm

from .race import QUICK, Effort, check, race

SYMBOLS = sympy.symbols("x y z")


@dataclass(frozen=True)
class Formula:
    """An expression, its symbols, numbers for them, and our function for it."""

    name: str
    expr: Any
    symbols: tuple[sympy.Symbol, ...]
    arguments: tuple[Any, ...]
    ours: Any


def formulas(quick: bool) -> Iterator[Formula]:
    """A scalar formula over long vectors, its gradient, and the matrix of a robot arm."""
    n, rng = 10_000 if quick else 1_000_000, np.random.default_rng(0)
    x, y, z = SYMBOLS
    points = tuple(rng.uniform(0.1, 2.0, n) for _ in SYMBOLS)
    wave = sympy.exp(-x * y) * sympy.sin(x + z) / (1 + y**2) + sympy.sqrt(x**2 + y**2 + z**2)
    value = dlvm.from_sympy(wave, [*SYMBOLS])
    yield Formula(f"formula of 3 vectors of {n:,}", wave, SYMBOLS, points, value)
    slopes = dlvm.grad(lambda x, y, z: value(x, y, z).sum(), wrt=(0, 1, 2))
    derived = [wave.diff(s) for s in SYMBOLS]
    yield Formula("gradient of the same", derived, SYMBOLS, points, slopes)
    angles = sympy.symbols("q0:6")
    masses, pose = mass_matrix(angles), tuple(float(q) for q in rng.uniform(-1.0, 1.0, 6))
    arm = dlvm.from_sympy(masses, [*angles])
    yield Formula("6x6 mass matrix of an arm", masses, angles, pose, arm)


def mass_matrix(angles: tuple[sympy.Symbol, ...]) -> sympy.Matrix:
    """The mass matrix of a planar arm of links of length 1, each with a mass of 1 at its end."""
    sums = [sum(angles[: i + 1], sympy.S.Zero) for i in range(len(angles))]
    steps = [sympy.Matrix([sympy.cos(s), sympy.sin(s)]) for s in sums]
    found = sympy.zeros(len(angles), len(angles))
    for i in range(len(angles)):
        place = sum(steps[: i + 1], sympy.zeros(2, 1))
        slopes = place.jacobian(sympy.Matrix(angles))
        found += slopes.T * slopes
    return found


def row(formula: Formula, effort: Effort) -> dict[str, float]:
    """Seconds of one call of each contender."""
    ours = dlvm.function(formula.ours, threads=1)
    peers = {
        "lambdify": sympy.lambdify(formula.symbols, formula.expr, "numpy"),
        "cse": sympy.lambdify(formula.symbols, formula.expr, "numpy", cse=True),
    }
    found = ours(*formula.arguments)
    for name, peer in peers.items():
        check(f"{formula.name} by {name}", found, peer(*formula.arguments), 1e-9)
    runs = {"dlvm": ours, **peers}
    return race({name: partial(f, *formula.arguments) for name, f in runs.items()}, effort)


def main() -> None:
    """Print a table, and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10,000 points, few rounds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table: dict[str, dict[str, float]] = {}
    print(f"{'':34}{'dlvm us':>10}{'lambdify/':>11}{'cse/':>8}")
    for formula in formulas(options.quick):
        seconds = table[formula.name] = row(formula, QUICK if options.quick else Effort())
        own = seconds["dlvm"]
        ratios = f"{seconds['lambdify'] / own:11.2f}{seconds['cse'] / own:8.2f}"
        print(f"{formula.name:34}{1e6 * own:10.1f}{ratios}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(table, indent=2) + "\n", "utf8")


if __name__ == "__main__":
    main()
