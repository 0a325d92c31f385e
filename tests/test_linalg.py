"""Linear algebra without factorisations against NumPy, staged and not, with derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

RNG = np.random.default_rng(0)
A, B, C = (RNG.normal(size=s) for s in ((4, 3, 3), (4, 3, 5), (2, 4, 3)))

CASES = {
    "matmul": (lambda la, x: la.matmul(x, B), A),
    "tensordot": (lambda la, x: la.tensordot(x, C, axes=((0, 2), (1, 2))), A),
    "vecdot": (lambda la, x: la.vecdot(x, C[:, :, None], axis=-1), A),
    "outer": (lambda la, x: la.outer(x[0, 0], x[1, 1]), A),
    "matrix_transpose": (lambda la, x: la.matrix_transpose(x), B),
    "diagonal": (lambda la, x: la.diagonal(x, offset=1), B),
    "trace": (lambda la, x: la.trace(x, offset=-1), B),
    "multi_dot": (lambda la, x: la.multi_dot([x[0, 0], x[0], x[1], B[0]]), A),
    "matrix_power": (lambda la, x: la.matrix_power(x, 5) + la.matrix_power(x, 0), A),
    "cross": (lambda la, x: la.cross(x, x[::-1, ::-1]), A),
    "cross rows": (lambda la, x: la.cross(x, x[::-1] * 2, axis=1), A),
    "2-norm": (lambda la, x: la.vector_norm(x, axis=-1), B),
    "2-norm of all": (lambda la, x: la.vector_norm(x), B),
    "1-norm": (lambda la, x: la.vector_norm(x, axis=(0, 2), ord=1, keepdims=True), B),
    "inf-norm": (lambda la, x: la.vector_norm(x, axis=1, ord=np.inf), B),
    "-inf-norm": (lambda la, x: la.vector_norm(x, axis=1, ord=-np.inf), B),
    "0-norm": (lambda la, x: la.vector_norm(x, axis=1, ord=0) + x[:, 0], B),
    "fro": (lambda la, x: la.matrix_norm(x), B),
    "columns": (lambda la, x: la.matrix_norm(x, ord=1) + la.matrix_norm(x, ord=-1), B),
    "rows": (lambda la, x: la.matrix_norm(x, ord=np.inf, keepdims=True), B),
    "least row": (lambda la, x: la.matrix_norm(x, ord=-np.inf), B),
    "norm": (lambda la, x: la.norm(x) + la.norm(x[0], 1) + la.norm(x[0, 0], np.inf), B),
    "norm along": (lambda la, x: la.norm(x, "fro", (0, 2), keepdims=True), B),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_numpys(name: str):
    program, x = CASES[name]
    expected = program(np.linalg, x)
    np.testing.assert_allclose(program(dlvm.linalg, x), expected, rtol=1e-12)
    np.testing.assert_allclose(
        dlvm.function(lambda x: program(np.linalg, x))(x), expected, rtol=1e-12
    )
    np.testing.assert_allclose(dlvm.vmap(lambda x: program(np.linalg, x))(np.stack([x, x])),
                               np.stack([expected] * 2), rtol=1e-12)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_its_gradient_is_the_slope(name: str):
    program, x = CASES[name]
    w, v = RNG.normal(size=np.shape(program(np.linalg, x))), RNG.normal(size=x.shape)
    found = (dlvm.grad(lambda x: (program(np.linalg, x) * w).sum())(x) * v).sum()
    ends = [(program(np.linalg, x + h * v) * w).sum() for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7)


def test_a_norm_is_flat_at_zero():
    assert not dlvm.grad(lambda x: dlvm.linalg.norm(x))(np.zeros(3)).any()
    assert np.isnan(dlvm.linalg.norm(np.array([1.0, np.nan])))


def test_norms_of_integers_are_floats():
    assert dlvm.linalg.vector_norm(np.array([3, 4])) == 5.0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: dlvm.linalg.matrix_power(np.ones((2, 3)), 2), "2 rows, 3 columns"),
        (lambda: dlvm.linalg.matrix_norm(np.eye(2), ord="max"), "ord='max'"),
        (lambda: dlvm.linalg.cross(np.ones(2), np.ones(2)), "expected 3 elements"),
        (lambda: dlvm.linalg.multi_dot([np.ones((2, 2)), np.ones(2), np.ones(2)]), "vectors first"),
    ],
)
def test_mistakes_are_said_in_words(wrong, words: str):
    with pytest.raises(UserError, match=words):
        wrong()


def test_one_hot_rows_pick_classes():
    labels = np.array([[2, 0], [5, -1]])
    found = dlvm.function(lambda i: dlvm.nn.one_hot(i, 3, dtype="f32"))(labels)
    assert found.dtype == np.float32
    assert np.array_equal(found, np.array([[[0, 0, 1], [1, 0, 0]], [[0, 0, 0], [0, 0, 0]]]))
    assert np.array_equal(dlvm.nn.one_hot(labels, 3, axis=0), np.moveaxis(found, -1, 0))
