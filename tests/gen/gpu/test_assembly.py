"""Kernels of known sizes: spilt registers, barriers, widths of accesses, and guards."""

import pytest

from .assembly import COLUMNS, PROCESSORS, PROGRAMS, assembled, barriers, compiled, guards, widths
from .kinds import KINDS
from .test_rows import ROWS

SUMS = {"f32": 256, "f64": 512}
"""Bytes of a lane's sums of earlier chunks of a product: no more than these may lie in memory."""


def spilling(name):
    """Bytes of memory that a lane may have of its own."""
    kind, *rest = name.split()
    return SUMS.get(rest[0], 0) if kind == "product" else 0


@pytest.mark.drawn(12)
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if not name.startswith("kind")])
def test_no_register_is_spilt(name, processor, tmp_path):
    told = assembled(compiled(name, processor).text("ptx"), tmp_path)
    assert max(told.frame) <= spilling(name)
    assert spilling(name) or not any(told.spilt)


@pytest.mark.parametrize("name", [f"kind {kind}" for kind in KINDS])
@pytest.mark.drawn(3)
def test_few_kinds_have_barriers_of_a_block(name):
    text = compiled(name, "sm_80").text("ptx")
    tiles = ("product", "dense", "transpose", "gradient")
    assert (barriers(text) > 0) == any(name.endswith(tile) for tile in tiles)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("kind", ROWS)
def test_rows_are_read_and_written_sixteen_bytes_at_once(kind, columns, dtype):
    """A row that is not kept is folded in place, where neighbouring lanes take neighbours."""
    made = compiled(f"{kind} {dtype} {columns}", "sm_90a")
    text = made.text("ptx")
    assert barriers(text) <= 3
    assert set(widths(text, "st")) == {16}
    is_kept = "stage" in made.text("schedule")
    assert is_kept == (columns * int(dtype[1:]) // 8 <= 32768)
    assert set(widths(text, "ld")) == ({16} if is_kept else {4, 16})


WIDE = {
    "softmax f32 4096": 16,
    "layer norm f16 1024": 16,
    "transpose f32 1024": 4,
    "product f32 1024": 16,
    "product f16 1024": 4,
    "product f64 1024": 16,
}


@pytest.mark.parametrize("name", WIDE)
def test_sizes_that_divide_have_no_guards_and_wide_stores(name):
    """A lane has two neighbours of what a warp's instruction gives, and one of a transpose."""
    made = compiled(name, "sm_80")
    assert not guards(made.text("loops"))
    assert set(widths(made.text("ptx"), "st")) == {WIDE[name]}


@pytest.mark.parametrize("name", ["transpose f32 1000", "product f16 1000"])
def test_borders_have_guards(name):
    assert guards(compiled(name, "sm_80").text("loops"))
