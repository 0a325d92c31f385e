"""Written functions give the bits of those that run here, and touch no memory but their own."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.gen.llvm.undefined import undefined
from dlvm.targets import TARGETS, named, register

from .running import Failed, Loaded

rng = np.random.default_rng(0)


def f32(*shape):
    return (rng.normal(size=shape) * 0.3).astype(np.float32)


W1, B1, W2, B2 = f32(64, 128), f32(128), f32(128, 10), f32(10)


def mlp(x):
    return nn.softmax(dlvm.maximum(x @ W1 + B1, 0) @ W2 + B2, axis=1)


def step(w, b, x, y, rate):
    def loss(w, b):
        return ((dlvm.tanh(x @ w + b) - y) ** 2).mean()

    value, (dw, db) = dlvm.value_and_grad(loss, wrt=("w", "b"))(w, b)
    return w - rate * dw, b - rate * db, value


@pytest.mark.parametrize("misaligned", [0, 1])
def test_a_network_with_its_weights(misaligned):
    x = f32(32, 64)
    loaded = Loaded(dlvm.aot(mlp, x), "host")
    found = loaded(x, misaligned=misaligned)["result"]
    assert found.tobytes() == np.asarray(dlvm.function(mlp)(x)).tobytes()


def test_a_training_step_overwrites_its_state():
    w, b, x, y = f32(8, 3), f32(3), f32(16, 8), f32(16, 3)
    staged = dlvm.function(step, donate=("w", "b"))
    loaded = Loaded(dlvm.aot(staged, w, b, x, y, 0.1), "host")
    roles = {a["name"]: (a["role"], a["by"]) for a in loaded.said["arguments"]}
    assert roles["w"] == roles["b"] == ("state", "pointer") and roles["rate"][1] == "value"
    state = [loaded.state(a) for a in loaded.said["arguments"][:2]]
    expected = (w, b)
    for _ in range(3):
        found = loaded(*state, x, y, 0.1)
        state = found["w"], found["b"]
        *expected, value = dlvm.function(step)(*expected, x, y, 0.1)
        for ours, theirs in zip((*state, found["result_2"]), (*expected, value), strict=True):
            assert ours.tobytes() == np.asarray(theirs).tobytes()


def test_open_sizes_ask_how_much_scratch():
    loaded = Loaded(dlvm.aot(mlp, dlvm.spec("f32[B,64]"), name="net"), "host")
    for rows in (0, 1, 7, 300):
        x = f32(rows, 64)
        found = loaded(x, B=rows)["result"]
        assert found.tobytes() == np.asarray(dlvm.function(mlp)(x)).tobytes()


@pytest.mark.parametrize("spec", ["f64[150,150]", "f64[N,N]"])
def test_factorisations_take_products_of_blocks_whose_sizes_differ(spec):
    def factors(x):
        return dlvm.linalg.cholesky(x @ x.mT), dlvm.linalg.solve(x, x.mT), dlvm.linalg.qr(x)[1]

    loaded = Loaded(dlvm.aot(factors, dlvm.spec(spec)), "host")
    x = rng.normal(size=(150, 150)) + 20 * np.eye(150)
    sizes = {} if "150" in spec else {"N": 150}
    staged = dlvm.function(factors, dynamic={"x": "N,N"} if sizes else {})
    found = loaded(x, **sizes)
    for k, expected in enumerate(staged(x)):
        assert found[f"result_{k}"].tobytes() == np.asarray(expected).tobytes()


def test_a_failed_call_says_where():
    def pick(x, i):
        return x[i]

    x = f32(5)
    loaded = Loaded(dlvm.aot(pick, x, 2), "host")
    assert loaded(x, 3)["result"] == x[3]
    with pytest.raises(
        Failed, match=r"test_bundle.py:\d+: an index is out of range: return x\[i\]"
    ):
        loaded(x, 5)


def test_captured_arrays_are_state_where_they_are_named():
    total = np.zeros(3, np.float32)

    def shifted(x):
        return x + total

    loaded = Loaded(dlvm.aot(shifted, f32(3), state=("total",)), "host")
    assert [(a["name"], a["role"]) for a in loaded.said["arguments"]] == [
        ("x", "argument"),
        ("total", "state"),
    ]
    assert loaded.said["weights"] == 0
    x, own = f32(3), f32(3)
    assert (loaded(x, own)["result"] == x + own).all()
    with pytest.raises(dlvm.UserError, match=r"captures total, found 'sum'"):
        dlvm.aot(shifted, f32(3), state=("sum",))


def test_captured_weights_lie_in_the_order_in_which_they_are_read():
    r = np.random.default_rng(0)
    w, b = r.normal(size=(20, 8, 3, 3)).astype(np.float32), f32(6, 6, 20)

    def layer(x):
        return dlvm.nn.conv(x, dlvm.permute_dims(w, (2, 3, 1, 0))) + b

    x = r.normal(size=(1, 6, 6, 8)).astype(np.float32)
    loaded = Loaded(dlvm.aot(layer, x), "host")
    arrays = {a["label"]: a["shape"] for a in loaded.said["weight_arrays"]}
    assert arrays == {"w, prepared": [72, 20], "b, prepared": [1, 6, 6, 20]}
    assert loaded(x)["result"].tobytes() == dlvm.function(layer)(x).tobytes()
    w[:] = 0  # which the files do not follow
    assert loaded(x)["result"].any()


def test_what_calls_python_is_refused_by_name():
    def told(x):
        dlvm.print("seen", x)
        return x

    with pytest.raises(dlvm.UserError, match="print and tap call Python"):
        dlvm.aot(told, f32(3))


def test_what_grows_ends_with_a_status_where_it_is_out_of_room():
    def grown(x):
        def more(state):
            v, count = state
            return dlvm.sin(v) + 0.1, count + 1

        return dlvm.while_loop(lambda s: s[1] < 30, more, (x, 0))[0].sum()

    gradient = dlvm.grad(grown)
    x = np.zeros(64)
    with pytest.raises(dlvm.UserError, match="the tape of a while_loop"):
        dlvm.aot(gradient, x)
    enough = Loaded(dlvm.aot(gradient, x, growing=1 << 18), "host")
    assert (enough(x)["result"] == gradient(x)).all()
    little = Loaded(dlvm.aot(gradient, x, growing=1 << 11), "host")
    with pytest.raises(Failed, match="used up"):
        little(x)


def test_several_threads_call_at_once():
    inputs = [f32(32, 64) for _ in range(24)]
    loaded = Loaded(dlvm.aot(mlp, inputs[0]), "host")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(loaded, inputs))
    for x, got in zip(inputs, found, strict=True):
        assert got["result"].tobytes() == np.asarray(dlvm.function(mlp)(x)).tobytes()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [False, True])
def test_objects_call_nothing_but_copies(target: str, size: bool):
    staged = dlvm.function(step, donate=("w", "b"))
    given = f32(8, 3), f32(3), f32(16, 8), f32(16, 3), np.float32(0.1)
    bundle = dlvm.aot(staged, *given, target=target, size=size)
    assert undefined(bundle.files["step.o"]) <= {"memcpy", "memset", "memmove"} | KNOWN
    assert bundle.description["target"] == target


KNOWN = {"__stack_pointer", "__linear_memory", "__indirect_function_table"}
"""What every module for WebAssembly is given."""


def test_another_processor_is_one_record():
    small = replace(named("x86-64-v3"), cpu="haswell")
    try:
        register("haswell", small)
        bundle = dlvm.aot(mlp, f32(1, 64), target="haswell")
        assert bundle.description["cpu"] == "haswell"
        with pytest.raises(dlvm.UserError, match="under another name"):
            register("haswell", named("x86-64-v2"))
    finally:
        TARGETS.pop("haswell", None)


def test_files_are_whole_and_weights_may_be_c(tmp_path):
    written = dlvm.aot(mlp, f32(1, 64), out=tmp_path, weights="c")
    assert {p.name for p in tmp_path.iterdir()} == {*written.files}
    text = (tmp_path / "mlp.weights.c").read_text("utf8")
    numbers = re.findall(r"\d+", text.partition("= {")[2])
    assert bytes(map(int, numbers))[: W1.nbytes] == W1.tobytes()
    assert json.loads((tmp_path / "mlp.json").read_text("utf8"))["weights"] == len(numbers)
