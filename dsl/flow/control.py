"""Branches with JAX's signatures: operations in a trace, Python's own outside.

A branch is traced once, in a scope of its own. Values that it uses from outside become explicit
operands, and assigning into an array from outside is an error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dlvm.base.errors import ShapeError, TraceError, UserError
from dlvm.dsl.call.recursion import Unfinished, outermost
from dlvm.dsl.trace.comparing import mismatch
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import element, fresh, here, plain, shape_of, shown_shape, staged
from dlvm.dsl.trace.provenance import sizes_of
from dlvm.dsl.trace.scopes import Scope, current, type_of, user_origin
from dlvm.dsl.trace.sizes import Size
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import Input, Written, inputs_of, write
from dlvm.dsl.trace.trees import flatten, labels, unflatten
from dlvm.dsl.words.calling import called
from dlvm.dsl.words.namespace import xp
from dlvm.ir import BOOL, TensorType, Value
from dlvm.ops import Cond

Body = Callable[..., Any]
"""A function of staged values that returns a tree."""


def in_trace() -> bool:
    """Whether a trace is running."""
    return current() is not None


def region(name: str, inputs: Sequence[Input], body: Callable[[list[Tensor]], Any]) -> Written:
    """Traces a region of the operation that is about to be recorded."""
    scope = here()
    return write(Scope(scope.trace, scope, name), inputs, body)


def operands(leaves: Sequence[Any]) -> tuple[Value, ...]:
    """Leaves as values of the scope that is being traced."""
    return tuple(staged(x).read() for x in leaves)


def union(*written: Written) -> list[Value]:
    """The values that several regions capture, each one once."""
    return list(dict.fromkeys(v for w in written for v in w.scope.lifted))


def check_callable(name: str, *bodies: Any) -> None:
    """Refuses a value in the place of a function."""
    for body in bodies:
        if not callable(body):
            raise TraceError(
                f"{name}: expected a function, found {body!r:.60}",
                origin=user_origin(),
                remedy="give a function of the same arguments, such as lambda *xs: ...",
            )


# -- branches ------------------------------------------------------------------------------------


@facing_users
def cond(pred: Any, true_fun: Body, false_fun: Body, *args: Any) -> Any:
    """``true_fun(*args)`` where ``pred`` holds, else ``false_fun(*args)``; only one runs."""
    check_callable("cond", true_fun, false_fun)
    if shape := shape_of(plain(pred)):
        raise ShapeError(
            f"cond: expected one truth value, found an array of the shape {shown_shape(shape)}",
            origin=user_origin(),
            remedy="use dlvm.where to choose element by element",
        )
    if not isinstance(pred, Tensor):
        return branch("cond", true_fun if pred else false_fun, args)
    leaves, tree = flatten(args)
    inputs = inputs_of(leaves, tree, "x")
    takes = _names(args)

    def side(name: str, fn: Body) -> Callable[[], Written]:
        """A branch as an operation, without a Python frame of its own because control
        flow nests.
        """

        def body(xs: list[Tensor]) -> Any:
            return called("cond: a branch", takes, fn, *unflatten(tree, xs))

        return partial(region, name, inputs, body)

    sides = [side("then", true_fun), side("otherwise", false_fun)]
    then, otherwise = agreeing(finished(sides))
    captured = union(then, otherwise)
    op = Cond(
        element(pred, BOOL),
        (*operands(leaves), *captured),
        then.region("then", captured),
        otherwise.region("otherwise", captured),
    )
    return unflatten(then.tree, [fresh(r) for r in op.results])


def branch(name: str, fn: Body, args: Sequence[Any]) -> Any:
    """The results of a branch."""
    return called(f"{name}: a branch", _names(args), fn, *args)


def _names(args: Sequence[Any]) -> str:
    """Names for the arguments of a branch in messages."""
    return ", ".join(f"x{i}" for i, _ in enumerate(args)) if len(args) > 1 else "x" * len(args)


def finished(branches: Sequence[Callable[[], Written]]) -> list[Written]:
    """The branches; one whose results depend on a recursion in progress is taken to be like
    another.
    """
    found: list[Written | None] = []
    errors: list[Unfinished] = []
    for branch in branches:
        try:
            found.append(branch())
        except Unfinished as error:
            errors.append(error)
            found.append(None)
    known = next((w for w in found if w is not None), None)
    if known is None:
        raise outermost(errors)
    return [known if w is None else w for w in found]


def agreeing(branches: Sequence[Written]) -> Sequence[Written]:
    """Branches whose results have one structure and equal types, or an error that compares them."""
    first = branches[0]
    for other in branches[1:]:
        if other.tree != first.tree:
            raise mismatch(
                "the branches give different structures",
                "result",
                first.tree,
                other.tree,
                "return the same dicts and tuples from both",
            )
        names = labels(first.tree, "result")
        for label, a, b in zip(names, first.results, other.results, strict=True):
            if a.type != b.type:
                raise ShapeError(
                    f"the branches give different types: {label} is {a.type} in one, {b.type} in "
                    "the other",
                    origin=user_origin(),
                    remedy="give both one type with dlvm.astype or dlvm.broadcast_to",
                    notes=sizes_of(a, b),
                )
    return branches


@facing_users
def switch(index: Any, branches: Sequence[Body], *args: Any) -> Any:
    """``branches[index](*args)``, the index clipped to the branches; only one runs.

    A balanced tree of ``cond``: each branch is written once, and found by halving.
    """
    if not branches:
        raise UserError(
            "switch: expected at least one branch",
            origin=user_origin(),
            remedy="give a list of functions",
        )
    check_callable("switch", *branches)
    last = len(branches) - 1
    index = staged(index) if isinstance(index, Size) else index
    if not isinstance(index, Tensor):
        return branch("switch", branches[min(max(_position(index), 0), last)], args)
    if index.type.shape or index.element.kind not in "iu":
        raise _no_position(index.type)
    return _chosen(_clipped(index, last), 0, branches, args)


def _chosen(index: Any, first: int, branches: Sequence[Body], args: tuple[Any, ...]) -> Any:
    """The branch of an index among those that start at ``first``."""
    if len(branches) == 1:
        return branch("switch", branches[0], args)
    half = len(branches) // 2
    return cond(
        index < first + half,
        lambda *xs: _chosen(index, first, branches[:half], xs),
        lambda *xs: _chosen(index, first + half, branches[half:], xs),
        *args,
    )


def _clipped(index: Tensor, last: int) -> Any:
    """The index in 64 bits; an unsigned one that would not fit there is clipped before."""
    if index.element.bits == 64 and index.element.kind == "u":
        index = xp.minimum(index, np.uint64(last))
    return xp.astype(index, np.int64)


def _position(index: Any) -> int:
    try:
        return operator.index(np.asarray(index)[()])
    except TypeError:
        raise _no_position(type_of(np.asarray(index))) from None


def _no_position(found: TensorType) -> UserError:
    return ShapeError(
        f"switch: expected one whole number as the index, found {found}",
        origin=user_origin(),
        remedy="give an integer, such as dlvm.astype(i, np.int64); dlvm.cond takes a truth value",
    )
