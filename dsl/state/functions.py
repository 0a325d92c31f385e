"""Functions whose code is followed: their variables, and calls that give them values.

Objects that hold functions are bound methods, partials, staged functions and optimisers.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Sequence
from typing import Any

from dlvm.dsl.trace.trees import captured_functions
from dlvm.dsl.words.methods import WeakMethod

from .abstract_values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Bound,
    Built,
    Iter,
    Place,
    Value,
    only,
    union,
)
from .frames import Closure, Frame, Frames, Site
from .items import Items
from .places import Attribute, Held, Item, kept_by
from .walk import Walk
from .whose_code import UNREAD, home_of, is_installed, is_ours, is_read

_MANY = 4000
_INSTALLED = 200
"""Number of functions of installed packages that are followed; others are code that is not read."""


class Functions:
    """The functions that are followed."""

    def __init__(self, walk: Walk, items: Items, frames: Frames) -> None:
        self.walk, self.items, self.frames = walk, items, frames
        self._installed = 0

    def variable(self, site: Site, name: str, frame: Frame | None = None) -> Value:
        """The possible values of a local variable, or of one of an outer function."""
        frame = frame or site.frame
        if name not in frame.code.co_freevars:
            return frame.watched(site, name)
        if frame.outer is not None:
            return self.variable(site, name, frame.outer)
        cell = frame.fn.__closure__[frame.code.co_freevars.index(name)]
        try:
            value = cell.cell_contents
        except ValueError:  # it has no value yet
            return UNKNOWN
        return self.walk.loaded(
            self.walk.place((id(cell),), name, Attribute(Held(cell), "cell_contents"), value)
        )

    def made(self, site: Site, code: Value) -> Value:
        """A function defined inside another one."""
        (thing,) = code
        key = (thing.value, site.frame)
        if key not in self.frames.known:
            self.frames.known[key] = Frame(thing.value, site.frame.globals, outer=site.frame)
            self.frames.start(self.frames.known[key])
        return only(Closure(self.frames.known[key]))

    def defaults(self, site: Site, function: Value, given: Value, named: bool) -> None:
        """The defaults of a function defined inside another one."""
        for closure in (t for t in function if isinstance(t, Closure)):
            code = closure.frame.code
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            built = next((t for t in given if isinstance(t, Built)), None)
            if built is None or named:
                for name in names:
                    self.frames.grow(closure.frame, name, self.items.elements(site, given))
            else:
                last = code.co_varnames[: code.co_argcount][-len(built.parts) :]
                for name, x in zip(last, built.parts, strict=False):
                    self.frames.grow(closure.frame, name, x)

    def frame_of(self, fn: types.FunctionType) -> Frame | None:
        """The frame of a function whose code is read; None where it is not, or no more."""
        if id(fn) in self.frames.known or not is_read(fn.__globals__):
            return self.frames.known.get(id(fn))
        installed = is_installed(fn.__globals__)
        if len(self.frames.known) >= _MANY or (installed and self._installed >= _INSTALLED):
            self.walk.seen.too_much(fn.__qualname__, "one of more functions than are followed")
            return None
        self._installed += installed
        return self.frames.known.setdefault(id(fn), Frame(fn.__code__, fn.__globals__, fn))

    def kept(self, fn: types.FunctionType) -> list[Value]:
        """The variables of the closure of a function whose code is not read."""
        name = f"a variable of {fn.__qualname__}"
        return [self.walk.loaded(self.walk.place((id(c),), name, r, x)) for c, r, x in kept_by(fn)]

    def run(self, site: Site, frame: Frame, arguments: Arguments) -> Value:
        """Follows a call of a function whose code is read."""
        args, named, rest = arguments.args, arguments.named, arguments.rest
        code, fn = frame.code, frame.fn
        positional = code.co_varnames[: code.co_argcount]
        count = code.co_argcount + code.co_kwonlyargcount
        names = code.co_varnames[:count]
        given = dict(zip(positional, args, strict=False))
        given |= {k: v for k, v in named.items() if k in names}
        more = union([*args[len(positional) :], rest or NOTHING])
        others = union(v for k, v in named.items() if k not in names) | (rest or NOTHING)
        if code.co_flags & 4:
            given[code.co_varnames[count]] = only(Iter(more))
        if code.co_flags & 8:
            given[code.co_varnames[count + bool(code.co_flags & 4)]] = only(Iter(others | UNKNOWN))
        for name in names:
            if rest is not None and name not in given:
                given[name] = rest
        self._given_defaults(fn, given, names, rest)
        for name, x in given.items():
            self.frames.grow(frame, name, x)
        self.frames.start(frame)
        self.walk.seen.local += 1
        frame.readers.add(site)
        return frame.returns

    def _given_defaults(
        self, fn: Any, given: dict[str, Value], names: Sequence[str], rest: Value | None
    ) -> None:
        if fn is None:
            return
        values = fn.__defaults__ or ()
        last = names[: fn.__code__.co_argcount][-len(values) :] if values else ()
        given_last = enumerate(zip(last, values, strict=True))
        by_name: dict[str, Any] = fn.__kwdefaults__ or {}
        places: list[Any] = [(name, "__defaults__", i, x) for i, (name, x) in given_last]
        places += [(name, "__kwdefaults__", name, x) for name, x in by_name.items()]
        for name, where, key, value in places:
            if name not in given or rest is not None:
                read = Item(Attribute(Held(fn), where), key)
                default = self.walk.loaded(self.walk.place((id(fn), where, key), name, read, value))
                given[name] = given.get(name, NOTHING) | default


def inside(walk: Walk, t: Place) -> tuple[list[Value], bool] | None:
    """The functions in a callable object, and whether they are called with its arguments."""
    value = t.value
    if isinstance(value, types.MethodType | WeakMethod):
        owner: Any = value.__self__
        where = f"{t.path}.__self__" if t.path else "self"
        first = walk.place((t, "self"), where, Attribute(t.read, "__self__"), owner)
        if not isinstance(value.__func__, types.FunctionType) and not is_ours(value.__func__):
            return None
        return [only(Bound(walk.held(value.__func__), walk.loaded(first)))], True
    if isinstance(value, functools.partial):
        return [_partial(walk, t)], True
    if is_ours(value):
        return _ours(walk, t)
    wrapped = getattr(value, "__dict__", {}).get("__wrapped__")
    plain = isinstance(value, types.FunctionType | type) or home_of(value) in UNREAD
    if callable(wrapped) and not plain:
        path = getattr(wrapped, "__name__", t.path)
        return [walk.under(t, path, Attribute(t.read, "__wrapped__"), "wrapped", wrapped)], True
    return None


def _partial(walk: Walk, t: Place) -> Value:
    value, path = t.value, t.path
    function = walk.under(
        t, f"{path}.func".lstrip("."), Attribute(t.read, "func"), "func", value.func
    )
    parts = [("args", i, x) for i, x in enumerate(value.args)]
    parts += [("keywords", k, x) for k, x in value.keywords.items()]
    for where, key, x in parts:
        read = Item(Attribute(t.read, where), key)
        given = walk.under(t, f"{path}.{where}[{key!r}]".lstrip("."), read, (where, key), x)
        name: Any = () if where == "args" else ((key, given),)
        function = only(Bound(next(iter(function)), given if where == "args" else NOTHING, name))
    return function


def _ours(walk: Walk, t: Place) -> tuple[list[Value], bool] | None:
    """The functions of a staged function, of one with a derivative rule, or of an optimiser."""
    value = t.value
    source = _source(value)
    if source is not None:
        return [only(walk.held(root)) for root in source.roots], False
    if hasattr(value, "_rules"):
        if not t.known:
            rules = Attribute(t.read, "_rules")
            walk.seen.guard(f"the rules of {t.path}", rules, value._rules, by_identity=True)
        return [only(walk.held(f)) for f in (value._fun, *value._rules)], False
    if dataclasses.is_dataclass(value) and (functions := captured_functions(value)):
        walk.seen.whole(t)  # such as an optimiser: its schedule reads state of its own
        return [only(walk.held(f)) for f in functions], False
    return None


def _source(value: Any) -> Any:
    """The Python function of a staged one, or of a method of a dataclass."""
    x: Any
    for x in (value, getattr(value, "_function", None)):
        if hasattr(x, "python") and hasattr(x, "source"):
            return x.source
    return None
