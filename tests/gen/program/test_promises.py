"""What code may rely on of the memory of a kernel: who is alone in it, and where it starts."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.nvptx import emit_gpu_kernel
from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.lower.kernels import lower
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.promises import Promises, promises
from dlvm.gen.program.steps import Given, Launch, Program, Storage, View
from dlvm.gen.schedule.blocks import blocks
from dlvm.ir import F32, TensorType
from dlvm.ir.sizes.dims import symbol
from dlvm.target import Target
from tests.gen.compiled import kernel

TEXT = """func @f(%x: f32[8]) -> f32[8] {
  %0 = exp %x : f32[8]
  return %0
}"""
TYPE = TensorType(F32, (8,))


def plain() -> LoopKernel:
    return blocks(lower(kernel(TEXT)[0], "k"), 32)


def program(*launches: Launch) -> Program:
    return Program("f", (), (), (), (), (), launches)


def view(offset=0, place=None, storage=None):
    return View(storage or Storage("t", F32, 64, place), TYPE, offset)


@pytest.mark.parametrize(
    ("start", "aligned"),
    [
        (view(), True),
        (view(4), True),
        (view(3), False),
        (view(4 * symbol("N")), True),
        (view(symbol("N")), False),
        (view(place=Given("param", 0)), False),
        (view(place=Given("result", 0)), True),
    ],
)
def test_where_a_buffer_starts(start, aligned):
    k = plain()
    found = promises(program(Launch(k, (start, view()))))[k]
    assert found == Promises(frozenset(), frozenset() if aligned else frozenset({"b0"}))
    header = next(
        line
        for line in str(emit_gpu_kernel(k, Target.cuda("sm_80"), found)).splitlines()
        if "@k(" in line
    )
    assert f"ptr noalias align {16 if aligned else 4} %b0, ptr noalias align 16 %b1" in header


def test_what_one_launch_shares_no_other_promises():
    k, one = plain(), Storage("t", F32, 64)
    apart, same = Launch(k, (view(), view())), Launch(k, (view(storage=one), view(8, storage=one)))
    assert promises(program(apart))[k].shared == frozenset()
    assert promises(program(apart, same))[k].shared == {"b0", "b1"}
    text = str(emit_gpu_kernel(k, Target.cuda("sm_80"), promises(program(apart, same))[k]))
    assert "noalias" not in next(line for line in text.splitlines() if "@k(" in line)


def test_without_a_program_nothing_is_known():
    k, target = plain(), Target.cuda("sm_80")
    assert "ptr align 4 %b0, ptr align 4 %b1" in str(emit_gpu_kernel(k, target))
    assert "ptr noalias align 16 %b0" in str(emit_gpu_kernel(k, target, Promises()))


def test_of_programs_of_users():
    f = dlvm.function(lambda x, w: dlvm.nn.softmax(dlvm.tanh(x @ w) * 2, axis=-1))
    made = f.compile(np.ones((8, 6), np.float32), np.ones((6, 5), np.float32))
    known = promises(found := coalesce(to_program(made.road.kernels)))
    assert set(known) == set(found.kernels())
    assert any(p.unaligned for p in known.values())
