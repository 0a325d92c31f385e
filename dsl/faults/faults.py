"""A fault of ours while Python runs: as much as is known about it, in a file that replays it.

What the scope has written so far is a function. An operation that could not be made is kept as
text beside it; else the call of a public function is, with its operands among the results of that
function; else, where the user's own Python would have to run again, what is known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from dlvm.base.errors import CompilerError, IRError
from dlvm.dsl.trace.operands import known_dtype
from dlvm.dsl.trace.scopes import Scope, Trace, current, is_array
from dlvm.dsl.trace.sizes import Size
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import Written, unbound
from dlvm.dsl.trace.trees import flatten
from dlvm.dsl.words.names import PUBLIC, named
from dlvm.ir import BOOL, DTYPES, Expr, Function, Module, Param, TensorType, Value, inline
from dlvm.ir.dims import symbol
from dlvm.ir.text.line import Line, parse_dim
from dlvm.trust.attempt import STAGE, construction, failing, frames, made_again, unfinished
from dlvm.trust.examine import crash
from dlvm.trust.failure import Failure, short
from dlvm.trust.reproducer import Reproducer, array_read, array_written, kept

Attempt = dict[str, Any]
"""What was tried, as JSON: an operation, a call, or what is known of Python code."""
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
    failure = crash(STAGE, error)
    known = _known(error, name, args, kwargs)
    for attempted in (_operation, _call, _python):
        try:
            module, attempt = attempted(error, name, args, kwargs)
            attempt["known"] = known
            file = kept(module if called is None else called, failure, attempt=attempt)
        except Exception:  # the next way asks less
            continue
        return str(file or "")
    return ""


# -- the ways ------------------------------------------------------------------------------------


def _operation(error: Exception, *_: Any) -> tuple[Module, Attempt]:
    """The operation whose constructor failed, and what was traced before it."""
    op, scope = unfinished(error), current()
    if op is None or scope is None:
        raise LookupError
    module = _partly(scope, ())
    return module, {"operation": construction(op, module.main)}


def _call(
    _: Exception, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Module, Attempt]:
    """The call of a public function, and what was traced before it."""
    if name not in PUBLIC:
        raise LookupError
    writer = _Writer()
    call = {"name": name, "args": writer.all(args), "kwargs": writer.all(kwargs)}
    scope = current()
    if scope is None:
        return Module(()), {"call": call}
    return _partly(scope, tuple(writer.values)), {"call": {**call, "staged": True}}


def _python(*_: Any) -> tuple[Module, Attempt]:
    """Nothing to replay; what was traced before, where there is such."""
    scope = current()
    try:
        return (Module(()) if scope is None else _partly(scope, ())), {}
    except Exception:
        return Module(()), {}


def _partly(scope: Scope, results: tuple[Value, ...]) -> Module:
    """What a scope has written so far as the first function of a module, and those it calls."""
    captured = [c.param for c in scope.trace.arrays.values()] if scope.parent is None else []
    written = Written(scope, (*scope.params, *captured), results, flatten(())[1])
    bound = {d for p in written.params for d in p.shape}
    loose = [s for s in unbound(written) if symbol(s) not in bound]
    sizes = [Param(TensorType(BOOL, (symbol(s),)), f"size_{s}") for s in loose]
    params = (*written.params, *scope.lifted.values(), *sizes)
    names = {e.name for e in scope.trace.entries}
    name = next(n for i in range(len(names) + 1) if (n := f"partly_{i or ''}") not in names)
    ops = tuple(scope.builder.ops)
    return Module((Function(name, params, ops, results), *scope.trace.entries)).verify()


def _known(
    error: Exception, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """What a reader may want to know of the Python that ran."""
    ours = [at.tb_frame.f_code for at in frames(error.__traceback__)]
    return {
        "in": name,
        "args": [_shown(x) for x in args],
        "kwargs": {k: _shown(x) for k, x in kwargs.items()},
        "through": [f"{short(c.co_filename)}:{c.co_qualname}" for c in ours][-MOST:],
    }


def _shown(x: Any) -> str:
    if is_array(x):
        return f"{x.dtype}{list(x.shape)}"
    return f"{x!r:.80}"


# -- arguments of public functions as JSON -------------------------------------------------------


class _Writer:
    """Writes arguments; staged ones are numbered, as results of what was traced before."""

    def __init__(self) -> None:
        self.values: list[Value] = []

    def all(self, found: Any) -> Any:
        """Every argument of a call, by position or by name."""
        if isinstance(found, Mapping):
            return {str(k): self.one(x) for k, x in found.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return [self.one(x) for x in found]

    def one(self, x: Any) -> Any:
        """One argument; an error for what has no text."""
        if isinstance(x, np.generic):  # before float, of which np.float64 is a kind
            return {"array": array_written(np.asarray(cast(Any, x))), "scalar": True}
        match x:
            case None | bool() | int() | float() | str():
                return x
            case Tensor():
                self.values.append(x.read())
                return {"value": len(self.values) - 1, "weak": x.weak}
            case Expr() | Size():
                return {"size": str(x)}
            case tuple():
                return {"tuple": self.all(x)}  # pyright: ignore[reportUnknownArgumentType]
            case list():
                return self.all(x)
            case dict():
                return {"dict": self.all(x)}  # pyright: ignore[reportUnknownArgumentType]
            case slice():
                return {"slice": self.all((x.start, x.stop, x.step))}  # pyright: ignore[reportUnknownMemberType]
            case _:
                return self.other(x)

    def other(self, x: Any) -> Any:
        """Arrays, dtypes and the dots of an index."""
        if x is Ellipsis:
            return {"ellipsis": True}
        if is_array(x):
            return {"array": array_written(x), "scalar": False}
        return {"dtype": known_dtype(x).name}


def _read(x: Any, values: Sequence[Tensor]) -> Any:
    """What ``_Writer`` wrote."""
    one = functools.partial(_read, values=values)
    match x:
        case list():
            return [one(item) for item in x]  # pyright: ignore[reportUnknownVariableType]
        case {"value": int(at)}:
            return values[at]
        case {"size": str(text)}:
            return parse_dim(Line(text, 1))
        case {"tuple": list() as items}:  # pyright: ignore[reportUnknownVariableType]
            return tuple(map(one, cast(list[Any], items)))
        case {"dict": dict() as items}:  # pyright: ignore[reportUnknownVariableType]
            return {k: one(item) for k, item in cast(dict[str, Any], items).items()}
        case {"slice": [start, stop, step]}:
            return slice(one(start), one(stop), one(step))
        case {"ellipsis": True}:
            return Ellipsis
        case {"dtype": str(name)} if name in DTYPES:
            return DTYPES[name].numpy
        case {"array": str(text), "scalar": bool(scalar)}:
            found = array_read(text)
            return found[()] if scalar else found
        case None | bool() | int() | float() | str():
            return x
        case _:
            raise IRError(f"the call of the reproducer can't be read: {x!r:.60}")


# -- again ---------------------------------------------------------------------------------------


def replayed(found: Reproducer) -> Failure | None:
    """How what was tried fails when it is done again; None where it does not."""
    match found.attempt:
        case {"operation": str(text)}:
            return made_again(found.module, text)
        case {"call": {"name": str(name), "args": list(), "kwargs": dict()} as call}:
            if name not in PUBLIC:
                raise IRError(f"the reproducer calls {name!r}, which is no public function")
            return failing(_called(found.module, call))
        case _:
            known = (found.attempt or {}).get("known", {})
            raise IRError(
                "this failure can't be replayed: it happened in Python code that the file does not "
                f"hold, in {known.get('in', 'dlvm')}",
                remedy="read the file: it says all that is known",
            )


def _called(module: Module, call: dict[str, Any]) -> Callable[[], Any]:
    """Call a public function again, inside a trace where it was called in one."""

    def run(values: Sequence[Tensor]) -> Any:
        args = _read(call["args"], values)
        kwargs = {k: _read(x, values) for k, x in call["kwargs"].items()}
        return named(call["name"])(*args, **kwargs)

    def staged() -> Any:
        trace = Trace("replay", lambda array: "x")
        trace.entries = list(module.entries[1:])
        params = [Param(p.type, p.name) for p in module.main.params]
        with Scope(trace, None, "replay") as scope:
            results = inline(module.main, params)
            return run(
                [Tensor(r, scope, weak) for r, weak in zip(results, _weak(call), strict=True)]
            )

    return staged if call.get("staged") else lambda: run(())


def _weak(call: Any) -> Iterator[bool]:
    """Which of the staged operands are weak, in the order of their numbers."""
    match call:
        case {"value": int(), "weak": bool(weak)}:
            yield weak
        case dict():
            for item in call.values():  # pyright: ignore[reportUnknownVariableType]
                yield from _weak(item)
        case list():
            for item in call:  # pyright: ignore[reportUnknownVariableType]
                yield from _weak(item)
        case _:
            return
