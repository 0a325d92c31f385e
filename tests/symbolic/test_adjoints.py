"""Adjoints of the element-wise operations of the registry, proven by SymPy for positive numbers.

The meaning of an operation is its scalar formula, in the words that SymPy knows. What SymPy derives
from it and what the adjoint computes must be the same expression. An operation that is not
differentiable says so in its class; the others are proven, or stand in ``LEFT_OUT``.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy

from dlvm.base.errors import UserError
from dlvm.ir import F64, OPS, Builder, Function, Param, TensorType
from dlvm.ops.families import Elementwise
from tests.opt.reals import ANALYSIS, NoMeaning, meaning, objects

SYMBOLS = sympy.symbols("x0 x1", positive=True)
ROUNDED = {
    math.log(2): sympy.log(2),
    math.log(10): sympy.log(10),
    2 / math.sqrt(math.pi): 2 / sympy.sqrt(sympy.pi),
    math.sqrt(math.pi) / 2: sympy.sqrt(sympy.pi) / 2,
}
"""Rounded constants in adjoints, each with the number that is meant."""
MEANT = {
    sympy.Rational(x) ** power * sign: exact**power * sign
    for x, exact in ROUNDED.items()
    for power in (1, -1)
    for sign in (1, -1)
}
LEFT_OUT = {
    **dict.fromkeys(
        (
            "maximum",
            "minimum",
            "logaddexp",
            "logaddexp2",
            "hypot",
            "asinh",
            "acosh",
            "digamma",
            "polygamma",
        ),
        "a choice by",
    ),
    **dict.fromkeys(("copysign", "atan2", "atanh"), "copysign"),
    **dict.fromkeys(("fmod", "remainder"), "fmod"),
    "modf": "trunc",
    "select": "bool",
}
"""Differentiable operations that are not proven here, each with what the proof fails at.

It is a choice between two formulas that depends on the symbols, a word that is no function in
SymPy, or an operand that is a bool. Derivatives of these are compared with differences alone.
"""
PROVEN = [
    name
    for name, cls in OPS.items()
    if issubclass(cls, Elementwise) and not cls.nondifferentiable and name not in LEFT_OUT
]
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "cast": {"dtype_to": F64},
    "polygamma": {"order": 1},
    "shard": {"spec": ()},
}


def difference(name: str, wrt: int) -> sympy.Expr:
    """What SymPy derives from an operation, less what its adjoint computes."""
    count = arity(name)
    params = tuple(Param(TensorType(F64), f"x{i}") for i in range(count + 1))
    with Builder() as builder:
        result = OPS[name](*params[:-1], **ATTRIBUTES.get(name, {}))
        slope = result.adjoint(params[-1])[wrt]
    symbols = SYMBOLS[:count]
    arrays = [objects((), [x]) for x in (*symbols, sympy.Integer(1))]
    value, computed = (
        0
        if v is None
        else meaning(Function("f", params, tuple(builder.ops), (v,)), arrays, ANALYSIS)[()]
        for v in (result.results[0], slope)
    )
    return sympy.simplify(sympy.diff(value, symbols[wrt]) - sympy.sympify(computed).xreplace(MEANT))


def arity(name: str) -> int:
    """The number of operands of an operation."""
    return sum(field.kind == "operand" for field in OPS[name].layout)


@pytest.mark.parametrize("name", PROVEN)
def test_an_adjoint_is_what_sympy_derives(name):
    for wrt in range(arity(name)):
        assert difference(name, wrt) == 0, (name, wrt)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_has_its_true_reason(name):
    with pytest.raises((NoMeaning, UserError), match=LEFT_OUT[name]):
        difference(name, 0)
