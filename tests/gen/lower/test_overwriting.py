"""Windows that are replaced where they lie: by formulas and products that read beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.gen.loops.statements import Loop, Product, Store, statements
from dlvm.gen.loops.verifier import verify
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import kernels_of, to_program
from dlvm.gen.program.steps import Launch
from tests.gen.compiled import Compiled, gpu, interpret, kernel, loops
from tests.gen.values import same_bits

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


def odd_columns(a: Any, y: Any, z: Any) -> Any:
    """Columns that lie apart become a product."""
    a[:, 1::2] = y @ z
    return a


def rows_backwards(a: Any, y: Any, z: Any) -> Any:
    """Every other row, from the last to the first."""
    a[::-2, : z.shape[1]] = abs(y @ z) + 1
    return a


def of_formulas(a: Any, y: Any, z: Any) -> Any:
    """A product of what other kernels compute, just before the window is written."""
    a *= 2
    y, z = (np.cumsum(v, 0, dtype=v.dtype) for v in (y, z))
    a[:, 1::2] = y @ z
    return a


def late(a: Any, y: Any, z: Any) -> Any:
    """The factors need not be kept until the window is written."""
    product = np.cumsum(y, 1, dtype=y.dtype) @ z
    a += np.cumsum(a, 0, dtype=a.dtype)
    a[:, 1::2] = product
    return a


STORED = {odd_columns: 1, rows_backwards: 1, of_formulas: 4, late: 4}
"""Programs that store a product in a window, and how often they launch a kernel."""


def factors(f: Any, n: int, k: int, dtype: Any) -> list[np.ndarray]:
    """An array with a window for the product of an n x k and a k x n matrix, and these."""
    shape = (2 * n, n + 3) if f is rows_backwards else (n, 2 * n)
    return [whole(s, dtype) for s in (shape, (n, k), (k, n))]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 64, 257])
@pytest.mark.parametrize("k", [0, 1, 31])
@pytest.mark.parametrize("dtype", [F32, np.float64, np.float16, np.int32])
@pytest.mark.parametrize("f", STORED, ids=lambda f: f.__name__)
def test_products_are_stored_in_windows_with_steps(f: Any, n: int, k: int, dtype: Any):
    args = factors(f, n, k, dtype)
    staged = dlvm.function(lambda a, y, z: f(a.copy(), y, z))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(staged(*args), f(args[0].copy(), *args[1:]))


@pytest.mark.parametrize("dtype", [F32, np.float64])
@pytest.mark.parametrize("f", STORED, ids=lambda f: f.__name__)
def test_a_large_product_is_stored_by_its_own_kernel(f: Any, dtype: Any):
    args = factors(f, 257, 31, dtype)
    args[1][0, 0], args[1][1, 1] = np.nan, -0.0
    compiled = dlvm.function(lambda a, y, z: f(a.copy(), y, z)).compile(*args)
    assert compiled.report.launches == STORED[f]
    if STORED[f] == 1:
        assert compiled.report.peak_bytes == 0
    np.testing.assert_array_equal(compiled(*args), f(args[0].copy(), *args[1:]))
    for _, loops_ in kernels_of(compiled.road.kernels):
        verify(loops_)


def test_a_small_product_is_stored_by_another_kernel():
    args = factors(odd_columns, 64, 31, F32)
    compiled = dlvm.function(lambda a, y, z: odd_columns(a.copy(), y, z)).compile(*args)
    assert compiled.report.launches == 2


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


# -- chains ----------------------------------------------------------------------------------------


def chained(images: str, size: int = 9, taps: int = 3) -> Any:
    """A kernel that adds windows of each image to zeros, tap after tap, and its module."""
    y = f"f32[{images},{size - taps + 1},6,{taps}]"
    lines = [f"func @f(%x: f32[{images},{size},6], %y: {y}) -> f32[{images},{size},6] {{"]
    out, window = "%x", f"{images},{size - taps + 1},6"
    sizes = f"sizes=({images}, {size - taps + 1}, 6"
    for p in range(taps):
        at = f"starts=(0, {p}, 0)"
        lines += [
            f"  %a{p} = slice {out} {at} {sizes}) steps=(1, 1, 1) : f32[{window}]",
            f"  %b{p} = slice %y starts=(0, 0, 0, {p}) {sizes}, 1) steps=(1, 1, 1, 1)"
            f" : f32[{window},1]",
            f"  %c{p} = reshape %b{p} shape=({window}) : f32[{window}]",
            f"  %d{p} = add %a{p}, %c{p} : f32[{window}]",
            f"  %e{p} = update {out}, %d{p} {at} steps=(1, 1, 1) : f32[{images},{size},6]",
        ]
        out = f"%e{p}"
    return kernel("\n".join([*lines, f"  return {out}", "}"]), "scatter")


def outermost(op: Any, **how: Any) -> list[Loop]:
    """The loops of a kernel that stand in no other one."""
    made = loops(op, **how)
    assert [b.role for b in made.buffers] == ["inout", "in"]
    return [s for s in made.body if isinstance(s, Loop)]


@pytest.mark.parametrize(("images", "count"), [("64", 1), ("N", 1), ("2", 3)])
def test_windows_of_many_images_are_written_image_by_image(images: str, count: int):
    found = outermost(chained(images)[0])
    assert len(found) == count
    inside = [s for s in found[0].body if isinstance(s, Loop)]
    assert len(inside) == 3 or count > 1


def test_windows_are_launches_of_their_own_on_a_gpu():
    op = chained("64")[0]
    assert len(outermost(op, schedule=gpu(32))) == 3


@pytest.mark.parametrize("images", [1, 2, 64, 100])
def test_chains_add_tap_after_tap(images: int):
    op, module = chained("N")
    x, y = whole((images, 9, 6)), whole((images, 7, 6, 3))
    (found,), status = Compiled(op)(x, y)
    assert same_bits(found, module.run("f", x, y)[0]) and not status.any()
    assert same_bits(found, interpret(op, (x, y))[0][0])


def test_images_that_write_into_the_next_one_are_refused():
    """Each is inside of the array, as the last image has no turn any more."""
    made = loops(chained("64")[0])
    (outer,) = (s for s in made.body if isinstance(s, Loop))

    def moved(s: Any) -> Any:
        if isinstance(s, Loop):
            return replace(s, body=tuple(map(moved, s.body)))
        return replace(s, offset=s.offset + 54) if isinstance(s, Store) else s

    bad = replace(outer, extent=63, body=tuple(map(moved, outer.body)))
    with pytest.raises(CompilerError, match="share an element"):
        verify(replace(made, body=tuple(bad if s is outer else s for s in made.body)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("channels", [1, 3, 6, 16, 17, 23])
def test_overlaps_are_summed_in_place_in_one_launch(channels: int, threads: int):
    def f(x: Any, w: Any) -> Any:
        return (dlvm.nn.conv(x, w, padding="VALID") ** 2).sum()

    x, w = whole((40, 8, 8, channels)), whole((3, 3, channels, 3 * channels + 4))
    g = dlvm.function(dlvm.grad(f), threads=threads)
    dy = 2 * dlvm.function(lambda x, w: dlvm.nn.conv(x, w, padding="VALID"))(x, w)
    expected = np.zeros_like(x)
    for i, j in np.ndindex(3, 3):
        expected[:, i : i + 6, j : j + 6] += dy @ w[i, j].T
    np.testing.assert_array_equal(g(x, w), expected)
    kernels_ = [op for op, _ in kernels_of(g.compile(x, w).road.kernels)]
    assert [op.family for op in kernels_].count("scatter") == 1
