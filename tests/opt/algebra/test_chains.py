"""The order of a product is the cheapest there is, whatever was written."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.cost import Work, product_work
from dlvm.ir import F64
from dlvm.ops import Matmul
from dlvm.opt.pipelines import MEANING


def bracketings(lo: int, hi: int) -> Iterator[Any]:
    """Every way to multiply the factors from ``lo`` to ``hi``."""
    if lo == hi:
        yield lo
        return
    for cut in range(lo, hi):
        for left in bracketings(lo, cut):
            for right in bracketings(cut + 1, hi):
                yield left, right


def work_of(tree: Any, sizes: list[int]) -> tuple[int, int, int]:
    """The first and last size of a bracketed product, and its time."""
    if isinstance(tree, int):
        return sizes[tree], sizes[tree + 1], 0
    (m, k, a), (_, n, b) = (work_of(part, sizes) for part in tree)
    outer = Work(m * n, m * n * 8) if k == 1 else product_work(F64, 1, m, k, n)
    return m, n, a + b + outer.time


def multiplied(tree: Any, factors: tuple[Any, ...]) -> Any:
    if isinstance(tree, int):
        return factors[tree]
    left, right = (multiplied(part, factors) for part in tree)
    return left @ right


def optimized(fn: Any, *arrays: Any) -> Any:
    return dlvm.trace(fn, *arrays).optimize([step.name for step in MEANING]).main


@pytest.mark.parametrize("seed", range(12))
def test_any_order_becomes_the_cheapest(seed: int):
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    sizes = [rng.choice((1, 2, 3, 8, 40, 100)) for _ in range(count + 1)]
    factors = [np.random.default_rng(seed).standard_normal(s) for s in itertools.pairwise(sizes)]
    least = min(work_of(tree, sizes)[2] for tree in bracketings(0, count - 1))
    tree = rng.choice(list(bracketings(0, count - 1)))
    main = optimized(lambda *xs: multiplied(tree, xs), *factors)
    found = 0
    for op in main.ops:
        if isinstance(op, Matmul):
            (m, k), n = map(int, op.x.shape), int(op.y.shape[1])
            found += product_work(F64, 1, m, k, n).time
        elif op.name == "mul" and op.type.rank == 2:
            size = int(np.prod(op.shape))
            found += Work(size, size * 8).time
    if not any(op.name == "sum" for op in main.ops):  # x' y folds by a tree, as a sum
        assert found <= least / 0.95
    exact = np.linalg.multi_dot(factors) if count > 1 else factors[0]
    got = dlvm.function(lambda *xs: multiplied(tree, xs))(*factors)
    np.testing.assert_allclose(got, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


def products(main: Any) -> int:
    return sum(isinstance(op, Matmul) for op in main.ops)


M = np.random.default_rng(0).standard_normal((64, 64))
V = M[0].copy()


def test_what_somebody_else_reads_is_computed_once():
    def f(a, b, v):
        c = a @ b
        return c, c @ v

    assert products(optimized(f, M, M, V)) == 2


def test_a_thousand_factors_take_a_moment():
    def f(a, v):
        for _ in range(1000):
            a = a @ M
        return a @ v

    main = optimized(f, M, V)
    assert products(main) == 1000 or products(main) == 1001
    assert sum(op.shape[-1] == 1 for op in main.ops if isinstance(op, Matmul)) >= 64


def test_strict_products_stay_as_they_are_written():
    text = dlvm.function(numerics="strict")(lambda a, b, v: a @ b @ v).compile(M, M, V)
    assert "matmul" in text.text("optimized")
    assert "matmul %a, %b" in text.text("optimized")
    assert "matmul %a, %b" not in dlvm.function(lambda a, b, v: a @ b @ v).compile(M, M, V).text(
        "optimized"
    )


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "i32", "u8"])
def test_every_numeric_type_is_reordered(dtype: str):
    a = np.asarray(dlvm.astype(np.random.default_rng(1).integers(0, 3, (20, 20)), dtype))
    v = a[0].copy()
    main = optimized(lambda a, v: a @ a @ v, a, v)
    assert all(op.shape[-1] == 1 for op in main.ops if isinstance(op, Matmul))
    wide = a.astype(np.float64) if dtype[-1] != "8" and dtype != "i32" else a.astype(np.int64)
    found = dlvm.function(lambda a, v: a @ a @ v)(a, v)
    expected = (wide @ (wide @ wide[0])).astype(a.dtype)
    np.testing.assert_allclose(
        np.asarray(found, np.float64), np.asarray(expected, np.float64), rtol=2e-2
    )


def test_open_sizes_are_taken_for_usual_ones():
    f = dlvm.function(lambda a, b, v: a @ b @ v, dynamic={"a": "N,N", "b": "N,N", "v": "N"})
    assert products(f.compile(M, M, V).road.optimized.main) == 2
    for n in (0, 1, 7, 64):
        a, v = M[:n, :n].copy(), V[:n].copy()
        np.testing.assert_allclose(f(a, a, v), a @ (a @ v), atol=1e-9)


def test_batches_are_reordered_as_matrices_are():
    a = np.stack([M, M + 1])
    v = np.stack([V, V])[:, :, None]
    main = optimized(lambda a, v: a @ a @ v, a, v)
    assert all(op.shape[-1] == 1 for op in main.ops if isinstance(op, Matmul))
    f = dlvm.function(lambda a, v: a @ a @ v)
    np.testing.assert_allclose(f(a, v), a @ (a @ v), rtol=1e-9)


@pytest.mark.parametrize("number", [None, 3.0])
def test_a_factor_that_is_never_formed_may_be_all_that_is_left(number: float | None):
    """Random programs found this: beside identities, nothing was left that has a number."""

    def f(i, a):
        eye = dlvm.eye(6) if number is None else number * dlvm.eye(6)
        picks, blocks = dlvm.nn.one_hot(i, 6), dlvm.kron(a, a)
        whole = number or 1.0
        return eye @ picks, picks.T @ eye, (eye @ picks) * whole, blocks @ dlvm.eye(4), -(eye @ eye)

    i, a = np.array([2, 0, 5, 1, 1, 3]), np.arange(4.0).reshape(2, 2)
    for found, expected in zip(dlvm.function(f)(i, a), f(i, a), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_nobody_needs_keeps_no_product_alive():
    """A use by a dead operation is none, and it goes with the product that it read."""
    module = dlvm.parse("""dlvm 1
func @f(%a: f64[64,64], %v: f64[64,1]) -> f64[64,1] {
  %0 = matmul %a, %a : f64[64,64]
  %1 = neg %0 : f64[64,64]
  %2 = matmul %0, %v : f64[64,1]
  return %2
}
""")
    main = module.optimize(["rearrange"]).verify().main
    assert [op.shape[-1] for op in main.ops] == [1, 1]


@pytest.mark.parametrize(
    "f",
    [
        lambda s, a, v: (s * a) @ v,
        lambda s, a, v: a @ (s * v),
        lambda s, a, v: (-a) @ v * s,
        lambda s, a, v: dlvm.tril(dlvm.tril(a) @ dlvm.tril(a)) @ v * s,
        lambda s, a, v: (a + a.T).T @ v * s,
    ],
)
def test_no_special_value_changes_before_finite_operands_are_supposed(f: Any):
    """What ``simplify`` does is held to every bit by ``DLVM_VERIFY=passes``."""
    edges = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, -2.0])
    rng = np.random.default_rng(0)
    names = [step.name for step in MEANING if not step.supposes_finite]
    for _ in range(40):
        s, a, v = (rng.choice(edges, shape) for shape in ((), (3, 3), (3, 1)))
        module = dlvm.trace(f, s, a, v)
        with np.errstate(all="ignore"):
            before, after = (
                m.run(m.main.name, s, a, v)[0] for m in (module, module.optimize(names))
            )
        np.testing.assert_array_equal(before, after)
