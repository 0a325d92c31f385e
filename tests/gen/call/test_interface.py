"""The interface of a program: all that a call needs, written as text and read back."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

from dlvm.gen.build import build
from dlvm.gen.call.executable import Executable
from dlvm.gen.call.interface import Interface
from dlvm.gen.program.times import UNBOUNDED
from dlvm.ir import parse
from tests.gen.control_cases import CASES

CONSTANTS = """dlvm 1
func @f(%x: f32[2*B+1,3] donated, %y: bf16[2], %n: i64[B]) -> (f32[2*B+1,3], bf16[2], i64[B,0]) {
  %0 = constant value=[1.5, 2.5] : bf16[2]
  %1 = mul %y, %0 : bf16[2]
  %2 = constant value=[1.0, 2.0, 3.0] : f32[1,3]
  %3 = reshape %2 shape=(3) : f32[3]
  %4 = broadcast %3 shape=(2*B+1,3) axes=(1) : f32[2*B+1,3]
  %5 = add %x, %4 : f32[2*B+1,3]
  %6 = constant value=0 : i64
  %7 = broadcast %6 shape=(B,0) axes=() : i64[B,0]
  print %5 label="five = "
  return %5, %1, %7
}
"""


def read_back(interface: Interface) -> Interface:
    written, elements = interface.plain()
    return Interface.from_plain(json.loads(json.dumps(written)), elements)


PROGRAMS = {"constants": CONSTANTS} | {case.name: str(case.module) for case in CASES}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_an_interface_is_plain_data(text: str):
    interface = build(parse(text)).interface
    again = read_back(interface)
    assert again.plain() == interface.plain()
    assert (again.params, again.results, again.prints) == (
        interface.params,
        interface.results,
        interface.prints,
    )
    assert (again.arena, again.work, again.symbols) == (
        interface.arena,
        interface.work,
        interface.symbols,
    )
    for a, b in zip(again.constants, interface.constants, strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes() and a.shape == b.shape


def test_an_interface_that_was_read_back_serves_the_call():
    made = build(parse(CONSTANTS))
    again = Executable(read_back(made.interface), made.library, made.module, {}, made.report)
    y = np.array([2, 4], ml_dtypes.bfloat16)
    for size in (0, 2):
        x, n = np.ones((2 * size + 1, 3), np.float32), np.arange(size)
        lines: list[str] = []
        found = again.run((x, y, n), lines.append)
        assert found[0] is x and len(lines) == 1
        assert x.tolist() == [[2, 3, 4]] * (2 * size + 1)
        assert found[1].tolist() == [3, 10] and found[2].shape == (size, 0)


def test_a_loop_without_a_known_number_of_trips_is_much_work():
    works = [build(case.module).interface.work for case in CASES if "while" in str(case.module)]
    assert works and set(works) == {UNBOUNDED}
