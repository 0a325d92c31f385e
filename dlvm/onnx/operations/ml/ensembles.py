"""TreeEnsemble of version 5: trees whose nodes and leaves are numbered apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.operations.operands import kind
from dlvm.onnx.table import Call, operation
from dlvm.onnx.wire import Malformed

from .scores import Array, transform
from .trees import COMPARISONS, NOTHING, Trees, levels, sums

WAYS = ["AVERAGE", "SUM", "MIN", "MAX"]
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


@operation("ai.onnx.ml::TreeEnsemble")
def _ensemble(call: Call, x: Any) -> Any:
    leaves = np.asarray(call["leaf_weights"])
    trees = _trees(call, leaves.size)
    how: str = WAYS[int(call.get("aggregate_function", 1))]
    empty = np.asarray(NOTHING.get(how, 0.0), leaves.dtype)
    table = np.full((len(trees.chosen), call["n_targets"]), empty)
    places = len(trees.chosen) - leaves.size + np.arange(leaves.size)
    table[places, call["leaf_targetids"]] = leaves
    scores = xp.astype(sums(trees, x, table, how), kind(x))
    return transform(call, TRANSFORMS[int(call.get("post_transform", 0))], scores)


def _trees(call: Call, leaves: int) -> Trees:
    """The nodes in front, then the leaves, each of which is its own child."""
    asked = np.asarray(call["nodes_modes"])
    if (asked >= len(COMPARISONS)).any():
        raise call.unsupported(
            "its trees ask whether a feature is in a set", "write each member as a node of its own"
        )
    count, own = asked.size, asked.size + np.arange(leaves)

    def padded(name: str, dtype: Any) -> Array:
        given = np.array(call.get(name, [0] * count))
        if given.size != count:
            raise Malformed(f"onnx: expected {count} numbers in {name}, found {given.size}")
        return np.concatenate([given, np.zeros(leaves)]).astype(dtype)

    def children(side: str) -> Array:
        to = padded(f"nodes_{side}nodeids", np.int32)
        to += np.where(padded(f"nodes_{side}leafs", bool), count, 0).astype(np.int32)
        to[count:] = own
        return to

    sides = children("true"), children("false")
    if not all((side >= 0).all() and (side < count + leaves).all() for side in sides):
        raise Malformed(f"onnx: expected children below {count + leaves} in nodes of trees")
    roots = np.array(call["tree_roots"], np.int32)
    return Trees(
        list(COMPARISONS),
        np.concatenate([asked, np.zeros(leaves, asked.dtype)]),
        padded("nodes_featureids", np.int32),
        padded("nodes_splits", np.asarray(call["nodes_splits"]).dtype),
        sides,
        padded("nodes_missing_value_tracks_true", bool),
        roots,
        levels(call, roots, [*sides]),
    )
