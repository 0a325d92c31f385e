"""The long command in short, and the proof that it would see a wrong answer."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import dlvm
from dlvm.dsl.arrays import shapes
from dlvm.ops import Add, Mul, Sin
from dlvm.testing.drawing.dice import Seeded, Taped
from dlvm.trust.answers import Question
from tests.fuzz.__main__ import Run, hunt
from tests.fuzz.case import CORPUS, Case, read
from tests.fuzz.child import Reached
from tests.fuzz.judge import Wrong, features, judge
from tests.fuzz.shrink import shrink
from tests.fuzz.subjects import KINDS, SLOPES

from .fuzz import hostile, silly, slopes
from .fuzz import judge as fuzz_judge


def fault(*args: object, **kwargs: object) -> None:
    """Fails as code of dlvm would."""
    raise KeyError("gone")


fault = types.FunctionType(fault.__code__, {"__name__": "dlvm.planted", "KeyError": KeyError})
SUM = (
    "// run main with seed 3 and A=3\n"
    "dlvm 1\nfunc @main(%x: f64[A]) -> f64[A] {\n  %0 = add %x, %x : f64[A]\n  return %0\n}\n"
)
SINE = SUM.replace("add %x, %x", "sin %x")
LONG = """// run main with seed 3 and
dlvm 1
func @main(%x: f64) -> f64 {
  %0 = scan [%x], [], [] length=300000 reverse=false : f64
    body(%c: f64) -> f64 {
      %0 = neg %c : f64
      return %0
    }
  return %0
}
"""
DEADLY = """
import os, dlvm.gen.build
dlvm.gen.build.plan = lambda program: os.kill(os.getpid(), 9)
"""
SEEDS = {
    "f64": (3, 5, 6, 7),
    "f32": (2, 5, 7),
    "gradient": (1,),
    "halves": (0, 3),
    "large": (2, 3, 5),
    "mixed": (3, 6),
    "staged": (0, 1, 2),
    "whole": (0, 2, 4, 6),
}
"""Those of programs that LLVM compiles in a second; the others are 0 and 1."""


@pytest.mark.parametrize("kind", KINDS)
def test_machine_code_answers_random_programs(kind: str):
    for seed in SEEDS.get(kind, (0, 1)):
        list(judge(KINDS[kind](Seeded(seed))))


def test_derivatives_of_random_programs_have_the_slope_of_differences():
    judged = [slopes.slopes(SLOPES(Seeded(seed))) for seed in range(30)]
    known = [found for found in judged if found is not None]
    assert all(error <= most for error, most in known)
    assert len(known) > 10
    for seed in range(10):
        slopes.judge(SLOPES(Seeded(seed)))


@pytest.mark.parametrize("kind", ["parser", "cache"])
def test_hostile_bytes_are_refused_or_mean_something(kind: str, tmp_path: Path):
    for seed in range(12):
        hostile.KINDS[kind](seed, tmp_path / "text.dlvm")


def test_mistakes_in_calls_of_public_names_are_told_as_mistakes():
    """A short form of ``python -m tests.fuzz --kinds silly --programs 2000``, 10**5 calls."""
    assert len(silly.subjects()) > 500
    for seed, (name, fn) in enumerate(silly.subjects()):
        silly.once(Seeded(seed), name, fn)


def test_a_fault_in_a_silly_call_is_still_a_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Sin, "infer", fault)
    with pytest.raises(Wrong, match="dlvm failed while Python ran: KeyError"):
        silly.judged("sin", (), {}, lambda: dlvm.sin(silly.X))
    monkeypatch.setattr(shapes, "axes_of", fault)
    with pytest.raises(Wrong, match="dlvm failed while Python ran: KeyError"):
        silly.judged("swapaxes", (), {}, lambda: dlvm.swapaxes(silly.X, 0, 1))
    silly.judged("swapaxes", (), {}, lambda: dlvm.swapaxes(silly.X, "0", 1))


def test_a_call_is_not_cut_off_where_an_object_goes():
    class Goes:
        def __del__(self) -> None:
            found.append(silly.is_collecting(sys._getframe()))

    found: list[bool] = []
    gone = Goes()
    del gone
    found.append(silly.is_collecting(sys._getframe()))
    assert found == [True, False]


def test_a_child_tries_a_batch_and_says_nothing_where_all_is_well(tmp_path: Path):
    """Command lines are tried in a child, whose memory is limited."""
    run = Run(["command"], tmp_path, 0)
    assert run.batch() == []
    assert (run.cases, run.failures, run.seed) == (20, 0, 20) and run.seconds > 0


def test_a_child_that_dies_is_told_with_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{CORPUS.parents[1]}")
    (tmp_path / "sitecustomize.py").write_text(DEADLY)
    (told,) = Run(["whole"], tmp_path, 0).batch()
    assert told.startswith("DIED whole 0 died (-9)")
    assert read((tmp_path / "whole-0.dlvm").read_text("utf8")).entry == "main"


def test_a_planted_fault_is_met_named_and_cut_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert hunt(Run(["whole", "f64"], tmp_path, 0, "law"), 60)
    found = capsys.readouterr().out
    assert re.match(
        r"law +\d+ s +\d+ (whole|f64) \d+ +[1-5] operations, simplify: difference_is_sum", found
    )


def test_what_only_the_judge_sees_is_cut_down_by_it(monkeypatch: pytest.MonkeyPatch):
    """Two threads that differ are no fault that ``bisect`` looks for."""
    case = read(SUM.replace("add %x, %x", "add %x, %x : f64[A]\n  %1 = mul %0, %x"))
    monkeypatch.setattr(fuzz_judge, "_same", lambda a, b: not a.size)
    found = shrink(case, 10)
    assert found is not None and "other bits on two threads" in found.failure.message
    assert found.program.ops == 0


def test_a_wrong_answer_is_seen(monkeypatch: pytest.MonkeyPatch):
    list(judge(read(SUM)))
    monkeypatch.setattr(Add, "reference", lambda self, x, y: np.subtract(x, y))
    with pytest.raises(Wrong, match=r"plain .*: result 0"):
        list(judge(read(SUM)))


def test_an_error_of_some_units_in_the_last_place_is_seen(monkeypatch: pytest.MonkeyPatch):
    case = read(SINE)
    list(judge(case))
    right = Sin.reference
    monkeypatch.setattr(Sin, "reference", lambda self, x: right(self, x) * (1 + 1e-13))
    with pytest.raises(Wrong):
        list(judge(case))


def test_a_wrong_derivative_is_seen(monkeypatch: pytest.MonkeyPatch):
    case = read(SUM.replace("add %x, %x", "mul %x, %x"))
    slopes.judge(case)
    monkeypatch.setattr(Mul, "adjoint", lambda self, dy: (dy * self.y, dy * self.x * 2.0))
    with pytest.raises(Wrong, match="slopes"):
        slopes.judge(case)


def test_most_results_are_compared():
    """A bound that says nothing would let everything pass."""
    programs = [KINDS["mixed"](Seeded(seed)).program() for seed in range(20)]
    questions = [Question(p.module, p.arrays) for p in programs]
    bounds = [b for q in questions if q.answer.error is None for b in q.freedom or ()]
    known = sum(int(np.isfinite(b).sum()) for b in bounds)
    assert len(bounds) > 20 and known > 0.9 * sum(b.size for b in bounds)


def test_a_case_is_written_and_read_back():
    case = KINDS["derived"](Seeded(3))
    again = read(str(case))
    assert again.module == case.module
    assert (again.entry, again.sizes, again.seed) == (case.entry, case.sizes, case.seed)
    pairs = zip(again.program().arrays, case.program().arrays, strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_the_same_choices_give_the_same_case():
    first = Taped(7)
    case = KINDS["mixed"](first)
    assert str(KINDS["mixed"](Taped(8, first.drawn))) == str(case)
    assert str(KINDS["mixed"](Taped(8))) != str(case)


def test_what_nobody_waits_for_is_not_judged():
    assert list(judge(read(LONG))) == []


def test_what_reaches_something_new_is_remembered(tmp_path: Path):
    reached, file = Reached(), tmp_path / "reached.json"
    reached.note("whole", features([*judge(read(SUM))]), [1, 2, 3])
    reached.note("whole", features([*judge(read(SUM))]), [4])
    reached.save(file)
    assert Reached.load(file).tapes == {"whole": [[1, 2, 3]]}


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.dlvm")), ids=lambda f: f.stem)
def test_what_was_wrong_once_is_right(file: Path):
    case: Case = read(file.read_text("utf8"))
    list(judge(case))
    slopes.judge(case)
