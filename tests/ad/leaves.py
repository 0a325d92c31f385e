"""Programs for each leaf operation, on symbolic sizes: written here, or else drawn.

What is written has the attributes in which a derivative is easily wrong. An operation that is not
named here has a program all the same, as the random programs place it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dlvm import ops
from dlvm.ir import F64, OPS, Op, TensorType
from dlvm.ir.rewrite import inline
from dlvm.ir.sizes.dims import symbol
from dlvm.testing.drawing.domains import tamed
from tests.table import sample

N, M = symbol("N"), symbol("M")
SIZES = ({"N": 0, "M": 2}, {"N": 1, "M": 1}, {"N": 3, "M": 2})
AB = "f64[N,M] f64[N,M]"


Leaf = tuple[str | Sequence[TensorType], Callable[..., Any]]
"""The types of the parameters, and what builds the results."""
LEAVES: dict[str, Leaf] = {
    "square": ("f64[N,M]", lambda a: a * a),
    "div": (AB, lambda a, b: a / b),
    "select": (AB, lambda a, b: ops.Select(ops.Less(a, b), a * b, a / b)),
    "cast": ("f64[N,M]", lambda a: ops.Cast(ops.Cast(a, F64), F64)),
    "polygamma": ("f64[N,M]", lambda a: ops.Polygamma(a * a + 0.5, 1)),
    "modf": ("f64[N,M]", lambda a: ops.Modf(a * 0.5).results),
    "broadcast": ("f64[M]", lambda a: ops.Broadcast(a * a, (3, M, 2), (1,))),
    "permute": ("f64[N,M,2]", lambda a: ops.Permute(a * a, (2, 0, 1))),
    "reshape": ("f64[N,M]", lambda a: ops.Reshape(a * a, (M * N,))),
    "slice": ("f64[N,5]", lambda a: ops.Slice(a * a, (0, 3), (N, 2), (1, -2))),
    "update": (
        "f64[N,5] f64[N,2]",
        lambda a, b: ops.Update(a * a, b * b, (0, 1), (1, 2)),
    ),
    "concat": ("f64[N,2] f64[N,M]", lambda a, b: ops.Concat((a * a, b * b, a), 1)),
    "pad": ("f64[N,M]", lambda a: ops.Pad(a * a, (1, N), (0, 2))),
    "diagonal": ("f64[M,N,N]", lambda a: ops.Diagonal(a * a)),
    "patches": (
        "f64[N+3,7]",
        lambda a: ops.Patches(a * a, (0, 1), (2, 3), (1, 2), (2, 1)),
    ),
    "unpatch": (
        "f64[N,3,2,3]",
        lambda a: ops.Unpatch(a * a, (0, 1), (N + 1, 8), (1, 2), (1, 1)),
    ),
    "sum": ("f64[N,M]", lambda a: ops.Sum(a * a, (0,))),
    "max": ("f64[N,M]", lambda a: ops.Max(a * a, (1,))),
    "min": ("f64[N,M]", lambda a: ops.Min(a * a, (1,))),
    "prod": ("f64[N,M]", lambda a: ops.Prod(a, (1,))),
    "logsumexp": ("f64[N,3]", lambda a: ops.LogSumExp(a, (1,))),
    "cumulative_sum": ("f64[N,M]", lambda a: ops.CumulativeSum(a * a, 0)),
    "cumulative_sum exclusive": (
        "f64[N,M]",
        lambda a: ops.CumulativeSum(a * a, 1, reverse=True, exclusive=True),
    ),
    "cumulative_max": ("f64[N,M]", lambda a: ops.CumulativeMax(a * a, 0)),
    "cumulative_max exclusive": (
        "f64[2,N]",
        lambda a: ops.Exp(ops.CumulativeMax(a * a, 1, True, True)),
    ),
    "cumulative_min": ("f64[N,M]", lambda a: ops.CumulativeMin(a * a, 0, True)),
    "cumulative_prod": ("f64[N,M]", lambda a: ops.CumulativeProd(a, 0)),
    "cumulative_prod exclusive": ("f64[N,M]", lambda a: ops.CumulativeProd(a, 1, True, True)),
    "sort": ("f64[N,M]", lambda a: ops.Sort(a * a).results[0]),
    "sort descending": ("f64[2,N]", lambda a: ops.Sort(a, True).results[0]),
    "cumulative_logsumexp": ("f64[N,M]", lambda a: ops.CumulativeLogSumExp(a, 0)),
    "cumulative_logsumexp exclusive": (
        "f64[N,M]",
        lambda a: ops.Exp(ops.CumulativeLogSumExp(a, 0, True, True)),
    ),
    "linear_recurrence": (AB, lambda a, b: ops.LinearRecurrence(a, b, 0)),
    "linear_recurrence exclusive": (
        AB,
        lambda a, b: ops.LinearRecurrence(a, b, 1, reverse=True, exclusive=True),
    ),
    "matmul": ("f64[N,2,M] f64[N,M,3]", ops.Matmul),
    "gather": (
        "f64[N,5] i64[3]",
        lambda a, i: ops.Gather(a * a, i + 1, 1),
    ),
    "gather drop": (
        "f64[N,5] i64[3]",
        lambda a, i: ops.Gather(a * a, i * 9, 1, 0, "drop"),
    ),
    "gather batched": (
        "f64[N,5] i64[N,3]",
        lambda a, i: ops.Gather(a * a, i + 1, 1, 1),
    ),
    "scatter_add": (
        "f64[N,5] i64[3] f64[N,3]",
        lambda a, i, u: ops.ScatterAdd(a * a, i, u * u, 1),
    ),
    "scatter_set": (
        "f64[N,5] i64[3] f64[N,3]",
        lambda a, i, u: ops.ScatterSet(a * a, i, u * u, 1),
    ),
    "scatter_set one": (
        "f64[5,N] i64 f64[N]",
        lambda a, i, u: ops.ScatterSet(a * a, i, u * u, 0, 0, "clip"),
    ),
    "exchange": (
        "f64[N,5] i64[3] f64[N,3]",
        lambda a, i, u: ops.Exchange(a * a, i * 0, u * u, 1).results,
    ),
    "scatter_mul": (
        "f64[N,5] i64[3] f64[N,3]",
        lambda a, i, u: ops.ScatterMul(a, i * 0, u, 1),
    ),
    "scatter_max": (
        "f64[N,5] i64[3] f64[N,3]",
        lambda a, i, u: ops.ScatterMax(a * a, i, u * u, 1),
    ),
    "scatter_min": (
        "f64[N,5] i64[3] f64[N,3]",
        lambda a, i, u: ops.ScatterMin(a * a, i * 2, u * u, 1, 0, "drop"),
    ),
}


def leaf_of(cls: type[Op]) -> Leaf:
    """A program with an operation of a class that has no own one here."""
    plain = issubclass(cls, ops.Elementwise)
    if plain and not any(s.required for s in cls.layout if s.kind != "operand"):
        types = " ".join("f64[N,M]" for s in cls.layout if s.kind == "operand")
        return types, lambda *xs: cls(*tamed(cls, list(xs))).results
    found = (sample(cls, seed, {"N": 3, "M": 2}) for seed in range(200))
    main = next(program.module.main for program in found if program is not None)
    return main.signature.params, lambda *xs: inline(main, xs)


for _cls in OPS.values():
    _known = issubclass(_cls, ops.Control | ops.Creation) or _cls.nondifferentiable
    if not _known and _cls.name not in LEAVES:
        LEAVES[_cls.name] = leaf_of(_cls)
