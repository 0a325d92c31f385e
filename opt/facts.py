"""What a pass asks before it moves, merges or drops an operation.

A call that is still there may do anything that its callee does, and a pass over one function
does not see the callee: such a call counts as an effect that may raise.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm.ir import TAPE, Module, Op
from dlvm.ops import Call, Checkpoint, Recompute, While
from dlvm.ops.families import Creation
from dlvm.ops.movement import Broadcast, Permute, Reshape


def within(op: Op) -> Iterator[Op]:
    """The operation and every one in its regions."""
    yield op
    for region in op.regions.values():
        yield from region.walk()


def acts(op: Op) -> bool:
    """Whether it must be kept and keep its place among others that act."""
    if not op.regions:
        return op.has_effect or isinstance(op, Call)
    return any(o.has_effect or isinstance(o, Call) for o in within(op))


def pure(op: Op) -> bool:
    """Whether it is only its results: no effect, and no tape, of which a version is used once."""
    values = (*(v.dtype for v in op.operands), *(t.dtype for t in op.result_types))
    return TAPE not in values and not acts(op)


def recomputes(op: Op) -> bool:
    """Whether it is, or holds, a computation that must not be merged with its first one."""
    return any(isinstance(o, Recompute | Checkpoint) for o in within(op))


def speculable(op: Op) -> bool:
    """Whether it may run where the program would not have run it.

    What may raise may not, nor may a loop of unknown length, which might never end.
    """
    endless = any(isinstance(o, While) for o in within(op))
    return pure(op) and not op.may_raise and not recomputes(op) and not endless


def free(op: Op) -> bool:
    """Whether its result costs no memory traffic of its own: kernels read through it."""
    return isinstance(op, Creation | Broadcast | Permute | Reshape)


def acting_functions(module: Module) -> frozenset[str]:
    """The functions of a module from which an effect is reached."""
    callers: dict[str, set[str]] = {}
    found = {d.name for d in module.declarations}
    for fn in module.functions:
        for op in fn.walk():
            if isinstance(op, Call):
                callers.setdefault(op.callee.name, set()).add(fn.name)
            elif op.has_effect:
                found.add(fn.name)
    pending = list(found)
    while pending:
        for caller in callers.get(pending.pop(), set()) - found:
            found.add(caller)
            pending.append(caller)
    return frozenset(found)
