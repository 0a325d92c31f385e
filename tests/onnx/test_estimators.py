"""Estimators of scikit-learn as skl2onnx writes them, beside ONNX Runtime."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import dlvm

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")
pytest.importorskip("sklearn", reason="pip install scikit-learn to run these tests")
pytest.importorskip("skl2onnx", reason="pip install skl2onnx to run these tests")

import skl2onnx
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from .test_load import runtime

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4)).astype(np.float32)
NUMBERS = 2 * X[:, 0] + X[:, 1] ** 2
TWO = (X[:, 0] + X[:, 2] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
SMALL = dict(n_estimators=8, random_state=0)
TREE = dict(max_depth=4, random_state=0)

ESTIMATORS: dict[str, tuple[Any, Any]] = {
    "LinearRegression": (LinearRegression(), NUMBERS),
    "LinearRegression of two": (LinearRegression(), np.stack([NUMBERS, X[:, 3]], 1)),
    "Ridge": (Ridge(), NUMBERS),
    "LogisticRegression": (LogisticRegression(), TWO),
    "LogisticRegression of three": (LogisticRegression(), THREE),
    "SVC": (SVC(), TWO),
    "SVC of three": (SVC(), THREE),
    "SVC with probabilities": (SVC(probability=True, random_state=0), THREE),
    "SVC with two probabilities": (SVC(probability=True, random_state=0), TWO),
    "SVC of polynomials": (SVC(kernel="poly"), THREE),
    "SVR": (SVR(), NUMBERS),
    "SVR of sigmoids": (SVR(kernel="sigmoid"), NUMBERS),
    "OneClassSVM": (OneClassSVM(), None),
    "DecisionTreeClassifier": (DecisionTreeClassifier(**TREE), THREE),
    "DecisionTreeRegressor": (DecisionTreeRegressor(**TREE), NUMBERS),
    "RandomForestClassifier": (RandomForestClassifier(**SMALL), TWO),
    "RandomForestClassifier of three": (RandomForestClassifier(**SMALL), THREE),
    "RandomForestRegressor": (RandomForestRegressor(**SMALL), NUMBERS),
    "GradientBoostingClassifier": (GradientBoostingClassifier(**SMALL), TWO),
    "GradientBoostingClassifier of three": (GradientBoostingClassifier(**SMALL), THREE),
    "GradientBoostingRegressor": (GradientBoostingRegressor(**SMALL), NUMBERS),
    "IsolationForest": (IsolationForest(n_estimators=3, random_state=0), None),
    "StandardScaler": (StandardScaler(), None),
    "MinMaxScaler": (MinMaxScaler(), None),
    "Normalizer": (Normalizer(), None),
    "PCA": (PCA(2), None),
    "KMeans": (KMeans(3, n_init=1, random_state=0), None),
    "KNeighborsClassifier": (KNeighborsClassifier(), THREE),
    "GaussianNB": (GaussianNB(), THREE),
    "MLPClassifier": (MLPClassifier((8,), max_iter=50, random_state=0), THREE),
    "scaled, projected, classified": (
        make_pipeline(StandardScaler(), PCA(2), LogisticRegression()),
        THREE,
    ),
    "filled in and classified": (make_pipeline(SimpleImputer(), MinMaxScaler(), SVC()), TWO),
    "filled in and grown": (
        make_pipeline(SimpleImputer(strategy="median"), RandomForestRegressor(**SMALL)),
        NUMBERS,
    ),
}
"""An estimator and what it is fitted to beside X."""


def exported(name: str, **options: Any) -> bytes:
    estimator, target = ESTIMATORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X) if target is None else estimator.fit(X, target)
        made = skl2onnx.to_onnx(
            estimator,
            X[:1],
            options={id(estimator): options} if options else None,
            target_opset={"": 18, "ai.onnx.ml": 3},
        )
    return made.SerializeToString()


def columns(expected: Any) -> Any:
    """An output of ONNX Runtime as an array: a list of dicts has a column for each class."""
    if not isinstance(expected, list):
        return expected
    return np.array([[row[k] for k in sorted(row)] for row in expected], np.float32)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_runs_for_any_number_of_rows(name: str):
    data = exported(name)
    m, session = dlvm.onnx.load(data), runtime.InferenceSession(data)
    for rows in (80, 1):
        found = m(X[:rows])
        expected = session.run(None, {session.get_inputs()[0].name: X[:rows]})
        for a, e in zip(found, map(columns, expected), strict=True):
            assert a.dtype == e.dtype
            np.testing.assert_allclose(a, e, rtol=1e-4, atol=2e-5)
    empty = m(X[:0])
    assert [a.shape for a in empty] == [(0, *a.shape[1:]) for a in found]
    assert len(m.programs) == 1, "one for all numbers of rows"


@pytest.mark.parametrize("name", ["filled in and classified", "filled in and grown"])
def test_missing_values_are_filled_in(name: str):
    data = exported(name)
    x = X.copy()
    x[::3, 1] = x[::5, 3] = np.nan
    session = runtime.InferenceSession(data)
    expected = session.run(None, {session.get_inputs()[0].name: x})
    for a, e in zip(dlvm.onnx.load(data)(x), map(columns, expected), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=2e-5)


def test_scores_are_columns_with_and_without_a_dict_for_each_row():
    name = "LogisticRegression of three"
    found = [dlvm.onnx.load(data)(X) for data in (exported(name), exported(name, zipmap=False))]
    assert found[0][1].shape == (80, 3)
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_labels_of_text_are_refused_with_a_way_out():
    estimator = LogisticRegression().fit(X, np.array(["no", "yes"])[TWO])
    data = skl2onnx.to_onnx(estimator, X[:1], target_opset={"": 18, "ai.onnx.ml": 3})
    with pytest.raises(dlvm.UserError, match="STRING") as caught:
        dlvm.onnx.load(data.SerializeToString())
    assert "LabelEncoder" in str(caught.value)


def test_scores_have_gradients_with_respect_to_features():
    m = dlvm.onnx.load(exported("SVR"))

    def total(x: Any) -> Any:
        return m.function(m.weights, x)[0].sum()

    dlvm.testing.gradcheck(total, X[:3])
