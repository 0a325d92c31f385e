"""``dlvm.stablehlo.load``: a module of StableHLO as a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlvm.base.errors import CallError, ShapeError
from dlvm.dsl.call.staging import function
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import fresh, staged
from dlvm.dsl.trace.scopes import user_origin
from dlvm.ir import Builder, Function, Param, inline

from .bytecode.cursor import damaged
from .bytecode.exported import exported
from .bytecode.modules import read_artifact
from .reading import arrays as arrays
from .reading import elements as elements
from .reading import factorisations as factorisations
from .reading import indexing as indexing
from .reading import windows as windows
from .reading.bindings import read
from .reading.calls import check_calls
from .reading.control import Reading
from .reading.tree import Tree


@facing_users
def load(module: str | bytes | bytearray) -> Any:
    """The function ``main`` of a module: of text, or of the bytes that ``jax.export`` writes.

    It is called with arrays of the types that the module states, is staged like any function, and
    can be differentiated and batched. One result is given bare, several as a tuple. An operation
    that dlvm does not have is refused by name. Bytes need no other package; text is read through
    the package jax::

        f = dlvm.stablehlo.load(jax.export.export(jax.jit(g))(x).serialize())
        f = dlvm.stablehlo.load(jax.jit(g).lower(x).as_text())
    """
    if isinstance(module, str):
        found = Loaded(_function(read(module)))
    else:
        artifact = exported(bytes(module))
        tree = read_artifact(artifact.artifact)
        found = Loaded(_function(tree), artifact.count, artifact.kept)
    return function(found.__call__)


def _function(tree: Tree) -> Function:
    check_calls(tree)
    main = tree.functions["main"]
    params = [Param(t, f"x{i}") for i, t in enumerate(main.types)]
    with (builder := Builder()):
        results = Reading(tree).run(main, params, {})
    return Function("main", tuple(params), tuple(builder.ops), results)


class Loaded:
    """A function of the language that is called with arrays."""

    def __init__(
        self, function: Function, count: int | None = None, kept: Sequence[int] = ()
    ) -> None:
        self._function = function
        self._count = len(function.params) if count is None else count
        self._kept = kept if count is not None else range(self._count)
        if len(self._kept) != len(function.params):
            raise damaged(f"a function of {len(function.params)} arguments takes {[*self._kept]}")

    def __call__(self, *args: Any) -> Any:
        """The results for these arrays."""
        fn = self._function
        if len(args) != self._count:
            raise CallError(
                f"the loaded function takes {self._count} arguments, found {len(args)}",
                origin=user_origin(),
                remedy=f"give it {', '.join(str(p.type) for p in fn.params)}",
            )
        values = [staged(args[i]).read() for i in self._kept]
        for i, value, param in zip(self._kept, values, fn.params, strict=True):
            if value.type != param.type:
                raise ShapeError(
                    f"argument {i} of the loaded function: expected {param.type}, "
                    f"found {value.type}",
                    origin=user_origin(),
                    remedy="lower the function for arrays of these types, and load that",
                )
        found = tuple(fresh(v) for v in inline(fn, values))
        return found[0] if len(found) == 1 else found
