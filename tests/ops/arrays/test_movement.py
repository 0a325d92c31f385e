"""Movement, contraction and creation against NumPy's own indexing and against sums by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlvm.base.errors import ShapeError, UserError
from dlvm.ir import (
    BF16,
    F16,
    F32,
    I64,
    U8,
    Builder,
    Function,
    Module,
    Param,
    TensorType,
)
from dlvm.ir.sizes import dims
from dlvm.ops import (
    Broadcast,
    Concat,
    DimSize,
    Iota,
    Matmul,
    Permute,
    Reshape,
    Slice,
    Update,
)
from tests.ops.running import run_op, same_bits

A = np.arange(24.0).reshape(2, 3, 4)


@given(st.data())
def test_a_slice_is_what_numpy_slices(data: st.DataObject):
    """Every start, size and step that NumPy can say, on an axis of size n."""
    n = data.draw(st.integers(0, 6))
    start, stop = (data.draw(st.integers(-8, 8)) for _ in range(2))
    step = data.draw(st.sampled_from([1, 2, 3, -1, -2, -5]))
    x = np.arange(float(n))
    picked = range(n)[start:stop:step]
    first = picked[0] if len(picked) else 0
    found = run_op(lambda v: Slice(v, (first,), (len(picked),), (step,)), x)
    same_bits(found, x[start:stop:step])


@given(st.data())
def test_an_update_is_what_numpy_assigns(data: st.DataObject):
    n = data.draw(st.integers(1, 6))
    start, step = data.draw(st.integers(0, n - 1)), data.draw(st.sampled_from([1, 2, -1, -3]))
    room = len(range(start, n if step > 0 else -1, step))
    size = data.draw(st.integers(0, room))
    x, y = np.arange(float(n)), -np.arange(1.0, size + 1)
    expected = x.copy()
    expected[[start + i * step for i in range(size)]] = y
    same_bits(run_op(lambda v, w: Update(v, w, (start,), (step,)), x, y), expected)


@pytest.mark.parametrize(
    ("start", "size", "step"),
    [(0, 4, 1), (2, 2, 1), (-1, 1, 1), (0, 2, 3), (0, 2, -1), (3, 1, 1), (0, -1, 1), (0, 1, 0)],
)
def test_a_window_outside_is_refused(start: int, size: int, step: int):
    x = Param(TensorType(F32, (3,)), "x")
    with pytest.raises(ShapeError, match="slice"):
        Slice(x, (start,), (size,), (step,))


B = dims.symbol("B")


@pytest.mark.parametrize(
    ("start", "size", "step", "fits"),
    [
        (0, B, 1, True),
        (B - 1, B, -1, True),
        (0, dims.floordiv(B + 1, 2), 2, True),
        (0, dims.floordiv(B, 2), 2, True),
        (1, dims.floordiv(B, 2), 2, True),
        (1, B, 1, False),
        (0, B + 1, 1, False),
        (0, 1, 1, False),
        (1, B - 1, 1, False),
        (0, dims.minimum(B, 3), 1, True),
        (0, dims.maximum(B, 3), 1, False),
    ],
)
def test_a_window_of_an_unknown_size_must_fit_for_every_size(start, size, step, fits: bool):
    x = Param(TensorType(F32, (B,)), "x")
    if fits:
        assert Slice(x, (start,), (size,), (step,)).shape == (size,)
    else:
        with pytest.raises(ShapeError, match="slice"):
            Slice(x, (start,), (size,), (step,))


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3))))
def test_permute_puts_axes_in_order(perm: tuple[int, ...]):
    found = run_op(lambda v: Permute(v, perm), A)
    for index in np.ndindex(*found.shape):
        source = [0, 0, 0]
        for place, axis in enumerate(perm):
            source[axis] = index[place]
        assert found[index] == A[tuple(source)]


def test_reshape_keeps_row_major_order():
    for shape in ((24,), (4, 6), (1, 24, 1), (3, 2, 2, 2)):
        same_bits(run_op(lambda v, s=shape: Reshape(v, s), A), np.array(A.ravel().reshape(shape)))
    same_bits(run_op(lambda v: Reshape(v, (0, 7)), np.zeros((3, 0))), np.zeros((0, 7)))


def test_concat_joins_and_takes_nothing_too():
    none = np.zeros((2, 0, 4))
    same_bits(run_op(lambda *v: Concat(v, 1), A, none, A), np.concatenate([A, A], 1))
    same_bits(run_op(lambda v: Concat((v,), 0), A), A)


def test_matmul_is_the_sum_of_products():
    rng = np.random.default_rng(0)
    x, y = rng.integers(-9, 9, (2, 3, 4)), rng.integers(-9, 9, (2, 4, 5))
    expected = [[[sum(int(x[b, i, k]) * int(y[b, k, j]) for k in range(4)) for j in range(5)]
                 for i in range(3)] for b in range(2)]  # fmt: skip
    same_bits(run_op(Matmul, x, y), np.array(expected))
    same_bits(run_op(Matmul, np.zeros((2, 0)), np.zeros((0, 3))), np.zeros((2, 3)))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_matmul_of_halves_sums_in_f32(dtype):
    n = 4096
    ones = np.ones((1, n), dtype.numpy)
    assert float(run_op(Matmul, ones, ones.T)[0, 0]) == n


def test_iota_counts_and_small_integers_wrap():
    same_bits(run_op(lambda: Iota(4)), np.arange(4))
    same_bits(run_op(lambda: Iota(0, F32)), np.zeros(0, np.float32))
    same_bits(run_op(lambda: Iota(300, U8)), np.arange(300).astype(np.uint8))


def test_a_size_is_a_number_of_the_call():
    x = Param(TensorType(F32, (B, 2)), "x")
    with Builder() as b:
        size = DimSize(2 * B + 1)
    module = Module((Function("f", (x,), tuple(b.ops), (size,)),))
    for n in (0, 1, 5):
        (found,) = module.run("f", np.zeros((n, 2), np.float32))
        same_bits(found, np.int64(2 * n + 1))
    assert size.type == TensorType(I64)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: Permute(x, (0, 0, 1)),
        lambda x: Permute(x, (0, 1)),
        lambda x: Reshape(x, (5, 5)),
        lambda x: Concat((), 0),
        lambda x: Concat((x,), 3),
        lambda x: Concat((x, Reshape(x, (2, 4, 3))), 0),
        lambda x: Matmul(x, x),
        lambda x: Broadcast(x, (2, 3, 4), (0, 2, 1)),
        lambda x: Slice(x, (0, 0), (1, 1), (1, 1)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(build):
    with pytest.raises(UserError):
        build(Param(TensorType(F32, (2, 3, 4)), "x"))
