"""What depends on large constants alone is computed when a program is made, where that pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlvm.ir import F32, Function, Module, Value
from dlvm.ir.interpret import Interpreter
from dlvm.ops import Add, Broadcast, Cast, Constant, DimSize, Exp, Mul, Permute, Reshape, Slice
from dlvm.opt import drop
from dlvm.opt.laws.simplification import constants
from dlvm.opt.regions.preparing import prepare, recipes
from dlvm.passes import run
from tests.opt.building import function


def fixed(array: Any) -> Any:
    array.setflags(write=False)
    return array


LARGE = fixed(np.arange(24 * 100, dtype=np.float32).reshape(2, 3, 4, 100))
WHOLE = fixed((np.arange(2400) % 251 - 125).astype(np.int8).reshape(24, 100))
SCALES = fixed(np.linspace(0.1, 2, 24, dtype=np.float32))


def prepared(made: Callable[[], Value]) -> Module:
    return run(function(made), (prepare, drop))


def scaled() -> Value:
    return Mul(Cast(Constant(WHOLE), F32), Broadcast(Constant(SCALES), (24, 100), (0,)))


KEPT: dict[str, tuple[Any, Any]] = {
    "permuted": (lambda: Permute(Constant(LARGE), (2, 3, 1, 0)), LARGE.transpose(2, 3, 1, 0)),
    "reshaped": (lambda: Reshape(Constant(LARGE), (24, 100)), LARGE.reshape(24, 100)),
    "reversed": (
        lambda: Slice(Constant(LARGE), (1, 0, 0, 99), (2, 3, 4, 100), (-1, 1, 1, -1)),
        LARGE[::-1, ..., ::-1],
    ),
    "turned as the weights of a convolution": (
        lambda: Reshape(Permute(Constant(LARGE), (2, 3, 1, 0)), (1200, 2)),
        LARGE.transpose(2, 3, 1, 0).reshape(1200, 2),
    ),
    "cast": (lambda: Cast(Constant(WHOLE), F32), WHOLE.astype(np.float32)),
    "cast and scaled": (scaled, WHOLE.astype(np.float32) * SCALES[:, None]),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_worth_its_memory_is_a_constant_with_its_recipe(name: str):
    made, expected = KEPT[name]
    module = prepared(made)
    (op,) = module.main.ops
    assert isinstance(op, Constant)
    np.testing.assert_array_equal(op.value, expected)
    assert op.value.flags.c_contiguous and not op.value.flags.writeable
    ((array, recipe),) = recipes(module)
    assert array is op.value and any(recipe.arrays[0] is a for a in (LARGE, WHOLE))
    np.testing.assert_array_equal(recipe(), expected)


LEFT: dict[str, Any] = {
    "what products read as it is": lambda: Permute(Constant(LARGE), (0, 1, 3, 2)),
    "a part": lambda: Slice(Constant(LARGE), (0, 0, 0, 0), (1, 3, 4, 100), (1, 1, 1, 1)),
    "a larger array": lambda: Broadcast(Constant(LARGE), (9, *LARGE.shape), (1, 2, 3, 4)),
    "what machines compute to other bits": lambda: Exp(Constant(LARGE)),
}


@pytest.mark.parametrize("name", LEFT)
def test_others_are_left(name: str):
    module = prepared(LEFT[name])
    assert len(module.main.ops) == 2
    (kept,) = constants(module)
    assert kept is LARGE


def test_a_repetition_of_what_is_kept_is_left_to_the_call():
    fn = prepared(lambda: Broadcast(scaled(), (7, 24, 100), (1, 2))).main
    first, last = fn.ops
    assert isinstance(first, Constant) and isinstance(last, Broadcast)
    assert first.value.shape == (24, 100)


def test_an_array_that_only_preparing_reads_is_no_constant_of_the_program():
    def body(x: Value) -> Value:
        return Add(x, Reshape(scaled(), (2400,)))

    module = run(function(body, "f32[2400]"), (prepare, drop))
    assert [c.dtype for c in constants(module)] == [np.float32]


def test_a_program_computes_the_same_bits():
    def body(x: Value) -> list[Value]:
        turned = Permute(Constant(LARGE), (3, 2, 1, 0))
        return [Mul(Reshape(turned, (100, 24)), x), turned]

    before = function(body, "f32[100,24]")
    after = run(before, (prepare, drop))
    x = np.random.default_rng(0).normal(size=(100, 24)).astype(np.float32)
    pairs = zip(*(Interpreter(m).enter("main", (x,)) for m in (before, after)), strict=True)
    assert all(a.tobytes() == b.tobytes() for a, b in pairs)


def test_a_recipe_computes_the_array_of_others():
    ((_, recipe),) = recipes(prepared(scaled))
    assert [a is b for a, b in zip(recipe.arrays, (WHOLE,), strict=True)] == [True]
    other = fixed(WHOLE[::-1].copy())
    np.testing.assert_array_equal(recipe((other,)), other.astype(np.float32) * SCALES[:, None])


def test_a_function_without_constants_is_the_same_object():
    def twice(x: Value) -> Value:
        return Add(x, x)

    fn: Function = function(twice, "f32[3]").main
    assert run(Module((fn,)), (prepare,)).main is fn


def test_a_size_that_is_open_is_not_computed_here():
    def body(x: Value) -> list[Value]:
        size = Cast(DimSize(x.shape[0]), F32)
        return [x, Mul(Cast(Constant(WHOLE), F32), Broadcast(size, (24, 100), ()))]

    before = function(body, "f32[N]")
    after = run(before, (prepare, drop))
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(Interpreter(after).enter("main", (x,))[1], 3.0 * WHOLE)
