"""Sizes that may be negative in a call, which tracing can't decide: ``x.shape[0] - 5``.

Each call checks such sizes before anything runs, because the memory plan assumes that no size is
negative. Programs without such a size, which are nearly all, pay nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlvm.base.errors import Origin, ShapeError
from dlvm.ir import Dim, Expr, Module
from dlvm.ir.sizes.dims import at_least, evaluate, symbols


@dataclass(frozen=True, slots=True)
class Doubt:
    """A size that is not known to be 0 or more, and the line that first made it."""

    size: Dim
    origin: Origin | None


def doubts(module: Module) -> Sequence[Doubt]:
    """The doubtful sizes of a traced module, in symbols of its arguments, each once."""
    known = {s for p in module.main.params for d in p.type.shape for s in symbols(d)}
    if not known:
        return ()
    seen: dict[Dim, Origin | None] = {}
    for fn in module.functions:
        for op in fn.walk():
            for d in (d for t in op.result_types for d in t.shape if isinstance(d, Expr)):
                seen.setdefault(d, op.origin)
    return [Doubt(d, at) for d, at in seen.items() if not at_least(d, 0) and {*symbols(d)} <= known]


def check(found: Sequence[Doubt], sizes: Mapping[str, int]) -> None:
    """Refuses a call in which one of the sizes is negative."""
    for doubt in found:
        size = evaluate(doubt.size, sizes)
        if size < 0:
            values = ", ".join(f"{s} = {sizes[s]}" for s in dict.fromkeys(symbols(doubt.size)))
            raise ShapeError(
                f"a size can't be negative: {doubt.size} is {size} where {values}",
                origin=doubt.origin,
                remedy="call it with larger arrays, or slice: x[5:] is empty where x is shorter",
                sides=(doubt.size, 0),
            )
