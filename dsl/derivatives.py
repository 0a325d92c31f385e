"""``grad``, ``vjp``, ``jvp``, ``vmap`` and the like, as users call them, in and out of traces.

Signatures are JAX's, with ``wrt=`` (positions or names) in place of ``argnums=``. What they
give is a staged function, made once and kept with the function it was made of.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any

from dlvm.errors import ShapeError, UserError
from dlvm.ir.dims import product
from dlvm.ops import Checkpoint

from .control import in_trace, operands, region
from .function import StagedFunction, is_staged
from .namespace import xp
from .operands import fresh, plain, shape_of, shown_shape, staged
from .scopes import facing_users, is_sequence, user_origin
from .specs import check_function
from .tracing import call_function, inputs_of
from .transforms import (
    applied,
    batched_call,
    float_leaves,
    pullback,
    regrouped,
    staged_of,
    tangents_of,
    value_and_gradient,
    wanted,
)
from .trees import flatten, labels, map_leaves, shown, unflatten

Fun = Callable[..., Any]
_kept: weakref.WeakKeyDictionary[Any, dict[Hashable, StagedFunction[..., Any]]]
_kept = weakref.WeakKeyDictionary()


def kept(
    f: Fun, key: Hashable, make: Callable[[], StagedFunction[..., Any]]
) -> StagedFunction[..., Any]:
    """The staged function that ``make`` gives, made once for ``f``."""
    try:
        of_f = _kept.setdefault(f, {})
    except TypeError:
        return make()
    if key not in of_f:
        of_f[key] = make()
    return of_f[key]


def derived(kind: str, f: Fun, options: Hashable, inside: Fun) -> StagedFunction[..., Any]:
    """The staged function of ``f``'s arguments that ``inside`` is, made once for ``f``."""

    def make() -> StagedFunction[..., Any]:
        target = staged_of(f)
        named_like = wraps(target.python)(inside)
        named_like.__name__ = f"{kind}_{target.label}"
        return target.like(named_like)

    return kept(f, (kind, options), make)


def primal(f: Fun) -> StagedFunction[..., Any]:
    """``f`` itself, staged once."""
    return f if is_staged(f) else kept(f, "primal", lambda: StagedFunction(f))


def _frozen_wrt(wrt: Any) -> Hashable:
    return wrt if isinstance(wrt, int | str) else tuple(wrt)


# -- reverse mode --------------------------------------------------------------------------------


def value_and_grad(f: Fun, wrt: Any = 0, has_aux: bool = False) -> StagedFunction[..., Any]:
    """A function that gives ``(f(...), gradient)``, or ``((loss, aux), gradient)`` with aux."""

    def inside(*args: Any, **kwargs: Any) -> Any:
        loss, aux, gradients = value_and_gradient(f, wrt, has_aux, args, kwargs)
        return ((loss, aux) if has_aux else loss), gradients

    check_function(f, "value_and_grad")
    return derived("value_and_grad", f, (_frozen_wrt(wrt), has_aux), inside)


def grad(f: Fun, wrt: Any = 0, has_aux: bool = False) -> StagedFunction[..., Any]:
    """A function that gives the gradient of ``f``, whose result is one float scalar."""

    def inside(*args: Any, **kwargs: Any) -> Any:
        _, aux, gradients = value_and_gradient(f, wrt, has_aux, args, kwargs)
        return (gradients, aux) if has_aux else gradients

    check_function(f, "grad")
    return derived("grad", f, (_frozen_wrt(wrt), has_aux), inside)


@facing_users
def vjp(f: Fun, *primals: Any, has_aux: bool = False) -> Any:
    """``(f(*primals), pull)``; ``pull`` takes cotangents of the results to those of the primals."""
    if not in_trace():
        results = primal(f)(*primals)
        pulled = kept(f, ("pull", has_aux), lambda: StagedFunction(_pulling(f, has_aux)))
        out, aux = results if has_aux else (results, None)

        def again(ct: Any) -> Any:
            return pulled(primals, ct)

        return _with_aux(out, again, aux, has_aux)
    made = applied(f, primals, {})
    positions = float_leaves(made, made.arguments.names)
    results = call_function(made.callee, made.leaves)
    pull = pullback(made, positions)

    def cotangents(ct: Any) -> tuple[Any, ...]:
        full = (ct, map_leaves(_nothing, results[1])) if has_aux else ct
        return tuple(regrouped(made, made.arguments.names, pull(full)))

    out, aux = results if has_aux else (results, None)
    return _with_aux(out, cotangents, aux, has_aux)


def _nothing(leaf: Any) -> None:
    return None


def _with_aux(out: Any, pull: Fun, aux: Any, has_aux: bool) -> Any:
    return (out, pull, aux) if has_aux else (out, pull)


def _pulling(f: Fun, has_aux: bool) -> Fun:
    def pull(primals: Any, cotangents: Any) -> Any:
        return vjp(f, *primals, has_aux=has_aux)[1](cotangents)

    return pull


# -- forward mode --------------------------------------------------------------------------------


@facing_users
def jvp(f: Fun, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """``f(*primals)`` and its directional derivative along the tangents."""
    given = matched_tangents(primals, tangents)
    if not in_trace():
        return kept(f, "push", lambda: StagedFunction(_pushing(f)))(tuple(primals), tuple(tangents))
    made = applied(f, primals, {})
    positions = [
        i
        for i, (x, t) in enumerate(zip(made.leaves, given, strict=True))
        if x.element.is_float and t is not None
    ]
    values = [staged(xp.astype(given[i], made.leaves[i].dtype)) for i in positions]
    return tangents_of(made, positions, [v.read() for v in values])


def _pushing(f: Fun) -> Fun:
    def push(primals: Any, tangents: Any) -> Any:
        return jvp(f, primals, tangents)

    return push


def matched_tangents(primals: Any, tangents: Any) -> list[Any]:
    """The tangent of each leaf of the primals, after checking that the two belong together."""
    remedy = "write dlvm.jvp(f, (x, y), (dx, dy)), with None or zeros where nothing moves"
    if not (is_sequence(primals) and is_sequence(tangents) and len(primals) == len(tangents)):
        raise UserError(
            f"jvp takes a tuple of primals and one of as many tangents, found {_count(primals)} "
            f"and {_count(tangents)}",
            origin=user_origin(),
            remedy=remedy,
        )
    given = [x for p, t in zip(primals, tangents, strict=True) for x in _like(p, t)]
    leaves, tree = flatten(tuple(primals))
    for x, t, label in zip(leaves, given, labels(tree, "tangents"), strict=True):
        expected = shape_of(plain(x))
        if t is not None and shape_of(plain(t)) != expected:
            raise ShapeError(
                f"{label} has the shape {shown_shape(shape_of(plain(t)))}, its primal has "
                f"{shown_shape(expected)}",
                origin=user_origin(),
                remedy="a tangent has the shape of its primal; stretch it with dlvm.broadcast_to",
            )
    return given


def _count(given: Any) -> str:
    return f"{len(given)}" if is_sequence(given) else f"one {type(given).__name__}"


def _like(primal: Any, tangent: Any) -> list[Any]:
    """The tangent of each leaf of a primal; None where there is none."""
    leaves, tree = flatten(primal)
    if tangent is None:
        return [None] * len(leaves)
    found, other = flatten(tangent)
    if other == tree:
        return found
    raise UserError(
        f"a tangent must have the structure of its primal, {shown(tree)}, found {shown(other)}",
        origin=user_origin(),
        remedy="pass the same dicts and tuples, with a tangent in the place of each array",
    )


def linearize(f: Fun, *primals: Any) -> tuple[Any, Fun]:
    """``f(*primals)`` and the linear function that takes tangents to tangents of the result."""
    return primal(f)(*primals), lambda *tangents: jvp(f, primals, tangents)[1]


# -- whole derivatives ---------------------------------------------------------------------------


def jacobian(f: Fun, wrt: Any = 0) -> StagedFunction[..., Any]:
    """All partial derivatives: in each result's place a tree like the arguments, its axes first."""

    def inside(*args: Any, **kwargs: Any) -> Any:
        chosen = wanted(staged_of(f).parameters, wrt)
        made = applied(f, args, kwargs)
        positions = float_leaves(made, chosen.names)
        pull = pullback(made, positions)
        rows = [
            _rows(pull, made, positions, k)
            for k, t in enumerate(made.callee.types)
            if t.dtype.is_float
        ]
        packed = iter([chosen.pack(regrouped(made, chosen.names, row)) for row in rows])
        floats = [next(packed) if t.dtype.is_float else None for t in made.callee.types]
        return unflatten(made.callee.tree, floats)

    return derived("jacobian", f, _frozen_wrt(wrt), inside)


def _rows(pull: Fun, made: Any, positions: Sequence[int], k: int) -> dict[int, Any]:
    """The derivatives of result ``k``: the pullback of every unit vector at once."""
    types = made.callee.types
    shape = types[k].shape
    n = product(shape)
    basis = xp.reshape(xp.eye(n, dtype=types[k].dtype), (n, *shape))

    def one(unit: Any) -> list[Any]:
        leaves = [unit if i == k else xp.zeros(t.shape, t.dtype) for i, t in enumerate(types)]
        found = pull(unflatten(made.callee.tree, leaves))
        return [found[i] for i in positions]

    found = batched_call(one, 0, 0, (basis,), {})
    return {
        i: xp.reshape(x, (*shape, *made.leaves[i].shape))
        for i, x in zip(positions, found, strict=True)
    }


def hessian(f: Fun, wrt: Any = 0) -> StagedFunction[..., Any]:
    """All second derivatives of a function whose result is one float scalar."""
    return derived("hessian", f, _frozen_wrt(wrt), jacobian(grad(f, wrt), wrt).python)


# -- batching and recomputation ------------------------------------------------------------------


def vmap(f: Fun, in_axes: Any = 0, out_axes: Any = 0) -> StagedFunction[..., Any]:
    """``f`` of each element along the batched axes; None in ``in_axes`` is not batched."""
    check_function(f, "vmap")

    def inside(*args: Any, **kwargs: Any) -> Any:
        return batched_call(f, in_axes, out_axes, args, kwargs)

    return derived("vmap", f, (repr(in_axes), repr(out_axes)), inside)


def checkpoint(f: Fun) -> StagedFunction[..., Any]:
    """``f``, whose inner values the derivative computes again instead of keeping them."""
    check_function(f, "checkpoint")

    def inside(*args: Any, **kwargs: Any) -> Any:
        target = staged_of(f)
        arguments = target.parameters.bind(args, kwargs)
        leaves, tree = flatten(arguments.values)
        written = region("body", inputs_of(leaves, tree, "x"), target.body(arguments, tree))
        captured = tuple(written.scope.lifted)
        op = Checkpoint((*operands(leaves), *captured), written.region("body"))
        return unflatten(written.tree, [fresh(r) for r in op.results])

    return derived("checkpoint", f, (), inside)


def stop_gradient(x: Any) -> Any:
    """The tree itself, through which no derivative flows."""
    return map_leaves(xp.stop_gradient, x)
