"""Products of few columns that are computed as the transpose of another one, to the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.cost import lanes_per_step
from dlvm.gen.loops.statements import Product, statements
from dlvm.ir import F32, F64
from tests.gen.compiled import Compiled, interpret, kernel, loops
from tests.gen.values import same_bits

Size = int | str


def written(dtype: str, m: Size, n: Size, k: Size, turned: bool = True) -> str:
    """The product of x and y less b, where the columns of x lie in memory as rows if turned."""
    x, perm = (f"{k},{m}", "(1, 0)") if turned else (f"{m},{k}", "(0, 1)")
    head = f"func @f(%x: {dtype}[{x}], %y: {dtype}[{k},{n}], %b: {dtype}[{n}])"
    return f"""{head} -> {dtype}[{m},{n}] {{
      %0 = permute %x perm={perm} : {dtype}[{m},{k}]
      %1 = matmul %0, %y : {dtype}[{m},{n}]
      %2 = broadcast %b shape=({m}, {n}) axes=(1) : {dtype}[{m},{n}]
      %3 = sub %1, %2 : {dtype}[{m},{n}]
      return %3
    }}"""


def sizes(text: str) -> tuple[str, str]:
    """The rows and columns of the product in a kernel."""
    body = loops(kernel(text, "product")[0]).body
    (product,) = (s for s in statements(body) if isinstance(s, Product))
    return str(product.m), str(product.n)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "m", "n", "k"),
    [
        ("f32", 25, 6, 5000),
        ("f32", 25, 6, 150),
        ("f32", 100, 17, 1700),
        ("i32", 25, 6, 600),
        ("f64", 25, 3, 333),
        ("f64", 300, 2, 1111),
    ],
)
def test_a_turned_product_has_the_bits_of_the_other(
    dtype: str, m: int, n: int, k: int, threads: int
):
    text, open_ = written(dtype, m, n, k), written(dtype, m, n, "K")
    assert (sizes(text), sizes(open_)) == ((str(n), str(m)), (str(m), str(n)))
    op, module = kernel(text, "product")
    number, rng = module.functions[0].params[0].type.dtype.numpy, np.random.default_rng(k)
    arrays = [(4 * rng.standard_normal(s)).astype(number) for s in ((k, m), (k, n), (n,))]
    found = Compiled(op)(*arrays, threads=threads)[0][0]
    assert same_bits(found, interpret(op, arrays)[0][0])
    assert same_bits(found, Compiled(kernel(open_, "product")[0])(*arrays)[0][0])


@pytest.mark.parametrize(
    ("m", "n", "k"), [(25, 6, 149), (25, 16, 5000), (6, 25, 5000), ("M", 6, 5000), (25, 6, "K")]
)
def test_a_product_stays_where_nothing_is_won(m: Size, n: Size, k: Size):
    """The result is large beside the sums, no more lanes are at work, or a size is not known."""
    assert sizes(written("f32", m, n, k)) == (str(m), str(n))


def test_a_product_whose_columns_lie_apart_in_memory_stays():
    assert sizes(written("f32", 25, 6, 5000, turned=False)) == ("25", "6")


def test_lanes_are_counted_in_whole_vectors():
    assert lanes_per_step(F32, 25, 6) == 25 * (8 + 8 + 16)
    assert lanes_per_step(F32, 6, 25) == 6 * (28 + 32 + 32)
    assert lanes_per_step(F64, 3, 5) == 3 * (6 + 8 + 8)
