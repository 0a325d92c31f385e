"""A fault of dlvm while Python runs: a file that says what is known about it.

What the scope has written so far is a function. An operation that could not be made is kept as
text beside it, and ``dlvm repro`` makes it again. Where the fault is somewhere else in Python code,
nothing can be replayed: the file says which call failed, on what, and through which of our
functions it went.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from dlvm.base.errors import CompilerError, IRError
from dlvm.dsl.trace.kinds import shown
from dlvm.dsl.trace.scopes import Scope, current
from dlvm.dsl.trace.tracing import Written, unbound
from dlvm.dsl.trace.trees import flatten
from dlvm.ir import BOOL, Function, Module, Param, TensorType
from dlvm.ir.dims import symbol
from dlvm.trust.attempt import STAGE, construction, frames, made_again, unfinished
from dlvm.trust.examine import crash
from dlvm.trust.failure import Failure, short
from dlvm.trust.reproducer import Reproducer, kept

Attempt = dict[str, Any]
"""What was tried, as JSON: an operation, and what is known of the Python code around it."""
MOST = 12
"""How many of our functions a record of a traceback names."""


def told(
    error: Exception,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    called: Module | None = None,
) -> CompilerError:
    """The error for a fault, with its file; one that is known already gets only the file."""
    if not isinstance(error, CompilerError):
        said = f"dlvm failed while Python ran: {type(error).__name__}: {error}"
        found = CompilerError(said, stage=STAGE)
        found.__cause__ = error
    else:
        found = error
    found.reproducer = _file(error, name, args, kwargs, called)
    return found


def _file(
    error: Exception,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    called: Module | None,
) -> str:
    """The file of a fault, as far as one can be written; empty where it can't."""
    attempt: Attempt = {"known": _known(error, name, args, kwargs)}
    module = called
    with contextlib.suppress(Exception):
        module = module or _traced()
    with contextlib.suppress(Exception):
        if module is not called and (op := unfinished(error)) is not None:
            attempt["operation"] = construction(op, (module or _traced()).main)
    return str(kept(module or Module(()), crash(STAGE, error), attempt=attempt) or "")


def _traced() -> Module:
    """What has been traced before the fault; nothing outside of a trace."""
    scope = current()
    return Module(()) if scope is None else _partly(scope)


def _partly(scope: Scope) -> Module:
    """What a scope has written so far as the first function of a module, and those it calls."""
    captured = [c.param for c in scope.trace.arrays.values()] if scope.parent is None else []
    written = Written(scope, (*scope.params, *captured), (), flatten(())[1])
    bound = {d for p in written.params for d in p.shape}
    loose = [s for s in unbound(written) if symbol(s) not in bound]
    sizes = [Param(TensorType(BOOL, (symbol(s),)), f"size_{s}") for s in loose]
    params = (*written.params, *scope.lifted.values(), *sizes)
    names = {e.name for e in scope.trace.entries}
    name = next(n for i in range(len(names) + 1) if (n := f"partly_{i or ''}") not in names)
    ops = tuple(scope.builder.ops)
    return Module((Function(name, params, ops, ()), *scope.trace.entries)).verify()


def _known(
    error: Exception, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """What a reader may want to know of the Python that ran."""
    ours = [at.tb_frame.f_code for at in frames(error.__traceback__)]
    return {
        "in": name,
        "args": [shown(x) for x in args],
        "kwargs": {k: shown(x) for k, x in kwargs.items()},
        "through": [f"{short(c.co_filename)}:{c.co_qualname}" for c in ours][-MOST:],
    }


# -- again ---------------------------------------------------------------------------------------


def replayed(found: Reproducer) -> Failure | None:
    """How what was tried fails when it is done again; None where it does not."""
    match found.attempt:
        case {"operation": str(text)}:
            return made_again(found.module, text)
        case _:
            known = (found.attempt or {}).get("known", {})
            raise IRError(
                "this failure can't be replayed: it happened in Python code that the file does not "
                f"hold, in {known.get('in', 'dlvm')}",
                remedy="read the file: it says all that is known",
            )
