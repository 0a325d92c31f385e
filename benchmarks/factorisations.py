"""Factorisations and solves beside NumPy and SciPy, with as many threads for each.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.factorisations [--threads 1] [--sizes 64 1000]
        [--only qr] [--dtypes f64] [--quick] [--json factorisations.json]

For each word, type and size: the median microseconds of rounds in turn, and the peer's time over
ours (above 1, ours is faster). NumPy is the peer, or SciPy where NumPy has no such function.
Residuals, relative to the sizes of what is multiplied, are checked before anything is timed.
Words with ``tall`` take matrices of half as many columns, and least squares one right side; their
peers are NumPy's ``svd`` and LAPACK's ``gelsy``. ``batch 4`` are 10,000 matrices of 4x4. With
``--jax`` JAX's function of that name, jitted, runs as well; its threads are its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

import dlvm
from benchmarks.race import QUICK, Effort, race

SIZES = (64, 128, 256, 500, 1000)
BATCH, SMALL = 10_000, (4, 8, 16, 32)
DTYPES = {"f64": np.float64, "f32": np.float32}
PASSED = 30
"""Times the rounding of a number, times the rows: what LAPACK's own tests let pass."""


@dataclass(frozen=True)
class Word:
    """What is timed, its peer, its operands, how wrong a result is, and its name under ``jax``."""

    ours: Callable[..., Any]
    peer: Callable[..., Any]
    draw: Callable[[Any, tuple[int, ...]], tuple[Any, ...]]
    residual: Callable[..., tuple[Any, Any]]
    batched: bool = True
    jax: str = ""


def general(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One matrix."""
    return (rng.standard_normal(shape),)


def moderate(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One whose determinant is a float."""
    return (rng.standard_normal(shape) / np.sqrt(shape[-1]),)


def symmetric(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One that is symmetric."""
    x = rng.standard_normal(shape)
    return (x + x.swapaxes(-1, -2),)


def definite(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One that is positive definite."""
    x = rng.standard_normal(shape)
    return (x @ x.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1]),)


def system(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A matrix and as many right sides."""
    return rng.standard_normal(shape), rng.standard_normal(shape)


def one_side(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A matrix and one right side."""
    return rng.standard_normal(shape), rng.standard_normal((*shape[:-1], 1))


def triangle(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A triangle that may be solved with, and as many right sides."""
    lower = np.tril(rng.standard_normal(shape)) + shape[-1] * np.eye(shape[-1])
    return lower, rng.standard_normal(shape)


def tall(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One of half as many columns."""
    return (rng.standard_normal((*shape[:-1], shape[-1] // 2)),)


def tall_system(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One of half as many columns, and one right side."""
    return *tall(rng, shape), rng.standard_normal((*shape[:-1], 1))


def between(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Two matrices and a right side."""
    return *system(rng, shape), rng.standard_normal(shape)


def least(found: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """``A' (A X - B)``."""
    return a.swapaxes(-1, -2) @ (a @ found - b), size(a) * (size(a) * size(found) + size(b))


def solved(found: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """``A X - B`` and what it is relative to."""
    return a @ found - b, size(a) * size(found)


def inverted(found: Any, a: Any) -> tuple[Any, Any]:
    """``A X - I``."""
    return a @ found - np.eye(a.shape[-1]), size(a) * size(found)


def squared(found: Any, a: Any) -> tuple[Any, Any]:
    """``L L' - A``."""
    return found @ found.swapaxes(-1, -2) - a, size(a)


def determined(found: Any, a: Any) -> tuple[Any, Any]:
    """The determinant beside NumPy's, relative to the product of the lengths of the rows."""
    rows = np.linalg.norm(a, axis=-1)
    return ((found - np.linalg.det(a)) / rows.prod(-1))[..., None, None], np.ones(a.shape[:-2])


def rotated(found: Any, a: Any) -> tuple[Any, Any]:
    """``Q R - A``."""
    return found[0] @ found[1] - a, size(a)


def eigen(found: Any, a: Any) -> tuple[Any, Any]:
    """``A V - V W``."""
    return a @ found[1] - found[1] * found[0][..., None, :], size(a)


def eigenvalues(found: Any, a: Any) -> tuple[Any, Any]:
    """Eigenvalues beside those of NumPy."""
    return (found - np.linalg.eigvalsh(a))[..., None, :], size(a)


def singular(found: Any, a: Any) -> tuple[Any, Any]:
    """``U S V - A``."""
    return found[0] * found[1][..., None, :] @ found[2] - a, size(a)


def singular_values(found: Any, a: Any) -> tuple[Any, Any]:
    """Singular values beside those of NumPy."""
    return (found - np.linalg.svd(a, compute_uv=False))[..., None, :], size(a)


def pseudo_inverted(found: Any, a: Any) -> tuple[Any, Any]:
    """``A X A - A``."""
    return a @ found @ a - a, size(a) ** 2 * size(found)


def turned(found: Any, a: Any) -> tuple[Any, Any]:
    """``Z T Z' - A``."""
    return found[1] @ found[0] @ found[1].swapaxes(-1, -2) - a, size(a)


def paired(found: Any, a: Any) -> tuple[Any, Any]:
    """``A V - V W``, the real and the imaginary part."""
    w, iw, v, iv = found
    w, iw = w[..., None, :], iw[..., None, :]
    return np.abs(a @ v - v * w + iv * iw) + np.abs(a @ iv - v * iw - iv * w), size(a)


def ordered(found: Any, a: Any) -> tuple[Any, Any]:
    """``Q R - A P``."""
    return found[0] @ found[1] - np.take_along_axis(a, found[2][..., None, :], -1), size(a)


def sylvester(found: Any, a: Any, b: Any, q: Any) -> tuple[Any, Any]:
    """``A X + X B - Q``."""
    return a @ found + found @ b - q, (size(a) + size(b)) * size(found)


def size(x: Any) -> Any:
    """The largest sum of magnitudes in a column."""
    return np.abs(x).sum(-2).max(-1)


LINALG = dlvm.linalg
WORDS = {
    "cholesky": Word(LINALG.cholesky, np.linalg.cholesky, definite, squared),
    "triangular": Word(
        partial(LINALG.solve_triangular, lower=True),
        partial(scipy.linalg.solve_triangular, lower=True),
        triangle,
        solved,
        batched=False,
    ),
    "solve n": Word(LINALG.solve, np.linalg.solve, system, solved),
    "solve 1": Word(LINALG.solve, np.linalg.solve, one_side, solved),
    "inv": Word(LINALG.inv, np.linalg.inv, general, inverted),
    "qr": Word(
        lambda x: tuple(LINALG.qr(x)), np.linalg.qr, general, rotated, jax="numpy.linalg.qr"
    ),
    "eigh": Word(
        lambda x: tuple(LINALG.eigh(x)), np.linalg.eigh, symmetric, eigen, jax="numpy.linalg.eigh"
    ),
    "eigh high": Word(
        lambda x: tuple(LINALG.eigh(x, accuracy="high")), np.linalg.eigh, symmetric, eigen
    ),
    "eigvalsh": Word(LINALG.eigvalsh, np.linalg.eigvalsh, symmetric, eigenvalues),
    "svd": Word(
        lambda x: tuple(LINALG.svd(x)), np.linalg.svd, general, singular, jax="numpy.linalg.svd"
    ),
    "svd high": Word(
        lambda x: tuple(LINALG.svd(x, accuracy="high")), np.linalg.svd, general, singular
    ),
    "svd tall": Word(
        lambda x: tuple(LINALG.svd(x, full_matrices=False)),
        partial(np.linalg.svd, full_matrices=False),
        tall,
        singular,
    ),
    "lstsq tall": Word(
        lambda a, b: LINALG.lstsq(a, b).x,
        lambda a, b: scipy.linalg.lstsq(a, b, lapack_driver="gelsy")[0],
        tall_system,
        least,
        batched=False,
    ),
    "svdvals": Word(
        LINALG.svdvals, partial(np.linalg.svd, compute_uv=False), general, singular_values
    ),
    "svdvals tall": Word(
        LINALG.svdvals, partial(np.linalg.svd, compute_uv=False), tall, singular_values
    ),
    "det": Word(LINALG.det, np.linalg.det, moderate, determined, jax="numpy.linalg.det"),
    "pinv": Word(LINALG.pinv, np.linalg.pinv, general, pseudo_inverted, jax="numpy.linalg.pinv"),
    "schur": Word(
        lambda x: tuple(LINALG.schur(x)),
        scipy.linalg.schur,
        general,
        turned,
        jax="scipy.linalg.schur",
    ),
    "eig_pairs": Word(
        lambda x: sum(map(tuple, LINALG.eig_pairs(x)), ()),
        np.linalg.eig,
        general,
        paired,
        jax="numpy.linalg.eig",
    ),
    "sylvester": Word(LINALG.solve_sylvester, scipy.linalg.solve_sylvester, between, sylvester),
    "qr pivoted": Word(
        lambda x: tuple(LINALG.qr(x, pivoting=True)),
        partial(scipy.linalg.qr, pivoting=True),
        general,
        ordered,
    ),
}


def with_jax(name: str, given: tuple[Any, ...]) -> Callable[[], Any]:
    """JAX's function of a name, jitted."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    home, _, last = f"jax.{name}".rpartition(".")
    f = jax.jit(getattr(importlib.import_module(home), last))
    operands = [jax.device_put(x) for x in given]
    return lambda: jax.block_until_ready(f(*operands))


def measure(
    word: Word, dtype: Any, shape: tuple[int, ...], threads: int, effort: Effort, jax: bool
) -> Any:
    """Seconds of ours, of the peer and of JAX."""
    rng = np.random.default_rng(shape[-1])
    given = tuple(x.astype(dtype) for x in word.draw(rng, shape))
    ours = dlvm.function(word.ours, threads=threads)
    wide = tuple(x.astype(np.float64) for x in given)
    rest, scale = word.residual(ours(*given), *wide)
    wrong = (size(rest) / (scale * shape[-1] * np.finfo(dtype).eps)).max()
    if not wrong < PASSED:
        raise SystemExit(f"residual of {wrong:.1f} roundings times rows, for {shape}")
    racing = {"ours": partial(ours, *given), "peer": partial(word.peer, *given)}
    if jax and word.jax:
        racing["jax"] = with_jax(word.jax, given)
    return race(racing, effort)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--batches", type=int, nargs="*", default=SMALL)
    parser.add_argument("--dtypes", nargs="*", choices=DTYPES, default=[*DTYPES])
    parser.add_argument("--only", nargs="*", choices=WORDS, default=[*WORDS])
    parser.add_argument("--jax", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != str(options.threads):
        parser.error(f"set OPENBLAS_NUM_THREADS={options.threads}, so that NumPy has as many")
    effort, rows = QUICK if options.quick else Effort(), list[dict[str, Any]]()
    print(
        f"{'word':12}{'type':5}{'shape':>12}{'dlvm us':>11}{'peer us':>11}{'peer/':>7}{'jax us':>9}"
    )
    for name in options.only:
        word = WORDS[name]
        shapes = [(n, n) for n in options.sizes]
        shapes += [(BATCH, n, n) for n in options.batches if word.batched]
        for dtype in options.dtypes:
            for shape in shapes:
                found = measure(word, DTYPES[dtype], shape, options.threads, effort, options.jax)
                ours, peer = found["ours"], found["peer"]
                ratio, text = peer / ours, "x".join(map(str, shape))
                line = f"{name:12}{dtype:5}{text:>12}{ours * 1e6:11.0f}{peer * 1e6:11.0f}"
                line += f"{ratio:7.2f}"
                line += f"{found['jax'] * 1e6:9.0f}" if "jax" in found else ""
                print(line, flush=True)
                rows.append({"word": name, "dtype": dtype, "shape": shape, **found, "ratio": ratio})
    if options.json:
        told = {"threads": options.threads, "rows": rows}
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
