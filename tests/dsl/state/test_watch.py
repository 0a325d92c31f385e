"""State read all at once: what changes is noticed as by its guards, and as Python would see it."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

X = np.arange(3, dtype=np.float64)
FACTOR = 2.0
TABLE: dict[str, Any] = {"a": 1.0, "deep": {"list": [1, 2, 3]}}


class Config:
    """An object with state, some of it in its class."""

    scale = 3.0

    def __init__(self) -> None:
        self.rate = 0.5
        self.names = ["a", "b"]
        self.w = np.ones(3)

    @property
    def twice(self) -> float:
        return self.rate * 2

    def shift(self, x: Any) -> Any:
        return x + self.rate


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def helper(x: Any, by: float = 1.5) -> Any:
    return x * by + FACTOR


def other_helper(x: Any, by: float = 1.5) -> Any:
    return x - by


class World:
    """All that one function reads, each part of which a test changes."""

    def __init__(self) -> None:
        self.config = Config()
        self.slotted = Slotted(4.0)
        self.pair = (1.0, {"k": 2.0})
        self.items: list[Any] = [1.0, np.ones(3), 2.0]
        self.ordered = OrderedDict(b=1.0, a=2.0)
        self.part = functools.partial(helper, by=2.5)
        self.space = types.SimpleNamespace(inner=types.SimpleNamespace(value=1.0))
        self.bag = {1, 2}
        self.weights = {"w": np.ones(3), "v": np.full(3, 2.0)}
        self.flag = True
        self.missing: Any = None

    def function(self) -> Callable[[Any], Any]:
        config, slotted, pair, items, ordered = (
            self.config,
            self.slotted,
            self.pair,
            self.items,
            self.ordered,
        )
        part, space, bag, weights, world = self.part, self.space, self.bag, self.weights, self

        def f(x: Any) -> Any:
            out = helper(x) + part(x) + config.shift(x) + config.w * config.scale + config.twice
            out = out + slotted.value + pair[0] + pair[1]["k"] + len(config.names)
            out = out + items[0] + items[1] * items[2] + len(items)
            for i, (name, value) in enumerate(ordered.items()):
                out = out + (i + 1) * value + len(name)
            out = out + space.inner.value + sum(bag) + TABLE["a"] + sum(TABLE["deep"]["list"])
            for k in weights:
                out = out * 0.5 + weights[k]
            if world.flag:
                out = out + 1
            return out if world.missing is None else out * world.missing

        return f


def _set(path: str, value: Any) -> Callable[[World, Any], None]:
    """Give something in the world another value, by the text of where it is."""

    def change(world: World, monkeypatch: Any) -> None:
        *inner, last = path.split(".")
        at: Any = world
        for name in inner:
            at = at[name] if isinstance(at, dict) else getattr(at, name)
        if isinstance(at, dict):
            at[last] = value
        else:
            setattr(at, last, value)

    return change


def _do(change: Callable[[World], Any]) -> Callable[[World, Any], None]:
    return lambda world, _: change(world)


CHANGES: dict[str, Callable[[World, Any], None]] = {
    "an attribute": _set("config.rate", 0.75),
    "an attribute to an equal value": _set("config.rate", 1 / 2),
    "an attribute to another type": _set("config.rate", np.float32(0.5)),
    "an array attribute": _set("config.w", np.full(3, 9.0)),
    "an array in place": _do(lambda w: w.config.w.__iadd__(1)),
    "an array of another shape": _set("config.w", np.ones((2, 3))),
    "an array of another type": _set("config.w", np.ones(3, np.float32)),
    "an array that is a number now": _set("config.w", 5.0),
    "a list that grows": _do(lambda w: w.config.names.append("c")),
    "a list that is another": _set("config.names", ["x", "y"]),
    "a slot": _set("slotted.value", 5.0),
    "a value deep inside": _do(lambda w: w.pair[1].update(k=7.0)),
    "a number in a list": _do(lambda w: w.items.__setitem__(2, 3.0)),
    "an array in a list": _do(lambda w: w.items.__setitem__(1, np.full(3, 4.0))),
    "one more in a list": _do(lambda w: w.items.append(1.0)),
    "the order of a dict": _do(lambda w: w.ordered.move_to_end("b")),
    "a key of a dict": _do(lambda w: w.ordered.update(c=5.0)),
    "an attribute of an attribute": _set("space.inner.value", 2.0),
    "an object between": _set("space.inner", types.SimpleNamespace(value=3.0)),
    "an object like the one before": _set("space.inner", types.SimpleNamespace(value=1.0)),
    "a set": _do(lambda w: w.bag.add(5)),
    "a dict of arrays": _do(lambda w: w.weights.update(w=np.full(3, 8.0))),
    "the keys of a dict of arrays": _do(lambda w: w.weights.update(u=np.ones(3))),
    "arrays that change places": _do(
        lambda w: w.weights.update(w=w.weights["v"], v=w.weights["w"])
    ),
    "two names for one array": _do(lambda w: w.weights.update(w=w.weights["v"])),
    "a branch": _set("flag", False),
    "what was None": _set("missing", 2.0),
    "a global": lambda w, m: m.setitem(globals(), "FACTOR", 3.0),
    "a global function": lambda w, m: m.setitem(globals(), "helper", other_helper),
    "a global dict": lambda w, m: m.setitem(TABLE, "a", 2.0),
    "a list in a global dict": lambda w, m: m.setitem(TABLE["deep"], "list", [5]),
    "a default": lambda w, m: m.setattr(helper, "__defaults__", (4.0,)),
    "the class": lambda w, m: m.setattr(Config, "scale", 7.0),
    "a method": lambda w, m: m.setattr(Config, "shift", lambda self, x: x - self.rate),
    "a property": lambda w, m: m.setattr(Config, "twice", property(lambda self: 9.0)),
    "an attribute in front of the class": _do(lambda w: setattr(w.config, "scale", 4.0)),
    "nothing": _do(lambda w: None),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_changes_is_noticed(change: Any, monkeypatch: pytest.MonkeyPatch):
    world = World()
    plain = world.function()
    staged = dlvm.function(plain)
    for _ in range(2):
        np.testing.assert_allclose(staged(X), plain(X), rtol=1e-12)
    made, _ = staged._short[1][0]
    watch = made.state.watch
    assert watch() is not None
    change(world, monkeypatch)
    assert (watch() is None) == any(not guard.holds() for guard in made.state.guards)
    for _ in range(2):
        np.testing.assert_allclose(staged(X), plain(X), rtol=1e-6)


def test_equal_values_are_compared_once_and_then_known():
    holder = {"n": 1000.5}
    f = dlvm.function(lambda x: x * holder["n"])
    f(X)
    made, _ = f._short[1][0]
    watch = made.state.watch
    assert watch() is not None
    holder["n"] = float("1000.5")
    assert watch() is not None
    space = next(s for s in watch._spaces if "n" in s.compared)
    assert space.expected[space.compared.index("n")] is holder["n"]
