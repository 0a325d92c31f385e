"""Recomputation to a budget: the planned memory meets it, and every bit stays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings

import dlvm
from dlvm.budget import budget_of, planned_bytes
from dlvm.compile import optimize
from dlvm.ir import Module
from dlvm.opt.recompute.recomputing import Lives, within
from dlvm.opt.recompute.stretching import kept_by_loops, stretched
from dlvm.testing.drawing.random_programs import Program
from dlvm.testing.strategies import programs
from tests.gen.values import same_bits

N, LAYERS = 32, 8
RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(LAYERS, N, N)) / np.sqrt(N), RNG.normal(size=(N, N))


def gradient(x, ws):
    def loss(ws, x):
        for i in range(LAYERS):
            x = dlvm.tanh(dlvm.sin(x @ ws[i]))
        return (x * x).sum()

    return dlvm.grad(loss)(ws, x)


def made(memory):
    return dlvm.function(lambda x, ws: gradient(x, ws), memory=memory)


def test_less_memory_costs_more_work_and_no_bit():
    free = dlvm.function(lambda x, ws: gradient(x, ws))
    whole, expected = free.compile(X, W).report, free(X, W)
    flops = whole.flops
    for part in (0.8, 0.5, 0.35):
        budget = int(whole.peak_bytes * part)
        f = made(budget)
        report = f.compile(X, W).report
        assert report.peak_bytes <= budget
        assert flops <= report.flops < 2 * whole.flops
        assert np.array_equal(f(X, W), expected)
        flops = report.flops
    assert flops > 1.2 * whole.flops


def test_a_budget_that_is_met_anyway_changes_nothing():
    free = dlvm.function(lambda x, ws: gradient(x, ws)).compile(X, W)
    assert made("1GB").compile(X, W).text("kernels") == free.text("kernels")


def test_a_budget_that_can_not_be_met_says_what_can():
    with pytest.raises(dlvm.UserError, match=r"memory=20000 bytes.* needs \d+ .*at least \d+") as e:
        made("20KB")(X, W)
    least = int(str(e.value).split("at least ")[1].split()[0])
    assert made(least).compile(X, W).report.peak_bytes <= least


def test_budgets_as_users_write_them():
    assert [budget_of(m) for m in ("64MB", "1.5KiB", "10 B", 7, None)] == [
        64_000_000, 1536, 10, 7, None,
    ]  # fmt: skip
    for wrong in ("64", "MB", "-1MB", -1, 1.5, "1.2.3MB"):
        with pytest.raises(dlvm.UserError, match='memory="64MB"'):
            dlvm.function(lambda x: x, memory=wrong)


@settings(max_examples=25)
@given(programs(max_ops=20))
def test_any_program_keeps_its_answers(program: Program):
    kernels = optimize(program.module)
    main = kernels.main
    for budget in (0, max(Lives(main, (False,) * len(main.ops)).alive, default=0) // 2):
        again = kernels.replace(within(main, budget)).verify()
        with np.errstate(all="ignore"):
            found = again.run(main.name, *program.arrays)
            expected = kernels.run(main.name, *program.arrays)
        for a, b in zip(found, expected, strict=True):
            assert same_bits(a, b)


# -- loops -----------------------------------------------------------------------------------------


def last(x, ws):
    return dlvm.scan(lambda c, w: (dlvm.tanh(dlvm.sin(c @ w)), None), x, ws)[0]


def each(x, ws):
    """Every step is a result, the last one comes first."""
    c, sums = dlvm.scan(lambda c, w: (dlvm.sin(c @ w), c.sum() * w[0]), x, ws, reverse=True)
    return c + (sums * sums).sum()


def nested(x, ws):
    def step(c, w):
        def inner(c):
            return dlvm.fori_loop(0, 6, lambda i, c: dlvm.sin(c @ w) * 0.9, c)

        return dlvm.cond(c[0, 0] > -9, inner, lambda c: c, c), None

    return dlvm.scan(step, x, ws)[0]


def separate(x, ws):
    return x * dlvm.map(lambda w: dlvm.exp(dlvm.sin(w @ x)).sum(), ws).sum()


LOOPS = pytest.mark.parametrize("f", [last, each, nested, separate], ids=lambda f: f.__name__)


def slope(f, wrt=(0, 1)):
    return lambda x, ws: dlvm.grad(lambda x, ws: (f(x, ws) ** 2).sum(), wrt)(x, ws)


def every_way(module: Module, depth: int) -> Iterator[Module]:
    for choice in kept_by_loops(module.main):
        new = module.replace(stretched(module.main, choice)).verify()
        yield new
        if depth > 1:
            yield from every_way(new, depth - 1)


@LOOPS
@pytest.mark.parametrize("steps", [2, 7, 12, 13])
def test_a_loop_in_stretches_is_the_loop_to_the_bit(f, steps):
    x, ws = X[:4, :4], RNG.normal(size=(steps, 4, 4)) / 2
    module = dlvm.function(slope(f)).compile(x, ws).road.optimized
    expected = module.run(module.main.name, x, ws)
    ways = [*every_way(module, 2 if steps == 7 else 1)]
    assert ways
    for way in ways:
        for a, b in zip(way.run(way.main.name, x, ws), expected, strict=True):
            assert same_bits(a, b)


@pytest.mark.parametrize("f", [last, each], ids=lambda f: f.__name__)
def test_a_loop_of_open_length_in_stretches(f):
    open_ = dlvm.function(slope(f), dynamic={"ws": "T,4,4"})
    module = open_.compile(X[:4, :4], W[:3, :4, :4]).road.optimized
    ways = [*every_way(module, 1)]
    assert ways
    for steps in (0, 1, 5, 70):
        x, ws = X[:4, :4], RNG.normal(size=(steps, 4, 4)) / 2
        expected = module.run(module.main.name, x, ws)
        for way in ways:
            for a, b in zip(way.run(way.main.name, x, ws), expected, strict=True):
                assert same_bits(a, b)


def test_under_a_budget_memory_grows_with_the_root_of_the_steps_for_one_more_run():
    x = np.eye(16)
    unit = x.nbytes
    for steps in (64, 67, 1024):  # a prime number leaves steps over
        ws = RNG.normal(size=(steps, 16, 16)) / 4
        wrt = (0,) if steps == 67 else (0, 1)
        free, once = dlvm.function(slope(last, wrt)), dlvm.function(last).compile(x, ws).report
        held = dlvm.function(slope(last, wrt), memory=int(4.5 * steps**0.5 * unit))
        whole, report = free.compile(x, ws).report, held.compile(x, ws).report
        assert whole.peak_bytes > 2 * steps * unit
        assert report.peak_bytes <= 4.5 * steps**0.5 * unit
        assert report.flops - whole.flops <= once.flops
        for a, b in zip(held(x, ws), free(x, ws), strict=True):
            assert np.array_equal(a, b)


def test_loops_are_cut_again_for_less():
    x, ws = np.eye(16), RNG.normal(size=(1024, 16, 16)) / 4
    free, held = dlvm.function(slope(last)), dlvm.function(slope(last), memory=30 * 2048)
    assert held.compile(x, ws).report.peak_bytes <= 30 * 2048
    for a, b in zip(held(x, ws), free(x, ws), strict=True):
        assert np.array_equal(a, b)


def test_the_estimate_is_near_the_plan():
    kernels = dlvm.function(lambda x, ws: gradient(x, ws)).compile(X, W).road.kernels
    main = kernels.main
    estimate = max(Lives(main, (False,) * len(main.ops)).alive)
    assert 0.7 * planned_bytes(kernels) < estimate < 1.5 * planned_bytes(kernels)
