"""Values of a frame that are kept from the sweep that folds them to those that come after.

In a softmax the exponentials are summed, then divided by their sum. They are computed once: the
first sweep writes them where the result will be, the second reads them there. That is so for an
operand of a reduction that costs more than to write and read it, is used later, and has the
type of a result whose room is free until then.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm import cost
from dlvm.gen.loops.statements import Buffer
from dlvm.ir import Dim, Function, Part, Value
from dlvm.ops import Elementwise, Reduction

DEAR = 2 * (cost.ACCESS + cost.ACCESS)
"""Instructions of a value that is kept: twice what it takes to write and to read it."""


def keeping(
    body: Function, shape: tuple[Dim, ...], targets: Sequence[tuple[Value, Buffer]]
) -> dict[Value, Buffer]:
    """Which values are kept, and in which of the buffers of results."""
    whole = {v for op in body.ops for v in op.results if v.shape == shape}
    users = {v: [op for op in body.ops if v in op.operands] for v in whole}
    if any(not isinstance(op, Elementwise | Reduction) for v in whole for op in users[v]):
        return {}  # somebody reads a value at another index
    kept: dict[Value, Buffer] = {}
    rooms = [b for v, b in targets if v.shape == shape]
    for v in (v for op in body.ops for v in op.results if v in whole):
        room = next((b for b in rooms if b.dtype == v.dtype and b not in kept.values()), None)
        folded = any(isinstance(op, Reduction) for op in users[v])
        later = any(isinstance(op, Elementwise) for op in users[v])
        if room is not None and folded and later and _cost(v, whole) >= DEAR:
            kept[v] = room
    return kept


def _cost(value: Value, whole: set[Value]) -> int:
    """Instructions to compute an element again from what does not change along a row."""
    count, pending, seen = cost.Count(), [value], {value}
    while pending:
        op = pending.pop()
        op = op.op if isinstance(op, Part) else op
        if isinstance(op, Elementwise):
            op.scalar(count, *(x.dtype.compute for x in op.operands))
            fresh = [x for x in dict.fromkeys(op.operands) if x in whole and x not in seen]
            pending += fresh
            seen.update(fresh)
    return count.instructions
