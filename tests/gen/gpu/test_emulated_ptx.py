"""What PTX promises and the emulator holds it to, in kernels that are written by hand."""

import numpy as np
import pytest

from dlvm.base.errors import CompilerError
from dlvm.gen.gpu.device import Memory
from dlvm.gen.gpu.emulator.machine import EmulatedKernel, EmulatorError

from .by_hand import kernel

MINE = """
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd4, %r1, 4;
add.s64 %rd5, %rd1, %rd4;
add.s64 %rd6, %rd2, %rd4;
"""
COPY = MINE + "ld.global.b32 %r2, [%rd5];\nst.global.b32 [%rd6], %r2;\n"


def launched(body, given=None, lanes=32, same=False, **options):
    """What the kernel leaves in its second buffer, which may be its first one too."""
    x = np.arange(32, dtype="i4") if given is None else given
    y, status = np.zeros(32, "i4"), np.zeros(8, np.int64)
    buffers = [x, x if same else y]
    memory = [Memory(a.ctypes.data, a.nbytes, a is x) for a in buffers]
    text = kernel(body, lanes, **options)
    EmulatedKernel(text, "k").launch(1, lanes, memory, (), status.ctypes.data, seed=1)
    return buffers[1]


def test_a_copy_is_one():
    assert np.array_equal(launched(COPY), np.arange(32))


def test_a_buffer_that_is_less_even_than_promised():
    whole = np.arange(200, dtype="i4")
    start = -whole.ctypes.data // 4 % 32
    assert launched(COPY, whole[start : start + 32], align=128)[0] == start
    with pytest.raises(EmulatorError, match="promised"):
        launched(COPY, whole[start + 1 : start + 33], align=128)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["read first", "written first"])
def test_what_is_read_as_a_constant_is_written_by_nobody(order):
    """By another name of the same memory; each lane touches its own element only."""
    lines = "ld.global.nc.b32 %r2, [%rd5];", "st.global.b32 [%rd6], 7;"
    body = MINE + "\n".join(lines[i] for i in order)
    launched(body)
    with pytest.raises(EmulatorError, match="read as a constant"):
        launched(body, same=True)


def test_past_the_end_through_a_choice():
    body = (
        MINE
        + """
setp.lt.u32 %p1, %r1, 31;
add.s64 %rd7, %rd1, 128;
selp.b64 %rd8, %rd5, %rd7, %p1;
ld.global.b32 %r2, [%rd8];
st.global.b32 [%rd6], %r2;
"""
    )
    with pytest.raises(EmulatorError, match="lane 31 of block 0, byte 128 of b0: outside"):
        launched(body)
    assert launched(body.replace("%rd1, 128", "%rd1, 120"))[31] == 30


def test_from_one_buffer_into_another():
    """As far from the first as the other one begins in memory."""
    whole = np.arange(64, dtype="i4")
    status = np.zeros(8, np.int64)
    memory = [Memory(a.ctypes.data, a.nbytes) for a in (whole[:32], whole[32:])]
    text = kernel(COPY.replace("[%rd5]", "[%rd5+128]"))
    with pytest.raises(EmulatorError, match="of b0: outside of the array"):
        EmulatedKernel(text, "k").launch(1, 32, memory, (), status.ctypes.data)


def test_a_barrier_in_both_branches():
    body = """
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 40;
@%p1 bra $low;
bar.sync 0;
bra $end;
$low:
bar.sync 0;
$end:
"""
    launched(body.replace("40", "32"), lanes=64)
    with pytest.raises(EmulatorError, match=r"warp 1 are at different \.aligned barriers"):
        launched(body, lanes=64)


def test_barriers_of_different_numbers():
    body = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bra $a;\nbar.sync 1;\nret;\n"
    body += "$a:\nbar.sync {};\n"
    launched(body.format(1), lanes=64)
    with pytest.raises(EmulatorError, match="barriers of different numbers"):
        launched(body.format(0), lanes=64)


HALF = (
    MINE
    + """
setp.ge.u32 %p1, %r1, 16;
@%p1 ret;
shfl.sync.{} %r2, %r1, {}, {}, {};
st.global.b32 [%rd6], %r2;
"""
)


def test_a_shuffle_of_half_a_warp():
    """Whose mask names the lanes that are there; PTX's clamp and segments say who reads whom."""
    lane = np.arange(16)
    for how, far, clamp, expected in (
        ("down.b32", 1, 31, None),
        ("down.b32", 1, 15, np.minimum(lane + 1, 15)),
        ("down.b32", 4, (24 << 8) | 31, np.where(lane % 8 < 4, lane + 4, lane)),
        ("idx.b32", 2, (24 << 8) | 31, lane // 8 * 8 + 2),
        ("bfly.b32", 1, 31, lane ^ 1),
        ("up.b32", 3, 0, np.where(lane < 3, lane, lane - 3)),
    ):
        body = HALF.format(how, far, clamp, 65535)
        if expected is None:
            with pytest.raises(EmulatorError, match="a lane that takes no part"):
                launched(body)
        else:
            assert np.array_equal(launched(body)[:16], expected)
    with pytest.raises(EmulatorError, match="not all lanes of warp 0"):
        launched(HALF.format("bfly.b32", 1, 31, -1))
    with pytest.raises(EmulatorError, match="not in the mask of its own"):
        launched(HALF.format("bfly.b32", 1, 31, 255))


def test_the_array_of_a_thread():
    body = (
        ".local .align 8 .b8 own[16];\n"
        + MINE
        + """
mov.b64 %rd7, own;
st.local.b32 [%rd7+{0}], %r1;
ld.local.b32 %r2, [%rd7+{0}];
st.global.b32 [%rd6], %r2;
"""
    )
    assert np.array_equal(launched(body.format(12)), np.arange(32))
    with pytest.raises(EmulatorError, match="in no array of its space"):
        launched(body.format(16))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cvt.rzi.s32.f32 %r2, 0f7FC00000;", 0),
        ("cvt.rzi.s32.f32 %r2, 0f7F800000;", 2**31 - 1),
        ("cvt.rzi.s32.f64 %r2, 0d7FF8000000000000;", -(2**31)),
        ("shl.b32 %r2, 1, 32;", 0),
        ("shr.s32 %r2, -8, 99;", -1),
        ("div.s32 %r2, 5, 0;", -1),
        ("rem.s32 %r2, -2147483648, -1;", 0),
        ("prmt.b32 %r2, 0x33221100, 0x77665544, 0x7410U;", 0x77441100),
        ("bfe.u32 %r2, 0xABCD, 4, 8;", 0xBC),
        ("shf.l.wrap.b32 %r2, 0x80000000, 1, 33;", 3),
        ("mul.hi.u32 %r2, -1, 16;", 15),
        ("max.f32 %r2, 0f80000000, 0f00000000;", 0),
        ("min.f32 %r2, 0f7FC00000, 0f40000000;", 0x40000000),
        ("fma.rn.f32 %r2, 0f3F800001, 0f3F800001, 0fBF800002;", 0x28800000),
        ("cvt.rna.tf32.f32 %r2, 0f3F801000;", 0x3F802000),
        ("cvt.rn.f16x2.f32 %r2, 0f3F800000, 0f40000000;", 0x3C004000),
    ],
)
def test_the_edges_of_instructions(line, expected):
    assert launched(f"{MINE}{line}\nst.global.b32 [%rd6], %r2;\n")[5] == expected


@pytest.mark.parametrize(
    "line",
    [
        "ex2.approx.f32 %r2, %r1;",
        "add.f32 %r2, %r1, %r1;",
        "bar.sync 0, 32;",
        "bar.warp.sync 65535;",
        "wgmma.fence;",
    ],
)
def test_what_is_not_known_is_named(line):
    with pytest.raises(CompilerError) as error:
        launched(MINE + line)
    assert line.split(",")[0].rstrip(";") in str(error.value)


def test_another_number_of_lanes_than_the_text_has():
    text = kernel(COPY, 64)
    with pytest.raises(EmulatorError, match=r"\.reqntid 64, launched with 32 lanes"):
        EmulatedKernel(text, "k").launch(1, 32, [], (), 0)
