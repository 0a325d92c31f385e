"""Pairs of forms of one thing: as one writes it, and as an expert would, with its flops by hand.

Sizes are functions of n. ``flops`` counts what the expert's form computes: an addition or a
multiplication is one, m x k times k x n is 2mkn, a sum of n numbers n. The benchmark ``pairs``
races the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import dlvm
from dlvm.ir.sizes.dims import evaluate


@dataclass(frozen=True, slots=True)
class Pair:
    """One computation in two forms; ``types`` and ``flops`` are given n."""

    name: str
    naive: Callable[..., Any]
    expert: Callable[..., Any]
    types: Callable[[int], tuple[str, ...]]
    flops: Callable[[int], float]
    prepared: Callable[[Any], Any] = lambda x: x
    """What makes the arguments of a pair what it assumes of them."""


def square(*letters: str) -> Callable[[int], tuple[str, ...]]:
    """Types by letter: M a matrix, v a vector, I indices; s a number, i an index."""
    shapes = {"M": "f64[{n},{n}]", "v": "f64[{n}]", "s": "f64[]", "i": "i64[]", "I": "i64[{n}]"}
    return lambda n: tuple(shapes[x].format(n=n) for x in "".join(letters))


def symmetric(a: Any) -> Any:
    """The symmetric part of a square matrix, doubled."""
    return a + a.T if a.ndim == 2 else a


def orthogonal(a: Any) -> Any:
    """An orthogonal matrix with the same columns, one after the other, in its span."""
    return np.linalg.qr(a)[0]


def typed(*types: str) -> Callable[[int], tuple[str, ...]]:
    """Types with n, and with n/8 as k."""
    return lambda n: tuple(t.replace("n", str(n)).replace("k", str(n // 8)) for t in types)


def arrays(pair: Pair, n: int) -> list[Any]:
    """Random arguments of a pair."""
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for t in (dlvm.spec(text).type for text in pair.types(n)):
        shape = tuple(evaluate(d, {}) for d in t.shape)
        if t.dtype.is_float:
            found.append(pair.prepared(rng.standard_normal(shape)))
        else:
            found.append(rng.permutation(n) if shape else np.asarray(5))
    return found


def pairs(w: Any) -> tuple[Pair, ...]:
    """The pairs in some library's words, of which ``w`` has those that they need."""

    def network(w1: Any, w2: Any, x: Any, y: Any) -> Any:
        return ((w.tanh(x @ w1) @ w2 - y) ** 2).sum()

    def network_by_hand(w1: Any, w2: Any, x: Any, y: Any) -> Any:
        h = w.tanh(x @ w1)
        d = 2 * (h @ w2 - y)
        return x.T @ ((d @ w2.T) * (1 - h * h)), h.T @ d

    return (
        Pair(
            "chain with a vector",
            lambda a, b, v: a @ b @ v,
            lambda a, b, v: a @ (b @ v),
            square("MMv"),
            lambda n: 4 * n**2,
        ),
        Pair(
            "chain of five",
            lambda a, b, c, d, v: a @ b @ c @ d @ v,
            lambda a, b, c, d, v: a @ (b @ (c @ (d @ v))),
            square("MMMMv"),
            lambda n: 8 * n**2,
        ),
        Pair(
            "chain by shape",
            lambda a, b, c: a @ (b @ c),
            lambda a, b, c: (a @ b) @ c,
            typed("f64[k,n]", "f64[n,k]", "f64[k,n]"),
            lambda n: 4 * n * (n // 8) ** 2,
        ),
        Pair(
            "transpose of a product",
            lambda a, b, v: (a @ b).T @ v,
            lambda a, b, v: b.T @ (a.T @ v),
            square("MMv"),
            lambda n: 4 * n**2,
        ),
        Pair(
            "a number before a matrix",
            lambda a, v: (2.5 * a) @ v,
            lambda a, v: 2.5 * (a @ v),
            square("Mv"),
            lambda n: 2 * n**2 + n,
        ),
        Pair(
            "two numbers",
            lambda s, t, a, b, v: (s * a) @ (b / t) @ v,
            lambda s, t, a, b, v: a @ (b @ v) * s / t,
            square("ssMMv"),
            lambda n: 4 * n**2 + 2 * n,
        ),
        Pair(
            "a sign",
            lambda a, v: (-a) @ v,
            lambda a, v: -(a @ v),
            square("Mv"),
            lambda n: 2 * n**2 + n,
        ),
        Pair(
            "power times a vector",
            lambda a, v: w.matrix_power(a, 5) @ v,
            lambda a, v: a @ (a @ (a @ (a @ (a @ v)))),
            square("Mv"),
            lambda n: 10 * n**2,
        ),
        Pair(
            "shared product",
            lambda a, b: (a @ b) @ (a @ b),
            lambda a, b: w.matrix_power(a @ b, 2),
            square("MM"),
            lambda n: 4 * n**3,
        ),
        Pair(
            "common left factor",
            lambda a, b, c: a @ b + a @ c,
            lambda a, b, c: a @ (b + c),
            square("MMM"),
            lambda n: 2 * n**3 + n**2,
        ),
        Pair(
            "common right factor",
            lambda a, b, c: b @ a - c @ a,
            lambda a, b, c: (b - c) @ a,
            square("MMM"),
            lambda n: 2 * n**3 + n**2,
        ),
        Pair(
            "three terms",
            lambda a, b, c, d: a @ b + a @ c + a @ d,
            lambda a, b, c, d: a @ (b + c + d),
            square("MMMM"),
            lambda n: 2 * n**3 + 2 * n**2,
        ),
        Pair(
            "row of a product",
            lambda a, b: (a @ b)[3],
            lambda a, b: a[3] @ b,
            square("MM"),
            lambda n: 2 * n**2,
        ),
        Pair(
            "columns of a product",
            lambda a, b: (a @ b)[:, 2:5],
            lambda a, b: a @ b[:, 2:5],
            square("MM"),
            lambda n: 6 * n**2,
        ),
        Pair(
            "element of a product",
            lambda a, b: (a @ b)[2, 3],
            lambda a, b: (a[2] * b[:, 3]).sum(),
            square("MM"),
            lambda n: 2 * n,
        ),
        Pair(
            "row by index",
            lambda a, b, i: (a @ b)[i],
            lambda a, b, i: a[i] @ b,
            square("MMi"),
            lambda n: 2 * n**2,
        ),
        Pair(
            "sum of a product",
            lambda a, b: (a @ b).sum(),
            lambda a, b: (a.sum(0) * b.sum(1)).sum(),
            square("MM"),
            lambda n: 2 * n**2 + 2 * n,
        ),
        Pair(
            "column sums of a chain",
            lambda a, b, c: (a @ b @ c).sum(0),
            lambda a, b, c: (a.sum(0) @ b) @ c,
            square("MMM"),
            lambda n: 5 * n**2,
        ),
        Pair(
            "row means of a product",
            lambda a, b: (a @ b).mean(1),
            lambda a, b: a @ b.sum(1) / len(b),
            square("MM"),
            lambda n: 3 * n**2 + n,
        ),
        Pair(
            "trace of a product",
            lambda a, b: w.trace(a @ b),
            lambda a, b: (a * b.T).sum(),
            square("MM"),
            lambda n: 2 * n**2,
        ),
        Pair(
            "trace of a thin product",
            lambda a, b, c: w.trace(a @ b @ c),
            lambda a, b, c: ((b @ c) * a.T).sum(),
            typed("f64[n,k]", "f64[k,n]", "f64[n,n]"),
            lambda n: 2 * n**2 * (n // 8) + 2 * n * (n // 8),
        ),
        Pair(
            "diagonal of a product",
            lambda a, b: w.diagonal(a @ b),
            lambda a, b: (a * b.T).sum(1),
            square("MM"),
            lambda n: 2 * n**2,
        ),
        Pair(
            "diagonal factor",
            lambda d, a: w.diag(d) @ a,
            lambda d, a: d[:, None] * a,
            square("vM"),
            lambda n: n**2,
        ),
        Pair(
            "diagonal between",
            lambda a, d, b: a @ w.diag(d) @ b,
            lambda a, d, b: (a * d) @ b,
            square("MvM"),
            lambda n: 2 * n**3 + n**2,
        ),
        Pair(
            "outer factor",
            lambda u, v, a: w.outer(u, v) @ a,
            lambda u, v, a: w.outer(u, v @ a),
            square("vvM"),
            lambda n: 3 * n**2,
        ),
        Pair(
            "rank-one change",
            lambda a, u, v, x: (a + w.outer(u, v)) @ x,
            lambda a, u, v, x: a @ x + u * (v @ x),
            square("Mvvv"),
            lambda n: 2 * n**2 + 4 * n,
        ),
        Pair(
            "reflection",
            lambda v, a: (w.eye(len(v)) - 2 * w.outer(v, v)) @ a,
            lambda v, a: a - w.outer(v, 2 * (v @ a)),
            square("vM"),
            lambda n: 4 * n**2 + n,
        ),
        Pair(
            "product in a sum",
            lambda a, b, c, v: (a @ b + c) @ v,
            lambda a, b, c, v: a @ (b @ v) + c @ v,
            square("MMMv"),
            lambda n: 6 * n**2 + n,
        ),
        Pair(
            "identity factor",
            lambda a, b: w.eye(len(a)) @ a @ b,
            lambda a, b: a @ b,
            square("MM"),
            lambda n: 2 * n**3,
        ),
        Pair(
            "one-hot rows",
            lambda i, a: w.one_hot(i, a.shape[0]) @ a,
            lambda i, a: w.take(a, w.where(i < 0, len(a), i)),
            square("IM"),
            lambda n: 0,
        ),
        Pair(
            "permutation",
            lambda i, a: w.eye(a.shape[0])[i] @ a,
            lambda i, a: a[i],
            square("IM"),
            lambda n: 0,
        ),
        Pair(
            "Kronecker product",
            lambda a, b, x: w.kron(a, b) @ x,
            lambda a, b, x: (a @ (x.reshape(a.shape[1], b.shape[1]) @ b.T)).reshape(-1),
            typed("f64[k,k]", "f64[8,8]", "f64[n]"),
            lambda n: 2 * (n // 8) * 64 + 2 * (n // 8) ** 2 * 8,
        ),
        Pair(
            "gradient of a sum",
            w.grad(lambda a, b: (a @ b).sum()),
            lambda a, b: w.repeat(b.sum(1), a.shape),
            square("MM"),
            lambda n: n**2,
        ),
        Pair(
            "gradient of a chain",
            w.grad(lambda v, a, b: (a @ b @ v).sum()),
            lambda v, a, b: a.sum(0) @ b,
            square("vMM"),
            lambda n: 3 * n**2,
        ),
        Pair(
            "gradient of a trace",
            w.grad(lambda a, b, c: w.trace(a @ b @ c)),
            lambda a, b, c: (b @ c).T,
            square("MMM"),
            lambda n: 2 * n**3,
        ),
        Pair(
            "gradient of a quadratic form",
            w.grad(lambda x, a: x @ w.assume(a, "symmetric") @ x),
            lambda x, a: 2 * (a @ x),
            square("vM"),
            lambda n: 2 * n**2 + n,
            symmetric,
        ),
        Pair(
            "transpose of a symmetric product",
            lambda a, b: (a.T @ a).T @ b,
            lambda a, b: a.T @ a @ b,
            square("MM"),
            lambda n: 4 * n**3,
        ),
        Pair(
            "orthogonal factors",
            lambda q, a, b: (w.assume(q, "orthogonal") @ a).T @ (w.assume(q, "orthogonal") @ b),
            lambda q, a, b: a.T @ b,
            square("MMM"),
            lambda n: 2 * n**3,
            orthogonal,
        ),
        Pair(
            "determinant of triangles",
            lambda a, b: w.diagonal(w.tril(a) @ w.tril(b)).prod(),
            lambda a, b: (w.diagonal(a) * w.diagonal(b)).prod(),
            square("MM"),
            lambda n: 2 * n,
        ),
        Pair(
            "gradient of a network",
            w.grad(network, (0, 1)),
            network_by_hand,
            square("MMMM"),
            lambda n: 10 * n**3 + 8 * n**2,
        ),
    )


PAIRS = pairs(
    SimpleNamespace(
        assume=dlvm.assume,
        diag=dlvm.diag,
        diagonal=dlvm.linalg.diagonal,
        eye=dlvm.eye,
        grad=lambda f, wrt=0: dlvm.grad(f, wrt=wrt),
        kron=dlvm.kron,
        matrix_power=dlvm.linalg.matrix_power,
        one_hot=dlvm.nn.one_hot,
        outer=dlvm.outer,
        repeat=dlvm.broadcast_to,
        take=lambda x, i: dlvm.take(x, i, axis=0, mode="drop"),
        tanh=dlvm.tanh,
        trace=dlvm.linalg.trace,
        tril=dlvm.tril,
        where=dlvm.where,
    )
)
