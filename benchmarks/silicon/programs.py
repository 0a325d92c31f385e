"""Which programs are packed: small ones of every kind, compared bit for bit, and large ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dlvm
from benchmarks.gpu_kinds import (
    KINDS,
    LARGE,
    NETWORK,
    Large,
    f32,
    gelu,
    layer_norm,
    loss,
    matmul,
    softmax,
)
from dlvm.ir import BF16

from .played.drawn import drawn

TYPES = {"f16": "f2", "f32": "f4", "f64": "f8"}
"""Of dlvm, as NumPy calls them."""
HALVES = {"f16": 2e-3, "bf16": 2e-2}
"""How far products on tensor cores may be from a CPU's, as a part of 1 + the element."""


@dataclass(frozen=True)
class Packed:
    """A program with its arguments, or with recipes for them.

    Of a large one only the first ``compared`` rows may be compared. ``tolerance`` is for those
    whose bits are not a CPU's, ``timed`` says that launches of a small one are timed.
    """

    program: Callable[..., Any]
    arguments: Sequence[Any] = ()
    recipes: Sequence[Sequence[Any]] = ()
    compared: int | None = None
    tolerance: float = 0
    flops: float = 0
    timed: bool = False

    @property
    def large(self) -> bool:
        """Whether its arguments are drawn again where it runs."""
        return bool(self.recipes)


def made(recipe: Sequence[Any]) -> Any:
    """The array of a recipe, as dlvm takes it."""
    array = drawn(recipe)
    return array.view(BF16.numpy) if recipe[2] == "bf16" else array


def step(parameters: Any, x: Any, y: Any) -> Any:
    """A step of a classifier of two layers."""
    value, slopes = dlvm.value_and_grad(lambda p: loss(*p, x, y))(parameters)
    return [p - np.float32(0.1) * d for p, d in zip(parameters, slopes, strict=True)], value


def attention(q: Any, k: Any, v: Any) -> Any:
    """Of queries to keys, in heads of a batch."""
    scores = q @ k.transpose(0, 2, 1) * np.float32(q.shape[-1] ** -0.5)
    e = dlvm.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def normed(x: Any, scale: Any, shift: Any) -> Any:
    """Layer norm along the last axis."""
    d = x - x.mean(axis=-1, keepdims=True)
    return d / dlvm.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * scale + shift


def transformer(p: Any, x: Any) -> Any:
    """A block of a transformer with two heads."""
    b, t, width = x.shape

    def heads(z: Any) -> Any:
        return z.reshape(b, t, 2, width // 2).transpose(0, 2, 1, 3).reshape(2 * b, t, width // 2)

    h = normed(x, p["scale"], p["shift"])
    a = attention(*(heads(h @ p[w]) for w in ("query", "key", "value")))
    x = x + a.reshape(b, 2, t, width // 2).transpose(0, 2, 1, 3).reshape(b, t, width) @ p["out"]
    return x + gelu(normed(x, p["scale"], p["shift"]) @ p["up"]) @ p["down"]


def transformer_step(p: Any, x: Any, y: Any) -> Any:
    """A step of descent of a block."""
    value, slopes = dlvm.value_and_grad(lambda p: ((transformer(p, x) - y) ** 2).mean())(p)
    return {k: p[k] - np.float32(0.01) * slopes[k] for k in p}, value


def weights(width: int) -> dict[str, Any]:
    """The parameters of a block."""
    square = {w: f32(width, width) * np.float32(0.1) for w in ("query", "key", "value", "out")}
    up, down = f32(width, 4 * width), f32(4 * width, width)
    ends = {"up": up * np.float32(0.1), "down": down * np.float32(0.1)}
    return square | ends | {"scale": np.ones(width, "f4"), "shift": np.zeros(width, "f4")}


SQUARES = f32(3, 12, 12)
DEFINITE = (SQUARES @ SQUARES.transpose(0, 2, 1) + 12 * np.eye(12, dtype="f4")).astype("f4")


def halved(dtype: str) -> Packed:
    """A small product on tensor cores."""
    recipes = [recipe(s, dtype, i) for i, s in enumerate([(70, 64), (64, 48)])]
    return Packed(matmul, [made(r) for r in recipes], tolerance=HALVES[dtype])


def small() -> dict[str, Packed]:
    """Every kind of program on small arrays."""
    *network, x, y = NETWORK
    table = {name: Packed(f, arguments) for name, (f, arguments) in KINDS.items()}
    table["axpy"] = replace(table["axpy"], timed=True)
    more: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
        "odd length": (lambda x, y: dlvm.exp(x) + y, (f32(1003), f32(1003))),
        "broadcast": (lambda x, b, c: (x + b) * c, (f32(33, 36), f32(36), f32(33, 1))),
        "integers": (
            lambda x: (x.astype("i4") * 2).astype("f4"),
            (np.arange(-99, 99, dtype="i1"),),
        ),
        "row sum": (lambda x: x.sum(axis=1), (f32(33, 300),)),
        "sum": (lambda x: x.sum(), (f32(9000),)),
        "max": (lambda x: x.max(), (f32(70, 90),)),
        "argmax": (lambda x: x.argmax(axis=1), (f32(30, 70),)),
        "softmax of long rows": (softmax, (f32(3, 4096),)),
        "layer norm of long rows": (layer_norm, (f32(3, 4097), f32(4097), f32(4097))),
        "product f64": (matmul, (f32(50, 40).astype("f8"), f32(40, 30).astype("f8"))),
        "product of a long k": (matmul, (f32(17, 3000), f32(3000, 9))),
        "batched product": (matmul, (f32(3, 40, 24), f32(3, 24, 33))),
        "matrix times vector": (matmul, (f32(70, 50), f32(50))),
        "scatter add": (
            lambda x, i, u: dlvm.at(x)[i].add(u),
            (f32(40, 9), np.array([3, 7, 3, 39]), f32(4, 9)),
        ),
        "running sum of rows": (lambda x: dlvm.cumsum(x, axis=1), (f32(20, 70),)),
        "running sum": (dlvm.cumsum, (f32(500),)),
        "sort": (lambda x: dlvm.sort(x, axis=1), (f32(9, 40),)),
        "condition": (
            lambda x: dlvm.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x),
            (f32(50),),
        ),
        "scan": (
            lambda x: dlvm.scan(lambda c, r: (c * np.float32(0.5) + r, c.sum()), x[0], x),
            (f32(6, 40),),
        ),
        "convolution": (dlvm.nn.conv, (f32(2, 9, 9, 3), f32(3, 3, 3, 4))),
        "max pooling": (lambda x: dlvm.nn.max_pool(x, 2), (f32(2, 6, 4, 3),)),
        "cholesky": (dlvm.linalg.cholesky, (DEFINITE,)),
        "random": (lambda key: dlvm.random.normal(key, (1000,)), (dlvm.random.key(0),)),
    }
    table |= {name: Packed(f, arguments) for name, (f, arguments) in more.items()}
    table |= {f"product {dtype}": halved(dtype) for dtype in HALVES}
    start = [network[0] * np.float32(0.1), network[1], network[2] * np.float32(0.1), network[3]]
    table["step of a network"] = Packed(step, (start, x, y), timed=True)
    block = weights(32), f32(2, 8, 32), f32(2, 8, 32)
    table["step of a transformer"] = Packed(transformer_step, block, timed=True)
    return table


MOVING = {
    "axpy 2^26": Large(lambda x, y: 2 * x + y, ((1 << 26,), (1 << 26,)), ((900,), (900,))),
    "gelu 8192x8192": Large(gelu, ((8192, 8192),), ((9, 70),)),
    "transpose 8192x8192": Large(lambda x: x.T + 1, ((8192, 8192),), ((70, 50),)),
    "product f32 4096": Large(
        matmul, ((4096, 4096), (4096, 4096)), ((17, 9), (9, 5)), flops=2.0 * 4096**3
    ),
}


def large(dry: bool) -> dict[str, Packed]:
    """The large programs; on small arrays for a dry run."""
    found: dict[str, Packed] = {}
    for name, case in (MOVING | LARGE).items():
        shapes = case.dry if dry else case.shapes
        recipes = [recipe(s, case.dtype or "f4", i) for i, s in enumerate(shapes)]
        tolerance = HALVES.get(case.dtype, 0 if dry else case.tolerance)
        told = case.compared, tolerance, case.flops
        found[name] = Packed(case.program, (), recipes, *told)
    return found


def recipe(shape: Sequence[Any], dtype: str, seed: int) -> list[Any]:
    """How to draw an argument of a shape as ``Large`` states it."""
    if "index" in shape:
        rows, _, count = shape
        return ["index", [count], rows, seed]
    return ["real", list(shape), TYPES.get(dtype, dtype), seed]
