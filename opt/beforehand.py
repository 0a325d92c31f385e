"""Which values need no call to be known: those that are computed of constants only.

``prepare`` computes them when the program is made. Laws that move work from what depends on
arguments to what does not ask here.
"""

from __future__ import annotations

from typing import Any

from dlvm.cost import typical
from dlvm.ir import Op, Value
from dlvm.ir.sizes.dims import Expr
from dlvm.ops.families import Creation, Elementwise, IndexMap, Reduction

DEEP = 32
"""Operations behind a value that are looked at."""


def same_everywhere(op: Op) -> bool:
    """Whether all machines compute the same bits, of sizes that are known."""
    if op.results != (op,) or op.may_raise or _is_open((op.type.shape, *op.attributes.values())):
        return False
    if isinstance(op, Elementwise):
        return op.ulp <= 0.5
    moved = isinstance(op, IndexMap | Creation)
    return moved or (isinstance(op, Reduction) and not op.dtype.is_float)


def is_known(value: Value) -> bool:
    """Whether a value is computed of constants, by few operations, to the same bits everywhere."""
    return bool(_known_cone(value))


def _known_cone(value: Value) -> set[Op]:
    """The operations by which a value is computed of constants only; none if it is not."""
    found: set[Op] = set()
    pending = [value]
    while pending:
        v = pending.pop()
        if v in found:
            continue
        if not isinstance(v, Op) or not same_everywhere(v) or len(found) == DEEP:
            return set()
        found.add(v)
        pending += v.operands
    return found


def is_prepared(op: Op) -> bool:
    """Whether a value is known and no larger than the constants that it is computed of.

    ``prepare`` keeps such a value, so computing it costs nothing.
    """
    sizes = [typical(v.type.size) for v in _known_cone(op) if not v.operands]
    return bool(sizes) and typical(op.type.size) <= sum(sizes)


def _is_open(attribute: Any) -> bool:
    """Whether a size that is not known while tracing stands in an attribute."""
    if isinstance(attribute, tuple):
        return any(map(_is_open, attribute))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(attribute, Expr)
