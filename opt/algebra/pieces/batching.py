"""The pass that batches all that is computed piece by piece, where it pays for all together.

A gradient reads what its forward side computed: no single formula of pieces becomes idle when only
one of them is batched, and ``rearrange``, which weighs one law at a time, leaves them. Here every
join of as many pieces is batched at once, and the whole function is weighed before and after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dlvm import cost
from dlvm.ir import Function, Op, TensorType, Value
from dlvm.ir.decisions import may_replace
from dlvm.ir.numerics import LICENSED, ROUNDING, current_mode
from dlvm.ir.rewrite import Env, mapped, transform
from dlvm.ops import Concat, Update
from dlvm.ops.arrays.windows import joined_windows
from dlvm.ops.families import Contraction
from dlvm.opt.facts import needed
from dlvm.passes import function_pass

from .alike import Alike, joined, products_of_parts

Likeness = tuple[type[Op], tuple[TensorType, ...], tuple[TensorType, ...]]
"""What the cost of an operation depends on."""


@function_pass
def batch_pieces(fn: Function) -> Function:
    """Compute what is joined of pieces that are computed alike in batches, where that is faster."""
    if ROUNDING not in LICENSED[current_mode()] or not _has_products(fn):
        return fn
    joined = _joined(fn)
    for count in sorted({len(op.xs) for op in joined.ops if isinstance(op, Concat)} - {1}):
        found = _batched(joined, count)
        if found is not joined and _pays(fn, found):
            fn = joined = found
    return fn


def _joined(fn: Function) -> Function:
    """The function with windows that are written one by one, as derivatives do, joined."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Update)
        found = joined_windows(op)
        return None if found is None else (found.rebuild(mapped(found.operands, env)),)

    return transform(fn, visit, on=Update) if Update in fn.kinds else fn


def _batched(fn: Function, count: int) -> Function:
    """The function with all joins of so many pieces batched; itself where there are none."""
    alike = Alike(count)

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Concat)
        if len(op.xs) != count or (whole := alike.batch(tuple(mapped(op.xs, env)))) is None:
            return None
        new = joined(whole, op)
        return (new,) if may_replace(products_of_parts, op, (new,)) else None

    new = transform(fn, visit, on=Concat)
    return new if alike.products else fn


def _pays(old: Function, new: Function) -> bool:
    """Whether a part of the time of what differs, starts of products included, is saved."""
    before, after = _counted(old), _counted(new)
    goes, comes = (_time(x - y) for x, y in ((before, after), (after, before)))
    return (goes - comes) * cost.WORTH > goes


def _counted(fn: Function) -> Counter[tuple[Likeness, int]]:
    """How often each kind of operation is needed, with its time."""
    return Counter((_likeness(op), _time_of(op)) for op in needed(fn))


def _likeness(op: Op) -> Likeness:
    return type(op), tuple(v.type for v in op.operands), op.result_types


def _time_of(op: Op) -> int:
    return cost.work(op).time + cost.LAUNCH * isinstance(op, Contraction)


def _time(counted: Counter[tuple[Likeness, int]]) -> int:
    """The time of all of them, in picoseconds."""
    return sum(time * n for (_, time), n in counted.items())


def _has_products(fn: Function) -> bool:
    return any(issubclass(kind, Contraction) for kind in fn.kinds)
