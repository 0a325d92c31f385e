"""What a value is written over, and whether what replaces a window may read beside it.

An update can run in the memory of its first operand where all else that is computed from that
memory lies beside the window, or is the element of the window that takes its own place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dlvm.ir import Dim, Op, Param, Part, Value
from dlvm.ir.sizes.dims import at_least
from dlvm.ops.families import Elementwise

from .scattering import Scatter
from .sections import Slice, Update

Overwriting = Scatter | Update
"""Its first operand, ``x``, with some elements written over; a kernel writes them where x lies."""


def overwriter(value: Value) -> Overwriting | None:
    """The operation that leaves a value where its first operand was, if one does."""
    op = value.op if isinstance(value, Part) and value.index == 0 else value
    return op if isinstance(op, Overwriting) else None


def updates_in_order(op: Update) -> tuple[Update, ...]:
    """The updates of one array, up to this one, that can run one after the other in its memory.

    Each but the first reads what the one before has left in the same window only, and nothing of
    what was there earlier.
    """
    found = [op]
    while isinstance(op.x, Update) and reads_own_window(op, lambda v: not isinstance(v, Param)):
        found.append(op := op.x)
    return tuple(reversed(found))


def written_over(op: Overwriting) -> Iterator[Value]:
    """What lay in the memory that an operation writes into: its operand, and before updates."""
    value: Value = op
    while isinstance(value, Overwriting):
        value = value.x
        yield value


def reads_own_window(op: Update, inside: Callable[[Value], bool]) -> bool:
    """Whether ``y`` reads of that memory only the window that is replaced, as it is in ``x``."""
    return _reads(op, inside, set(written_over(op)), _same)


def reads_in_place(op: Update, inside: Callable[[Value], bool]) -> bool:
    """Whether ``y`` reads ``x`` only where nothing has been replaced when it does.

    Looked at are the operations that are computed along with it, those ``inside``. What they take
    of ``x`` are windows, which are disjoint from the one that is replaced, or are the same one and
    go from element to element.
    """
    return _reads(op, inside, {op.x}, lambda part, op, a: _same(part, op, a) or disjoint(part, op))


def _reads(
    op: Update,
    inside: Callable[[Value], bool],
    memory: set[Value],
    may: Callable[[Slice, Update, bool], bool],
) -> bool:
    """Whether ``y`` reads of ``memory`` only windows of ``x`` that it may read."""
    pending, seen = [(op.y, True)], set[tuple[Value, bool]]()
    while pending:
        value, aligned = pending.pop()
        if value in memory:
            return False
        if (value, aligned) in seen or not inside(value):
            continue
        seen.add((value, aligned))
        source = value.op if isinstance(value, Part) else value
        if isinstance(source, Slice) and source.x is op.x:
            if not may(source, op, aligned):
                return False
        elif isinstance(source, Op):
            aligned = aligned and isinstance(source, Elementwise)
            pending += [(x, aligned) for x in source.operands]
    return True


def _same(part: Slice, op: Update, aligned: bool) -> bool:
    """Whether each element of a window takes the place of the one that it is computed from."""
    window = (part.starts, part.sizes, part.steps)
    return aligned and window == (op.starts, op.y.shape, op.steps)


def disjoint(part: Slice, op: Update) -> bool:
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
