"""Rows on a GPU: barriers only where a lane needs what another wrote, and no spilt registers."""

import pytest

import dlvm

from .assembly import assembled
from .kinds import KINDS, f32
from .test_programs import assert_same_bits, emulated, machine_code
from .test_sums import compiled

ROWS = ("softmax", "layer norm")


def types(kind, rows, columns):
    own = [f"f32[{columns}]"] * 2 if kind == "layer norm" else []
    return f"f32[{rows},{columns}]", *own


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("columns", [300, 1024, 2048])
def test_lanes_that_read_what_they_wrote_do_not_wait(kind, columns):
    made = compiled(KINDS[kind][0], *types(kind, 65536, columns))
    assert "bar.sync" not in made.text("ptx")
    assert ".shared" in made.text("ptx")


def test_lanes_wait_for_what_others_wrote():
    """Totals of chunks are read by all lanes and added by one."""
    made = compiled(lambda x: x.sum(), "f32[67108864]")
    assert made.text("ptx").count("bar.warp.sync") >= 2


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("columns", [4096, 8192, 16384])
def test_no_register_is_spilt(kind, columns, tmp_path):
    text = compiled(KINDS[kind][0], *types(kind, 8192, columns)).text("ptx")
    told = assembled(text, tmp_path)
    assert not any(told.spilt)
    assert max(told.registers) <= 128


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("columns", [31, 512, 1000, 4097, 8192, 8200, 9000])
def test_rows_of_any_length(kind, columns):
    x = f32(300, columns) if columns < 600 else f32(3, columns)
    given = (x, f32(columns), f32(columns)) if kind == "layer norm" else (x,)
    f = KINDS[kind][0]
    assert_same_bits(emulated(f, *given), machine_code(f, *given))


@pytest.mark.parametrize("columns", [4100, 8192])
def test_many_long_rows_are_kept_as_well(columns):
    def f(x):
        return dlvm.nn.softmax(x[:2], axis=1) + dlvm.nn.softmax(x, axis=1)[:2]

    x = f32(257, columns)
    assert_same_bits(emulated(f, x), machine_code(f, x))
