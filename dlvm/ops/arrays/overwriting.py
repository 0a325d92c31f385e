"""What a value is written over, and whether what replaces a window may read beside it.

An update can run in the memory of its first operand where all else that is computed from that
memory lies beside the window, or is the element of the window that takes its own place.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm.ir import Dim, Op, Part, Value
from dlvm.ir.dims import at_least
from dlvm.ops.families import Elementwise

from .scattering import Scatter
from .windows import Slice, Update


def overwriter(value: Value) -> Scatter | Update | None:
    """The operation that leaves a value where its first operand was, if one does."""
    op = value.op if isinstance(value, Part) and value.index == 0 else value
    return op if isinstance(op, Scatter | Update) else None


def reads_in_place(op: Update, inside: Callable[[Value], bool]) -> bool:
    """Whether ``y`` reads ``x`` only where nothing has been replaced when it does.

    Looked at are the operations that are computed along with it, those ``inside``. What they take
    of ``x`` are windows, which lie apart from the one that is replaced, or are the same one and go
    from element to element.
    """
    pending, seen = [(op.y, True)], set[tuple[Value, bool]]()
    while pending:
        value, aligned = pending.pop()
        if value is op.x:
            return False
        if (value, aligned) in seen or not inside(value):
            continue
        seen.add((value, aligned))
        source = value.op if isinstance(value, Part) else value
        if isinstance(source, Slice) and source.x is op.x:
            if not (aligned and _same(source, op)) and not apart(source, op):
                return False
        elif isinstance(source, Op):
            aligned = aligned and isinstance(source, Elementwise)
            pending += [(x, aligned) for x in source.operands]
    return True


def _same(part: Slice, op: Update) -> bool:
    return (part.starts, part.sizes, part.steps) == (op.starts, op.y.shape, op.steps)


def apart(part: Slice, op: Update) -> bool:
    """Whether a window that is read provably shares no element with the one that is replaced."""
    read = _ends(part.starts, part.sizes, part.steps)
    written = _ends(op.starts, op.y.shape, op.steps)
    axes = zip(read, written, strict=True)
    return any(at_least(a, d + 1) or at_least(c, b + 1) for (a, b), (c, d) in axes)


def _ends(
    starts: tuple[Dim, ...], sizes: tuple[Dim, ...], steps: tuple[int, ...]
) -> list[tuple[Dim, Dim]]:
    """The first and the last place along each axis."""
    ends = [(a, a + (n - 1) * s) for a, n, s in zip(starts, sizes, steps, strict=True)]
    return [(a, b) if s > 0 else (b, a) for (a, b), s in zip(ends, steps, strict=True)]
