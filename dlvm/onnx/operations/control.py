"""Control flow: If, Scan and Loop, as branches and loops of dlvm.

A condition that is known while the program is made chooses its branch then. A loop whose operands
are all known is computed then, one that runs a known number of times is a scan, and any other a
``while`` loop, which can't stack results of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm.dsl.derive.derivatives import vmap
from dlvm.dsl.flow.control import cond
from dlvm.dsl.flow.loops import scan, while_loop
from dlvm.dsl.words.namespace import xp
from dlvm.onnx.graphs import concrete
from dlvm.onnx.sizes import integers, is_known
from dlvm.onnx.table import Call, Unsupported, operation

from .operands import scalar

Body = Callable[..., tuple[Any, ...]]
ENDLESS = 2**40
"""Steps from which on a loop does not end in any time."""
UNROLLED = 256
"""Steps up to which a loop over known values is computed while the program is made."""


@operation("If", known=(0,), bodies=True)
def _if(call: Call, condition: Any) -> Any:
    branches = call.body("then_branch"), call.body("else_branch")
    if is_known(condition):
        return branches[not bool(np.reshape(condition, ()))]()

    def staged(branch: Body) -> Callable[[], tuple[Any, ...]]:
        return lambda: tuple(map(concrete, branch()))

    return cond(scalar(condition), *map(staged, branches))


@operation("Scan", bodies=True)
def _scan(call: Call, *operands: Any) -> Any:
    if call.version < 9:
        return _scan_of_batch(call, *operands)
    count = call["num_scan_inputs"]
    start, xs = operands[: len(operands) - count], operands[len(operands) - count :]
    results = len(call.node.output) - len(start)
    axes = call.get("scan_input_axes") or [0] * count
    backwards = call.get("scan_input_directions") or [0] * count
    xs = [_first(x, axis, back) for x, axis, back in zip(xs, axes, backwards, strict=True)]
    final, rows = _scanned(call.body("body"), start, xs)
    axes = call.get("scan_output_axes") or [0] * results
    backwards = call.get("scan_output_directions") or [0] * results
    return *final, *(
        xp.moveaxis(xp.flip(row, axis=0) if back else row, 0, axis)
        for row, axis, back in zip(rows, axes, backwards, strict=True)
    )


def _first(x: Any, axis: int, back: int) -> Any:
    """An array with the axis of the steps in front, in the order of the steps."""
    x = xp.moveaxis(concrete(x), axis, 0)
    return xp.flip(x, axis=0) if back else x


def _scanned(body: Body, start: Sequence[Any], xs: Sequence[Any]) -> tuple[Any, Any]:
    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        found = tuple(map(concrete, body(*carry, *row)))
        return found[: len(start)], found[len(start) :]

    return scan(step, tuple(map(concrete, start)), tuple(xs))


def _scan_of_batch(call: Call, lengths: Any, *operands: Any) -> Any:
    """Version 8: the first axis is that of a batch, each example of which is a scan."""
    if lengths is not None:
        raise call.unsupported(
            "it has sequences of different lengths", "export it with opset_version=9 or newer"
        )
    count = call["num_scan_inputs"]
    states = len(operands) - count
    backwards = call.get("directions") or [0] * count

    def example(operands: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = zip(operands[states:], backwards, strict=True)
        xs = [_first(x, 0, back) for x, back in pairs]
        final, rows = _scanned(call.body("body"), operands[:states], xs)
        return *final, *rows

    return vmap(example)(tuple(map(concrete, operands)))


@operation("Loop", known=(0, 1), bodies=True)
def _loop(call: Call, limit: Any = None, condition: Any = None, *start: Any) -> Any:
    body, rows = call.body("body"), len(call.node.output) - len(start)
    steps = None if limit is None or not is_known(limit) else integers(limit)[0]
    first = np.asarray(True) if condition is None else condition
    short = isinstance(steps, int) and steps <= UNROLLED
    if short and all(map(is_known, (first, *start))):
        results = _unrolled(body, steps or 0, first, start, rows)
        if results is not None:
            return results
    if not rows:
        return _until(call, body, limit, first, start)
    try:
        return _counted(call, body, steps, first, start)
    except Unsupported:  # the number of a step is a size in it, say
        results = _unrolled(body, steps or 0, first, start, rows) if short else None
        if results is None:
            raise
        return results


def _unrolled(
    body: Body, steps: int, condition: Any, start: Sequence[Any], rows: int
) -> tuple[Any, ...] | None:
    """A loop that is computed while the program is made; None if its condition is staged."""
    carry, stacked = tuple(start), [list[Any]() for _ in range(rows)]
    for k in range(steps):
        if not bool(np.reshape(condition, ())):
            break
        condition, *found = body(np.asarray(k), condition, *carry)
        if not is_known(condition):
            return None
        carry = tuple(found[: len(start)])
        for row, x in zip(stacked, found[len(start) :], strict=True):
            row.append(x)
    if rows and not all(stacked):
        return None
    return *carry, *(
        np.stack(row) if all(map(is_known, row)) else xp.stack([*map(concrete, row)])
        for row in stacked
    )


def _counted(
    call: Call, body: Body, steps: Any, condition: Any, start: Sequence[Any]
) -> tuple[Any, ...]:
    """A loop that stacks results: it must run a known number of times, whatever it computes."""
    always = is_known(condition) and bool(np.reshape(condition, ()))
    if steps is None or not always:
        raise _uncounted(call)
    if isinstance(steps, int):
        call.check_bytes(steps, 8)
    numbers = np.arange(steps) if isinstance(steps, int) else xp.arange(steps)

    def step(carry: Any, k: Any) -> tuple[Any, Any]:
        condition, *found = body(k, np.asarray(True), *carry)
        if not is_known(condition) or not bool(np.reshape(condition, ())):
            raise _uncounted(call)
        values = tuple(map(concrete, found))
        return values[: len(start)], values[len(start) :]

    final, rows = scan(step, tuple(map(concrete, start)), numbers)
    return *final, *rows


def _uncounted(call: Call) -> Exception:
    return call.unsupported(
        "it stacks a result of each step, and how many steps it has depends on data",
        "write it as a Scan, or as a loop whose condition is always true",
    )


def _endless(call: Call) -> Exception:
    return call.unsupported(
        f"it runs {ENDLESS:,} steps or more, and its condition is always true",
        "give it fewer steps, or a condition that ends it",
    )


def _until(
    call: Call, body: Body, limit: Any, condition: Any, start: Sequence[Any]
) -> tuple[Any, ...]:
    """A loop that runs while its condition holds, at most ``limit`` times."""
    most = integers(limit)[0] if limit is not None and is_known(limit) else None
    long = limit is None or (isinstance(most, int) and most >= ENDLESS)
    begun = is_known(condition) and bool(np.reshape(condition, ()))

    def goes_on(carry: Any) -> Any:
        k, condition, *_ = carry
        if limit is None:
            return condition
        return xp.logical_and(condition, k < scalar(concrete(limit)))

    def step(carry: Any) -> Any:
        k, condition, *values = carry
        after, *found = body(k, condition, *values)
        same = after is condition or (is_known(after) and bool(np.reshape(after, ())))
        if long and begun and same:
            raise _endless(call)
        return k + 1, scalar(concrete(after)), *map(concrete, found)

    begin = (np.asarray(0), scalar(concrete(condition)), *map(concrete, start))
    _, _, *found = while_loop(goes_on, step, begin)
    return tuple(found)
