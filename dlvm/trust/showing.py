"""Operations as text for messages: an operation with its operands, or what a law replaced it by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlvm.ir import Function, Module, Op, Value
from dlvm.ir.core import Part
from dlvm.ir.text.printer import Printer, name_values

SHOWN_OPERATIONS = 12
"""Number of operations that are shown."""


def shown_before(module: Module, ops: Sequence[Op]) -> str:
    """The operations, with the names that they have in the text of their module, if any."""
    names: dict[Value, str] = {}
    for op in ops:
        names |= _names(module, op, names)
    shown = _lines(ops[-SHOWN_OPERATIONS:], names)
    return "\n".join(["...", *shown] if len(ops) > SHOWN_OPERATIONS else shown)


def shown_after(module: Module, op: Op, values: Sequence[Value]) -> str:
    """The replacement of an operation: the operations written for it, and the new values."""
    names = _names(module, op, {})
    made = _made(values, names)
    given = ", ".join(_name(v, names) for v in values) or "nothing"
    lines = _lines(made, names)
    if not made or [v for v in values if v not in made[-1].results]:
        lines.append(given)
    return "\n".join(lines)


def _names(module: Module, op: Op, known: dict[Value, str]) -> dict[Value, str]:
    names = dict(known)
    for fn in _functions(module):
        if op in fn.ops:
            names.update(name_values(fn))
    for value in (*op.operands, *op.results):
        _name(value, names)
    return names


def _functions(module: Module) -> Iterable[Function]:
    for fn in module.functions:
        yield fn
        for op in fn.walk():
            yield from op.regions.values()


def _name(value: Value, names: dict[Value, str]) -> str:
    return names.setdefault(value, f"%v{len(names)}")


def _made(values: Sequence[Value], names: dict[Value, str]) -> list[Op]:
    """The operations that have no name yet, operands first."""
    made: dict[Op, None] = {}
    pending: list[Value] = [v for v in values if v not in names]
    while pending and len(made) < SHOWN_OPERATIONS:
        value = pending.pop()
        op = value.op if isinstance(value, Part) else value
        if isinstance(op, Op) and op not in made:
            made[op] = None
            pending += [v for v in op.operands if v not in names]
    return list(reversed(made))


def _lines(ops: Iterable[Op], names: dict[Value, str]) -> list[str]:
    printer = Printer()
    for op in ops:
        for value in (*op.operands, *op.results):
            _name(value, names)
        printer.operation(op, names, "")
    return printer.lines
