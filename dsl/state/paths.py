"""Calls of captured functions, and state that goes to code that is not read.

Every function that can be called from the roots is walked with the possible values of its
variables, until nothing new is found. A load of an attribute or an item of captured state is a path
(``self.w``, ``cfg["lr"]``), which ``Seen`` records. A value passed to code that is not read is
*handed over*: everything in a container is recorded, and of an object all attributes whose names
the code loads from anything.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import types
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .attributes import UNKNOWN
from .calls import Calls
from .frames import Closure, Frame, Frames, Site
from .homes import (
    class_is_read,
    holds_numbers,
    home_of,
    is_installed,
    is_read,
)
from .outputs import changed
from .places import Attribute, Derived, Held, Item, is_numeric, kept_by
from .seen import PLAIN, Seen, Use, called
from .things import (
    ANY,
    HOST,
    NOTHING,
    NULL,
    STAGED,
    Bound,
    Built,
    Iter,
    Method,
    Place,
    Super,
    Value,
    flat,
    only,
    union,
)

_MANY = 4000
_INSTALLED = 200
"""Number of functions of installed packages that are followed; others are code that is not read."""


class Paths(Calls):
    """The effect of everything that code does with captured state."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self.frames = Frames()
        self.opened: dict[Place, set[str]] = {}
        """Objects that were handed over, and the names of attributes that were followed."""
        self._installed = 0
        self._handed: set[tuple[Place, Use, Site]] = set()
        self._whole: set[Any] = {ANY, HOST, STAGED, NULL}
        """What was handed over."""
        self._settled: dict[Use, set[Place]] = {use: set() for use in Use}
        """Containers that were handed over, with nothing that depends on the line that does it."""

    # -- variables ---------------------------------------------------------------------------------

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
        return self.loaded(
            self.place((id(cell),), name, Attribute(Held(cell), "cell_contents"), value)
        )

    # -- functions ---------------------------------------------------------------------------------

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
                    self.frames.grow(closure.frame, name, self.elements(site, given))
            else:
                last = code.co_varnames[: code.co_argcount][-len(built.parts) :]
                for name, x in zip(last, built.parts, strict=False):
                    self.frames.grow(closure.frame, name, x)

    def _frame_of(self, fn: types.FunctionType) -> Frame | None:
        """The frame of a function whose code is read; None where it is not, or no more."""
        if id(fn) in self.frames.known or not is_read(fn.__globals__):
            return self.frames.known.get(id(fn))
        installed = is_installed(fn.__globals__)
        if len(self.frames.known) >= _MANY or (installed and self._installed >= _INSTALLED):
            self.seen.too_much(fn.__qualname__, "one of more functions than are followed")
            return None
        self._installed += installed
        return self.frames.known.setdefault(id(fn), Frame(fn.__code__, fn.__globals__, fn))

    def _kept(self, fn: types.FunctionType) -> list[Value]:
        """The variables of the closure of a function whose code is not read."""
        name = f"a variable of {fn.__qualname__}"
        return [self.loaded(self.place((id(c),), name, r, x)) for c, r, x in kept_by(fn)]

    def run(
        self,
        site: Site,
        frame: Frame,
        args: Sequence[Value],
        named: dict[str, Value],
        rest: Value | None,
    ) -> Value:
        """Follows a call of a function whose code is read; ``rest`` are values of further
        arguments.
        """
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
        self.seen.local += 1
        frame.readers.add(site)
        return frame.returns

    def _given_defaults(
        self, fn: Any, given: dict[str, Value], names: Sequence[str], rest: Value | None
    ) -> None:
        if fn is None:
            return
        values = fn.__defaults__ or ()
        positional = names[: fn.__code__.co_argcount]
        places = [
            (name, "__defaults__", i, value)
            for i, (name, value) in enumerate(
                zip(positional[len(positional) - len(values) :], values, strict=True)
            )
        ]
        places += [(n, "__kwdefaults__", n, v) for n, v in (fn.__kwdefaults__ or {}).items()]
        for name, where, key, value in places:
            if name not in given or rest is not None:
                read = Item(Attribute(Held(fn), where), key)
                default = self.loaded(self.place((id(fn), where, key), name, read, value))
                given[name] = given.get(name, NOTHING) | default

    # -- calls -------------------------------------------------------------------------------------

    def call(
        self,
        site: Site,
        callee: Value,
        args: Sequence[Value],
        named: dict[str, Value],
        rest: Value | None = None,
    ) -> Value:
        """The possible results of a call."""
        gets = self.once(("gets", callee), self.gets, callee) if args else NOTHING
        found = (
            [*args[1:], self.once(("got", gets, args[0]), self.got, site, gets, args[0])]
            if gets
            else []
        )
        callee = callee - gets
        if len(callee) == 1:  # of several functions, as of getattr(np, name), none is told
            called(self.seen, site, next(iter(callee)), bool(args or named or rest))
        return union([*found, *(self._call(site, t, args, named, rest) for t in callee)])

    def _call(
        self, site: Site, t: Any, args: Sequence[Value], named: dict[str, Value], rest: Value | None
    ) -> Value:
        if isinstance(t, Closure):
            return self.run(site, t.frame, args, named, rest)
        if isinstance(t, Bound):
            first = (t.first,) if t.first or not t.named else ()
            return self.call(site, only(t.function), (*first, *args), dict(t.named) | named, rest)
        given = [*args, *named.values(), *([rest] if rest else [])]
        if isinstance(t, Method):
            return self.method(site, t, args, given)
        if not isinstance(t, Place):
            self.hand(site, given, Use.MAYBE if t in (ANY, STAGED) else Use.READ)
            whole = t is HOST and all(self.kinds(x) <= {"h"} for x in given)
            return only(HOST) if whole else only(STAGED) if t is STAGED else UNKNOWN
        value = t.value
        if value is super:
            return self._super(site, args)
        if isinstance(value, types.FunctionType) and (frame := self._frame_of(value)):
            return self.run(site, frame, args, named, rest)
        known = self.builtin(site, value, args, given)
        if known is not None:
            return known
        if (inner := self.inside(t)) is not None:
            functions, whole = inner
            if not whole:
                return self._of_staged(site, t, args, named, rest)
            return UNKNOWN | union(self.call(site, f, args, named, rest) for f in functions)
        if isinstance(value, type):
            return self._construct(site, t, args, named, rest, given)
        return self._opaque(site, t, args, named, rest, given)

    def _staged(self, x: Value, known: bool) -> Value:
        """Arguments as a staged function sees them; integers and strings may stay ``known``."""
        return frozenset(STAGED if self._is_staged(t, known) else t for t in x)

    def _is_staged(self, t: Any, known: bool) -> bool:
        if not isinstance(t, Place):
            return t is HOST and not known
        value = t.value
        plain = isinstance(value, bool | int | str) and known
        numbers = isinstance(value, bool | int | float | np.generic) and not plain
        return numbers or is_numeric(value) or self.is_container(value)

    def _of_staged(
        self,
        site: Site,
        t: Place,
        args: Sequence[Value],
        named: dict[str, Value],
        rest: Value | None,
    ) -> Value:
        """A call of a staged function or of one with a derivative of its own."""
        functions, _ = self.inside(t) or ([], False)
        known = bool(getattr(t.value, "transparent", True))
        static = getattr(getattr(t.value, "parameters", None), "static", ())
        names = getattr(getattr(t.value, "parameters", None), "names", ())
        given = [
            flat(x) if i < len(names) and names[i] in static else self._staged(flat(x), known)
            for i, x in enumerate(args)
        ]
        by_name = {k: x if k in static else self._staged(flat(x), known) for k, x in named.items()}
        for function in functions:
            self.call(
                site, function, given, by_name, UNKNOWN | self._staged(rest or NOTHING, known)
            )
        self.hand(site, [*args, *named.values(), rest or NOTHING], Use.STAGED, staged=True)
        return UNKNOWN

    def _construct(
        self, site: Site, t: Place, args: Any, named: Any, rest: Any, given: list[Value]
    ) -> Value:
        """An object that the function constructs."""
        cls: Any = t.value
        if not class_is_read(cls):
            self.hand(site, given)
            return UNKNOWN
        self.open(t)
        for name in ("__new__", "__init__", "__post_init__"):
            home = next((k for k in cls.__mro__ if name in k.__dict__), object)
            made = home.__dict__.get(name)
            made = getattr(made, "__func__", made)
            if isinstance(made, types.FunctionType):
                self.call(site, only(self.held(made)), (UNKNOWN, *args), named, rest)
            elif home is not object:
                self.hand(site, given)
        return UNKNOWN

    def _opaque(
        self, site: Site, t: Place, args: Any, named: Any, rest: Any, given: list[Value]
    ) -> Value:
        """A call of code that is not read: of NumPy, of dlvm, of an object in C."""
        value = t.value
        module = home_of(value)
        self.seen.all_touched(site, changed(value, args, named))
        if not all(given):
            return NOTHING
        if module == "numpy":
            if not isinstance(value, type | types.FunctionType | np.ufunc):
                self.hand(site, [only(t)])  # np.vectorize(f) is an object that holds f
            self.arrays_of(site, [flat(x) for x in given], given)
            self.hand(site, [frozenset(y for y in flat(x) if not self._is_array(y)) for x in given])
            whole = all(self.kinds(flat(x)) <= {"h"} for x in given)
            some = any(self.kinds(x) == {"s"} for x in given)
            staged = isinstance(value, np.ufunc) and some
            return only(STAGED) if staged else only(HOST) if whole else UNKNOWN
        if module == "dlvm":  # of which only those of trees hand arrays on as they are
            raw = getattr(value, "__module__", "") == "dlvm.tree"
            self.hand(site, given, Use.MAYBE, staged=not raw)
            return UNKNOWN
        if isinstance(value, weakref.ref):
            referent = Derived(t.read, lambda ref: ref())
            return self.under(t, f"{t.path}()", referent, "referent", value())
        own = type(value)
        if "__call__" in dir(own) and class_is_read(own):
            called = self.attribute(site, only(t), "__call__")
            return self.call(site, called, args, named, rest) | UNKNOWN
        self.hand(site, [*given, only(t)])
        return UNKNOWN

    def _super(self, site: Site, args: Sequence[Value]) -> Value:
        if args:
            return only(Super(args[0], args[1] if len(args) > 1 else UNKNOWN))
        self.seen.local += 1
        first = site.frame.code.co_varnames[:1]
        own = self.variable(site, first[0]) if first else NOTHING
        return only(Super(self.variable(site, "__class__"), own))

    # -- handing over ------------------------------------------------------------------------------

    def hand(
        self,
        site: Site,
        values: Iterable[Value],
        use: Use = Use.READ,
        staged: bool = False,
    ) -> None:
        """Records that values are passed to unknown code, or stored where they are not followed.

        Functions among them may be called with the others, which are ``staged`` before.
        """
        given = tuple(values)
        self.once(("hand", use, staged, *given), self._hand_all, site, given, use, staged)

    def _hand_all(self, site: Site, given: Sequence[Value], use: Use, staged: bool) -> bool:
        everything = union([NOTHING, *(self.once(("flat", x), flat, x) for x in given)])
        rest = everything - self._settled[use] - self._whole
        passed = (self._staged(everything, False) if staged else everything) | UNKNOWN
        for t in rest:
            if isinstance(t, Place):
                self._hand(site, t, use, passed)
            elif isinstance(t, Closure):
                self.run(site, t.frame, (), {}, passed)
            elif isinstance(t, Bound):
                self.call(site, only(t), (), {}, passed - {t})
            elif isinstance(t, Method):
                self.hand(site, [only(t.of)])
        return True

    def _hand(self, site: Site, t: Place, use: Use, passed: Value) -> None:
        if type(t.value) in PLAIN:
            self._whole.add(t)
        elif is_numeric(t.value):
            self.seen.used(site, t, use)
        elif not isinstance(t.value, (dict, list, tuple)):
            if t not in self._whole:
                self._whole.add(t)
                self._hand_inside(site, t, use, passed)
        elif t not in self._settled[use]:
            # arrays in a container are used at this step; others may use them elsewhere
            before, key = self.seen.local, (t, use, site)
            if key not in self._handed:
                self._handed.add(key)
                self._hand_inside(site, t, use, passed)
                if self.seen.local == before:
                    self._settled[use].add(t)
                    return
            self.seen.local += 1

    def _hand_inside(self, site: Site, t: Place, use: Use, passed: Value) -> None:
        value = t.value
        if isinstance(value, types.FunctionType):
            if frame := self._frame_of(value):
                self.run(site, frame, (), {}, passed)
            else:
                self.hand(site, self._kept(value), use)
        elif isinstance(value, types.CodeType):
            pass
        elif self.is_container(value):
            self.hand(site, [self.elements(site, only(t), values=True)], use)
            self.open(t)
        elif (inner := self.inside(t)) is not None:
            for function in inner[0]:
                self.call(site, function, (), {}, passed - {t})
        else:
            self.seen.whole(t)
            self.open(t)

    def open(self, place: Place) -> None:
        """Records that any attribute that the code loads anywhere may be loaded from this value."""
        value: Any = place.value
        opened = class_is_read(value) if isinstance(value, type) else holds_numbers(value)
        if opened and len(self.opened) >= _MANY:
            self.seen.too_much(place.path, f"one of more than {_MANY} objects in reach")
        elif opened:
            self.opened.setdefault(place, set())
