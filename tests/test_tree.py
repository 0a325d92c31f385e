"""Functions of trees: paths, folds, one vector of all leaves, and lists of trees."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import dlvm
from dlvm import UserError, tree


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Layer:
    w: Any
    bias: Any = None
    kind: str = "relu"


def model():
    return {
        "blocks": [Layer(np.ones((2, 3), np.float32)), Pair(np.arange(3.0), (1, 2.5))],
        "n": np.array(4, np.int32),
    }


PATHS = [("blocks", 0, "w"), ("blocks", 1, "a"), ("blocks", 1, "b", 0), ("blocks", 1, "b", 1)]
PATHS += [("n",)]


def test_a_path_is_the_keys_positions_and_fields_that_lead_to_a_leaf():
    found = tree.leaves_with_path(model())
    assert [path for path, _ in found] == PATHS
    for (_, x), leaf in zip(found, tree.leaves(model()), strict=True):
        np.testing.assert_array_equal(x, leaf)
    assert tree.leaves_with_path(3.0) == [((), 3.0)]
    assert tree.leaves_with_path({"a": None}) == []


def test_a_function_of_path_and_leaf_keeps_none_and_configuration():
    found = tree.map_with_path(lambda path, x, y: (path[-1], y), model(), model())
    assert found["blocks"][0].bias is None and found["blocks"][0].kind == "relu"
    assert found["blocks"][0].w[0] == "w" and found["blocks"][1].b == ((0, 1), (1, 2.5))
    decayed = tree.map_with_path(lambda path, x: path[-1] == "w", {"w": 1.0, "b": {"w": 2.0}})
    assert decayed == {"w": True, "b": {"w": True}}
    assert tree.map_with_path(lambda path, x, y: x + y, [1, 2], [10, None]) == [11, 2]


def test_trees_of_other_structure_are_counted_as_the_user_counts_them():
    with pytest.raises(UserError, match=r"tree_2\['a'\]"):
        tree.map_with_path(lambda path, x, y: x, {"a": 1}, {"b": 1})
    with pytest.raises(UserError, match=r"called with \(path, leaf_0, leaf_1\)"):
        tree.map_with_path(lambda path, x: x, [1], [2])


def test_a_fold_begins_with_the_first_leaf_or_with_what_is_given():
    assert tree.reduce(lambda a, b: [*a, b], {"b": 2, "a": [1, None]}, []) == [1, 2]
    assert tree.reduce(lambda a, b: 10 * a + b, (1, (2, 3))) == 123
    assert tree.reduce(lambda a, b: a, [], None) is None
    with pytest.raises(UserError, match="has no leaves"):
        tree.reduce(lambda a, b: a, [None])
    squares = dlvm.function(lambda t: tree.reduce(lambda a, x: a + (x * x).sum(), t, 0.0))
    assert squares({"a": np.full(3, 2.0), "b": np.array(3.0)}) == 21


# -- one vector ------------------------------------------------------------------------------------


def test_a_vector_holds_all_leaves_and_becomes_the_same_tree_again():
    vector, back = tree.ravel(model())
    np.testing.assert_array_equal(vector, [1] * 6 + [0, 1, 2, 1, 2.5, 4])
    np.testing.assert_array_equal(dlvm.function(lambda t: tree.ravel(t)[0])(model()), vector)
    for made in (back(vector), dlvm.function(back)(vector)):
        assert tree.structure(made) == tree.structure(model())
        for x, y in zip(*map(tree.leaves, (made, model())), strict=True):
            np.testing.assert_array_equal(x, y)
            assert x.dtype == np.asarray(y).dtype and x.shape == np.shape(y)


@pytest.mark.parametrize("dtypes, whole", [("f2 f2", "f2"), ("f4 i2", "f4"), ("f4 f8", "f8")])
def test_elements_promote_to_one_type_and_come_back_in_their_own(dtypes, whole):
    given = [np.arange(3).astype(t) for t in dtypes.split()]
    vector, back = tree.ravel(given)
    assert vector.dtype == np.dtype(whole)
    assert [x.dtype for x in back(vector)] == [x.dtype for x in given]


def test_halves_keep_their_type():
    vector, back = tree.ravel({"w": np.array([1.5, 2], dlvm.bfloat16)})
    assert vector.dtype == dlvm.bfloat16 and back(vector)["w"].dtype == dlvm.bfloat16


def test_a_tree_without_leaves_is_an_empty_vector():
    vector, back = tree.ravel({"a": None, "b": []})
    assert vector.shape == (0,) and back(vector) == {"a": None, "b": []}


def test_both_ways_have_derivatives():
    params = {"w": np.arange(6.0).reshape(2, 3), "b": np.ones(2, np.float32)}
    vector, back = tree.ravel(params)

    def loss(p):
        return (p["w"] ** 2).sum() * p["b"].sum()

    flat = dlvm.grad(lambda v: loss(back(v)))(vector)
    np.testing.assert_array_equal(flat, tree.ravel(dlvm.grad(loss)(params))[0])
    slope = dlvm.grad(lambda p: (tree.ravel(p)[0] ** 2).sum())(params)
    np.testing.assert_array_equal(slope["w"], 2 * params["w"])
    assert slope["b"].dtype == np.float32
    dlvm.testing.gradcheck(lambda v: (back(v)["w"] ** 3).sum(), vector)


def test_sizes_may_be_open():
    @dlvm.function(dynamic={"x": "B,2"})
    def twice(x):
        vector, back = tree.ravel({"x": x, "first": x[0]})
        return back(vector * 2)

    for n in (1, 4):
        x = np.arange(2.0 * n).reshape(n, 2)
        np.testing.assert_array_equal(twice(x)["x"], 2 * x)
        np.testing.assert_array_equal(twice(x)["first"], 2 * x[0])


def test_a_vector_of_other_size_or_type_is_refused():
    _, back = tree.ravel((np.ones(3), np.ones(2)))
    with pytest.raises(UserError, match=r"vector of 5 elements, found the shape \(4,\)"):
        back(np.ones(4))
    with pytest.raises(UserError, match=r"vector of 5 elements, found the shape \(5, 1\)"):
        back(np.ones((5, 1)))
    with pytest.raises(UserError, match="elements of f64, found f32"):
        back(np.ones(5, np.float32))


# -- many trees ------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, -1])
def test_a_list_of_trees_is_a_tree_of_stacked_arrays_and_back(axis):
    def scaled(k):
        return tree.map(lambda x: x * k, {"a": np.arange(3.0), "b": (np.ones((2, 2)), None)})

    trees = [scaled(k) for k in range(4)]
    stacked = tree.stack(trees, axis)
    np.testing.assert_array_equal(stacked["a"], np.stack([t["a"] for t in trees], axis))
    assert stacked["b"][1] is None
    again = dlvm.function(lambda t: tree.unstack(t, axis))
    for found in (tree.unstack(stacked, axis), again(stacked)):
        for t, u in zip(found, trees, strict=True):
            assert tree.structure(t) == tree.structure(u)
            for x, y in zip(*map(tree.leaves, (t, u)), strict=True):
                np.testing.assert_array_equal(x, y)


def test_what_is_stacked_runs_in_a_scan():
    layers = [{"w": np.full((2, 2), k)} for k in (1.0, 2.0, 3.0)]

    @dlvm.function
    def run(layers, x):
        return dlvm.scan(lambda h, p: (h @ p["w"], None), x, tree.stack(layers))[0]

    np.testing.assert_array_equal(run(layers, np.ones(2)), [48, 48])


def test_trees_that_do_not_fit_are_named():
    with pytest.raises(UserError, match=r"tree_1\['a'\] has the shape \(3,\), tree_2\['a'\] has"):
        tree.stack([{"a": np.ones(3)}, {"a": np.ones(2)}])
    with pytest.raises(UserError, match=r"tree_2\['a'\]: expected an array, found nothing"):
        tree.stack([{"a": 1}, {"a": None}])
    with pytest.raises(UserError, match="expected a list of trees, found 3"):
        tree.stack(3)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"tree\['b'\] has 2 slices along axis 0, the leaves"):
        tree.unstack({"a": np.ones(3), "b": np.ones(2)})
    with pytest.raises(UserError, match=r"tree\['a'\] has the shape \(\), and no axis 0"):
        tree.unstack({"a": 1.0})
    assert tree.unstack([]) == []
