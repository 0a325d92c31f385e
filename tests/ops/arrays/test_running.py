"""Running scans against NumPy: either way, with and without the element itself, all types."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm import ops
from dlvm.base.errors import UserError
from dlvm.ir import BF16, BOOL, DTYPES, F16, F32, F64, Param, TensorType
from tests.ad.building import derivatives, function
from tests.gen.values import numbers
from tests.ops.running import run_op, same_bits

NUMBERS = [d for d in DTYPES.values() if d.kind in "iuf"]
WAYS = [(r, e) for r in (False, True) for e in (False, True)]
SHAPES = [((0,), 0), ((1,), 0), ((67,), 0), ((3, 5, 2), 1), ((2, 0), 1), ((0, 3), 1), ((4, 7), 0)]


def prefixes(x, axis, reverse, exclusive):
    """For each place the elements that its result is made of, in order."""
    n = x.shape[axis]
    for i in range(n):
        stop = i if exclusive else i + 1
        places = [n - 1 - j for j in range(stop)] if reverse else range(stop)
        yield (n - 1 - i if reverse else i), np.take(x, places, axis)


def by_definition(x, axis, reverse, exclusive, fold):
    out = np.empty(x.shape, np.float64)
    for i, part in prefixes(x, axis, reverse, exclusive):
        out[(slice(None),) * axis + (i,)] = fold(part)
    return out


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_sums_of_small_whole_numbers_are_exact(dtype, way):
    for shape, axis in SHAPES:
        x = np.random.default_rng(1).integers(0, 2, shape).astype(dtype.numpy)
        expected = by_definition(x.astype(np.float64), axis, *way, lambda p, a=axis: p.sum(a))
        found = run_op(lambda v, a=axis: ops.CumulativeSum(v, a, *way), x)
        same_bits(found, expected.astype(dtype.numpy))


def test_sums_are_numpys_to_the_bit():
    for dtype in (F32, F64, DTYPES["i8"], DTYPES["u64"]):
        x = numbers(dtype, (90, 3), np.random.default_rng(2)) + dtype.numpy.type(0)
        with np.errstate(all="ignore"):
            expected = np.cumsum(x, 0, dtype=x.dtype)
        same_bits(run_op(lambda v: ops.CumulativeSum(v, 0), x), expected)


@pytest.mark.parametrize("dtype", (F16, BF16), ids=str)
def test_half_precision_is_summed_in_f32_and_rounded_once(dtype):
    x = np.full(1000, 0.1, dtype.numpy)
    found = run_op(lambda v: ops.CumulativeSum(v, 0), x)
    same_bits(found, np.cumsum(x.astype(np.float32)).astype(dtype.numpy))
    assert found[-1] > 95  # rounding each time, the sum would stop growing far below


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_maxima(dtype, way):
    for shape, axis in SHAPES:
        x = numbers(dtype, shape, np.random.default_rng(3))
        found = run_op(lambda v, a=axis: ops.CumulativeMax(v, a, *way), x)
        for i, part in prefixes(x, axis, *way):
            with np.errstate(invalid="ignore"):
                expected = np.max(part, axis=axis, initial=dtype.lowest)
            same_bits(np.take(found, i, axis), expected.astype(dtype.numpy))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_minima_and_products(way):
    for shape, axis in SHAPES:
        x = np.random.default_rng(3).integers(-2, 3, shape).astype(np.float64)
        for cls, fold in ((ops.CumulativeMin, np.min), (ops.CumulativeProd, np.prod)):
            start = np.inf if fold is np.min else 1.0
            found = run_op(lambda v, a=axis, c=cls: c(v, a, *way), x)
            for i, part in prefixes(x, axis, *way):
                expected = fold(part, axis=axis, initial=start)
                np.testing.assert_array_equal(np.take(found, i, axis), expected)


@pytest.mark.parametrize("zeros", ((), (1,), (1, 3)), ids=str)
def test_the_derivative_of_a_product_is_right_at_zeros(zeros):
    """Against the definition, in which each factor is left out of its own derivative."""
    x = np.array([2.0, -0.5, 3.0, 1.5, -1.0])
    x[list(zeros)] = 0
    w = np.array([1.0, 2.0, -1.0, 0.5, 3.0])
    module = derivatives(function("main", "f64[5]", lambda v: ops.CumulativeProd(v, 0)))
    others = [[np.prod(np.delete(x[: i + 1], j)) for i in range(j, 5)] for j in range(5)]
    expected = [np.dot(w[j:], others[j]) for j in range(5)]
    np.testing.assert_allclose(module.run("d", x, w)[0], expected)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_logsumexp_neither_overflows_nor_underflows(way):
    x = np.array([[-1000.0, 1000.0, 999.0, -np.inf, 1000.0], [-np.inf, -np.inf, 3.0, 1.0, np.inf]])
    with np.errstate(all="ignore"):
        found = run_op(lambda v: ops.CumulativeLogSumExp(v, 1, *way), x)
    for i, part in prefixes(x, 1, *way):
        top = np.max(part, axis=1, initial=-np.inf)
        safe = np.where(np.isinf(top), 0, top)
        with np.errstate(divide="ignore", over="ignore"):
            expected = safe + np.log(np.exp(part - safe[:, None]).sum(1))
        np.testing.assert_allclose(found[:, i], expected, rtol=1e-14)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_linear_recurrence_is_the_product_with_its_matrix(way):
    """``y = (I - A S)^-1 b`` with S the shift along the way."""
    reverse, exclusive = way
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    found = run_op(lambda x, y: ops.LinearRecurrence(x, y, 0, *way), a, b)
    shift = np.eye(6, k=1 if reverse else -1)
    for j in range(2):
        y = np.linalg.solve(np.eye(6) - np.diag(a[:, j]) @ shift, b[:, j])
        np.testing.assert_allclose(found[:, j], shift @ y if exclusive else y, rtol=1e-12)


def test_wrong_operands():
    x, truth = (Param(TensorType(d, (3,)), "x") for d in (F64, BOOL))
    for build in (
        lambda: ops.CumulativeSum(x, 1),
        lambda: ops.CumulativeSum(truth, 0),
        lambda: ops.CumulativeLogSumExp(truth, 0),
        lambda: ops.LinearRecurrence(x, truth, 0),
    ):
        with pytest.raises(UserError):
            build()
