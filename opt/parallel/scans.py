"""Long running scans in chunks: each chunk by itself, then over the chunks, then both together.

The order of a sum is then part of the program: 1024 elements one after the other, and what the
chunks before them came to, one after the other. Integers and extremes have the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm.ir import Dim, Function, Op, Value
from dlvm.ir.rewrite import Env, transform
from dlvm.ir.sizes.dims import floordiv
from dlvm.ops import Broadcast, Pad, Reshape, Slice
from dlvm.ops.elements.casting import converted
from dlvm.ops.families import Running
from dlvm.passes import function_pass

CHUNK = 256
"""Elements of a chunk."""
MOST = 1024
"""Elements, at most, that are taken in one after the other."""


@function_pass
def cut_scans(fn: Function) -> Function:
    """Cut running scans of open length, or of more than a thousand elements, into chunks."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Running)
        if not is_long(op.shape[op.axis]):
            return None
        return (in_chunks(op, tuple(env.get(x, x) for x in op.operands)),)

    return transform(fn, visit, on=Running)


def is_long(n: Dim) -> bool:
    """Whether so many elements, one after the other, are too many or nobody knows."""
    return not isinstance(n, int) or n > MOST


def in_chunks(op: Running, xs: tuple[Value, ...]) -> Value:
    """The scan of operands in the place of its own; half precision is rounded once, at the end."""
    axis, n, dtype = op.axis, op.shape[op.axis], op.type.dtype
    count = floordiv(n + (CHUNK - 1), CHUNK)
    ends = tuple((0, 0) if a != axis else (0, count * CHUNK - n) for a in range(op.type.rank))
    low, high = zip(*(e[::-1] if op.reverse else e for e in ends), strict=True)
    shape = (*op.shape[:axis], count, CHUNK, *op.shape[axis + 1 :])
    parts = tuple(Reshape(Pad(converted(x, x.dtype.compute), low, high), shape) for x in xs)
    local = op.rebuild(parts, axis=axis + 1, exclusive=False)
    ours = op.over_chunks(parts, local, axis + 1)
    last = tuple(_last(x, axis + 1, op.reverse) for x in ours)
    scan = op.rebuild(last, exclusive=True)
    assert isinstance(scan, Running)
    over = in_chunks(scan, last) if isinstance(count, int) and is_long(count) else scan
    here = op.rebuild(parts, axis=axis + 1) if op.exclusive else local
    kept = tuple(a for a in range(len(shape)) if a != axis + 1)
    found = op.joined(Broadcast(over, shape, kept), here, parts, axis + 1)
    whole = Reshape(found, tuple(s + a + b for s, a, b in zip(op.shape, low, high, strict=True)))
    return converted(Slice(whole, low, op.shape, (1,) * op.type.rank), dtype)


def _last(x: Value, axis: int, reverse: bool) -> Value:
    """What a chunk came to: its last element, or its first where the scan goes the other way."""
    sizes = tuple(1 if a == axis else n for a, n in enumerate(x.type.shape))
    starts = tuple(0 if a != axis or reverse else CHUNK - 1 for a in range(x.type.rank))
    part = Slice(x, starts, sizes, (1,) * x.type.rank)
    return Reshape(part, (*sizes[:axis], *sizes[axis + 1 :]))
