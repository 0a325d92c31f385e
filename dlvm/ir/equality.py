"""Structural equality of modules, up to the names of values, and the first difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .core import Declaration, Entry, Function, Op, Value
from .sharding.mesh import shares

Difference = tuple[Op | None, Op | None]
"""The first operation of each module that has no equal in the other one; None where the functions
differ in something else, such as their results.
"""


def same_entries(a: Sequence[Entry], b: Sequence[Entry]) -> bool:
    """Whether modules with these entries are equal: functions, operations and results, in order."""
    return first_difference(a, b) is None


def first_difference(a: Sequence[Entry], b: Sequence[Entry]) -> Difference | None:
    """Where modules with these entries first differ; None if they are equal.

    The comparison is iterative, so nesting does not limit it.
    """
    pending: list[tuple[Function, Function]] = []
    alike = len(a) == len(b)
    for x, y in zip(a, b, strict=False):
        if isinstance(x, Declaration) or isinstance(y, Declaration):
            alike = alike and (x == y or repr(x) == repr(y))
        else:
            alike = alike and x.name == y.name
            pending.append((x, y))
    while pending:
        x, y = pending.pop(0)
        if x is not y and (found := next(_differences(x, y, pending), None)) is not None:
            return found
    return None if alike else (None, None)


def _differences(
    a: Function, b: Function, pending: list[tuple[Function, Function]]
) -> Iterator[Difference]:
    twin: dict[Value, Value] = {}
    for p, q in zip(a.params, b.params, strict=False):
        twin[p] = q
    for x, y in zip(a.ops, b.ops, strict=False):
        if not _same_op(x, y, twin):
            yield x, y
        if x.regions:
            pending.extend(zip(x.regions.values(), y.regions.values(), strict=True))
        twin.update(zip(x.results, y.results, strict=True))
    more = min(len(a.ops), len(b.ops))
    if len(a.ops) != len(b.ops):
        yield next(iter(a.ops[more:]), None), next(iter(b.ops[more:]), None)
    kinds = [[(p.type, p.donated, shares(p.sharding)) for p in f.params] for f in (a, b)]
    results = [twin.get(r) for r in a.results]
    if kinds[0] != kinds[1] or len(results) != len(b.results):
        yield None, None
    if not all(r is s for r, s in zip(results, b.results, strict=True)):
        yield None, None


def _same_op(x: Op, y: Op, twin: dict[Value, Value]) -> bool:
    if x.result_types != y.result_types or x.facts() != y.facts():
        return False
    if any(
        shares(r.sharding) != shares(s.sharding) for r, s in zip(x.results, y.results, strict=True)
    ):
        return False
    return all(twin.get(a) is b for a, b in zip(x.operands, y.operands, strict=True))
