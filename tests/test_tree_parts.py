"""Parts of trees: filters, what is frozen, copies with a part replaced, and equality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError, nn, tree
from dlvm.nn.layers.shown import Layer

KEY = dlvm.random.key(0)
HEAD = ("layers", 2, "weight")


def network(last: int = 1) -> Any:
    return nn.Sequential([nn.Linear(KEY, 2, 3), nn.relu, nn.Linear(KEY, 3, last)])


def paths(found: Any) -> list[Any]:
    return [path for path, _ in tree.leaves_with_path(found)]


class Plain:
    """A model of a class that is no dataclass."""

    def __init__(self) -> None:
        self.parts = [np.ones(2)]


# -- maps ------------------------------------------------------------------------------------------


def test_a_map_takes_parts_whole_that_is_leaf_names():
    pairs = {"a": (1, 2), "b": None}
    assert tree.map(sum, pairs, is_leaf=lambda x: type(x) is tuple) == {"a": 3, "b": None}
    both = tree.map(lambda x, y: (x, y), [None, 1], [{"c": 2}, 3], is_leaf=lambda x: x is None)
    assert both == [(None, {"c": 2}), (1, 3)]
    layers = tree.map(lambda x: x.bias.size, network(), is_leaf=lambda x: isinstance(x, nn.Linear))
    assert [x for x in layers.layers if isinstance(x, int)] == [3, 1]
    with pytest.raises(UserError, match=r"tree_2\['a'\]: expected a Python int"):
        tree.map(lambda x, y: x, {"a": 1}, {"b": 1}, is_leaf=lambda x: False)


# -- filters ---------------------------------------------------------------------------------------


def chosen_in_ways() -> dict[str, Any]:
    net = network()
    mask = tree.map(lambda x: False, net)
    return {
        "function": lambda x: x.shape == (3, 1),
        "mask of paths": tree.map_with_path(lambda path, x: path == HEAD, net),
        "mask of at": tree.at(lambda n: n.layers[2].weight, mask, True),
        "functions": tree.at(lambda n: n.layers[2], mask, lambda x: x.ndim == 2),
    }


@pytest.mark.parametrize("way", chosen_in_ways())
def test_a_filter_is_a_function_or_a_mask_and_both_parts_make_the_tree_again(way: str):
    net = network()
    head, rest = tree.partition(net, chosen_in_ways()[way])
    assert paths(head) == [HEAD] and HEAD not in paths(rest) and len(paths(rest)) == 3
    assert head.layers[1].fn is nn.relu is rest.layers[1].fn
    for again in (tree.combine(head, rest), tree.combine(rest, head)):
        assert again == net and again.layers[0].bias is net.layers[0].bias
    assert tree.partition(net, True) == (net, tree.map(lambda _: None, net))


def test_the_gradient_of_some_leaves_is_that_of_all_of_them_there():
    x, net = np.ones((4, 2), np.float32), network()
    head, rest = tree.partition(net, lambda x: x.shape == (3, 1))

    def loss(head: Any, rest: Any) -> Any:
        return (tree.combine(head, rest)(x) ** 2).sum()

    found, whole = dlvm.grad(loss)(head, rest), dlvm.grad(lambda n: (n(x) ** 2).sum())(net)
    assert paths(found) == [HEAD]
    np.testing.assert_array_equal(found.layers[2].weight, whole.layers[2].weight)


# -- a part replaced -------------------------------------------------------------------------------


def test_a_copy_has_a_leaf_a_subtree_none_or_configuration_replaced():
    net = network()
    wide = tree.at(lambda n: n.layers[2], net, nn.Linear(KEY, 3, 5, bias=False))
    assert wide.layers[2].weight.shape == (3, 5) and wide.layers[0].bias is net.layers[0].bias
    biased = tree.at(lambda n: n.layers[2].bias, wide, np.zeros(5, np.float32))
    assert biased(np.ones((1, 2), np.float32)).shape == (1, 5)
    other = tree.at(lambda n: n.layers[1].fn, net, nn.gelu)
    assert other.layers[1].fn is nn.gelu and net.layers[1].fn is nn.relu
    assert tree.at(lambda t: t["a"], {"a": [1]}, None) == {"a": None}


def test_several_parts_are_replaced_at_once_and_staged():
    w = np.ones(2)
    tied = {"a": w, "b": [w, 3]}  # one object in two places
    found = tree.at(lambda t: (t["a"], t["b"][1]), tied, (5, 6))
    assert (found["a"], found["b"][1]) == (5, 6) and found["b"][0] is w
    doubled = dlvm.function(lambda t: tree.at(tree.leaves, t, replace_fn=lambda x: 2 * x))(tied)
    np.testing.assert_array_equal(doubled["b"][0], [2, 2])
    assert doubled["b"][1] == 6


# -- are they equal --------------------------------------------------------------------------------


def test_networks_are_equal_by_structure_configuration_types_and_elements():
    net, same = network(), network()
    assert net == net and net == same and tree.equal([net], [same]) and same == net
    assert net != network(2) and net != "net" and net != None  # noqa: E711
    assert nn.Dropout(0.1) != nn.Dropout(0.2) and nn.LayerNorm(3) == nn.LayerNorm(3)
    assert net != tree.map(lambda x: x + 1, net) and net != tree.map(np.float64, net)
    assert not tree.equal({"a": 1}, {"b": 1}) and not tree.equal(np.nan, np.array(np.nan))
    with pytest.raises(TypeError, match="unhashable"):
        hash(net)


def test_every_layer_is_equal_as_trees_are():
    layers = [x for x in vars(nn).values() if isinstance(x, type) and issubclass(x, Layer)]
    assert all(cls.__eq__ is Layer.__eq__ for cls in (*layers, *Layer.__subclasses__()))


@dataclass
class Scaled(nn.Linear):
    """A layer of a user, whose decorator says nothing of equality."""

    factor: float = 1.0


@dataclass
class Contrary(nn.Linear):
    """A layer of a user with an equality of its own."""

    def __eq__(self, other: object) -> bool:
        return self is not other


def test_a_layer_of_a_user_is_equal_as_trees_are_or_as_it_says():
    one, same = (Scaled(np.ones((2, 3)), np.ones(3), 2.0) for _ in range(2))
    assert one == same and one != Scaled(np.ones((2, 3)), np.zeros(3), 2.0)
    assert one != Scaled(np.ones((2, 3)), np.ones(3), 3.0)
    assert one != nn.Linear(KEY, 2, 3)
    assert Contrary(np.ones((2, 3)), None) == one


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: tree.partition([1], lambda x: 2), r"gives 2 of type int for tree\[0\]"),
        (lambda: tree.partition({"a": 1}, {"b": True}), "a tree of another structure"),
        (lambda: tree.combine({"a": 1}, {"b": 1}), r"trees differ: tree_2\['a'\]"),
        (lambda: tree.combine(), "there are no trees"),
        (lambda: tree.at(lambda t: t[0], [1]), "one of replace= and replace_fn="),
        (lambda: tree.at(lambda t: 7, [1], 2), "gives 7, which is not one part"),
        (lambda: tree.at(lambda t: (t[0], t[0]), [1], (2, 3)), "not one part"),
        (lambda: tree.at(lambda t: t[0][1], [np.ones(2)], 2), "gives 1 of array"),
        (lambda: tree.at(lambda t: (t[0], t[1]), [1, 2], 3), "gives 2 parts, and replace is 3"),
        (lambda: dlvm.function(lambda x: tree.equal(x, [1.0]))([2.0]), "outside of staged"),
    ],
)
def test_what_is_wrong_is_said(wrong: Any, said: str):
    with pytest.raises(UserError, match=said):
        wrong()


@pytest.mark.parametrize(
    "use",
    [
        lambda m: dlvm.function(lambda m: m.parts[0])(m),
        lambda m: dlvm.optim.sgd(0.1).init({"net": m}) and dlvm.tree.ravel({"net": m}),
        lambda m: dlvm.save("unused", m),
        lambda m: dlvm.function(lambda x: m)(1.0),
    ],
)
def test_an_undecorated_class_is_told_to_become_a_dataclass(use: Any):
    with pytest.raises(UserError, match=r"@dataclasses.dataclass above class Plain.*parts: Any"):
        use(Plain())


def test_a_class_that_follows_the_advice_is_a_model():
    @dataclass
    class Model:
        parts: Any

        def __init__(self) -> None:
            self.parts = [np.ones(2)]

    assert dlvm.grad(lambda m: m.parts[0].sum())(Model()).parts[0].tolist() == [1, 1]
