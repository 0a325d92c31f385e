"""Eleven kinds of program, with arguments: what a GPU must run; and large cases, which it times."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dlvm

RNG = np.random.default_rng(0)


def f32(*shape):
    return RNG.normal(size=shape).astype("f4")


def gelu(x):
    return 0.5 * x * (1 + dlvm.tanh(0.79788456 * (x + 0.044715 * x**3)))


def softmax(x):
    e = dlvm.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x, scale, shift):
    d = x - x.mean(axis=1, keepdims=True)
    return d / dlvm.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * scale + shift


def loss(w1, b1, w2, b2, x, y):
    z = dlvm.maximum(x @ w1 + b1, 0) @ w2 + b2
    z = z - z.max(axis=1, keepdims=True)
    return dlvm.log(dlvm.exp(z).sum(axis=1)).mean() - (z * y).sum() / y.shape[0]


LABELS = np.eye(10, dtype="f4")[RNG.integers(0, 10, 17)]
NETWORK = f32(20, 33), f32(33), f32(33, 10), f32(10), f32(17, 20), LABELS
KINDS = {
    "axpy": (lambda a, x, y: a * x + y, (np.float32(2), f32(1000), f32(1000))),
    "gelu": (gelu, (f32(33, 100),)),
    "softmax": (softmax, (f32(10, 300),)),
    "layer norm": (layer_norm, (f32(10, 100), f32(100), f32(100))),
    "column sum": (lambda x: x.sum(axis=0), (f32(300, 70),)),
    "product": (lambda a, b: a @ b, (f32(70, 50), f32(50, 30))),
    "dense": (lambda a, b, c: dlvm.maximum(a @ b + c, 0), (f32(70, 50), f32(50, 30), f32(30))),
    "gather": (lambda a, i: a[i], (f32(70, 50), RNG.integers(-70, 70, 20))),
    "transpose": (lambda a: a.T + 1, (f32(70, 50),)),
    "loop": (
        lambda x: dlvm.while_loop(lambda c: (c * c).sum() < 1e6, lambda c: c * 2, x),
        (f32(50),),
    ),
    "gradient": (dlvm.value_and_grad(loss, wrt=(0, 1, 2, 3)), NETWORK),
}


# -- large cases -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Large:
    """A program, the shapes of its arguments and of a dry run's.

    The shape (5000, "index", 4096) is that of 4,096 indices of 5,000 rows. Operands of products are
    cast to ``dtype`` before; only the first rows of a product are ``compared`` with a CPU's, which
    would need minutes for all. What PyTorch does for it is in ``silicon.played.theirs``.
    """

    program: Callable[..., Any]
    shapes: tuple[tuple[Any, ...], ...]
    dry: tuple[tuple[Any, ...], ...]
    dtype: str = ""
    compared: int | None = None
    flops: float = 0
    tolerance: float = 0
    """How far a result may be from the CPU's, whose bits it has where this is 0."""


def product(dtype, m, n, k):
    """A product of matrices of a type."""
    shapes, dry = ((m, k), (k, n)), ((17, 9), (9, 5))
    work = 2.0 * m * n * k
    return Large(matmul, shapes, dry, dtype, compared=64, flops=work)


def matmul(a, b):
    return a @ b


def definite(x):
    """A matrix whose eigenvalues lie between 1 and some 4/3 more."""
    return x @ x.T / x.shape[0] + np.eye(x.shape[0], dtype="f4")


def scatter_add(x, i, u):
    return dlvm.at(x)[i].add(u)


LARGE = {
    "sum of 2^26": Large(lambda x: x.sum(), ((1 << 26,),), ((9000,),)),
    "max of 2^26": Large(lambda x: x.max(), ((1 << 26,),), ((9000,),)),
    "sum of rows 65536x1024": Large(lambda x: x.sum(axis=1), ((65536, 1024),), ((9, 70),)),
    "sum of rows 1048576x4": Large(lambda x: x.sum(axis=1), ((1048576, 4),), ((90, 4),)),
    "sum of columns 65536x512": Large(lambda x: x.sum(axis=0), ((65536, 512),), ((300, 40),)),
    "sum of columns 8192x8192": Large(lambda x: x.sum(axis=0), ((8192, 8192),), ((70, 70),)),
    "softmax 65536x1024": Large(softmax, ((65536, 1024),), ((9, 70),)),
    "layer norm 16384x4096": Large(
        layer_norm, ((16384, 4096), (4096,), (4096,)), ((9, 70), (70,), (70,))
    ),
    "layer norm 8192x8192": Large(
        layer_norm, ((8192, 8192), (8192,), (8192,)), ((3, 90), (90,), (90,))
    ),
    "over its norm 2^24": Large(lambda x: x / dlvm.sqrt((x * x).sum()), ((1 << 24,),), ((9000,),)),
    "softmax 4x1048576": Large(softmax, ((4, 1 << 20),), ((2, 9000),)),
    "softmax of columns 4096x4096": Large(
        lambda x: dlvm.nn.softmax(x, axis=0), ((4096, 4096),), ((70, 50),)
    ),
    "columns centred 100000x10": Large(
        lambda x: (x - x.mean(axis=0)) / x.std(axis=0), ((100000, 10),), ((300, 5),)
    ),
    "matrix times vector 8192": Large(matmul, ((8192, 8192), (8192,)), ((33, 40), (40,))),
    "product f16 4096": product("f16", 4096, 4096, 4096),
    "product bf16 4096": product("bf16", 4096, 4096, 4096),
    "product f64 2048": product("f64", 2048, 2048, 2048),
    "product f32 64x64x100000": product("f32", 64, 64, 100000),
    "max pool 2x2 32x112x112x64": Large(
        lambda x: dlvm.nn.max_pool(x, 2), ((32, 112, 112, 64),), ((1, 6, 4, 3),)
    ),
    "gather of 65536 rows of 64": Large(
        lambda x, i: x[i],
        ((50000, 64), (50000, "index", 65536)),
        ((50, 6), (50, "index", 20)),
    ),
    "scatter add of 4096 rows of 64": Large(
        scatter_add,
        ((5000, 64), (5000, "index", 4096), (4096, 64)),
        ((9, 6), (9, "index", 20), (20, 6)),
    ),
    "cumsum of 2^18": Large(dlvm.cumsum, ((1 << 18,),), ((50,),), tolerance=1e-4),
    "sort of 1024 rows of 1024": Large(lambda x: dlvm.sort(x, axis=1), ((1024, 1024),), ((3, 20),)),
    "cumsum of 2^24": Large(dlvm.cumsum, ((1 << 24,),), ((50,),), tolerance=0.1),  # sums of ± 4,000
    "scatter add of 65536 rows of 64": Large(
        scatter_add,
        ((50000, 64), (50000, "index", 65536), (65536, 64)),
        ((9, 6), (9, "index", 20), (20, 6)),
        tolerance=1e-4,
    ),
    "cholesky 1024": Large(
        lambda x: dlvm.linalg.cholesky(definite(x)), ((1024, 1024),), ((9, 9),), tolerance=1e-4
    ),
    "solve 1024": Large(
        lambda x, b: dlvm.linalg.solve(definite(x), b),
        ((1024, 1024), (1024, 16)),
        ((9, 9), (9, 2)),
        tolerance=1e-4,
    ),
    "qr 1024": Large(
        lambda x: dlvm.linalg.qr(definite(x))[1], ((1024, 1024),), ((9, 9),), tolerance=1e-4
    ),
    "eigh 1024 of 32x32": Large(
        lambda x: dlvm.linalg.eigvalsh(x + x.swapaxes(-1, -2)),
        ((1024, 32, 32),),
        ((2, 5, 5),),
        tolerance=1e-4,
    ),
}
LOOPS = {
    "eigenvalues of 512x512": Large(
        lambda x: dlvm.linalg.eigvalsh(definite(x)), ((512, 512),), ((9, 9),), tolerance=1e-4
    ),
    "singular values of 512x512": Large(
        lambda x: dlvm.linalg.svdvals(x), ((512, 512),), ((9, 9),), tolerance=1e-4
    ),
}
"""Large programs whose loops go by values, so that their launches can't be packed."""
