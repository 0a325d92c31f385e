"""Half-precision layers compute in f32 and round once."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.operands import known_dtype
from dlvm.dsl.words.namespace import xp
from dlvm.ir import DType


def float_of(*operands: Any) -> DType:
    """The float type in which operands meet; integers alone give the default."""
    kind = known_dtype(xp.result_type(*(xp.asarray(x) for x in operands if x is not None)))
    return kind if kind.is_float else default_float()


def wide(x: Any, kind: DType) -> Any:
    """An operand in the type in which a float type is summed: f32 for f16 and bf16."""
    return xp.astype(x, kind.compute)
