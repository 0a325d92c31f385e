"""Machine code of programs: the same bits, chunks of tape, and code of constant size."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from dlvm.base.errors import IndexOutOfRange
from dlvm.gen.build import build
from dlvm.gen.runtime.tape import FIRST_CHUNK
from dlvm.ir import parse
from tests.gen.control_cases import CASES, Case, whole
from tests.gen.program.test_control import assert_same


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_machine_code_means_what_the_function_means(case: Case):
    executable = build(case.module)
    for arrays in case.calls:
        assert_same(executable.run(arrays), case.module.run("f", *arrays))


def test_the_tape_grows_by_chunks_as_needed_and_gives_back_what_was_pushed():
    module = next(c for c in CASES if c.name == "tape").module
    for trips, chunks in ((0, 0), (1, 1), (300, 1), (1000, 2), (3000, 4)):
        executable = build(module)
        arrays = whole(40), np.int64(trips)
        assert_same(executable.run(arrays), module.run("f", *arrays))
        assert executable.tape_bytes == (2**chunks - 1) * FIRST_CHUNK


FAILING = """dlvm 1
func @f(%x: f32[4096], %n: i64) -> f32 {
  %zero = constant value=0 : i64
  %empty = empty_tape : tape
  %0, %1 = while [%zero, %empty], [%x, %n] : i64, tape
    condition(%k: i64, %t: tape, %x: f32[4096], %n: i64) -> bool {
      %go = less %k, %n : bool
      return %go
    }
    body(%k: i64, %t: tape, %x: f32[4096], %n: i64) -> (i64, tape) {
      %one = constant value=1 : i64
      %k1 = add %k, %one : i64
      %t1 = push %t, [%x] : tape
      return %k1, %t1
    }
  %2 = gather %x, %0 axis=0 : f32
  return %2
}
"""


def test_the_tape_is_freed_also_when_the_call_fails():
    executable = build(parse(FAILING))
    x = np.zeros(4096, np.float32)
    held: list[int] = []
    for _ in range(4):
        with pytest.raises(IndexOutOfRange):
            executable.run((x, np.int64(5000)))
        held.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    grown = held[-1] - held[0]
    assert executable.tape_bytes > 5000 * x.nbytes
    assert grown * 1024 < executable.tape_bytes


def test_tapes_of_tapes_over_several_chunks():
    module = next(c for c in CASES if c.name == "tape_of_tapes").module
    executable = build(module)
    arrays = np.int64(90), np.int64(50)
    assert_same(executable.run(arrays), module.run("f", *arrays))
    assert executable.tape_bytes > FIRST_CHUNK


def test_code_does_not_grow_with_trips():
    def length(trips: int) -> int:
        text = f"""dlvm 1
        func @f(%x: f32[3]) -> f32[3] {{
          %0 = scan [%x], [], [] length={trips} : f32[3]
            body(%c: f32[3]) -> f32[3] {{
              %1 = add %c, %c : f32[3]
              return %1
            }}
          return %0
        }}
        """
        return len(build(parse(text)).texts["llvm"].splitlines())

    assert length(2) == length(2000)
