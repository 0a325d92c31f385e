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
from dlvm.dsl.trace.scopes import Scope, Trace, current, is_array, user_origin
from dlvm.dsl.trace.sizes import bare
from dlvm.dsl.trace.tensor import READ_ONLY, Tensor
from dlvm.dsl.words.layout import Copied, Ordered, Placed, existing
from dlvm.dsl.words.names import PUBLIC
from dlvm.ir import Array, Function, Module
from dlvm.ir.interpret import Interpreter

from .spelling import by_our_names

F = TypeVar("F", bound=Callable[..., Any])
Compute = Callable[[tuple[Any, ...], dict[str, Any]], Any]
PACKAGES = ("nn.", "random.", "linalg.")
"""Names of functions of many operations, which run as programs outside of a trace, too."""
PROGRAMS: list[Callable[[str, Callable[..., Any], Compute], Compute]] = []
"""Makes what runs such a function as a program; ``dlvm.dsl`` registers it."""


def public(
    name: str, views: bool = False, device: bool = False, keeps_order: bool = False
) -> Callable[[F], F]:
    """Register a function that writes operations under the name that users know it by.

    Its results own their memory unless it ``views``: then they share memory with an operand where
    NumPy's function of the name does. ``device`` says that it takes the standard's ``device=``,
    which ``by_our_names`` demands to be None or ``"cpu"``. It ``keeps_order`` if NumPy's function
    lays results out in the order of its operands.
    """

    def register(fn: F) -> F:
        outside: list[Compute] = []

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
                    if not outside:
                        outside.append(_outside(name, fn, call, views))
                    return outside[0](args, kwargs)
                scope.builder.origin = user_origin()
                try:
                    found = fn(*args, **kwargs)
                    return (
                        in_order(found, (*args, *kwargs.values()) if kwargs else args)
                        if keeps_order
                        else found
                    )
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


def _outside(name: str, fn: Callable[..., Any], call: Callable[..., Any], views: bool) -> Compute:
    """What computes a public function outside of a trace."""

    def references(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return compute(fn, args, kwargs, views)

    if views or not name.startswith(PACKAGES):
        return references
    (programs,) = PROGRAMS
    return programs(name, call, references)


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


def _shared(array: Array, x: Tensor) -> Array:
    """A result that shares memory with an operand, and can be assigned into if ``x`` could be."""
    if x.held != READ_ONLY:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def in_order(found: Any, operands: Sequence[Any]) -> Any:
    """Results of an element-wise function, which lie in the order of the operands."""
    for x in operands:
        if x.laid is not None if isinstance(x, Tensor) else is_array(x):
            _lie_as([x for x in operands if isinstance(x, Tensor) or is_array(x)], found)
            break
    return found


def _lie_as(operands: Sequence[Any], found: Any) -> None:
    placed: list[Placed] = [
        x.placed if type(x) is Tensor else (x.shape, existing(x)) for x in operands
    ]
    if all(laid is None for _, laid in placed):
        return
    results: Any = found if isinstance(found, tuple) else (found,)  # pyright: ignore[reportUnknownVariableType]
    for result in results:
        if result.ndim > 1 and not any(result is x for x in operands):
            result.laid = Ordered(result.type.shape, placed)


def like(found: Tensor, x: Tensor) -> Tensor:
    """A new array that lies in the order of another one: a copy, or one made in its likeness."""
    if x.laid is not None and found.ndim > 1:
        found.laid = Copied(found.type.shape, [x.placed])
    return found


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
        arrays = [staged(leaf) for leaf in leaves]
        results = tuple(a.read() for a in arrays)
    captured = list(trace.arrays.values())
    params = tuple(c.param for c in captured)
    function = Function("eager", params, tuple(scope.builder.ops), results)
    with np.errstate(all="ignore"), standard_mode():
        module, given = Module((function,)), [c.array for c in captured]
        found = _interpreted(module, given)
        if contexts and (looked := looks()).at_numbers:
            names = [f"argument {i}" for i, _ in enumerate(params)]
            look((lambda: module, lambda: module), given, names, found, looked)
    pairs = zip(found, arrays, strict=True)
    return tree.unflatten(
        [_shared(a, x) if views and x.held else _owned(a, given) for a, x in pairs]
    )


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
