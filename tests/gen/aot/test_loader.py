"""The loader lays out memory for a function, checks what it is given and tells a failure."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlvm.gen import aot
from dlvm.gen.aot.wasm import module

from .objects import node, node_prints, object_of

LOADER = Path(aot.__file__).with_name("loader.js")
PAGE = Path(__file__).parents[3] / "docs" / "webassembly.md"
AFFINE = """
; result0 = scale * x + bias[i], total += sum x; status 7 where scale is 0
define i32 @affine(ptr %x, ptr %scale, ptr %total, ptr %result0, ptr %weights, ptr %scratch) {
  %room = alloca [16 x i8]
  store volatile i8 1, ptr %room
  %s = load float, ptr %scale
  %zero = fcmp oeq float %s, 0.0
  br i1 %zero, label %fail, label %loop
fail:
  ret i32 7
loop:
  %i = phi i32 [ 0, %0 ], [ %j, %loop ]
  %xp = getelementptr float, ptr %x, i32 %i
  %bp = getelementptr float, ptr %weights, i32 %i
  %rp = getelementptr float, ptr %result0, i32 %i
  %sp = getelementptr float, ptr %scratch, i32 %i
  %xv = load float, ptr %xp
  %bv = load float, ptr %bp
  %y = fmul float %xv, %s
  store float %y, ptr %sp
  %r = fadd float %y, %bv
  store float %r, ptr %rp
  %t = load double, ptr %total
  %xd = fpext float %xv to double
  %u = fadd double %t, %xd
  store double %u, ptr %total
  %j = add i32 %i, 1
  %more = icmp ult i32 %j, 3
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""
DESCRIPTION: dict[str, Any] = {
    "name": "affine",
    "arguments": [
        {"name": "x", "dtype": "f32", "shape": [3], "role": "argument"},
        {"name": "scale", "dtype": "f32", "shape": [], "role": "argument"},
        {"name": "total", "dtype": "f64", "shape": [1], "role": "state"},
        {"name": "bias", "dtype": "f32", "shape": [3], "role": "weight"},
    ],
    "results": [
        {"name": "result0", "dtype": "f32", "shape": [3]},
        {"name": "total", "dtype": "f64", "shape": [1], "into": "total"},
    ],
    "weights": 12,
    "scratch": 300_000,
    "errors": {"7": "the scale must not be 0"},
}
KINDS = {
    **{f"{sign}{bits}": bits // 8 for sign in "iu" for bits in (8, 16, 32, 64)},
    **{"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "bool": 1},
}
NOTHING = "define i32 @nothing(ptr %x, ptr %result0, ptr %weights, ptr %scratch) { ret i32 0 }"


def loaded(text: str, description: dict[str, Any], code: str, folder: Path) -> Any:
    """What the function ``code`` of a loaded function ``f`` gives; ``told`` gives a message."""
    made = folder / "module.wasm"
    made.write_bytes(module(object_of(text), [description["name"]]))
    return node(
        "import fs from 'fs';"
        f"const {{ load }} = await import({json.dumps(LOADER.as_uri())});"
        f"const d = {json.dumps(description)}, wasm = fs.readFileSync(process.argv[1]);"
        "const told = (g) => { try { return g() } catch (x) { return x.message } };"
        f"const g = async () => {{ {code} }};"
        "console.log(JSON.stringify(await g()));",
        str(made),
    )


def affine(code: str, folder: Path) -> Any:
    start = "const f = await load(wasm, d, new Uint8Array(new Float32Array([10, 20, 30]).buffer));"
    return loaded(AFFINE, DESCRIPTION, start + code, folder)


def test_it_is_small_enough_to_be_inlined_anywhere():
    assert len(LOADER.read_bytes()) <= 4096


def test_arguments_weights_state_and_results_meet_their_pointers(tmp_path: Path):
    found = affine(
        "const a = [...f.call({ x: [1, 2, 3], scale: 2 }).result0];"
        "f.arguments.x.set([4, 4, 4]); const b = f.call();"
        "return [a, [...b.result0], [...b.total], [...f.state.total], Object.keys(f.arguments)];",
        tmp_path,
    )
    assert found == [[12, 24, 36], [18, 28, 38], [18], [18], ["x", "scale"]]


def test_arrays_are_apart_and_on_cache_lines(tmp_path: Path):
    found = affine(
        "const all = [f.arguments.x, f.arguments.scale, f.state.total, f.results.result0];"
        "return [all.map((a) => a.byteOffset), all[0].buffer.byteLength];",
        tmp_path,
    )
    places, size = found
    assert [place % 64 for place in places] == [0, 0, 0, 0]
    assert sorted(set(places)) == places and size >= places[-1] + 300_000


def test_a_status_is_told_by_its_message(tmp_path: Path):
    found = affine(
        "const first = told(() => f.call({ scale: 0 })); d.errors = {};"
        "const g = await load(wasm, d, new Uint8Array(12));"
        "return [first, told(() => g.call())];",
        tmp_path,
    )
    assert found == ["the scale must not be 0", "affine failed with status 7"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{ x: [1, 2] }", "x: expected 3 of f32 as numbers, found 2 elements"),
        ("{ x: [1, 2, '3'] }", "x: expected 3 of f32 as numbers, found string"),
        ("{ x: [1, undefined, 3] }", "x: expected 3 of f32 as numbers, found undefined"),
        ("{ x: new Float64Array(3) }", "x: expected 3 of f32 as Float32Array, found Float64Array"),
        ("{ x: null }", "x: expected 3 of f32 as Float32Array, found undefined"),
        ("{ x: 1 }", "x: expected 3 of f32 as numbers, found 1 elements"),
        ("{ y: [1] }", "affine takes x,scale,total, found y"),
    ],
)
def test_what_does_not_fit_an_argument_is_told(given: str, message: str, tmp_path: Path):
    assert affine(f"return told(() => f.call({given}));", tmp_path) == message


@pytest.mark.parametrize("given", ["Uint8Array(11)", "Float32Array(12)"])
def test_weights_of_another_size_or_type_are_told(given: str, tmp_path: Path):
    code = f"const w = new {given}; return await load(wasm, d, w).catch((x) => x.message);"
    found = loaded(AFFINE, DESCRIPTION, code, tmp_path)
    assert found.startswith("expected weights as Uint8Array of 12, found 1")


def of_kind(dtype: str, shape: list[int]) -> dict[str, Any]:
    array = {"dtype": dtype, "shape": shape}
    arguments = [{"name": "x", "role": "argument", **array}]
    return {"name": "nothing", "arguments": arguments, "results": [{"name": "result0", **array}]}


def test_every_element_type_has_its_width(tmp_path: Path):
    code = """const out = {};
    for (const kind of KINDS) {
      for (const a of [d.arguments[0], d.results[0]]) a.dtype = kind;
      const f = await load(wasm, d);
      out[kind] = [f.arguments.x.byteLength, f.results.result0.length];
    }
    return out;""".replace("KINDS", json.dumps([*KINDS]))
    found = loaded(NOTHING, of_kind("f32", [2, 3]), code, tmp_path)
    assert found == {kind: [6 * width, 6] for kind, width in KINDS.items()}


@pytest.mark.parametrize(
    ("dtype", "given", "message"),
    [
        ("u8", "[256]", "x: expected 1 of u8 as numbers, found 256"),
        ("i32", "[0.5]", "x: expected 1 of i32 as numbers, found 0.5"),
        ("i64", "[1]", "x: expected 1 of i64 as bigints, found number"),
        ("i64", "1n", None),
        ("u64", "[-1n]", "x: expected 1 of u64 as bigints, found -1"),
        ("bool", "[2]", "x: expected 1 of bool as numbers, found a number above 1"),
        ("bool", "new Uint8Array([2])", "x: expected 1 of bool as Uint8Array, found a number"),
        ("bf16", "[1]", "x: expected 1 of bf16 as Uint16Array, found number"),
        ("bf16", "new Uint16Array([1])", None),
        ("f32", "[0.1]", None),
        ("f64", "[NaN]", None),
    ],
)
def test_values_that_an_element_type_does_not_hold_are_told(
    dtype: str, given: str, message: str | None, tmp_path: Path
):
    code = (
        f"const f = await load(wasm, d); return told(() => {{ f.call({{ x: {given} }}) }}) ?? '';"
    )
    assert loaded(NOTHING, of_kind(dtype, []), code, tmp_path).startswith(message or "")
    if message is None:
        assert loaded(NOTHING, of_kind(dtype, []), code, tmp_path) == ""


def test_a_trap_does_not_cost_the_stack(tmp_path: Path):
    text = """
    define i32 @nothing(ptr %x, ptr %result0, ptr %weights, ptr %scratch) {
      %room = alloca [60000 x i8]
      store volatile i8 1, ptr %room
      %n = load i32, ptr %x
      %q = udiv i32 10, %n
      store i32 %q, ptr %result0
      %v = load volatile i8, ptr %room
      ret i32 0
    }
    """
    code = """const f = await load(wasm, d), found = [];
    for (let i = 0; i < 40; i++) found.push(told(() => f.call({ x: 0 })));
    return [new Set(found).size, found[0], f.call({ x: 5 }).result0[0]];"""
    found = loaded(text, of_kind("i32", []), code, tmp_path)
    assert found == [1, "divide by zero", 2]


def test_the_blocks_of_the_page_on_webassembly_run_and_print_what_it_shows(tmp_path: Path):
    blocks = dict(re.findall(r"(?s)```(\w*)\n(.*?)```", PAGE.read_text("utf8")))
    assert json.loads(blocks["json"]) == DESCRIPTION
    (tmp_path / "affine.json").write_text(blocks["json"])
    (tmp_path / "affine.wasm").write_bytes(module(object_of(AFFINE), ["affine"]))
    (tmp_path / "affine.weights").write_bytes(np.array([10, 20, 30], np.float32).tobytes())
    (tmp_path / "run.mjs").write_text(blocks["js"].replace("./loader.js", "./loader.mjs"))
    shutil.copy(LOADER, tmp_path / "loader.mjs")
    assert node_prints("run.mjs", tmp_path) == blocks[""]
