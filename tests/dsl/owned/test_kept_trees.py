"""A donated tree that anybody can still reach keeps its numbers, and calls say what they copied."""

from __future__ import annotations

import functools
import logging
import warnings

import numpy as np
import pytest

import dlvm
from dlvm.dsl.owned.calibration import Form, while_called
from tests.dsl.owned.kept_trees import verdicts
from tests.running import seed


def test_no_drawn_program_finds_what_it_kept_overwritten():
    counts = verdicts(200, seed())
    assert counts["kept"] == 200
    assert set(counts) <= {"kept", "not a program"}


def step():
    return dlvm.function(lambda net, x: {k: v + x for k, v in net.items()}, donate="net")


def init():
    return {"w": np.zeros(3), "b": np.zeros(2)}


def test_the_best_so_far_is_kept_beside_a_loop():
    f, net, best = step(), init(), None
    for i in range(6):
        if i == 3:
            best = net
        net = f(net, 1.0)
    assert best["w"].tolist() == [3.0] * 3
    assert net["w"].tolist() == [6.0] * 3


def test_every_step_of_a_history_is_kept_and_one_warning_counts():
    f, net, history = step(), init(), []
    with pytest.warns(dlvm.TraceWarning) as told:
        for _ in range(6):
            history.append(net)
            net = f(net, 1.0)
    assert [h["b"].tolist() for h in history] == [[float(i)] * 2 for i in range(6)]
    assert len(told) == 1
    assert "lambda copies net['b'], net['w'], 40 bytes (2 calls copied so far)" in str(
        told[0].message
    )
    said = f.explain().donations
    assert "net['w'] was copied in 6 calls, 144 bytes in all: another name may reach it" in said


def test_one_leaf_that_is_kept_is_the_only_one_that_is_copied():
    f, net = step(), init()
    net = f(net, 1.0)
    kept, at = net["w"][0:2], net["b"].ctypes.data
    net = f(net, 1.0)
    assert kept.tolist() == [1.0, 1.0]
    assert net["b"].ctypes.data == at
    assert not any("net['b'] was copied" in line for line in f.explain().donations)


def test_the_first_step_of_a_start_that_is_kept_warns_of_nothing():
    f, first = step(), init()

    def train(net):
        for _ in range(5):
            net = f(net, 1.0)
        return net

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        last = train(first)
    assert first["w"].tolist() == [0.0] * 3 and last["w"].tolist() == [5.0] * 3


def test_copies_that_others_come_between_are_told_when_they_are_many():
    f, net, kept = step(), init(), []
    with pytest.warns(dlvm.TraceWarning, match="8 calls copied so far") as told:
        for i in range(30):
            kept += [net] if i % 3 == 0 else []
            net = f(net, 1.0)
    assert len(told) == 1


def test_what_the_warning_says_to_do_helps(caplog: pytest.LogCaptureFixture):
    f, net, kept = step(), init(), []
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        for _ in range(4):
            kept.append(dlvm.tree.map(np.copy, net))
            net = f(net, 1.0)
    assert [k["w"][0] for k in kept] == [0.0, 1.0, 2.0, 3.0]
    assert not any("copied" in line for line in f.explain().donations)


def test_a_default_value_is_no_loan():
    start = np.zeros(3)
    f = dlvm.function(lambda x, w=start: w + x, donate="w")
    assert f(1.0).tolist() == [1.0] * 3
    assert start.tolist() == [0.0] * 3


def test_arguments_of_a_tuple_of_the_users_are_kept():
    f = step()
    args = (init(), 1.0)
    net = f(*args)
    assert args[0]["w"].tolist() == [0.0] * 3 and net["w"].tolist() == [1.0] * 3


def test_a_property_may_keep_what_it_gives():
    class Trainer:
        def __init__(self):
            self.all = [init()]

        @property
        def net(self):
            return self.all[-1]

        @net.setter
        def net(self, new):
            self.all.append(new)

    f, t = step(), Trainer()
    with pytest.warns(dlvm.TraceWarning):
        for _ in range(4):
            t.net = f(t.net, 1.0)
    assert [n["w"][0] for n in t.all] == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.filterwarnings("ignore::dlvm.TraceWarning")
def test_partial_functions_keep_their_arguments():
    f = step()
    net = init()
    g = functools.partial(f, net)
    net = g(1.0)
    assert g.args[0]["w"].tolist() == [0.0] * 3 and net["w"].tolist() == [1.0] * 3
    h = functools.partial(f, init())
    first = h(1.0)
    first = h(first["w"][0])
    assert h.args[0]["w"].tolist() == [0.0] * 3 and first["w"].tolist() == [1.0] * 3


@pytest.mark.parametrize("source", ["fast", "other", "computed"])
def test_references_of_calls_are_measured(source: str):
    plain, named = while_called(Form(source)), while_called(Form(source, named=True, by_name=True))
    assert 2 <= plain <= 6 and 2 <= named <= 6
