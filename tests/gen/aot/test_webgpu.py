"""The module of a function runs by WebGPU in a browser, and by WebAssembly elsewhere."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import nn, optim
from dlvm.base.errors import UserError

from .driving import Driven
from .objects import node_prints

PAGE = Path(__file__).parents[3] / "docs" / "webassembly.md"
rng = np.random.default_rng(0)
LOADED = """
const { loadEither } = await import("./webgpu.js");
const json = (file) => JSON.parse(new TextDecoder().decode(file));
const plain = (views) => Object.fromEntries(Object.entries(views).map(([name, view]) =>
  [name, Array.from(view, (x) => typeof x === "bigint" ? `${x}` : x)]));
const loaded = async (name) => {
  const parts = ["wasm", "json", "weights.bin", "webgpu.json"].map((end) => of(`${name}.${end}`));
  const [wasm, said, weights, gpu] = await Promise.all(parts);
  return loadEither(wasm, json(said), weights, json(gpu));
};
"""
FETCHED = """const of = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());"""
READ = """import { readFile } from "node:fs/promises"; const of = (name) => readFile(name);"""


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each."""

    def log_message(self, *_: Any) -> None:
        pass


def f32(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype("f4")


W, V = f32(300, 48), f32(48, 10)


def several(x, i, short, long):
    """Of each kind of kernel and step one, with what meets itself in memory."""

    def one(carry, row):
        new = dlvm.tanh(carry + row)
        return new, new * 2

    return {
        "network": nn.softmax(dlvm.maximum(x @ W, 0) @ V, axis=1),
        "itself": x @ x.T + x[:, :5] @ x[:, 1:6].T,
        "row": x[i] * 2,
        "summed": x.at[i].add(1.0),
        "sorted": dlvm.sort(x, axis=1),
        "scanned": dlvm.scan(one, dlvm.zeros((300,), "f32"), x),
        "running": dlvm.cumsum(x, axis=1),
        "short": (short[:, 1:] * 3)[::-1],
        "truth": (x > 0).any(axis=1),
        "long": (long * 12345678901) // 7 + long % 5,
        "random": dlvm.random.uniform(dlvm.random.key(3), (50,), dtype="f32") * x[0, :50],
    }


GIVEN = (
    f32(5, 300),
    rng.integers(0, 5, 9).astype("i4"),
    rng.integers(-99, 99, (7, 33)).astype("i1"),
    rng.integers(-(2**40), 2**40, (7, 11)),
)


def loss(params, x, y):
    hidden = dlvm.tanh(x @ params["w"] + params["b"])
    return nn.cross_entropy(hidden @ params["v"], y).mean()


ADAM = optim.adam(0.05)


@dlvm.function(donate=("params", "state"))
def step(params, state, x, y):
    value, gradient = dlvm.value_and_grad(loss)(params, x, y)
    updates, state = ADAM.update(gradient, state, params)
    return optim.apply(params, updates), state, value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("served")
    dlvm.aot(several, *GIVEN, target="webgpu", out=out)
    return out


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/several.json"
    server.shutdown()
    server.server_close()


def literal(x: np.ndarray) -> str:
    """An array as JavaScript takes it."""
    ends = "n" if x.dtype.itemsize == 8 else ""
    return f"[{', '.join(f'{v}{ends}' for v in x.reshape(-1).tolist())}]"


def call(arrays: dict[str, np.ndarray]) -> str:
    return f"await f.call({{ {', '.join(f'{n}: {literal(x)}' for n, x in arrays.items())} }})"


SEVERAL = dict(zip(("x", "i", "short_2", "long_2"), GIVEN, strict=True))


def assert_near(found: dict[str, list[Any]], expected: Any) -> None:
    """Whole numbers are the same, and floats within the bounds of products of other roundings."""
    for values, x in zip(found.values(), map(np.asarray, dlvm.tree.leaves(expected)), strict=True):
        if x.dtype.kind == "f":
            np.testing.assert_allclose(np.reshape(values, x.shape), x, rtol=1e-5, atol=1e-5)
        else:
            assert np.array_equal(np.array([*map(int, values)]).reshape(x.shape), x)


def test_a_module_gives_in_a_browser_what_a_cpu_gives(webgpu_browser: Driven, address: str):
    code = f"const f = await loaded('several'); return [f.device, f.why, plain({call(SEVERAL)})];"
    device, why, found = webgpu_browser.after(address, FETCHED + LOADED + code)
    assert why is None, why
    assert device == "webgpu"
    assert_near(found, dlvm.function(several)(*GIVEN))


def test_what_is_wrong_is_told_and_a_later_call_is_right(
    webgpu_browser: Driven, folder: Path, address: str
):
    dlvm.aot(
        lambda x, i: x[i] * 2, f32(3), np.zeros(2, "i4"), target="webgpu", name="taken", out=folder
    )
    code = """
    const f = await loaded("taken"), told = (given) => f.call(given).catch((x) => x.message);
    const wrong = [await told({ x: [1] }), await told({ y: [1] }), await told({ i: [0, 3] })];
    return [f.device, wrong, plain(await f.call({ x: [1, 2, 3], i: [2, 0] }))];
    """
    device, wrong, found = webgpu_browser.after(address, FETCHED + LOADED + code)
    assert device == "webgpu" and found == {"result": [6, 2]}
    assert wrong[:2] == [
        "x: expected 3 of f32 as numbers, found 1 elements",
        "taken takes x,i, found y",
    ]
    assert "test_webgpu.py" in wrong[2] and "an index is out of range" in wrong[2]


def test_the_block_of_the_page_on_webassembly_runs(
    webgpu_browser: Driven, folder: Path, address: str
):
    dlvm.aot(lambda x: x * x, dlvm.spec("f32[3]"), target="webgpu", name="net", out=folder)
    (block,) = re.findall(r"(?s)```javascript\n(.*?)```", PAGE.read_text("utf8"))
    code = re.sub(r"import (.*) from (.*);", r"const \1 = await import(\2);", block, count=1)
    found = webgpu_browser.after(address, f"{code} return [[...result], f.device, f.why];")
    assert found == [[1, 4, 9], "webgpu", None]


def test_without_a_device_a_module_runs_as_webassembly(folder: Path):
    (folder / "package.json").write_text('{"type": "module"}')
    code = (
        f"const f = await loaded('several'), found = plain({call(SEVERAL)});"
        "console.log(JSON.stringify([f.device, f.why, found]));"
    )
    (folder / "run.mjs").write_text(READ + LOADED + code)
    device, why, found = json.loads(node_prints("run.mjs", folder))
    assert (device, why) == ("wasm", "there is no device of WebGPU")
    assert_near(found, dlvm.function(several)(*GIVEN))


def test_a_network_is_trained_in_a_browser(webgpu_browser: Driven, folder: Path, address: str):
    params = {"w": f32(8, 16) * 0.3, "b": np.zeros(16, "f4"), "v": f32(16, 3) * 0.3}
    state, x, y = ADAM.init(params), f32(20, 8), rng.integers(0, 3, 20).astype("i4")
    bundle = dlvm.aot(step, params, state, x, y, target="webgpu", out=folder)
    first = call({"x": x, "y": y})
    code = f"""
    const f = await loaded("step"), said = json(await of("step.json")), losses = [];
    const start = await of("step.state.bin");
    for (const a of said.arguments) {{
      const view = f.state[a.name];
      if (!view) continue;
      const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
      bytes.set(start.subarray(a.start, a.start + bytes.length));
    }}
    const before = Object.fromEntries(Object.entries(f.state).map(([n, v]) => [n, v.slice()]));
    losses.push(({first}).result_2[0]);
    for (let i = 0; i < 2; i++) losses.push((await f.call()).result_2[0]);
    const stays = f.state.params_w[0] === before.params_w[0];
    const found = plain(await f.read());
    await f.call(before);
    return [f.device, losses, stays, found, f.results.result_2[0]];
    """
    device, losses, stays, found, again = webgpu_browser.after(address, FETCHED + LOADED + code)
    expected, plain = [], dlvm.function(step.__wrapped__)
    for _ in range(3):
        params, state, value = plain(params, state, x, y)
        expected.append(float(value))
    assert device == "webgpu" and stays
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert_near(found, (params, state))
    assert losses[2] < losses[0] == again
    table = json.loads(bundle.files["step.webgpu.json"])
    assert_apart(table)


def assert_apart(table: dict[str, Any]) -> None:
    """No launch binds two parts of a buffer that overlap, which a browser refuses."""
    for one in table["steps"]:
        taken: set[tuple[int, int]] = set()
        for number, start, size in one.get("parts", ()):
            words = {(number, word) for word in range(start // 4, (start + size) // 4)}
            assert not taken & words
            taken |= words


def doubled(x):
    return dlvm.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x)


@pytest.mark.parametrize(
    ("f", "spec", "message", "remedy"),
    [
        (doubled, "f32[8]", "while_loop: ", "wasm32"),
        (lambda x: x * 2, "f32[n]", "open size n", "numbers for every size"),
        (lambda x: x * 2, "f64[3]", "WGSL has no arrays of f64", "f32"),
    ],
)
def test_what_a_page_can_not_decide_or_hold_is_refused(f, spec, message, remedy):
    with pytest.raises(UserError, match=message) as found:
        dlvm.aot(f, dlvm.spec(spec), target="webgpu", name="net")
    assert remedy in str(found.value) and "test_webgpu.py" in str(found.value)
