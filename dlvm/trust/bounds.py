"""How far rounding may move the results of a program: a running error analysis.

Each value is computed in f64 beside a bound of its error, counted in roundings of its own numbers
(Higham 2002, section 3.3). An operation adds its own roundings and passes on those of its operands,
each as far as it moves the result. A contraction counts ``LONG`` roundings of the sum of the sizes
of its terms, however it is written and in whatever order it adds them; any other sum counts one, as
a tree folds it. What has no rule here counts as backward stable: the roundings of a contraction in
each of its operands.

The bounds of two programs say which of them loses more digits, whatever luck either has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dlvm.ir import Array, Module, Op, Value
from dlvm.ir.interpret import Interpreter, bind
from dlvm.ops import Matmul, Mul, ScatterAdd, Select, Solve, Sum
from dlvm.ops.families import Creation, Elementwise, Movement

from .recast import widened
from .rounding import rounds

LONG = 16
"""The roundings of a contraction, however many terms it has."""
SINGULAR = 1e10
"""The condition of a matrix of which no digit of a solve is judged."""
STEP = 1e-7
"""The relative step of a difference."""

Pair = tuple[Array, Array]
"""A value, and a bound for the error of each element."""


def bounds(module: Module, arrays: Sequence[Array]) -> list[Pair]:
    """The results of a program's first function on exact arguments, with their bounds."""
    wide = widened(module)
    fn = wide.main
    sizes = bind([p.type for p in fn.params], arrays, [str(p.name) for p in fn.params])
    machine = Interpreter(wide, sizes)
    known: dict[Value, Pair] = {p: (a, _none(a)) for p, a in zip(fn.params, arrays, strict=True)}
    for op in fn.ops:
        pairs = [known[v] for v in op.operands]
        results = machine.step(op, [value for value, _ in pairs])
        errors = _errors(machine, op, pairs, results)
        known.update(zip(op.results, zip(results, errors, strict=True), strict=True))
    return [known[r] for r in fn.results]


def lost(literal: Module, other: Module, arrays: Sequence[Array]) -> float:
    """How many times the bound of a program another one has, at its worst element.

    The program has one rounding of its result at least. What overflows is not judged.
    """
    found = [0.0]
    with np.errstate(all="ignore"):
        pairs = zip(bounds(literal, arrays), bounds(other, arrays), strict=True)
        for (value, one), (_, two) in pairs:
            ratio = np.where(two > 0, two / np.maximum(one, np.abs(value)), 0.0)
            found.append(float(np.max(ratio[np.isfinite(ratio)], initial=0.0)))
    return max(found)


def _none(x: Array) -> Array:
    return np.zeros(x.shape)


def _errors(
    machine: Interpreter, op: Op, pairs: Sequence[Pair], results: Sequence[Array]
) -> list[Array]:
    """The bounds of an operation's results."""
    match op:
        case Matmul():
            return [_of_product(*pairs)]
        case Sum():
            return [_of_sum(op, *pairs)]
        case Select():
            return [np.where(pairs[0][0], pairs[1][1], pairs[2][1])]
        case Solve():
            return [_of_solve(op, pairs, results[0])]
        case Creation():
            return [_none(r) for r in results]
        case ScatterAdd():
            sizes = [abs(v) if v.dtype.kind == "f" else v for v, _ in pairs]
            (moved,), (total,) = _moved(machine, op, pairs, results), machine.step(op, sizes)
            return [moved + total]
        case Movement():
            return _moved(machine, op, pairs, results)
        case Elementwise():
            return _of_elements(machine, op, pairs, results)
        case _:
            return _backward_stable(machine, op, pairs, results)


def contracted(terms: int) -> int:
    """The roundings of a sum of so many products."""
    return LONG if terms > 1 else terms


def _of_product(x: Pair, y: Pair) -> Array:
    sizes = np.abs(x[0]) @ np.abs(y[0])
    return contracted(x[0].shape[-1]) * sizes + x[1] @ np.abs(y[0]) + np.abs(x[0]) @ y[1]


def _of_sum(op: Sum, x: Pair) -> Array:
    axes = tuple(op.axes)
    terms = int(np.prod([x[0].shape[a] for a in axes]))
    own = contracted(terms) if _is_product(op.x) else min(terms - 1, 1)
    return max(own, 0) * np.abs(x[0]).sum(axes) + x[1].sum(axes)


def _is_product(x: Value) -> bool:
    """Whether a value holds products, moved or not."""
    while isinstance(x, Movement):
        x = x.operands[0]
    return isinstance(x, Mul | Matmul)


def _of_solve(op: Solve, pairs: Sequence[Pair], x: Array) -> Array:
    """Of a backward stable solve: ``inv(A)`` times what A and B are off by, in sizes."""
    (_, off), (packed, _), (order, _), (_, off_b) = pairs
    unit = np.broadcast_to(np.eye(packed.shape[-1]), packed.shape)
    product = (np.tril(packed, -1) + unit) @ np.triu(packed)
    back = np.argsort(order, -1)[..., None]
    a = np.take_along_axis(product, np.broadcast_to(back, product.shape), -2)
    a, off = (np.swapaxes(v, -1, -2) if op.transposed else v for v in (a, off))
    if a.size and np.linalg.cond(a).max() > SINGULAR:
        return np.full(x.shape, np.inf)
    inverse = np.abs(np.linalg.inv(a))
    return inverse @ (off_b + (LONG * np.abs(a) + off) @ np.abs(x))


def _moved(
    machine: Interpreter, op: Op, pairs: Sequence[Pair], results: Sequence[Array]
) -> list[Array]:
    """Errors go where elements go; indices have none."""
    errors = [e if v.dtype.kind == "f" else v for v, e in pairs]
    return list(machine.step(op, errors)) if _floats(results) else [_none(r) for r in results]


def _of_elements(
    machine: Interpreter, op: Op, pairs: Sequence[Pair], results: Sequence[Array]
) -> list[Array]:
    """By differences, and one rounding."""
    values = [v for v, _ in pairs]
    own = 1.0 if rounds(op) else 0.0
    found = [own * np.abs(r) if r.dtype.kind == "f" else _none(r) for r in results]
    for i, (value, error) in enumerate(pairs):
        if not error.any():
            continue
        step = STEP * np.maximum(np.abs(value), 1e-200)
        moved = machine.step(op, [*values[:i], value + step, *values[i + 1 :]])
        for total, after, before in zip(found, moved, results, strict=True):
            if before.dtype.kind == "f":
                total += np.abs(after - before) / step * error
    return found


def _backward_stable(
    machine: Interpreter, op: Op, pairs: Sequence[Pair], results: Sequence[Array]
) -> list[Array]:
    """By differences of each element of each operand."""
    values = [v for v, _ in pairs]
    bounds = [_none(r) for r in results]
    for i, (value, error) in enumerate(pairs):
        if value.dtype.kind != "f":
            continue
        size = LONG * np.abs(value) + error
        for at in np.argwhere(size > 0):
            here = tuple(at)
            moved = value.copy()
            step = STEP * max(float(np.abs(value[here])), 1e-200)
            moved[here] += step
            after = machine.step(op, [*values[:i], moved, *values[i + 1 :]])
            for total, new, old in zip(bounds, after, results, strict=True):
                if old.dtype.kind == "f":
                    total += np.abs(new - old) / step * size[here]
    return bounds


def _floats(results: Sequence[Array]) -> bool:
    return any(r.dtype.kind == "f" for r in results)
