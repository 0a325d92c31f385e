"""Structural equality of modules: the same up to the names of values."""

from __future__ import annotations

from collections.abc import Sequence

from .core import Declaration, Entry, Function, Op, Value


def same_entries(a: Sequence[Entry], b: Sequence[Entry]) -> bool:
    """Whether modules with these entries are equal: functions, operations and results, in order.

    The comparison is iterative, so nesting does not limit it.
    """
    if len(a) != len(b):
        return False
    pending: list[tuple[Function, Function]] = []
    for x, y in zip(a, b, strict=True):
        if isinstance(x, Declaration) or isinstance(y, Declaration):
            if x != y and repr(x) != repr(y):
                return False
        elif x.name != y.name:
            return False
        else:
            pending.append((x, y))
    while pending:
        if not _same_function(*pending.pop(), pending):
            return False
    return True


def _same_function(a: Function, b: Function, pending: list[tuple[Function, Function]]) -> bool:
    if a is b:
        return True
    if len(a.params) != len(b.params) or len(a.ops) != len(b.ops):
        return False
    twin: dict[Value, Value] = {}
    for p, q in zip(a.params, b.params, strict=True):
        if p.type != q.type or p.donated != q.donated:
            return False
        twin[p] = q
    for x, y in zip(a.ops, b.ops, strict=True):
        if not _same_op(x, y, twin):
            return False
        if x.regions:
            pending.extend(zip(x.regions.values(), y.regions.values(), strict=True))
        twin.update(zip(x.results, y.results, strict=True))
    return len(a.results) == len(b.results) and all(
        twin.get(r) is s for r, s in zip(a.results, b.results, strict=True)
    )


def _same_op(x: Op, y: Op, twin: dict[Value, Value]) -> bool:
    if x.result_types != y.result_types or x.facts() != y.facts():
        return False
    return all(twin.get(a) is b for a, b in zip(x.operands, y.operands, strict=True))
