"""How few kernels gradients become: traced, differentiated, optimised."""

from __future__ import annotations

from collections import Counter
from typing import Any

import dlvm
from dlvm.ir import Function
from dlvm.ops import Scan
from dlvm.opt import DEFAULT, inline_calls, keep_reachable
from dlvm.passes import run

from .answers import families, kernels


def best(f: Any, *args: Any) -> Function:
    module = dlvm.trace(f, *args).expanded()
    return run(module, (inline_calls, keep_reachable, *DEFAULT), verify=True).main


def loss(params: Any, x: Any, y: Any) -> Any:
    h = dlvm.tanh(x @ params["w1"] + params["b1"])
    return dlvm.nn.cross_entropy(h @ params["w2"] + params["b2"], y).mean()


@dlvm.function(donate=("params",))
def step(params: Any, x: Any, y: Any) -> Any:
    value, slope = dlvm.value_and_grad(loss)(params, x, y)
    return dlvm.tree.map(lambda p, d: p - 0.1 * d, params, slope), value


def test_a_training_step_is_ten_kernels():
    shapes = {"w1": "f32[64,32]", "b1": "f32[32]", "w2": "f32[32,10]", "b2": "f32[10]"}
    params = {name: dlvm.spec(text) for name, text in shapes.items()}
    main = best(step, params, dlvm.spec("f32[B,64]"), dlvm.spec("i64[B]"))
    found = Counter(families(main))
    print("a training step:", dict(found))
    assert found["product"] == 5 and found["scatter"] == 1
    assert found["loops"] <= 5  # one of them refuses labels below 0
    assert len(main.ops) == found.total()


def test_what_updates_donated_weights_reads_them_last():
    shapes = {"w1": "f32[64,32]", "b1": "f32[32]", "w2": "f32[32,10]", "b2": "f32[10]"}
    params = {name: dlvm.spec(text) for name, text in shapes.items()}
    main = best(step, params, dlvm.spec("f32[B,64]"), dlvm.spec("i64[B]"))
    donated = [p for p in main.params if p.donated]
    for param, result in zip(donated, main.results, strict=False):
        readers = [op for op in main.ops if param in op.operands]
        assert result in readers[-1].results


def test_a_step_of_a_recurrent_net_is_one_kernel_and_three_back():
    def rnn(w: Any, xs: Any, h: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = dlvm.tanh(h @ w + x)
            return h, h

        _, ys = dlvm.scan(cell, h, xs)
        return (ys * ys).sum()

    main = best(
        dlvm.grad(rnn), dlvm.spec("f32[8,8]"), dlvm.spec("f32[T,4,8]"), dlvm.spec("f32[4,8]")
    )
    forward, backward = (op for op in main.ops if isinstance(op, Scan))
    assert families(forward.body) == ["product"]
    assert families(backward.body) == ["loops", "product", "product"]


def test_updates_of_a_carried_array_touch_nothing_of_its_size():
    def updates(x: Any, i: Any) -> Any:
        def one(c: Any, j: Any) -> Any:
            return dlvm.at(c, j).add(c[j] * c[j]), None

        return dlvm.scan(one, x, i)[0].sum()

    main = best(dlvm.grad(updates), dlvm.spec("f32[1000]"), dlvm.spec("i64[50]"))
    for scan in (op for op in main.ops if isinstance(op, Scan)):
        assert len(scan.results) <= 2
        for kernel in kernels(scan.body):
            whole = [r for r in kernel.results if r.shape == (1000,)]
            assert bool(whole) == (kernel.family == "scatter")


def test_a_checkpoint_computes_again_only_what_it_must():
    def checked(x: Any, w: Any) -> Any:
        f = dlvm.checkpoint(lambda x: dlvm.tanh(dlvm.exp(x) * x))
        return (f(x) * w).sum()

    main = best(dlvm.grad(checked), dlvm.spec("f32[1000]"), dlvm.spec("f32[1000]"))
    assert sum(op.name == "exp" for op in main.walk()) == 1
