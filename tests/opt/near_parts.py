"""Sums of products and parts of products, near to what the laws of linear algebra speak of."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from dlvm.ir import Value, splat, zeros
from dlvm.ops import (
    Add,
    Broadcast,
    Diagonal,
    LessEqual,
    Matmul,
    Mul,
    Neg,
    Permute,
    Reshape,
    Select,
    Sub,
    Sum,
    transposed,
)
from dlvm.opt.algebra.examples import triangle

from .near_products import Group, columns, counted, eye, rows

TERMS = 17
"""More than a law takes apart of one sum."""
FACTORS = 7
"""With two more, more than a law looks at in one product of elements."""
DOUBLED = 40
"""Times that a sum or a product is of twice the one before: nothing may look at all its parts."""


def _in(x: Value, *axes: int) -> Value:
    """A matrix or a vector along some of three axes."""
    return Broadcast(x, (2, 3, 4), axes)


def _doubled(make: Callable[[Value, Value], Value], x: Value) -> Value:
    """A sum or product of a value with itself, and of that with itself, and so on."""
    for _ in range(DOUBLED):
        x = make(x, x)
    return x


def _through_a_row(make: Callable[[Value], Value], x: Value) -> Value:
    """An operation on the elements of a matrix in a row."""
    return Reshape(make(Reshape(x, (x.type.size,))), x.shape)


PARTS: list[Group] = [
    (
        ("n[N,N]", "n[N,N]", "n[N,N]", "n[N,N]"),
        {
            "no common factor": lambda a, b, c, d: Add(Matmul(a, b), Matmul(c, d)),
            "crossed": lambda a, b, c, d: Add(Matmul(a, b), Matmul(b, a)),
            "crossed at one": lambda a, b, c, d: Add(Matmul(a, b), Matmul(c, a)),
            "crossed at the other": lambda a, b, c, d: Sub(Matmul(a, b), Matmul(b, d)),
            "one product first": lambda a, b, c, d: Add(Matmul(a, b), c),
            "one product last": lambda a, b, c, d: Sub(c, Matmul(a, b)),
            "no product": lambda a, b, c, d: Add(Mul(a, b), Mul(a, c)),
            "one a product of elements": lambda a, b, c, d: Sub(Matmul(a, b), Mul(a, c)),
            "the other one": lambda a, b, c, d: Sub(Mul(a, b), Matmul(a, c)),
            "all of elements, last": lambda a, b, c, d: Sub(Mul(a, c), Mul(b, c)),
            "part of a sum against": lambda a, b, c, d: Sum(Mul(Matmul(a, b), c), (0,)),
            "against no product": lambda a, b, c, d: Sum(Mul(a, Mul(b, c)), (0, 1)),
            "a sum of a product and more": lambda a, b, c, d: Sum(Add(Matmul(a, b), c), (0, 1)),
            "against one last": lambda a, b, c, d: Sum(Mul(c, Matmul(a, b)), (0, 1)),
            "rows against one last": lambda a, b, c, d: Sum(Mul(c, Matmul(a, b)), (0,)),
            "columns against one last": lambda a, b, c, d: Sum(Mul(c, Matmul(a, b)), (1,)),
            "columns against one first": lambda a, b, c, d: Sum(Mul(Matmul(a, b), c), (1,)),
            "against one first": lambda a, b, c, d: Sum(Mul(Matmul(a, b), c), (0, 1)),
            "a diagonal of both sides": lambda a, b, c, d: Diagonal(
                Matmul(triangle(a, True), triangle(b, False))
            ),
            "a diagonal of one side": lambda a, b, c, d: Diagonal(Matmul(triangle(a, True), b)),
            "transpose of another": lambda a, b, c, d: transposed(Matmul(a, transposed(b))),
            "transpose of two": lambda a, b, c, d: transposed(Matmul(transposed(a), transposed(b))),
            "in order": lambda a, b, c, d: Permute(Matmul(transposed(a), transposed(b)), (0, 1)),
            "transposes in order": lambda a, b, c, d: transposed(
                Matmul(Permute(a, (0, 1)), Permute(b, (0, 1)))
            ),
            "transpose of no symmetric one": lambda a, b, c, d: transposed(Add(a, b)),
            "order of a symmetric one": lambda a, b, c, d: Permute(Add(a, transposed(a)), (0, 1)),
            "a triangle of the other": lambda a, b, c, d: triangle(triangle(a, True), False),
            "the other triangle of one": lambda a, b, c, d: triangle(triangle(a, False), True),
            "a triangle": lambda a, b, c, d: triangle(a, True),
            "a triangle beside ones": lambda a, b, c, d: Select(
                LessEqual(counted(a, -1), counted(a, -2)), triangle(a, True), splat(1, a.type)
            ),
            "between rows": lambda a, b, c, d: Select(
                LessEqual(counted(a, -2), counted(a, -2)), triangle(a, True), zeros(a.type)
            ),
            "a mask of vectors below": lambda a, b, c, d: Select(
                LessEqual(columns(Diagonal(b), a), rows(Diagonal(c), a)),
                triangle(a, True),
                zeros(a.type),
            ),
            "a mask of vectors above": lambda a, b, c, d: Select(
                LessEqual(rows(Diagonal(b), a), columns(Diagonal(c), a)),
                triangle(a, False),
                zeros(a.type),
            ),
            "another mask": lambda a, b, c, d: Select(
                LessEqual(b, a), triangle(a, True), zeros(a.type)
            ),
        },
    ),
    (
        ("n[B,N,N]", "n[B,N,N]"),
        {
            "batches of one": lambda a, b: Add(Matmul(a, b), Matmul(b, a)),
            "sum over batches": lambda a, b: Sum(Matmul(a, b), (0,)),
            "sum over batches and rows": lambda a, b: Sum(Matmul(a, b), (0, 1)),
            "sum over batches and columns": lambda a, b: Sum(Matmul(a, b), (0, 2)),
            "sum over rows": lambda a, b: Sum(Matmul(a, b), (1,)),
            "sum over columns": lambda a, b: Sum(Matmul(a, b), (2,)),
            "sum over all": lambda a, b: Sum(Matmul(a, b), (0, 1, 2)),
            "sum over both": lambda a, b: Sum(Matmul(a, b), (1, 2)),
            "sum over none": lambda a, b: Sum(Matmul(a, b), ()),
            "sum of turned ones": lambda a, b: Sum(Matmul(transposed(a), b), (0,)),
            "sum of rows of turned ones": lambda a, b: Sum(Matmul(transposed(a), b), (0, 1)),
            "sum of others turned": lambda a, b: Sum(Matmul(Permute(a, (0, 1, 2)), b), (0,)),
            "diagonals": lambda a, b: Diagonal(Matmul(a, b)),
            "diagonals of turned ones": lambda a, b: Diagonal(transposed(a)),
            "transposes": lambda a, b: transposed(Matmul(transposed(a), transposed(b))),
            "transposes of symmetric ones": lambda a, b: transposed(Add(a, transposed(a))),
            "against": lambda a, b: Sum(Mul(Matmul(a, b), a), (0, 1, 2)),
            "against, over batches and rows": lambda a, b: Sum(Mul(Matmul(a, b), a), (0, 1)),
            "last against, over batches and columns": lambda a, b: Sum(
                Mul(a, Matmul(a, b)), (0, 2)
            ),
            "identities in a sum": lambda a, b: Matmul(Add(eye(a), b), eye(a)),
        },
    ),
    (
        ("n[N,N]", "n[N,1]", "n[1,N]"),
        {
            "a turned sum": lambda a, u, v: Matmul(transposed(Add(a, Matmul(u, v))), a),
            "a sum in order": lambda a, u, v: Matmul(
                Add(Permute(a, (0, 1)), Matmul(u, v)), transposed(a)
            ),
            "a flat sum subtracted": lambda a, u, v: Matmul(
                Neg(_through_a_row(Neg, Add(a, Matmul(u, v)))), a
            ),
            "a flat sum turned": lambda a, u, v: Matmul(
                transposed(_through_a_row(Neg, Add(a, Matmul(u, v)))), a
            ),
            "a sum of many": lambda a, u, v: Matmul(
                reduce(Sub, (a,) * TERMS, Matmul(u, v)), transposed(a)
            ),
            "a sum of more than can be looked at": lambda a, u, v: Matmul(
                _doubled(Add, a), transposed(a)
            ),
            "a turned sum of many": lambda a, u, v: Matmul(
                transposed(reduce(Add, (a,) * TERMS, Matmul(u, v))), a
            ),
        },
    ),
    (
        ("n[2,3]", "n[3,4]", "n[2,4]", "n[4]"),
        {
            "a triangle of factors": lambda a, b, c, d: Sum(
                reduce(Mul, (_in(a, 0, 1), _in(b, 1, 2), _in(c, 0, 2))), (1,)
            ),
            "no columns": lambda a, b, c, d: Sum(Mul(_in(a, 0, 1), _in(a, 0, 1)), (1,)),
            "no rows": lambda a, b, c, d: Sum(Mul(_in(b, 1, 2), _in(b, 1, 2)), (1,)),
            "one factor repeated": lambda a, b, c, d: Sum(_in(a, 0, 1), (1,)),
            "no factor of the sum": lambda a, b, c, d: Sum(Mul(_in(c, 0, 2), _in(d, 2)), (1,)),
            "two matrices over nothing": lambda a, b, c, d: Sum(
                Mul(Broadcast(d, (4, 4), (0,)), Broadcast(d, (4, 4), (1,))), ()
            ),
            "many factors": lambda a, b, c, d: Sum(
                reduce(Mul, (_in(b, 1, 2),) * FACTORS, Mul(_in(b, 1, 2), _in(a, 0, 1))), (1,)
            ),
            "more factors than can be looked at": lambda a, b, c, d: Sum(
                Mul(_doubled(Mul, _in(b, 1, 2)), _in(a, 0, 1)), (1,)
            ),
            "separate": lambda a, b, c, d: Sum(Mul(_in(a, 0, 1), _in(d, 2)), (0, 2)),
            "separate, and nothing left": lambda a, b, c, d: Sum(
                Mul(_in(a, 0, 1), _in(d, 2)), (0, 1, 2)
            ),
        },
    ),
    (
        ("n[2,N,3,4]", "n[2,N,3,2]"),
        {
            "sum of some batches": lambda a, b: Sum(Matmul(transposed(a), b), (0,)),
            "sum of all batches": lambda a, b: Sum(Matmul(transposed(a), b), (0, 1)),
            "sum of other batches": lambda a, b: Sum(Matmul(transposed(a), b), (1,)),
            "sum of all": lambda a, b: Sum(Matmul(transposed(a), b), (0, 1, 2, 3)),
            "columns and a batch": lambda a, b: Sum(Matmul(transposed(a), b), (1, 3)),
            "rows and a batch": lambda a, b: Sum(Matmul(transposed(a), b), (0, 2)),
        },
    ),
    (
        ("n[2,2,2]", "n[2,2,2]"),
        {
            "turned around": lambda a, b: Sum(Matmul(Permute(a, (2, 0, 1)), b), (0,)),
            "batches exchanged": lambda a, b: Permute(
                Matmul(transposed(a), transposed(b)), (1, 0, 2)
            ),
            "exchanged in both": lambda a, b: Permute(
                Matmul(Permute(a, (1, 0, 2)), Permute(b, (1, 0, 2))), (1, 0, 2)
            ),
            "symmetric ones exchanged": lambda a, b: Permute(Add(a, transposed(a)), (1, 0, 2)),
            "diagonals of exchanged ones": lambda a, b: Diagonal(Permute(a, (2, 1, 0))),
            "diagonals of batches exchanged": lambda a, b: Diagonal(Permute(a, (1, 0, 2))),
            "batches of sums exchanged": lambda a, b: Permute(
                Add(a, Permute(a, (1, 0, 2))), (1, 0, 2)
            ),
        },
    ),
]
