"""Functions that formats are tried with: name, function, arguments, and types with open sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dlvm


@dataclass(frozen=True)
class Case:
    """A function with arrays, and the types for which it is exported where sizes are open."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    specs: tuple[str, ...] = ()

    @property
    def types(self) -> list[Any]:
        return [dlvm.spec(s) for s in self.specs] if self.specs else list(self.args)


rng = np.random.default_rng(11)


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return rng.normal(size=shape).astype(np.float32)


X, Y, W, B = drawn(4, 3), drawn(4, 3), drawn(3, 5), drawn(5)
V, K, T = drawn(6), drawn(2, 4, 3), drawn(2, 3, 5)
I = np.array([2, 0, 3, -1])  # noqa: E741
N = np.array([7, -7, 0, 5, -(2**31), 9], np.int32)
D = np.array([2, 2, 0, -3, -1, 40], np.int32)
IMAGE, TAPS = drawn(2, 8, 8, 3), drawn(3, 3, 3, 4)


def layer(w, b, x):
    return dlvm.tanh(x @ w + b)


def loss(w, b, x):
    return (layer(w, b, x) ** 2).mean()


def softmax_loss(w, x):
    z = x @ w
    return (dlvm.logsumexp(z, axis=1) - z[:, 0]).mean()


def power(x):
    return dlvm.while_loop(lambda s: s[0] < 20.0, lambda s: (s[0] * 2.0, s[1] + s[0]), (x, x))


def chosen(c, x):
    return dlvm.cond(c > 0, lambda x: dlvm.sin(x), lambda x: x * 2.0, x)


def filtered(xs):
    return dlvm.scan(lambda s, x: (0.9 * s + x, s * x), dlvm.zeros(3, "f32"), xs)


def backwards(xs):
    return dlvm.scan(lambda s, x: (0.5 * s + x, s), dlvm.zeros(3, "f32"), xs, reverse=True)


def step(w, b, x):
    dw, db = dlvm.grad(loss, wrt=(0, 1))(w, b, x)
    return w - 0.1 * dw, b - 0.1 * db


def sharp(x):
    return (dlvm.sort(x, axis=-1)[..., :2] ** 2).sum()


def convolved(x, w):
    return dlvm.nn.conv(x, w)


CASES: dict[str, Case] = {
    "layer": Case(layer, (W, B, X)),
    "open batch": Case(layer, (W, B, X), ("f32[3,5]", "f32[5]", "f32[N,3]")),
    "gradient": Case(dlvm.grad(loss, wrt=(0, 1)), (W, B, X)),
    "open gradient": Case(
        dlvm.value_and_grad(loss, wrt=(0, 1)), (W, B, X), ("f32[3,5]", "f32[5]", "f32[N,3]")
    ),
    "training step": Case(step, (W, B, X), ("f32[3,5]", "f32[5]", "f32[N,3]")),
    "gradient of softmax": Case(dlvm.value_and_grad(softmax_loss), (W, X)),
    "vmap": Case(dlvm.vmap(lambda x: dlvm.outer(x, x).sum(0)), (X,)),
    "vmap of a gradient": Case(dlvm.vmap(dlvm.grad(lambda x: (x**3).sum())), (X,)),
    "hessian": Case(dlvm.hessian(lambda v: dlvm.sin(v).prod()), (V,)),
    "jvp": Case(lambda x, d: dlvm.jvp(dlvm.sin, (x,), (d,)), (X, Y)),
    "scan": Case(filtered, (X,)),
    "scan backwards": Case(backwards, (X,)),
    "open scan": Case(filtered, (X,), ("f32[N,3]",)),
    "gradient of a scan": Case(dlvm.grad(lambda xs: filtered(xs)[1].sum()), (X,)),
    "cond": Case(chosen, (np.float32(1.0), X)),
    "gradient of a cond": Case(dlvm.grad(lambda x, c: chosen(c, x).sum()), (X, np.float32(-1.0))),
    "while": Case(power, (np.float32(0.7),)),
    "fori": Case(lambda x: dlvm.fori_loop(0, 5, lambda i, s: s * 0.5 + i.astype("f32"), x), (X,)),
    "sort": Case(lambda x: dlvm.sort(x, axis=1), (X,)),
    "argsort": Case(lambda x: dlvm.argsort(x, axis=0), (X,)),
    "top k": Case(lambda x: dlvm.top_k(x, 2), (X,)),
    "gradient of a sort": Case(dlvm.grad(sharp), (X,)),
    "searchsorted": Case(lambda a, v: dlvm.searchsorted(dlvm.sort(a), v), (V, X)),
    "argmax": Case(lambda x: (x.argmax(1), x.argmin(0), x.argmax()), (X,)),
    "gather": Case(lambda x, i: x[i], (X, I)),
    "gather along": Case(lambda x, i: dlvm.take_along_axis(x, i, axis=0), (X, I[:, None] % 4)),
    "gradient of a gather": Case(dlvm.grad(lambda x, i: (x[i] ** 2).sum()), (X, I)),
    "scatter": Case(lambda x, y, i: x.at[i].add(y), (X, Y, I)),
    "scatter set": Case(lambda x, y, i: x.at[i].set(y), (X, Y, I[:4])),
    "gradient of a set": Case(
        dlvm.grad(lambda x, y, i: (x.at[i].set(y) ** 2).sum(), wrt=(0, 1)), (X, Y, I)
    ),
    "scatter max": Case(lambda x, y, i: x.at[i].max(y), (X, Y, I)),
    "cumsum": Case(lambda x: dlvm.cumsum(x, axis=1), (X,)),
    "cumprod": Case(lambda x: dlvm.cumprod(x, axis=0), (X,)),
    "gradient of cumprod": Case(dlvm.grad(lambda x: dlvm.cumprod(x, axis=0).sum()), (X,)),
    "cummax": Case(lambda x: dlvm.cumulative_max(x, axis=1), (X,)),
    "norms": Case(lambda x: (dlvm.std(x, axis=1), dlvm.var(x), dlvm.linalg.norm(x)), (X,)),
    "products": Case(lambda x: (x.prod(1), x.max(0), x.min(), dlvm.logsumexp(x)), (X,)),
    "gradient of a maximum": Case(dlvm.grad(lambda x: x.max(1).sum()), (X,)),
    "einsum": Case(lambda a, b: dlvm.einsum("bij,bjk->bik", a, b), (K, T)),
    "gradient of einsum": Case(
        dlvm.grad(lambda a, b: dlvm.einsum("bij,bjk->ik", a, b).sum(), wrt=(0, 1)), (K, T)
    ),
    "slices": Case(lambda x: (x[::-1, 1:], x[1:4:2], x[-2]), (X,)),
    "gradient of slices": Case(dlvm.grad(lambda x: (x[::2, 1:] * x[::-2, :2]).sum()), (X,)),
    "joined": Case(lambda x, y: (dlvm.concat([x, y], 1), dlvm.stack([x, y])), (X, Y)),
    "padded": Case(lambda x: dlvm.pad(x, ((1, 2), (0, 1))), (X,)),
    "updated": Case(lambda x: x.at[1:3, ::2].set(0.5), (X,)),
    "diagonal": Case(lambda x: dlvm.diagonal(x @ x.T), (X,)),
    "triangle": Case(lambda x: dlvm.tril(x @ x.T), (X,)),
    "selected": Case(lambda x, y: dlvm.where(x > y, x, dlvm.abs(y)), (X, Y)),
    "sigmoid": Case(lambda x: (dlvm.sigmoid(x), dlvm.nn.softmax(x, axis=1)), (X,)),
    "gelu": Case(dlvm.grad(lambda x: dlvm.nn.gelu(x).sum()), (X,)),
    "trigonometry": Case(lambda x: (dlvm.atan2(x, x + 1), dlvm.tan(x), dlvm.atan(x)), (X,)),
    "arcs": Case(lambda x: (dlvm.asin(x), dlvm.acos(x), dlvm.atanh(x)), (X / 4,)),
    "hyperbolic": Case(lambda x: (dlvm.sinh(x), dlvm.cosh(x), dlvm.asinh(x)), (X * 5,)),
    "logarithms": Case(lambda x: (dlvm.log2(x), dlvm.log10(x), dlvm.log1p(x)), (X**2 + 0.1,)),
    "exponentials": Case(lambda x: (dlvm.exp2(x), dlvm.expm1(x), dlvm.cbrt(x)), (X,)),
    "powers": Case(lambda x, y: (dlvm.abs(x) ** y, dlvm.hypot(x, y)), (X, Y)),
    "rounding": Case(
        lambda x: (dlvm.round(x), dlvm.trunc(x), dlvm.floor(x), dlvm.ceil(x)), (X * 3,)
    ),
    "whole quotients": Case(lambda n, d: (n // d, n % d), (N, D)),
    "quotients of floats": Case(lambda x, y: (x // y, x % y, dlvm.fmod(x, y)), (X * 5, Y)),
    "saturation": Case(
        lambda x: (x.astype("i32"), x.astype("uint8"), x.astype(bool)),
        (np.array([1e20, -1e20, np.nan, -1.5, 2.7, np.inf, 300.0], np.float32),),
    ),
    "shifts": Case(lambda n, d: (n << d, n >> d, n ^ d, ~n), (N, D)),
    "signs": Case(lambda x: (dlvm.sign(x), dlvm.copysign(x, -x), dlvm.isnan(x)), (X,)),
    "halves": Case(lambda x: (x.astype("f16") * 2).sum(0), (X,)),
    "image": Case(convolved, (IMAGE, TAPS)),
    "error functions": Case(lambda x: (dlvm.erf(x), dlvm.erfc(x)), (X,)),
}
