"""The sizes of a callee's symbols, from numbers and from the caller's own symbols."""

from __future__ import annotations

import pytest

from dlvm.base.errors import ShapeError
from dlvm.ir import F32, F64, TensorType
from dlvm.ir.sizes import dims
from dlvm.ir.unify import unify

A, B, C = (dims.symbol(s) for s in "ABC")


def f32(*shape: dims.Dim) -> TensorType:
    return TensorType(F32, shape)


@pytest.mark.parametrize(
    ("params", "given", "sizes"),
    [
        ([f32(A, 3)], [f32(5, 3)], {"A": 5}),
        ([f32(2 * A + 1)], [f32(7)], {"A": 3}),
        ([f32(A * B), f32(B)], [f32(12), f32(4)], {"A": 3, "B": 4}),
        ([f32(A + B + C), f32(B + C), f32(C)], [f32(9), f32(5), f32(2)], {"A": 4, "B": 3, "C": 2}),
        ([f32(A)], [f32(0)], {"A": 0}),
        ([f32(A), f32(A * B)], [f32(B), f32(B * C)], {"A": B, "B": C}),
        ([f32(2 * A + 1)], [f32(2 * B + 3)], {"A": B + 1}),
        ([f32(A), f32(B)], [f32(B), f32(A)], {"A": B, "B": A}),
        ([f32(A, dims.floordiv(A, 2))], [f32(5, 2)], {"A": 5}),
        ([f32(dims.floordiv(A + 1, 2), A)], [f32(dims.floordiv(B + 1, 2), B)], {"A": B}),
    ],
)
def test_unify_solves_for_every_symbol(params, given, sizes):
    assert unify(params, given) == sizes


@pytest.mark.parametrize(
    ("params", "given", "message"),
    [
        ([f32(A)], [], "expected 1 arguments, found 0"),
        ([f32(A)], [TensorType(F64, (3,))], r"argument 0: expected f32\[A\], found f64\[3\]"),
        ([f32(A)], [f32()], r"argument 0: expected f32\[A\], found f32$"),
        ([f32(A, A)], [f32(2, 3)], r"axis 1 of f32\[A,A\] must be A where A = 2, found 3"),
        ([f32(2 * A)], [f32(3)], r"axis 0 of f32\[2\*A\] must be 2\*A, found 3"),
        ([f32(A + 4)], [f32(3)], r"must be A\+4, found 3"),
        ([f32(A + 1)], [f32(B)], r"must be A\+1, found B"),
        ([f32(A), f32(A * B)], [f32(B), f32(C)], r"must be A\*B where A = B, found C"),
        ([f32(3)], [f32(B)], r"must be 3, found B"),
        ([f32(A + B)], [f32(3)], r"the symbols in f32\[A\+B\] can't be determined"),
        ([f32(A * A)], [f32(9)], r"the symbols in f32\[A\*A\] can't be determined"),
    ],
)
def test_an_error_names_the_equation_that_fails(params, given, message):
    with pytest.raises(ShapeError, match=message):
        unify(params, given)
