"""``dlvm.stablehlo.load``: a module of StableHLO as a function."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import CallError, ShapeError
from dlvm.dsl.call.staging import function
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import fresh, staged
from dlvm.dsl.trace.scopes import user_origin
from dlvm.ir import Builder, Function, Param, inline

from .reading import arrays as arrays
from .reading import elements as elements
from .reading import factorisations as factorisations
from .reading import indexing as indexing
from .reading import windows as windows
from .reading.bindings import read
from .reading.control import Reading


@facing_users
def load(module: str | bytes) -> Any:
    """The function ``main`` of a module: of text, or of the bytes that ``jax.export`` writes.

    It is called with arrays of the types that the module states, is staged like any function, and
    can be differentiated and batched. One result is given bare, several as a tuple. An operation
    that dlvm does not have is refused by name. Modules are read through the package jax::

        f = dlvm.stablehlo.load(jax.jit(g).lower(x).as_text())
    """
    return function(Loaded(_function(module)).__call__)


def _function(module: str | bytes) -> Function:
    tree = read(module)
    main = tree.functions["main"]
    params = [Param(t, f"x{i}") for i, t in enumerate(main.types)]
    with (builder := Builder()):
        results = Reading(tree).run(main, params, {})
    return Function("main", tuple(params), tuple(builder.ops), results)


class Loaded:
    """A function of the language that is called with arrays."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        """The results for these arrays."""
        fn = self._function
        if len(args) != len(fn.params):
            raise CallError(
                f"the loaded function takes {len(fn.params)} arguments, found {len(args)}",
                origin=user_origin(),
                remedy=f"give it {', '.join(str(p.type) for p in fn.params)}",
            )
        values = [staged(x).read() for x in args]
        for i, (value, param) in enumerate(zip(values, fn.params, strict=True)):
            if value.type != param.type:
                raise ShapeError(
                    f"argument {i} of the loaded function: expected {param.type}, "
                    f"found {value.type}",
                    origin=user_origin(),
                    remedy="lower the function for arrays of these types, and load that",
                )
        found = tuple(fresh(v) for v in inline(fn, values))
        return found[0] if len(found) == 1 else found
