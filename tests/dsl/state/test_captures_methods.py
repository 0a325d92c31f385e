"""Staged methods leave their objects alone, and programs are not kept without end."""

from __future__ import annotations

import copy
import gc
import logging
import pickle
import types
import weakref

import numpy as np
import pytest

import dlvm
from dlvm.dsl.call import programs

X = np.ones(3)


class Model:
    def __init__(self, w):
        self.w, self.gain = w, 1.0

    @dlvm.function
    def step(self, x):
        return (x * self.w * self.gain).sum()


class Equal(Model):
    """Objects that are equal and can't be hashed."""

    def __eq__(self, other):
        return isinstance(other, Equal)


class Known(Model):
    """Objects whose parts know them."""

    def __init__(self, w):
        super().__init__(w)
        self.part, self.act = types.SimpleNamespace(whole=self), self.times

    def times(self, x):
        return x * self.part.whole.w

    @dlvm.function
    def step(self, x):
        return self.act(x).sum()


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w):
        self.w = w

    @dlvm.function
    def step(self, x):
        return (x * self.w).sum()


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))]
)
def test_a_copy_of_an_object_has_its_own_state(again):
    a = Model(X * 2)
    assert a.step(X) == 6
    assert set(vars(a)) == {"w", "gain"}
    b = again(a)
    b.w, b.gain = X * 5, 2.0
    assert (a.step(X), b.step(X)) == (6, 30)


@pytest.mark.parametrize("kind", [Model, Equal, Slotted])
def test_a_method_is_compiled_once_for_each_object(kind):
    a, b = kind(X * 2), kind(X * 3)
    assert [a.step(X), b.step(X), a.step(X)] == [6, 9, 6]
    assert len(a.step.explain().compiles) == len(b.step.explain().compiles) == 1


@pytest.mark.parametrize("kind", [Model, Known])
def test_the_programs_of_an_object_go_with_it(kind):
    a = kind(X)
    a.step(X)
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None
    assert kind(X * 4).step(X) == 12
    kept = kind(X * 5).step
    gc.collect()
    assert kept(X) == 15


def test_the_derivative_of_a_method_is_made_once():
    a = Model(X * 2)
    assert dlvm.grad(a.step) is dlvm.grad(a.step)
    assert np.array_equal(dlvm.grad(a.step)(X), X * 2)
    assert a.step == a.step
    assert a.step != Model(X).step


def test_programs_that_are_not_used_are_dropped(monkeypatch, caplog):
    monkeypatch.setattr(programs, "STAGED", programs.Bounds(2, 10, "tenth"))
    f = dlvm.function(lambda x: x + 1)
    with caplog.at_level(logging.INFO, logger="dlvm.compile"):
        for n in (1, 2, 1, 3, 1):
            f(np.ones(n))
    assert len(f.explain().compiles) == 3
    assert "dropped the program not used for longest; 2 are kept" in caplog.text
    f(np.ones(2))
    assert len(f.explain().compiles) == 4


def test_short_cuts_are_bounded(monkeypatch):
    monkeypatch.setattr(programs, "SHORT_CUTS", 3)
    f = dlvm.function(dynamic=True)(lambda x: x + 1)
    for n in range(1, 9):
        assert f(np.ones(n)).shape == (n,)
    assert len(f.programs._known) <= 3
    assert len(f.explain().compiles) == 1
