"""Windows that are replaced where they lie: by formulas and products that read beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.gen.loops.statements import Product, statements
from dlvm.gen.loops.verifier import verify
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import kernels_of, to_program
from dlvm.gen.program.steps import Launch
from tests.gen.compiled import kernel, loops

F32 = np.float32


def whole(shape: tuple[int, ...], dtype: Any = F32) -> np.ndarray:
    """Small whole numbers, of which products and sums are exact."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


def less(a: Any, i: int, j: int) -> Any:
    """The step of a blocked factorisation: a block less the product of two beside it."""
    a = a.copy()
    a[i:, i:] -= a[i:, j:i] @ a[j:i, i:]
    return a


@pytest.mark.parametrize("n", [1, 2, 7, 64, 131, 300])
@pytest.mark.parametrize("dtype", [F32, np.float64, np.float16, np.int32])
def test_a_block_less_a_product_of_its_neighbours_is_one_launch(n: int, dtype: Any):
    i, j = n // 2, n // 3
    a = whole((n, n), dtype)
    f = dlvm.function(lambda a: less(a, i, j))
    np.testing.assert_array_equal(f(a), less(a, i, j))
    if 0 < j < i:
        report = f.compile(a).report
        assert (report.launches, report.peak_bytes) == (1, 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_donated_array_is_not_copied(threads: int):
    @dlvm.function(donate=("a",), threads=threads)
    def f(a: Any) -> Any:
        return less(a, 256, 0)

    a = whole((700, 700))
    expected = less(a, 256, 0)
    steps = coalesce(to_program(f.compile(a).road.kernels)).steps
    assert [type(s) for s in steps] == [Launch]
    np.testing.assert_array_equal(f(a), expected)


# -- windows and what is read beside them --------------------------------------------------------


def transposed(a: Any) -> Any:
    """Operands that lie on their sides."""
    a[40:, :30] += a[:20, 40:].T @ a[:30, 40:60].T
    return a


def same_place(a: Any) -> Any:
    """Element by element."""
    a[10:20] = 2 * a[10:20] - a[10:20] * a[10:20]
    return a


def next_row(a: Any) -> Any:
    """Each row is read by the one before."""
    a[10:20] = a[11:21] + a[10:20]
    return a


def backwards(a: Any) -> Any:
    """Rows are exchanged."""
    a[10:20] = a[10:20][::-1] + a[10:20]
    return a


def between(a: Any) -> Any:
    """Every other row, of those between."""
    a[1:40:2] = a[1:40:2] - a[0:39:2]
    return a


def own_block(a: Any) -> Any:
    """A block that the product reads as well."""
    a[:20, :20] -= a[:20, :20] @ a[20:40, :20]
    return a


def rank_one(a: Any) -> Any:
    """A step of an elimination."""
    a[1:, 1:] -= a[1:, :1] * a[:1, 1:]
    return a


def two_blocks(a: Any) -> Any:
    """One block after the other."""
    a[30:, 30:] -= a[30:, :30] @ a[:30, 30:]
    a[:30, 30:] += a[:30, :30] @ a[:30, 30:]
    return a


def every_column(a: Any) -> Any:
    """Columns that lie apart."""
    a[:, 1::2] = a[:, ::2] @ a[:30, 1::2]
    return a


PROGRAMS = {
    transposed: 1,
    same_place: 1,
    next_row: 2,
    backwards: 2,
    between: 2,
    own_block: 2,
    rank_one: 1,
    two_blocks: 3,
    every_column: 4,
}
"""Programs, and how often they launch a kernel at most."""


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_a_window_is_what_was_there_before_it_was_replaced(f: Any):
    a = whole((60, 60))
    staged = dlvm.function(lambda a: f(a.copy()))
    compiled = staged.compile(a)
    np.testing.assert_array_equal(compiled(a), f(a.copy()))
    assert compiled.report.launches <= PROGRAMS[f]
    for _, loops_ in kernels_of(compiled.road.kernels):
        verify(loops_)


def test_open_sizes_are_updated_in_place():
    @dlvm.function(dynamic={"a": "N,N"})
    def f(a: Any) -> Any:
        a = a.copy()
        a[1:, 1:] -= a[1:, :1] @ a[:1, 1:]
        return a

    for n in (1, 2, 5, 130):
        a = whole((n, n))
        expected = a.copy()
        expected[1:, 1:] -= a[1:, :1] @ a[:1, 1:]
        np.testing.assert_array_equal(f(a), expected)


# -- the loops -------------------------------------------------------------------------------------

UPDATED = """func @f(%x: f32[P,Q]) -> f32[P,Q] {
  %0 = slice %x starts=(ROW, 0) sizes=(4, 3) steps=(1, 1) : f32[4,3]
  %1 = slice %x starts=(0, 3) sizes=(3, 5) steps=(1, 1) : f32[3,5]
  %2 = matmul %0, %1 : f32[4,5]
  %3 = update %x, %2 starts=(3, 3) steps=(1, 1) : f32[P,Q]
  return %3
}"""


def updated(row: int, shape: str = "9,9") -> Any:
    """The loops of a product that replaces a window of its operand."""
    p, q = shape.split(",")
    text = UPDATED.replace("ROW", str(row)).replace("P", p).replace("Q", q)
    return loops(kernel(text, "product")[0])


@pytest.mark.parametrize("row", [0, 2, 3, 4, 5])
def test_operands_beside_the_window_make_one_product_in_place(row: int):
    made = updated(row)
    assert [b.role for b in made.buffers] == ["inout"]
    assert any(isinstance(s, Product) for s in statements(made.body))
    verify(made)


@pytest.mark.parametrize("shift", [1, 28, 29, 35])
def test_a_tile_that_is_written_over_an_operand_is_refused(shift: int):
    """It was accepted: only the bounds were looked at."""
    made = updated(3)
    (product,) = (s for s in made.body if isinstance(s, Product))
    moved = replace(product, x=replace(product.x, offset=shift))
    bad = replace(made, body=tuple(moved if s is product else s for s in made.body))
    with pytest.raises(CompilerError, match="written over"):
        verify(bad)
