"""Adjoints of element-wise operations, proven by SymPy for positive numbers.

The meaning of an operation is its scalar formula, in the words that SymPy knows. What SymPy derives
from it and what the adjoint computes must be the same expression.
"""

from __future__ import annotations

import pytest
import sympy

from dlvm.ir import F64, OPS, Builder, Function, Param, TensorType
from dlvm.ops.families import Elementwise
from tests.opt.reals import ANALYSIS, meaning, objects

SYMBOLS = sympy.symbols("x0 x1", positive=True)
PROVEN = [
    "acos",
    "add",
    "asin",
    "atan",
    "cbrt",
    "cos",
    "cosh",
    "div",
    "exp",
    "expm1",
    "log",
    "log1p",
    "mul",
    "neg",
    "pow",
    "sin",
    "sinh",
    "sqrt",
    "sub",
    "tan",
    "tanh",
]
"""Operations that SymPy knows. Those whose adjoint multiplies by a rounded constant are left out:
erf, erfc, erfinv, exp2, log2 and log10."""


def difference(cls: type[Elementwise], operands: int, wrt: int) -> sympy.Expr:
    """What SymPy derives from an operation, less what its adjoint computes."""
    params = tuple(Param(TensorType(F64), f"x{i}") for i in range(operands + 1))
    with Builder() as builder:
        result = cls(*params[:-1])
        slope = result.adjoint(params[-1])[wrt]
    symbols = SYMBOLS[:operands]
    arrays = [objects((), [x]) for x in (*symbols, sympy.Integer(1))]
    found = [
        meaning(Function("f", params, tuple(builder.ops), (v,)), arrays, ANALYSIS)[()]
        for v in (result, slope)
    ]
    return sympy.simplify(sympy.diff(found[0], symbols[wrt]) - found[1])


@pytest.mark.parametrize("name", PROVEN)
def test_an_adjoint_is_what_sympy_derives(name):
    cls = OPS[name]
    operands = 2 if name in ("add", "sub", "mul", "div", "pow") else 1
    for wrt in range(operands):
        assert difference(cls, operands, wrt) == 0, (name, wrt)
