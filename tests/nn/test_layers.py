"""Layers give what PyTorch's and JAX's give: values and gradients, in every float type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.testing import gradcheck

from .drawn import RATE, SHAPES, STEPS, arguments, cotangent, parameters
from .ours import LAYERS, call, lstm_loss, transformer_loss

STORED = dict(np.load(Path(__file__).with_name("stored.npz")))
CASES = sorted(SHAPES)


def results(name: str) -> list[np.ndarray]:
    """What the other library gives."""
    return [
        STORED[f"{name}/out/{i}"] for i in range(sum(f"{name}/out/{i}" in STORED for i in range(9)))
    ]


def gradients(name: str) -> dict[str, np.ndarray]:
    """Its gradients, by argument."""
    start = f"{name}/grad/"
    return {k.removeprefix(start): g for k, g in STORED.items() if k.startswith(start)}


def both(name: str):
    """A staged function: results, and the gradient of all of them times their cotangents."""

    def total(given):
        found = call(name)(given)
        return sum((y * cotangent(y.shape).astype(y.dtype)).sum() for y in found), found

    def run(given):
        grads, found = dlvm.grad(total, has_aux=True)(given)
        return found, grads

    return dlvm.function(run)


def test_each_case_has_stored_results_and_each_result_a_case():
    assert (
        {k.partition("/")[0] for k in STORED} - {"init", "dropout", "f32", "trained"}
        == set(CASES)
        == set(LAYERS)
    )
    assert all(results(name) and gradients(name) for name in CASES)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_other_library(name: str):
    found, grads = both(name)(arguments(name))
    for a, b in zip(found, results(name), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    for word, b in gradients(name).items():
        np.testing.assert_allclose(grads[word], b, rtol=1e-9, atol=1e-12, err_msg=word)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CASES)
def test_in_f32_they_keep_their_digits(name: str):
    given = {a: x.astype(np.float32) for a, x in arguments(name).items()}
    found, grads = both(name)(given)
    for a, b in zip(found, results(name), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)
    for word, b in gradients(name).items():
        assert grads[word].dtype == np.float32
        np.testing.assert_allclose(grads[word], b, rtol=1e-5, atol=1e-5, err_msg=word)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_half_precisions_stay_what_they_are(name: str, dtype: type):
    given = {a: x.astype(dtype) for a, x in arguments(name).items()}
    digits = 2e-2 if dtype is np.float16 else 1.5e-1
    wide = dlvm.function(call(name))({a: x.astype(np.float64) for a, x in given.items()})
    for a, b in zip(dlvm.function(call(name))(given), wide, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a.astype(float), b, rtol=digits, atol=digits)


@pytest.mark.parametrize("name", CASES)
def test_outside_of_a_staged_function_they_are_the_same(name: str):
    given = arguments(name)
    for a, b in zip(call(name)(given), dlvm.function(call(name))(given), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_to_second_order_are_those_of_differences(name: str, monkeypatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    f = call(name)
    # No derivative flows through the new running statistics.
    smooth = (lambda given: f(given)[0]) if name == "batch_norm_training" else f
    gradcheck(smooth, arguments(name), order=2, elements=2)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CASES)
def test_a_batch_of_calls_is_its_rows(name: str):
    first = arguments(name)
    second = {a: x[..., ::-1] * 0.75 + 0.05 for a, x in first.items()}
    pairs = {a: np.stack([x, second[a]]) for a, x in first.items()}
    found = dlvm.function(dlvm.vmap(call(name)))(pairs)
    for k, ys in enumerate(found):
        for i, given in enumerate((first, second)):
            np.testing.assert_allclose(ys[i], call(name)(given)[k], rtol=1e-10, atol=1e-12)


OPEN = [
    name
    for name in CASES
    if name not in ("embedding", "cross_entropy", "attention_of_one")
    and name not in ("attention_masked", "attention_blind")
    and not name.startswith("cross_entropy_of_all")
    and name != "cross_entropy_mean"
]
"""Cases whose first axis is that of examples, and has no captured array beside it."""
BATCHED = {"x", "xs", "h", "c", "q", "k", "v", "t", "p", "logits"}


@pytest.mark.parametrize("name", OPEN)
def test_the_number_of_examples_may_be_open(name: str):
    given = arguments(name)
    spec = {
        a: dlvm.spec(
            f"f64[{','.join(['B' if a in BATCHED else str(x.shape[0]), *map(str, x.shape[1:])])}]"
        )
        for a, x in given.items()
    }
    module = dlvm.trace(call(name), spec)
    leaves = dlvm.tree.leaves(given)
    for a, b in zip(module.run(module.main.name, *leaves), results(name), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith("attention")])
def test_attention_is_that_of_jax_with_its_masks(name: str):
    (found,) = call(name)(arguments(name))
    np.testing.assert_allclose(found, STORED[f"f32/{name}"], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name, loss", [("lstm", lstm_loss), ("transformer", transformer_loss)])
def test_fifty_steps_of_gradient_descent_are_those_of_pytorch(name: str, loss: Any):
    @dlvm.function(donate=("params",))
    def step(params):
        value, slope = dlvm.value_and_grad(lambda params: loss(**params))(params)
        return dlvm.tree.map(lambda p, d: p - RATE * d, params, slope), value

    params, losses = parameters(name), []
    for _ in range(STEPS):
        params, value = step(params)
        losses.append(value)
    np.testing.assert_allclose(losses, STORED[f"trained/{name}/losses"], rtol=1e-9)
    assert losses[-1] < 0.75 * losses[0]
    for word, x in params.items():
        last = STORED[f"trained/{name}/last/{word}"]
        np.testing.assert_allclose(x, last, rtol=1e-9, atol=1e-11, err_msg=word)


def test_initialisers_draw_the_numbers_of_jax():
    made, key = nn.initializers, dlvm.random.key(7)
    inits = {
        n: getattr(made, n)() for n in made.__all__ if n.startswith(("glorot", "he_", "lecun"))
    }
    inits |= {"uniform": made.uniform(0.5), "normal": made.normal(0.5)}
    inits |= {"truncated_normal": made.truncated_normal(0.5, lower=-1.0, upper=1.5)}
    stored = {k.removeprefix("init/"): x for k, x in STORED.items() if k.startswith("init/")}
    assert set(stored) == set(inits)
    for name, b in stored.items():
        a = inits[name](key, b.shape, "f32")
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-7, err_msg=name)


def test_dropout_draws_the_places_of_jax():
    x = np.arange(1.0, 41.0)
    found = dlvm.function(nn.dropout)(dlvm.random.key(7), x, 0.3)
    np.testing.assert_allclose(found, np.where(STORED["dropout/kept"], x / 0.7, 0), rtol=1e-15)
