"""Control and effects in the interpreter: what runs, what does not, and where errors point."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.base.errors import AssertionFailed, CompilerError, IndexOutOfRange, ShapeError
from dlvm.ir import parse
from dlvm.ops import Neg

BRANCHES = """dlvm 1
func @f(%c: bool, %x: f32[3], %i: i64) -> f32 {
  %0 = cond %c, [%x, %i] : f32
    then(%a: f32[3], %j: i64) -> f32 {
      %0 = gather %a, %j axis=0 : f32
      return %0
    }
    otherwise(%a: f32[3], %j: i64) -> f32 {
      %0 = constant value=-1.0 : f32
      return %0
    }
  return %0
}
"""
LOOP = """dlvm 1
func @f(%n: i64, %x: f32) -> (i64, f32) {
  %0 = constant value=0 : i64
  %1, %2 = while [%0, %x], [%n] : i64, f32
    condition(%i: i64, %y: f32, %m: i64) -> bool {
      %0 = less %i, %m : bool
      return %0
    }
    body(%i: i64, %y: f32, %m: i64) -> (i64, f32) {
      %0 = constant value=1 : i64
      %1 = add %i, %0 : i64
      %2 = add %y, %y : f32
      return %1, %2
    }
  return %1, %2
}
"""
SCAN = """dlvm 1
func @f(%s: f32, %xs: f32[T], %k: f32) -> (f32, f32[T]) {
  %0, %1 = scan [%s], [%xs], [%k] length=T REVERSE: f32, f32[T]
    body(%c: f32, %x: f32, %g: f32) -> (f32, f32) {
      %0 = mul %c, %g : f32
      %1 = add %0, %x : f32
      return %1, %0
    }
  return %0, %1
}
"""


def test_only_the_branch_that_is_taken_runs():
    module, x = parse(BRANCHES).verify(), np.arange(3, dtype=np.float32)
    assert module.run("f", np.array(False), x, np.array(9))[0] == -1
    assert module.run("f", np.array(True), x, np.array(-1))[0] == 2
    with pytest.raises(IndexOutOfRange, match="index 9 is out of range"):
        module.run("f", np.array(True), x, np.array(9))


@pytest.mark.parametrize("trips", [-2, 0, 1, 5, 100])
def test_a_loop_makes_as_many_trips_as_its_condition_says(trips: int):
    i, y = parse(LOOP).verify().run("f", np.array(trips), np.float32(1))
    assert i == max(trips, 0)
    assert y == np.float32(2) ** np.float32(max(trips, 0))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_scan_carries_and_stacks(n: int, reverse: bool):
    module = parse(SCAN.replace("REVERSE", "reverse=true " if reverse else "")).verify()
    xs = np.arange(1, n + 1, dtype=np.float32)
    last, stacked = module.run("f", np.float32(3), xs, np.float32(2))
    carry, expected = np.float32(3), np.zeros(n, np.float32)
    for i in reversed(range(n)) if reverse else range(n):
        expected[i] = carry * 2
        carry = carry * 2 + xs[i]
    assert last == carry
    np.testing.assert_array_equal(stacked, expected)


def test_sizes_are_checked_when_a_function_is_entered():
    module = parse("dlvm 1\nfunc @f(%x: f32[B], %y: f32[B]) -> f32[B] {\n  return %x\n}\n")
    with pytest.raises(ShapeError, match=r"y: axis 0 of f32\[B\] must be B where B = 2, found 3"):
        module.run("f", np.zeros(2, np.float32), np.zeros(3, np.float32))
    with pytest.raises(ShapeError, match=r"x: expected f32\[B\], found f64\[2\]"):
        module.run("f", np.zeros(2), np.zeros(2))


def test_a_callee_has_symbols_of_its_own():
    module = parse(
        "dlvm 1\nfunc @f(%x: f32[A], %y: f32[B]) -> (f32[B], i64) {\n"
        "  %0, %1 = call [%y] callee=@g : f32[B], i64\n  return %0, %1\n}\n"
        "func @g(%x: f32[A]) -> (f32[A], i64) {\n  %0 = dim size=A : i64\n  return %x, %0\n}\n"
    ).verify()
    y, n = module.run("f", np.zeros(2, np.float32), np.zeros(5, np.float32))
    assert y.shape == (5,) and n == 5


def test_a_false_assertion_points_at_its_line():
    text = 'dlvm 1\nfunc @f(%c: bool) -> () {\n  assert %c message="it must hold"\n  return\n}\n'
    module = parse(text, "prog.dlvm")
    assert module.run("f", np.array(True)) == ()
    with pytest.raises(AssertionFailed) as caught:
        module.run("f", np.array(False))
    assert str(caught.value).startswith("it must hold\n  --> prog.dlvm:3")


def test_a_print_writes_its_label_and_value(capsys: pytest.CaptureFixture[str]):
    parse('dlvm 1\nfunc @f(%x: i64[2]) -> () {\n  print %x label="x = "\n  return\n}\n').run(
        "f", np.array([1, 2])
    )
    assert capsys.readouterr().out == "x = [1 2]\n"


def test_a_tape_gives_back_in_reverse():
    module = parse(
        "dlvm 1\nfunc @f(%x: f32, %y: f32[2]) -> (f32[2], f32) {\n  %0 = empty_tape : tape\n"
        "  %1 = push %0, [%x] : tape\n  %2 = push %1, [%y] : tape\n"
        "  %3, %4 = pop %2 : tape, f32[2]\n  %5, %6 = pop %3 : tape, f32\n  return %4, %6\n}\n"
    ).verify()
    y, x = module.run("f", np.float32(1), np.float32([2, 3]))
    assert x == 1 and y.tolist() == [2, 3]


def test_a_reference_that_lies_about_its_type_is_found_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Neg, "run", lambda self, machine, x: (x.astype(np.float64),))
    head = "dlvm 1\nfunc @f(%x: f32) -> f32 {\n"
    module = parse(head + "  %0 = neg %x : f32\n  return %0\n}\n")
    with pytest.raises(CompilerError, match=r"the reference of neg to return .*, found float64"):
        module.run("f", np.float32(1))
