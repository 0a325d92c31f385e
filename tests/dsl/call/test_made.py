"""What is made of a function is made once, and goes when the function goes."""

from __future__ import annotations

import functools
import gc
import weakref

import numpy as np

import dlvm
from dlvm.dsl.call import made

X = np.linspace(0.0, 1.0, 4)


def square(x):
    return (x * x).sum()


class Model:
    def __init__(self, scale=1.0):
        self.scale = scale

    def loss(self, x):
        return self.scale * (x * x).sum()


def test_it_is_made_once():
    assert dlvm.grad(square) is dlvm.grad(square)
    assert dlvm.grad(dlvm.grad(square)) is dlvm.grad(dlvm.grad(square))
    staged = dlvm.function(square)
    assert dlvm.grad(staged) is dlvm.grad(staged) is not dlvm.grad(square)
    model = Model()
    assert dlvm.grad(model.loss) is dlvm.grad(model.loss)


def test_a_function_goes_with_all_that_was_made_of_it():
    def loss(x):
        return (x * x).sum()

    staged = dlvm.function(loss)
    for f in (loss, staged):
        np.testing.assert_allclose(dlvm.grad(f)(X), 2 * X)
        np.testing.assert_allclose(dlvm.hessian(f)(X), 2 * np.eye(4), atol=1e-15)
        pull = dlvm.vjp(f, X)[1]
        np.testing.assert_allclose(pull(np.float64(3.0))[0], 6 * X)
    held = [weakref.ref(x) for x in (loss, staged, dlvm.grad(loss), dlvm.grad(staged))]
    del loss, staged, f, pull
    gc.collect()
    assert [r() for r in held] == [None] * 4


def test_what_wraps_a_function_is_another_one():
    dlvm.grad(square)

    @functools.wraps(square)
    def twice(x):
        return 2 * square(x)

    np.testing.assert_allclose(dlvm.grad(twice)(X), 4 * X)
    np.testing.assert_allclose(dlvm.grad(square)(X), 2 * X)
    assert dlvm.grad(twice) is dlvm.grad(twice)


def test_of_what_holds_nothing_the_last_are_remembered():
    models = [Model(float(k)) for k in range(made.KEPT + 8)]
    for model in models:
        np.testing.assert_allclose(dlvm.grad(model.loss)(X), 2 * model.scale * X)
    scaled = [functools.partial(lambda k, x: k * (x * x).sum(), k) for k in range(3)]
    for k, f in enumerate(scaled):
        np.testing.assert_allclose(dlvm.grad(f)(X), 2 * k * X)
        assert dlvm.grad(f) is dlvm.grad(f)
    held = weakref.ref(models[0])
    del models, model
    gc.collect()
    assert held() is None
