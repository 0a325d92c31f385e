"""How accurate factorisations are: ``python -m tests.linalg.ratios`` measures and writes the table.

Every function runs on every family of matrices, in f64 and f32, as machine code and as references.
Both are judged by ``measures``; a ratio of 30 or more is a failure.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import lu

import dlvm
from dlvm.dsl.arrays.factorisations import lu_factors, matrix

from . import gallery, measures
from .gallery import PASSED

la = dlvm.linalg
PAGE = Path(__file__).parents[2] / "docs" / "linear-algebra.md"
BEGIN, END = "<!-- ratios -->\n", "<!-- end -->\n"
SIZES = (1, 2, 3, 7, 16, 64, 65, 100, 257, 500, 1000)
LARGE = {np.float64: 1e150, np.float32: 1e15}
"""The square of the second is a float, as that of the first is."""
LONGEST = {np.float64: 1000, np.float32: 257}

Array = Any
Family = Callable[[int], Array]


def times(make: Family, power: int) -> Callable[[int, Any], Array]:
    """A family scaled by what is large or small in a type."""
    return lambda n, dtype: make(n) * LARGE[dtype] ** power


def plain(make: Family, most: int = 1000) -> Callable[[int, Any], Array | None]:
    """A family as it is, up to a size from which on it has no floats."""
    return lambda n, dtype: make(n) if n <= most else None


def _growing(n: int, dtype: Any) -> Array | None:
    return gallery.growing(n) if n < (128 if dtype is np.float32 else 1024) else None


FAMILIES: dict[str, Callable[[int, Any], Array | None]] = {
    "random": plain(gallery.random),
    "hilbert": plain(gallery.hilbert),
    "its inverse": plain(gallery.inverse_hilbert, 16),
    "kahan": plain(gallery.kahan),
    "wilkinson": plain(gallery.wilkinson),
    "frank": plain(gallery.frank),
    "growing": _growing,
    "lehmer": plain(gallery.lehmer),
    "gram": plain(gallery.gram),
    "graded": plain(gallery.scaled),
    "clustered": plain(gallery.clustered),
    "repeated": plain(gallery.repeated),
    "spread": plain(gallery.spread),
    "rank 0": plain(lambda n: np.zeros((n, n))),
    "rank 1": plain(gallery.rank_one),
    "rank n-1": plain(gallery.one_short),
    "large": times(gallery.gram, 1),
    "small": times(gallery.gram, -1),
}
EXPONENTS = ("random", "kahan", "wilkinson", "frank", "growing", "repeated", "rank 1", "large")
DEFINITE = ("lehmer", "gram", "graded", "clustered", "repeated", "large", "small")


@dataclass(frozen=True)
class Measure:
    """A function, what it is called with for a matrix, and by which ratio it is judged."""

    program: Callable[..., Any]
    operands: Callable[[Array], tuple[Array, ...]]
    judge: Callable[..., float]
    most: int = 1000
    interpreted: int = 65
    families: tuple[str, ...] = tuple(FAMILIES)


def right(a: Array, columns: int = 3) -> Array:
    """Right sides for a matrix."""
    return np.random.default_rng(7).standard_normal((len(a), columns)).astype(a.dtype)


def symmetric(a: Array) -> tuple[Array, ...]:
    """Its symmetric part."""
    return (a / 2 + a.T / 2,)


def triangle(a: Array) -> tuple[Array, ...]:
    """The upper factor, with a diagonal without zeros."""
    t = lu(a)[2]
    size = np.abs(t).max(initial=0) or 1
    low = np.abs(np.diagonal(t)) < 1e-3 * size
    return (t + np.diag(low * size)).astype(a.dtype), right(a)


def moderate(a: Array) -> tuple[Array, ...]:
    """The matrix, or a multiple of it whose exponential is a float."""
    size = float(np.abs(a).sum(0).max())
    return (a * a.dtype.type(min(1.0, 10 / size if size else 1.0)),)


def between(a: Array) -> tuple[Array, ...]:
    """The matrix, one of half as many rows and of its size, and a right side."""
    n = (len(a) + 1) // 2
    scale = a.dtype.type(np.abs(a).max(initial=0) or 1)
    return a, gallery.random(n).astype(a.dtype) * scale, right(a, n)


def tall(a: Array) -> Array:
    """Half of its columns."""
    return a[:, : (len(a) + 1) // 2]


MEASURES: dict[str, Measure] = {
    "cholesky": Measure(la.cholesky, symmetric, measures.cholesky, families=DEFINITE),
    "lu": Measure(lambda a: lu_factors(matrix("lu", a)), lambda a: (a,), measures.factors),
    "qr": Measure(la.qr, lambda a: (a,), measures.qr),
    "qr, tall": Measure(la.qr, lambda a: (tall(a),), measures.qr),
    "qr, wide": Measure(la.qr, lambda a: (tall(a).T,), measures.qr),
    "qr, pivoted": Measure(
        lambda a: la.qr(a, pivoting=True),
        lambda a: (a,),
        lambda a, q, r, order, u: measures.qr(a[:, order.astype(int)], q, r, u),
        257,
        16,
    ),
    "solve_triangular": Measure(la.solve_triangular, triangle, measures.substituted),
    "the same, transposed": Measure(
        lambda t, b: la.solve_triangular(t, b, 1),
        triangle,
        lambda t, b, x, u: measures.substituted(t.T, b, x, u),
    ),
    "solve": Measure(la.solve, lambda a: (a, right(a)), measures.solved),
    "inv": Measure(la.inv, lambda a: (a,), measures.inverse),
    "det": Measure(la.det, lambda a: (a,), measures.determinant, 16, 16),
    "eigh": Measure(lambda a: tuple(la.eigh(a)), symmetric, measures.eigen),
    "eigh, high": Measure(
        lambda a: tuple(la.eigh(a, accuracy="high")), symmetric, measures.eigen, 257, 16
    ),
    "svd": Measure(la.svd, lambda a: (a,), measures.singular_values),
    "svd, high": Measure(
        lambda a: la.svd(a, accuracy="high"), lambda a: (a,), measures.singular_values, 257, 16
    ),
    "svd, tall": Measure(
        lambda a: la.svd(a, full_matrices=False),
        lambda a: (tall(a),),
        measures.singular_values,
        257,
        16,
    ),
    "pinv": Measure(la.pinv, lambda a: (a,), measures.pseudo_inverse, 257, 16),
    "lstsq": Measure(
        lambda a, b: la.lstsq(a, b).x,
        lambda a: (tall(a), right(a)),
        measures.least_squares,
        257,
        16,
    ),
    "schur": Measure(la.schur, lambda a: (a,), measures.schur, 257, 16),
    "eig_pairs": Measure(
        lambda a: sum(map(tuple, la.eig_pairs(a)), ()),
        lambda a: (a,),
        measures.eigenpairs,
        257,
        16,
    ),
    "solve_sylvester": Measure(la.solve_sylvester, between, measures.between, 257, 16),
    "expm": Measure(la.expm, moderate, measures.exponential, 16, 16, EXPONENTS),
}


@cache
def made(family: str, n: int, dtype: Any) -> Array | None:
    """A matrix of the gallery."""
    found = FAMILIES[family](n, dtype)
    return None if found is None else found.astype(dtype)


def ratio(name: str, family: str, n: int, dtype: Any, call: Callable[..., Any]) -> float:
    """The ratio of one call; 0 where the family has no such matrix."""
    a = made(family, n, dtype)
    if a is None:
        return 0.0
    measure = MEASURES[name]
    operands = measure.operands(a)
    with np.errstate(all="ignore"):
        found = call(*operands)
        results = found if isinstance(found, tuple) else (found,)
        unit = float(np.finfo(dtype).eps) / 2
        wide = [np.asarray(x, np.float64) for x in (*operands, *results)]
        judged = measure.judge(*wide, unit)
    return judged if judged == judged else np.inf


def interpreted(program: Callable[..., Any]) -> Callable[..., tuple[Array, ...]]:
    """A program run as it was traced, by the references of its operations."""

    def call(*operands: Array) -> tuple[Array, ...]:
        module = dlvm.trace(program, *operands)
        return module.run(module.main.name, *operands)

    return call


def calls(name: str, sizes: tuple[int, ...]) -> Iterator[tuple[int, Any, Callable[..., Any], str]]:
    """Sizes and types of a function, as machine code and as references."""
    measure = MEASURES[name]
    staged, plain = dlvm.function(measure.program), interpreted(measure.program)
    for n in sizes:
        for dtype in (np.float64, np.float32):
            if n <= min(measure.most, LONGEST[dtype]):
                yield n, dtype, staged, "machine code"
            if n <= measure.interpreted:
                yield n, dtype, plain, "interpreter"


def measured(name: str, sizes: tuple[int, ...]) -> dict[str, tuple[float, str]]:
    """The worst ratio of a function for each family, and where it was found."""
    worst = dict.fromkeys(MEASURES[name].families, (0.0, ""))
    for n, dtype, call, how in calls(name, sizes):
        for family in worst:
            found = ratio(name, family, n, dtype, call)
            where = f"n = {n}, {np.dtype(dtype)}, {how}"
            worst[family] = max(worst[family], (found, where))
    return worst


def rows(found: dict[str, dict[str, tuple[float, str]]]) -> Iterator[str]:
    """The table: families from top to bottom, functions from left to right."""
    yield (
        "| |" + "|".join(f" `{name}` " if "," not in name else f" {name} " for name in found) + "|"
    )
    yield "|---|" + "--:|" * len(found)
    for family in FAMILIES:
        cells = (f"{w[family][0]:.2g}" if family in w else "" for w in found.values())
        yield f"| {family} | " + " | ".join(cells) + " |"


def written(page: str, table: str) -> str:
    """A page with the table between its marks."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + table + END + rest.split(END, 1)[1]


def main() -> int:
    """Measure, print, write the page where all was measured, and tell what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    found: dict[str, dict[str, tuple[float, str]]] = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        results = pool.map(measured, given.only, [tuple(given.sizes)] * len(given.only))
        for name, worst in zip(given.only, results, strict=True):
            found[name], (most, where) = worst, max(worst.values())
            print(f"{name}: {most:.3g} ({where})", flush=True)
    table = "\n".join(rows(found)) + "\n"
    print(table)
    if len(found) == len(MEASURES):
        sizes = f"Matrices of {', '.join(map(str, given.sizes))} rows:\n\n"
        PAGE.write_text(written(PAGE.read_text(), sizes + table))
    failed = [(n, f, *w) for n, all_ in found.items() for f, w in all_.items() if w[0] >= PASSED]
    for line in failed:
        print("failed:", *line)
    return bool(failed)


if __name__ == "__main__":
    with warnings.catch_warnings(action="ignore", category=dlvm.TraceWarning):
        sys.exit(main())
