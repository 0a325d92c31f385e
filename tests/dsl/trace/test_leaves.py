"""Leaves taken out and put back without optree: the same as with it, for every structure."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlvm.dsl.trace.leaves import Unlike, putter, taker, template
from dlvm.dsl.trace.trees import flatten, unflatten


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Layer:
    w: Any
    b: Any


Pair = collections.namedtuple("Pair", ["x", "y"])  # as users write it


def trees(leaf: Any) -> Any:
    keys = st.one_of(st.text("abc", max_size=2), st.integers(0, 3))
    return st.recursive(
        st.one_of(leaf, st.none()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(keys, inner, max_size=3),
            st.dictionaries(keys, inner, max_size=3).map(collections.OrderedDict),
            st.dictionaries(keys, inner, max_size=2).map(lambda d: collections.defaultdict(int, d)),
            st.lists(inner, max_size=2).map(collections.deque),
            st.builds(Point, inner, inner),
            st.builds(Pair, inner, inner),
            st.builds(Layer, inner, inner),
        ),
        max_leaves=8,
    )


NUMBERS = st.floats(allow_nan=False)


def walk(pattern: Any, tree: Any) -> list[Any] | None:
    """The leaves of a tree as the structure of another one takes them, None where it does not."""
    take = taker(template(flatten(pattern)[1]))
    try:
        return [tree] if take is None else list(take(tree))
    except (Unlike, KeyError):
        return None


@given(trees(NUMBERS))
def test_leaves_come_out_as_from_optree(tree: Any):
    assert walk(tree, tree) == flatten(tree)[0]


@given(trees(NUMBERS))
def test_a_tree_is_made_as_by_optree(tree: Any):
    leaves, spec = flatten(tree)
    other = [object() for _ in leaves]
    made = putter(template(spec))(other)
    expected = unflatten(spec, other)
    assert flatten(made)[1] == spec and type(made) is type(expected)
    assert all(a is b for a, b in zip(flatten(made)[0], other, strict=True))
    assert str(made) == str(expected)


@given(trees(NUMBERS), trees(NUMBERS))
def test_another_structure_is_refused_or_differs_in_its_leaves(pattern: Any, tree: Any):
    """A structure in the place of a leaf is left to whoever looks at the leaves."""
    found = walk(pattern, tree)
    same = flatten(pattern)[1] == flatten(tree)[1]
    assert not same or found == flatten(tree)[0]
    if found is not None and not same:
        assert any(not isinstance(x, float) for x in found)


@pytest.mark.parametrize(
    ("pattern", "tree"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "c": 2}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": 1}, collections.OrderedDict(a=1)),
        ([1, 2], (1, 2)),
        ([1, 2], [1, 2, 3]),
        ((1, 2), Point(1, 2)),
        (Point(1, 2), Pair(1, 2)),
        (Layer(1, 2), {"w": 1, "b": 2}),
        ({"a": None}, {"a": 1}),
        ({"a": {}}, {"a": 1}),
        ([], None),
        (None, []),
    ],
)
def test_what_is_of_another_kind_is_unlike(pattern: Any, tree: Any):
    assert walk(pattern, tree) is None


def test_keys_may_come_in_another_order():
    assert walk({"a": 1, "b": 2}, {"b": 20, "a": 10}) == [10, 20]
    spec = flatten({"b": 1, "a": 2})[1]
    assert list(putter(template(spec))([1, 2])) == list(unflatten(spec, [1, 2]))
