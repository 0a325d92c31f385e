"""Schedules that users write: the stages that show them, ``compile(schedule=...)``, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError


@dlvm.function
def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


X = np.random.default_rng(0).normal(size=(300, 200)).astype(np.float32)


def test_the_stages_show_plain_loops_then_the_schedule_then_what_it_made():
    made = softmax.compile(X)
    nests, schedule, loops = (made.text(stage) for stage in ("nests", "schedule", "loops"))
    assert "parallel" in nests and "vector" not in nests and "grain" not in nests
    assert schedule.startswith("schedule 1\nkernel @k0\n") and "vectorize %" in schedule
    assert "vector" in loops and "grain" in loops


def test_an_edited_schedule_runs_and_changes_no_bit():
    made = softmax.compile(X)
    text = made.text("schedule")
    shared = [line for line in text.splitlines() if "share" in line]
    edited = text.replace(shared[0], shared[0].split(" grain")[0] + " grain=7")
    for schedule in (text, edited, "schedule 1\nkernel @k0\n"):
        other = softmax.compile(X, schedule=schedule)
        assert other.text("schedule") == schedule
        assert other(X).tobytes() == made(X).tobytes() == other(X).tobytes()
    plain = softmax.compile(X, schedule="schedule 1\n")
    assert plain.text("loops").count("vector") == 0
    assert plain(X).tobytes() == made(X).tobytes()


def test_a_schedule_is_part_of_what_the_disk_keeps(tmp_path, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    text = softmax.compile(X).text("schedule")
    for schedule in ("schedule 1\n", text, "schedule 1\n"):
        assert softmax.compile(X, schedule=schedule).text("schedule").startswith(schedule)


@pytest.mark.parametrize(
    ("schedule", "pattern"),
    [
        ("", "a schedule begins with the line"),
        ("schedule 1\nkernel @k0\n  vectorize %nowhere", "@k0 has no loop %nowhere"),
        ("schedule 1\nkernel @k7", "the schedule names @k7, the program has @k0"),
        ("schedule 1\nkernel @k0\n  fold %i1", "there is no transform 'fold'"),
        (3, "schedule=3: expected text"),
    ],
)
def test_a_schedule_that_is_not_possible_is_the_users_mistake(schedule, pattern):
    with pytest.raises(UserError, match=pattern):
        softmax.compile(X, schedule=schedule)


def test_a_parameter_of_the_same_name_is_an_argument():
    f = dlvm.function(lambda x, schedule: x * schedule)
    assert f.compile(X, schedule=X)(X, X)[0, 0] == X[0, 0] ** 2


def test_a_loop_may_be_split_around_loops_whose_length_depends_on_it():
    f = dlvm.function(lambda x: dlvm.exp(x.T))
    x = np.random.default_rng(0).standard_normal((1000, 700))
    plan = f.compile(x).text("schedule").splitlines()
    edited = "\n".join([*(line for line in plan if "share" not in line), "  split %i2.o size=2"])
    np.testing.assert_array_equal(f.compile(x, schedule=edited)(x), f(x))
