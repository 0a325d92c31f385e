"""What changes between two calls is followed, wherever Python would find it at the second one."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import dlvm

X = np.linspace(0.5, 1.5, 3)
HEAD = """
import collections, sys, types
import numpy as np
import module_of_test as m
class Base:
    k = 1.0
    def go(self, x): return x * self.k
    @classmethod
    def of_class(cls): return cls.k
    @staticmethod
    def fixed(): return 1.0
class Middle(Base): pass
class Child(Middle):
    def go(self, x): return super().go(x) + 1.0
    @classmethod
    def of_class(cls): return super().of_class() * 2.0
    def fixed(self): return super().fixed() * 2.0
class Other:
    def go(self, x): return x * 9.0
class Slotted: __slots__ = ("s",)
class Missing(dict):
    k = 3.0
    def __missing__(self, key): return self.k
Pair = collections.namedtuple("Pair", "a b")
def affine(x, a, b=2.0): return x * a + b
o, slotted, table, pair = Child(), Slotted(), Missing(), Pair(1.0, np.ones(3))
array, options, numbers = np.ones((2, 2)), {"a": 1.0}, [1.0, 2.0]
counts = collections.defaultdict(float)
"""
CASES = {  # what the function returns, and the change
    "a method behind super": ("o.go(x)", "Base.go = lambda self, x: x * 10.0"),
    "a method between": ("o.go(x)", "Middle.go = lambda self, x: x * 10.0"),
    "a base": ("o.go(x)", "Middle.__bases__ = (Other,)"),
    "a value that super reads": ("o.go(x)", "Base.k = 5.0"),
    "a class method behind super": ("x * Child.of_class()", "Base.k = 4.0"),
    "a static method behind super": ("x * o.fixed()", "Base.fixed = staticmethod(lambda: 9.0)"),
    "a default and the object": ("x * getattr(o, 's', 1.0)", "o.s = 5.0"),
    "a default and the class": ("x * getattr(o, 's', 1.0)", "Base.s = 5.0"),
    "a default and a base": ("x * getattr(Child, 's', 1.0)", "Base.s = 5.0"),
    "a default and a slot": ("x * getattr(slotted, 's', 1.0)", "slotted.s = 5.0"),
    "a default and a module": ("x * getattr(m, 's', 1.0)", "m.s = 5.0"),
    "an attribute that is asked for": ("x * (2 if hasattr(o, 's') else 1)", "Base.s = 5.0"),
    "one element of all": ("x * array.flat[0]", "array[0, 0] = 5.0"),
    "some elements of all": ("x * array.flat[:3]", "array[0, 0] = 5.0"),
    "a missing key and the object": ("x * table['a']", "table.k = 5.0"),
    "a missing key and the class": ("x * table['a']", "Missing.k = 5.0"),
    "a missing key and the method": ("x * table['a']", "Missing.__missing__ = lambda *_: 9.0"),
    "a missing key that is set": ("x * table['a']", "table['a'] = 5.0"),
    "a key of a table with a default": ("x * counts['a']", "counts['a'] = 4.0"),
    "a tuple that is replaced": ("x * pair.a + pair.b", "global pair; pair = pair._replace(a=5.0)"),
    "arguments by name": ("affine(x, **options)", "options['b'] = 5.0"),
    "a list that is mapped": ("x * sum(list(map(lambda v: v * 2, numbers)))", "numbers[0] = 5.0"),
    "a module": ("imported(x)", "sys.modules[m.__name__] = types.SimpleNamespace(w=50.0)"),
    "an import that failed": ("tried(x)", "m.other = 5.0"),
}
TAIL = """
def imported(x):
    from module_of_test import w
    return x * w
def tried(x):
    try:
        from module_of_test import other
    except ImportError:
        other = 1.0
    return x * other
def f(x): return {0}
def change():
    {1}
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module of the user's that functions import."""
    made = types.ModuleType("module_of_test")
    made.__dict__["w"] = 2.0
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.mark.parametrize("case", CASES)
def test_what_changed_is_read_at_the_next_call(case: str, module: types.ModuleType):
    space: dict[str, Any] = {"__name__": "program_of_test"}
    exec(compile(HEAD + TAIL.format(*CASES[case]), f"<{case}>", "exec"), space)
    plain = space["f"]
    staged = dlvm.function(plain)
    before = np.asarray(plain(X))
    np.testing.assert_allclose(staged(X), before)
    space["change"]()
    after = np.asarray(plain(X))
    assert not np.allclose(before, after)
    np.testing.assert_allclose(staged(X), after)
