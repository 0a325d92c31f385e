"""Asynchronous copies in the emulator: they land at their wait, and a missing wait is noticed.

No kernel of the compiler has such copies yet; the text is written by hand.
"""

import numpy as np
import pytest

from dlvm.gen.gpu.device import Memory
from dlvm.gen.gpu.emulator.machine import EmulatedKernel, EmulatorError

LANES = 64
KERNEL = """
@k.tile = internal addrspace(3) global [128 x float] undef, align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
define ptx_kernel void @k(ptr %b0, ptr %b1, ptr %status) nounwind "nvvm.reqntid"="64" {
entry:
  %t1 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t2 = zext i32 %t1 to i64
  %t3 = getelementptr float, ptr %b0, i64 %t2
  %t4 = addrspacecast ptr %t3 to ptr addrspace(1)
  %t5 = getelementptr float, ptr addrspace(3) @k.tile, i64 %t2
  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %t5, ptr addrspace(1) %t4)
  call void @llvm.nvvm.cp.async.commit.group()
  %t6 = add i64 %t2, 64
  %t7 = getelementptr float, ptr %b0, i64 %t6
  %t8 = addrspacecast ptr %t7 to ptr addrspace(1)
  %t9 = getelementptr float, ptr addrspace(3) @k.tile, i64 %t6
  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %t9, ptr addrspace(1) %t8)
  call void @llvm.nvvm.cp.async.commit.group()
  call void @llvm.nvvm.cp.async.wait.group(i32 0)
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %t10 = sub i64 127, %t2
  %t11 = getelementptr float, ptr addrspacecast (ptr addrspace(3) @k.tile to ptr), i64 %t10
  %t12 = load float, ptr %t11, align 4
  %t13 = getelementptr float, ptr %b1, i64 %t2
  store float %t12, ptr %t13, align 4
  ret void
}
"""
WAIT = "  call void @llvm.nvvm.cp.async.wait.group(i32 0)\n"
COMMIT = "  call void @llvm.nvvm.cp.async.commit.group()\n"


def launched(text):
    x, y, status = np.arange(128, dtype="f4"), np.zeros(64, "f4"), np.zeros(8, np.int64)
    memory = [Memory(x.ctypes.data, x.nbytes), Memory(y.ctypes.data, y.nbytes, written=False)]
    EmulatedKernel(text).launch(1, LANES, memory, (), status.ctypes.data, seed=1)
    return x, y


def test_copies_land_at_their_wait():
    x, y = launched(KERNEL)
    assert np.array_equal(y, x[:63:-1])


@pytest.mark.parametrize(
    "mistake",
    [
        KERNEL.replace(WAIT, ""),
        KERNEL.replace("wait.group(i32 0)", "wait.group(i32 1)"),
        KERNEL[::-1].replace(COMMIT[::-1], "", 1)[::-1],
        KERNEL.replace("  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n", ""),
    ],
    ids=["no wait", "a group too few", "a group that is not closed", "no barrier"],
)
def test_what_reads_too_early_is_noticed(mistake):
    with pytest.raises(EmulatorError, match=r"nobody has written|a race"):
        launched(mistake)


def test_earlier_groups_land_first():
    """Half of the tile is there when one group may still be under way."""
    text = KERNEL.replace("wait.group(i32 0)", "wait.group(i32 1)").replace(
        "sub i64 127", "sub i64 63"
    )
    x, y = launched(text)
    assert np.array_equal(y, x[63::-1])
