"""NumPy code stages as it is, public functions work on plain arrays, new operations come alone."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

X = np.random.default_rng(2).normal(size=(4, 3))
I = np.array([2, 0, 0, 1])  # noqa: E741


def same(f, *args):
    staged, plain = dlvm.function(f)(*args), f(*args)
    for a, b in zip(dlvm.tree.leaves(staged), dlvm.tree.leaves(plain), strict=True):
        assert np.allclose(a, b, equal_nan=True)
        assert a.dtype == np.asarray(b).dtype


def test_numpy_functions():
    def f(x, y):
        a = np.where(x > 0, np.exp(x), np.tanh(x))
        b = np.concatenate([a, np.stack([y, y])], axis=0)
        c = np.maximum(b, 0).sum(axis=1, keepdims=True)
        d = np.matmul(b, np.transpose(a)) + np.reshape(y, (1, 3)) @ a.T
        return a, b, c, d, np.mean(x, axis=0), np.argmax(x, axis=1), np.squeeze(c), np.sum(x)

    same(f, X, X[0])


def test_numpy_operands_on_the_left():
    def f(x):
        return np.float32(2) * x, np.ones(3) + x, np.arange(3.0) @ x.T, 2 - x, 1 / x, np.sqrt(x * x)

    same(f, X)


def test_numpy_functions_with_two_results_and_logic():
    def f(x):
        whole, fraction = np.modf(x)
        both = (x > 0) & (x < 1) | ~(whole > 0)
        return whole, fraction, both, np.logical_not(both), np.all(both, axis=0), np.any(both)

    same(f, X)


def test_indexing_reads():
    def f(x, i):
        return (
            x[1],
            x[-1, 0],
            x[1:3, ::-1],
            x[..., None, 0],
            x[I[:2]],
            x[:, I[:2]],
            x[i],
            x[i, 1],
            x[np.array([0, 1]), np.array([1, 2])],
            np.take(x, I, axis=0),
            x[0:0],
        )

    same(f, X, np.int64(2))


def test_changed_copies():
    f = dlvm.function(
        lambda x, i, v: (
            dlvm.at(x, i).add(v),
            x.at[i].set(0.0),
            x.at[0, 1:].add(5.0),
            x.at[I, 0].set(-1.0),
            x.at[np.array([9]), :].get(mode="clip"),
            x.at[np.array([9]), :].set(1.0, mode="drop"),
        )
    )
    added, cleared, part, column, clipped, dropped = f(X, I, X)
    expected = X.copy()
    np.add.at(expected, I, X)
    assert np.allclose(added, expected)
    assert np.allclose(dlvm.at(X, I).add(X), expected)
    expected = X.copy()
    expected[I] = 0
    assert np.array_equal(cleared, expected)
    expected = X.copy()
    expected[0, 1:] += 5
    assert np.array_equal(part, expected)
    expected = X.copy()
    expected[I, 0] = -1
    assert np.array_equal(column, expected)
    assert np.array_equal(clipped, X[[3]])
    assert np.array_equal(dropped, X)


def test_creation_gives_staged_values_in_a_trace_and_arrays_outside():
    def f(x):
        made = (
            dlvm.zeros((2, 3)),
            dlvm.ones(2, dtype=np.float32),
            dlvm.full((2,), 7),
            dlvm.arange(5),
            dlvm.arange(5, 0, -2),
            dlvm.arange(0.0, 1.0, 0.25),
            dlvm.eye(3),
            dlvm.zeros_like(x),
            dlvm.broadcast_to(x[0], (2, 3)),
        )
        return [m + 0 for m in made]

    same(f, X)
    assert type(dlvm.zeros(3)) is np.ndarray
    assert dlvm.zeros(3).dtype == np.float64
    assert dlvm.arange(3).dtype == np.int64


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), -1])
@pytest.mark.parametrize("name", ["sum", "mean", "max"])
def test_reductions(name, axis):
    for keep in (False, True):
        expected = getattr(np, name)(X, axis=axis, keepdims=keep)
        assert np.allclose(getattr(dlvm, name)(X, axis=axis, keepdims=keep), expected)
        f = dlvm.function(lambda x, k=keep: getattr(x, name)(axis=axis, keepdims=k))
        assert np.allclose(f(X), expected)


def test_batched_products():
    def f(a, b, v):
        return a @ b, a @ b[0], a[0] @ v, v @ b, v @ v, a[:, None] @ b

    rng = np.random.default_rng(0)
    same(f, rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4, 5)), rng.normal(size=4))


def test_activations_and_losses():
    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    nn = dlvm.nn
    assert np.allclose(nn.softmax(X), softmax(X))
    assert np.allclose(nn.log_softmax(X, axis=0), np.log(softmax(X.T)).T)
    assert np.array_equal(nn.relu(X), np.maximum(X, 0))
    assert np.allclose(nn.sigmoid(X), 1 / (1 + np.exp(-X)))
    assert np.allclose(nn.cross_entropy(X, I), -np.log(softmax(X))[np.arange(4), I])
    assert np.array_equal(dlvm.grad(lambda x: nn.relu(x).sum())(np.array([-1.0, 0, 2])), [0, 0, 1])
    for name in ("softmax", "log_softmax", "relu", "sigmoid"):
        f = dlvm.function(lambda x, name=name: getattr(nn, name)(x))
        assert np.allclose(f(X), getattr(nn, name)(X))


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError, match=r"(?s)no attribute 'tnah'.*did you mean dlvm\.tanh\?"):
        dlvm.tnah(1)
    assert {"exp", "sum", "grad", "where", "modf"} <= set(dir(dlvm))


def test_an_operation_class_alone_makes_the_public_name_and_the_numpy_function():
    program = """
        import numpy as np
        from typing import Any
        import dlvm
        from dlvm.ir import Array, Value
        from dlvm.ops import Elementwise

        class FloatPower(Elementwise):
            "Stands in for float_power: a power of floats."
            name = "float_power"
            accepts = "f"
            x: Value
            y: Value
            def reference(self, *operands: Array) -> Any:
                return np.float_power(*operands)
            def adjoint(self, *dy: Value):
                return dy[0] * self.y * self / self.x, None
            def scalar(self, s, *x):
                return s.binary("pow", *x)

        x = np.array([3.0, 5.0])
        f = dlvm.function(lambda x: (dlvm.float_power(x, 2.0), np.float_power(x, 2.0)))
        assert np.allclose(f(x), [[9, 25], [9, 25]])
        assert np.allclose(dlvm.float_power(x, 2.0), [9, 25])
        assert np.allclose(dlvm.grad(lambda x: dlvm.float_power(x, 2.0).sum())(x), [6, 10])
        assert "power of floats" in dlvm.float_power.__doc__ and "float_power" in dir(dlvm)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_a_list_of_numbers_is_told_as_one_of_arrays_is():
    x = np.array([1.0, 3.0])
    with pytest.raises(UserError, match=r"write dlvm\.max\(dlvm\.stack\(\(x\[0\], x\[1\]\)\)\)"):
        dlvm.function(lambda x: np.max((x[0], x[1])))(x)
    assert dlvm.function(lambda x: dlvm.max(dlvm.stack((x[0], x[1]))))(x) == 3


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint16", "uint64", "float16"])
def test_fabs_gives_floats(dtype: str):
    x = np.array([1, 0, 3]).astype(dtype)
    for found in (dlvm.fabs(x), dlvm.function(lambda x: np.fabs(x))(x)):
        assert found.dtype == np.fabs(x).dtype and np.array_equal(found, np.fabs(x))
    assert dlvm.fabs(np.int8(-128)) == 128
