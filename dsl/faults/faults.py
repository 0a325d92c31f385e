"""Reports a bug in dlvm that shows while Python runs, in a file that says what is known about it.

The operations that the scope has recorded so far are kept as a function, beside the operation
whose construction failed, which ``dlvm repro`` tries again. If the bug is elsewhere in Python code,
nothing can be replayed; the file then says which call failed, on which arguments, and through which
functions of dlvm it went.
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
from dlvm.ir.sizes.dims import symbol
from dlvm.trust.attempt import STAGE, construction, frames, made_again, unfinished
from dlvm.trust.examine import crash
from dlvm.trust.failure import Failure, short
from dlvm.trust.reproducer import Reproducer, kept

Attempt = dict[str, Any]
"""The failed attempt as JSON: an operation, and the Python code around it."""
SHOWN_FUNCTIONS = 12
"""Number of functions of dlvm that the record of a traceback names."""


def told(
    error: Exception,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    called: Module | None = None,
) -> CompilerError:
    """The error for a bug in dlvm, with its file; an error of ours only gets the file added."""
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
    """The path of the file about the bug; empty if no file can be written."""
    attempt: Attempt = {"known": _known(error, name, args, kwargs)}
    module = called
    with contextlib.suppress(Exception):
        module = module or _traced()
    with contextlib.suppress(Exception):
        if module is not called and (op := unfinished(error)) is not None:
            attempt["operation"] = construction(op, (module or _traced()).main)
    return str(kept(module or Module(()), crash(STAGE, error), attempt=attempt) or "")


def _traced() -> Module:
    """The module traced before the failure; None outside of a trace."""
    scope = current()
    return Module(()) if scope is None else _partly(scope)


def _partly(scope: Scope) -> Module:
    """The operations recorded so far as the first function of a module, with the functions it
    calls.
    """
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
    """Facts about the Python code that ran, for whoever reads the file."""
    ours = [at.tb_frame.f_code for at in frames(error.__traceback__)]
    return {
        "in": name,
        "args": [shown(x) for x in args],
        "kwargs": {k: shown(x) for k, x in kwargs.items()},
        "through": [f"{short(c.co_filename)}:{c.co_qualname}" for c in ours][-SHOWN_FUNCTIONS:],
    }


# -- again ---------------------------------------------------------------------------------------


def replayed(found: Reproducer) -> Failure | None:
    """The error when the attempt is repeated; None if it succeeds."""
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
