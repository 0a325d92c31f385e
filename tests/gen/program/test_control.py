"""Control flow: the interpreter and the steps of a program give the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.interpreter import Outcome, run_program
from dlvm.gen.program.memory import plan
from dlvm.ir import Module
from dlvm.ir.interpret import bind
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run
from tests.gen.control_cases import CASES, Case


def run_steps(module: Module, *arrays) -> Outcome:
    """The main function by the interpreter of programs."""
    program = coalesce(to_program(module))
    params = module.main.params
    given = [np.array(a) for a in arrays]
    symbols = bind([p.type for p in params], given, [p.name for p in params])
    return run_program(program, plan(program), given, symbols)


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_steps_mean_what_the_function_means(case: Case):
    for arrays in case.calls:
        outcome = run_steps(case.module, *arrays)
        assert outcome.status[0] == 0
        assert_same(outcome.results, case.module.run("f", *arrays))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_steps_of_fused_kernels_mean_the_same(case: Case):
    fused = run(case.module, DEFAULT, verify=True)
    for arrays in case.calls:
        assert_same(run_steps(fused, *arrays).results, case.module.run("f", *arrays))
