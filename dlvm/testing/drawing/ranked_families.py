"""Places what depends on ranks: in small programs alone, for a mesh of one rank.

Random programs don't have it, as they run without a mesh.
"""

from __future__ import annotations

from typing import Any

from dlvm.ir import F32, F64, Op, TensorType
from dlvm.ops.flow.ranked import Ranked

from .drafts import Draft
from .families import places

MESH = "data=1"


@places(Ranked)
def _ranked(d: Draft, cls: Any) -> Op:
    """Of one rank, so every piece is the whole."""
    names = {spec.name for spec in cls.layout}
    x = d.value("iuf" if "word" in names else "biuf", rank=1)
    if cls.exchanged == "sum" and x.dtype not in (F32, F64):
        x = d.fresh(TensorType(F32, x.shape))
    axis = d.integer(0, x.type.rank - 1)
    rows = (1,) if cls.exchanged == "swap" else ()
    xs = tuple(d.like(x.type.with_shape((*rows, *x.shape))) for _ in range(d.integer(1, 2)))
    each = len(xs) if "xs" in names else 1
    values: dict[str, Any] = {"axes": ("data",), "mesh": MESH, "sources": (0,)}
    values |= {"x": x, "axis": axis, "xs": xs, "word": d.choose(("add", "mul", "max", "min"))}
    values |= dict.fromkeys(("dims", "gathered", "cut"), (axis,) * each)
    values["full"] = (x.shape[axis],) * each if "xs" in names else x.shape[axis]
    values["fill"] = d.fresh(x.type.with_shape(())) if "fill" in names else None
    return cls(**{name: values[name] for name in names})
