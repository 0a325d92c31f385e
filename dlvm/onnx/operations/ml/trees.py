"""Ensembles of decision trees: all trees go down one level at a time.

The nodes of all trees are one table. A row of features stands at one node of each tree; a step
moves each to a child, and a leaf is its own child, so that as many steps as the deepest tree has
levels bring all to their leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.dsl.flow.loops import fori_loop
from dlvm.dsl.words.namespace import xp
from dlvm.onnx.operations.operands import kind, shape
from dlvm.onnx.table import Call, operation
from dlvm.onnx.wire import Malformed

from .scores import Array, choose, classes, rows, second_if, transformed, two_columns

COMPARISONS = {
    "BRANCH_LEQ": xp.less_equal,
    "BRANCH_LT": xp.less,
    "BRANCH_GTE": xp.greater_equal,
    "BRANCH_GT": xp.greater,
    "BRANCH_EQ": xp.equal,
    "BRANCH_NEQ": xp.not_equal,
}
LEAF = "LEAF"
NOTHING = {"MIN": np.inf, "MAX": -np.inf}
"""What a leaf gives to a target that it does not name, where that is not 0."""


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees: what each asks of which feature, and its two children by number.

    ``chosen`` has for each node the place of its comparison among ``modes``.
    """

    modes: list[str]
    chosen: Array
    features: Array
    values: Array
    children: tuple[Array, Array]
    missing: Array
    roots: Array
    levels: int


def _numbers(call: Call, name: str, count: int | None = None) -> Array:
    """Numbers of an attribute, which in newer versions may be a tensor."""
    given = call.get(f"{name}_as_tensor")
    found = np.array(call.get(name, ()), np.float32) if given is None else np.asarray(given)
    if count is not None and found.size != count:
        raise Malformed(f"onnx: expected {count} numbers in {name}, found {found.size}")
    return found.reshape(-1)


def _whole(call: Call, name: str, count: int) -> Array:
    found = np.array(call.get(name) or [0] * count, np.int64)
    if found.size != count:
        raise Malformed(f"onnx: expected {count} numbers in {name}, found {found.size}")
    return found


def _trees(call: Call) -> tuple[Trees, dict[tuple[int, int], int]]:
    """The trees of a node, and the numbers of their nodes by tree and id."""
    ids, count = call["nodes_nodeids"], len(call["nodes_nodeids"])
    trees = _whole(call, "nodes_treeids", count)
    number = {(int(t), int(n)): k for k, (t, n) in enumerate(zip(trees, ids, strict=True))}
    modes = call["nodes_modes"]
    leaf = np.array([mode == LEAF for mode in modes])
    children: list[Array] = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        wanted = zip(trees, _whole(call, name, count), strict=True)
        to = [k if leaf[k] else number[int(t), int(n)] for k, (t, n) in enumerate(wanted)]
        children.append(np.array(to, np.int32))
    _, first = np.unique(trees, return_index=True)
    roots = np.sort(first).astype(np.int32)
    names = [m for m in dict.fromkeys(modes) if m != LEAF]
    found = Trees(
        names,
        np.array([names.index(m) if m != LEAF else 0 for m in modes]),
        np.where(leaf, 0, _whole(call, "nodes_featureids", count)).astype(np.int32),
        _numbers(call, "nodes_values", count),
        (children[0], children[1]),
        _whole(call, "nodes_missing_value_tracks_true", count) != 0,
        roots,
        levels(call, roots, children),
    )
    return found, number


def levels(call: Call, roots: Array, children: list[Array]) -> int:
    """The steps from the roots to the deepest leaf; nodes in a circle are refused."""
    at, steps = roots, 0
    while True:
        below = np.unique(np.concatenate([side[at] for side in children]))
        if (below == children[0][below]).all() and np.isin(below, at).all():
            return steps
        at, steps = below, steps + 1
        if steps > len(children[0]):
            raise call.unsupported(
                "a node of its trees is below itself", "export the model again; its file is damaged"
            )


def _leaves(trees: Trees, x: Any) -> Any:
    """The leaf that each row reaches in each tree, (rows, trees)."""
    start = xp.broadcast_to(trees.roots, (shape(x)[0], len(trees.roots)))

    def step(_: Any, at: Any) -> Any:
        def of_node(table: Array) -> Any:
            flat = xp.take(table, xp.reshape(at, (-1,)), axis=0)
            return xp.reshape(flat, (-1, len(trees.roots)))

        asked = xp.take_along_axis(x, of_node(trees.features), axis=1)
        bound = of_node(trees.values.astype(kind(x)))
        true = _answers(trees, of_node, asked, bound)
        if trees.missing.any():
            true = true | (xp.isnan(asked) & of_node(trees.missing))
        return xp.where(true, *map(of_node, trees.children))

    return fori_loop(0, trees.levels, step, start) if trees.levels else start


def _answers(trees: Trees, of_node: Any, asked: Any, bound: Any) -> Any:
    """Whether the comparison of each node holds."""
    found = COMPARISONS[trees.modes[0]](asked, bound)
    for k, name in enumerate(trees.modes[1:], 1):
        found = xp.where(of_node(trees.chosen == k), COMPARISONS[name](asked, bound), found)
    return found


def _weights(
    call: Call, word: str, number: dict[tuple[int, int], int], count: int, empty: float
) -> Array:
    """What each node gives to each target; ``empty`` stands for nothing."""
    given = _numbers(call, f"{word}_weights")
    rows_ = zip(call[f"{word}_treeids"], call[f"{word}_nodeids"], strict=True)
    places = np.array([number[int(t), int(n)] for t, n in rows_], np.int64)
    targets = np.array(call[f"{word}_ids"], np.int64)
    found = np.zeros((len(number), count), given.dtype)
    seen = np.zeros(found.shape, bool)
    np.add.at(found, (places, targets), given)
    seen[places, targets] = True
    return np.where(seen, found, np.asarray(empty, given.dtype))


def _sums(call: Call, x: Any, word: str, count: int, how: str = "SUM") -> Any:
    """The scores of each row by the lists of a node."""
    trees, number = _trees(call)
    return sums(trees, x, _weights(call, word, number, count, NOTHING.get(how, 0.0)), how)


def sums(trees: Trees, x: Any, table: Array, how: str) -> Any:
    """What the leaves of all trees give, by a table (nodes, targets): (rows, targets)."""
    flat = xp.take(table, xp.reshape(_leaves(trees, rows(x)), (-1,)), axis=0)
    given = xp.reshape(flat, (-1, len(trees.roots), table.shape[1]))
    found = {"MIN": xp.min, "MAX": xp.max}.get(how, xp.sum)(given, axis=1)
    if how in NOTHING:  # a target that no leaf names is 0
        found = xp.where(found == NOTHING[how], xp.zeros_like(found), found)
    return found / len(trees.roots) if how == "AVERAGE" else found


@operation("ai.onnx.ml::TreeEnsembleRegressor")
def _regressor(call: Call, x: Any) -> Any:
    how, count = call.get("aggregate_function", "SUM"), call.get("n_targets", 1)
    found, base = _sums(call, x, "target", count, how), _numbers(call, "base_values")
    found = found + base if base.size else found
    return transformed(call, xp.astype(found, np.float32))


@operation("ai.onnx.ml::TreeEnsembleClassifier")
def _classifier(call: Call, x: Any) -> Any:
    base, count = _numbers(call, "base_values"), classes(call)
    if count == 2 and len(set(call["class_ids"])) == 1:
        return _of_two(call, x, base)
    scores = _sums(call, x, "class", count)
    scores = xp.astype(scores + base if base.size else scores, np.float32)
    return choose(call, scores), transformed(call, scores)


def _of_two(call: Call, x: Any, base: Array) -> Any:
    """Two classes of which the trees score one."""
    (scored,) = set(call["class_ids"])
    score = _sums(call, x, "class", 2)[:, scored : scored + 1]
    score = xp.astype(score + base[-1] if base.size else score, np.float32)
    positive = bool((_numbers(call, "class_weights") >= 0).all())
    chosen = score > (0.5 if positive else 0)
    return second_if(call, chosen), two_columns(call, score, positive)
