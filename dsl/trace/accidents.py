"""Finds why f32 or halves became f64 in a trace although nobody wrote f64, and tells it once.

The cause is a float64 number of NumPy's, integers or bools that promotion makes f64, or a function
that makes f64 unless told otherwise. A value that is f64 because the user said so is no cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dlvm.dsl.words.narrower import as_floats, as_number, function_called, with_dtype
from dlvm.ir import F64, DType, Op, Param, Value
from dlvm.ir.core import Part
from dlvm.ops import Cast, Constant

from .operands import here, is_weak, known_dtype, shape_of
from .scopes import Accident, Call, Trace, steps_of_users, user_origin
from .tensor import Tensor
from .tracing import Input, Program
from .warned import warned


def of_default(name: str, dtype: Any, made: Tensor) -> Tensor:
    """An array that a function made; it is noted whether its element type is a default."""
    value, trace = made.read(), here().trace
    if dtype is None:
        trace.by_default[value] = _call(name)
    elif value.dtype is F64:
        trace.wide.add(value)
    return made


def _call(name: str, operand: int = 0) -> Call:
    """The call that the user's code makes now."""
    return Call(name, user_origin(), next(steps_of_users(), None), operand)


def note_accident(name: str, xs: Sequence[Any]) -> None:
    """Notes an operation that computes in f64, if f32 or halves became f64 by accident."""
    trace = here().trace
    if trace.accident is not None:
        return
    for i, x in enumerate(xs):
        if isinstance(x, Tensor) and not x.weak and not x.element.is_float:
            trace.counted.setdefault(x.read(), _call(name, i))
    narrow = [d for x in xs if (d := _element(x)) and d.is_float and d is not F64 and shape_of(x)]
    causes = [_cause(name, i, x, trace) for i, x in enumerate(xs) if narrow]
    found = next(filter(None, causes), None)
    if found and None not in causes:
        kind, cause = found
        given = ", ".join(str(d) for x in xs if (d := _element(x)))
        trace.accident = Accident(kind, cause, narrow[0], f"{name} of {given}")


def _element(x: Any) -> DType | None:
    """The element type of an operand; None of Python's numbers."""
    return None if is_weak(x) else known_dtype(x.dtype)


Cause = tuple[str, Call] | tuple[()] | None
"""Why an operand widens others; empty if it does not, None if the user said so."""


def _cause(name: str, i: int, x: Any, trace: Trace) -> Cause:
    kind = _element(x)
    if kind is None or (kind.is_float and kind is not F64):
        return ()
    if isinstance(x, Tensor):
        value = x.read()
        return _of_floats(value, trace) if kind is F64 else _of_counts(value, trace)
    if kind is F64:
        return None if x.shape else ("number", _call(name, i))
    return "counts", _call(name, i)


def _of_counts(value: Value, trace: Trace) -> Cause:
    """The cause of integers: a function of ours made them, or they came from elsewhere."""
    pending, seen = [value], set[Value]()
    while pending:
        at = pending.pop()
        if at in trace.by_default:
            return "default", trace.by_default[at]
        if at not in seen:
            seen.add(at)
            pending += [v for v in _before(at, trace) if not v.dtype.is_float]
    return "counts", trace.counted[value]


def _of_floats(value: Value, trace: Trace) -> Cause:
    """The cause of a value of f64: all that it is computed from is f64 by accident."""
    pending, seen, causes = [value], set[Value](), ()
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        if at in trace.by_default:
            causes = "default", trace.by_default[at]
        elif isinstance(at, Cast) and at.x in trace.counted:
            causes = _of_counts(at.x, trace)
        elif at in trace.wide or not (before := _floats_before(at, trace)):
            trace.wide.add(value)
            return None
        else:
            pending += [v for v in before if not _is_number(v, trace)]
    return causes or None


def _floats_before(value: Value, trace: Trace) -> list[Value]:
    return [v for v in _before(value, trace) if v.dtype is F64]


def _is_number(value: Value, trace: Trace) -> bool:
    """Whether a value is a number of Python's."""
    if isinstance(value, Param) and value in trace.inputs:
        return trace.inputs[value].weak
    return isinstance(value, Constant) and not value.shape


def _before(value: Value, trace: Trace) -> Iterable[Value]:
    """The values that a value is computed from, where that is known."""
    if isinstance(value, Param):
        if value in trace.sources:
            return (trace.sources[value][0],)
        known = trace.inputs.get(value)
        return () if known is None or known.given is None else (known.given,)
    op = value.op if isinstance(value, Part) else value
    return op.operands if isinstance(op, Op) and not op.regions and op.called is None else ()


def tell_accident(label: str, program: Program, inputs: Sequence[Input], told: set[str]) -> None:
    """Warns once of a function whose arguments are f32 or halves, and that computes in f64."""
    accident = program.trace.accident
    given = [i.type.dtype for i in inputs if not i.weak]
    given += [c.param.type.dtype for c in program.trace.arrays.values()]
    if "accident" in told or accident is None or F64 in given or accident.narrow not in given:
        return
    told.add("accident")
    name = function_called(accident.cause.step) or accident.cause.name
    warned(
        f"{label} is given {accident.narrow} and computes in f64, which takes more time and "
        f"memory: {accident.text} is f64 because of {WHAT[accident.kind].format(name=name)}; "
        f'{_remedy(accident)}, or call dlvm.default_dtype("f32")',
        accident.cause.origin,
    )


WHAT = {
    "number": "a float64 number of NumPy's",
    "counts": "the integers or bools of {name}",
    "default": "{name}, which was given no element type",
}


def _remedy(found: Accident) -> str:
    """The code to write instead."""
    cause, to = found.cause, str(found.narrow)
    if found.kind == "number":
        return as_number(cause.step, cause.operand) or "make it a Python number: float(...)"
    if found.kind == "counts":
        code = as_floats(cause.step, cause.operand, to)
        return code or f'convert them: .astype("{to}")'
    return with_dtype(cause.step, cause.name, to) or f'give {cause.name} dtype="{to}"'
