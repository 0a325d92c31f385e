"""Functions that call themselves: their result types are found while they are traced.

The result types of a function that is still being traced are unknown. A call of it ends the trace
of the branch that contains it, and ``cond`` takes the types of its other branch, so that the branch
that ends the recursion determines the types. The function is then traced again with these types,
until its result types agree with those that its own calls assume.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import count

from dlvm.base.errors import ShapeError, TraceError, UserError
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.operands import here
from dlvm.dsl.trace.scopes import Trace, user_origin
from dlvm.dsl.trace.specs import Arguments
from dlvm.dsl.trace.tracing import Callee, Input
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.ir import Dim, Expr, TensorType
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.unify import unify

ROUNDS = 8


class Unfinished(BaseException):
    """Raised by a call of a function whose result types are unknown; no ``except Exception``
    catches it.
    """

    def __init__(self, opened: Open) -> None:
        self.opened = opened
        super().__init__(opened.label)


class Open:
    """A function that is being traced: its identity, and the result types that its calls assume."""

    def __init__(self, label: str, key: Hashable, inputs: Sequence[Input], depth: int) -> None:
        self.label = label
        self.key = key
        self.inputs = inputs
        self.depth = depth
        self.assumed: Callee | None = None
        self.asked = False

    def fits(self, key: Hashable, inputs: Sequence[Input]) -> bool:
        """Whether a call is one of this function: equal up to the values of its symbols."""
        same = all(a.weak == b.weak for a, b in zip(self.inputs, inputs, strict=False))
        if self.key != key or len(self.inputs) != len(inputs) or not same:
            return False
        try:
            unify(_types(self.inputs), _types(inputs))
        except ShapeError:
            return False
        return True

    def callee(self, inputs: Sequence[Input]) -> Callee:
        """The function that a call with such inputs refers to."""
        self.asked = True
        if self.assumed is None:
            raise Unfinished(self)
        found = self.assumed
        lifted = [v.type for v, _ in found.lifted]
        given = [*_types(inputs), *lifted]
        try:
            sizes = unify([*_types(self.inputs), *lifted], given)
        except ShapeError as error:
            raise TraceError(
                f"{self.label} calls itself with other sizes than what it uses from outside has: "
                f"{error.message}",
                origin=user_origin(),
                remedy="pass what it uses from outside as an argument",
            ) from None
        return replace(found, types=tuple(t.substitute(sizes) for t in found.types))


def identity(fn: object, arguments: Arguments, tree: Tree) -> Hashable:
    """A key that all calls of one function share, whatever the types of their arguments."""
    return (id(fn), arguments.names, tree, arguments.static_key(), default_float())


def _types(inputs: Sequence[Input]) -> list[TensorType]:
    return [i.type for i in inputs]


def generalised(trace: Trace, key: Hashable, inputs: Sequence[Input]) -> Sequence[Input]:
    """The inputs of a recursive call, with new symbols in the place of composed sizes.

    A call on ``f32[floordiv(N,2)]`` in a function of ``f32[N]`` would otherwise lead to one
    function for each power of two.
    """
    if key != trace.main and not any(o.key == key for o in trace.open):
        return inputs
    taken = {s for i in inputs for d in i.type.shape for s in symbols(d)}
    names = (n for k in count() if (n := f"S{k or ''}") not in taken)
    fresh: dict[Dim, Dim] = {}
    for d in (d for i in inputs for d in i.type.shape if isinstance(d, Expr)):
        if d not in fresh:
            alone = d == symbol(next(iter(symbols(d))))
            fresh[d] = d if alone else symbol(next(names))
    types = [i.type.with_shape(tuple(fresh.get(d, d) for d in i.type.shape)) for i in inputs]
    return [replace(i, type=t) for i, t in zip(inputs, types, strict=True)]


def called_with(callee: Callee, inputs: Sequence[Input]) -> Callee:
    """A function that was traced for other sizes, with its result types for these."""
    if _types(callee.inputs) == _types(inputs):
        return callee
    sizes = unify(_types(callee.inputs), _types(inputs))
    return replace(callee, types=tuple(t.substitute(sizes) for t in callee.types))


def opened(trace: Trace, key: Hashable, inputs: Sequence[Input]) -> Open | None:
    """The function that is being traced and calls itself here, if there is one."""
    return next((o for o in reversed(trace.open) if o.fits(key, inputs)), None)


def settled(
    label: str, key: Hashable, inputs: Sequence[Input], write: Callable[[Callee | None], Callee]
) -> Callee:
    """Traces a function until its result types agree with those that its own calls assume."""
    trace = here().trace
    this = Open(label, key, inputs, len(trace.open))
    mark = trace.mark()
    trace.open.append(this)
    try:
        for _ in range(ROUNDS):
            made = write(this.assumed)
            if not this.asked or made == this.assumed:
                return made
            this.assumed, this.asked = made, False
            trace.reset(mark)
    except Unfinished as error:
        if error.opened is this:
            raise _endless(label) from None
        raise
    finally:
        trace.open.pop()
    raise UserError(
        f"{label} calls itself, and the types of its results change with each call",
        origin=user_origin(),
        remedy="give each branch one type with dlvm.astype or dlvm.broadcast_to",
    )


def _endless(label: str) -> UserError:
    return TraceError(
        f"{label} calls itself on every way through it, so it never ends, and the types of its "
        "results can't be told",
        origin=user_origin(),
        remedy="end the recursion in one branch of dlvm.cond",
    )


def outermost(errors: Sequence[Unfinished]) -> Unfinished:
    """Of several unfinished calls, the one whose types will be known first."""
    return min(errors, key=lambda e: e.opened.depth)
