"""One function, staged or not: ``public`` names write operations in a trace, else just compute.

Outside a trace a public function writes its operations into a scope of its own and the
interpreter runs them by the references, so that both ways have one meaning.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dlvm.base.debugging import contexts, looks
from dlvm.base.errors import CallError, UserError
from dlvm.base.floating import standard_mode
from dlvm.dsl.trace.looking import look
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.provenance import explained
from dlvm.dsl.trace.scopes import (
    Scope,
    Trace,
    current,
    is_array,
    origin_in,
    trimmed,
    trimmed_of_user,
    type_of,
    user_origin,
)
from dlvm.dsl.trace.sizes import bare
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.calling import misfit, remedy, usage
from dlvm.dsl.words.names import PUBLIC
from dlvm.ir import Array, Function, Module
from dlvm.ir.interpret import Interpreter

F = TypeVar("F", bound=Callable[..., Any])
MAX_NOTES = 4


def public(name: str, method: str = "") -> Callable[[F], F]:
    """Register a function that writes operations under the name that users know it by."""

    def register(fn: F) -> F:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            scope = current()
            args, kwargs = bare(args), bare(kwargs)
            try:
                if scope is None:
                    return compute(fn, args, kwargs)
                if scope.builder.origin is not None:  # called by another public function
                    return fn(*args, **kwargs)
                scope.builder.origin = user_origin()
                try:
                    return fn(*args, **kwargs)
                finally:
                    scope.builder.origin = None
            except UserError as error:
                error.remedy = error.remedy or usage(name, fn)
                cause, notes = error.__cause__, described(spoken(fn), args)
                raise trimmed(explained(error.located(user_origin(), *notes), args)) from cause
            except (TypeError, ValueError) as error:  # of what no check of ours looks at
                if origin_in(error.__traceback__) is not None:  # raised by the user
                    raise
                said = misfit(fn, args, kwargs) or error
                wrong = CallError(f"{name}: {said}", remedy=remedy(usage(name, fn), fn, kwargs))
                raise trimmed(wrong.located(user_origin(), *described(spoken(fn), args))) from error
            except Exception as error:
                raise trimmed_of_user(error, name, args, kwargs)  # noqa: B904  # it is it

        call.__name__ = call.__qualname__ = name
        PUBLIC[name] = call
        return fn

    return register


def spoken(fn: Callable[..., Any]) -> list[str]:
    """What operands are called in messages: no letters, by which users call their own arrays."""
    parameters = inspect.signature(fn).parameters
    operand = "left" if "y" in parameters else "operand"
    said = {"x": operand, "y": "right", "new": "value"}
    by_position = (p for p in parameters.values() if p.kind in _BY_POSITION)
    return [said.get(p.name, p.name) for p in by_position]


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def described(names: list[str], args: tuple[Any, ...]) -> list[str]:
    """The staged and plain arrays among the arguments, one line each."""
    names = names + ["operand"] * len(args)
    notes: list[str] = []
    for name, arg in zip(names, args, strict=False):
        if isinstance(arg, Tensor):
            notes.append(f"{name}: {arg.history()}")
        elif is_array(arg):
            notes.append(f"{name}: {type_of(arg)}, a NumPy array")
    return notes[:MAX_NOTES]


def compute(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a public function on plain arrays: its operations, run by their references."""
    import optree

    trace = Trace(fn.__name__, find=lambda array: "x")
    with Scope(trace, None, fn.__name__) as scope:
        leaves, tree = optree.tree_flatten(fn(*args, **kwargs), namespace="dlvm")  # pyright: ignore[reportUnknownMemberType, reportArgumentType]
        results = tuple(staged(leaf).read() for leaf in leaves)
    captured = list(trace.arrays.values())
    params = tuple(c.param for c in captured)
    function = Function("eager", params, tuple(scope.builder.ops), results)
    with np.errstate(all="ignore"), standard_mode():
        module, given = Module((function,)), [c.array for c in captured]
        arrays = Interpreter(module).call(function, given)
        if contexts and (looked := looks()).at_numbers:
            names = [f"argument {i}" for i, _ in enumerate(params)]
            look((lambda: module, lambda: module), given, names, arrays, looked)
    return tree.unflatten([_writable(a) for a in arrays])


def _writable(array: Array) -> Array:
    return array if array.flags.writeable else array.copy()
