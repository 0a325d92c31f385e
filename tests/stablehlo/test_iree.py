"""What is exported for open sizes is compiled by IREE as it is, into one program for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

compiler: Any = pytest.importorskip("iree.compiler", reason="pip install iree-base-compiler")
runtime: Any = pytest.importorskip("iree.runtime", reason="pip install iree-base-runtime")

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


W = drawn(3, 4)


def loss(w, x, y):
    return ((dlvm.tanh(x @ w) - y) ** 2).mean()


def running(x):
    return dlvm.scan(lambda s, row: (s + row, s * row), dlvm.zeros(3, "f32"), x)


def normed(x):
    around = x - x.mean(axis=1, keepdims=True)
    return around / dlvm.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


def attended(q, k, v):
    return dlvm.nn.softmax(q @ k.T, axis=-1) @ v


PROGRAMS: dict[str, tuple[Callable[..., Any], str]] = {
    "gradient": (dlvm.value_and_grad(loss), "f32[3] f32[B,3] f32[B]"),
    "product with a vector": (lambda w, x: x @ w, "f32[3] f32[B,3]"),
    "product of a vector": (lambda w, x: w @ x, "f32[B] f32[B,3]"),
    "layer": (lambda x: dlvm.nn.relu(x @ W), "f32[B,3]"),
    "softmax": (lambda x: dlvm.nn.softmax(x, axis=1), "f32[B,5]"),
    "softmax over an open axis": (lambda x: dlvm.nn.softmax(x, axis=0), "f32[B,5]"),
    "new axes": (lambda x: x[:, None] * x[None], "f32[B]"),
    "cumsum": (lambda x: dlvm.cumsum(x, axis=0), "f32[B,6]"),
    "scan": (running, "f32[B,3]"),
    "sums": (lambda x: (x.sum(axis=0), x.mean(), x.max(axis=1)), "f32[B,6]"),
    "joined": (lambda x, y: dlvm.concat([x, y], axis=0), "f32[B,6] f32[C,6]"),
    "slice": (lambda x: x[1:, ::2], "f32[B,6]"),
    "rows": (lambda x: x[np.array([1, 0, 1])], "f32[B,6]"),
    "columns": (lambda x: x[:, np.array([1, 0, 1])], "f32[B,6]"),
    "layer norm": (normed, "f32[B,6]"),
    "attention": (attended, "f32[B,4] f32[C,4] f32[C,5]"),
}


def compiled(text: str) -> Callable[..., Any]:
    config = runtime.Config("local-task")
    code = compiler.compile_str(
        text,
        target_backends=["llvm-cpu"],
        input_type="stablehlo",
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    module = runtime.VmModule.copy_buffer(config.vm_instance, code)
    return runtime.load_vm_module(module, config)["main"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_of_iree_serves_all_sizes(name: str):
    f, types = PROGRAMS[name]
    specs = [dlvm.spec(t) for t in types.split()]
    run = compiled(dlvm.export(f, *specs, format="stablehlo"))
    for sizes in ({"B": 2, "C": 3}, {"B": 5, "C": 4}):
        shapes = [[sizes.get(str(n), n) for n in s.type.shape] for s in specs]
        args = [drawn(*map(int, shape)) for shape in shapes]
        found = run(*args)
        ours = dlvm.tree.leaves(dlvm.function(f)(*args))
        theirs = found if isinstance(found, list | tuple) else [found]
        for a, b in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-5)
