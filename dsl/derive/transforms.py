"""Derivatives and batching of functions: declarations and calls in a trace.

Inside a trace a transformation writes the function as one of the module's, declares the
derived function and calls it. Outside, a transformation of a function is itself a staged
function, made once and kept with the function. Transformations therefore nest in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.call.function import StagedFunction, is_staged
from dlvm.dsl.call.same_code import is_alone
from dlvm.dsl.trace.comparing import mismatch
from dlvm.dsl.trace.kinds import INDEX
from dlvm.dsl.trace.kinds import shown as shown_argument
from dlvm.dsl.trace.operands import fit, here, staged
from dlvm.dsl.trace.provenance import arisen
from dlvm.dsl.trace.scopes import is_sequence, user_origin
from dlvm.dsl.trace.sizes import Size, bare
from dlvm.dsl.trace.specs import Arguments, Parameters, owner
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import Callee, call
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.dsl.trace.trees import broadcast_prefix, flatten, flatten_with_none, unflatten
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim, Expr, TensorType, Value
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.sizes.equations import unequal

# -- a function and its arguments, ready to be transformed ---------------------------------------


@dataclass(frozen=True, slots=True)
class Applied:
    """A function written for some arguments: the callee and its operands, leaf by leaf."""

    callee: Callee
    leaves: list[Tensor]
    arguments: Arguments
    tree: Tree

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """For each argument, the range of its leaves among all leaves."""
        out: dict[str, tuple[int, int]] = {}
        at = 0
        for name, child in zip(self.arguments.names, self.tree.children(), strict=True):
            out[name] = (at, at + child.num_leaves)
            at += child.num_leaves
        return out

    def operands(self) -> list[Value]:
        """The operands of a call of the callee or of a function derived from it."""
        return [*(x.read() for x in self.leaves), *self.callee.extra()]


def staged_of(f: Callable[..., Any]) -> StagedFunction[..., Any]:
    """The staged form of a function."""
    return f if is_staged(f) else StagedFunction(f, alone=is_alone(f))


def with_known(
    f: Callable[..., Any], arguments: Arguments, moving: Collection[str] = ()
) -> Arguments:
    """Arguments of a function in a trace, in which values that Python knows stay values of Python.

    So sizes, switches and words go through transformations as through calls, unless they are
    differentiated or batched by. A function that the user staged says itself what is static.
    """
    if is_staged(f) and not f.transparent:
        return arguments
    pairs = zip(arguments.names, arguments.values, strict=True)
    plain = {n for n, v in pairs if isinstance(v, bool | int | str | Size) and owner(n) == n}
    return arguments.with_static(plain - {*moving})


def applied(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    moving: Collection[str] | None = None,
) -> Applied:
    """Traces a function for these arguments, without calling it.

    ``moving`` marks the arguments that are differentiated; others may be values of Python.
    """
    target = staged_of(f)
    arguments = target.parameters.bind(tuple(args), kwargs)
    if moving is not None:
        arguments = with_known(f, arguments, moving)
    leaves, tree = flatten(arguments.values)
    tensors = [staged(x) for x in leaves]
    callee = target.callee(arguments, tree, [x.type for x in tensors], tensors)
    return Applied(callee, tensors, arguments, tree)


# -- which arguments -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments with respect to which to differentiate; ``bare`` if the user named just one."""

    names: tuple[str, ...]
    bare: bool

    def pack(self, gradients: Sequence[Any]) -> Any:
        """The gradient itself for one argument, a tuple of gradients for several."""
        return gradients[0] if self.bare else tuple(gradients)


def wanted(parameters: Parameters, wrt: Any) -> Wanted:
    """The arguments that ``wrt=`` names by position or name."""
    bare = isinstance(wrt, int | str)
    names = tuple(parameters.resolve(wrt, "wrt"))
    for name in names:
        if name in parameters.static:
            raise UserError(
                f"wrt={name!r}: it is static",
                origin=user_origin(),
                remedy="differentiate by another argument, or don't make it static",
            )
        if parameters.takes_many(name):
            raise UserError(
                f"wrt={name!r}: it stands for any number of arguments",
                origin=user_origin(),
                remedy="name those that are meant by position or keyword: wrt=(0, 1)",
            )
    return Wanted(names, bare)


def float_leaves(made: Applied, names: Sequence[str]) -> list[int]:
    """The leaves of some arguments through which derivatives flow; each must have one."""
    out: list[int] = []
    for name in names:
        if name not in made.spans:
            raise UserError(
                f"wrt={name!r}: it was not passed, so there is nothing to differentiate by",
                origin=user_origin(),
                remedy=f"pass it: {name}=...",
            )
        start, stop = made.spans[name]
        found = [i for i in range(start, stop) if made.leaves[i].element.is_float]
        if not found:
            types = ", ".join(str(made.leaves[i].type) for i in range(start, stop)) or "no arrays"
            raise UserError(
                f"wrt={name!r}: there is no float among its leaves ({types})",
                origin=user_origin(),
                remedy="convert it with dlvm.astype, or differentiate by another argument",
            )
        out += found
    return out


def regrouped(made: Applied, names: Sequence[str], by_leaf: dict[int, Any]) -> list[Any]:
    """For each argument a tree of its structure, with None at leaves without a value."""
    children = dict(zip(made.arguments.names, made.tree.children(), strict=True))
    return [unflatten(children[n], [by_leaf.get(i) for i in range(*made.spans[n])]) for n in names]


# -- reverse mode --------------------------------------------------------------------------------


def value_and_gradient(
    f: Callable[..., Any], wrt: Any, has_aux: bool, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """In a trace: the loss, the rest of the results, and the gradients."""
    target = staged_of(f)
    chosen = wanted(target.parameters, wrt)
    made = applied(f, args, kwargs, chosen.names)
    positions = float_leaves(made, chosen.names)
    check_loss(made.callee, has_aux, target.label)
    types = made.callee.types
    floats = [t for t in types if t.dtype.is_float]
    alone = len(floats) == 1
    declared = here().trace.declare(
        "adjoint",
        made.callee.name,
        wrt=tuple(positions),
        keep=tuple(range(len(types))),
        seeded=not alone,
    )
    seeds = [] if alone else [fit(float(i == 0), t.dtype, t.shape) for i, t in enumerate(floats)]
    gradient_types = [made.leaves[i].type for i in positions]
    out = call(declared.name, [*made.operands(), *seeds], [*gradient_types, *types])
    gradients = dict(zip(positions, out, strict=False))
    results = unflatten(made.callee.tree, out[len(positions) :])
    loss, aux = results if has_aux else (results, None)
    return loss, aux, chosen.pack(regrouped(made, chosen.names, gradients))


def check_loss(callee: Callee, has_aux: bool, name: str) -> None:
    """Checks that the (first) result is one float scalar."""
    tree, types = callee.tree, callee.types
    if has_aux:
        children = tree.children()
        if len(children) != 2:
            raise UserError(
                f"has_aux=True: {name} must return a pair, the loss and the rest",
                origin=user_origin(),
                remedy="return loss, aux",
            )
        tree = children[0]
    leaf = tree.num_leaves == 1 and tree.num_nodes == 1
    if leaf and types[0] == TensorType(types[0].dtype) and types[0].dtype.is_float:
        return
    found = ", ".join(map(str, types[: tree.num_leaves])) or "nothing"
    many = leaf and types[0].dtype.is_float
    raise UserError(
        f"the gradient of {name} needs one float scalar as its result, found {found}",
        origin=user_origin(),
        remedy="reduce it with .sum() or .mean(), or use dlvm.vjp or dlvm.jacobian"
        if many
        else "return the loss alone, or (loss, rest) with has_aux=True",
    )


def main_results(callee: Callee) -> Callee:
    """The callee without its auxiliary results: those of the first of the pair it returns."""
    children = callee.tree.children()
    if len(children) != 2:
        raise UserError(
            "has_aux=True: the function must return a pair, the results and the rest",
            origin=user_origin(),
            remedy="return out, aux",
        )
    return replace(callee, tree=children[0], types=callee.types[: children[0].num_leaves])


def pullback(made: Applied, positions: Sequence[int]) -> Callable[[Any], dict[int, Tensor]]:
    """Takes a tree of cotangents of the results to those of some leaves."""
    callee = made.callee
    declared = here().trace.declare(
        "adjoint", callee.name, wrt=tuple(positions), keep=(), seeded=True
    )
    types = [made.leaves[i].type for i in positions]

    def pull(cotangents: Any) -> dict[int, Tensor]:
        seeds = seeds_of(callee, cotangents)
        return dict(
            zip(positions, call(declared.name, [*made.operands(), *seeds], types), strict=True)
        )

    return pull


def seeds_of(callee: Callee, cotangents: Any) -> list[Value]:
    """The cotangents of the float results, in order; those of integer results are left out."""
    template = unflatten(callee.tree, list(range(len(callee.types))))
    given = _matched(template, cotangents, callee)
    return [
        fit(x, t.dtype, t.shape)
        for t, x in zip(callee.types, given, strict=True)
        if t.dtype.is_float
    ]


def _matched(template: Any, cotangents: Any, callee: Callee) -> list[Any]:
    """Cotangent leaves in result order; None stands for the zero of a leaf."""
    leaves, tree = flatten_with_none(cotangents)
    places, expected = flatten_with_none(template)
    if tree != expected:
        raise mismatch(
            "cotangents must have the structure of the results",
            "cotangent",
            expected,
            tree,
            "pass one tree, with an array in the place of each result",
        )
    out: list[Any] = [0] * len(callee.types)
    for place, leaf in zip(places, leaves, strict=True):
        if not isinstance(place, int):
            continue
        t = callee.types[place]
        if leaf is not None and staged(leaf).type.shape != t.shape:
            raise ShapeError(
                f"a cotangent for a result of type {t} has type {staged(leaf).type}",
                origin=user_origin(),
                remedy="give it the shape of the result; None stands for zeros",
                sides=unequal(staged(leaf).type.shape, t.shape),
            )
        out[place] = 0 if leaf is None else leaf
    return out


# -- forward mode --------------------------------------------------------------------------------


def tangents_of(made: Applied, positions: Sequence[int], tangents: Any) -> Any:
    """In a trace: the results of a function and their tangents."""
    callee = made.callee
    declared = here().trace.declare(
        "tangent",
        callee.name,
        wrt=tuple(positions),
        keep=tuple(range(len(callee.types))),
        seeded=False,
    )
    floats = [t for t in callee.types if t.dtype.is_float]
    out = call(declared.name, [*made.operands(), *tangents], [*callee.types, *floats])
    n = len(callee.types)
    rest = iter(out[n:])
    pushed = [next(rest) if t.dtype.is_float else None for t in callee.types]
    return unflatten(callee.tree, out[:n]), unflatten(callee.tree, pushed)


# -- batching ------------------------------------------------------------------------------------


def batched_call(
    f: Callable[..., Any],
    in_axes: Any,
    out_axes: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    axis_size: Any = None,
) -> Any:
    """In a trace: ``f`` of each element along the batched axes, stacked."""
    target = staged_of(f)
    arguments = target.parameters.bind(tuple(args), kwargs)
    by_name = axes_of_arguments(target.parameters, arguments, in_axes)
    arguments = with_known(f, arguments, [n for n, axis in by_name.items() if axis is not None])
    leaves, tree = flatten(arguments.values)
    tensors = [staged(x) for x in leaves]
    pairs = zip(arguments.names, arguments.values, strict=True)
    axes = [axis for name, value in pairs for axis in prefix(by_name[name], value)]
    names = arguments.leaf_labels(tree)
    axes = [_within(a, x, n) for a, x, n in zip(axes, tensors, names, strict=True)]
    size = batch_size(tensors, axes, names, axis_size)
    single = [_without_axis(x, a) for x, a in zip(tensors, axes, strict=True)]
    callee = target.callee(arguments, tree, single, tensors)
    made = Applied(callee, tensors, arguments, tree)
    operands = made.operands()
    every = (*axes, *(None,) * (len(operands) - len(axes)))
    lanes = _told(size, [x.type for x in operands])
    where = prefix(out_axes, unflatten(callee.tree, [0] * len(callee.types)))
    same = tuple(i for i, axis in enumerate(where) if axis is None)
    declared = here().trace.declare("batched", callee.name, axes=every, size=lanes, keep=same)
    results = zip(callee.types, where, strict=True)
    types = [t if axis is None else t.with_shape((size, *t.shape)) for t, axis in results]
    out = call(declared.name, operands, types)
    return unflatten(callee.tree, [_moved(x, a) for x, a in zip(out, where, strict=True)])


def axes_of_arguments(parameters: Parameters, arguments: Arguments, in_axes: Any) -> dict[str, Any]:
    """The batched axes of each argument; ``in_axes`` is one for all, or one for each."""
    names = [*arguments.names, *(name for name, _ in arguments.static)]
    names.sort(key=lambda name: parameters.names.index(owner(name)))
    if not is_sequence(in_axes):
        return dict.fromkeys(names, in_axes)
    given = list(in_axes)
    if len(given) > len(names):
        raise UserError(
            f"vmap: in_axes has {len(given)} entries for {len(names)} arguments",
            origin=user_origin(),
            remedy="give one entry for each argument, None for what is the same for all",
        )
    known = {name for name, _ in arguments.static}
    for name, axis in zip(names, given, strict=False):
        if name in known and axis is not None:
            raise UserError(
                f"vmap: in_axes has {axis!r} for {name}, which is static",
                origin=user_origin(),
                remedy="write None for it: it is the same for all",
            )
    given += [0] * (len(names) - len(given))  # keyword arguments are batched along 0
    return dict(zip(names, given, strict=True))


def prefix(axes: Any, value: Any) -> list[Any]:
    """One axis for each leaf of a tree; an axis in the place of a subtree holds for all of it."""
    _, tree = flatten(value)
    if axes is None or isinstance(axes, int):
        return [axes] * tree.num_leaves
    try:
        return broadcast_prefix(axes, value)
    except ValueError as error:
        raise UserError(
            f"vmap: the axes don't fit the tree: {error}",
            origin=user_origin(),
            remedy="give one axis for a whole argument, or a tree of axes like it",
        ) from None


def _within(axis: Any, x: Tensor, label: str) -> int | None:
    if axis is None:
        return None
    if not INDEX.fits(axis):
        raise UserError(
            f"vmap: expected a whole number or None as axis of {label}, "
            f"found {shown_argument(axis)}",
            origin=user_origin(),
            remedy="give an axis for each argument, such as in_axes=(0, None)",
        )
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(
            f"vmap: {label} is {x.type}, it has no axis {axis}",
            origin=user_origin(),
            remedy="give None in in_axes for what is the same for all, or another axis",
        )
    return axis % x.ndim


def batch_size(
    xs: Sequence[Tensor], axes: Sequence[int | None], names: Sequence[str], axis_size: Any = None
) -> Dim:
    """The size along the batched axes, which must be one, and ``axis_size`` if that is given."""
    sizes = [(x.type.shape[a], n) for x, a, n in zip(xs, axes, names, strict=True) if a is not None]
    if axis_size is not None:
        sizes.insert(0, (_checked_size(axis_size, known=not sizes), "axis_size"))
    if not sizes:
        raise UserError(
            "vmap: no argument is batched",
            origin=user_origin(),
            remedy="one of in_axes must be an integer, or say axis_size=",
        )
    for size, name in sizes[1:]:
        if size != sizes[0][0]:
            raise ShapeError(
                f"vmap: {sizes[0][1]} is batched over {sizes[0][0]}, {name} over {size}",
                origin=user_origin(),
                remedy="give None in in_axes for what is the same for all, or equal sizes",
                notes=arisen((sizes[0][0], size), [x.contents for x in xs]),
            )
    return sizes[0][0]


def _told(size: Dim, types: Sequence[TensorType]) -> Dim:
    """The size as a callee can bind it: an expression of several symbols becomes a new symbol."""
    if isinstance(size, int) or size == symbol(next(iter(symbols(size)))):
        return size
    taken = {s for t in types for d in t.shape for s in symbols(d)}
    return symbol(next(n for i in range(len(taken) + 1) if (n := f"L{i or ''}") not in taken))


def _checked_size(size: Any, known: bool) -> Dim:
    size = bare(size)
    if isinstance(size, Expr) and not known:
        return size
    if isinstance(size, Integral) and int(size) >= 0:
        return int(size)
    raise UserError(
        f"vmap: axis_size={size!r:.40}: expected how many lanes there are",
        origin=user_origin(),
        remedy="give a whole number; an open size is told by an argument that is batched over it",
    )


def _without_axis(x: Tensor, axis: int | None) -> TensorType:
    if axis is None:
        return x.type
    return x.type.with_shape((*x.type.shape[:axis], *x.type.shape[axis + 1 :]))


def _moved(x: Tensor, axis: int | None) -> Tensor:
    if axis is None:
        return x
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(
            f"vmap: out_axes={axis} for a result of {x.ndim} axes, the batch among them",
            origin=user_origin(),
            remedy=f"give an axis from 0 to {x.ndim - 1}, or None for what all lanes share",
        )
    order = [*range(1, x.ndim)]
    order.insert(axis % x.ndim, 0)
    return xp.permute_dims(x, tuple(order))
