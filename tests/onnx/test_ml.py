"""Operations of ai.onnx.ml one by one, in all their modes, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from .test_load import NODE, WHOLE, F, helper, onnx, runtime

tensor = onnx.numpy_helper.from_array
X = np.random.default_rng(2).normal(size=(7, 4)).astype(np.float32)
EDGES = np.array([[0, 0, 0, 0], [1, -2, 0.5, 2], [-1, -2, -3, -4]], np.float32)
GAPS = np.where(X > 0.5, np.float32(np.nan), X)
INTS = np.array([[1, 2], [3, 7], [-1, 2]])
TYPES = {"float32": F, "int64": WHOLE, "float64": onnx.TensorProto.DOUBLE}


def made(op: str, *xs: Any, outputs: int = 1, version: int = 3, **attributes: Any) -> bytes:
    """A model of one operation."""
    names = [f"x{k}" for k in range(len(xs))]
    results = [f"y{k}" for k in range(outputs)]
    node = NODE(op, names, results, domain="ai.onnx.ml", **attributes)
    inputs = [
        helper.make_tensor_value_info(n, TYPES[x.dtype.name], [f"n{n}", *x.shape[1:]])
        for n, x in zip(names, xs, strict=True)
    ]
    kinds = [WHOLE, F] if outputs == 2 else [0]
    ends = [helper.make_tensor_value_info(n, k, None) for n, k in zip(results, kinds, strict=True)]
    if outputs == 1:
        ends = [onnx.ValueInfoProto(name=results[0])]
    graph = helper.make_graph([node], "net", inputs, ends)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def close(op: str, *xs: Any, rtol: float = 1e-5, **how: Any) -> None:
    data = made(op, *xs, **how)
    names = [f"x{k}" for k in range(len(xs))]
    expected = runtime.InferenceSession(data).run(None, dict(zip(names, xs, strict=True)))
    found = dlvm.onnx.load(data)(*xs)
    for a, e in zip(found, expected, strict=True):
        assert a.dtype == e.dtype and a.shape == e.shape
        np.testing.assert_allclose(a, e, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("x", [X, X.astype(np.float64), INTS], ids=["f32", "f64", "i64"])
def test_a_scaler_moves_and_scales(x: Any):
    count = x.shape[1]
    close("Scaler", x, offset=[0.5] * count, scale=[2.0 + k for k in range(count)])
    close("Scaler", x, offset=[0.5], scale=[3.0])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_are_divided_by_their_norm(norm: str):
    close("Normalizer", X, norm=norm)
    close("Normalizer", EDGES[:2], norm=norm)


def test_a_binarizer_cuts_above_its_threshold():
    close("Binarizer", np.round(X), threshold=1.0)


def test_an_imputer_fills_in_what_is_missing():
    nan = float("nan")
    close("Imputer", GAPS, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=nan)
    close("Imputer", GAPS, imputed_value_floats=[9.0], replaced_value_float=nan)
    close("Imputer", EDGES, imputed_value_floats=[9.0], replaced_value_float=-2.0)
    close("Imputer", INTS, imputed_value_int64s=[5, 6], replaced_value_int64=2)


def test_features_are_chosen_and_joined():
    close("ArrayFeatureExtractor", X, np.array([3, 0, 3]))
    close("FeatureVectorizer", X, EDGES[[0] * 7], inputdimensions=[4, 4])
    close("FeatureVectorizer", X, X[:, :2], inputdimensions=[2, 3])


def test_categories_are_columns():
    close("OneHotEncoder", INTS, cats_int64s=[2, 3, 1], zeros=1)
    close("OneHotEncoder", np.array([1.0, 3.0, 8.0], np.float32), cats_int64s=[1, 3], zeros=1)
    with pytest.raises(dlvm.UserError, match="zeros=1"):
        dlvm.onnx.load(made("OneHotEncoder", INTS, cats_int64s=[2], zeros=0))(INTS)
    with pytest.raises(dlvm.UserError, match="text"):
        dlvm.onnx.load(made("OneHotEncoder", INTS, cats_strings=["a"]))(INTS)


def test_labels_are_coded():
    close("LabelEncoder", INTS, keys_int64s=[2, 3, 1], values_int64s=[20, 30, 10])
    close("LabelEncoder", INTS, keys_int64s=[2, 3], values_floats=[0.5, 1.5], default_float=7.0)
    nan = float("nan")
    keys = [nan, *map(float, X[0])]
    options = dict(keys_floats=keys, values_int64s=[5, 4, 3, 2, 1], default_int64=9)
    for version in (3, 4):
        close("LabelEncoder", GAPS, version=version, **options)


TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("count", [2, 3])
def test_a_linear_classifier_scores_every_class(transform: str, count: int):
    weights = np.random.default_rng(3).normal(size=4 * count)
    options = dict(coefficients=weights.tolist(), intercepts=[0.1, -0.2, 0.3][:count])
    options |= dict(post_transform=transform, classlabels_ints=[7, 5, 9][:count])
    close("LinearClassifier", X, outputs=2, **options)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_a_linear_classifier_of_one_score_has_two_classes(transform: str):
    options = dict(coefficients=[1.0, -2.0, 0.5, 0.1], intercepts=[0.1], classlabels_ints=[7, 5])
    close("LinearClassifier", X, outputs=2, post_transform=transform, **options)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_linear_regressor_has_any_number_of_targets(transform: str):
    weights = np.random.default_rng(3).normal(size=12).tolist()
    options = dict(coefficients=weights, intercepts=[0.1, 0.2, 0.3], targets=3)
    close("LinearRegressor", X, post_transform=transform, **options)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_a_support_vector_regressor_has_four_kernels(kernel: str, one_class: int):
    options = dict(kernel_type=kernel, kernel_params=[0.3, 0.2, 2.0], one_class=one_class)
    options |= dict(support_vectors=X[:3].reshape(-1).tolist(), n_supports=3, rho=[0.1])
    close("SVMRegressor", X, coefficients=[0.5, -1.0, 0.25], **options)


def test_support_vector_machines_without_vectors_are_linear():
    options: dict[str, Any] = dict(rho=[0.3], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])
    close("SVMRegressor", X, coefficients=[1.0, -2.0, 0.5, 0.1], **options)
    options["coefficients"] = X[:3].reshape(-1).tolist()
    data = made("SVMClassifier", X, outputs=2, classlabels_ints=[4, 5, 6], **options)
    labels, scores = dlvm.onnx.load(data)(X)
    np.testing.assert_allclose(scores, X @ X[:3].T + 0.3, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(labels, 4 + scores.argmax(1))


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def two_trees(word: str, modes: list[str], missing: int = 0) -> dict[str, Any]:
    """A tree of two levels and one of one."""
    of = dict(
        nodes_treeids=[0] * 5 + [1] * 3,
        nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
        nodes_featureids=[0, 1, 0, 0, 0, 2, 0, 0],
        nodes_modes=[modes[0], modes[1], "LEAF", "LEAF", "LEAF", modes[0], "LEAF", "LEAF"],
        nodes_values=[0.5, float(X[0, 1]), 0, 0, 0, float(X[1, 2]), 0, 0],
        nodes_truenodeids=[1, 3, 0, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[2, 4, 0, 0, 0, 2, 0, 0],
        nodes_missing_value_tracks_true=[missing, 1, 0, 0, 0, missing, 0, 0],
    )
    leaves = {
        "treeids": [0, 0, 0, 0, 1, 1],
        "nodeids": [2, 3, 4, 4, 1, 2],
        "ids": [0, 1, 0, 1, 1, 0],
        "weights": [0.5, 0.25, 0.75, 0.1, 0.3, 0.4],
    }
    return of | {f"{word}_{name}": numbers for name, numbers in leaves.items()}


@pytest.mark.parametrize("mode", MODES)
def test_a_tree_compares_in_six_ways(mode: str):
    close("TreeEnsembleRegressor", X, n_targets=2, **two_trees("target", [mode, mode]))


def test_trees_may_mix_their_ways_and_lack_features():
    for missing in (0, 1):
        trees = two_trees("target", ["BRANCH_LT", "BRANCH_GT"], missing)
        close("TreeEnsembleRegressor", GAPS, n_targets=2, **trees)


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_are_put_together_in_four_ways(how: str):
    trees = two_trees("target", MODES[:2])
    trees["target_nodeids"], trees["target_treeids"] = [2, 3, 4, 1, 2], [0, 0, 0, 1, 1]
    trees["target_ids"], trees["target_weights"] = [0] * 5, [0.5, 0.25, 0.75, 0.3, 0.4]
    options = dict(aggregate_function=how, base_values=[0.125])
    close("TreeEnsembleRegressor", X, n_targets=1, **options, **trees)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_trees_score_classes(transform: str):
    trees = two_trees("class", MODES[:2]) | dict(classlabels_int64s=[4, 6, 8])
    close("TreeEnsembleClassifier", X, outputs=2, post_transform=transform, **trees)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("sign", [1, -1])
def test_trees_that_score_one_class_of_two(transform: str, sign: int):
    trees = two_trees("class", MODES[:2]) | dict(classlabels_int64s=[4, 6], class_ids=[0] * 6)
    trees["class_weights"] = [0.5, 0.25, 0.2 * sign, 0.1, 0.3, 0.4 * sign]
    close("TreeEnsembleClassifier", X, outputs=2, post_transform=transform, **trees)


@pytest.mark.parametrize("how", range(4))
def test_an_ensemble_of_version_5(how: int):
    """Both trees of ``two_trees``: three nodes that compare in different ways, and five leaves."""
    trees = dict(
        n_targets=2,
        aggregate_function=how,
        tree_roots=[0, 2],
        nodes_featureids=[0, 1, 2],
        nodes_modes=tensor(np.array([0, 3, 1], np.uint8)),
        nodes_splits=tensor(np.array([0.5, X[0, 1], X[1, 2]], np.float32)),
        nodes_truenodeids=[1, 1, 3],
        nodes_trueleafs=[0, 1, 1],
        nodes_falsenodeids=[0, 2, 4],
        nodes_falseleafs=[1, 1, 1],
        nodes_missing_value_tracks_true=[1, 0, 1],
        leaf_targetids=[0, 1, 0, 1, 0],
        leaf_weights=tensor(np.array([0.5, 0.25, 0.75, 0.3, 0.4], np.float32)),
    )
    ours = made("TreeEnsemble", X, version=5, **trees)
    for x in (X, GAPS):
        expected = runtime.InferenceSession(ours).run(None, {"x0": x})[0]
        np.testing.assert_allclose(dlvm.onnx.load(ours)(x)[0], expected, rtol=1e-5, atol=1e-6)
    raised = np.exp(dlvm.onnx.load(ours)(X)[0])
    shares = dlvm.onnx.load(made("TreeEnsemble", X, version=5, post_transform=1, **trees))(X)[0]
    np.testing.assert_allclose(shares, raised / raised.sum(1, keepdims=True), rtol=1e-5)


def test_trees_that_go_round_are_refused():
    trees = two_trees("target", MODES[:2])
    trees["nodes_truenodeids"] = [1, 0, 0, 0, 0, 1, 0, 0]
    with pytest.raises(dlvm.UserError, match="below itself"):
        dlvm.onnx.load(made("TreeEnsembleRegressor", X, n_targets=2, **trees))(X)


def test_trees_whose_lists_do_not_fit_are_refused():
    trees = two_trees("target", MODES[:2]) | dict(nodes_values=[0.5])
    with pytest.raises(dlvm.UserError, match="expected 8 numbers in nodes_values, found 1"):
        dlvm.onnx.load(made("TreeEnsembleRegressor", X, n_targets=2, **trees))(X)
