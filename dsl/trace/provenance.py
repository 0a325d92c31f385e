"""Finds where a size came from: the argument that has it, or the operation that first made it.

Nothing is recorded while a trace succeeds. For an error about two sizes, the operands of the failed
operation are followed back through their producers, and out of regions and called functions to
their operands, until the first value that has each size. This module knows values,
not staged arrays.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dlvm.base.errors import Origin, UserError
from dlvm.ir import Dim, Expr, Function, Op, Param, Value
from dlvm.ir.core import Declaration, Part
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.sizes.equations import unequal
from dlvm.ops import Broadcast

from .scopes import Scope, Trace, current

WIDTH = 60
"""Characters of a line of code that are shown beside its file and number."""


def explained(error: UserError, args: Sequence[Any]) -> UserError:
    """The error with the origins of both sizes that should be equal, as far as they are known."""
    if error.sides and current() is not None:
        error.notes += arisen(error.sides, list(_values(args)))
        error.sides = ()
    return error


def sizes_of(a: Value, b: Value) -> tuple[str, ...]:
    """The origins of the first two sizes in which two values differ."""
    return arisen(unequal(a.shape, b.shape), [a, b])


def arisen(sides: Sequence[Dim], near: Sequence[Value]) -> tuple[str, ...]:
    """A line of origin for each of two sizes; sizes that are known to everybody get none."""
    scope = current()
    if scope is None or not any(isinstance(d, Expr) for d in sides):
        return ()
    given = [near, list(reversed(near))]
    found = (_told(d, values, scope) for d, values in zip(sides, given, strict=True))
    return tuple(note for note in found if note)


def _values(args: Any) -> Iterator[Value]:
    """The values of the staged arrays among arguments."""
    for x in args.values() if isinstance(args, dict) else args:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(x, list | tuple | dict):
            yield from _values(x)
        elif isinstance(getattr(x, "contents", None), Value):  # pyright: ignore[reportUnknownArgumentType]
            yield x.contents  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _told(size: Dim, near: Sequence[Value], scope: Scope) -> str:
    """The origin of one size, in one line."""
    starts = [v for v in near if size in v.shape] or _anywhere(size, scope)
    found = _first(size, starts, scope.trace)
    if isinstance(found, Param):
        return f"{size}: {_argument(size, found, scope)}"
    letters = _letters(size, scope)
    if found is not None and found.origin is not None:
        return f"{size}: made at {place(found.origin)}{letters and f', where {letters}'}"
    return f"{size}: {letters}" if letters else ""


def place(origin: Origin) -> str:
    """A line of the user's with its file, number and text."""
    source = origin.source()
    return f"{origin}: {source if len(source) <= WIDTH else f'{source[: WIDTH - 3]}...'}"


# -- the way back ------------------------------------------------------------------------------


def _first(size: Dim, starts: Iterable[Value], trace: Trace) -> Value | None:
    """The first value with a size: an argument if there is one, a broadcast only if
    nothing else.
    """
    pending, seen = list(starts)[::-1], set[Value]()
    ends: list[Value] = []
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        before = [v for v in _before(value, size, trace) if size in v.shape]
        pending += before[::-1]
        if not before:
            ends.append(value)
    return min(ends, key=_rank, default=None)


def _rank(end: Value) -> int:
    return 0 if isinstance(end, Param) else 2 if isinstance(end, Broadcast) else 1


def _before(value: Value, size: Dim, trace: Trace) -> list[Value]:
    """The values from which a value may have a size."""
    if isinstance(value, Param):
        if value in trace.sources:
            return [trace.sources[value][0]]
        known = trace.inputs.get(value)
        return [known.given] if known is not None and known.given is not None else []
    op = value.op if isinstance(value, Part) else value
    if not isinstance(op, Op):
        return []
    if any(size in v.shape for v in op.operands):
        return list(op.operands)
    inner = [*op.regions.values()]
    if op.called is not None:
        inner = [*_written(op.called.name, trace)]
    return [r for fn in inner for r in fn.results]


def _written(name: str, trace: Trace) -> Iterator[Function]:
    """A function of the trace; for a derived one, the function that it is derived from."""
    known = {e.name: e for e in trace.entries}
    entry = known.get(name)
    while isinstance(entry, Declaration):
        entry = known.get(entry.of)
    if entry is not None:
        yield entry


def _anywhere(size: Dim, scope: Scope) -> list[Value]:
    """The first value with a size in the scopes around, an argument if there is one."""
    if not isinstance(size, Expr):
        return []
    found = next((p for p in scope.root.params if size in p.shape), None)
    if found is not None:
        return [found]
    around = [scope]
    while (parent := around[-1].parent) is not None:
        around.append(parent)
    ops = (r for s in reversed(around) for op in s.builder.ops for r in op.results)
    return [v for v in ops if size in v.shape][:1]


# -- arguments ---------------------------------------------------------------------------------


def _argument(size: Dim, param: Param, scope: Scope) -> str:
    """An axis of an argument of the whole program, and the line that names it."""
    trace = scope.trace
    known = trace.inputs.get(param)
    path = next((c.path for c in trace.arrays.values() if c.param is param), param.name)
    label, held = (known.label, known.held) if known is not None else (path, "a captured array")
    at = definition(trace.python) if param in scope.root.params else None
    said = f"axis {param.shape.index(size)} of {label!r}, {held}"
    return said if at is None else f"{said}, {place(at)}"


def _letters(size: Dim, scope: Scope) -> str:
    """For each symbol of a size, the axis of an argument that binds it."""
    if not isinstance(size, Expr):
        return ""
    names = dict.fromkeys(symbols(size))
    found = ((n, *_axis_of(n, scope)) for n in names)
    return ", ".join(f"{name} is axis {axis} of {label!r}" for name, label, axis in found if label)


def _axis_of(name: str, scope: Scope) -> tuple[str, int]:
    """The argument of the whole program that binds a symbol, and the axis."""
    axes = [
        (scope.trace.inputs[param].label, axis, d)
        for param in scope.root.params
        for axis, d in enumerate(param.shape)
        if name in symbols(d)
    ]
    label, axis, _ = min(axes, key=lambda found: found[2] != symbol(name), default=("", 0, 0))
    return label, axis


def definition(fn: Any) -> Origin | None:
    """The line on which a Python function begins, after its decorators."""
    code = getattr(inspect.unwrap(fn), "__code__", None) if callable(fn) else None
    if code is None:
        return None
    line: int = code.co_firstlineno
    while linecache.getline(code.co_filename, line).lstrip().startswith("@"):
        line += 1
    return Origin(code.co_filename, line)
