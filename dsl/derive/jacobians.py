"""``jacobian`` and ``hessian``: all partial derivatives, by whichever mode is cheaper.

Forward mode costs a tangent for each element of the arguments, reverse mode a cotangent for each
element of the results; all of them at once, in a batch beside one run of the function. Where
the numbers are not far apart, the operations of both are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from dlvm.compile import flops_of
from dlvm.cost import typical
from dlvm.dsl.call.function import StagedFunction
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import here
from dlvm.dsl.trace.specs import check_function
from dlvm.dsl.trace.tracing import Callee, call_function
from dlvm.dsl.trace.trees import flatten, unflatten
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Declaration, Module, TensorType
from dlvm.ir.sizes.dims import product

from .derivatives import derived, frozen_wrt, grad
from .transforms import (
    Applied,
    applied,
    batched_call,
    float_leaves,
    main_results,
    pullback,
    regrouped,
    staged_of,
    tangents_of,
    wanted,
)

Fun = Callable[..., Any]
P = ParamSpec("P")
Blocks = list[dict[int, Any]]
FAR = 4
"""Ratio of the two sizes above which the cheaper mode is taken without counting operations."""


@facing_users
def jacobian(f: Callable[P, Any], wrt: Any = 0, has_aux: bool = False) -> StagedFunction[P, Any]:
    """All partial derivatives: in each result's place a tree like the arguments.

    The axes of the result come first; forward or reverse mode is chosen by cost::

        dlvm.jacobian(lambda x: a @ x)(x)            # a

    With ``has_aux`` ``f`` gives ``(out, aux)``, and its Jacobian ``(jacobian of out, aux)``.
    """
    check_function(f, "jacobian")
    return _jacobian(f, wrt, has_aux, None)


@facing_users
def hessian(f: Callable[P, Any], wrt: Any = 0, has_aux: bool = False) -> StagedFunction[P, Any]:
    """All second derivatives of a function whose result is one float scalar.

    Forward mode over reverse mode; a product with a vector needs no Hessian::

        dlvm.hessian(lambda x: x @ (a @ x))(x)       # a + a.T
        f = lambda x: x @ (a @ x)
        dlvm.jvp(dlvm.grad(f), (x,), (dx,))[1]       # (a + a.T) @ dx
    """
    check_function(f, "hessian")
    named = frozen_wrt("hessian", wrt)

    def second(f: Fun) -> Fun:
        return _jacobian(grad(f, wrt, has_aux), wrt, has_aux, True).python

    return derived("hessian", f, (named, has_aux), second)


def _jacobian(f: Fun, wrt: Any, has_aux: bool, forward: bool | None) -> StagedFunction[..., Any]:
    def inside(f: Fun) -> Fun:
        def of(*args: Any, **kwargs: Any) -> Any:
            chosen = wanted(staged_of(f).parameters, wrt)
            made = applied(f, args, kwargs, chosen.names)
            positions = float_leaves(made, chosen.names)
            main = main_results(made.callee) if has_aux else made.callee
            ahead = is_forward(made, main, positions) if forward is None else forward
            blocks = (_columns if ahead else _rows)(made, main, positions)
            packed = [
                chosen.pack(regrouped(made, chosen.names, row)) if t.dtype.is_float else None
                for t, row in zip(main.types, blocks, strict=True)
            ]
            found = unflatten(main.tree, packed)
            return (found, call_function(made.callee, made.leaves)[1]) if has_aux else found

        return of

    return derived("jacobian", f, (frozen_wrt("jacobian", wrt), has_aux, forward), inside)


# -- the choice ----------------------------------------------------------------------------------


def is_forward(made: Applied, main: Callee, positions: Sequence[int]) -> bool:
    """Whether forward mode is cheaper."""
    floats = [i for i, t in enumerate(main.types) if t.dtype.is_float]
    columns = sum(typical(made.leaves[i].type.size) for i in positions)
    rows = sum(typical(main.types[i].size) for i in floats)
    if columns * FAR <= rows or rows * FAR <= columns:
        return columns <= rows
    name = made.callee.name
    trace, wrt = here().trace, tuple(positions)
    along = Declaration("tangent", f"{name}.moved", name, wrt)
    back = Declaration("adjoint", f"{name}.pulled", name, wrt, seeded=True)
    module = Module((*trace.entries, along, back))
    once, moved, pulled = (typical(flops_of(module, n)) for n in (name, along.name, back.name))
    forward = columns * (max(moved - once, 0) + rows)
    reverse = rows * (max(pulled - once, 0) + columns)
    return forward <= reverse


# -- the two ways --------------------------------------------------------------------------------


def basis(t: TensorType) -> Any:
    """The unit vector of every element."""
    n = product(t.shape)
    return xp.reshape(xp.eye(n, dtype=t.dtype), (n, *t.shape))


def _columns(made: Applied, main: Callee, positions: Sequence[int]) -> Blocks:
    """Derivatives of each result with respect to the leaves, from tangents along every
    unit vector.
    """
    blocks: Blocks = [{} for _ in main.types]
    for i in positions:
        t = made.leaves[i].type
        units = basis(t)

        def along(unit: Any, i: int = i) -> Any:
            return tangents_of(made, [i], [unit.read()])[1]

        moved = batched_call(along, 0, 0, (units,), {})
        floats = [k for k, r in enumerate(made.callee.types) if r.dtype.is_float]
        for k, column in zip(floats, flatten(moved)[0], strict=True):
            if k < len(main.types):
                shape = main.types[k].shape
                last = xp.permute_dims(column, (*range(1, len(shape) + 1), 0))
                blocks[k][i] = xp.reshape(last, (*shape, *t.shape))
    return blocks


def _rows(made: Applied, main: Callee, positions: Sequence[int]) -> Blocks:
    """Derivatives of each result with respect to the leaves, from pullbacks of every
    unit vector.
    """
    pull, callee = pullback(made, positions), made.callee
    blocks: Blocks = []
    for k, t in enumerate(main.types):
        blocks.append({})
        if not t.dtype.is_float:
            continue
        units = basis(t)

        def back(unit: Any, k: int = k) -> list[Any]:
            leaves: list[Any] = [None] * len(callee.types)
            leaves[k] = unit
            found = pull(unflatten(callee.tree, leaves))
            return [found[i] for i in positions]

        rows = batched_call(back, 0, 0, (units,), {})
        for i, x in zip(positions, rows, strict=True):
            blocks[k][i] = xp.reshape(x, (*t.shape, *made.leaves[i].type.shape))
    return blocks
