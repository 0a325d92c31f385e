"""Calls: of functions that are followed, of classes, and of code that is not read."""

# pyright: reportUnknownArgumentType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import types
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .abstract_values import (
    ANY,
    HOST,
    NOTHING,
    STAGED,
    UNKNOWN,
    Arguments,
    Bound,
    Method,
    Place,
    Super,
    Value,
    flat,
    only,
    union,
)
from .attributes import Attributes
from .frames import Closure, Site
from .functions import Functions, inside
from .handed import as_staged
from .items import Operators
from .natives import Natives, gets_of
from .outputs import changed
from .places import Derived
from .record import Use, called
from .walk import Walk, is_array, kinds
from .whose_code import class_is_read, home_of


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """The effect of calls of anything."""

    walk: Walk
    attributes: Attributes
    operators: Operators
    functions: Functions
    natives: Natives

    def call(self, site: Site, callee: Value, given: Arguments) -> Value:
        """The possible results of a call."""
        args, found = given.args, list[Value]()
        if args and (gets := self.walk.once(("gets", callee), gets_of, callee)):
            got = self.walk.once(("got", gets, args[0]), self.natives.got, site, gets, args[0])
            found = [*args[1:], got]
            callee -= gets
        if len(callee) == 1:  # of several functions, as of getattr(np, name), none is told
            called(self.walk.seen, site, next(iter(callee)), bool(given.all))
        return union([*found, *(self._call(site, t, given) for t in callee)])

    def _call(self, site: Site, t: Any, given: Arguments) -> Value:
        if isinstance(t, Closure):
            return self.functions.run(site, t.frame, given)
        if isinstance(t, Bound):
            first = (t.first,) if t.first or not t.named else ()
            named = {**dict(t.named), **given.named}
            return self.call(
                site, only(t.function), Arguments((*first, *given.args), named, given.rest)
            )
        if isinstance(t, Method):
            return self.natives.method(site, t, given)
        if not isinstance(t, Place):
            self.walk.hand(site, given.all, Use.MAYBE if t in (ANY, STAGED) else Use.READ)
            whole = t is HOST and all(kinds(x) <= {"h"} for x in given.all)
            return only(HOST) if whole else only(STAGED) if t is STAGED else UNKNOWN
        value = t.value
        if value is super:
            return self._super(site, given.args)
        if isinstance(value, types.FunctionType) and (frame := self.functions.frame_of(value)):
            return self.functions.run(site, frame, given)
        known = self.natives.builtin(site, value, given)
        if known is not None:
            return known
        if (inner := inside(self.walk, t)) is not None:
            functions, whole = inner
            if not whole:
                return self._of_staged(site, t, functions, given)
            return UNKNOWN | union(self.call(site, f, given) for f in functions)
        if isinstance(value, type):
            return self._construct(site, t, given)
        return self._opaque(site, t, given)

    def _of_staged(
        self, site: Site, t: Place, functions: Sequence[Value], given: Arguments
    ) -> Value:
        """A call of a staged function or of one with a derivative of its own."""
        known = bool(getattr(t.value, "transparent", True))
        static = getattr(getattr(t.value, "parameters", None), "static", ())
        names = getattr(getattr(t.value, "parameters", None), "names", ())
        args = [
            flat(x) if i < len(names) and names[i] in static else as_staged(flat(x), known)
            for i, x in enumerate(given.args)
        ]
        named = {k: x if k in static else as_staged(flat(x), known) for k, x in given.named.items()}
        rest = UNKNOWN | as_staged(given.rest or NOTHING, known)
        for function in functions:
            self.call(site, function, Arguments(args, named, rest))
        self.walk.hand(site, given.all, Use.STAGED, staged=True)
        return UNKNOWN

    def _construct(self, site: Site, t: Place, given: Arguments) -> Value:
        """An object that the function constructs."""
        cls: Any = t.value
        if not class_is_read(cls):
            self.walk.hand(site, given.all)
            return UNKNOWN
        self.walk.opened.open(t)
        for name in ("__new__", "__init__", "__post_init__"):
            home = next((k for k in cls.__mro__ if name in k.__dict__), object)
            made = home.__dict__.get(name)
            made = getattr(made, "__func__", made)
            if isinstance(made, types.FunctionType):
                with_self = Arguments((UNKNOWN, *given.args), given.named, given.rest)
                self.call(site, only(self.walk.held(made)), with_self)
            elif home is not object:
                self.walk.hand(site, given.all)
        return UNKNOWN

    def _opaque(self, site: Site, t: Place, given: Arguments) -> Value:
        """A call of code that is not read: of NumPy, of dlvm, of an object in C."""
        value, values = t.value, given.all
        module = home_of(value)
        self.walk.seen.all_touched(site, changed(value, given.args, given.named))
        if not all(values):
            return NOTHING
        if module == "numpy":
            if not isinstance(value, type | types.FunctionType | np.ufunc):
                self.walk.hand(site, [only(t)])  # np.vectorize(f) is an object that holds f
            self.operators.arrays_of(site, [flat(x) for x in values], values)
            self.walk.hand(site, [frozenset(y for y in flat(x) if not is_array(y)) for x in values])
            whole = all(kinds(flat(x)) <= {"h"} for x in values)
            staged = isinstance(value, np.ufunc) and any(kinds(x) == {"s"} for x in values)
            return only(STAGED) if staged else only(HOST) if whole else UNKNOWN
        if module == "dlvm":  # of which only those of trees hand arrays on as they are
            raw = str(getattr(value, "__module__", "")).startswith("dlvm.tree")
            self.walk.hand(site, values, Use.MAYBE, staged=not raw)
            return UNKNOWN
        if isinstance(value, weakref.ref):
            referent = Derived(t.read, lambda ref: ref())
            return self.walk.under(t, f"{t.path}()", referent, "referent", value())
        if "__call__" in dir(type(t.value)) and class_is_read(type(t.value)):
            method = self.attributes.load(site, only(t), "__call__")
            return self.call(site, method, given) | UNKNOWN
        self.walk.hand(site, [*values, only(t)])
        return UNKNOWN

    def _super(self, site: Site, args: Sequence[Value]) -> Value:
        if args:
            return only(Super(args[0], args[1] if len(args) > 1 else UNKNOWN))
        self.walk.seen.local += 1
        first = site.frame.code.co_varnames[:1]
        own = self.functions.variable(site, first[0]) if first else NOTHING
        return only(Super(self.functions.variable(site, "__class__"), own))
