"""What a pass asks before it moves, merges or drops an operation.

A call that is still there may do anything that its callee does, and a pass over one function
does not see the callee: such a call counts as an effect that may raise.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm.ir import Function, Module, Op
from dlvm.ir.dataflow import Dataflow
from dlvm.ops.families import Creation, rearranges
from dlvm.ops.flow.calls import called


def holds(op: Op, ask: Callable[[Dataflow], bool]) -> bool:
    """Whether the dataflow of the operation, or of one in its regions, is of some kind."""
    if not op.holds_regions:
        return False
    kinds = {type(op)}.union(*(region.kinds for region in op.regions.values()))
    return any(kind.dataflow is not None and ask(kind.dataflow) for kind in kinds)


def _calls(op: Op) -> bool:
    return bool(op.enters) or any(k.enters for r in op.regions.values() for k in r.kinds)


def acts(op: Op) -> bool:
    """Whether it must be kept and keep its place among others that act."""
    if not op.holds_regions:
        return op.has_effect or bool(op.enters)
    return op.is_effect or _calls(op)


def pure(op: Op) -> bool:
    """Whether it is only its results: no effect, and no tape, of which a version is used once."""
    if any(t.dtype.kind == "t" for t in op.result_types) or acts(op):
        return False
    return not any(v.type.dtype.kind == "t" for v in op.operands)


def recomputes(op: Op) -> bool:
    """Whether it is, or holds, a computation that must not be merged with its first one."""
    return holds(op, lambda flow: flow.again)


def speculable(op: Op) -> bool:
    """Whether it may run where the program would not have run it.

    What may raise may not, nor may a loop of unknown length, which might never end.
    """
    return pure(op) and not op.may_raise and not holds(op, lambda flow: flow.again or flow.endless)


def free(op: Op) -> bool:
    """Whether its result costs no memory traffic of its own: kernels read through it."""
    return isinstance(op, Creation) or rearranges(op)


def needed(fn: Function) -> frozenset[Op]:
    """The operations whose results, or effects, something needs."""
    wanted = set(fn.results)
    found: set[Op] = set()
    for op in reversed(fn.ops):
        if acts(op) or not wanted.isdisjoint(op.results):
            wanted.update(op.operands)
            found.add(op)
    return frozenset(found)


def acting_functions(module: Module) -> frozenset[str]:
    """The functions of a module from which an effect is reached."""
    callers: dict[str, set[str]] = {}
    acting = {d.name for d in module.declarations}
    for fn in module.functions:
        if fn.has_effect:
            acting.add(fn.name)
        for name in called(fn):
            callers.setdefault(name, set()).add(fn.name)
    pending = list(acting)
    while pending:
        for caller in callers.get(pending.pop(), set()) - acting:
            acting.add(caller)
            pending.append(caller)
    return frozenset(acting)
