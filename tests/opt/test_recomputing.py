"""Recomputation to a budget: the planned memory meets it, and every bit stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import dlvm
from dlvm.budget import budget_of, planned_bytes
from dlvm.compile import optimize
from dlvm.opt.recomputing import Lives, within
from dlvm.testing.random_programs import Program
from dlvm.testing.strategies import programs

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
            np.testing.assert_array_equal(a, b)


def test_the_estimate_is_near_the_plan():
    kernels = dlvm.function(lambda x, ws: gradient(x, ws)).compile(X, W).road.kernels
    main = kernels.main
    estimate = max(Lives(main, (False,) * len(main.ops)).alive)
    assert 0.7 * planned_bytes(kernels) < estimate < 1.5 * planned_bytes(kernels)
