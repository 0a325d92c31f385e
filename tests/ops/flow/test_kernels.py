"""Kernels say which of their results are written over an operand, and only what can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import IRError
from dlvm.ir import parse
from dlvm.ops import Kernel
from tests.gen.compiled import Compiled

PART = """dlvm 1
func @f(%x: f32[8], %y: f32[3]) -> f32[8] {
  %0 = kernel [%x, %y] family="scatter" OVER: f32[8]
    body(%a: f32[8], %b: f32[3]) -> f32[8] {
      %0 = READ
      %1 = update %a, %0 starts=(2,) steps=(1,) : f32[8]
      return %1
    }
  return %0
}
"""
BESIDE = "add %b, %b : f32[3]"
READS = {
    BESIDE: "over=(0,) ",
    "slice %a starts=(5,) sizes=(3,) steps=(1,) : f32[3]": "over=(0,) ",
    "slice %a starts=(1,) sizes=(3,) steps=(1,) : f32[3]": "",
}
"""What replaces a window, and whether it can be written where the operand lies."""


def part(read: str, over: str) -> Any:
    return parse(PART.replace("READ", read).replace("OVER", over)).verify()


@pytest.mark.parametrize("read", READS)
def test_a_result_is_written_over_an_operand_where_the_kernel_says_so(read: str):
    """Both ways give the same numbers, and text that can be read back."""
    x, y = np.arange(8, dtype=np.float32), np.ones(3, np.float32)
    for over in {"", READS[read]}:
        module = part(read, over)
        assert str(parse(str(module))) == str(module)
        (op,) = module.main.ops
        assert isinstance(op, Kernel)
        assert (op.target_of(0) is op.body.params[0]) == bool(over)
        (result,), _ = Compiled(op)(x, y)
        np.testing.assert_array_equal(result, module.run("f", x, y)[0])
        np.testing.assert_array_equal(x, np.arange(8))


@pytest.mark.parametrize("over", ["over=(1,) ", "over=(0, 0) ", "over=(-2,) "])
def test_what_can_not_be_written_over_is_refused(over: str):
    with pytest.raises(IRError, match=r"this body allows \(0,\), or -1 for each"):
        part(BESIDE, over)


def test_what_is_read_when_it_is_gone_is_refused():
    read = list(READS)[-1]
    with pytest.raises(IRError, match=r"this body allows \(-1,\)"):
        part(read, "over=(0,) ")


def test_a_staged_update_says_what_it_overwrites():
    @dlvm.function
    def step(x: Any, y: Any) -> Any:
        x = x.copy()
        x[2:5] = y * y
        return x

    text = step.compile(dlvm.spec("f32[8]"), dlvm.spec("f32[3]")).text("kernels")
    assert 'family="scatter" over=(1)' in text
