"""Sums on a GPU: the bits of a CPU at the edges of chunks and warps, and enough work for all."""

import re

import numpy as np
import pytest

import dlvm

from .kinds import f32
from .test_programs import assert_same_bits, emulated, machine_code


def compiled(f, *types):
    return dlvm.function(f, target="cuda:sm_90").compile(*map(dlvm.spec, types))


def launches(made):
    """Blocks and lanes of each launch."""
    code = made.road.executable.code.code
    return [(k.blocks, k.lanes) for phases in code.kernels.values() for k in phases]


WHOLE = {
    "sum": lambda x: x.sum(),
    "max": lambda x: x.max(),
    "variance": lambda x: x.var(),
    "where the least is": lambda x: np.argmin(x),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("count", [4096, 4097, 65 * 4096, 66 * 4096 + 33], ids=str)
def test_all_of_an_array(name, count):
    x = f32(count)
    assert_same_bits(emulated(WHOLE[name], x), machine_code(WHOLE[name], x))


@pytest.mark.parametrize("name", ["sum", "max", "variance"])
def test_loads_of_a_large_sum_are_on_their_way_together(name):
    made = compiled(WHOLE[name], "f32[67108864]")
    assert max(blocks for blocks, _ in launches(made)) == 16384
    for step in ("%group", "%place", "%among"):
        assert re.search(rf"unroll {step}\S* factor=(8|16)", made.text("schedule"))


def test_totals_are_added_once():
    """What is computed of a mean reads it, and does not add 16,384 totals in each block."""
    made = compiled(WHOLE["variance"], "f32[67108864]")
    assert "  stages %kernel" in made.text("schedule").splitlines()
    turns = re.findall(r"serial (%turn\d+)", made.text("loops"))
    assert len(turns) == 2


COLUMNS = {
    "sum": lambda x: x.sum(axis=0),
    "mean and variance": lambda x: (x.mean(axis=0), x.var(axis=0)),
    "argmax": lambda x: np.argmax(x, axis=0),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(
    "shape", [(1, 33), (2, 7), (127, 40), (129, 32), (4096, 3), (4097, 33), (8300, 70)], ids=str
)
def test_columns(name, shape):
    x = f32(*shape)
    assert_same_bits(emulated(COLUMNS[name], x), machine_code(COLUMNS[name], x))


def test_columns_of_an_array_of_four_axes():
    def f(x):
        return x.sum(axis=(0, 1, 2))

    x = f32(5, 30, 31, 6)
    assert_same_bits(emulated(f, x), machine_code(f, x))


@pytest.mark.parametrize(("rows", "columns"), [(65536, 512), (8192, 8192), (4096, 1024)])
def test_columns_are_folded_by_many_blocks_with_many_loads(rows, columns):
    made = compiled(COLUMNS["sum"], f"f32[{rows},{columns}]")
    blocks, lanes = launches(made)[0]
    assert blocks * lanes == max(1, rows // 4096) * columns
    assert lanes == 32
    assert re.search(r"ahead %group\S* factor=(32|64)", made.text("schedule"))


def test_neighbouring_lanes_read_neighbouring_columns():
    made = compiled(COLUMNS["sum"], "f32[65536,512]")
    assert re.search(r"load %b0\[.*\+mod\(%\S+\.f,512\)", made.text("loops"))


SHORT = {
    "sum": lambda x: x.sum(axis=1),
    "softmax": lambda x: dlvm.nn.softmax(x, axis=1),
    "argmax": lambda x: np.argmax(x, axis=1),
    "variance": lambda x: x.var(axis=1),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize(
    "shape", [(1, 1), (1000, 4), (129, 7), (33, 16), (5, 17), (40, 33), (0, 4), (3, 0)], ids=str
)
def test_short_rows(name, shape):
    x = f32(*shape)
    if x.shape[1] or name in ("sum",):
        assert_same_bits(emulated(SHORT[name], x), machine_code(SHORT[name], x))


def test_a_lane_folds_a_short_row():
    assert launches(compiled(SHORT["sum"], "f32[1048576,4]")) == [(8192, 128)]
    assert launches(compiled(SHORT["sum"], "f32[65536,1024]")) == [(65536, 32)]


@pytest.mark.parametrize("shape", [(1, 2, 2, 1), (2, 8, 6, 5), (1, 9, 7, 3)], ids=str)
def test_max_pool(shape):
    x = f32(*shape)

    def f(x):
        return dlvm.nn.max_pool(x, 2)

    assert_same_bits(emulated(f, x), machine_code(f, x))


def test_windows_of_a_pool_that_lie_side_by_side_are_folded_by_a_lane():
    """As many as 16 bytes hold."""
    made = compiled(lambda x: dlvm.nn.max_pool(x, 2), "f32[32,112,112,64]")
    ((blocks, lanes),) = launches(made)
    assert 4 * blocks * lanes == 32 * 56 * 56 * 64
    assert lanes == 128
