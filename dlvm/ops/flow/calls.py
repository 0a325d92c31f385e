"""Who calls whom: the functions that a function calls, and those that come to call themselves."""

from __future__ import annotations

from collections.abc import Callable

from dlvm.ir import Declaration, Function, FunctionRef
from dlvm.ir.rewrite import has

from .control import Call

Lookup = Callable[[str], Function | Declaration]
Names = Callable[[Function], dict[str, None]]


def called(fn: Function) -> dict[str, None]:
    """The names that a function calls, or that say derivatives of its calls, in order."""
    if not has(fn, Call):
        return {}
    calls = (op for op in fn.walk() if isinstance(op, Call))
    refs = (value for op in calls for value in op.attributes.values())
    return dict.fromkeys(ref.name for ref in refs if isinstance(ref, FunctionRef))


def entered(fn: Function) -> dict[str, None]:
    """The names that a function calls, without those that say derivatives, in order."""
    if not has(fn, Call):
        return {}
    return dict.fromkeys(op.callee.name for op in fn.walk() if isinstance(op, Call))


def calls_itself(name: str, lookup: Lookup, names: Names = called) -> bool:
    """Whether a function is entered again before it returns, directly or through others.

    With the ``names`` that are ``entered``, once derivatives have been taken: the forward rule of a
    function often calls that function, whose derivative it is.
    """
    seen: set[str] = set()
    pending = [name]
    while pending:
        entry = lookup(pending.pop())
        for callee in names(entry) if isinstance(entry, Function) else (entry.of,):
            if callee == name:
                return True
            if callee not in seen:
                seen.add(callee)
                pending.append(callee)
    return False
