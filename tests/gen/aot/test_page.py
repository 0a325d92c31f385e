"""A page is one file that runs the function on what is typed or drawn, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlvm.base.errors import ArgumentError, DTypeError
from dlvm.gen.aot.page import page
from dlvm.gen.aot.wasm import module

from .browser import after
from .objects import object_of
from .test_loader import AFFINE, DESCRIPTION, NOTHING, of_kind

HALVES = """
; result0 = sums of the left and the right half of an image of 8 x 8; status 3 where a corner is 9
define i32 @halves(ptr %x, ptr %result0, ptr %weights, ptr %scratch) {
  store float 0.0, ptr %result0
  %second = getelementptr float, ptr %result0, i32 1
  store float 0.0, ptr %second
  %corner = load float, ptr %x
  %bad = fcmp oeq float %corner, 9.0
  br i1 %bad, label %fail, label %loop
fail:
  ret i32 3
loop:
  %i = phi i32 [ 0, %0 ], [ %j, %loop ]
  %p = getelementptr float, ptr %x, i32 %i
  %v = load float, ptr %p
  %column = and i32 %i, 7
  %half = lshr i32 %column, 2
  %q = getelementptr float, ptr %result0, i32 %half
  %s = load float, ptr %q
  %t = fadd float %s, %v
  store float %t, ptr %q
  %j = add i32 %i, 1
  %more = icmp ult i32 %j, 64
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""
IMAGE = np.arange(64, dtype=np.float32).reshape(8, 8)


def halves(shape: tuple[int, ...] = (8, 8), **options: Any) -> str:
    description = {
        "name": "halves",
        "arguments": [{"name": "x", "dtype": "f32", "shape": shape, "role": "argument"}],
        "results": [{"name": "result0", "dtype": "f32", "shape": (2,)}],
        "errors": {"3": "the corner is nine"},
    }
    return page(module(object_of(HALVES), ["halves"]), description, **options)


def affine(**options: Any) -> str:
    made = module(object_of(AFFINE), ["affine"])
    return page(made, DESCRIPTION, np.array([10, 20, 30], "f4").tobytes(), **options)


def test_scores_are_bars_from_what_arguments_start_with(tmp_path: Path):
    made = halves(labels=("left", "right"), values={"x": IMAGE})
    found = after(
        made,
        "return [text('.bar span'), text('.bar b'), text('.best span'),"
        "all('.bar i').map((e) => parseInt(e.style.width)), $('#status').textContent]",
        tmp_path,
    )
    left, right = IMAGE[:, :4].sum(), IMAGE[:, 4:].sum()
    assert found[:3] == [["left", "right"], [f"{left:.0f}", f"{right:.0f}"], ["right"]]
    assert found[3] == [int(100 * left / right), 100]
    assert re.fullmatch(r"halves: \d+\.\d\d ms a call", found[4])


@pytest.mark.parametrize("shape", [(8, 8), (64,), (1, 64), (1, 1, 8, 8)])
def test_an_image_is_drawn_and_cleared(shape: tuple[int, ...], tmp_path: Path):
    found = after(
        halves(shape, ink=16.0),
        "const c = '#argument-x canvas', out = [text('.bar b').map(Number)];"
        "point(c, 'pointerdown', .8, .1); point(c, 'pointermove', .8, .9);"
        "out.push(text('.bar b').map(Number), text('.best span'));"
        "const p = $(c).getContext('2d').getImageData(0, 0, 8, 8).data;"
        "out.push(p[4 * (4 * 8 + 6)], p[4 * (4 * 8 + 1)]);"
        "$('#argument-x button').click(); out.push(text('.bar b').map(Number)); return out",
        tmp_path,
    )
    before, (left, right), best, ink, paper, cleared = found
    assert before == cleared == [0, 0] and best == ["1"]
    assert left == 0 and 6 * 16 <= right <= 32 * 16
    assert ink == 0 and paper == 255


@pytest.mark.parametrize("shape", [(2, 32), (4, 16), (8, 8, 1)])
def test_other_shapes_are_typed(shape: tuple[int, ...], tmp_path: Path):
    zeros = " ".join(["0"] * 60)
    code = f"type('textarea', '1, 2\\n3 4 {zeros}'); return [all('canvas').length, text('.bar b')]"
    assert after(halves(shape), code, tmp_path) == [0, ["10", "0"]]


def test_what_is_typed_wrongly_and_what_a_function_refuses_are_told(tmp_path: Path):
    zeros = " ".join(["0"] * 63)
    found = after(
        halves((2, 32)),
        "const out = [], look = () => out.push([$('#status').textContent, $('#status').role]);"
        f"type('textarea', '1 two'); look(); type('textarea', '1 2'); look();"
        f"type('textarea', '9 {zeros}'); look(); type('textarea', '1 {zeros}'); look();"
        "return out",
        tmp_path,
    )
    assert found[:3] == [
        ["x: two is not a number", "alert"],
        ["x: expected 64 of f32 as numbers, found 2 elements", "alert"],
        ["the corner is nine", "alert"],
    ]
    assert found[3][1] == "status"


def test_a_function_with_state_makes_a_step_for_each_press(tmp_path: Path):
    values = {"scale": np.float32([2]).reshape(()), "total": np.array([100.0])}
    found = after(
        affine(values=values),
        "const out = [all('#results *').length];"
        "type('textarea', '1 2 3'); $('form button').click(); $('form button').click();"
        "out.push(text('#result-result0 b'), text('#result-total')); return out",
        tmp_path,
    )
    assert found == [0, ["12", "24", "36"], ["total112"]]


def test_of_long_arrays_a_page_shows_the_start(tmp_path: Path):
    made = page(module(object_of(NOTHING), ["nothing"]), of_kind("i32", [100, 200]))
    code = "return [all('textarea').length, text('#argument-x'), $('#result-result0').textContent]"
    fields, argument, result = after(made, code, tmp_path)
    assert (fields, argument) == (0, ["x20000 numbers, which stay as they are"])
    assert result == f"result0{' '.join(['0'] * 200)}\n… and 19800 more"


def test_integers_of_64_bits_are_typed_whole(tmp_path: Path):
    text = """
    define i32 @nothing(ptr %x, ptr %result0, ptr %weights, ptr %scratch) {
      %v = load i64, ptr %x
      %w = sub i64 %v, 1
      store i64 %w, ptr %result0
      ret i32 0
    }
    """
    made = page(module(object_of(text), ["nothing"]), of_kind("i64", []))
    code = "type('#argument-x input', '9007199254740993'); return text('#results fieldset')"
    assert after(made, code, tmp_path) == ["result09007199254740992"]


def test_names_are_text_and_never_markup(tmp_path: Path):
    odd = "</script><b id=odd>&amp;"
    found = after(
        halves(title=odd, labels=(odd, odd)),
        "return [document.title, $('h1').textContent, all('#odd').length, text('.bar span')]",
        tmp_path,
    )
    assert found == [odd, odd, 0, [odd, odd]]


def test_a_page_asks_for_nothing_and_may_not(tmp_path: Path):
    made = halves()
    assert not re.search(r"""\b(src|href)\s*=|https?:|\burl\(""", made)
    code = """return new Promise((go) => {
      document.addEventListener("securitypolicyviolation", (e) => go(e.effectiveDirective));
      fetch("http://127.0.0.1:9/").catch(() => setTimeout(() => go("tried"), 100));
    });"""
    assert after(made, code, tmp_path) == "connect-src"


def test_values_must_fit_their_arguments():
    with pytest.raises(ArgumentError, match="page got values for 'y'; halves takes x"):
        halves(values={"y": IMAGE})
    for wrong in (IMAGE.astype("f8"), IMAGE[:4]):
        with pytest.raises(ArgumentError, match=r"type float32 and shape \(8, 8\), found"):
            halves(values={"x": wrong})


def test_elements_of_16_bits_are_refused():
    array = {"name": "x", "dtype": "bf16", "shape": [4], "role": "argument"}
    description = {"name": "f", "arguments": [array], "results": []}
    with pytest.raises(DTypeError, match="x is of type bf16; convert it with"):
        page(b"", description)
