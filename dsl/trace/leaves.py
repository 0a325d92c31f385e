"""Takes leaves out of trees of a known structure and puts them back, without calling optree.

Each node of a structure becomes a closure that checks types and keys. A tree that does not fit
raises ``Unlike``, and the slow path decides. Kinds of nodes that only optree knows are left to
optree, so every structure works.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from .configuration import Setting, parts
from .trees import Spec, flatten, unflatten

Take: TypeAlias = "Callable[[Any], Sequence[Any]]"
Put: TypeAlias = "Callable[[Sequence[Any]], Any]"


class Unlike(Exception):
    """Raised for a tree that does not have the expected structure."""


class Leaf:
    """The position of a leaf among all leaves of a structure."""

    def __init__(self, index: int) -> None:
        self.index = index


def template(spec: Spec) -> Any:
    """A tree of the structure whose leaves are their own positions."""
    return unflatten(spec, [Leaf(i) for i in range(spec.num_leaves)])


def places(node: Any) -> list[int]:
    """The positions of the leaves of a template, in order."""
    return [leaf.index for leaf in flatten(node)[0]]


def picker(keys: Sequence[Any]) -> Callable[[Any], Sequence[Any]]:
    """A function that reads these keys of a container."""
    if len(keys) > 1:
        return operator.itemgetter(*keys)
    return lambda x: [x[k] for k in keys]


# -- taking leaves out -----------------------------------------------------------------------------


def taker(node: Any) -> Take | None:
    """A function that takes the leaves out of trees like a template; None if it is a
    single leaf.
    """
    cls: Any = node.__class__
    if cls is Leaf:
        return None
    if node is None:
        return _take_none
    if cls is dict:
        keys = sorted(node, key=lambda k: places(node[k])[:1])
        return _of_dict(keys, joined([taker(node[k]) for k in keys]))
    if cls in (tuple, list) or _is_named(cls):
        return _of_sequence(cls, len(node), joined([taker(x) for x in node]))
    if dataclasses.is_dataclass(cls):
        kind: type = node.__class__
        names, settings = parts(node)
        take = _of_fields(kind, names, joined([taker(getattr(node, n)) for n in names]))
        return _configured(take, kind, settings) if settings else take
    return _by_optree(flatten(node)[1])


def _is_named(cls: Any) -> bool:
    """Whether a class is a NamedTuple."""
    return tuple in cls.__mro__ and hasattr(cls, "_fields")


def _take_none(x: Any) -> Sequence[Any]:
    if x is not None:
        raise Unlike
    return ()


def _of_dict(keys: list[Any], join: Take | None) -> Take:
    pick, size = picker(keys), len(keys)

    def take(x: Any) -> Sequence[Any]:
        if type(x) is not dict or len(x) != size:  # pyright: ignore[reportUnknownArgumentType]
            raise Unlike
        return pick(x) if join is None else join(pick(x))

    return take


def _of_sequence(cls: type, size: int, join: Take | None) -> Take:
    def take(x: Any) -> Sequence[Any]:
        if type(x) is not cls or len(x) != size:
            raise Unlike
        return x if join is None else join(x)

    return take


def _of_fields(cls: type, names: Sequence[str], join: Take | None) -> Take:
    getters = [operator.attrgetter(n) for n in names]

    def take(x: Any) -> Sequence[Any]:
        if type(x) is not cls:
            raise Unlike
        found = [get(x) for get in getters]
        return found if join is None else join(found)

    return take


def _configured(take: Take, cls: type, settings: Sequence[tuple[str, Setting]]) -> Take:
    """A function for a dataclass whose configuration must be equal to the expected one."""
    wanted = [(operator.attrgetter(name), s.value, s) for name, s in settings]

    def checked(x: Any) -> Sequence[Any]:
        if type(x) is not cls:
            raise Unlike
        for get, value, setting in wanted:
            try:
                found = get(x)
            except AttributeError:
                raise Unlike from None
            if found is not value and Setting(found) != setting:
                raise Unlike
        return take(x)

    return checked


def _by_optree(spec: Spec) -> Take:
    def take(x: Any) -> Sequence[Any]:
        leaves, found = flatten(x)
        if found != spec:
            raise Unlike
        return leaves

    return take


def joined(inner: Sequence[Take | None]) -> Take | None:
    """A function for the leaves of several trees in order; None if each tree is a leaf."""
    if all(within is None for within in inner):
        return None
    if len(inner) == 1 and (only := inner[0]) is not None:
        return lambda xs: only(xs[0])
    plan = list(enumerate(inner))

    def take(xs: Any) -> Sequence[Any]:
        out: list[Any] = []
        for i, within in plan:
            if within is None:
                out.append(xs[i])
            else:
                out += within(xs[i])
        return out

    return take


# -- putting leaves back ---------------------------------------------------------------------------


def putter(node: Any) -> Put:
    """A function that makes a tree like a template from all of its leaves."""
    cls: Any = node.__class__
    if cls is Leaf:
        return operator.itemgetter(node.index)
    if node is None:
        return lambda leaves: None
    if cls is dict:
        return _into_dict(tuple(node), _all(node.values()))
    if cls in (tuple, list):
        return _into(cls, _all(node))
    spec, of = flatten(node)[1], places(node)
    return lambda leaves: unflatten(spec, [leaves[i] for i in of])


def _into(cls: type, inner: Put) -> Put:
    return lambda leaves: cls(inner(leaves))


def _into_dict(keys: tuple[Any, ...], inner: Put) -> Put:
    pairs = functools.partial(zip, keys)
    return lambda leaves: dict(pairs(inner(leaves)))


def _all(nodes: Iterable[Any]) -> Put:
    """Functions that make the children of a node."""
    listed = list(nodes)
    if all(isinstance(x, Leaf) for x in listed):
        return picker([x.index for x in listed])
    inner = [putter(x) for x in listed]
    return lambda leaves: [put(leaves) for put in inner]
