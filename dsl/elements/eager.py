"""Public functions: in a trace they record operations, outside of one they compute at once.

Outside a trace the references of these operations compute the results (``records``), so that both
ways have one meaning.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from dlvm.dsl.trace.facing import entry, faced
from dlvm.dsl.trace.scopes import current, is_array, user_origin
from dlvm.dsl.trace.sizes import bare
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.layout import Copied, Ordered, Placed, existing
from dlvm.dsl.words.names import PUBLIC

from .records import Compute, Records
from .spelling import as_ours, shown

F = TypeVar("F", bound=Callable[..., Any])
PACKAGES = ("nn.", "random.", "linalg.")
"""Names of functions of many operations, which run as programs outside of a trace, too."""
PROGRAMS: list[Callable[[str, Callable[..., Any], Records], Compute]] = []
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
        ours = functools.partial(as_ours, name, fn)
        outside: list[Compute] = []

        @entry
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            scope = current()
            if scope is not None and scope.builder.origin is not None:  # inside of another one
                return fn(*bare(args), **bare(kwargs))
            try:
                if scope is None:
                    if not outside:
                        outside.append(_outside(name, call, Records(fn, ours, views)))
                    return outside[0](args, kwargs)
                args, kwargs = ours(args, kwargs)
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
                raise faced(error, name, fn, *shown(ours, args, kwargs))  # noqa: B904  # it is it

        call.__name__ = call.__qualname__ = name
        if "." in name:  # dlvm.nn.relu is found under this name, as pickle asks
            call.__module__ = "dlvm"
        if device:
            call.__signature__ = _with_device(fn)  # type: ignore[attr-defined]
        PUBLIC[name] = call
        return fn

    return register


def _outside(name: str, call: Callable[..., Any], records: Records) -> Compute:
    """What computes a public function outside of a trace."""
    if records.views or not name.startswith(PACKAGES):
        return records
    (make,) = PROGRAMS
    programs = make(name, call, records)
    return lambda args, kwargs: programs(*records.ours(args, kwargs))


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
