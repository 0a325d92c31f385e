"""Products near to what the laws of linear algebra speak of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dlvm.ir import F64, I8, Value, splat, zeros
from dlvm.ops import (
    Add,
    Assume,
    Broadcast,
    Cast,
    Constant,
    Div,
    Equal,
    Gather,
    Iota,
    LessEqual,
    Matmul,
    Mul,
    Neg,
    Permute,
    Reshape,
    Select,
    Slice,
    Sub,
    Sum,
    transposed,
)
from dlvm.opt.algebra.examples import kron, one_hot, triangle

Made = Callable[..., Value]
Group = tuple[tuple[str, ...], dict[str, Made]]
"""The types of some parameters, and operations of them by name."""


def counted(x: Value, axis: int) -> Value:
    """The places along an axis of a matrix, repeated along the other."""
    return Broadcast(Iota(x.shape[axis]), x.shape, (x.type.rank + axis,))


def on_diagonal(x: Value) -> Value:
    """Where the diagonal of a matrix is."""
    return Equal(counted(x, -2), counted(x, -1))


def diagonal(u: Value, axis: int, other: float = 0) -> Value:
    """A vector on the diagonal, repeated along rows or columns before, and a number elsewhere."""
    n = u.shape[-1]
    batch = tuple(range(u.type.rank - 1))
    whole = Broadcast(u, (*u.shape, n), (*batch, u.type.rank - 1 + axis))
    return Select(on_diagonal(whole), whole, splat(other, whole.type))


def rows(u: Value, a: Value) -> Value:
    """A vector with an element for each row, repeated."""
    rank = a.type.rank
    return Broadcast(u, a.shape, (*range(rank - 2), rank - 2))


def columns(v: Value, a: Value) -> Value:
    """A vector with an element for each column, repeated."""
    rank = a.type.rank
    return Broadcast(v, a.shape, (*range(rank - 2), rank - 1))


TURN = ((0, 1, 0), (0, 0, -1), (1, 0, 0))
SWAP = ((0, 1, 0), (1, 0, 0), (0, 0, 1))


def orthogonal(like: Value, of: tuple[tuple[int, ...], ...] = TURN) -> Value:
    """A matrix of three rows that is known to be orthogonal."""
    return Assume(Constant(np.array(of, like.dtype.numpy)), "orthogonal")


def symmetric(a: Value) -> Value:
    """A matrix that is known to be symmetric, and not from how it is made."""
    return Assume(Mul(Add(a, transposed(a)), splat(1, a.type)), "symmetric")


def eye(a: Value) -> Value:
    """The identity of the size of a square matrix."""
    return Select(on_diagonal(a), splat(1, a.type), zeros(a.type))


def both_sides(left: Callable[..., Value]) -> dict[str, Made]:
    """A matrix before and after another one, as it is, turned, and within a longer product."""
    return {
        "before": lambda a, *r: Matmul(left(a, *r), a),
        "after": lambda a, *r: Matmul(a, left(a, *r)),
        "turned before": lambda a, *r: Matmul(transposed(left(a, *r)), a),
        "turned after": lambda a, *r: Matmul(a, transposed(left(a, *r))),
        "between": lambda a, *r: Matmul(Matmul(a, left(a, *r)), a),
        "in what is turned": lambda a, *r: Matmul(transposed(Matmul(a, left(a, *r))), a),
        "twice": lambda a, *r: Matmul(left(a, *r), left(a, *r)),
    }


SQUARE: dict[str, Callable[..., Value]] = {
    "diagonal by rows": lambda a, u, v: diagonal(u, 0),
    "diagonal by columns": lambda a, u, v: diagonal(u, 1),
    "ones beside a diagonal": lambda a, u, v: diagonal(u, 0, 1),
    "zeros on the diagonal": lambda a, u, v: Select(on_diagonal(a), zeros(a.type), rows(u, a)),
    "a matrix on the diagonal": lambda a, u, v: Select(on_diagonal(a), a, zeros(a.type)),
    "a vector under a triangle": lambda a, u, v: triangle(rows(u, a), True),
    "known to be diagonal": lambda a, u, v: Assume(
        Mul(diagonal(u, 0), splat(1, a.type)), "diagonal"
    ),
    "rows scaled": lambda a, u, v: Mul(rows(u, a), a),
    "rows scaled from the right": lambda a, u, v: Mul(a, rows(u, a)),
    "columns scaled": lambda a, u, v: Mul(columns(u, a), a),
    "columns scaled from the right": lambda a, u, v: Mul(a, columns(u, a)),
    "both scaled": lambda a, u, v: Mul(Mul(rows(u, a), a), columns(v, a)),
    "an outer product": lambda a, u, v: Mul(rows(u, a), columns(v, a)),
    "an outer product from the right": lambda a, u, v: Mul(columns(v, a), rows(u, a)),
    "two of rows": lambda a, u, v: Mul(rows(u, a), rows(v, a)),
    "two of columns": lambda a, u, v: Mul(columns(u, a), columns(v, a)),
    "a product of elements": lambda a, u, v: Mul(a, transposed(a)),
    "rows": lambda a, u, v: rows(u, a),
    "columns": lambda a, u, v: columns(u, a),
    "a number": lambda a, u, v: splat(2, a.type),
    "zeros": lambda a, u, v: zeros(a.type),
    "two numbers": lambda a, u, v: Mul(splat(2, a.type), splat(3, a.type)),
    "a number behind": lambda a, u, v: Mul(a, splat(2, a.type)),
    "a number before": lambda a, u, v: Mul(splat(2, a.type), a),
    "a sign": lambda a, u, v: Neg(a),
    "two signs": lambda a, u, v: Neg(Mul(Neg(a), splat(3, a.type))),
    "itself": lambda a, u, v: a,
    "itself turned": lambda a, u, v: transposed(a),
    "symmetric": lambda a, u, v: symmetric(a),
    "assumed twice": lambda a, u, v: Assume(symmetric(a), "symmetric"),
    "the identity": lambda a, u, v: eye(a),
    "a product": lambda a, u, v: Assume(Matmul(a, a), "nonnegative"),
    "a sum": lambda a, u, v: Add(a, transposed(a)),
    "a difference": lambda a, u, v: Sub(a, transposed(a)),
    "rows of the identity": lambda a, u, v: Select(
        rows(LessEqual(u, zeros(u.type)), a), eye(a), zeros(a.type)
    ),
    "a lower triangle": lambda a, u, v: triangle(a, True),
    "an upper triangle": lambda a, u, v: triangle(a, False),
}
"""Square matrices of some structure, or nearly so."""
DIVIDED: dict[str, Callable[..., Value]] = {
    "divided by a number": lambda a, s: Div(a, Broadcast(Abs1(s), a.shape, ())),
    "divided by a known one": lambda a, s: Div(a, splat(2, a.type)),
    "dividing a number": lambda a, s: Div(splat(2, a.type), Abs1(a)),
    "scaled by a number": lambda a, s: Mul(Broadcast(s, a.shape, ()), a),
}


def Abs1(x: Value) -> Value:
    """A power of two, so that no quotient is rounded."""
    return Select(LessEqual(x, zeros(x.type)), splat(2, x.type), splat(4, x.type))


ORTHOGONAL: dict[str, Made] = {
    "inverse first": lambda a, b: Matmul(transposed(orthogonal(a)), a),
    "squared": lambda a, b: (lambda q: Matmul(q, Matmul(q, a)))(orthogonal(a)),
    "inverse before": lambda a, b: (lambda q: Matmul(transposed(q), Matmul(q, a)))(orthogonal(a)),
    "inverse after": lambda a, b: (lambda q: Matmul(q, Matmul(transposed(q), a)))(orthogonal(a)),
    "after another": lambda a, b: (lambda q: Matmul(Matmul(b, transposed(q)), q))(orthogonal(a)),
    "around another": lambda a, b: (lambda q: Matmul(Matmul(transposed(q), b), q))(orthogonal(a)),
    "of a symmetric one": lambda a, b: (lambda q: Matmul(q, Matmul(q, a)))(
        Assume(orthogonal(a, SWAP), "symmetric")
    ),
    "of two": lambda a, b: Matmul(transposed(orthogonal(a)), Matmul(orthogonal(a, SWAP), a)),
    "in a sum": lambda a, b: (lambda q: Matmul(Add(transposed(q), b), q))(orthogonal(a)),
    "in a sum of a batch": lambda a, b: (
        lambda q: Matmul(Add(transposed(q), Broadcast(b, (2, 3, 3), (1, 2))), q)
    )(Assume(Broadcast(orthogonal(a), (2, 3, 3), (1, 2)), "orthogonal")),
    "nothing left": lambda a, b: (lambda q: Matmul(transposed(q), q))(orthogonal(a)),
    "none": lambda a, b: Matmul(transposed(b), Matmul(b, a)),
    "of a symmetric matrix": lambda a, b: (lambda s: Matmul(transposed(s), Matmul(s, a)))(
        symmetric(b)
    ),
}
VECTORS: dict[str, Made] = {
    "a row made a column": lambda a, r, c: Matmul(a, Reshape(r, (r.shape[1], 1))),
    "a column made a row": lambda a, r, c: Matmul(Reshape(c, (1, c.shape[0])), a),
    "a column times a row": lambda a, r, c: Matmul(c, r),
    "a row times a column": lambda a, r, c: Matmul(r, c),
    "a column times a row, then more": lambda a, r, c: Matmul(Matmul(c, r), a),
    "a row turned": lambda a, r, c: Matmul(a, transposed(r)),
    "rows that scale a column": lambda a, r, c: Matmul(a, Mul(c, Broadcast(c, c.shape, (0, 1)))),
}


def _swapped(x: Value) -> Value:
    return Reshape(x, (*x.shape[:-2], x.shape[-1], x.shape[-2]))


SHAPES: list[Group] = [
    (
        ("n[N]", "n[M]", "n[N,K]"),
        {
            "a row for each": lambda u, v, a: Matmul(
                Broadcast(u, (v.shape[0], u.shape[0]), (1,)), a
            ),
            "a column for each": lambda u, v, a: Matmul(
                Broadcast(v, (v.shape[0], u.shape[0]), (0,)), a
            ),
            "after, a row for each": lambda u, v, a: Matmul(
                transposed(a), Broadcast(v, (u.shape[0], v.shape[0]), (1,))
            ),
            "after, a column for each": lambda u, v, a: Matmul(
                transposed(a), Broadcast(u, (u.shape[0], v.shape[0]), (0,))
            ),
        },
    ),
    (("n[M,N]", "n[M,K]"), {"no transpose": lambda x, a: Matmul(_swapped(x), a)}),
    (("n[1,M,N]", "n[1,M,K]"), {"no transpose": lambda x, a: Matmul(_swapped(x), a)}),
    (("n[1,1,1,M,N]", "n[1,1,1,M,K]"), {"no transpose": lambda x, a: Matmul(_swapped(x), a)}),
    (
        ("n[1,6]", "n[3,K]"),
        {"a row made a matrix": lambda x, a: Matmul(Reshape(x, (2, 3)), a)},
    ),
    (("n[M,1,N]", "n[M,1,K]"), {"a row turned": lambda x, a: Matmul(_swapped(x), a)}),
    (("n[M,N,1]", "n[M,N,K]"), {"a column turned": lambda x, a: Matmul(_swapped(x), a)}),
    (
        ("n[1,2,N,1]", "n[2,1,N,K]"),
        {"other batch": lambda x, a: Matmul(Reshape(x, (2, 1, 1, x.shape[2])), a)},
    ),
    (("n[2,N]", "n[1,N,K]"), {"more axes": lambda x, a: Matmul(Reshape(x, (1, 2, x.shape[1])), a)}),
    (("n[1,N]", "n[N,N]"), {"a column": lambda x, a: Matmul(a, _swapped(x))}),
    (
        ("n[B,M,K]", "n[K,N]"),
        {
            "one for some axes": lambda x, y: Matmul(
                Reshape(x, (1, *x.shape)), Broadcast(y, (1, x.shape[0], *y.shape), (2, 3))
            ),
        },
    ),
    (
        ("n[M,K]", "n[K,N]"),
        {"one repeated to itself": lambda x, y: Matmul(x, Broadcast(y, y.shape, (0, 1)))},
    ),
    (
        ("n[B,M,K]", "n[B,N]"),
        {
            "rows for each": lambda x, y: Matmul(
                x, Broadcast(y, (x.shape[0], x.shape[2], y.shape[1]), (0, 2))
            )
        },
    ),
    (
        ("n[2,2,2]", "n[2,2]"),
        {
            "one in the first axes": lambda x, y: Matmul(x, Broadcast(y, (2, 2, 2), (0, 1))),
            "one in the outer axes": lambda x, y: Matmul(x, Broadcast(y, (2, 2, 2), (0, 2))),
            "repeated first": lambda x, y: Matmul(Broadcast(y, (2, 2, 2), (0, 1)), x),
            "repeated outside": lambda x, y: Matmul(Broadcast(y, (2, 2, 2), (0, 2)), x),
            "repeated for all": lambda x, y: Matmul(Broadcast(y, (2, 2, 2), (1, 2)), x),
            "turned for all": lambda x, y: Matmul(transposed(Broadcast(y, (2, 2, 2), (1, 2))), x),
            "turned otherwise": lambda x, y: Matmul(
                Permute(Broadcast(y, (2, 2, 2), (0, 1)), (1, 2, 0)), x
            ),
            "turned to the front": lambda x, y: Matmul(
                Permute(Broadcast(y, (2, 2, 2), (1, 2)), (2, 0, 1)), x
            ),
            "exchanged": lambda x, y: Matmul(Permute(x, (1, 0, 2)), x),
        },
    ),
    (("n[B,2,1,K]", "n[B,2,K,1]"), {"vectors of two axes": lambda x, y: Matmul(x, y)}),
    (
        ("n[B,2,M,K]", "n[B,2,K,N]", "n[B,2,N,1]"),
        {
            "two batch axes": lambda a, b, c: Matmul(a, Matmul(b, c)),
            "two batch axes turned": lambda a, b, c: Matmul(
                transposed(Matmul(b, c)), transposed(a)
            ),
        },
    ),
]


def _boxed(a: Value, b: Value, first: tuple[int, int], second: tuple[int, int], *to: int) -> Value:
    size = max(*first, *second) + 1
    shape = (2,) * size
    return Reshape(Mul(Broadcast(a, shape, first), Broadcast(b, shape, second)), to)


PICKING: list[Group] = [
    (
        ("n[2,2]", "n[2,2]", "n[4,3]"),
        {
            "kron": lambda a, b, x: Matmul(kron(a, b), x),
            "kron in order": lambda a, b, x: Matmul(Permute(kron(a, b), (0, 1)), x),
            "kron from the right": lambda a, b, x: Matmul(_boxed(a, b, (1, 3), (0, 2), 4, 4), x),
            "kron and one column": lambda a, b, x: Matmul(
                kron(a, b), Reshape(Sum(x, (1,)), (4, 1))
            ),
            "kron after": lambda a, b, x: Matmul(transposed(x), kron(a, b)),
            "kron turned after": lambda a, b, x: Matmul(transposed(x), transposed(kron(a, b))),
            "boxes": lambda a, b, x: Matmul(_boxed(a, b, (0, 1), (2, 3), 4, 4), x),
            "boxes across": lambda a, b, x: Matmul(_boxed(a, b, (1, 3), (0, 3), 4, 4), x),
            "boxes along": lambda a, b, x: Matmul(_boxed(a, b, (0, 2), (0, 3), 4, 4), x),
            "more boxes across": lambda a, b, x: Matmul(_boxed(a, b, (1, 3), (1, 2), 4, 4), x),
            "boxes within": lambda a, b, x: Matmul(_boxed(a, b, (2, 3), (0, 2), 4, 4), x),
            "other rows": lambda a, b, x: Matmul(
                _boxed(a, b, (0, 2), (1, 3), 8, 2), Reshape(Sum(x, (1,)), (2, 2))
            ),
        },
    ),
    (
        ("n[2,3]", "n[4,5]", "n[4,4]", "n[15,1]", "n[12,1]"),
        {
            "kron of other sizes and one column": lambda a, b, c, x, y: Matmul(kron(a, b), x),
            "kron of the identity and one column": lambda a, b, c, x, y: Matmul(kron(a, eye(c)), y),
            "kron behind the identity and one column": lambda a, b, c, x, y: Matmul(
                kron(eye(c), Slice(a, (0, 0), (2, 3), (1, 1))), y
            ),
        },
    ),
    (
        ("n[2,2]", "n[2,2]", "n[2,4,3]"),
        {
            "kron in a batch": lambda a, b, x: Matmul(
                Permute(Reshape(kron(a, b), (1, 4, 4)), (0, 2, 1)), Reshape(Sum(x, (0,)), (1, 4, 3))
            ),
            "kron of more axes": lambda a, b, x: Matmul(
                Reshape(
                    Mul(
                        Broadcast(a, (2, 2, 2, 2, 2), (0, 2)), Broadcast(b, (2, 2, 2, 2, 2), (1, 3))
                    ),
                    (8, 4),
                ),
                Sum(x, (0,)),
            ),
        },
    ),
    (
        ("i[M]", "n[8,N]", "n[M,N]"),
        {
            "one-hot": lambda i, w, g: Matmul(one_hot(i, w), w),
            "one-hot turned": lambda i, w, g: Matmul(transposed(one_hot(i, w)), g),
            "one-hot in order": lambda i, w, g: Matmul(Permute(one_hot(i, w), (0, 1)), w),
            "one-hot twice turned": lambda i, w, g: Matmul(
                transposed(transposed(one_hot(i, w))), w
            ),
            "places first": lambda i, w, g: Matmul(_hot(i, w, (0,), (1,), True), w),
            "narrow places": lambda i, w, g: Matmul(_hot(i, w, (0,), (1,), False, narrow=True), w),
            "doubled": lambda i, w, g: Matmul(Mul(one_hot(i, w), splat(2, one_hot(i, w).type)), w),
            "of a batch": lambda i, w, g: Matmul(
                Reshape(one_hot(i, w), (1, i.shape[0], 8)), Reshape(w, (1, *w.shape))
            ),
            "rows": lambda i, w, g: Matmul(Gather(w, i, 0, mode="clip"), transposed(w)),
            "rows of nearly the identity": lambda i, w, g: Matmul(
                Gather(triangle(splat(1, w.type.with_shape((8, 8))), True), i, 0, mode="clip"), w
            ),
            "columns of the identity": lambda i, w, g: Matmul(
                transposed(Gather(_eight(w), i, 1, mode="clip")), w
            ),
            "dropped rows of the identity": lambda i, w, g: Matmul(
                Gather(_eight(w), i, 0, mode="drop"), w
            ),
        },
    ),
    (
        ("i[8]", "n[8,N]"),
        {
            "one-hot columns": lambda i, w: Matmul(_hot(i, w, (1,), (0,), False), w),
            "one-hot columns turned": lambda i, w: Matmul(
                transposed(_hot(i, w, (1,), (0,), False)), w
            ),
            "columns that are their place": lambda i, w: Matmul(_hot(i, w, (1,), (1,), False), w),
            "places that are no whole numbers": lambda i, w: Matmul(
                _hot(Cast(i, F64), w, (0,), (1,), False, narrow=True), w
            ),
            "columns picked": lambda i, w: Matmul(Gather(_eight(w), i, 1, mode="clip"), w),
            "places in order": lambda i, w: Matmul(one_hot(Iota(3), w), w),
            "places in order and turned": lambda i, w: Matmul(
                transposed(one_hot(Iota(8), w, 3)), w
            ),
            "a window of a matrix": lambda i, w: Matmul(
                Slice(Matmul(w, transposed(w)), (1, 0), (3, 8), (2, 1)), w
            ),
            "a window of the identity, some columns": lambda i, w: Matmul(
                Slice(_eight(w), (1, 0), (3, 4), (2, 1)), Slice(w, (1, 0), (4, w.shape[1]), (2, 1))
            ),
            "a window of the identity from a column": lambda i, w: Matmul(
                Slice(_eight(w), (1, 1), (3, 4), (2, 1)), Slice(w, (1, 0), (4, w.shape[1]), (2, 1))
            ),
            "a window of the identity, turned": lambda i, w: Matmul(
                transposed(Slice(_eight(w), (7, 0), (8, 5), (-1, 1))), w
            ),
            "places alone": lambda i, w: Matmul(_eight(w), w),
        },
    ),
    (
        ("i[M]", "n[256,N]"),
        {
            "places in bytes": lambda i, w: Matmul(
                _hot(Cast(i, I8), w, (0,), (1,), False, narrow=True), w
            ),
        },
    ),
    (
        ("i[B]", "n[B,N,N]"),
        {
            "identities": lambda i, z: Matmul(Gather(eye(z), i, 0, mode="drop"), z),
        },
    ),
    (
        ("i[2,4]", "n[4,N]", "n[2,N]"),
        {
            "one-hot of two axes": lambda i, w, g: Matmul(Reshape(one_hot(i, w, 4), (8, 4)), w),
            "one-hot in other rows": lambda i, w, g: Matmul(Reshape(one_hot(i, w, 4), (16, 2)), g),
            "one-hot in two axes": lambda i, w, g: Matmul(
                one_hot(i, w, 4), Broadcast(w, (2, *w.shape), (1, 2))
            ),
        },
    ),
]


def _eight(like: Value) -> Value:
    """The identity of eight rows."""
    return eye(splat(1, like.type.with_shape((8, 8))))


def _hot(
    i: Value, like: Value, of: tuple[int], places: tuple[int], first: bool, narrow: bool = False
) -> Value:
    size = like.shape[0] if narrow else 8
    shape = (i.shape[0], size)
    count = Iota(size, i.dtype) if narrow else Iota(8)
    index = i if narrow else Cast(i, count.dtype)
    a, b = Broadcast(index, shape, of), Broadcast(count, shape, places)
    return Cast(Equal(b, a) if first else Equal(a, b), like.dtype)


BATCHED: list[Group] = [
    (
        ("n[N]", "n[B,N,N]"),
        {
            "scaled alike by rows": lambda u, a: Matmul(Mul(Broadcast(u, a.shape, (1,)), a), a),
            "scaled alike by columns": lambda u, a: Matmul(Mul(Broadcast(u, a.shape, (2,)), a), a),
        },
    ),
    (
        ("n[B,N,N]", "i[B]"),
        {"rows of identities": lambda z, i: Matmul(Gather(eye(z), i, 0, mode="clip"), z)},
    ),
    (
        ("n[B,2,3,1,K]", "n[B,2,3,K,1]"),
        {"many products of vectors": Matmul},
    ),
    (
        ("i[8]", "n[8,N]"),
        {"places against rows": lambda i, w: Matmul(_hot(i, w, (0,), (0,), False), w)},
    ),
]


def groups() -> Iterator[Group]:
    """All of products."""
    for makes in SQUARE.values():
        yield ("n[N,N]", "n[N]", "n[N]"), both_sides(makes)
    for makes in DIVIDED.values():
        yield ("f[N,N]", "f[]"), both_sides(makes)
    for name in (
        "diagonal by rows",
        "rows scaled",
        "columns scaled",
        "an outer product",
        "rows",
        "columns",
        "a number",
        "the identity",
    ):
        yield ("n[B,N,N]", "n[B,N]", "n[B,N]"), both_sides(SQUARE[name])
    for name in ("columns scaled", "an outer product", "columns", "rows"):
        yield ("n[2,B,N,N]", "n[2,B,N]", "n[2,B,N]"), both_sides(SQUARE[name])
    yield ("n[3,N]", "n[3,3]"), ORTHOGONAL
    yield ("n[N,N]", "n[1,N]", "n[N,1]"), VECTORS
    yield from SHAPES
    yield from PICKING
    yield from BATCHED
