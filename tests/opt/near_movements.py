"""Elements, windows, permutations and picked rows near to what laws speak of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dlvm.ir import F64, I64, Value, splat, zeros
from dlvm.ops import (
    Abs,
    Add,
    Assume,
    Broadcast,
    Cast,
    Concat,
    Constant,
    Diagonal,
    Div,
    Gather,
    Iota,
    LessEqual,
    Matmul,
    Max,
    Min,
    Mul,
    Neg,
    Or,
    Pad,
    Permute,
    Reshape,
    ScatterAdd,
    ScatterSet,
    Select,
    Slice,
    Sub,
    Sum,
    Update,
    transposed,
)
from dlvm.ops.arrays.patches import Patches
from dlvm.opt.algebra.sums.convolutions import passed_on

from .near_products import Group, Made, eye, symmetric

HOLLOW = (1.5, 2.0**-127, 2.0**-149, 2.0**120, np.inf, np.nan, 0.0, 1.0, -1.0, 2.0, -4.0)
"""Divisors, some of which have no reciprocal in some type."""


def with_number(make: Callable[[Value, Value], Value], number: float) -> Made:
    """An operation of the first parameter and a number."""
    return lambda x, y: make(x, splat(number, x.type))


ELEMENTS: list[Group] = [
    (
        ("n[M,N]", "n[M,N]"),
        {
            **{f"plus {n}": with_number(lambda x, n: Add(x, n), n) for n in (0.0, -0.0, 1)},
            **{f"{n} plus": with_number(lambda x, n: Add(n, x), n) for n in (0.0, -0.0, 1)},
            **{f"minus {n}": with_number(lambda x, n: Sub(x, n), n) for n in (0.0, -0.0, 1)},
            **{f"{n} minus": with_number(lambda x, n: Sub(n, x), n) for n in (0.0, -0.0, 1)},
            **{f"times {n}": with_number(lambda x, n: Mul(x, n), n) for n in (0, 1, 2)},
            **{f"{n} times": with_number(lambda x, n: Mul(n, x), n) for n in (0, 1, 2)},
            "sum": lambda x, y: Add(x, y),
            "difference": lambda x, y: Sub(x, y),
            "difference from itself": lambda x, y: Sub(x, x),
            "product": lambda x, y: Mul(x, y),
            "square": lambda x, y: Mul(x, x),
            "with a sign last": lambda x, y: Add(x, Neg(y)),
            "with a sign first": lambda x, y: Add(Neg(x), y),
            "with signs": lambda x, y: Add(Neg(x), Neg(y)),
            "magnitude": lambda x, y: Abs(Mul(x, y)),
            "magnitude of one": lambda x, y: Abs(x),
            "magnitude of a negative zero": lambda x, y: Abs(
                Constant(np.array([-0.0, 2.0], x.dtype.numpy))
            ),
            "another type": lambda x, y: Cast(x, F64 if x.dtype != F64 else I64),
            "sum of rows": lambda x, y: Sum(x, (0,)),
            "largest of rows": lambda x, y: Max(x, (0,)),
            "smallest of rows": lambda x, y: Min(x, (0,)),
            "turned": lambda x, y: Permute(x, (1, 0)),
            "flat": lambda x, y: Reshape(x, (x.type.size,)),
            "repeated": lambda x, y: Broadcast(x, (2, *x.shape), (1, 2)),
            "repeated and not": lambda x, y: Broadcast(x, (1, 2, *x.shape), (2, 3)),
            "repeated once": lambda x, y: Broadcast(x, (*x.shape, 1), (0, 1)),
            "two joined": lambda x, y: Concat((x, y), 0),
            "joined across": lambda x, y: Concat((Concat((x, y), 0), Concat((y, x), 0)), 1),
            "joined both ways": lambda x, y: Concat(
                (Concat((x, y), 1), Concat((Concat((x,), 0), y), 1)), 0
            ),
        },
    ),
    (
        ("f[M,N]", "f[M,N]"),
        {
            **{f"divided by {n}": with_number(Div, n) for n in HOLLOW},
            "one number divided": lambda x, y: Div(splat(6, x.type), splat(4, x.type)),
            "dividing": lambda x, y: Div(splat(4, x.type), x),
            "quotient": lambda x, y: Div(x, y),
        },
    ),
    (
        ("b[M,N]", "b[M,N]", "n[M,N]", "n[M,N]"),
        {
            "one of two": lambda c, d, x, y: Select(c, x, y),
            "never the first": lambda c, d, x, y: Select(splat(False, c.type), x, y),
            "always the first": lambda c, d, x, y: Select(splat(True, c.type), x, y),
            "nothing beside": lambda c, d, x, y: Select(Or(c, d), _kept(c, d, x, y), zeros(x.type)),
            "conditions exchanged": lambda c, d, x, y: Select(
                Or(c, d), _kept(d, c, x, y), zeros(x.type)
            ),
            "one condition": lambda c, d, x, y: Select(Or(c, d), _kept(c, c, x, y), zeros(x.type)),
            "the other condition": lambda c, d, x, y: Select(
                Or(c, d), _kept(d, d, x, y), zeros(x.type)
            ),
            "third": lambda c, d, x, y: Select(Or(c, c), _kept(c, d, x, y), zeros(x.type)),
            "third, last": lambda c, d, x, y: Select(Or(d, d), _kept(c, d, x, y), zeros(x.type)),
            "ones first": lambda c, d, x, y: Select(
                Or(c, d), _kept(c, d, x, y, 1, 0), zeros(x.type)
            ),
            "ones last": lambda c, d, x, y: Select(
                Or(c, d), _kept(c, d, x, y, 0, 1), zeros(x.type)
            ),
            "ones beside": lambda c, d, x, y: Select(Or(c, d), _kept(c, d, x, y), splat(1, x.type)),
            "something beside": lambda c, d, x, y: Select(Or(c, d), _kept(c, d, x, y), y),
        },
    ),
]


def _kept(c: Value, d: Value, x: Value, y: Value, a: float = 0, b: float = 0) -> Value:
    return Add(Select(c, x, splat(a, x.type)), Select(d, y, splat(b, y.type)))


def _over(
    first: tuple[int, int], steps: tuple[int, int], then: tuple[int, int], more: tuple[int, int]
) -> Callable[[Value, Value, Value], Value]:
    """A window of a tensor replaced, and then one of as many elements."""
    return lambda x, y, z: Update(Update(x, y, first, steps), Abs(y), then, more)


def _cut(
    starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> Callable[[Value, Value], Value]:
    """A part of what windows of images pass on."""
    return lambda y, v: Slice(passed_on(y, v, (2, 4, 4), (2, 2)), starts, sizes, steps)


WINDOWS: list[Group] = [
    (
        ("n[4,6]", "n[2,3]", "n[4,6]"),
        {
            "joined along both axes": lambda x, y, z: Concat(
                (Concat((x, z), 0), Concat((Slice(x, (0, 0), (4, 3), (1, 1)),) * 2, 1)), 0
            ),
            "a window": lambda x, y, z: Slice(x, (1, 0), (2, 3), (1, 2)),
            "all": lambda x, y, z: Slice(x, (0, 0), (4, 6), (1, 1)),
            "all backwards": lambda x, y, z: Slice(x, (3, 5), (4, 6), (-1, -1)),
            "rows backwards": lambda x, y, z: Slice(x, (3, 0), (4, 6), (-1, 1)),
            "of a window": lambda x, y, z: Slice(
                Slice(x, (3, 1), (3, 4), (-1, 1)), (2, 3), (2, 2), (-1, -2)
            ),
            "written over": lambda x, y, z: Update(x, y, (1, 0), (1, 2)),
            "written all over": lambda x, y, z: Update(x, z, (0, 0), (1, 1)),
            "written backwards": lambda x, y, z: Update(x, z, (3, 5), (-1, -1)),
            "written row by row backwards": lambda x, y, z: Update(x, z, (3, 0), (-1, 1)),
            "written into zeros": lambda x, y, z: Update(zeros(x.type), y, (1, 0), (1, 1)),
            "written into ones": lambda x, y, z: Update(splat(1, x.type), y, (1, 0), (1, 1)),
            "nothing written into zeros": lambda x, y, z: Update(
                zeros(x.type), Slice(y, (0, 0), (0, 3), (1, 1)), (9, 1), (1, 1)
            ),
            "written into zeros with gaps": lambda x, y, z: Update(
                zeros(x.type), y, (1, 0), (1, 2)
            ),
            "written into zeros backwards": lambda x, y, z: Update(
                zeros(x.type), y, (2, 3), (-1, -1)
            ),
            "rewritten": lambda x, y, z: Update(
                x, Slice(x, (1, 0), (2, 3), (1, 2)), (1, 0), (1, 2)
            ),
            "rewritten elsewhere": lambda x, y, z: Update(
                x, Slice(x, (1, 0), (2, 3), (1, 2)), (0, 1), (1, 2)
            ),
            "rewritten with other gaps": lambda x, y, z: Update(
                x, Slice(x, (1, 0), (2, 3), (1, 2)), (1, 0), (1, 1)
            ),
            "rewritten by another": lambda x, y, z: Update(
                x, Slice(z, (1, 0), (2, 3), (1, 2)), (1, 0), (1, 2)
            ),
            "what was written": lambda x, y, z: Slice(
                Update(x, y, (1, 0), (1, 2)), (1, 0), (2, 3), (1, 2)
            ),
            "beside what was written": lambda x, y, z: Slice(
                Update(x, y, (1, 0), (1, 2)), (0, 0), (2, 3), (1, 2)
            ),
            "between what was written": lambda x, y, z: Slice(
                Update(x, y, (1, 0), (1, 2)), (1, 0), (2, 3), (1, 1)
            ),
            "part of what was written": lambda x, y, z: Slice(
                Update(x, y, (1, 0), (1, 2)), (1, 0), (1, 3), (1, 2)
            ),
            **{
                f"written over at {first} by {steps}, then at {then} by {more}": _over(
                    first, steps, then, more
                )
                for first, steps, then, more in (
                    ((1, 0), (1, 2), (1, 0), (1, 2)),
                    ((1, 0), (1, 1), (1, 0), (1, 2)),
                    ((1, 0), (1, 2), (1, 0), (1, 1)),
                    ((0, 0), (1, 1), (1, 0), (1, 1)),
                    ((1, 0), (1, 1), (0, 0), (1, 1)),
                    ((1, 2), (1, 1), (1, 0), (1, 1)),
                    ((1, 0), (1, 1), (1, 2), (1, 1)),
                )
            },
            "written over by more": lambda x, y, z: Update(
                Update(x, Slice(y, (1, 1), (1, 2), (1, 1)), (2, 2), (1, 1)), y, (1, 1), (1, 1)
            ),
            "written over by less": lambda x, y, z: Update(
                Update(x, y, (1, 1), (1, 1)), Slice(y, (1, 1), (1, 2), (1, 1)), (2, 2), (1, 1)
            ),
            "written beside less": lambda x, y, z: Update(
                Update(x, Slice(y, (1, 1), (1, 1), (1, 1)), (3, 4), (1, 1)), y, (0, 0), (1, 1)
            ),
            "between ones": lambda x, y, z: Slice(
                Reshape(x, (4, 1, 6)), (3, 0, 1), (2, 1, 3), (-2, 1, 2)
            ),
            "none between ones": lambda x, y, z: Slice(
                Reshape(x, (4, 1, 6)), (3, 0, 1), (2, 0, 3), (-2, 1, 2)
            ),
            "without ones": lambda x, y, z: Slice(
                Reshape(Slice(x, (1, 0), (1, 6), (1, 1)), (6,)), (2,), (3,), (1,)
            ),
            "of reshaped": lambda x, y, z: Slice(Reshape(x, (6, 4)), (1, 2), (3, 2), (2, 1)),
            "of pieces between ones": lambda x, y, z: Slice(
                Concat((Reshape(x, (1, 4, 6)), Reshape(z, (1, 4, 6))), 0),
                (0, 1, 2),
                (2, 3, 2),
                (1, 1, 2),
            ),
            "of rows between ones": lambda x, y, z: Slice(
                Concat((Reshape(x, (4, 6, 1)), Reshape(z, (4, 6, 1))), 0),
                (2, 1, 0),
                (5, 3, 1),
                (1, 1, 1),
            ),
            "padded": lambda x, y, z: Pad(x, (1, 0), (0, 2)),
            "padded by nothing": lambda x, y, z: Pad(x, (0, 0), (0, 0)),
            "padded twice": lambda x, y, z: Pad(Pad(x, (1, 0), (0, 2)), (2, 1), (1, 0)),
            "in padding": lambda x, y, z: Slice(Pad(x, (1, 0), (0, 2)), (0, 3), (3, 2), (2, 4)),
            "inside padding": lambda x, y, z: Slice(
                Pad(x, (1, 0), (0, 2)), (4, 1), (2, 3), (-2, 2)
            ),
            "of a row": lambda x, y, z: Slice(Mul(x, z), (3, 1), (1, 4), (1, 1)),
            "of what is known": lambda x, y, z: Slice(
                Assume(Mul(x, x), "nonnegative"), (3, 1), (1, 4), (1, 1)
            ),
            "of a symmetric one": lambda x, y, z: Slice(
                Assume(
                    Mul(Matmul(x, transposed(x)), splat(1, x.type.with_shape((4, 4)))), "symmetric"
                ),
                (0, 1),
                (1, 2),
                (1, 1),
            ),
            "of permuted ones": lambda x, y, z: Slice(Permute(x, (1, 0)), (5, 1), (3, 2), (-2, 1)),
            "of sums": lambda x, y, z: Slice(Sum(x, (0,)), (4,), (2,), (-2,)),
            "of one tap": lambda x, y, z: Patches(x, (0, 1), (1, 1), (1, 2), (1, 1)),
            "of one axis": lambda x, y, z: Patches(x, (1,), (1,), (2,), (1,)),
            "of two taps": lambda x, y, z: Patches(x, (0, 1), (2, 1), (1, 2), (1, 1)),
        },
    ),
    (
        ("n[32,3]", "n[3,4]"),
        {
            "passed on by windows": lambda y, v: passed_on(y, v, (2, 4, 4), (2, 2)),
            "passed on by windows, every other place": lambda y, v: Slice(
                passed_on(y, v, (2, 4, 4), (1, 4)), (0, 0, 0, 0), (2, 4, 4, 1), (1, 1, 2, 1)
            ),
            "passed on by a row of windows": lambda y, v: passed_on(y, v, (8, 4), (4,)),
            **{
                f"passed on by windows, cut from {starts} by {steps}": _cut(starts, sizes, steps)
                for starts, sizes, steps in (
                    ((0, 1, 1, 0), (2, 3, 3, 1), (1, 1, 1, 1)),
                    ((0, 1, 2, 0), (2, 4, 3, 1), (1, 1, 1, 1)),
                    ((0, 4, 0, 0), (2, 3, 2, 1), (1, -1, 1, 1)),
                    ((1, 1, 1, 0), (1, 3, 3, 1), (1, 1, 1, 1)),
                )
            },
        },
    ),
    (
        ("n[2,3,4]", "n[3,3,4]", "n[2,2,3]"),
        {
            "of sums inside": lambda x, y, z: Slice(Sum(x, (1,)), (1, 3), (1, 2), (1, -2)),
            "of sums outside": lambda x, y, z: Slice(Sum(x, (0,)), (1, 3), (2, 2), (1, -2)),
            "of three permuted": lambda x, y, z: Slice(
                Permute(x, (2, 0, 1)), (3, 0, 1), (2, 2, 2), (-2, 1, 1)
            ),
            "of pieces": lambda x, y, z: Slice(
                Concat((x, y, x), 0), (1, 0, 1), (5, 2, 2), (1, 1, 2)
            ),
            "of whole pieces": lambda x, y, z: Slice(
                Concat((x, y, x), 0), (2, 0, 0), (3, 3, 4), (1, 1, 1)
            ),
            "of all pieces": lambda x, y, z: Slice(
                Concat((x, y, x), 0), (1, 0, 0), (5, 3, 4), (1, 1, 1)
            ),
            "of two pieces": lambda x, y, z: Slice(
                Concat((x, y, x), 0), (0, 0, 0), (3, 3, 4), (1, 1, 1)
            ),
            "of no piece": lambda x, y, z: Slice(
                Concat((x, y, x), 0), (2, 0, 0), (0, 3, 4), (1, 1, 1)
            ),
            "of later pieces": lambda x, y, z: Slice(
                Concat((x, y, x), 0), (3, 0, 0), (3, 3, 4), (1, 1, 1)
            ),
            "of pieces with gaps": lambda x, y, z: Slice(
                Concat((x, y, x), 0), (1, 0, 0), (3, 3, 4), (2, 1, 1)
            ),
            "of pieces backwards": lambda x, y, z: Slice(
                Concat((x, y, x), 0), (5, 0, 0), (4, 3, 4), (-1, 1, 1)
            ),
            "of the last piece": lambda x, y, z: Slice(
                Concat((x, y, x), 0), (6, 0, 1), (2, 2, 2), (-1, 1, 2)
            ),
            "of repeated": lambda x, y, z: Slice(
                Broadcast(x, (2, 5, 3, 4), (0, 2, 3)), (1, 4, 0, 3), (1, 2, 2, 2), (1, -2, 2, -2)
            ),
            "turned": lambda x, y, z: Permute(x, (2, 0, 1)),
            "turned twice": lambda x, y, z: Permute(Permute(x, (2, 0, 1)), (1, 0, 2)),
            "sum of sums": lambda x, y, z: Sum(Sum(x, (1,)), (1,)),
            "sum of other sums": lambda x, y, z: Sum(Sum(x, (0,)), (1,)),
            "repeated twice": lambda x, y, z: Broadcast(
                Broadcast(x, (2, 3, 1, 4), (0, 1, 3)), (2, 5, 3, 1, 4), (0, 2, 3, 4)
            ),
            "of a product": lambda x, y, z: Slice(Matmul(z, x), (1, 1, 3), (1, 1, 2), (1, 1, -2)),
            "of a product backwards": lambda x, y, z: Slice(
                Matmul(z, x), (1, 1, 3), (2, 2, 4), (-1, -1, -1)
            ),
            "rows of a product": lambda x, y, z: Slice(
                Matmul(z, x), (0, 1, 0), (2, 1, 4), (1, 1, 1)
            ),
            "columns of a product": lambda x, y, z: Slice(
                Matmul(z, x), (0, 0, 1), (2, 2, 2), (1, 1, 2)
            ),
            "matrices of products": lambda x, y, z: Slice(
                Matmul(z, x), (1, 0, 0), (1, 2, 4), (1, 1, 1)
            ),
        },
    ),
    (
        ("n[2,2,3,3]", "n[2,2,3,3]"),
        {
            "of products": lambda x, y: Slice(
                Matmul(x, y), (1, 0, 2, 1), (1, 2, 2, 2), (1, 1, -2, 1)
            ),
            "of matrices": lambda x, y: Slice(
                Matmul(x, y), (0, 1, 1, 0), (2, 1, 1, 3), (1, 1, 1, 1)
            ),
        },
    ),
    (
        ("n[1,M]", "n[1,1,M]", "n[M,1,N]"),
        {
            "one turned": lambda x, y, z: Permute(x, (1, 0)),
            "ones turned": lambda x, y, z: Permute(y, (2, 1, 0)),
            "one moved": lambda x, y, z: Permute(z, (1, 0, 2)),
            "one and more moved": lambda x, y, z: Permute(z, (2, 1, 0)),
        },
    ),
    (
        ("f[4,3]", "f[4,3]"),
        {
            "divisions of rows": lambda x, y: Slice(
                Add(Mul(x, y), splat(1, x.type)), (1, 0), (1, 3), (1, 1)
            ),
            "diagonal of known": lambda x, y: Diagonal(
                Assume(Matmul(x, transposed(y)), "nonnegative")
            ),
            "diagonal of sums": lambda x, y: Diagonal(
                Add(Matmul(x, transposed(y)), Matmul(y, transposed(x)))
            ),
            "diagonal of other rows": lambda x, y: Diagonal(
                Reshape(Matmul(x, transposed(y)), (4, 2, 2))
            ),
            "diagonal of a batch": lambda x, y: Diagonal(
                Reshape(Matmul(x, transposed(y)), (1, 1, 4, 4))
            ),
            "diagonal of flat": lambda x, y: Diagonal(
                Reshape(Reshape(Matmul(x, transposed(y)), (16,)), (4, 4))
            ),
        },
    ),
    (
        ("n[2,2]", "n[2]", "n[2,2,2]"),
        {
            "diagonals of repeated": lambda x, y, z: Diagonal(Broadcast(x, (2, 2, 2), (0, 1))),
            "diagonals of repeated last": lambda x, y, z: Diagonal(Broadcast(x, (2, 2, 2), (0, 2))),
            "diagonals of batches": lambda x, y, z: Diagonal(Broadcast(x, (2, 2, 2), (1, 2))),
            "diagonals of one": lambda x, y, z: Diagonal(Broadcast(y, (2, 2, 2), (0,))),
            "diagonals of columns": lambda x, y, z: Diagonal(Broadcast(y, (2, 2, 2), (2,))),
            "diagonals of some": lambda x, y, z: Diagonal(Broadcast(z, (2, 2, 2, 2), (0, 1, 2))),
            "diagonals of some others": lambda x, y, z: Diagonal(
                Broadcast(z, (2, 2, 2, 2), (0, 2, 3))
            ),
            "diagonals of all but the first": lambda x, y, z: Diagonal(
                Broadcast(z, (2, 2, 2, 2), (1, 2, 3))
            ),
        },
    ),
]
OPEN: list[Group] = [
    (
        ("n[N,N]",),
        {
            "a diagonal of a symmetric one": lambda x: Diagonal(symmetric(x)),
        },
    ),
    (
        ("n[4,4]",),
        {"beside the diagonal": lambda x: Slice(symmetric(x), (0, 1), (2, 2), (1, 1))},
    ),
    (
        ("n[N,3]", "n[3,3]"),
        {
            "of pieces behind open ones": lambda x, y: Slice(
                Concat((x, y, y), 0), (x.shape[0] + 1, 0), (3, 2), (1, 1)
            ),
            "of a piece behind an open one": lambda x, y: Slice(
                Concat((x, y, y), 0), (x.shape[0] + 3, 0), (3, 2), (-1, 1)
            ),
        },
    ),
]
PICKED: list[Group] = [
    (
        ("n[3,3]", "n[3,3]", "i[2]", "i[2,2]", "i[]"),
        {
            "rows": lambda x, y, i, j, k: Gather(Matmul(x, y), i, 0, mode="clip"),
            "columns": lambda x, y, i, j, k: Gather(Matmul(x, y), i, 1, mode="clip"),
            "rows or none": lambda x, y, i, j, k: Gather(Matmul(x, y), i, 0, mode="drop"),
            "one row": lambda x, y, i, j, k: Gather(Matmul(x, y), k, 0, mode="clip"),
            "one column": lambda x, y, i, j, k: Gather(Matmul(x, y), k, 1, mode="clip"),
            "tables of rows": lambda x, y, i, j, k: Gather(Matmul(x, y), j, 0, mode="clip"),
            "tables of columns": lambda x, y, i, j, k: Gather(Matmul(x, y), j, 1, mode="clip"),
            "of a formula": lambda x, y, i, j, k: Gather(Add(x, y), i, 0, mode="clip"),
            "of a formula or none": lambda x, y, i, j, k: Gather(
                Add(x, splat(1, x.type)), i, 0, mode="drop"
            ),
            "of a relation or none": lambda x, y, i, j, k: Gather(
                LessEqual(x, x), i, 0, mode="drop"
            ),
            "of what is known": lambda x, y, i, j, k: Gather(
                Assume(Mul(x, x), "nonnegative"), i, 1, mode="clip"
            ),
            "of the identity": lambda x, y, i, j, k: Gather(eye(x), i, 0, mode="clip"),
        },
    ),
    (
        ("n[2,3,3]", "n[2,3,3]", "i[2]", "i[2,2]"),
        {
            "rows of batches": lambda x, y, i, j: Gather(Matmul(x, y), i, 1, mode="clip"),
            "matrices of batches": lambda x, y, i, j: Gather(Matmul(x, y), i, 0, mode="clip"),
            "rows of each": lambda x, y, i, j: Gather(Matmul(x, y), j, 1, batch=1, mode="clip"),
        },
    ),
    (
        ("n[2,3]", "i[2,2]", "i[4]", "n[2,2]", "n[2,3,2]"),
        {
            "reshaped": lambda x, i, j, u, z: Gather(
                x, Reshape(i, (2, 2, 1)), 1, batch=1, mode="clip"
            ),
            "batches reshaped": lambda x, i, j, u, z: Gather(
                x, Reshape(j, (2, 2)), 1, batch=1, mode="clip"
            ),
            "as they are": lambda x, i, j, u, z: Gather(x, i, 1, batch=1, mode="clip"),
            "written reshaped": lambda x, i, j, u, z: ScatterSet(
                x, Reshape(i, (2, 2, 1)), Reshape(u, (2, 2, 1)), 1, batch=1, mode="clip"
            ),
            "written in batches": lambda x, i, j, u, z: ScatterSet(
                x, Reshape(j, (2, 2)), u, 1, batch=1, mode="clip"
            ),
            "written as they are": lambda x, i, j, u, z: ScatterSet(
                x, i, u, 1, batch=1, mode="clip"
            ),
            "written by another": lambda x, i, j, u, z: ScatterSet(
                x, Add(i, i), u, 1, batch=1, mode="clip"
            ),
            "added in batches": lambda x, i, j, u, z: ScatterAdd(
                x, Reshape(j, (2, 2)), u, 1, batch=1, mode="clip"
            ),
            "added as they are": lambda x, i, j, u, z: ScatterAdd(x, i, u, 1, batch=1, mode="clip"),
            "added by another": lambda x, i, j, u, z: ScatterAdd(
                x, Add(i, i), u, 1, batch=1, mode="clip"
            ),
            "added reshaped": lambda x, i, j, u, z: ScatterAdd(
                x, Reshape(i, (4,)), Reshape(Concat((u, u), 1), (2, 4)), 1, mode="clip"
            ),
        },
    ),
    (
        ("f[3,N]", "f[2,N]"),
        {
            "added to ones": lambda a, u: Add(a, ScatterAdd(splat(1, a.type), Iota(2), u, 0)),
            "added to ones first": lambda a, u: Add(ScatterAdd(splat(1, a.type), Iota(2), u, 0), a),
            "added twice": lambda a, u: Add(a, ScatterAdd(a, Iota(2), u, 0)),
        },
    ),
]


def groups() -> Iterator[Group]:
    """All of them."""
    yield from ELEMENTS
    yield from WINDOWS
    yield from OPEN
    yield from PICKED
