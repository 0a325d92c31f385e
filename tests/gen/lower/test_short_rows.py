"""Short rows that are folded in groups: a row comes to the same bits in a group and alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.gen.lower.short_rows import DOUBLED_GROUPS_FROM, LANES
from dlvm.target import Target
from tests.gen.compiled import Compiled, interpret, kernel
from tests.gen.values import same_bits

CENTRED = """func @f(%x: f32[N,{d}]) -> f32[N] {{
  %0 = max %x axes=(1) : f32[N]
  %1 = broadcast %0 shape=(N,{d}) axes=(0) : f32[N,{d}]
  %2 = sub %x, %1 : f32[N,{d}]
  %3 = mul %2, %x : f32[N,{d}]
  %4 = sum %3 axes=(1) : f32[N]
  %5 = add %4, %0 : f32[N]
  return %5
}}"""


SOFTMAX = """func @f(%x: {t}[N,{d}]) -> {t}[N,{d}] {{
  %0 = max %x axes=(1) : {t}[N]
  %1 = broadcast %0 shape=(N,{d}) axes=(0) : {t}[N,{d}]
  %2 = sub %x, %1 : {t}[N,{d}]
  %3 = exp %2 : {t}[N,{d}]
  %4 = sum %3 axes=(1) : {t}[N]
  %5 = broadcast %4 shape=(N,{d}) axes=(0) : {t}[N,{d}]
  %6 = div %3, %5 : {t}[N,{d}]
  return %6
}}"""
WIDE = "+avx512f,+avx512dq,+avx512vl"
PROCESSORS = [
    ("skylake-avx512", WIDE, 512),
    ("skylake-avx512", WIDE, 256),
    ("haswell", "", 256),
    ("x86-64", "", 128),
]


def logsumexp(x):
    top = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0]


def spread(x):
    return ((x - x.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1), x.max(axis=-1)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / (2 * e.sum(axis=-1, keepdims=True))


def norms(x, y):
    return np.sqrt((x * y).sum(axis=-1) + 100) * y.min(axis=-1)


@pytest.mark.parametrize("d", [2, 16, 33, 100, 513])
def test_the_interpreter_of_loops_agrees_to_the_bit(d):
    op, _ = kernel(CENTRED.format(d=d))
    compiled = Compiled(op)
    for n in (0, 1, LANES - 1, LANES, 2 * LANES + 3):
        x = np.random.default_rng(n).standard_normal((n, d)).astype(np.float32)
        for threads in (1, 2):
            assert same_bits(compiled(x, threads=threads)[0][0], interpret(op, (x,))[0][0])


@pytest.mark.parametrize("name, features, bits", PROCESSORS)
@pytest.mark.parametrize("kind, d", [("f32", 20), ("f32", 64), ("f64", 9)])
def test_every_processor_gives_the_same_bits(name, features, bits, kind, d):
    """Where this machine can run their code; exponentials down to denormal numbers and 0."""
    host = Target.host()
    known = "+avx512vl" in host.features if features else host.vector_bits >= bits
    if not host.triple.startswith("x86_64") or not known:
        pytest.skip(f"{host} can't run the code of {name}")
    target = replace(host, cpu=name, features=features, vector_bits=bits, registers=16)
    op, _ = kernel(SOFTMAX.format(t=kind, d=d))
    x = np.random.default_rng(d).standard_normal((37, d)).astype(f"f{int(kind[1:]) // 8}")
    x[3] *= 60
    x[5, 2], x[6, 1] = np.nan, -np.inf
    assert same_bits(Compiled(op, target=target)(x)[0][0], Compiled(op)(x)[0][0])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(40, 64), (3, 35, 20), (2, 2, LANES, 9), (DOUBLED_GROUPS_FROM + 35, 16)]
)
def test_a_row_comes_to_the_same_bits_alone(kind, shape):
    x, y = (np.random.default_rng(i).standard_normal(shape).astype(kind) for i in range(2))
    for f, arguments in ((spread, (x,)), (norms, (x, y)), (logsumexp, (x,)), (softmax, (x,))):
        staged = dlvm.function(f)
        found = staged(*arguments)
        rows = [a.reshape(-1, 1, shape[-1]) for a in arguments]
        alone = [staged(*row) for row in zip(*rows, strict=True)]
        for i, whole in enumerate(found if isinstance(found, tuple) else (found,)):
            single = [np.asarray(a[i] if isinstance(found, tuple) else a) for a in alone]
            assert same_bits(whole.reshape(-1), np.concatenate(single).reshape(-1))
        wide = [a.astype(np.float64) for a in arguments]
        expected = f(*wide) if isinstance(found, tuple) else (f(*wide),)
        for whole, exact in zip(
            found if isinstance(found, tuple) else (found,), expected, strict=True
        ):
            np.testing.assert_allclose(whole, exact, rtol=1e-4)


def test_edges_of_floats_and_equal_elements():
    x = np.random.default_rng(0).standard_normal((48, 20)).astype(np.float32)
    x[3, 4], x[5], x[7, 1], x[8, 2] = np.nan, -np.inf, np.inf, -np.inf
    op, _ = kernel(CENTRED.format(d=20))
    assert same_bits(Compiled(op)(x)[0][0], interpret(op, (x,))[0][0])


def test_only_short_rows_that_are_folded_lie_in_groups():
    def loops(f, *shape):
        x = np.ones(shape, np.float32)
        return dlvm.function(f).compile(x).text("loops")

    def total(x):
        return x.sum(axis=-1)

    assert "%half" in loops(total, 64, 64)
    assert "%half" not in loops(total, LANES - 1, 64)
    assert "%half" not in loops(total, 64, 5000)
    assert "%half" in loops(softmax, 64, 64)
    assert "%half" not in loops(softmax, 64, 500)
    assert "%half" not in loops(lambda x: x - x.mean(axis=-1, keepdims=True), 64, 64)
    assert "%half" not in loops(lambda x: x.sum(axis=0), 64, 64)
