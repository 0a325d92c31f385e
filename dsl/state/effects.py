"""What operations of a summary do with values that are captured state.

Each effect returns the values of its results. What depends on the function in which an operation
stands, such as its variables, is in ``paths``.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .attributes import UNKNOWN
from .calls import Calls
from .frames import Site
from .things import HOST, NULL, Built, Iter, Super, Value, only, union, widened

Results: TypeAlias = "tuple[Value, ...]"
Values: TypeAlias = "Sequence[Value]"


def _made(thing: Any) -> Value:
    return widened(only(thing))


def _attribute(to: Calls, site: Site, values: Values, name: str) -> Results:
    return (to.attribute(site, values[0], name),)


def _behind(to: Calls, site: Site, values: Values, name: str) -> Results:
    return (to.attribute(site, only(Super(*values)), name),)


def _module(to: Calls, site: Site, values: Values, name: str) -> Results:
    return (to.module(name, values[0]),)


def _subscript(to: Calls, site: Site, values: Values) -> Results:
    return (to.subscript(site, *values),)


def _sliced(to: Calls, site: Site, values: Values) -> Results:
    return (to.sliced(site, values[0], values[1:]),)


def _slice_of(to: Calls, site: Site, values: Values) -> Results:
    return (to.slice_of(site, values),)


def _write_attribute(to: Calls, site: Site, values: Values, name: str) -> Results:
    to.write(site, values[0], values[1], name=name)
    return ()


def _write_item(to: Calls, site: Site, values: Values) -> Results:
    to.write(site, values[0], values[1], key=values[2])
    return ()


def _operate(to: Calls, site: Site, values: Values, in_place: bool) -> Results:
    return (to.operate(site, values, in_place),)


def _asked(to: Calls, site: Site, values: Values) -> Results:
    to.asked(site, values[0])
    return ()


def _compared(to: Calls, site: Site, values: Values) -> Results:
    to.compared(site, *values)
    return ()


def _contains(to: Calls, site: Site, values: Values) -> Results:
    to.contains(site, *values)
    return (only(HOST) if union(values) <= {HOST} else UNKNOWN,)


def _hand(to: Calls, site: Site, values: Values) -> Results:
    to.hand(site, values)
    return ()


def _built(to: Calls, site: Site, values: Values) -> Results:
    return (_made(Built(tuple(values))),)


def _mapped(to: Calls, site: Site, values: Values) -> Results:
    return (_made(Iter(union(values) | UNKNOWN)),)


def _extended(to: Calls, site: Site, values: Values, one: bool, of_dict: bool) -> Results:
    held, *parts = values
    new = union(parts)
    new = new if one else to.elements(site, new, values=of_dict)
    return (held | _made(Iter(new)),)


def _iterated(to: Calls, site: Site, values: Values) -> Results:
    return (_made(Iter(to.elements(site, values[0]))),)


def _elements(to: Calls, site: Site, values: Values) -> Results:
    return (to.elements(site, values[0]),)


def _parts(to: Calls, site: Site, values: Values, count: int) -> Results:
    return to.parts(site, values[0], count)


def _spread(to: Calls, site: Site, values: Values) -> Results:
    found = to.elements(site, values[0])
    return (found | _made(Iter(found)),)


def _call(to: Calls, site: Site, values: Values, *names: str) -> Results:
    callee, *args = values
    count = len(args) - len(names)
    return (to.call(site, callee, args[:count], dict(zip(names, args[count:], strict=True))),)


def _call_spread(to: Calls, site: Site, values: Values) -> Results:
    callee, *given = values
    spread = union(to.elements(site, x - {NULL}) for x in given)
    return (to.call(site, callee, (), {}, spread | UNKNOWN),)


EFFECTS: dict[str, Callable[..., Results]] = {
    "attribute": _attribute,
    "behind": _behind,
    "module": _module,
    "subscript": _subscript,
    "sliced": _sliced,
    "slice_of": _slice_of,
    "write_attribute": _write_attribute,
    "write_item": _write_item,
    "operate": _operate,
    "asked": _asked,
    "compared": _compared,
    "contains": _contains,
    "hand": _hand,
    "built": _built,
    "mapped": _mapped,
    "extended": _extended,
    "iterated": _iterated,
    "elements": _elements,
    "parts": _parts,
    "spread": _spread,
    "call": _call,
    "call_spread": _call_spread,
}
