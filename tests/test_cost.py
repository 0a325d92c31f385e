"""Flops and bytes follow from the formulas of the operations."""

from __future__ import annotations

import pytest

from dlvm.cost import flops, size_in_bytes
from dlvm.ir import F32, Op, TensorType, Value
from dlvm.ir.sizes import dims
from dlvm.ops import (
    Broadcast,
    Cond,
    Equal,
    LogSumExp,
    Matmul,
    Max,
    Modf,
    Scan,
    Select,
    Sum,
    Tanh,
)
from tests.opt.building import function, region

B = dims.symbol("B")


def last(body, *types: str) -> Op:
    """The last operation of a function."""
    return function(body, *types).main.ops[-1]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (last(lambda x: x + x, "f32[B,4]"), 4 * B),
        (last(lambda x: x + x, "i32[B,4]"), 0),
        (last(lambda x: Tanh(x), "f32[3]"), 3),
        (last(lambda x: Equal(x, x), "f32[3]"), 0),
        (last(lambda c, x: Select(c, x, x), "bool[3]", "f32[3]"), 0),
        (last(lambda x: Broadcast(x, (7, 3), (1,)), "f32[3]"), 0),
        (last(lambda x: Sum(x, (1,)), "f32[B,4]"), 4 * B),
        (last(lambda x: Max(x, (0,)), "f32[B,4]"), 4 * B),
        (last(lambda x, y: Matmul(x, y), "f32[2,B,3]", "f32[2,3,5]"), 60 * B),
    ],
    ids=lambda x: x.name if isinstance(x, Op) else str(x),
)
def test_flops(op: Op, expected: dims.Dim):
    assert flops(op) == expected


def test_a_formula_counts_its_words():
    modf = function(lambda x: Modf(x).results, "f32[10]").main.ops[0]
    assert flops(modf) == 10 * 3  # trunc, sub, copysign
    logsumexp = last(lambda x: LogSumExp(x, (1,)), "f32[B,4]")
    assert flops(logsumexp) == 4 * B * 8 + B * 2  # max, 2 (sub, exp, mul), add; then log, add


def test_control_counts_its_bodies():
    def loop(h: Value, xs: Value) -> Value:
        step = region(lambda h, x: Tanh(h * x), "f32[8]", "f32[8]")
        return Scan((h,), (xs,), (), step, B).results[0]

    assert flops(last(loop, "f32[8]", "f32[B,8]")) == 16 * B

    def branch(c: Value, x: Value) -> Value:
        sides = region(lambda x: Tanh(x) * x, "f32[B]"), region(lambda x: -x, "f32[B]")
        return Cond(c, (x,), *sides).results[0]

    assert flops(last(branch, "bool", "f32[B]")) == 2 * B


def test_bytes():
    assert size_in_bytes(TensorType(F32, (B, 3))) == 12 * B
