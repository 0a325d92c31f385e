"""A law that lies about NaN, infinities or the sign of a zero is found, and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlvm.base.errors import CompilerError
from dlvm.compile import Options, Road
from dlvm.ir import Op, Value, parse, zeros
from dlvm.ops import Add, Mul, Neg, Sub
from dlvm.target import Target
from dlvm.testing.drawing.dice import Seeded
from dlvm.testing.drawing.random_programs import random_program
from dlvm.trust.blame import bisect
from dlvm.trust.examine import examine

TEXT = """dlvm 1
func @f(%x: f64[40], %y: f64[40]) -> (f64[40], f64[40]) {
  %0 = mul %x, %y : f64[40]
  %1 = add %0, %x : f64[40]
  %2 = sub %1, %1 : f64[40]
  %3 = add %2, %1 : f64[40]
  return %1, %3
}
"""


def nothing_left(op: Sub) -> Value | None:
    """x - x = 0, which is wrong where x is infinite."""
    return zeros(op.type) if op.x is op.y else None


def adds_nothing(op: Add) -> Value | None:
    """x y + x = x y - (0 - x), which turns the sign of a zero."""
    again = isinstance(op.x, Mul) and op.y is op.x.x
    return Sub(op.x, Neg(op.y) + 0.0) if again else None


@pytest.mark.parametrize(("root", "law"), [(Sub, nothing_left), (Add, adds_nothing)])
def test_a_law_that_lies_for_special_values_is_named(root: type[Op], law: Any, planted_law: Any):
    with planted_law(root, law):
        assert bisect(parse(TEXT)) is None  # it is right for ordinary numbers
        found = bisect(parse(TEXT), special=True)
    assert found is not None and found.stage == "simplify" and found.law is not None
    assert found.law.name == law.__name__
    assert bisect(parse(TEXT), special=True, target=Target.host()) is None


def test_verifying_passes_tries_special_values(planted_law: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLVM_VERIFY", "passes")
    with planted_law(Sub, nothing_left), pytest.raises(CompilerError, match="nothing_left"):
        _ = Road(parse(TEXT), Options()).kernels


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(10))
def test_random_programs_keep_their_special_values(seed: int):
    program = random_program(Seeded(seed))
    assert examine(program.module, program.arrays, target=Target.host(), special=True) is None


def test_a_fast_program_may_lose_them():
    with np.errstate(all="ignore"):
        assert bisect(parse(TEXT), special=True, numerics="fast") is None
