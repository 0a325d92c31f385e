"""Which donated arguments of a call its caller still has when the call ends.

Each reference to an argument must be one of Python's own, for this form of call, or that of a
variable, attribute or element that is overwritten straight after the call. With one more, somebody
else has the argument, and it is in doubt. So is every argument of a call that can't be read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, TypeAlias, cast

from dlvm.dsl.trace.specs import Parameters, owner

from .below import reached
from .calibration import COUNTED, IN_CONTAINER, Form, references, while_called
from .call_sites import CallSite, call_site
from .places import Place

REMEMBERED = 1024
"""Number of calls in the code of users that are remembered."""
Key = int | str
Between = Callable[[Any], Any]
"""Makes what passes a call on to a function, with one more argument in front."""


Ask: TypeAlias = "Callable[[Any, FrameType, Any], bool]"
"""Says of what is called, in a frame with these arguments, whether nobody else has one of them."""


@dataclass(frozen=True, slots=True)
class _Site:
    code: CodeType
    """Kept alive, so that nothing else has its identity."""
    doubtful: tuple[str, ...]
    asked: tuple[tuple[str, bool, Ask], ...]
    """The name of each other argument, whether it is passed by name, and what to ask of it."""


class _Mark:
    """Stands for an argument of a call."""

    def __init__(self, key: Key) -> None:
        self.key = key


class Donated:
    """The donated arguments of a function: which of them others may reach.

    ``method`` makes a bound method of a function, whose code is ``method_code``.
    """

    def __init__(
        self, parameters: Parameters, names: frozenset[str], method: Between, method_code: CodeType
    ) -> None:
        self.parameters, self.names = parameters, names
        self.method, self.method_code = method, method_code
        self._sites: dict[Any, _Site] = {}

    def doubtful(
        self, called: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """The donated arguments that the caller of our caller may have afterwards."""
        frame, between = sys._getframe(2), None  # pyright: ignore[reportPrivateUsage]
        if frame.f_code is self.method_code:
            frame, between = cast("FrameType", frame.f_back), self.method
        at: Any = id(frame.f_code), frame.f_lasti, len(args)
        if kwargs:
            at = (*at, *kwargs)
        site = self._sites.get(at)
        if site is None:
            site = self._remember(at, frame, args, kwargs, between)
        found = site.doubtful
        for name, by_name, ask in site.asked:
            if not ask(called, frame, kwargs if by_name else args):
                found = (*found, name)
        return found

    def reached(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], doubtful: Collection[str]
    ) -> set[int]:
        """The identities of donated leaves that others may reach."""
        arguments = self.parameters.bind(args, kwargs)
        found: set[int] = set()
        for i, name in enumerate(arguments.names):
            if owner(name) in self.names:
                found |= reached(arguments.values[i], name in doubtful)
        return found

    def _remember(
        self,
        at: Any,
        frame: FrameType,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        between: Between | None,
    ) -> _Site:
        site = call_site(frame.f_code, frame.f_lasti) if COUNTED else None
        marks = tuple(_Mark(i) for i in range(len(args))), {k: _Mark(k) for k in kwargs}
        bound = self.parameters.bind(*marks)
        asked: dict[str, tuple[bool, Ask] | None] = {}
        for name, mark in zip(bound.names, bound.values, strict=True):
            if owner(name) in self.names:
                key = mark.key if isinstance(mark, _Mark) else None
                ask = None if key is None or site is None else _asked(key, site, between)
                asked[name] = ask and (isinstance(key, str), ask)
        if len(self._sites) >= REMEMBERED:
            self._sites.clear()
        doubtful = tuple(n for n, a in asked.items() if a is None)
        made = _Site(
            frame.f_code, doubtful, tuple((n, *a) for n, a in asked.items() if a is not None)
        )
        self._sites[at] = made
        return made


def _asked(key: Key, site: CallSite, between: Between | None) -> Ask | None:
    """What to ask of an argument of a call that is read; None if the caller keeps it."""
    by_name = isinstance(key, str)
    source = site.arguments.get(key if by_name or between is None else key - 1)
    callee = site.callee if isinstance(site.callee, Place) and between is None else None
    if source is None:
        return None
    if not isinstance(source, Place):
        count = while_called(Form("computed", site.spread, site.named, by_name, between))
        return callee and _of_computed(key, count, callee)
    if source not in site.overwritten:
        return None
    local = source.kind == "fast" and not source.path
    form = Form("fast" if local else "other", site.spread, site.named, by_name, between)
    count = while_called(form) + 1
    before = site.overwritten[: site.overwritten.index(source)]
    ask = _of_place(key, count, source, [p for p in before if p.path], site.overwritten)
    if local and callee is not None and callee.kind == "global" and not callee.path:
        return _quickly(key, count, callee.name, ask)
    return ask


def _of_computed(key: Key, count: int, callee: Place) -> Ask:
    """Nobody has the value of an expression that is passed to the function itself."""

    def ask(called: Any, frame: FrameType, given: Any) -> bool:
        return references(given[key]) <= count and callee.holds(frame, called)

    return ask


def _quickly(key: Key, count: int, name: str, otherwise: Ask) -> Ask:
    """A variable of a function holds what is passed if the function itself is called."""

    def ask(called: Any, frame: FrameType, given: Any) -> bool:
        if references(given[key]) <= count and frame.f_globals.get(name) is called:
            return True
        return otherwise(called, frame, given)

    return ask


def _of_place(
    key: Key, count: int, place: Place, first: Sequence[Place], overwritten: Sequence[Place]
) -> Ask:
    """A place is overwritten after the call, and so may be other variables that hold the same.

    Nothing of the user's may run before, so what is written ``first`` must be readable without.
    """
    others = [p for p in overwritten if not p.path and p != place]

    def ask(called: Any, frame: FrameType, given: Any) -> bool:
        found = references(given[key])
        if found > count and found > count + _others(others, frame, given[key]):
            return False
        return place.holds(frame, given[key]) and all(p.is_readable(frame) for p in first)

    return ask


def _others(places: Sequence[Place], frame: FrameType, x: Any) -> int:
    """References of other variables that are overwritten, or of tuples that only these have."""
    count = 0
    for place in places:
        try:
            value = place.value(frame)
        except LookupError:
            continue
        if value is x:
            count += 1
        elif type(value) is tuple and references(value) <= IN_CONTAINER:
            count += sum(part is x for part in value)  # pyright: ignore[reportUnknownVariableType]
    return count
