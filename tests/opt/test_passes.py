"""Every pass keeps what programs answer, and leaves them well-typed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from dlvm.ir import F64, Function, Module, Op
from dlvm.ir.rewrite import everywhere
from dlvm.ops import Kernel
from dlvm.opt import DEFAULT, MEANING, drop, fuse, inline_kernels, share, simplify
from dlvm.opt.kernels.turning import turn
from dlvm.passes import PASSES, run
from dlvm.testing.drawing.random_programs import EVERY, Program
from dlvm.testing.strategies import programs

from .answers import assert_close, assert_same, assume_finite

OVER_THE_REALS = {"simplify", "open_softmax"}
WITHOUT_KERNELS = tuple(c for c in EVERY if c is not Kernel)


@pytest.mark.parametrize("name", sorted({p.name for p in DEFAULT} - OVER_THE_REALS))
@settings(max_examples=25)
@given(program=programs(EVERY, max_ops=14))
def test_a_pass_keeps_every_bit(name: str, program: Program):
    after = run(program.module, [PASSES[name]], verify=True)
    assert_same(program.run(), after.run("main", *program.arrays))


@pytest.mark.parametrize("name", sorted(OVER_THE_REALS))
@settings(max_examples=25)
@given(program=programs(EVERY, dtypes=(F64,), max_ops=14))
def test_a_pass_keeps_real_numbers(name: str, program: Program):
    assume_finite(program.module, program.arrays)
    after = run(program.module, [PASSES[name]], verify=True)
    assert_close(program.run(), after.run("main", *program.arrays))


@settings(max_examples=40)
@given(programs(EVERY, dtypes=(F64,), max_ops=20))
def test_the_whole_pipeline_keeps_real_numbers(program: Program):
    assume_finite(program.module, program.arrays)
    after = run(program.module, DEFAULT, verify=True)
    assert_close(program.run(), after.run("main", *program.arrays))


@settings(max_examples=40)
@given(programs(EVERY, max_ops=20))
def test_simplification_and_dropping_reach_a_fixed_point(program: Program):
    for step in (simplify, share, drop):
        once = run(program.module, [step])
        assert run(once, [step]) == once


@settings(max_examples=60)
@given(programs(WITHOUT_KERNELS, max_ops=20))
def test_a_kernel_means_its_body(program: Program):
    start = run(program.module, [*MEANING, share, drop])
    turned = start.map(lambda fn: everywhere(fn, lambda body: turn(body)[0]))
    back = run(start, [fuse, inline_kernels, share, drop], verify=True)
    assert canonical(back) == canonical(run(turned, [share, drop]))


@settings(max_examples=20)
@given(programs(WITHOUT_KERNELS, max_ops=20))
def test_what_is_turned_is_not_turned_again(program: Program):
    start = run(program.module, [*MEANING, share, drop])
    once = start.map(lambda fn: everywhere(fn, lambda body: turn(body)[0]))
    assert once.map(lambda fn: everywhere(fn, lambda body: turn(body)[0])) == once


def canonical(module: Module) -> Module:
    """Bodies in the order in which results and effects ask for operations."""
    return module.map(lambda fn: everywhere(fn, by_demand))


def by_demand(fn: Function) -> Function:
    maker = {r: op for op in fn.ops for r in op.results}
    done: dict[Op, None] = {}
    acting = [op for op in fn.ops if op.is_effect]
    for root in (*acting, *(maker[r] for r in fn.results if r in maker)):
        pending = [root]
        while pending:
            op = pending[-1]
            missing = [maker[v] for v in op.operands if v in maker and maker[v] not in done]
            if missing:
                pending.append(missing[0])
            else:
                done[pending.pop()] = None
    return replace(fn, ops=tuple(done))
