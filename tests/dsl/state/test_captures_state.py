"""State of any kind that code reads is noticed when it changes, or said in words."""

from __future__ import annotations

import argparse
import collections
import configparser
import copy
import fractions
import functools
import importlib
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import dlvm

X = np.ones(2)


class Slots:
    __slots__ = ("rate",)

    def __init__(self):
        self.rate = 2.0


class Base:
    rate = 2.0

    def go(self, x):
        return x * self.rate


class Child(Base):
    pass


class Other(Base):
    def go(self, x):
        return x * 77


class Hidden:
    def __init__(self):
        self._rate = 2.0

    @property
    def rate(self):
        return self._rate


class Underscored:
    def __set_name__(self, owner, name):
        self.name = f"_{name}"

    def __get__(self, instance, owner=None):
        return getattr(instance, self.name)


class Described:
    rate = Underscored()

    def __init__(self):
        self._rate = 2.0


class Cached:
    @functools.cached_property
    def rate(self):
        return 2.0


class Meta(type):
    @property
    def rate(cls):
        return cls._rate


class OfMeta(metaclass=Meta):
    _rate = 2.0


ALIAS = FIRST = np.ones(2)
ACT = np.tanh
HALF = fractions.Fraction(1, 2)


def agrees(fn, *changes):
    """Staged and unstaged give the same before and after each change; the staged function."""
    f = dlvm.function(fn)
    assert np.allclose(f(X), fn(X), rtol=1e-15)
    for change in changes:
        before = fn(X)
        change()
        assert not np.array_equal(fn(X), before)
        assert np.allclose(f(X), fn(X), rtol=1e-15)
    return f


def setting(holder, name, value):
    return lambda: setattr(holder, name, value)


def putting(holder, key, value):
    return lambda: holder.__setitem__(key, value)


@pytest.mark.parametrize(
    "made", [types.SimpleNamespace(rate=2.0), argparse.Namespace(rate=2.0), Slots(), Child()]
)
def test_attributes_of_any_object(made):
    f = agrees(lambda x: x * made.rate, setting(made, "rate", 5.0))
    assert f.explain().compiles[1].reason == "made.rate was 2.0, is 5.0"


def test_what_stands_in_the_class(monkeypatch):
    made = Child()
    agrees(
        lambda x: made.go(x),
        lambda: monkeypatch.setattr(Base, "rate", 3.0),
        lambda: monkeypatch.setattr(Base, "go", lambda self, x: x * self.rate * 2),
        lambda: monkeypatch.setattr(Child, "rate", 4.0, raising=False),
    )


@pytest.mark.parametrize(
    ("made", "name"),
    [(Hidden(), "_rate"), (Described(), "_rate"), (Cached(), "rate"), (OfMeta, "_rate")],
)
def test_behind_properties_and_descriptors(made, name):
    f = agrees(lambda x: x * made.rate, setting(made, name, 5.0))
    assert "was 2.0, is 5.0" in f.explain().compiles[1].reason


def test_an_attribute_named_by_a_string():
    made = types.SimpleNamespace(rate_1=2.0)
    agrees(lambda x: x * getattr(made, f"rate_{len(x) - 1}"), setting(made, "rate_1", 5.0))


def test_an_object_of_another_class():
    made = types.SimpleNamespace(part=Child())
    agrees(lambda x: made.part.go(x), setting(made, "part", Other()))


@pytest.mark.parametrize(
    "made", [collections.deque([2.0]), collections.UserDict({0: 2.0}), [2.0], np.array([2.0])]
)
def test_containers_of_any_kind(made):
    agrees(lambda x: x * made[0], putting(made, 0, 5.0))


def test_every_entry_of_a_long_container():
    table = {f"k{i}": float(i) for i in range(600)}
    f = agrees(lambda x: x * table["k500"], putting(table, "k500", 1.5), putting(table, "k500", 1))
    assert not f.explain().unwatched


class Guarded:
    rate = 2.0

    def __getattribute__(self, name):
        return object.__getattribute__(self, "inner_" + name if name == "w" else name)


def test_what_python_looks_up_by_itself():
    made, other = Child(), Guarded()
    other.inner_w = 2.0
    agrees(lambda x: x * type(made).rate, setting(Base, "rate", 3.0), setting(Base, "rate", 2.0))
    agrees(lambda x: x * made.__class__.rate, setting(Child, "rate", 3.0))
    ref = weakref.ref(made)
    agrees(lambda x: x * ref().rate, setting(made, "rate", 9.0))
    agrees(lambda x: x * other.w, setting(other, "inner_w", 9.0))
    agrees(lambda x: x * globals()["RATE"], lambda: globals().update(RATE=5.0))
    module = importlib.import_module(__name__)
    agrees(lambda x: x * importlib.import_module(__name__).RATE, setting(module, "RATE", 7.0))
    del Child.rate


RATE = 2.0


def test_sets_and_values():
    bag = {2.0}
    agrees(lambda x: x * max(bag), lambda: bag.add(5.0))
    agrees(lambda x: x * float(HALF), lambda: globals().update(HALF=fractions.Fraction(3, 2)))
    agrees(lambda x: ACT(x), lambda: globals().update(ACT=np.exp))


def test_a_module_imported_inside(monkeypatch):
    settings = types.ModuleType("settings_of_a_test")
    settings.rate = 2.0
    monkeypatch.setitem(sys.modules, settings.__name__, settings)

    def f(x):
        from settings_of_a_test import rate

        return x * rate

    agrees(f, setting(settings, "rate", 5.0))


def test_defaults():
    held, w, rows = [2.0], np.ones(2), np.ones(2)

    def f(x, first=rows, rate=held, *, scale=w):
        return x * rate[0] * scale + first

    staged = agrees(f, putting(held, 0, 3.0), putting(w, 0, 5.0), putting(rows, 1, 5.0))
    captured = {line.partition(":")[0] for line in staged.explain().captures}
    assert captured == {"first", "scale"}


def test_variables_of_one_name():
    def times(k):
        return lambda x: x * k

    two, three = times(2.0), times(3.0)
    cells = [f.__closure__[0] for f in (two, three)]
    agrees(
        lambda x: two(x) + three(x),
        setting(cells[1], "cell_contents", 7.0),
        setting(cells[0], "cell_contents", 9.0),
    )


def test_two_names_of_one_array():
    agrees(lambda x: x * FIRST + x * ALIAS, lambda: globals().update(ALIAS=X * 4))


def test_views_of_what_is_not_contiguous():
    w = np.arange(48.0).reshape(8, 6)[::-2, ::2]

    @dlvm.function
    def f(x):
        return x * w[1, :2] + w.T[0, :2] - x * w[::2, 2][1:3]

    def plain():
        return X * w[1, :2] + w.T[0, :2] - X * w[::2, 2][1:3]

    assert np.array_equal(f(X), plain())
    w[:] += 5
    assert np.array_equal(f(X), plain())
    w = np.arange(48.0, 0, -1).reshape(8, 6)[::-2, ::2]
    assert np.array_equal(f(X), plain())
    assert len(f.explain().compiles) == 1
    assert not f.explain().constants
    w = [1]
    with pytest.raises(TypeError):
        f(X)


@pytest.mark.parametrize(
    "read",
    [
        lambda x, w: x * w[0],
        lambda x, w: x * w.sum(),
        lambda x, w: x * float(w[0]),
        lambda x, w: x * 2 if w[0] > 3 else x,
        lambda x, w: x * len(range(int(w[0]))),
    ],
)
@pytest.mark.parametrize("size", [3, 100_000])
def test_what_python_computes_of_an_array(read, size):
    w = np.ones(size)
    last = lambda: w.__setitem__(size - 1, 3)  # noqa: E731  # of which no sample knows
    f = agrees(lambda x: read(x, w), lambda: w.__imul__(5), lambda: w.__itruediv__(4))
    last()
    assert np.array_equal(f(X), read(X, w))
    assert not f.explain().unwatched


def test_an_array_beside_one_that_python_reads_is_not_compared():
    w, first = np.ones(2), np.ones(3)
    f = dlvm.function(lambda x: x * w * float(first[0]))
    f(X)
    for _ in range(5):
        w *= 2
        assert np.array_equal(f(X), X * w)
    assert [guard.partition(" =")[0] for guard in f.explain().guards] == ["the elements of first"]
    assert len(f.explain().compiles) == 1
    first[0] = 7
    assert np.array_equal(f(X), X * w * 7)


def test_an_array_that_decided_once_is_compared_for_ever():
    w = np.zeros(2)
    f = dlvm.function(lambda x: x * 2 if w[0] > 5 else x)
    f(X)
    for value in (6, 0, 6, *range(20), 6, 0):
        w[0] = value
        assert np.array_equal(f(X), X * (2 if w[0] > 5 else 1))
    assert len(f.explain().compiles) == 2
    assert not f.explain().unwatched


def test_an_array_that_is_only_used_costs_no_comparison():
    w = np.ones(2)
    f = dlvm.function(lambda x: x * w)
    f(X)
    assert not f.explain().guards


@pytest.mark.parametrize("size", [10_000, 100])
def test_every_scalar_of_a_long_container_that_is_read(size):
    many = [float(i) for i in range(size)]
    agrees(lambda x: x * sum(many), putting(many, size - 3, -1.0))


def test_what_only_c_code_can_read_is_said():
    gate = threading.Lock()

    def f(x):
        with gate:
            return x + 1

    staged = agrees(f)
    (line,) = staged.explain().unwatched
    assert line.startswith("gate: what a _thread.lock holds is known to C only")
    assert "not watched in full" in str(staged.explain())


def test_one_of_very_many_is_all_that_is_compared():
    rows = [{"rate": float(i)} for i in range(1000)]
    f = agrees(lambda x: x * rows[0]["rate"] + 1, putting(rows[0], "rate", 5.0))
    assert not f.explain().unwatched
    assert len(f.explain().guards) == 2  # before and after
    agrees(lambda x: x * len(rows), rows.pop)
    held = types.SimpleNamespace(rows=rows)
    other = [*rows[:1], {"rate": -1.0}, *rows[2:]]
    agrees(lambda x: x * held.rows[1]["rate"], setting(held, "rows", other))


# -- objects of libraries ------------------------------------------------------------------------


def test_objects_in_circles_are_compared_once():
    parser = configparser.ConfigParser()
    parser.read_string("[a]\nrate = 1.5")
    f = agrees(lambda x: x * float(parser["a"]["rate"]), lambda: parser.set("a", "rate", "2.5"))
    assert len(f.explain().guards) < 300  # 61,000 where each path to an object was one of its own


def test_of_an_object_in_two_places_either_may_be_replaced():
    class Part:
        def __init__(self, rate):
            self.rate = rate

    one = Part(1.5)
    held = types.SimpleNamespace(a=one, b=one)

    def rates(x):
        return x * sum(part.rate for part in vars(held).values())

    def change():
        held.a, one.rate = Part(1.5), 3.5

    agrees(rates, change, setting(held, "b", Part(4.5)), lambda: setattr(held.a, "rate", 0.5))


def test_a_number_of_sympy_is_compared_by_identity():
    sympy = pytest.importorskip("sympy")
    held = types.SimpleNamespace(third=sympy.Rational(1, 3))
    f = agrees(lambda x: x * float(held.third), setting(held, "third", sympy.Rational(1, 5)))
    assert len(f.explain().guards) < 10


def test_a_container_that_cannot_be_read_is_no_fault_of_ours():
    broken = collections.ChainMap([1.5, 2.5])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        list(broken.items())
    assert dlvm.function(lambda x: x * callable(broken.pop))(2.0) == 2.0


def test_a_slot_that_is_of_another_class_is_empty():
    class Other:
        __slots__ = ("rate",)

    class Array:
        __slots__ = ("rate",)

        def __array__(self, dtype=None, copy=None):
            return X

    Array.rate = Other.rate  # as a class in C may have it that is installed in the place of another
    held = Array()
    with pytest.raises(TypeError):
        hasattr(held, "rate")
    agrees(lambda x: x * np.asarray(held))


def test_a_slot_without_a_value_is_compared_where_its_object_goes():
    made = Slots()
    made.rate = None
    agrees(lambda x: x * (copy.copy(made).rate or 1.0), setting(made, "rate", 5.0))
