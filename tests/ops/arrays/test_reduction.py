"""Reductions against sums and comparisons by hand: nothing, NaN, ties, order, wide sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dlvm.base.errors import IRError, ShapeError
from dlvm.ir import F32, F64, I64, NUMBERS, Builder, DType, Function, Param, TensorType
from dlvm.ops import Add, ArgMax, ArgMin, Fold, LogSumExp, Max, Maximum, Min, Mul, Prod, Sub, Sum
from tests.ops.running import run_op, same_bits

NAN, INF = math.nan, math.inf
REALS = [t for t in NUMBERS if t.kind in "iuf"]


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_of_nothing_there_is_the_identity(dtype: DType):
    x = np.zeros((2, 0), dtype.numpy)
    same_bits(run_op(lambda v: Sum(v, (1,)), x), np.zeros(2, dtype.numpy))
    same_bits(run_op(lambda v: Max(v, (1,)), x), np.full(2, dtype.lowest, dtype.numpy))
    same_bits(run_op(lambda v: Min(v, (1,)), x), np.full(2, dtype.highest, dtype.numpy))
    same_bits(run_op(lambda v: Prod(v, (1,)), x), np.ones(2, dtype.numpy))
    for op in (ArgMax, ArgMin):
        same_bits(run_op(lambda v, op=op: op(v, (1,)), x), np.zeros(2, np.int64))
    same_bits(run_op(lambda v: Sum(v, (0,)), x), np.zeros(0, dtype.numpy))
    if dtype.is_float:
        same_bits(run_op(lambda v: LogSumExp(v, (1,)), x), np.full(2, -INF, dtype.numpy))


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_over_any_axes(axes: tuple[int, ...]):
    x = np.random.default_rng(0).integers(-99, 99, (2, 3, 4))
    kept = [i for i in range(3) if i not in axes]
    rows = np.transpose(x, (*kept, *axes)).reshape(*[x.shape[i] for i in kept], -1)
    same_bits(run_op(lambda v: Sum(v, axes), x), np.array(np.add.reduce(rows, -1)))
    same_bits(run_op(lambda v: Max(v, axes), x), np.array(np.sort(rows, -1)[..., -1]))
    same_bits(run_op(lambda v: Min(v, axes), x), np.array(np.sort(rows, -1)[..., 0]))
    same_bits(run_op(lambda v: Prod(v, axes), x), np.array(np.multiply.reduce(rows, -1)))
    same_bits(run_op(lambda v: ArgMin(v, axes), x), run_op(lambda v: ArgMax(v, axes), -x))
    best = np.array(
        [int(np.flatnonzero(r == r.max())[0]) for r in rows.reshape(-1, rows.shape[-1])]
    )
    same_bits(run_op(lambda v: ArgMax(v, axes), x), best.reshape(rows.shape[:-1]))


@pytest.mark.parametrize("dtype", [t for t in REALS if t.is_float], ids=str)
def test_nan_is_the_largest(dtype: DType):
    x = np.array([[1, NAN, INF, NAN], [-INF, -INF, -INF, -INF], [1, 3, 3, 2]], dtype.numpy)
    same_bits(run_op(lambda v: Max(v, (1,)), x), np.array([NAN, -INF, 3], dtype.numpy))
    assert run_op(lambda v: ArgMax(v, (1,)), x).tolist() == [1, 0, 1]
    same_bits(run_op(lambda v: Min(v, (1,)), x), np.array([NAN, -INF, 1], dtype.numpy))
    assert run_op(lambda v: ArgMin(v, (1,)), x).tolist() == [1, 0, 0]


def test_the_largest_of_truths_is_the_first_that_holds():
    x = np.array([[False, True, True], [False, False, False]])
    assert run_op(lambda v: ArgMax(v, (1,)), x).tolist() == [1, 0]
    assert run_op(lambda v: ArgMin(v, (1,)), x).tolist() == [0, 0]
    assert run_op(lambda v: Max(v, (1,)), x).tolist() == [True, False]
    assert run_op(lambda v: Min(v, (1,)), x).tolist() == [False, False]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0.0, 0.0], math.log(2)),
        ([1000.0, 1000.0], 1000 + math.log(2)),
        ([-1000.0, -1000.0], -1000 + math.log(2)),
        ([-INF, -INF], -INF),
        ([-INF, 2.0], 2.0),
        ([INF, 1.0], INF),
        ([INF, INF], INF),
        ([INF, -INF], INF),
        ([NAN, 1.0], NAN),
        ([NAN, INF], NAN),
    ],
)
def test_logsumexp_does_not_overflow(row: list[float], expected: float):
    found = run_op(lambda v: LogSumExp(v, (0,)), np.array(row))
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def folded(xs, identities, build, axes=(0,)):
    params = [Param(x.type.with_shape(()), f"p{i}") for i, x in enumerate((*xs, *xs))]
    with Builder() as b:
        out = build(*params)
    region = Function("combine", tuple(params), tuple(b.ops), tuple(out))
    return Fold(xs, identities, region, axes)


def test_a_fold_is_its_region_from_left_to_right():
    x = np.array([5.0, 3.0, 2.0])
    (found,) = run_op(lambda v: folded((v,), (1.0,), lambda a, b: [Mul(a, b)]).results, x)
    same_bits(found, np.float64(30))
    pair = run_op(
        lambda v, w: (
            folded((v, w), (0.0, -INF), lambda a, b, c, d: [Add(a, c), Maximum(b, d)]).results
        ),
        x,
        x,
    )
    assert [float(p) for p in pair] == [10.0, 5.0]


def test_a_fold_of_nothing_is_its_identity():
    x = np.zeros((0, 2))
    (found,) = run_op(lambda v: folded((v,), (7.0,), lambda a, b: [Add(a, b)]).results, x)
    same_bits(found, np.full(2, 7.0))


X, Y = Param(TensorType(F64, (3,)), "x"), Param(TensorType(F64, (4,)), "y")


def test_a_fold_that_makes_no_sense_is_refused():
    with pytest.raises(ShapeError, match="operands of one shape"):
        folded((X, Y), (0.0, 0.0), lambda a, b, c, d: [a, b])
    with pytest.raises(ShapeError, match="1 operands, 2 identities"):
        folded((X,), (0.0, 1.0), lambda a, b: [Sub(a, b)])
    with pytest.raises(IRError, match="sum is not element-wise"):
        folded((X,), (0.0,), lambda a, b: [Sum(a, ())])
    with pytest.raises(ShapeError, match="combine_region must have results"):
        folded((X,), (0.0,), lambda a, b: [a, b])


@pytest.mark.parametrize("axes", [(1,), (-1,), (0, 0)])
def test_axes_are_ascending_and_there(axes: tuple[int, ...]):
    for op in (Sum, Max, ArgMax, LogSumExp):
        with pytest.raises(ShapeError, match=op.name):
            op(X, axes)
    with pytest.raises(ShapeError, match="fold"):
        folded((X,), (0.0,), lambda a, b: [Add(a, b)], axes)


def test_types():
    x = Param(TensorType(F32, (2, 3)), "x")
    assert ArgMax(x, (0,)).type == TensorType(I64, (3,))
    assert Sum(x, (0, 1)).type == TensorType(F32)
