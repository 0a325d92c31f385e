"""Arrays of pieces, and shardings beside the types in IR text."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import IRError, UserError
from dlvm.ir import parse
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ir.sharding.ranks import World
from dlvm.ir.sharding.sharded import Sharded

GRID = Mesh.named("data=2,model=2")
X = np.arange(15.0).reshape(5, 3)
TEXT = """dlvm 1
func @f(%x: f32[B@data+model,256] donated, %y: f32[512@data,256]) -> (f32[B,256], f32[512]) {
  %0 = exp %x : f32[B,256@model]
  %1 = sum %y axes=(1) : f32[512@data]
  return %0, %1
}
"""


@pytest.mark.parametrize("names", [("data",), ("data", "model"), ("model", "data")])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_array_cut_into_pieces_is_whole_again(names: tuple[str, ...], axis: int) -> None:
    sharding = (names, ()) if axis == 0 else ((), names)
    x = Sharded.cut(GRID, X, sharding)
    assert len({p.shape for p in x.pieces}) == 1
    np.testing.assert_array_equal(x.whole(), X)
    np.testing.assert_array_equal(np.asarray(x, "f4"), X.astype("f4"))


def test_each_rank_reads_its_own_rows_without_what_lies_beyond_the_end() -> None:
    x = Sharded.cut(Mesh.named("data=4"), X, (("data",), ()))
    rows = World(x.mesh).run(lambda rank: x.local)
    assert [len(r) for r in rows] == [2, 2, 1, 0]
    np.testing.assert_array_equal(np.concatenate(rows), X)


def test_a_copy_shares_no_memory_and_ranks_with_one_piece_still_share_it() -> None:
    x = Sharded.cut(GRID, X, (("data",), ()))
    other = x.copied()
    assert x.overlaps(x) and not x.overlaps(other)
    assert other.pieces[0] is other.pieces[1] and other.pieces[0] is not other.pieces[2]
    np.testing.assert_array_equal(other.whole(), X)
    with pytest.raises(UserError, match="found pieces of ranks"):
        _ = x.address


def test_text_with_shardings_is_read_back() -> None:
    module = parse(TEXT)
    assert module.main.params[0].sharding == (("data", "model"), ())
    assert module.main.ops[0].results[0].sharding == ((), ("model",))
    assert str(module) == TEXT and parse(str(module)) == module


def test_modules_that_differ_in_a_sharding_are_not_equal() -> None:
    assert parse(TEXT) != parse(TEXT.replace("[512@data]", "[512]"))
    assert parse(TEXT) != parse(TEXT.replace("[512@data,256]", "[512,256@data]"))


def test_a_whole_value_is_printed_without_names() -> None:
    module = parse(TEXT.replace("@data+model", ""))
    module.main.params[0].sharding = ((), ())
    assert "%x: f32[B,256] donated" in str(module) and parse(str(module)) == module


@pytest.mark.parametrize(
    "wrong, said",
    [("f32[4@,2]", "a name starting with @"), ("f32[4@data+,2]", "the name of an axis")],
)
def test_names_that_cannot_be_read(wrong: str, said: str) -> None:
    with pytest.raises(IRError, match=said):
        parse(f"dlvm 1\nfunc @f(%x: {wrong}) -> f32 {{\n  return %x\n}}\n")
    with pytest.raises(UserError, match=said):
        dlvm.spec(wrong)
