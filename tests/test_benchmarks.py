"""The races agree on their answers, refuse wrong ones, and can be drawn."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from dataclasses import replace

import numpy as np
import pytest

import dlvm
from benchmarks import apart, calls
from benchmarks.__main__ import line
from benchmarks.cases import cases
from benchmarks.formulas import formulas
from benchmarks.formulas import row as seconds_of
from benchmarks.neighbours import CONTENDERS, measure, row
from benchmarks.onnx_words import model
from benchmarks.peers import cpp_compiler, with_dlvm, with_numpy
from benchmarks.picture import ratios
from benchmarks.race import Effort, check, race
from benchmarks.training import training
from examples.pictures import curve, difference

STEPS = list(training(quick=True))
SMALL = [case for case in cases(quick=True) if case.size not in ("406,528 parameters",)] + STEPS


PEERS = {"jax": calls.with_jax, "torch": calls.with_torch}


@pytest.mark.parametrize("name", PEERS)
def test_calls_in_other_libraries_stand_beside_ours(name):
    pytest.importorskip(name)
    found, ours = PEERS[name](), calls.undecorated()
    assert found and {n.rpartition(", ")[0] for n in found} <= {*ours}
    for call in found.values():
        call()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", SMALL, ids=lambda c: f"{c.name} {c.size}")
def test_ours_is_the_answer_of_numpy(case):
    value = case.run(case.words(np), *case.arguments)
    found = with_dlvm(case)()
    check(case.name, found[0] if case.wrt else found, value, case.tolerance)
    assert case.wrt or with_numpy(case) is not None


@pytest.mark.parametrize("case", [c for c in STEPS if c.wrt], ids=lambda c: c.name)
def test_gradients_of_training_steps_are_the_slopes_of_numpys_losses(case):
    _, slopes = with_dlvm(case)()
    wide = [a.astype("f8") if a.dtype == "f4" else a for a in case.arguments]
    for i, slope in zip(case.wrt, slopes, strict=True):
        way = np.random.default_rng(i).normal(size=slope.shape)

        def at(h, i=i, way=way):
            moved = [a + h * way if k == i else a for k, a in enumerate(wide)]
            return case.run(case.words(np), *moved)

        size = float(np.sqrt(np.sum(slope * slope)))  # the deviation of slopes along such ways
        expected = (at(1e-7) - at(-1e-7)) / 2e-7
        assert size > 0
        assert np.sum(slope * way) == pytest.approx(expected, rel=1e-3, abs=1e-3 * size)


def test_the_compiler_of_pytorch_is_one_that_is_there(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cpp_compiler() is None
    (tmp_path / "clang++").touch(0o755)
    assert cpp_compiler() == "clang++"
    monkeypatch.setenv("CXX", "absent")
    assert cpp_compiler() == "clang++"


def test_a_wrong_answer_is_not_timed():
    with pytest.raises(AssertionError, match="sums"):
        check("sums", {"a": np.ones(3)}, {"a": np.ones(3) * 1.01}, 1e-3)
    with pytest.raises(ValueError, match=r"longer|shorter"):
        check("sums", (np.ones(3),), (np.ones(3), np.ones(3)), 1e-3)


def test_everybody_in_a_race_is_timed():
    found = race({"one": lambda: 1, "two": lambda: 2}, Effort(1, 1e-4))
    assert list(found) == ["one", "two"] and all(seconds > 0 for seconds in found.values())


def test_pictures_are_drawings():
    races = [
        {"name": "a & b", "size": "3", "ms": {"dlvm": 1.0}, "peer": 2.0, "floor": 0.5},
        {"name": "c", "size": "4", "ms": {"dlvm": 1.0}, "peer": 0.25, "floor": 0.0},
    ]
    assert "2.00" in line(races[0], ["dlvm"])
    for text in (ratios(races), curve([3.0, 2.0, 1.0], "loss <"), difference("a\n%1 b", "a\n%2 c")):
        assert xml.fromstring(text).tag.endswith("svg")


def test_a_step_is_timed_on_one_thread_on_two_and_as_it_chooses(capsys):
    seconds = measure(2, 8, rounds=1)
    assert list(seconds) == list(CONTENDERS) and all(s > 0 for (s,) in seconds.values())
    rounds = {"1 thread": [2e-6, 9.0, 2e-6], "2 threads": [1e-6, 9.0, 3e-6]}
    found = row("a step", "none", {**rounds, "default": [3e-6, 9.0, 6e-6]})
    assert found["ratio"] == pytest.approx(3) and "3.00" in capsys.readouterr().out


def test_programs_become_onnx_graphs_that_say_the_same():
    reference = pytest.importorskip("onnx.reference", reason="onnx comes with make peers")
    every = (*cases(quick=True), *STEPS)
    for case in (c for c in every if not c.wrt and "float64" not in c.size):
        session = reference.ReferenceEvaluator(model(case.run, case.arguments))
        found = session.run(None, {f"x{i}": a for i, a in enumerate(case.arguments)})
        value = case.run(case.words(np), *case.arguments)
        check(case.name, found, value if isinstance(value, tuple) else [value], case.tolerance)


def test_what_runs_apart_is_timed_there():
    if not apart.PYTHON.exists():
        pytest.skip("numba comes with make peers")
    case = next(c for c in cases(quick=True) if c.name in apart.PROGRAMS)
    run = apart.Apart(case.name, case.arguments, 1)
    check(case.name, run(), case.run(np, *case.arguments), case.tolerance)
    assert run.timed(2) > 0


def test_what_runs_apart_is_raced():
    assert set(apart.PROGRAMS) <= {c.name for c in cases(quick=True)}


def test_functions_of_sympy_stand_beside_those_of_lambdify_and_give_the_same():
    effort = Effort(1, 1e-4)
    for formula in formulas(quick=True):
        assert set(seconds_of(formula, effort)) == {"dlvm", "lambdify", "cse"}
    wrong = replace(formula, ours=dlvm.from_sympy(2 * formula.expr, [*formula.symbols]))
    with pytest.raises(AssertionError, match="6x6 mass matrix of an arm by lambdify"):
        seconds_of(wrong, effort)
