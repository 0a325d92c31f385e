"""Draws cases in which a Python scalar meets an array: as a literal, as an argument, and in NumPy.

A case is an expression of an array and a Python scalar. NumPy computes it on the plain array; dlvm
stages it once with the scalar captured, where it is a literal of the code, and once with the scalar
as an argument. All three must agree in value, element type and kind of error, but for
``EXCEPTIONS``. ``python -m tests.dsl.trace.scalars SEED CASES`` draws others than the suite does.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import dlvm

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS, "bfloat16")
EDGES = [e for n in INTEGERS for i in [np.iinfo(n)] for e in (int(i.min), int(i.max))]
INTS = [
    *(0, 1, 2, 3, 7, -1, -2, 100, 300, 2**24 + 1, 2**40, -(2**40), 2**53 + 1),
    *EDGES,
    *(e + 1 for e in EDGES),
    *(e - 1 for e in EDGES),
    *(2**70, -(2**70), 2**1030),
]
FRACTIONS = [0.0, -0.0, 0.5, 1.0, 1.5, -2.5, 2.0, 0.1, 3e-5, 7e4, 1e30, 1e300, 1e-300]
SPECIAL = [float("inf"), -float("inf"), float("nan")]
Expression = Callable[[Any, Any], Any]


def assigned(x: Any, s: Any) -> Any:
    y = x.copy()
    y[1:] = s
    return y


def in_place(operator: str) -> Expression:
    """``y += s`` and the like, with a copy of the array on the left."""
    names = {"x": 0}
    code = f"def f(x, s):\n    y = x.copy()\n    y {operator}= s\n    return y\n"
    exec(code, names)
    return names["f"]  # type: ignore[return-value]


def written(expression: str) -> Expression:
    """An expression of ``x`` and ``s``."""
    return eval(f"lambda x, s: {expression}", {"np": np, "assigned": assigned})


SYMBOLS = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>")
RELATIONS = ("<", "<=", ">", ">=", "==", "!=")
FUNCTIONS = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power"),
    *("maximum", "minimum", "fmax", "fmin", "copysign", "nextafter", "heaviside", "hypot"),
    *("less", "less_equal", "equal", "greater", "greater_equal", "not_equal", "arctan2"),
    *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("left_shift", "right_shift", "logaddexp", "logaddexp2", "isclose"),
)
WRITTEN = (
    *(f"x {o} s" for o in (*SYMBOLS, *RELATIONS)),
    *(f"s {o} x" for o in (*SYMBOLS, *RELATIONS)),
    *(f"np.{n}(x, s)" for n in FUNCTIONS),
    *(f"np.{n}(s, x)" for n in FUNCTIONS),
    *("divmod(x, s)", "divmod(s, x)", "assigned(x, s)", "np.full_like(x, s)", "np.isin(x, s)"),
    *("np.where(x > 1, x, s)", "np.where(x > 1, s, x)", "np.where(s, x, x + x)"),
    *("np.clip(x, s, None)", "np.clip(x, None, s)", "np.clip(x, s, s)", "x.clip(s, 100)"),
    *("np.dot(x, s)", "np.outer(x, s)", "np.kron(x, s)", "np.allclose(x, s)"),
    *("np.array_equal(x, s)", "np.append(x, s)", "np.searchsorted(np.sort(x), s)"),
    *(
        "np.select([x > 1], [x], s)",
        "np.nan_to_num(x, nan=s)",
    ),
    *("np.trapezoid(x, dx=s)", "np.polyval(x, s)"),
    *("np.inner(x, s)", "np.linspace(x, s, 3)", "np.nan_to_num(x, posinf=s)"),
    *("np.allclose(x, x, atol=s)", "np.append(s, x)", "np.broadcast_to(s, (2,)) + x[:2]"),
    *("x * (s + True)", "x + (True & s)", "x * (s - False)", "x > (s > 2)", "np.isclose(x, x, s)"),
    *("np.stack([x[:1], x[:1] * s])", "np.atleast_1d(s) + x[:1]", "np.hypot(x, s) * s"),
    *("np.insert(x, 1, s)", "np.pad(x, 1, constant_values=s)", "np.diff(x, append=s)"),
    *("x + -s", "x + abs(s)", "x * (s + s)", "x * (s * 2)", "x + (s & 1)", "x + (s > 0) * 2"),
    *("x + (s - 1)", "x + s / 2", "x + (s // 2)", "x + ~s", "x * (s > 0)", "x + (s == s) * s"),
    *("x > s + 1", "(x > s) & (x < s)", "x.sum() + s", "x.max() * s", "s * x[0]", "x[0] < s"),
)
EXPRESSIONS: dict[str, Expression] = {w: written(w) for w in WRITTEN} | {
    f"y {o}= s": in_place(o) for o in SYMBOLS
}


def elements(dtype: str) -> Any:
    """The array beside the scalar: small numbers and the ends of the type."""
    if dtype == "bool":
        return np.array([True, False, True, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return np.array([info.max, info.min, 0, 1, 2, 7, info.max // 2, 3], dtype)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    numbers = [1.5, 0.0, -0.0, 2.0, -3.25, 100.0, np.inf, -np.inf, np.nan]
    return np.array(numbers).astype(kind)


@dataclass(frozen=True)
class Case:
    """An expression, the element type of the array, and the Python scalar."""

    expression: str
    dtype: str
    scalar: Any

    def __str__(self) -> str:
        return f"{self.expression} with {self.dtype} and {self.scalar!r:.30}"


def cases(seed: int, count: int) -> Iterator[Case]:
    """Cases drawn at random."""
    rng = random.Random(seed)
    for _ in range(count):
        scalars = rng.choice([[True, False], INTS, INTS, INTS, FRACTIONS, SPECIAL])
        yield Case(rng.choice([*EXPRESSIONS]), rng.choice(DTYPES), rng.choice(scalars))


def computed(f: Callable[[], Any]) -> Any:
    """The results of a call as arrays, or the error."""
    try:
        with np.errstate(all="ignore"):
            found = f()
    except Exception as error:
        return error
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def outcomes(case: Case) -> tuple[Any, Any, Any]:
    """What NumPy, a literal and an argument give."""
    f, x, s = EXPRESSIONS[case.expression], elements(case.dtype), case.scalar
    return (
        computed(lambda: f(x, s)),
        computed(lambda: dlvm.function(lambda x: f(x, s))(x)),
        computed(lambda: dlvm.function(lambda x, s: f(x, s))(x, s)),
    )


KINDS = (OverflowError, ZeroDivisionError, TypeError, ValueError)


def kind(error: Exception) -> type[Exception]:
    return next((k for k in KINDS if isinstance(error, k)), Exception)


def differs(a: Any, b: Any) -> str:
    """How two outcomes differ; empty where they agree. ``a`` is what is expected."""
    if isinstance(a, Exception) or isinstance(b, Exception):
        if not isinstance(a, Exception):
            return f"an error in place of a result: {str(b).splitlines()[0]}"
        if not isinstance(b, Exception):
            return f"no error where expected {type(a).__name__}: {b}"
        return "" if isinstance(b, kind(a)) else f"{type(b).__name__} for {type(a).__name__}"
    types = [(x.dtype, x.shape) for x in a], [(x.dtype, x.shape) for x in b]
    if types[0] != types[1]:
        return f"{types[1]} for {types[0]}"
    same = all(alike(x, y) for x, y in zip(a, b, strict=True))
    return "" if same else f"{b} for {a}"


def alike(x: Any, y: Any) -> bool:
    """Equal, or floats within a few units of the last place."""
    if x.dtype.kind in "biu":
        return np.array_equal(x, y)
    eps = float(ml_dtypes.finfo(x.dtype).eps)
    x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(x - y) <= 4 * eps * np.abs(x) + 1e-300
    return bool(np.all(near | (x == y) | (np.isnan(x) & np.isnan(y))))


def is_beyond(case: Case, bits: int = 63) -> bool:
    """Whether the scalar is an int that an i64 can't hold, or with ``bits=64`` a u64 neither."""
    return type(case.scalar) is int and not -(2**63) <= case.scalar < 2**bits


def is_large(scalar: int) -> bool:
    """Whether twice an int, or one more, is beyond i64."""
    return not -(2**62) < scalar < 2**62


def is_outside(case: Case) -> bool:
    """Whether the scalar is a number that the integer type of the array can't hold."""
    if case.dtype not in INTEGERS or type(case.scalar) is bool:
        return False
    info = np.iinfo(case.dtype)
    if type(case.scalar) is float and not math.isfinite(case.scalar):
        return True
    return not info.min <= int(case.scalar) <= info.max


EXCEPTIONS: dict[str, Callable[[Case], bool]] = {
    "where, select and pad refuse an int that NumPy wraps, and saturate a float": lambda c: (
        c.expression.startswith(("np.where(x", "np.select", "np.pad")) and is_outside(c)
    ),
    "a float stored in integers saturates as astype says, where NumPy refuses": lambda c: (
        c.expression.startswith(("assigned", "np.insert", "np.full_like"))
        and type(c.scalar) is float
        and is_outside(c)
    ),
    "integers to negative integer powers from an array are whole parts of fractions": lambda c: (
        c.expression in ("s ** x", "np.power(s, x)") and c.dtype.startswith("int")
    ),
    "an int that i64 does not hold is unsigned or an object where NumPy makes an array of it": (
        lambda c: is_beyond(c) and c.expression.startswith(FOR_OBJECTS)
    ),
    "NumPy refuses the truth of an int that i64 can't hold": lambda c: (
        is_beyond(c) and ("logical" in c.expression or c.dtype == "bool")
    ),
    "NumPy squares bools as i8 for the exponent 2; an argument is known only in the call": (
        lambda c: c.expression == "x ** s" and c.dtype == "bool" and c.scalar == 2
    ),
    "x ** 0.5 with a literal is sqrt(x), which differs at -0.0 and -inf": lambda c: (
        c.expression in ("x ** s", "y **= s", "np.power(x, s)") and c.scalar == 0.5
    ),
    "NumPy's dot with the number 0 gives 0 for NaN and infinities, too": lambda c: (
        c.expression in ("np.dot(x, s)", "np.inner(x, s)") and c.scalar == 0
    ),
    "Python integers have 64 bits in a call: what is computed from them alone wraps": lambda c: (
        any(part in c.expression for part in ("(s +", "(s -", "(s *", "-s", "s + 1", "abs(s)"))
        and type(c.scalar) is int
        and is_large(c.scalar)
    ),
    "in place on bools the argument is refused for its type before its value is known": lambda c: (
        c.expression.startswith("y ") and c.dtype == "bool" and type(c.scalar) is int
    ),
}
"""The cases in which the three don't agree, and why."""
FOR_OBJECTS = (
    *("np.isclose", "np.allclose", "np.isin", "np.array_equal", "np.searchsorted", "np.dot"),
    *("np.outer", "np.kron", "np.append", "np.insert", "np.diff", "np.polyval", "np.full_like"),
    *("np.where(s", "np.inner", "np.linspace", "np.atleast_1d", "np.broadcast_to"),
)


def excepted(case: Case) -> bool:
    """Whether the three need not agree."""
    return any(holds(case) for holds in EXCEPTIONS.values())


def judged(case: Case) -> str:
    """How a case breaks the law; empty where it keeps it."""
    numpy, literal, argument = outcomes(case)
    if case.dtype != "bfloat16" and (said := differs(numpy, literal)):
        return f"{case}: literal: {said}"
    if is_beyond(case):  # arguments are refused at the door, whatever is done with them
        good = isinstance(argument, dlvm.UserError)
        return "" if good else f"{case}: argument: not refused: {argument}"
    said = differs(literal, argument)
    return f"{case}: argument: {said}" if said else ""


def faults(seed: int, count: int) -> list[str]:
    """The cases that break the law, in words."""
    found = [judged(case) for case in cases(seed, count) if not excepted(case)]
    return [said for said in found if said]


if __name__ == "__main__":
    found = faults(int(sys.argv[1]), int(sys.argv[2]))
    print(*found, f"{len(found)} faults", sep="\n")
    sys.exit(bool(found))
