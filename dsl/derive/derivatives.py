"""``grad``, ``vjp``, ``jvp``, ``vmap`` and the like, as users call them, in and out of traces.

Signatures are JAX's, with ``wrt=`` (positions or names) in place of ``argnums=``. Each
returns a staged function, which is made once and kept with the original function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from dlvm.base.errors import ShapeError, UserError
from dlvm.compile import Options
from dlvm.dsl.call.function import StagedFunction, is_staged
from dlvm.dsl.call.made import made_of
from dlvm.dsl.call.same_code import Again, is_alone, lent
from dlvm.dsl.flow.control import in_trace, operands, region
from dlvm.dsl.trace.comparing import mismatch
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import NAMES
from dlvm.dsl.trace.kinds import shown as shown_argument
from dlvm.dsl.trace.operands import fit, fresh, plain, shape_of, shown_shape, staged
from dlvm.dsl.trace.scopes import is_sequence, user_origin
from dlvm.dsl.trace.specs import check_function
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import inputs_of
from dlvm.dsl.trace.trees import Spec, flatten, labels, map_leaves, unflatten
from dlvm.dsl.words.namespace import xp
from dlvm.ir import TensorType, Value, zeros
from dlvm.ir.sizes.dims import Dim
from dlvm.ir.sizes.equations import unequal
from dlvm.ops import Checkpoint, Named
from dlvm.ops.flow.control import POLICIES

from .transforms import (
    applied,
    batched_call,
    staged_of,
    tangents_of,
    value_and_gradient,
    with_known,
)

Fun = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")
X = TypeVar("X", bound=Any)  # so that a lambda may compute with it
A = TypeVar("A")
Shape = tuple[Dim, ...]


def kept(
    f: Fun, key: Hashable, make: Callable[[], StagedFunction[..., Any]]
) -> StagedFunction[..., Any]:
    """The staged function that ``make`` returns, made once for ``f``."""
    made = made_of(f)
    if key not in made:
        made[key] = make()
    return made[key]


def derived(
    kind: str, f: Fun, options: Hashable, inside: Callable[[Fun], Fun]
) -> StagedFunction[..., Any]:
    """A staged function of ``f``'s arguments with the body ``inside(f)``, made once for ``f``."""

    def make(f: Fun) -> StagedFunction[..., Any]:
        target = staged_of(f)
        named_like = wraps(target.python)(inside(f))
        named_like.__name__ = f"{kind}_{target.label}"
        return target.like(named_like, transparent=not is_staged(f) or f.transparent)

    return kept_by_code(f, (kind, options), make)


def derived_once(
    kind: str, f: Fun, key: Hashable, program: Callable[[Fun], Fun]
) -> StagedFunction[..., Any]:
    """A staged function ``program(f)``, made once; it reads the state that ``f`` captures."""

    def make(f: Fun) -> StagedFunction[..., Any]:
        target, body = staged_of(f), program(f)
        body.__name__ = f"{kind}_{target.label}"
        roots, options = [*target.source.roots, body], Options(mesh=target.source.options.mesh)
        return StagedFunction(body, roots=roots, options=options, alone=is_alone(f))

    return kept_by_code(f, key, make)


def kept_by_code(
    f: Fun, key: Hashable, make: Callable[[Fun], StagedFunction[..., Any]]
) -> StagedFunction[..., Any]:
    """What ``make`` returns for ``f``, or for what stands in for all functions of its code."""
    if key in (made := made_of(f)):
        return made[key]
    if (found := lent(f)) is None:
        return kept(f, key, partial(make, f))
    staged = kept(found.target, key, partial(make, found.target))
    return kept(f, key, lambda: Again(found, staged, partial(make, f)))


def made_by_code(f: Fun) -> Mapping[Hashable, StagedFunction[..., Any]]:
    """What was made of a function, or of what stands in for all functions of its code."""
    found = lent(f)
    return made_of(f if found is None else found.target)


def frozen_wrt(name: str, wrt: Any) -> Hashable:
    """The value of ``wrt=`` as a cache key; an argument in the place of its name is refused."""
    if NAMES.fits(wrt):
        return tuple(wrt) if is_sequence(wrt) else wrt
    raise UserError(
        f"dlvm.{name}: wrt: expected {NAMES.said}, found {shown_argument(wrt)}",
        origin=user_origin(),
        remedy=f"dlvm.{name} gives a function, which takes the arguments: dlvm.{name}(f)(x)",
    )


# -- reverse mode --------------------------------------------------------------------------------


@overload
def value_and_grad(
    f: Callable[Concatenate[X, P], R], wrt: Literal[0] = 0, has_aux: bool = False
) -> StagedFunction[Concatenate[X, P], tuple[R, X]]: ...
@overload
def value_and_grad(
    f: Callable[P, R], wrt: Any, has_aux: bool = False
) -> StagedFunction[P, tuple[R, Any]]: ...
@facing_users
def value_and_grad(f: Fun, wrt: Any = 0, has_aux: bool = False) -> StagedFunction[..., Any]:
    """A function that gives ``(f(...), gradient)``; the result of ``f`` is one float scalar.

    With ``has_aux`` ``f`` gives ``(loss, aux)``, and this ``((loss, aux), gradient)``::

        loss, slope = dlvm.value_and_grad(lambda x: (x * x).sum())(x)
        slope                                                     # 2 * x
        (loss, aux), slope = dlvm.value_and_grad(lambda x: (x.sum(), 2 * x), has_aux=True)(x)
    """

    def inside(f: Fun) -> Fun:
        def of(*args: Any, **kwargs: Any) -> Any:
            loss, aux, gradients = value_and_gradient(f, wrt, has_aux, args, kwargs)
            return ((loss, aux) if has_aux else loss), gradients

        return of

    check_function(f, "value_and_grad")
    return derived("value_and_grad", f, (frozen_wrt("value_and_grad", wrt), has_aux), inside)


@overload
def grad(
    f: Callable[Concatenate[X, P], Any], wrt: Literal[0] = 0, has_aux: Literal[False] = False
) -> StagedFunction[Concatenate[X, P], X]: ...
@overload
def grad(
    f: Callable[Concatenate[X, P], tuple[Any, A]], wrt: Literal[0] = 0, *, has_aux: bool
) -> StagedFunction[Concatenate[X, P], tuple[X, A]]: ...
@overload
def grad(f: Callable[P, Any], wrt: Any, has_aux: bool = False) -> StagedFunction[P, Any]: ...
@facing_users
def grad(f: Fun, wrt: Any = 0, has_aux: bool = False) -> StagedFunction[..., Any]:
    """A function that gives the gradient of ``f``, whose result is one float scalar.

    ``wrt`` names arguments by position or name: one for a bare gradient, several for a tuple. A
    gradient is a tree like its argument; integers in it have None::

        dlvm.grad(lambda x: (x * x).sum())(x)                     # 2 * x
        dx, dy = dlvm.grad(lambda x, y: 3 * (x @ y), wrt=(0, "y"))(x, 2 * x)
        dy                                                        # 3 * x

    With ``has_aux`` ``f`` gives ``(loss, aux)``, and this ``(gradient, aux)``.
    """

    def inside(f: Fun) -> Fun:
        def of(*args: Any, **kwargs: Any) -> Any:
            _, aux, gradients = value_and_gradient(f, wrt, has_aux, args, kwargs)
            return (gradients, aux) if has_aux else gradients

        return of

    check_function(f, "grad")
    return derived("grad", f, (frozen_wrt("grad", wrt), has_aux), inside)


# -- forward mode --------------------------------------------------------------------------------


@facing_users
def jvp(f: Fun, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """``f(*primals)`` and its directional derivative along the tangents; None stands for zero.

    Of a gradient it is a product with the Hessian::

        y, dy = dlvm.jvp(dlvm.sin, (x,), (dx,))
        dy                                                        # np.cos(x) * dx
        dlvm.jvp(dlvm.grad(lambda x: (x**3).sum()), (x,), (dx,))[1]  # 6 * x * dx
    """
    given = matched_tangents(primals, tangents)
    if not in_trace():
        return derived_once("jvp", f, "jvp", _pushing)(tuple(primals), tuple(tangents))
    made = applied(f, primals, {})
    pairs = zip(made.leaves, given, strict=True)
    positions = [i for i, (x, t) in enumerate(pairs) if x.element.is_float and t is not None]
    return tangents_of(
        made, positions, [converted(given[i], made.leaves[i].type) for i in positions]
    )


def converted(x: Any, t: TensorType) -> Value:
    """A tangent converted to the type of its primal; None becomes zeros."""
    return zeros(t) if x is None else fit(x, t.dtype, t.shape)


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
    leaves, tree = flatten(tuple(primals))
    return tangents_like(tree, [shape_of(plain(x)) for x in leaves], tangents)


def tangents_like(tree: Spec, shapes: Sequence[Shape], tangents: Sequence[Any]) -> list[Any]:
    """The tangent of each leaf of primals with this structure and these shapes."""
    pairs = zip(tree.children(), tangents, strict=True)
    given = [x for p, t in pairs for x in _like(p, t)]
    for expected, t, label in zip(shapes, given, labels(tree, "tangents"), strict=True):
        if t is not None and shape_of(plain(t)) != expected:
            raise ShapeError(
                f"{label} has the shape {shown_shape(shape_of(plain(t)))}, its primal has "
                f"{shown_shape(expected)}",
                origin=user_origin(),
                remedy="a tangent has the shape of its primal; stretch it with dlvm.broadcast_to",
                sides=unequal(shape_of(plain(t)), expected),
            )
    return given


def _count(given: Any) -> str:
    return f"{len(given)}" if is_sequence(given) else f"one {type(given).__name__}"


def _like(tree: Spec, tangent: Any) -> list[Any]:
    """The tangent of each leaf of a primal; None if the tree of tangents has none there."""
    if tangent is None:
        return [None] * tree.num_leaves
    found, other = flatten(tangent)
    if other == tree:
        return found
    raise mismatch(
        "a tangent must have the structure of its primal",
        "tangent",
        tree,
        other,
        "pass the same dicts and tuples, with a tangent in the place of each array",
    )


# -- batching and recomputation ------------------------------------------------------------------


@facing_users
def vmap(
    f: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0, axis_size: Any = None
) -> StagedFunction[P, R]:
    """``f`` of each element along the batched axes; None in ``in_axes`` is not batched.

    Axes are one for all, one for each argument or result, or trees of them; None in ``out_axes``
    is for what is the same in every lane. ``axis_size`` says how many lanes there are where no
    argument does::

        dlvm.vmap(lambda row, x: row @ x, in_axes=(0, None))(a, x)  # a @ x
    """
    check_function(f, "vmap")

    def inside(f: Fun) -> Fun:
        def of(*args: Any, **kwargs: Any) -> Any:
            return batched_call(f, in_axes, out_axes, args, kwargs, axis_size)

        return of

    return derived("vmap", f, (repr(in_axes), repr(out_axes), repr(axis_size)), inside)


@facing_users
def checkpoint(f: Callable[P, R], policy: str = "nothing") -> StagedFunction[P, R]:
    """``f``, whose inner values the derivative computes again instead of keeping them.

    ``policy`` says which are kept: ``"nothing"``, ``"everything"``, ``"products"`` (results of
    matrix products), or ``dlvm.save_names(...)`` for those that ``dlvm.checkpoint_name`` names::

        layer = dlvm.checkpoint(lambda w: 2 * (w @ x), policy="products")
        dlvm.grad(lambda w: layer(w).sum())(a)                     # 2 * np.ones((3, 1)) * x
    """
    check_function(f, "checkpoint")
    check_policy(policy)

    def inside(f: Fun) -> Fun:
        def of(*args: Any, **kwargs: Any) -> Any:
            target = staged_of(f)
            arguments = with_known(f, target.parameters.bind(args, kwargs))
            leaves, tree = flatten(arguments.values)
            written = region("body", inputs_of(leaves, tree, "x"), target.body(arguments, tree))
            captured = tuple(written.scope.lifted)
            op = Checkpoint((*operands(leaves), *captured), written.region("body"), policy)
            return unflatten(written.tree, [fresh(r) for r in op.results])

        return of

    return derived("checkpoint", f, policy, inside)


def check_policy(policy: Any) -> None:
    """Refuses a value that is no checkpoint policy."""
    if not (isinstance(policy, str) and (policy in POLICIES[:-1] or policy.startswith("names:"))):
        raise UserError(
            f"checkpoint: policy={policy!r:.40}",
            origin=user_origin(),
            remedy=f"it can be {', '.join(map(repr, POLICIES[:-1]))} or dlvm.save_names('a', 'b')",
        )


@facing_users
def save_names(*names: str) -> str:
    """The policy of a checkpoint that keeps the values of these names.

    A name is given by ``dlvm.checkpoint_name``::

        f = lambda x: dlvm.checkpoint_name(a @ x, "hidden") * 2
        dlvm.checkpoint(f, policy=dlvm.save_names("hidden"))(x)    # a @ x * 2
    """
    return f"names:{','.join(names)}"


@facing_users
def checkpoint_name(x: X, name: str) -> X:
    """The tree itself, under a name to which ``dlvm.save_names`` can refer."""
    if "," in name:
        raise UserError(
            f"checkpoint_name: {name!r} can't be a name",
            origin=user_origin(),
            remedy="leave out the comma",
        )

    def labelled(leaf: Any) -> Tensor:
        given = staged(leaf)
        return fresh(Named(given.read(), name), given.weak)

    return map_leaves(labelled, x) if in_trace() else x


@facing_users
def stop_gradient(x: X) -> X:
    """The tree itself, through which no derivative flows.

    So it is a constant for whoever differentiates::

        dlvm.grad(lambda x: (x * dlvm.stop_gradient(x)).sum())(x)  # x
    """
    return map_leaves(xp.stop_gradient, x)
