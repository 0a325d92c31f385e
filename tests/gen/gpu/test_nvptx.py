"""GPU schedules: the same kernels, the same bits, as PTX that an assembler accepts."""

import re
import subprocess
import sys

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.gpu.nvptx import block_size, grid_size
from dlvm.gen.loops.interpreter import Counts, run_kernel
from dlvm.gen.loops.verifier import verify
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.blocks import blocks
from dlvm.ir.sizes.dims import evaluate
from dlvm.ops import Kernel
from dlvm.target import PTX_VERSIONS, Target
from tests.gen.compiled import gpu, ptx_of

from .assembly import assembled

CHAIN = """dlvm 1
func @f(%x: f32[B,N], %b: f32[N]) -> f32[B,N] {
  %0 = kernel [%x, %b] family="loops" : f32[B,N]
    body(%x: f32[B,N], %b: f32[N]) -> f32[B,N] {
      %0 = broadcast %b shape=(B, N) axes=(1) : f32[B,N]
      %1 = add %x, %0 : f32[B,N]
      %2 = tanh %1 : f32[B,N]
      return %2
    }
  return %0
}
"""
SOFTMAX = """dlvm 1
func @f(%x: f32[B,N], %b: f32[N]) -> f32[B,N] {
  %0 = kernel [%x, %b] family="loops" : f32[B,N]
    body(%x: f32[B,N], %b: f32[N]) -> f32[B,N] {
      %0 = broadcast %b shape=(B, N) axes=(1) : f32[B,N]
      %1 = add %x, %0 : f32[B,N]
      %2 = max %1 axes=(1) : f32[B]
      %3 = broadcast %2 shape=(B, N) axes=(0) : f32[B,N]
      %4 = sub %1, %3 : f32[B,N]
      %5 = exp %4 : f32[B,N]
      %6 = sum %5 axes=(1) : f32[B]
      %7 = broadcast %6 shape=(B, N) axes=(0) : f32[B,N]
      %8 = div %5, %7 : f32[B,N]
      return %8
    }
  return %0
}
"""
PROGRAMS = {"chain": (CHAIN, gpu(128)), "softmax": (SOFTMAX, gpu(32))}


def on_a_gpu(op, name, lanes):
    return blocks(lower(op, name), lanes)


def kernel_of(text):
    return dlvm.parse(text).main.ops[0]


def interpreted(kernel, x, b):
    out = np.full_like(x, np.nan)
    sizes = {"B": x.shape[0], "N": x.shape[1]}
    run_kernel(kernel, (x, b, out), sizes, np.zeros(3, np.int64), Counts())
    return out


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 33), (2, 4100)])
def test_the_schedule_does_not_change_a_bit(name, shape):
    text, schedule = PROGRAMS[name]
    rng = np.random.default_rng(0)
    x, b = rng.normal(size=shape).astype("f4"), rng.normal(size=shape[1]).astype("f4")
    plain = interpreted(lower(kernel_of(text), "k"), x, b)
    mapped = interpreted(on_a_gpu(kernel_of(text), "k", schedule.block), x, b)
    assert plain.tobytes() == mapped.tobytes()
    (reference,) = dlvm.parse(text).run("f", x, b)
    assert np.allclose(mapped, reference, rtol=1e-5, atol=1e-6)


WHOLE_ROWS = """dlvm 1
func @k(%x: f32[{rows},{length}]) -> (f32[{rows}], f32[{rows},{length}]) {{
  %0 = neg %x : f32[{rows},{length}]
  %1 = sum %0 axes=(1) : f32[{rows}]
  return %1, %0
}}
"""


@pytest.mark.parametrize("lanes", [32, 96, 128])
def test_rows_of_every_length_are_shown_to_be_written_once(lanes):
    """Also those that are longer than a block and no multiple of it."""
    for length in (*range(1, 200, 7), 31, 33, 95, 97, 127, 129, 1000, 4097, "N"):
        op = dlvm.parse(WHOLE_ROWS.format(rows="M", length=length)).main
        verify(on_a_gpu(Kernel(op.params, op, "loops"), "k", lanes))


@pytest.mark.parametrize("processor", ["sm_80", "sm_90a"])
def test_one_module_of_ptx(processor, tmp_path):
    kernels = [on_a_gpu(kernel_of(t), name, how.block) for name, (t, how) in PROGRAMS.items()]
    assert [block_size(k) for k in kernels] == [128, 32]
    assert [evaluate(grid_size(k), {"B": 6, "N": 100}) for k in kernels] == [5, 6]
    text = ptx_of(kernels, processor)
    assert f".target {processor}" in text
    assert re.findall(r"\.visible \.entry (\w+)", text) == ["chain", "softmax"]
    for word in ("%ctaid.x", "%tid.x", "shfl.sync.down", "shfl.sync.idx", "ld.global"):
        assert word in text
    assert not re.search(r"\b(ld|st)\.[bfu]\d", text)  # no access in the generic address space
    assert assembled(text, tmp_path).spilt == [0] * 4


EVERY_OP = """
import sys
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.blocks import blocks
from dlvm.ir import DTYPES
from dlvm.ops import Kernel
from tests.gen.compiled import ptx_of
from tests.gen.math.test_instructions import all_of
made = [all_of(DTYPES[sys.argv[1]]), all_of(DTYPES[sys.argv[1]], 64)]
plain = [lower(op, f"all{i}") for i, op in enumerate(made)]
kernels = [blocks(k, 128) for k in plain]
assert any("vectorize" in step for k in kernels for step in k.steps)
print(ptx_of(kernels))
"""


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["bool", "i8", "i64", "u32", "f16", "bf16", "f32", "f64"])
def test_every_element_wise_operation_has_code(dtype, tmp_path):
    command = [sys.executable, "-c", EVERY_OP, dtype]  # LLVM ends the process on what it lacks
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assembled(done.stdout, tmp_path)


def test_an_unknown_gpu_is_named():
    with pytest.raises(UserError, match="sm_13"):
        Target.cuda("sm_13")
    assert set(PTX_VERSIONS) >= {"sm_80", "sm_90a"}
