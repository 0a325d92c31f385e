"""Places what depends on ranks: in small programs alone, for a mesh of one rank.

Random programs don't have it, as they run without a mesh.
"""

from __future__ import annotations

from typing import Any

from dlvm.ir import Op
from dlvm.ops.flow import collectives as ranked
from dlvm.ops.literals import Constant

from .drafts import Draft
from .families import places

MESH = "data=1"


@places(ranked.Ranked)
def _ranked(d: Draft, cls: Any) -> Op:
    """Of one rank, so every piece is the whole."""
    one, x = (("data",), MESH), d.value(rank=1)
    axis = d.integer(0, x.type.rank - 1)
    full = x.shape[axis]
    if cls is ranked.RankIndex:
        return cls(*one)
    if cls is ranked.ShardOf:
        return cls(*one, axis, x)
    if cls is ranked.MaskShard:
        return cls(*one, axis, x, Constant(d.array(x.type.with_shape(()))), full)
    xs = tuple(d.like(x.type) for _ in range(d.integer(1, 2)))
    per_operand: dict[type[Op], tuple[Any, ...]] = {
        ranked.AllReduce: (d.choose(("add", "mul", "max", "min")),),
        ranked.AllGather: ((axis,) * len(xs), (full,) * len(xs)),
        ranked.ReduceScatter: ((axis,) * len(xs), "max"),
        ranked.AllToAll: ((axis,) * len(xs), (axis,) * len(xs), (full,) * len(xs)),
        ranked.PermuteRanks: ((0,),),
    }
    return cls(*one, xs, *per_operand[cls])
