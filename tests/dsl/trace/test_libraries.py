"""Functions and tensors of other array libraries, by stand-ins that follow their protocols."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

X = np.arange(3.0)
JAX = """
import numpy as np

class Array:
    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return self.a

    def __mul__(self, other):
        return deferring_binary_op(self, other)

def deferring_binary_op(self, other):
    if hasattr(other, "__jax_array__"):
        other = other.__jax_array__()
    return Array(self.a * other.a) if isinstance(other, Array) else NotImplemented

def sin(x):
    return _checked(x)

def logical_fusion(x):
    return _checked(x)

def _checked(x):
    try:
        if getattr(x, "__jax_array__", None) is not None:
            raise ValueError("Triggering __jax_array__() is no longer supported")
    except TypeError as error:
        raise TypeError(f"Error interpreting an argument: {type(error)}")
    return Array(np.sin(x.a))

def _operator_mul(self, other):
    m = getattr(other, "__jax_array__", None)
    if m is not None:
        other = m()
    return Array(self.a * other.a) if isinstance(other, Array) else NotImplemented

class ArrayImpl(Array):
    __mul__ = _operator_mul
"""
TORCH = """
import numpy as np

class Tensor:
    def __init__(self, a, requires_grad=False):
        self.a, self.requires_grad = a, requires_grad

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.a

    def detach(self):
        return Tensor(self.a)

    def numpy(self):
        return self.__array__()

    def __mul__(self, other):
        try:
            return asked(mul, other)
        except TypeError:
            return NotImplemented

def asked(func, x):
    if hasattr(type(x), "__torch_function__"):
        return type(x).__torch_function__(func, (type(x),), (x,), {})
    raise TypeError("must be Tensor")

def mul(x):
    return asked(mul, x)

def sin(x):
    return asked(sin, x)

def clamp(x):
    return asked(clamp, x)
"""


OPTAX = """
import sys

def _computed(x):
    return sys.modules["jax.numpy"].sin(x)

def cosine_decay_schedule(rate, steps):
    def schedule(count):
        return rate * _computed(count)
    return schedule

def scale_by_adam():
    return Transformation(lambda updates, state, params=None: (_computed(updates), state))

def scale_by_novograd():
    return Transformation(lambda updates, state, params=None: (_computed(updates), state))

def chain(*parts):
    def update_fn(updates, state, params=None):
        for part in parts:
            updates, state = part.update(updates, state, params)
        return updates, state
    return Transformation(update_fn)

def apply_updates(params, updates):
    return _computed(params)

class Transformation:
    def __init__(self, update):
        self.update = update

    def init(self, params):
        return ()
"""


def stand_in(name: str, text: str) -> Any:
    """A module of this name; its frames are of the library, as those of the real one."""
    module = types.ModuleType(name)
    exec(compile(text, f"/site-packages/{name}.py", "exec"), module.__dict__)
    return module


@pytest.fixture
def jnp(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = stand_in("jax.numpy", JAX)
    monkeypatch.setitem(sys.modules, "jax.numpy", module)
    return module


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = stand_in("torch", TORCH)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_a_function_of_jax_is_told_by_the_name_of_ours(jnp: Any):
    with pytest.raises(UserError, match=r"jax's sin can't be staged(?s:.*)help: write dlvm\.sin"):
        dlvm.function(lambda x: jnp.sin(x))(X)
    with pytest.raises(UserError, match="call it outside of staged functions"):
        dlvm.function(lambda x: jnp.logical_fusion(x))(X)
    with pytest.raises(TypeError, match=r"test_libraries\.py"):
        dlvm.function(lambda x: jnp.sin(x))(X)


@pytest.fixture
def optax(jnp: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = stand_in("optax", OPTAX)
    monkeypatch.setitem(sys.modules, "optax", module)
    return module


def stepped(optimizer: Any) -> Any:
    state = optimizer.init(X)
    return dlvm.function(lambda g, s: optimizer.update(g, s, X))(X, state)


def test_optimisers_and_schedules_of_optax_are_told_by_the_names_of_ours(optax: Any):
    adam = optax.chain(optax.scale_by_adam())
    for optimizer in (adam, dlvm.optim.chain(dlvm.optim.clip(1.0), adam)):
        with pytest.raises(UserError, match="optax's scale_by_adam can't be staged") as caught:
            stepped(optimizer)
        assert "help: write dlvm.optim.scale_by_adam; optimisers" in str(caught.value)
        assert "--> test_libraries.py" in str(caught.value)
    rate = optax.cosine_decay_schedule(0.1, 10)
    for made in (dlvm.optim.adam, dlvm.optim.scale_by_schedule):
        with pytest.raises(UserError, match=r"help: write dlvm\.optim\.cosine_decay_schedule"):
            stepped(made(rate))


def test_what_only_optax_has_is_told_by_its_name(optax: Any):
    with pytest.raises(UserError, match=r"optax's scale_by_novograd can't(?s:.*)help: call it out"):
        stepped(optax.chain(optax.scale_by_novograd()))
    with pytest.raises(UserError, match=r"optax's apply_updates can't(?s:.*)dlvm\.optim\.apply"):
        dlvm.function(lambda x: optax.apply_updates(x, x))(X)


def test_a_function_of_torch_is_told_by_the_name_of_ours(torch: Any):
    with pytest.raises(UserError, match=r"torch's sin can't(?s:.*)help: write dlvm\.sin"):
        dlvm.function(lambda x: torch.sin(x))(X)
    with pytest.raises(UserError, match=r"torch's clamp can't be staged"):
        dlvm.function(lambda x: torch.clamp(x))(X)


def test_arrays_of_others_are_captured_on_either_side_of_an_operator(jnp: Any, torch: Any):
    for other in (jnp.ArrayImpl(X), jnp.Array(X), torch.Tensor(X)):
        assert np.array_equal(dlvm.function(lambda x, o=other: o * x)(X), X * X)
        assert np.array_equal(dlvm.function(lambda x, o=other: x * o)(X), X * X)
        assert np.array_equal(dlvm.function(lambda x: x * x)(other), X * X)


def test_a_tensor_that_requires_a_gradient_is_detached_as_its_message_says(torch: Any):
    t = torch.Tensor(X, requires_grad=True)
    calls = (
        lambda t: dlvm.function(lambda x: x * 2)(t),
        lambda t: dlvm.function(lambda x: x * t)(2.0 * np.ones(3)),
        lambda t: dlvm.function(lambda d: d["t"] * 2)({"t": t}),
        lambda t: dlvm.multiply(t, 2.0),
        lambda t: dlvm.grad(lambda x: (x * x).sum())(t),
    )
    for call in calls:
        with pytest.raises(UserError, match=r"requires a gradient(?s:.*)\.detach\(\)\.numpy\(\)"):
            call(t)
        assert np.array_equal(call(t.detach().numpy()), X * 2)


def test_an_error_of_the_user_in_the_place_of_ours_is_the_users():
    def f(x: Any) -> Any:
        try:
            return float(x)
        except UserError:
            raise ValueError("x must be known")  # noqa: B904  # it is what the test is about

    with pytest.raises(ValueError, match="x must be known") as told:
        dlvm.function(f)(1.0)
    assert not isinstance(told.value, UserError)
