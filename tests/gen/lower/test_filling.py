"""Operands of products that are computed piece by piece, as the interpreters have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.statements import Fill, Load, Product, Store, statements
from dlvm.gen.loops.verifier import verify
from tests.gen.compiled import Compiled, cpu, interpret, kernel, loops


def whole(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Small whole numbers, of which products and sums are exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(dtype)


def agrees(text: str, *arrays: np.ndarray, fills: int = 1, threads: int = 1) -> Any:
    """The machine code and the loops of a product compute what the function does."""
    op, module = kernel(text, "product")
    made = loops(op)
    assert sum(isinstance(s, Fill) for s in statements(made.body)) == fills, made
    with np.errstate(all="ignore"):
        expected = module.run("f", *arrays)
    found, _ = Compiled(op)(*arrays, threads=threads)
    by_loops, _, _ = interpret(op, arrays)
    for a, b, c in zip(found, by_loops, expected, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, c)
    return made


SIZES = [
    (1, 1, 1),
    (3, 5, 7),
    (64, 64, 64),
    (130, 300, 70),
    (7, 600, 33),
    (33, 1, 257),
    (5, 0, 4),
    (0, 3, 4),
    (3, 4, 0),
    (2, 3, 400),
]
FORMS = {
    "x": ("%s = mul %x, %x : D[M,K]", "%s", "%y", "M,K", "K,N"),
    "y": ("%s = mul %y, %y : D[K,N]", "%x", "%s", "M,K", "K,N"),
    "x turned": (
        "%0 = mul %x, %x : D[K,M]\n  %s = permute %0 perm=(1, 0) : D[M,K]",
        "%s",
        "%y",
        "K,M",
        "K,N",
    ),
    "y turned": (
        "%0 = mul %y, %y : D[N,K]\n  %s = permute %0 perm=(1, 0) : D[K,N]",
        "%x",
        "%s",
        "M,K",
        "N,K",
    ),
}
FORM = """func @f(%x: D[XS], %y: D[YS]) -> D[M,N] {
  MADE
  %m = matmul A, B : D[M,N]
  return %m
}"""


def formed(name: str, dtype: str) -> str:
    """The text of a product one of whose operands is computed."""
    made, a, b, xs, ys = FORMS[name]
    text = FORM.replace("MADE", made).replace("XS", xs).replace("YS", ys)
    return text.replace(" A,", f" {a},").replace(" B ", f" {b} ").replace("D[", f"{dtype}[")


@pytest.mark.drawn(3)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_an_operand_is_a_formula(name: str, sizes: tuple[int, int, int]):
    m, k, n = sizes
    x = whole(k, m) if name == "x turned" else whole(m, k)
    y = whole(n, k) if name == "y turned" else whole(k, n)
    agrees(formed(name, "f32"), x, y)


@pytest.mark.parametrize("dtype", ["f64", "i32", "i64"])
@pytest.mark.parametrize("name", FORMS)
def test_in_other_types(name: str, dtype: str):
    kind = {"f64": np.float64, "i32": np.int32, "i64": np.int64}[dtype]
    m, k, n = 37, 70, 41
    x = whole(k, m, dtype=kind) if name == "x turned" else whole(m, k, dtype=kind)
    y = whole(n, k, dtype=kind) if name == "y turned" else whole(k, n, dtype=kind)
    agrees(formed(name, dtype), x, y)


def test_both_operands_by_threads():
    text = """func @f(%x: f32[M,K], %y: f32[K,N], %c: f32[K]) -> f32[M,N] {
  %0 = broadcast %c shape=(M,K) axes=(1) : f32[M,K]
  %1 = add %x, %0 : f32[M,K]
  %2 = mul %y, %y : f32[K,N]
  %3 = matmul %1, %2 : f32[M,N]
  %4 = add %3, %3 : f32[M,N]
  return %4
}"""
    agrees(text, whole(260, 300), whole(300, 130), whole(300), fills=2, threads=2)


def test_picked_rows_cast():
    text = """func @f(%x: f64[P,K], %i: i64[M], %y: f32[K,N]) -> f32[M,N] {
  %0 = gather %x, %i axis=0 : f64[M,K]
  %1 = cast %0 dtype=f32 : f32[M,K]
  %2 = matmul %1, %y : f32[M,N]
  return %2
}"""
    rows = np.array([3, 0, 3, -1, 5] * 9)
    agrees(text, whole(6, 40, dtype=np.float64), rows, whole(40, 50))


def test_heads_that_are_joined():
    text = """func @f(%x: f32[4,N,32], %y: f32[128,P]) -> f32[N,P] {
  %0 = permute %x perm=(1, 0, 2) : f32[N,4,32]
  %1 = reshape %0 shape=(N,128) : f32[N,128]
  %2 = matmul %1, %y : f32[N,P]
  return %2
}"""
    agrees(text, whole(4, 70, 32), whole(128, 40))


# -- windows -------------------------------------------------------------------------------------

CONV = """func @f(%x: f32[B,{h},{w},{c}], %y: f32[{taps},{o}]) -> f32[{rows},{o}] {{
  %0 = patches %x axes=(1, 2) sizes=({p},{q}) steps=({s},{s}) dilations=({d},{d}) : {t0}
  %1 = permute %0 perm=(0, 1, 2, 4, 5, 3) : {t1}
  %2 = reshape %1 shape=({rows},{taps}) : f32[{rows},{taps}]
  %3 = matmul %2, %y : f32[{rows},{o}]
  return %3
}}"""
WEIGHTS = """func @f(%x: f32[B,{h},{w},{c}], %y: f32[{rows},{o}]) -> f32[{taps},{o}] {{
  %0 = patches %x axes=(1, 2) sizes=({p},{q}) steps=({s},{s}) dilations=({d},{d}) : {t0}
  %1 = permute %0 perm=(0, 1, 2, 4, 5, 3) : {t1}
  %2 = reshape %1 shape=({rows},{taps}) : f32[{rows},{taps}]
  %3 = permute %2 perm=(1, 0) : f32[{taps},{rows}]
  %4 = matmul %3, %y : f32[{taps},{o}]
  return %4
}}"""


def windows(text: str, b: int, h: int, w: int, c: int, o: int, p: int, q: int, s: int, d: int):
    """The text for these sizes, the number of windows and that of their elements."""
    high, wide = ((n - (k - 1) * d - 1) // s + 1 for n, k in ((h, p), (w, q)))
    places, taps = f"B,{high},{wide}", p * q * c
    rows = f"{high * wide}*B"
    types = {"t0": f"f32[{places},{c},{p},{q}]", "t1": f"f32[{places},{p},{q},{c}]"}
    sizes = {"h": h, "w": w, "c": c, "o": o, "p": p, "q": q, "s": s, "d": d}
    return text.format(taps=taps, rows=rows, **types, **sizes), b * high * wide, taps


@pytest.mark.parametrize(
    "sizes",
    [
        (2, 9, 8, 1, 6, 5, 5, 1, 1),
        (3, 9, 8, 3, 4, 3, 3, 1, 1),
        (2, 11, 10, 64, 9, 3, 3, 2, 1),
        (1, 9, 9, 100, 33, 3, 3, 1, 2),
        (1, 5, 5, 300, 3, 2, 2, 1, 1),
        (1, 4, 4, 257, 3, 2, 2, 1, 1),
        (2, 6, 6, 2, 5, 1, 3, 1, 1),
        (0, 6, 6, 2, 5, 3, 3, 1, 1),
        (1, 7, 8, 5, 1, 7, 7, 1, 1),
        (1, 6, 6, 11, 3, 5, 5, 1, 1),
    ],
    ids=str,
)
def test_windows_of_images_are_no_array(sizes: tuple[int, ...]):
    b, h, w, c, o, *_ = sizes
    text, rows, taps = windows(CONV, *sizes)
    agrees(text, whole(b, h, w, c), whole(taps, o))
    text, rows, taps = windows(WEIGHTS, *sizes)
    agrees(text, whole(b, h, w, c), whole(rows, o))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [(0, 3), (4, 0), (1, 1), (9, 7), (21, 80), (2, 700)], ids=str)
def test_windows_of_an_open_image_are_filled_along_its_rows(size: tuple[int, int], threads: int):
    """Channels first, so that the places of an image are columns, which any part may cut."""
    h, w = size
    text = """func @f(%w: f32[5,27], %x: f32[3,H+2,W+2]) -> f32[5,H*W] {
      %0 = patches %x axes=(1, 2) sizes=(3, 3) steps=(1, 1) dilations=(1, 1) : f32[3,H,W,3,3]
      %1 = permute %0 perm=(0, 3, 4, 1, 2) : f32[3,3,3,H,W]
      %2 = reshape %1 shape=(27, H*W) : f32[27,H*W]
      %3 = matmul %w, %2 : f32[5,H*W]
      return %3
    }"""
    made = agrees(text, whole(5, 27), whole(3, h + 2, w + 2), threads=threads)
    assert "floordiv(%c" not in str(made), "no division for each element"


# -- the loops -------------------------------------------------------------------------------------


def one() -> tuple[Any, Product, Fill]:
    """The loops of a product, it and what fills its operand."""
    made = loops(kernel(formed("x", "f32"), "product")[0], cpu())
    (product,) = (s for s in statements(made.body) if isinstance(s, Product))
    (fill,) = (s for s in product.body if isinstance(s, Fill))
    return made, product, fill


def spoilt(made: Any, product: Product, old: Any, new: Any) -> Any:
    """The loops with another statement in place of one."""

    def body(statements_: Any) -> Any:
        return tuple(
            new if s is old else replace(s, body=body(s.body)) if hasattr(s, "body") else s
            for s in statements_
        )

    return replace(made, body=body(made.body))


def test_what_fills_an_operand_stays_in_its_piece():
    made, product, fill = one()
    (store,) = (s for s in statements(fill.body) if isinstance(s, Store))
    for offset, problem in (
        (store.offset + 1, "inside"),
        (store.offset * 0, "two turns"),
    ):
        with pytest.raises(CompilerError, match=problem):
            verify(spoilt(made, product, store, replace(store, offset=offset)))
    elsewhere = replace(store, memory=made.buffers[-1])
    with pytest.raises(CompilerError, match="elsewhere"):
        verify(spoilt(made, product, store, elsewhere))


def test_the_text_shows_what_is_filled():
    made, _, fill = one()
    assert f"fill %{fill.piece.name}: f32 by 1 at" in str(made)
    assert f"product %{fill.piece.name} by %b1" in str(made)
    assert isinstance(next(s for s in statements(fill.body) if hasattr(s, "scalar")).scalar, Load)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("side", [2, 5])
def test_windows_are_computed_where_they_are_read(channels: int, side: int, threads: int):
    """On the right of a product they are copied only where they are more than one strip."""
    size, c, s = 15 + side, channels, side
    text = f"""func @f(%g: f32[1024,7], %x: f32[4,{size},{size},{c}]) -> f32[7,{s * s * c}] {{
      %0 = patches %x axes=(1, 2) sizes=({s}, {s}) steps=(1, 1) dilations=(1, 1)
        : f32[4,16,16,{c},{s},{s}]
      %1 = permute %0 perm=(0, 1, 2, 4, 5, 3) : f32[4,16,16,{s},{s},{c}]
      %2 = reshape %1 shape=(1024, {s * s * c}) : f32[1024,{s * s * c}]
      %3 = permute %g perm=(1, 0) : f32[7,1024]
      %4 = matmul %3, %2 : f32[7,{s * s * c}]
      return %4
    }}""".replace("\n        :", " :")
    agrees(text, whole(1024, 7), whole(4, size, size, c), threads=threads)
