"""The names that other formats have for functions of elements: a row for each operation.

What writes a format and what reads it both look here. An operation that a format lacks has no name
in its column, and is written in others. ONNX's reader calls the users' function of an operation.
"""

from __future__ import annotations

from typing import NamedTuple

from dlvm import ops
from dlvm.ir import Op
from dlvm.ops import Elementwise
from dlvm.ops.elements.rounding import Rounding


class Names(NamedTuple):
    """The names of an operation; a name of StableHLO without a dialect is of ``stablehlo``.

    ``only_read`` are names of StableHLO under which the operation is read and never written. Of
    ONNX it is the name for numbers; for bools a leading ``Bitwise`` is left out.
    """

    stablehlo: str = ""
    onnx: str = ""
    only_read: str = ""


NAMES: dict[type[Elementwise], Names] = {
    ops.Add: Names("add", "Add"),
    ops.Sub: Names("subtract", "Sub"),
    ops.Mul: Names("multiply", "Mul"),
    ops.Div: Names("divide", "Div"),
    ops.Neg: Names("negate", "Neg"),
    ops.Abs: Names("abs", "Abs"),
    ops.Sign: Names("", "Sign", only_read="sign"),
    ops.Not: Names("not", "BitwiseNot"),
    ops.And: Names("and", "BitwiseAnd"),
    ops.Or: Names("or", "BitwiseOr"),
    ops.Xor: Names("xor", "BitwiseXor"),
    ops.ShiftLeft: Names(only_read="shift_left"),
    ops.Equal: Names("", "Equal"),
    ops.Less: Names("", "Less"),
    ops.LessEqual: Names("", "LessOrEqual"),
    ops.Maximum: Names("maximum", "Max"),
    ops.Minimum: Names("minimum", "Min"),
    ops.Fmod: Names("remainder"),
    ops.Sqrt: Names("sqrt", "Sqrt"),
    ops.Cbrt: Names("cbrt"),
    ops.Pow: Names("power", "Pow"),
    ops.Floor: Names("floor", "Floor"),
    ops.Ceil: Names("ceil", "Ceil"),
    ops.Round: Names("round_nearest_even", "Round"),
    ops.Exp: Names("exponential", "Exp"),
    ops.Expm1: Names("exponential_minus_one"),
    ops.Log: Names("log", "Log"),
    ops.Log1p: Names("log_plus_one"),
    ops.Sin: Names("sine", "Sin"),
    ops.Cos: Names("cosine", "Cos"),
    ops.Tan: Names("tan", "Tan", only_read="chlo.tan"),
    ops.Asin: Names("", "Asin", only_read="chlo.asin"),
    ops.Acos: Names("", "Acos", only_read="chlo.acos"),
    ops.Atan: Names("", "Atan", only_read="chlo.atan"),
    ops.Atan2: Names("atan2"),
    ops.Sinh: Names("", "Sinh", only_read="chlo.sinh"),
    ops.Cosh: Names("", "Cosh", only_read="chlo.cosh"),
    ops.Tanh: Names("tanh", "Tanh"),
    ops.Asinh: Names("", "Asinh", only_read="chlo.asinh"),
    ops.Acosh: Names("", "Acosh", only_read="chlo.acosh"),
    ops.Atanh: Names("", "Atanh", only_read="chlo.atanh"),
    ops.Sigmoid: Names("logistic", "Sigmoid"),
    ops.Erf: Names("chlo.erf", "Erf"),
    ops.Erfc: Names("chlo.erfc"),
    ops.Erfinv: Names("chlo.erf_inv"),
    ops.LGamma: Names("chlo.lgamma"),
    ops.Digamma: Names("chlo.digamma"),
    ops.NextAfter: Names(only_read="chlo.next_after"),
    ops.IsNan: Names("", "IsNaN"),
    ops.IsInf: Names("", "IsInf", only_read="chlo.is_inf"),
    ops.IsFinite: Names(only_read="is_finite"),
}


def floats_only(op: Op) -> bool:
    """Whether formats have it of floats alone; of integers it is written by its formula."""
    return isinstance(op, Rounding | ops.Fmod | ops.IsNan | ops.IsInf)


def names_of(op: Op) -> Names:
    """The names of an operation, empty where no format has one."""
    return NAMES.get(type(op), Names()) if isinstance(op, Elementwise) else Names()
