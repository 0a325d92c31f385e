"""Dead code, by marking what is needed through all regions at once and sweeping the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import compress

from dlvm.ir import Function, Module, Op, Param, Part, Value
from dlvm.ir.decisions import allowed, listens, overseen
from dlvm.ir.rewrite import Env, has, mapped, rebuilt, transform
from dlvm.ops import Control, Structured
from dlvm.opt.facts import acting_functions
from dlvm.passes import module_pass


@module_pass
def drop(module: Module) -> Module:
    """Remove what neither a result nor an effect needs.

    Results that nobody reads, values that a loop carries for nothing and captured operands
    that no region uses go too, at any depth: a carried value that only feeds itself is dead.
    An operation that may raise is dropped like any other.
    """
    acting = acting_functions(module)
    return module.map(lambda fn: _dropped(fn, acting))


def _dropped(fn: Function, acting: frozenset[str]) -> Function:
    needed = Needed(acting)
    needed.enter(fn, ())
    for result in fn.results:
        needed.mark(result)
    needed.spread()
    return _swept(fn, needed)


class Needed:
    """The values and operations that are needed, in a function and all its regions."""

    def __init__(self, acting: frozenset[str]) -> None:
        self.acting = acting
        self.values: set[Value] = set()
        self.ops: set[Op] = set()
        self.place: dict[Value, list[tuple[Structured, int]]] = {}
        self.pending: list[Value] = []

    def enter(self, fn: Function, holders: tuple[Op, ...]) -> None:
        """Learn where parameters of regions come from; keep what acts and what holds it."""
        if not (fn.has_effect or has(fn, Control)):
            return
        for op in fn.ops:
            if op.has_effect or (op.called is not None and op.called.name in self.acting):
                for kept in (op, *holders):
                    self.keep(kept)
            if isinstance(op, Structured):
                for region in op.regions.values():
                    for j, param in enumerate(region.params):
                        self.place.setdefault(param, []).append((op, j))
                    self.enter(region, (*holders, op))

    def keep(self, op: Op) -> None:
        """An operation is needed, whichever of its results are."""
        if op not in self.ops:
            self.ops.add(op)
            read = op.steering if isinstance(op, Structured) else op.operands
            new = [v for v in read if v not in self.values]
            self.values.update(new)
            self.pending.extend(dict.fromkeys(new))

    def mark(self, value: Value) -> None:
        """A value is needed."""
        if value not in self.values:
            self.values.add(value)
            self.pending.append(value)

    def spread(self) -> None:
        """Mark everything that what is marked needs."""
        while self.pending:
            value = self.pending.pop()
            if isinstance(value, Part):
                self._result(value.op, value.index)
            elif isinstance(value, Op):
                self._result(value, 0)
            elif value in self.place:
                self._parameter(value)

    def _parameter(self, value: Value) -> None:
        for op, j in self.place[value]:
            self.mark(op.operands[j + op.offset])
            if j < op.carries:
                self._gives(op, j)

    def _result(self, op: Op, index: int) -> None:
        if op not in self.ops:
            self.keep(op)
        if op.holds_regions and isinstance(op, Structured):
            self._gives(op, index)

    def _gives(self, op: Structured, index: int) -> None:
        for region in op.giving:
            self.mark(region.results[index])
        if index < op.carries:
            self.mark(op.operands[index])

    def results_of(self, op: Structured) -> list[bool]:
        """Which results a region operation keeps: a loop keeps what it carries for others."""
        read = [r in self.values for r in op.results]
        inside = self.params_of(op)[: op.carries]
        return [r or (i < len(inside) and inside[i]) for i, r in enumerate(read)]

    def params_of(self, op: Structured) -> list[bool]:
        """Which parameters the regions of an operation keep."""
        kept = [any(p in self.values for p in group) for group in _params_by_place(op)]
        for i in range(op.carries):
            kept[i] = kept[i] or op.results[i] in self.values
        return kept


def _params_by_place(op: Structured) -> list[tuple[Param, ...]]:
    return list(zip(*(r.params for r in op.regions.values()), strict=True))


def _swept(fn: Function, needed: Needed) -> Function:
    """A function or region with what is needed, as far as anybody allows.

    That is asked from the last operation on, so that what stays finds what it reads, and of a loop
    or branch as a whole.
    """
    asked = (op for op in reversed(fn.ops) if op not in needed.ops or isinstance(op, Structured))
    leave = {op for op in asked if not allowed(drop.run, (op,))} if listens() else set[Op]()

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Structured)
        return None if op in leave else _shrunk(op, needed, env)

    kept = [op for op in fn.ops if op in needed.ops or op in leave]
    with overseen(None):
        return transform(rebuilt(fn, kept, fn.results), visit, on=Structured)


def _shrunk(op: Structured, needed: Needed, env: Env) -> Iterable[Value] | None:
    results, params = needed.results_of(op), needed.params_of(op)
    regions = {
        name: _swept(_without(region, params, results if region in op.giving else None), needed)
        for name, region in op.regions.items()
    }
    if all(regions[name] is old for name, old in op.regions.items()):
        return None
    first, last = op.offset, op.offset + len(params)
    operands = [
        v if not first <= i < last or params[i - first] else None
        for i, v in enumerate(mapped(op.operands, env))
    ]
    new = iter(op.regrouped(operands, regions).results)
    return [next(new) if kept else old for kept, old in zip(results, op.results, strict=True)]


def _without(fn: Function, params: list[bool], results: list[bool] | None) -> Function:
    if all(params) and all(results or ()):
        return fn
    chosen = results or [True] * len(fn.results)
    return replace(
        fn,
        params=tuple(compress(fn.params, params)),
        results=tuple(compress(fn.results, chosen)),
    )
