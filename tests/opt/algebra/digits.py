"""Random linear algebra on hostile numbers: no program has fewer digits than what was written.

    python -m tests.opt.algebra.digits [--programs 1000] [--seconds 3600] [--seed 0]

Programs are those of ``programs``, larger and in f32; their arguments have large means, magnitudes
over eight decades, rows or columns of different sizes, or are whole numbers, and there are
differences that cancel: matrices less their means, their diagonals, the identity, a row or an outer
product to which they are near. Each runs on 16 perturbed copies. The largest error may be four
times the literal program's, or that of the roundings of the longest sum. Programs that lose more
are printed with the law that did it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import dlvm
from dlvm.ad import expand
from dlvm.testing.drawing.dice import Seeded
from dlvm.trust.digits import Judged, compiled, costliest, name_of
from dlvm.trust.hostile import KINDS

from .programs import Made, Program, Writer

SIZES = (1, 3, 8, 17, 33)
EXACT = ("orthogonal", "positive")
"""Arguments with these properties are left as they are: a scaled one has them no longer."""


class Hostile(Writer):
    """Writes programs of larger sizes on hostile numbers."""

    def __post_init__(self) -> None:
        for letter in "MNKL":
            self.sizes[letter] = self.dice.choose(SIZES)

    def matrix(self, m: str, n: str, depth: int) -> Made:
        """A matrix of two sizes, at times a difference that cancels."""
        if depth > 0 and self.dice.integer(0, 3) == 0:
            return self._cancelling(m, n)
        return super().matrix(m, n, depth)

    def _cancelling(self, m: str, n: str) -> Made:
        how = self.dice.choose(
            ("mean", "means", "row", "outer", *["identity", "diagonal"] * (m == n))
        )
        shape = self.sizes[m], self.sizes[n]
        near = 1 + 1e-4 * self.rng.normal(size=shape)
        match how:
            case "identity":
                x = self._given(near * np.eye(shape[0]) + near - 1, m, n)
                return lambda xs: x(xs) - dlvm.eye(shape[0], dtype=self.dtype)
            case "diagonal":
                x = self._given(1e4 * np.eye(shape[0]) + near, m, n)
                return lambda xs: x(xs) - dlvm.diag(dlvm.diag(x(xs)))
            case "outer":
                u, v = (self.rng.normal(size=size) for size in shape)
                x, left, right = (
                    self._given(a, *axes)
                    for a, axes in ((near * np.outer(u, v), (m, n)), (u, (m,)), (v, (n,)))
                )
                return lambda xs: x(xs) - dlvm.outer(left(xs), right(xs))
            case "row":
                x, c = self._given(1000 * near, m, n), self._given(1000 * near[0], n)
                return lambda xs: x(xs) - c(xs)
            case _:
                x = self._given(1000 + self.rng.normal(size=shape), m, n)
                axis = 0 if how == "means" else None
                return lambda xs: x(xs) - x(xs).mean(axis)

    def _given(self, array: Any, *axes: str) -> Made:
        """An argument with these elements."""
        at = len(self.arrays)
        self.types.append(f"{self.dtype}[{','.join(str(self.sizes[a]) for a in axes)}]")
        self.arrays.append(np.asarray(array, np.float32))
        return lambda xs: xs[at]

    def _array(self, shape: list[int], of: str, dtype: str) -> Any:
        if dtype or of in EXACT:
            return super()._array(shape, of, dtype)
        kind = KINDS[int(self.rng.integers(len(KINDS)))]
        return self._with(np.asarray(kind(self.rng.normal(size=shape), self.rng)), of)


def program(seed: int) -> Program:
    """The program of a seed, every second one the gradient of a number."""
    dice = Seeded(seed)
    w = Hostile(dice, "f32", np.random.default_rng(seed))
    depth = dice.integer(2, 4)
    if dice.integer(0, 1):
        made = w.scalar(depth)
        wrt = tuple(i for i, t in enumerate(w.types) if t.startswith("f32"))
        fn: Any = dlvm.value_and_grad(lambda *xs: made(xs), wrt=wrt or (0,))
    else:
        outs = [w.matrix(w.letter(), w.letter(), depth), w.vector(w.letter(), depth - 1)]
        fn = lambda *xs: tuple(x(xs) for x in outs)  # noqa: E731
    return Program(dlvm.trace(fn, *map(dlvm.spec, w.types)), w.arrays, False)


def lost(p: Program) -> tuple[float, Judged]:
    """How many times what is allowed a program loses."""
    judged = Judged.of(expand(p.module), p.arrays)
    return judged.worse(judged.errors(compiled(judged.module)), judged.literal()), judged


def losing(seeds: Iterator[int]) -> Iterator[str]:
    """A line for each program that loses digits, with the law."""
    for seed in seeds:
        times, judged = lost(program(seed))
        if times > 1:
            law = costliest(judged)
            said = f"{name_of(law)}" if law is not None else "no law alone"
            yield f"seed {seed}: {4 * times:.1f} times the literal error, by {said}"


def main() -> int:
    """Tries programs from a seed on; the exit status says whether any loses digits."""
    parser = argparse.ArgumentParser(description="random linear algebra on hostile numbers")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    end, tried, found = time.monotonic() + options.seconds, 0, 0

    def seeds() -> Iterator[int]:
        nonlocal tried
        for seed in range(options.seed, options.seed + options.programs):
            if time.monotonic() > end:
                return
            tried += 1
            yield seed

    for line in losing(seeds()):
        found += 1
        print(line, flush=True)
    print(f"{tried} programs, {found} lose digits")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
