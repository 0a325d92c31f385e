"""The one cost: what it must say of kernels whose order nobody doubts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.cost import bytes_of, time_of, time_of_copy
from dlvm.gen.schedule.planner import planned
from dlvm.ir import F32, TensorType
from dlvm.ir.sizes.dims import evaluate, symbols
from dlvm.machine import Level, Machine
from dlvm.target import Target
from tests.gen.compiled import kernel

MACHINE = Machine(
    4.0, (Level(1 << 15, 100.0), Level(1 << 19, 50.0), Level(1 << 22, 25.0), Level(0, 10.0))
)
TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 256, 16, 2, measured=MACHINE)


def text(shape: str, *ops: str) -> str:
    last = "%x"
    lines: list[str] = []
    for i, op in enumerate(ops):
        lines.append(f"  %{i} = {op} {last} : f32[{shape}]")
        last = f"%{i}"
    return (
        f"func @f(%x: f32[{shape}]) -> f32[{shape}] {{\n"
        + "\n".join(lines)
        + f"\n  return {last}\n}}"
    )


def time(source: str, target: Target = TARGET):
    return time_of(planned(lower(kernel(source)[0], "k"), target), target)


def test_the_longer_of_computing_and_moving():
    n = 1 << 10
    assert time(text(f"{n}", "neg")) == pytest.approx(
        3 * n / 8 / 4 * 1000, rel=0.02
    )  # a load, a negation and a store
    n = 1 << 22
    assert time(text(f"{n}", "neg")) == 8 * n / 10 * 1000  # from memory
    n = 1 << 22
    assert time(text(f"{n}", "exp", "exp", "exp", "exp")) > 8 * n / 10 * 1000


@pytest.mark.parametrize("size", [1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 24])
def test_more_work_never_takes_less(size):
    one, two = text(f"{size}", "exp"), text(f"{size}", "exp", "exp")
    assert 0 < time(one) <= time(two)
    assert time(one) < time(text(f"{2 * size}", "exp"))
    slow = replace(TARGET, measured=replace(MACHINE, rate=1.0))
    assert time(two, slow) > time(two)
    wide = replace(TARGET, vector_bits=512)
    assert time(two, wide) < time(two) or size < 16


def test_vectors_count_once_and_far_elements_each():
    along = "func @f(%x: f32[64,64]) -> f32[64,64] {\n  %0 = neg %x : f32[64,64]\n  return %0\n}"
    turned = (
        "func @f(%x: f32[64,64]) -> f32[64,64] {\n  %0 = permute %x perm=(1,0) : f32[64,64]\n"
        "  return %0\n}"
    )
    scalars = replace(TARGET, vector_bits=32)
    assert time(along, scalars) == pytest.approx(8 * time(along), rel=0.02)
    assert time(turned) > time(along)


@pytest.mark.parametrize("n", [64, 256, 1000])
def test_open_sizes_are_expressions_that_say_the_same_where_memory_is_near(n):
    found = time(text("N", "exp", "exp"))
    (name,) = symbols(found)
    known = time(text(f"{n}", "exp", "exp"))
    assert evaluate(found, {name: n}) >= known * 0.99


def test_copies_and_bytes():
    k = planned(lower(kernel(text("1000", "exp"))[0], "k"), TARGET)
    assert bytes_of(k) == 8000
    assert time_of_copy(TensorType(F32, (1000,)), TARGET) == 8000 * 1000 / 100


def test_built_in_values_are_in_order():
    for cpu in ("znver3", "znver4", "skylake-avx512", "apple-m1", "neoverse-n1", "riscv64", ""):
        found = Machine.of(cpu, 256)
        sizes = [level.size for level in found.levels]
        assert sizes[0] < sizes[1] <= sizes[2] and sizes[3] == 0
        rates = [level.rate for level in found.levels]
        assert rates == sorted(rates, reverse=True) and rates[-1] > 0
        assert found.cache(2) == sizes[1] and found.level(1 << 40) is found.levels[3]
