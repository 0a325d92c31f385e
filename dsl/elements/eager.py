"""Public functions: in a trace they record operations, outside of one they compute at once.

Outside a trace a public function writes its operations into a scope of its own and the
interpreter runs them by the references, so that both ways have one meaning.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from dlvm.base.debugging import contexts, looks
from dlvm.base.errors import UserError
from dlvm.base.floating import standard_mode
from dlvm.dsl.trace.facing import entry, faced
from dlvm.dsl.trace.kinds import as_int, counted
from dlvm.dsl.trace.looking import look
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import Scope, Trace, current, user_origin
from dlvm.dsl.trace.sizes import bare
from dlvm.dsl.words.names import PUBLIC
from dlvm.ir import Array, Function, Module
from dlvm.ir.interpret import Interpreter

from .spelling import by_our_names

F = TypeVar("F", bound=Callable[..., Any])


def public(
    name: str, views: bool | str = False, frozen: bool = False, device: bool = False
) -> Callable[[F], F]:
    """Register a function that writes operations under the name that users know it by.

    Its results own their memory unless it ``views``: always, or unless the parameter of this name
    is true. A view shares memory with an operand where NumPy's function of the name does; one that
    is ``frozen`` can't be assigned into. ``device`` says that it takes the standard's ``device=``,
    which ``by_our_names`` demands to be None or ``"cpu"``.
    """

    def register(fn: F) -> F:
        @entry
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            scope = current()
            try:
                args, kwargs = bare(args), bare(kwargs)
            except RecursionError as error:
                raise faced(error, name, fn, args, kwargs)  # noqa: B904  # it says from what
            if scope is not None and scope.builder.origin is not None:  # inside of another one
                return fn(*args, **kwargs)
            try:
                kwargs = by_our_names(name, fn, kwargs) if kwargs else kwargs
                if counts := counted(name, fn):
                    args = tuple(as_int(x) if i in counts else x for i, x in enumerate(args))
                    kwargs = {k: as_int(v) if k in counts else v for k, v in kwargs.items()}
                if scope is None:
                    found = compute(fn, args, kwargs, _gives_views(fn, views, args, kwargs))
                    return _frozen(found) if frozen else found
                scope.builder.origin = user_origin()
                try:
                    return fn(*args, **kwargs)
                finally:
                    scope.builder.origin = None
            except Exception as error:
                raise faced(error, name, fn, args, kwargs)  # noqa: B904  # it is it

        call.__name__ = call.__qualname__ = name
        if "." in name:  # dlvm.nn.relu is found under this name, as pickle asks
            call.__module__ = "dlvm"
        if device:
            call.__signature__ = _with_device(fn)  # type: ignore[attr-defined]
        PUBLIC[name] = call
        return fn

    return register


def _with_device(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function that takes ``device=`` as well."""
    found = inspect.signature(fn)
    kind = inspect.Parameter.KEYWORD_ONLY
    device = inspect.Parameter("device", kind, default=None, annotation="str | None")
    return found.replace(parameters=[*found.parameters.values(), device])


def exported(name: str, views: bool = False) -> Callable[[F], F]:
    """Register a function as ``public`` does, and give what users call, to be a module's own name.

    Outside of a trace the whole function runs as one: the arrays that it makes on the way are
    staged values, so that its operators promote as ours do, and not as NumPy's.
    """

    def register(fn: F) -> F:
        public(name, views)(fn)
        return cast("F", PUBLIC[name])

    return register


def _frozen(array: Array) -> Array:
    """A view of an array that can't be assigned into."""
    view = array.view()
    view.flags.writeable = False
    return view


def _gives_views(
    fn: Callable[..., Any], views: bool | str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether results of a call may share memory with its operands."""
    if not isinstance(views, str):
        return views
    bound = inspect.signature(fn).bind(*args, **kwargs)
    bound.apply_defaults()
    return not bound.arguments[views]


def compute(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], views: bool = False
) -> Any:
    """Call a public function on plain arrays: its operations, run by their references.

    Results are copied where they share memory with an operand, unless they may be ``views``.
    """
    import optree

    trace = Trace(fn.__name__, find=lambda array: "x")
    with Scope(trace, None, fn.__name__) as scope:
        scope.builder.origin = user_origin()
        leaves, tree = optree.tree_flatten(fn(*args, **kwargs), namespace="dlvm")  # pyright: ignore[reportUnknownMemberType, reportArgumentType]
        results = tuple(staged(leaf).read() for leaf in leaves)
    captured = list(trace.arrays.values())
    params = tuple(c.param for c in captured)
    function = Function("eager", params, tuple(scope.builder.ops), results)
    with np.errstate(all="ignore"), standard_mode():
        module, given = Module((function,)), [c.array for c in captured]
        arrays = _interpreted(module, given)
        if contexts and (looked := looks()).at_numbers:
            names = [f"argument {i}" for i, _ in enumerate(params)]
            look((lambda: module, lambda: module), given, names, arrays, looked)
    return tree.unflatten([a if views else _owned(a, given) for a in arrays])


def _interpreted(module: Module, arrays: Sequence[Array]) -> Sequence[Array]:
    """The results by the references; a reference that fails is a bug, reported with its module."""
    try:
        return Interpreter(module).call(module.main, arrays)
    except (UserError, MemoryError, RecursionError):
        raise
    except Exception as error:
        from dlvm.trust.guard import reported

        raise reported(module, "interpret", error, lambda: None, arrays) from error


def _owned(array: Array, operands: Sequence[Array]) -> Array:
    """The array, or a copy where it is read-only or may share memory with an operand."""
    free = array.flags.writeable and not any(np.may_share_memory(array, x) for x in operands)
    return array if free else array.copy()
