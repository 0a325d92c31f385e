"""What is raced: one class for each program, written once for each library that takes part.

``run`` is written in NumPy's words and serves every library that has them under the name
``xp``; where gradients are taken, each library says how in ``peers``. ``flops`` and ``bytes``
are what cannot be avoided: the floor is the larger of the times they take on this machine.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A program at one size; ``wrt`` asks for its value and the gradient by these arguments."""

    name: str
    size: str
    flops: float
    bytes: float
    arguments: Arrays
    tolerance: float = 1e-3
    wrt: tuple[int, ...] = ()

    def words(self, xp: Any) -> Any:
        """The words that ``run`` asks a library for, made before it is traced."""
        return xp

    def run(self, xp: Any, *arguments: Any) -> Any:
        """The program, in the words of a library."""
        raise NotImplementedError


def normal(*shape: int, scale: float = 1.0, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Random numbers that are the same for everybody."""
    rng = np.random.default_rng([seed, *shape])
    return (rng.normal(size=shape) * scale).astype(dtype)


class Product(Case):
    """``A @ B``."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        a, b = arguments
        return a @ b


class Epilogue(Case):
    """``max(A @ B + c, 0)``."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        a, b, c = arguments
        return xp.maximum(a @ b + c, 0.0)


class Layers(Case):
    """The scores of a network of three layers."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        w1, b1, w2, b2, w3, b3, x = arguments
        return xp.maximum(xp.maximum(x @ w1 + b1, 0.0) @ w2 + b2, 0.0) @ w3 + b3


class Chain(Case):
    """Eight operations on every element, two of them transcendental."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        x, y = arguments
        return xp.tanh(x * y + 0.5) * (1.0 / (1.0 + xp.exp(-x))) + y


class Softmax(Case):
    """Softmax of each row."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        (x,) = arguments
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)


class LayerNorm(Case):
    """Layer normalisation of each row, with the residual added before."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        x, residual, scale, shift = arguments
        x = x + residual
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        variance = xp.mean(centred * centred, axis=-1, keepdims=True)
        return centred / xp.sqrt(variance + 1e-5) * scale + shift


class LogSumExp(Case):
    """The logarithm of the sum of exponentials of each row."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        (x,) = arguments
        top = xp.max(x, axis=-1, keepdims=True)
        return xp.log(xp.sum(xp.exp(x - top), axis=-1)) + xp.squeeze(top, -1)


class Logistic(Case):
    """The loss of a logistic regression, and its gradient."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        w, x, y = arguments
        z = x @ w
        return xp.mean(xp.log(1.0 + xp.exp(-xp.abs(z))) + xp.maximum(z, 0.0) - z * y)


class Perceptron(Case):
    """The squared error of a network of two layers, and its gradient."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        w1, b1, w2, b2, x, y = arguments
        error = xp.tanh(x @ w1 + b1) @ w2 + b2 - y
        return xp.mean(error * error)


class Adam(Case):
    """An Adam update of four parameters, given their gradients."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        out: list[Any] = []
        for p, m, v, g in zip(*(arguments[i::4] for i in range(4)), strict=True):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            out += [p - 0.001 * m / (xp.sqrt(v) + 1e-8), m, v]
        return tuple(out)


class Algebra(Case):
    """What libraries leave to LAPACK, which IREE and ONNX Runtime do not call."""


class Solve(Algebra):
    """Unknowns of linear equations."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        return xp.linalg.solve(*arguments)


class Cholesky(Algebra):
    """The factor of a definite matrix."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        return xp.linalg.cholesky(*arguments)


class Eigenvalues(Algebra):
    """Those of a symmetric matrix."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        return xp.linalg.eigvalsh(*arguments)


class SingularValues(Algebra):
    """Those of a matrix."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        return xp.linalg.svdvals(*arguments)


class Power(Algebra):
    """The fifth power of a matrix, times a vector."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        a, v = arguments
        return xp.linalg.matrix_power(a, 5) @ v


class Evidence(Algebra):
    """A Gaussian process's ``log det K + y' inv(K) y``, for a covariance K of points on a line.

    For dlvm it is written as that, with what is known of K. Other libraries are given the form by
    Cholesky factor and triangular solve, where they have one.
    """

    def run(self, xp: Any, *arguments: Any) -> Any:
        scales, x, y, one = arguments
        apart = (x[:, None] - x[None, :]) ** 2
        k = scales[0] * xp.exp(-scales[1] * apart) + scales[2] * one
        if hasattr(xp, "assume"):
            k = xp.assume(k, "spd")
            return xp.linalg.slogdet(k)[1] + y @ xp.linalg.inv(k) @ y
        root = xp.linalg.cholesky(k)
        half = _substituted(xp, root, y)
        return 2 * xp.log(xp.diagonal(root)).sum() + half @ half


def _substituted(xp: Any, root: Any, y: Any) -> Any:
    """A triangular solve in a library's words; NumPy has none."""
    if "jax" in getattr(xp, "__name__", ""):
        return importlib.import_module("jax.scipy.linalg").solve_triangular(root, y, lower=True)
    if hasattr(xp.linalg, "solve_triangular"):  # PyTorch
        return xp.linalg.solve_triangular(root, y[:, None], upper=False)[:, 0]
    return xp.linalg.solve(root, y)


def cases(quick: bool) -> Iterator[Case]:
    """Every case; the quick ones are smaller and fewer."""
    yield from _products((64, 256) if quick else (64, 128, 256, 512, 1024, 2048))
    yield from _kernels(100_000 if quick else 1_000_000, 512 if quick else 4096)
    yield from _steps((32,) if quick else (32, 128, 1024))
    yield from _algebra(64 if quick else 400)


def _products(sizes: tuple[int, ...]) -> Iterator[Case]:
    for dtype in (np.float32, np.float64):
        for n in sizes:
            a, b = normal(n, n, dtype=dtype), normal(n, n, dtype=dtype, seed=1)
            size = f"{n}x{n} {np.dtype(dtype).name}"
            yield Product("product", size, 2 * n**3, 3 * a.nbytes, (a, b))
    n = sizes[-1]
    a, b, c = normal(8, n), normal(n, n, seed=1), normal(n)
    yield Epilogue("product, bias, relu", f"8x{n}x{n}", 16 * n * n, b.nbytes, (a, b, c))
    a, b = normal(1, 1024), normal(1024, 1024, seed=1)
    yield Product("row times a matrix", "1x1024x1024", 2 << 20, b.nbytes, (a, b))
    shapes = ((784, 512), (512,), (512, 512), (512,), (512, 10), (10,))
    weights = tuple(normal(*shape, scale=0.03) for shape in shapes)
    read = sum(w.nbytes for w in weights)
    given = (*weights, normal(1, 784))
    yield Layers("three layers, one image", "1x784x512x512x10", 2 * read // 4, read, given)


def _kernels(size: int, rows: int) -> Iterator[Case]:
    x, y = normal(size), normal(size, seed=1)
    yield Chain("element-wise chain", f"{size:,}", 0, 3 * x.nbytes, (x, y))
    x = normal(rows, 1024)
    yield Softmax("softmax of rows", f"{rows}x1024", 0, 2 * x.nbytes, (x,))
    yield LogSumExp("logsumexp of rows", f"{rows}x1024", 0, x.nbytes, (x,))
    given = (x, normal(rows, 1024, seed=1), normal(1024), normal(1024, seed=1))
    yield LayerNorm("layer norm", f"{rows}x1024", 0, 3 * x.nbytes, given)
    shapes = ((784, 512), (512,), (512, 10), (10,))
    parts = [normal(*shape, seed=i) for shape in shapes for i in range(4)]
    parts[2::4] = [np.abs(v) for v in parts[2::4]]
    total = sum(part.nbytes for part in parts[::4])
    yield Adam("Adam", "406,528 parameters", 0, 7 * total, tuple(parts))


def _steps(batches: tuple[int, ...]) -> Iterator[Case]:
    w, x = normal(64, scale=0.1), normal(1000, 64)
    y = (normal(1000, seed=1) > 0).astype(np.float32)
    flops = 4 * 1000 * 64
    yield Logistic("logistic regression, gradient", "1000x64", flops, x.nbytes, (w, x, y), wrt=(0,))
    for batch in batches:
        hidden = 512
        weights = (normal(784, hidden, scale=0.03), normal(hidden), normal(hidden, 10), normal(10))
        given = (*weights, normal(batch, 784), normal(batch, 10))
        flops = 2 * batch * (784 * hidden * 2 + hidden * 10 * 3)
        read = 2 * sum(v.nbytes for v in weights)
        name, size = "network of two layers, gradient", f"{batch}x784x{hidden}x10"
        yield Perceptron(name, size, flops, read, given, wrt=(0, 1, 2, 3))
    yield _evidence(200)


def _algebra(n: int) -> Iterator[Case]:
    size, a = f"{n}x{n} float64", normal(n, n, dtype=np.float64)
    definite, symmetric, b = a @ a.T / n + np.eye(n), a + a.T, normal(n, 16, dtype=np.float64)
    yield Solve("solve, 16 right sides", size, 2 * n**3 / 3, 8 * n * n, (a, b), 1e-6)
    yield Cholesky("Cholesky factor", size, n**3 / 3, 8 * n * n, (definite,), 1e-8)
    yield Eigenvalues("symmetric eigenvalues", size, 4 * n**3 / 3, 8 * n * n, (symmetric,), 1e-8)
    yield SingularValues("singular values", size, 8 * n**3 / 3, 8 * n * n, (a,), 1e-8)
    yield Power("A^5 v", size, 10 * n * n, 8 * n * n, (a, b[:, 0].copy()), 1e-6)


def _evidence(n: int) -> Case:
    x, y = np.linspace(0.0, 10.0, n), normal(n, dtype=np.float64)
    given = (np.array([1.5, 0.5, 0.1]), x, y, np.eye(n))
    name, size = "Gaussian process, gradient", f"{n} points"
    return Evidence(name, size, n**3, 8 * n * n, given, 1e-8, wrt=(0,))
