"""The call: checks, errors at the user's line, donation, fresh results, printing, threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dlvm.base.errors import AssertionFailed, DonationError, IndexOutOfRange, IRError, ShapeError
from dlvm.gen.build import build
from dlvm.gen.call.executable import Executable
from dlvm.ir import Module, parse
from tests.gen.control_cases import SCATTER, whole
from tests.gen.program.test_control import assert_same


def module(text: str) -> Module:
    return parse("dlvm 1\n" + text, "model.py").verify()


@pytest.fixture(autouse=True, params=["entry", "ctypes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test holds with the entry in machine code, and where there is none."""
    if request.param == "ctypes":
        monkeypatch.setattr("dlvm.gen.call.entry.enter", lambda: None)


def built(text: str) -> Executable:
    return build(module(text))


GATHER = """
func @f(%x: f32[N], %i: i64, %p: bool) -> f32 {
  %0 = cond %p, [%x, %i] : f32
    then(%x: f32[N], %i: i64) -> f32 {
      %1 = gather %x, %i axis=0 : f32
      return %1
    }
    otherwise(%x: f32[N], %i: i64) -> f32 {
      %2 = constant value=0.5 : f32
      return %2
    }
  return %0
}
"""


@pytest.mark.parametrize("index", [4, -5, 2**40, -(2**63)])
def test_an_index_out_of_range_is_an_error_at_its_line(index: int):
    executable = built(GATHER)
    with pytest.raises(IndexOutOfRange) as found:
        executable.run((whole(4), np.int64(index), np.bool_(True)))
    with pytest.raises(IndexOutOfRange) as meant:
        executable.module.run("f", whole(4), np.int64(index), np.bool_(True))
    assert str(found.value) == str(meant.value)
    assert f"index {index} " in str(found.value) and "size 4" in str(found.value)
    assert found.value.origin is not None and found.value.origin.line == 6


def test_the_branch_that_is_not_taken_can_not_fail():
    (found,) = built(GATHER).run((whole(4), np.int64(99), np.bool_(False)))
    assert found == 0.5


def test_a_loop_without_trips_can_not_fail_and_one_trip_leaves_at_once():
    executable = built(SCATTER)
    c = whole(3)
    none = np.zeros(0, np.int64), whole(0)
    assert_same(executable.run((c, *none)), (c, whole(0)))
    with pytest.raises(IndexOutOfRange, match="index 7 is out of range for an axis of size 3"):
        executable.run((c, np.array([0, 7, 9]), whole(3)))


ASSERT = """
func @f(%x: f32 donated, %p: bool, %q: bool) -> f32 {
  print %x label="x = "
  assert %p message="p must hold"
  %0 = add %x, %x : f32
  print %0 label="twice = "
  assert %q message="q must hold"
  return %0
}
"""


def test_an_assertion_ends_the_call_and_leaves_donated_arguments_whole():
    executable = built(ASSERT)
    lines: list[str] = []
    x = np.array(3, np.float32)
    with pytest.raises(AssertionFailed, match="q must hold") as found:
        executable.run((x, np.bool_(True), np.bool_(False)), lines.append)
    assert found.value.origin is not None and found.value.origin.line == 8
    assert lines == ["x = 3.0", "twice = 6.0"] and x == 3
    lines.clear()
    with pytest.raises(AssertionFailed, match="p must hold"):
        executable.run((x, np.bool_(False), np.bool_(False)), lines.append)
    assert lines == ["x = 3.0"]
    (result,) = executable.run((x, np.bool_(True), np.bool_(True)), lines.append)
    assert result is x and x == 6


def test_prints_come_in_order_from_branches_and_loops(capsys: pytest.CaptureFixture[str]):
    text = """
    func @f(%x: f32[B,2]) -> f32 {
      %z = constant value=0.0 : f32
      print %x label="all "
      %0 = scan [%z], [%x], [] length=B reverse=true : f32
        body(%c: f32, %row: f32[2]) -> f32 {
          print %row label="row "
          %s = sum %row axes=(0) : f32
          %t = add %c, %s : f32
          return %t
        }
      print %0 label="sum "
      return %0
    }
    """
    executable = built(text)
    for size in (0, 1, 3):
        executable.run((whole(size, 2),))
        found = capsys.readouterr().out
        executable.module.run("f", whole(size, 2))
        assert found == capsys.readouterr().out
        assert found.count("row ") == size


def test_an_error_while_printing_reaches_the_caller():
    def fail(line: str) -> None:
        raise OSError("the pipe is broken")

    with pytest.raises(OSError, match="broken"):
        built(ASSERT).run((np.array(3, np.float32), np.bool_(True), np.bool_(True)), fail)


ADD = "func @f(%x: f32[N], %y: f32[N]) -> f32[N] {\n  %0 = add %x, %y : f32[N]\n  return %0\n}\n"


def test_wrong_arguments_are_refused_with_the_equation():
    executable = built(ADD)
    with pytest.raises(ShapeError, match=r"y: axis 0 of f32\[N\] must be N where N = 3, found 4"):
        executable.run((whole(3), whole(4)))
    with pytest.raises(ShapeError, match=r"x: expected f32\[N\], found f64\[3\]"):
        executable.run((whole(3).astype(np.float64), whole(3)))
    with pytest.raises(IRError, match="takes 2 arguments, found 1"):
        executable.run((whole(3),))


def test_arguments_need_not_be_contiguous_or_aligned_or_writeable():
    executable = built(ADD)
    odd = np.frombuffer(b"\0" + whole(4).tobytes(), np.uint8)[1:].view(np.float32)
    assert not odd.flags.aligned
    cases = whole(8)[::2], whole(8)[::-2], odd, np.broadcast_to(np.float32(2), 4)
    for x in cases:
        assert_same(executable.run((x, whole(4))), (x + whole(4),))


def test_results_are_fresh_each_time():
    text = """
    func @f(%x: f32[3]) -> (f32[3], f32[3], f32[3], f32[3], f32[3,1]) {
      %c = constant value=[1.0, 2.0, 3.0] : f32[3]
      %0 = add %x, %c : f32[3]
      %1 = reshape %0 shape=(3,1) : f32[3,1]
      return %x, %0, %0, %c, %1
    }
    """
    executable = built(text)
    x = whole(3)
    first, second = executable.run((x,)), executable.run((x,))
    arrays = (x, *first, *second)
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[i + 1 :])
    first[3][:] = 0
    assert_same(executable.run((x,)), second)


STEP = """
func @f(%w: f32[N] donated, %x: f32[N], %n: f32[N] donated) -> (f32, f32[N], f32[N]) {
  %0 = mul %w, %x : f32[N]
  %1 = sum %0 axes=(0) : f32
  %2 = sub %w, %x : f32[N]
  %3 = add %n, %2 : f32[N]
  return %1, %2, %3
}
"""


def test_a_donated_argument_is_the_result():
    executable = built(STEP)
    for size in (0, 1, 17):
        w, x, n = whole(size), whole(size) + 1, whole(size) * 2
        expected = executable.module.run("f", w.copy(), x, n.copy())
        found = executable.run((w, x, n))
        assert_same(found, expected)
        assert found[1] is w and found[2] is n


def test_a_donation_that_can_not_be_is_refused():
    executable = built(STEP)
    w = whole(3)
    with pytest.raises(DonationError, match="w is donated, but it overlaps with n"):
        executable.run((w, whole(3), w))
    with pytest.raises(DonationError, match="w is donated, but it overlaps with x"):
        executable.run((w, w[:3], whole(3)))
    w.setflags(write=False)
    with pytest.raises(DonationError, match="read-only"):
        executable.run((w, whole(3), whole(3)))
    with pytest.raises(DonationError, match="not contiguous"):
        executable.run((whole(6)[::2], whole(3), whole(3)))


def test_many_threads_may_call_at_once():
    executable = built(SCATTER)
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for size in rng.integers(1, 40, 20):
            c = rng.integers(-5, 5, size).astype(np.float32)
            arrays = c, rng.integers(0, size, 9), whole(9)
            expected = c.copy()
            np.add.at(expected, arrays[1], arrays[2])
            if not np.array_equal(executable.run(arrays)[0], expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_stages_are_text():
    texts = built(ADD).texts
    assert list(texts) == ["nests", "schedule", "loops", "llvm", "asm"]
    assert "launch @k0(%x, %y, %result0)" in texts["loops"]
    assert "call void @k0" in texts["llvm"]
    assert "dlvm_main" in texts["asm"]
    assert texts["loops"] == built(ADD).texts["loops"]
