"""What a search has found is kept, compiles use it, and it changes no bit."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.cli import main
from dlvm.gen import tuned as kept
from dlvm.gen.program.control import kernels_of
from dlvm.gen.tune import measure, tuner
from dlvm.gen.tune.measure import Bench
from dlvm.gen.tune.search import at_random
from dlvm.gen.tune.space import Space
from dlvm.target import Target

X = np.random.default_rng(0).standard_normal((64, 40)).astype(np.float32)
MODEL = """
import dlvm

@dlvm.function
def columns(x):
    return (x * x).sum(0)
"""


def columns(x):
    return (x * x).sum(0)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DLVM_CACHE", "1")


@pytest.fixture
def wide_is_fast(monkeypatch):
    """A machine on which only the lanes of the first vectors matter."""

    def ratio(self, steps, rounds=0):
        made = self.under(steps)
        fast = any("width=64" in str(step) for step in steps)
        return None if made is None else 0.5 if fast else 1.0

    monkeypatch.setattr(Bench, "ratio", ratio)


def road():
    return dlvm.function(columns).compile(X).road


def schedule():
    return dlvm.function(columns).compile(X).text("schedule")


def test_a_gain_is_kept_and_used(own_cache, wide_is_fast):
    before = dlvm.function(columns)(X)
    found = road()
    (result,) = tuner.tuned(found.kernels, found.options.machine(), 600.0)
    assert result.gains and result.time == 0.5 and result.tried <= result.space
    assert "vectorize %i1 width=64" in result.steps
    assert all(step in schedule() for step in result.steps)
    np.testing.assert_array_equal(dlvm.function(columns)(X), before)
    tuner.forget(found.kernels, found.options.machine())
    assert "width=64" not in schedule()


def test_nothing_is_kept_without_a_gain(own_cache, monkeypatch):
    monkeypatch.setattr(Bench, "ratio", lambda self, steps, rounds=0: 1.0)
    found = road()
    (result,) = tuner.tuned(found.kernels, found.options.machine(), 30.0, search=at_random)
    assert not result.gains and result.time == 1.0
    assert result.steps == tuple(map(str, Space(result.kernel).base))
    assert kept.written(found.options.machine()) == b""


def test_a_gain_that_more_rounds_do_not_confirm_is_none(monkeypatch):
    found = road()
    ((kernel, plain),) = kernels_of(found.kernels)
    bench = Bench(kernel, Target.host(), {})
    monkeypatch.setattr(bench, "ratio", lambda steps, rounds=0: 1.0 if rounds else 0.5)
    assert tuner.searched(Space(plain), bench, 30.0).time == 1.0


def test_a_schedule_that_is_no_longer_possible_is_told_and_planned_anew(own_cache, caplog):
    found = road()
    expected = schedule()
    ((_, plain),) = kernels_of(found.kernels)
    for steps in (["fold %i1"], ["split %nowhere size=4"], ["share %group4 grain=2"]):
        kept.keep(found.options.machine(), plain, steps)
        with caplog.at_level(logging.WARNING, "dlvm.tune"):
            assert schedule() == expected
        assert "its tuned schedule is not used" in caplog.text
        caplog.clear()


def test_a_schedule_that_changed_results_would_be_ours(monkeypatch):
    ((kernel, plain),) = kernels_of(road().kernels)
    bench = Bench(kernel, Target.host(), {})
    bench.expected = tuple(a + 1 for a in bench.expected)
    with pytest.raises(CompilerError, match="changes its results"):
        bench.ratio(Space(plain).base)


def test_times_are_taken_side_by_side():
    ((kernel, plain),) = kernels_of(road().kernels)
    bench = Bench(kernel, Target.host(), {})
    assert 0 < bench.ratio(Space(plain).base, rounds=1) < 1000
    assert measure.side_by_side(bench.planned, bench.planned, bench.arrays, 1) > 0


def test_sizes_that_are_open_are_given():
    staged = dlvm.function(columns)
    ((kernel, _),) = kernels_of(staged.compile(dlvm.spec("f32[B,N]")).road.kernels)
    bench = Bench(kernel, Target.host(), {"B": 5})
    assert bench.arrays[0].shape == (5, measure.USUAL_SIZE)


def test_the_command(own_cache, wide_is_fast, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.setattr("dlvm.gen.tune.tuner.of_program", lambda *args: 0.75)
    command = ["tune", "model.py:columns", "f32[64,40]", "--seconds", "20"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "k0      0.50" in out and "width=64" in out and "a call  0.75" in out
    assert main(["show", "model.py:columns", "f32[64,40]", "--stage", "schedule"]) == 0
    assert "width=64" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] is True
    monkeypatch.setattr("dlvm.gen.tune.tuner.of_program", lambda *args: 1.5)
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] is False
    assert main([*command, "--forget"]) == 0
    assert "forgotten" in capsys.readouterr().out
    assert main(["show", "model.py:columns", "f32[64,40]", "--stage", "schedule"]) == 0
    assert "width=64" not in capsys.readouterr().out
    (tmp_path / "s.txt").write_text("schedule 1\n")
    assert main([*command, "--schedule", "s.txt"]) == 1
    assert "was given one" in capsys.readouterr().err
