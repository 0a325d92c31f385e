"""Folds over several axes: what lies on one line and what does not, columns and lanes."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.loops.frames import lines, on_one_line
from dlvm.gen.loops.statements import Local, Loop, statements
from dlvm.ir import DTYPES, parse
from tests.gen.compiled import Compiled, interpret, kernel, loops
from tests.gen.values import same_bits

AXES = [(0,), (0, 1), (1, 2), (0, 3), (0, 2, 3), (1, 2, 3), (0, 1, 2, 3)]


def sums(x, b, axes):
    """Whole numbers, so that every order gives the same sum."""
    return (
        x.sum(axes),
        (x + b).sum(axes),
        (x[:, :, ::-1] * b).sum(axes),
        x.transpose(1, 0, 3, 2).sum(axes),
        np.concatenate([x, x[:, :1]], 1).sum(axes),
        x - (x * b).sum(axes, keepdims=True),
    )


@pytest.mark.drawn(3)
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
def test_sums_of_what_lies_anywhere(axes, open_sizes):
    dynamic = {"x": "A,B,C,D", "b": "D"} if open_sizes else {}
    staged = dlvm.function(lambda x, b: sums(x, b, axes), dynamic=dynamic, threads=2)
    for shape in ((3, 4, 5, 6), (5, 8, 16, 17), (1, 3, 0, 2), (4, 2, 3, 65), (7, 1, 1, 9)):
        x = (np.arange(np.prod(shape)) % 19 - 9).reshape(shape).astype(np.float32)
        b = (np.arange(shape[-1]) % 5 - 2).astype(np.float32)
        for found, expected in zip(staged(x, b), sums(x, b, axes), strict=True):
            np.testing.assert_array_equal(found, expected)


OUTER = """func @f(%x: f32[{m}], %y: f32[{n}]) -> f32 {{
  %0 = broadcast %x shape=({m},{n}) axes=(0) : f32[{m},{n}]
  %1 = broadcast %y shape=({m},{n}) axes=(1) : f32[{m},{n}]
  %2 = mul %0, %1 : f32[{m},{n}]
  %3 = sum %2 axes=(0,1) : f32
  return %3
}}"""


SIZES = [
    ("M", 16, True),
    (1, 9000, True),
    (90, 12, True),
    (700, 33, True),
    (5, 12, False),
    ("M", 0, False),
    (3, 4, False),
    (9000, 1, False),
    (30, 8, False),
    (700, "N", True),
    ("M", "N", True),
]


@pytest.mark.parametrize(("m", "n", "filled"), SIZES)
def test_a_piece_is_computed_row_by_row_and_folded_in_its_order(m, n, filled):
    """Where rows are known to be long: to the bits of the same products in memory."""
    op, _ = kernel(OUTER.format(m=m, n=n))
    arrays = [s for s in statements(loops(op).body) if isinstance(s, Local) and s.size == 2048]
    assert bool(arrays) == filled
    flat, _ = kernel("func @f(%x: f32[M,N]) -> f32 {\n%0 = sum %x axes=(0,1) : f32\nreturn %0\n}")
    assert not any(s.size == 2048 for s in statements(loops(flat).body) if isinstance(s, Local))
    compiled, beside = Compiled(op), Compiled(flat)
    rng = np.random.default_rng(0)
    for rows, columns in ((0, 3), (1, 1), (3, 0), (700, 33)):
        sizes = (rows if m == "M" else m, columns if n == "N" else n)
        x, y = (rng.normal(size=size).astype(np.float32) for size in sizes)
        found = compiled(x, y)[0][0]
        assert same_bits(found, interpret(op, (x, y))[0][0])
        assert same_bits(found, beside(x[:, None] * y)[0][0])


LINES = [
    ("", "mul %x, %x : f32[2,3,4,5]", 4),
    ("%0 = broadcast %c shape=(2,3,4,5) axes=(1) : f32[2,3,4,5]", "sub %x, %0 : f32[2,3,4,5]", 2),
    ("%0 = broadcast %h shape=(2,3,4,5) axes=(2) : f32[2,3,4,5]", "sub %x, %0 : f32[2,3,4,5]", 1),
    ("%0 = broadcast %m shape=(2,3,4,5) axes=(2,3) : f32[2,3,4,5]", "sub %x, %0 : f32[2,3,4,5]", 2),
    ("%0 = broadcast %s shape=(2,3,4,5) axes=() : f32[2,3,4,5]", "sub %x, %0 : f32[2,3,4,5]", 4),
    ("%0 = reshape %l shape=(2,3,4,5) : f32[2,3,4,5]", "sub %x, %0 : f32[2,3,4,5]", 4),
    (
        "%0 = slice %x starts=(0,0,3,0) sizes=(2,3,4,5) steps=(1,1,-1,1) : f32[2,3,4,5]",
        "sub %x, %0 : f32[2,3,4,5]",
        0,
    ),
    (
        "%0 = broadcast %c shape=(40,3) axes=(1) : f32[40,3]\n"
        "%1 = reshape %0 shape=(2,3,4,5) : f32[2,3,4,5]",
        "sub %x, %1 : f32[2,3,4,5]",
        0,
    ),
    (
        "%0 = mul %m, %m : f32[4,5]\n"
        "%1 = slice %0 starts=(3,0) sizes=(4,5) steps=(-1,1) : f32[4,5]\n"
        "%2 = broadcast %1 shape=(2,3,4,5) axes=(2,3) : f32[2,3,4,5]",
        "sub %x, %2 : f32[2,3,4,5]",
        0,
    ),
]


@pytest.mark.parametrize(("before", "last", "found"), LINES, ids=range(len(LINES)))
def test_along_how_many_axes_elements_lie_beside_one_another(before, last, found):
    module = parse(
        "dlvm 1\nfunc @f(%x: f32[2,3,4,5], %c: f32[3], %h: f32[4], %m: f32[4,5], %s: f32, "
        f"%l: f32[120]) -> f32[2,3,4,5] {{\n{before}\n%9 = {last}\nreturn %9\n}}"
    )
    (value,) = module.main.results
    assert lines(value) == found
    assert on_one_line(value) == (found == 4)


@pytest.mark.parametrize("width", [5, 65, 300, 1500])
def test_a_row_goes_on_over_axes_along_which_other_operands_stay_the_same(width):
    """A batch norm's images: as the reference, whatever is known of the sizes."""

    def spread(x, c):
        return ((x - c[:, None, None]) ** 2).sum((0, 2, 3))

    rng = np.random.default_rng(width)
    x = rng.integers(-3, 4, (3, 2, 7, width)).astype(np.float32)
    c = rng.integers(-3, 4, 2).astype(np.float32)
    known, opened = dlvm.function(spread), dlvm.function(spread, dynamic={"x": "N,C,H,W", "c": "C"})
    np.testing.assert_array_equal(known(x, c), spread(x, c))
    np.testing.assert_array_equal(opened(x, c), spread(x, c))
    x, c = x + rng.normal(size=x.shape).astype(np.float32), c / 3
    assert same_bits(known(x, c), opened(x, c))


def of_two(x, y):
    """Folds of two operands whose rows are turned, so that each lies in an array of the kernel."""
    z = x[::-1] * y
    return (z > 0).any((0, 1)), z.sum((0, 1)), z.max((0, 1))


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i8"])
@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
def test_the_end_of_a_piece_is_the_end_of_its_array(dtype, open_sizes):
    """The last vector of a row was written whole, over the array behind."""
    dynamic = {"x": "N,M", "y": "N,1"} if open_sizes else {}
    for rows, width in ((65, 403), (300, 129), (90, 97), (5000, 17), (7, 1300)):
        x = (np.arange(rows * width) % 3 - 1).reshape(rows, width) * (np.arange(rows) % 2)[:, None]
        x[3, 5:9] = 1
        y = np.ones((rows, 1))
        kind = DTYPES[dtype].numpy
        some, total, most = dlvm.function(of_two, dynamic=dynamic)(x.astype(kind), y.astype(kind))
        exact = x.sum() if dtype != "i8" else np.int8(x.sum() % 256 - 256 * (x.sum() % 256 > 127))
        assert some and float(most) == 1.0
        assert float(total) == float(np.asarray(exact).astype(np.asarray(total).dtype))


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_known_and_open_sizes_give_the_same_bits(axes):
    for shape in ((50, 3, 2, 5), (5, 8, 16, 17), (3, 40, 2, 12)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        known = dlvm.function(lambda x: x.sum(axes))
        opened = dlvm.function(lambda x: x.sum(axes), dynamic={"x": "A,B,C,D"})
        assert same_bits(known(x), opened(x))


def test_columns_beside_one_another_are_folded_as_one_row():
    op, _ = kernel(
        "func @f(%x: f32[M,100,10]) -> f32[100,10] {\n"
        "%0 = sum %x axes=(0) : f32[100,10]\nreturn %0\n}",
        tree=(4096, 1),
    )
    (columns,) = (s for s in loops(op).body if isinstance(s, Loop))
    assert (columns.kind, columns.extent) == ("vector", 1000)
    x = np.random.default_rng(0).normal(size=(37, 100, 10)).astype(np.float32)
    assert same_bits(Compiled(op)(x)[0][0], interpret(op, (x,))[0][0])
    np.testing.assert_allclose(Compiled(op)(x)[0][0], x.sum(0), rtol=1e-4, atol=1e-5)
