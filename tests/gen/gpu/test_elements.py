"""Every element-wise operation in lanes that take several elements: the bits of a CPU."""

import numpy as np
import pytest

from dlvm.gen.gpu.device import Memory
from dlvm.gen.gpu.emulator.machine import EmulatedKernel
from dlvm.gen.gpu.mapping import block_size
from dlvm.gen.loops.status import WORDS
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.blocks import LANES, blocks
from dlvm.ir import DTYPES
from tests.gen.compiled import Compiled, arguments, ptx_of
from tests.gen.math.test_instructions import all_of
from tests.special import special_values

SIZE = 64


@pytest.mark.parametrize("processor", ["sm_80", "sm_100"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
def test_special_values(dtype, processor):
    op = all_of(DTYPES[dtype], SIZE)
    kernel = blocks(lower(op, "all"), LANES)
    assert any("vectorize" in step for step in kernel.steps)
    values = special_values(DTYPES[dtype])
    rng = np.random.default_rng(0)
    x, y = rng.choice(values, SIZE), rng.choice(values, SIZE)
    given = [x, y, rng.choice([False, True], SIZE)]
    expected, _ = Compiled(op)(*given)
    buffers, _ = arguments(kernel, op, given)
    status = np.zeros(WORDS, np.int64)
    memory = [
        Memory(b.ctypes.data, b.nbytes, role.role == "in")
        for b, role in zip(buffers, kernel.buffers, strict=True)
    ]
    emulated = EmulatedKernel(ptx_of([kernel], processor), kernel.name)
    emulated.launch(1, block_size(kernel), memory, (), status.ctypes.data)
    found = buffers[len(given) :]
    for result, a, b in zip(op.body.results, found, expected, strict=True):
        wide = (a.astype("f8"), b.astype("f8")) if result.dtype.is_float else (a, b)
        assert np.array_equal(*wide, equal_nan=result.dtype.is_float), result
