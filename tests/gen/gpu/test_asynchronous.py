"""Asynchronous copies in the emulator: they land at their wait, and a missing wait is noticed.

No kernel of the compiler has such copies yet; the PTX is written by hand.
"""

import numpy as np
import pytest

from dlvm.gen.gpu.device import Memory
from dlvm.gen.gpu.emulator.machine import EmulatedKernel, EmulatorError

from .by_hand import kernel

COPY = """
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd4, %r1, 4;
add.s64 %rd5, %rd1, %rd4;
mov.b64 %rd6, tile;
add.s64 %rd7, %rd6, %rd4;
cp.async.ca.shared.global [%rd7], [%rd5], 4;
cp.async.commit_group;
cp.async.ca.shared.global [%rd7+256], [%rd5+256], 4;
cp.async.commit_group;
cp.async.wait_group 0;
bar.sync 0;
sub.s64 %rd8, %rd6, %rd4;
ld.shared.b32 %r2, [%rd8+508];
add.s64 %rd9, %rd2, %rd4;
st.global.b32 [%rd9], %r2;
"""
WAIT, COMMIT, BARRIER = "cp.async.wait_group 0;", "cp.async.commit_group;", "bar.sync 0;"


def launched(body):
    x, y, status = np.arange(128, dtype="f4"), np.zeros(64, "f4"), np.zeros(8, np.int64)
    memory = [Memory(x.ctypes.data, x.nbytes), Memory(y.ctypes.data, y.nbytes, written=False)]
    EmulatedKernel(kernel(body, 64, 512), "k").launch(1, 64, memory, (), status.ctypes.data, seed=1)
    return x, y


def test_copies_land_at_their_wait():
    x, y = launched(COPY)
    assert np.array_equal(y, x[:63:-1])


@pytest.mark.parametrize(
    "mistake",
    [
        COPY.replace(WAIT, ""),
        COPY.replace(WAIT, "cp.async.wait_group 1;"),
        COPY[::-1].replace(COMMIT[::-1], "", 1)[::-1],
        COPY.replace(BARRIER, ""),
    ],
    ids=["no wait", "a group too few", "a group that is not closed", "no barrier"],
)
def test_what_reads_too_early_is_noticed(mistake):
    with pytest.raises(EmulatorError, match=r"nobody has written|a race"):
        launched(mistake)


def test_earlier_groups_land_first():
    """Half of the tile is there when one group may still be under way."""
    text = COPY.replace(WAIT, "cp.async.wait_group 1;").replace("%rd8+508", "%rd8+252")
    x, y = launched(text)
    assert np.array_equal(y, x[63::-1])
