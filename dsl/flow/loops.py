"""Loops with JAX's signatures: real loops in a trace, Python's own outside.

A body is traced once, and carried values keep their types. A carried Python scalar is weakly typed,
as in NumPy: it takes the type that the body returns for it, for which the body may be traced a
second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from dlvm.base.errors import ShapeError, TraceError, UserError
from dlvm.dsl.trace.comparing import mismatch
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import element, fresh, here, plain, staged
from dlvm.dsl.trace.provenance import sizes_of
from dlvm.dsl.trace.scopes import type_of, user_origin
from dlvm.dsl.trace.sizes import bare
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import Input, Written, inputs_of
from dlvm.dsl.trace.trees import Spec, flatten, labels, paths, structure, unflatten
from dlvm.dsl.words.calling import called
from dlvm.dsl.words.namespace import xp
from dlvm.ir import BOOL, Dim, Expr, TensorType, Value
from dlvm.ops import Scan, While

from .control import Body, check_callable, in_trace, operands, region, union

ROUNDS = 4
TEST, BODY = "while_loop: the condition", "while_loop: the body"
COUNTED, SCANNED = "fori_loop: the body", "scan: the body"


class Carry:
    """The carried values of a loop, and how to trace a body that takes and returns them."""

    def __init__(self, what: str, init: Any) -> None:
        self.what = what
        leaves, self.tree = flatten(init)
        self.names = labels(self.tree, "carry")
        self.start = [staged(x) for x in leaves]
        self._given: list[Any] = []

    def tree_of(self, tensors: Sequence[Tensor]) -> Any:
        """The first values of the carry as the user's tree."""
        return unflatten(self.tree, tensors[: len(self.start)])

    def inputs(self) -> list[Input]:
        """One staged input for each carried value."""
        return inputs_of(self.start, self.tree, "carry")

    def settle(self, value: Any) -> list[Any]:
        """The leaves that a body returns, in the structure that it takes."""
        leaves, found = flatten(value)
        check_structure(self.what, self.tree, found)
        self._given = [self._fitted(x, t) for x, t in zip(leaves, self.start, strict=True)]
        return self._given

    def _fitted(self, x: Any, start: Tensor) -> Tensor:
        given = staged(x)
        fits = given.element.kind == start.element.kind or start.element.is_float
        if given.weak and not start.weak and fits and given.element is not BOOL:
            return fresh(element(given, start.element))
        return given

    def write(self, body: Callable[[], Written]) -> Written:
        """Traces a body; a second time if a weak scalar must take the type that the
        body returns.
        """
        trace = here().trace
        before = trace.mark()
        written = body()
        for _ in range(ROUNDS):
            if not self._widen():
                break
            trace.reset(before)
            written = body()
        self._check()
        return written

    def _widen(self) -> bool:
        """Gives weak scalars the types that the body returns; says whether any type changed."""
        changed = False
        for i, (start, given) in enumerate(zip(self.start, self._given, strict=True)):
            same = given.type == start.type and given.weak
            if start.weak and not same and not given.shape:
                self.start[i] = fresh(element(start, given.element), given.weak)
                changed = True
        return changed

    def _check(self) -> None:
        for name, start, given in zip(self.names, self.start, self._given, strict=True):
            notes = sizes_of(start.contents, given.contents) if start.type != given.type else ()
            check_carried(self.what, name, start.type, given.type, notes)

    def result(self, results: Sequence[Value]) -> Any:
        """The last carried values as the user's tree."""
        pairs = zip(results, self.start, strict=False)
        return unflatten(self.tree, [fresh(r, t.weak) for r, t in pairs])


def check_structure(what: str, expected: Spec, found: Spec) -> None:
    """Checks that a body returns the structure that it takes."""
    if found != expected:
        raise mismatch(
            f"{what}: the body must give the structure it takes",
            "carry",
            expected,
            found,
            "return a carry with the same dicts and tuples as the first one",
        )


def check_carried(
    what: str, name: str, expected: TensorType, found: TensorType, notes: tuple[str, ...] = ()
) -> None:
    """Checks that a body returns the types that it takes."""
    if found != expected:
        raise ShapeError(
            f"{what}: the body must give {name} the type it has, {expected}, found {found}",
            origin=user_origin(),
            remedy=f"start from {found}, or end with dlvm.astype or dlvm.reshape",
            notes=notes,
        )


def carried(what: str, before: Any, after: Any) -> Any:
    """Outside a trace: what a body returned, after the checks that a trace makes."""
    leaves, tree = flatten(before)
    given, found = flatten(after)
    check_structure(what, tree, found)
    rows = zip(labels(tree, "carry"), leaves, given, strict=True)
    return unflatten(tree, [_carried_leaf(what, *row) for row in rows])


def _carried_leaf(what: str, name: str, x: Any, given: Any) -> Any:
    """A leaf of the carry: a Python scalar takes the type that the body returns, an array keeps its
    own.
    """
    a, b = np.asarray(x), np.asarray(given)
    if type(x) in (bool, int, float):
        check_carried(what, name, type_of(b).with_shape(()), type_of(b))
        return given
    if type(given) in (int, float) and (a.dtype.kind == b.dtype.kind or a.dtype.kind == "f"):
        b = b.astype(a.dtype)
    check_carried(what, name, type_of(a), type_of(b))
    return b[()]


@facing_users
def while_loop(cond_fun: Body, body_fun: Body, init_val: Any) -> Any:
    """Repeats ``val = body_fun(val)`` while ``cond_fun(val)`` holds; returns the last ``val``."""
    check_callable("while_loop", cond_fun, body_fun)
    if not in_trace():
        val = init_val
        while _holds(called(TEST, "val", cond_fun, val)):
            val = carried("while_loop", val, called(BODY, "val", body_fun, val))
        return val
    return _while(Carry("while_loop", init_val), cond_fun, body_fun)


def _while(carry: Carry, cond_fun: Body, body_fun: Body) -> Any:
    """Records the operation; returns its last carry."""

    def step(xs: list[Tensor]) -> Any:
        return carry.settle(called(BODY, "val", body_fun, carry.tree_of(xs)))

    def holds(xs: list[Tensor]) -> Tensor:
        return truth(called(TEST, "val", cond_fun, carry.tree_of(xs)))

    body = carry.write(lambda: region("body", carry.inputs(), step))
    test = region("condition", carry.inputs(), holds)
    captured = union(test, body)
    op = While(
        operands(carry.start),
        tuple(captured),
        test.region("condition", captured),
        body.region("body", captured),
    )
    return carry.result(op.results)


def truth(value: Any) -> Tensor:
    """The condition of a loop as one truth value."""
    found = staged(value)
    _check_one(found.type)
    return fresh(element(found, BOOL))


def _holds(value: Any) -> bool:
    _check_one(type_of(np.asarray(value)))
    return bool(value)


def _check_one(found: TensorType) -> None:
    if found.shape:
        raise ShapeError(
            f"the condition of a loop must be one truth value, found {found}",
            origin=user_origin(),
            remedy="reduce it with dlvm.any or dlvm.all",
        )


@facing_users
def fori_loop(
    lower: Any, upper: Any, body_fun: Body, init_val: Any, *, unroll: int | bool | None = None
) -> Any:
    """``for i in range(lower, upper): val = body_fun(i, val)``.

    With bounds that are known while tracing, ``unroll`` means what it means for ``scan``.
    """
    check_callable("fori_loop", body_fun)
    if not in_trace():
        _unrolled("fori_loop", 1 if unroll is None else unroll, 1)
        val = init_val
        for i in range(int(lower), int(upper)):
            val = carried("fori_loop", val, called(COUNTED, "i, val", body_fun, np.int64(i), val))
        return val
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        if unroll not in (None, False, 1):
            raise UserError(
                f"fori_loop: unroll={unroll!r:.40}, but the bounds are known only in the call",
                origin=user_origin(),
                remedy="give bounds that are numbers or sizes of arguments, or leave unroll out",
            )
        return _counting(lower, upper, body_fun, init_val)

    def step(carry: Any, i: Any) -> tuple[Any, None]:
        return called(COUNTED, "i, val", body_fun, i, carry), None

    unroll = 1 if unroll is None else unroll
    return staged_scan("fori_loop", step, init_val, xp.arange(lower, upper), unroll=unroll)[0]


def _counting(lower: Any, upper: Any, body_fun: Body, init_val: Any) -> Any:
    """A loop whose bounds are computed in the call."""

    def below(carry: Any) -> Any:
        return carry[0] < upper

    def step(carry: Any) -> tuple[Any, Any]:
        after = called(COUNTED, "i, val", body_fun, *carry)
        check_structure("fori_loop", structure(init_val), structure(after))
        return carry[0] + 1, after

    carry = Carry("fori_loop", (xp.astype(lower, np.int64), init_val))
    carry.names = ["i", *labels(structure(init_val), "carry")]
    return _while(carry, below, step)[1]


@facing_users
def scan(
    f: Body,
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` over the leading axis of ``xs``; the last carry and stacked ys.

    Machine code takes ``unroll`` steps in each trip, all of them if it is True; results are the
    same to the last bit.
    """
    check_callable("scan", f)
    if not in_trace():
        _unrolled("scan", unroll, 1)
        return _unstaged_scan(f, init, xs, length, reverse)
    return staged_scan("scan", f, init, xs, length, reverse, unroll)


def staged_scan(
    what: str,
    f: Body,
    init: Any,
    xs: Any,
    length: Any = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """A scan in a trace; messages call it ``what``."""
    carry = Carry(what, init)
    slices, tree = flatten(xs)
    inputs = [staged(x) for x in slices]
    n = common_length([x.type.shape for x in inputs], labels(tree, "xs"), length, what)
    stacked: list[Spec] = []
    n_carry = len(carry.start)

    def body(values: list[Tensor]) -> Any:
        out = _pair(
            called(SCANNED, "carry, x", f, carry.tree_of(values), unflatten(tree, values[n_carry:]))
        )
        leaves, spec = flatten(out[1])
        stacked.append(spec)
        return [*carry.settle(out[0]), *leaves]

    slice_inputs = _slice_inputs(inputs, tree)
    written = carry.write(lambda: region("body", [*carry.inputs(), *slice_inputs], body))
    captured = tuple(written.scope.lifted)
    op = Scan(
        operands(carry.start),
        operands(inputs),
        captured,
        written.region("body"),
        n,
        bool(reverse),
        _unrolled(what, unroll, n),
    )
    ys = [fresh(r) for r in op.results[len(carry.start) :]]
    return carry.result(op.results), unflatten(stacked[-1], ys)


def _unrolled(what: str, unroll: Any, steps: Dim) -> int:
    """The number of steps that one trip takes."""
    if unroll is True and isinstance(steps, int):
        return max(steps, 1)
    if not isinstance(unroll, Integral) or unroll is True or unroll < 0:
        raise UserError(
            f"{what}: unroll={unroll!r:.40}"
            + (f": the number of steps, {steps}, is not known" if unroll is True else ""),
            origin=user_origin(),
            remedy="give how many steps one trip is to take, a whole number of at least 1",
        )
    return max(int(unroll), 1)


def _slice_inputs(xs: Sequence[Tensor], tree: Spec) -> list[Input]:
    return [
        Input(path, label, x.type.with_shape(x.type.shape[1:]), given=x.contents)
        for x, path, label in zip(xs, paths(tree, "x"), labels(tree, "x"), strict=True)
    ]


def _pair(out: Any) -> tuple[Any, Any]:
    if not (isinstance(out, tuple | list) and len(out) == 2):  # pyright: ignore[reportUnknownArgumentType]
        raise TraceError(
            "scan: the body must give a pair, the carry and what is stacked",
            origin=user_origin(),
            remedy="return carry, y, or carry, None",
        )
    return out[0], out[1]  # pyright: ignore[reportUnknownVariableType]


def common_length(
    shapes: Sequence[tuple[Dim, ...]], names: Sequence[str], length: Any, what: str = "scan"
) -> Dim:
    """The number of steps; all inputs and ``length=`` must agree on it."""
    length = bare(length)
    if not isinstance(length, Integral | Expr | None):
        raise UserError(
            f"{what}: length={length!r:.40}: expected a whole number",
            origin=user_origin(),
            remedy="a size must be static (static=) or come from x.shape",
        )
    n: Dim | None = int(length) if isinstance(length, Integral) else length
    for shape, name in zip(shapes, names, strict=True):
        if not shape:
            raise ShapeError(
                f"{what}: {name} has no axis to walk along",
                origin=user_origin(),
                remedy="pass arrays, or length= for a number of steps",
            )
        n = shape[0] if n is None else n
        if shape[0] != n:
            raise ShapeError(
                f"{what}: {name} has {shape[0]} slices, expected {n}",
                origin=user_origin(),
                remedy="all of xs, and length=, must agree on the leading axis",
                sides=(shape[0], n),
            )
    if n is None:
        raise UserError(
            f"{what}: there is nothing to walk along",
            origin=user_origin(),
            remedy="give xs, or length= for a number of steps",
        )
    return n


def _unstaged_scan(f: Body, init: Any, xs: Any, length: Any, reverse: bool) -> tuple[Any, Any]:
    slices, tree = flatten(xs)
    leaves = [np.asarray(plain(x)) for x in slices]
    n = int(common_length([x.shape for x in leaves], labels(tree, "xs"), length))
    carry, ys = init, [None] * n
    for i in reversed(range(n)) if reverse else range(n):
        after, ys[i] = _pair(
            called(SCANNED, "carry, x", f, carry, unflatten(tree, [x[i] for x in leaves]))
        )
        carry = carried("scan", carry, after)
    if not n:
        return carry, unstaged_nothing(f, init, unflatten(tree, leaves))
    found = [flatten(y) for y in ys]
    columns = zip(*(y for y, _ in found), strict=True)
    return carry, unflatten(found[0][1], [np.stack(column) for column in columns])


def unstaged_nothing(f: Body, init: Any, xs: Any) -> Any:
    """The stacked results of a scan over no slices: empty arrays, whose types come from a trace."""
    from dlvm.dsl.call.function import StagedFunction

    def stacked(init: Any, xs: Any) -> Any:
        return scan(f, init, xs)[1]

    return StagedFunction(stacked)(init, xs)
