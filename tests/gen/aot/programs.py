"""Programs that are written for every processor: networks, gradients, every element type, loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import dlvm
from dlvm import nn
from dlvm.ahead import alone
from dlvm.compile import Options, Road
from dlvm.gen.aot.bundle import Wishes, export
from dlvm.ops.flow.effects import Outgoing
from dlvm.testing import random_program
from dlvm.testing.drawing.random_programs import TRACED

rng = np.random.default_rng(7)


def f32(*shape):
    return (rng.normal(size=shape) * 0.5).astype(np.float32)


def f64(*shape):
    return rng.normal(size=shape) * 0.5


@dataclass(frozen=True)
class Program:
    """A function with its arguments, and how it is staged and written."""

    name: str
    function: Callable[..., Any]
    arrays: Sequence[Any]
    donate: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def staged(self):
        return dlvm.function(self.function, donate=self.donate)

    def bundle(self, target, **more):
        """The files for a processor."""
        given = dict(self.options) | {"target": target, "name": f"p_{self.name}"} | more
        return dlvm.aot(self.staged, *self.arrays, **given)

    def expected(self):
        """The results of a call in this process, as a list of arrays."""
        found = dlvm.function(self.function)(*self.arrays)
        return [np.asarray(x) for x in dlvm.tree.leaves(found)]


W1, B1, W2, B2 = f32(64, 128), f32(128), f32(128, 10), f32(10)


def mlp(x):
    return nn.softmax(dlvm.maximum(x @ W1 + B1, 0) @ W2 + B2, axis=1)


def loss(params, x, y):
    w1, b1, w2, b2 = params
    z = dlvm.tanh(x @ w1 + b1) @ w2 + b2
    return -(y * nn.log_softmax(z, axis=1)).sum() / x.shape[0]


def step(w1, b1, w2, b2, x, y, rate):
    value, g = dlvm.value_and_grad(loss)((w1, b1, w2, b2), x, y)
    moved = [p - rate * d for p, d in zip((w1, b1, w2, b2), g, strict=True)]
    return (*moved, value)


def attention(q, k, v):
    scores = nn.softmax(q @ dlvm.matrix_transpose(k) / 4.0, axis=-1)
    return scores @ v


def layer_norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / dlvm.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def special(x):
    y = dlvm.abs(x) + 0.1
    parts = [dlvm.exp(x), dlvm.log(y), dlvm.sin(x), dlvm.cos(x), dlvm.tanh(x), dlvm.sqrt(y)]
    parts += [y**x, dlvm.atan2(x, y), dlvm.remainder(x, y), dlvm.floor(x * 3), dlvm.rint(x * 3)]
    return dlvm.stack(parts)


def collatz(n):
    def odd(n):
        return 3 * n + 1

    def go(state):
        n, count = state
        return dlvm.where(n % 2 == 0, n // 2, odd(n)), count + 1

    return dlvm.while_loop(lambda s: (s[0] != 1).any() & (s[1] < 50), go, (n, 0))


def recurrent(x, w):
    def cell(h, row):
        h = dlvm.tanh(h @ w + row)
        return h, h.sum()

    return dlvm.scan(cell, dlvm.zeros(4, "f32"), x)


def grown(x):
    def more(v):
        return dlvm.while_loop(lambda v: (v < 9.0).all(), lambda v: v * v + 1.0, v).sum()

    return dlvm.grad(more)(x)


@dlvm.function
def deeper(n, x, y):
    """A function that calls itself, with several arguments and results."""
    return dlvm.cond(n > 0, lambda x, y: deeper(n - 1, y + 1, x * 2), lambda x, y: (x, y), x, y)


def random(seed):
    key = dlvm.random.key(seed)
    return dlvm.random.normal(key, (37,)), dlvm.random.uniform(dlvm.random.fold_in(key, 1), (5, 3))


def integers(x, y):
    return x + y, x * y, x // y, x % y, x & y, x | y, x >> 1, dlvm.maximum(x, y), x.sum(), x > y


def ints(dtype, low=1):
    """Whole numbers of a type, of which none is 0 by default."""
    return rng.integers(low, 100, 29).astype(dtype)


def programs() -> Iterator[Program]:
    """All of them."""
    x, y = f32(32, 64), np.eye(10, dtype=np.float32)[rng.integers(0, 10, 32)]
    yield Program("mlp", mlp, (x,))
    yield Program("softmax", lambda x: nn.softmax(x, axis=1), (f32(100, 37),))
    state = ("w1", "b1", "w2", "b2")
    yield Program("train", step, (W1, B1, W2, B2, x, y, 0.1), state)
    yield Program("grad_norm", dlvm.grad(lambda x: (layer_norm(x) ** 3).sum()), (f32(7, 33),))
    yield Program("grad_scan", dlvm.grad(lambda w: recurrent(W1[:9, :4], w)[0].sum()), (f32(4, 4),))
    parts = f32(2, 9, 16), f32(2, 9, 16), f32(2, 9, 16)
    yield Program("attention", attention, parts)
    yield Program("grad_attention", dlvm.grad(lambda *a: attention(*a).sum(), wrt=(0, 1, 2)), parts)
    yield Program("layer_norm", layer_norm, (f32(11, 96),))
    yield Program("special32", special, (f32(53) * 20,))
    yield Program("special64", special, (f64(53) * 20,))
    yield Program("product64", lambda a, b: a @ b, (f64(33, 70), f64(70, 19)))
    yield Program("turned", lambda a, b: a.T @ b.T, (f32(130, 65), f32(40, 130)))
    yield Program(
        "wide", lambda a, b: dlvm.maximum(a @ b, 0).sum(axis=0), (f32(60, 300), f32(300, 90))
    )
    yield Program(
        "halves",
        lambda a, b: (a @ b, dlvm.exp(a) + 1),
        tuple(f32(12, 12).astype(np.float16) for _ in range(2)),
    )
    brain = tuple(f32(12, 12).astype(ml_dtypes.bfloat16) for _ in range(2))
    yield Program("brain", lambda a, b: (a @ b, a * b + a), brain)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        yield Program(name, integers, (ints(name), ints(name)))
    yield Program(
        "truth",
        lambda a, b: (a & b, a ^ b, ~a, a.any(), a.sum()),
        (rng.random(31) < 0.5, rng.random(31) < 0.5),
    )
    yield Program("ordered", lambda x: (dlvm.sort(x), dlvm.argsort(x, axis=0)), (f32(200, 3),))
    yield Program("ordered_i64", lambda x: (dlvm.sort(x), dlvm.argsort(-x)), (ints("int64", -90),))
    yield Program(
        "running", lambda x: (dlvm.cumsum(x, axis=0), dlvm.cumprod(x, axis=1)), (f64(40, 9),)
    )
    yield Program("gathered", lambda x, i: x[i] * 2, (f32(20, 5), rng.integers(-20, 20, 33)))
    yield Program(
        "scattered",
        lambda x, i: dlvm.zeros((9, 4), "f32").at[i].add(x),
        (f32(25, 4), rng.integers(0, 9, 25)),
    )
    yield Program("collatz", collatz, (np.array([3, 7, 12], np.int64),))
    yield Program("recurrent", recurrent, (f32(13, 4), f32(4, 4)))
    yield Program("choice", lambda x, up: dlvm.cond(up, dlvm.exp, dlvm.negative, x), (f32(8), True))
    yield Program("random", random, (7,))
    told = (("growing", 1 << 16),)
    yield Program("deeper", lambda n, x, y: deeper(n, x, y), (4, f32(5), f32(5)), options=told)
    yield Program("grown", grown, (f64(3),), options=told)
    yield Program("conv", lambda x, k: nn.conv(x, k), (f32(2, 12, 12, 3), f32(3, 3, 3, 4)))
    yield Program("scalars", lambda a, b, n: (a * b + n, n // 2), (1.5, np.float32(2.25), 7))
    yield Program("empty", lambda x: (x.sum(axis=0), x * 2), (f32(0, 5),))
    yield Program("images", lambda x: nn.max_pool(x, 2).mean(axis=(1, 2)), (f32(3, 10, 10, 2),))


SILENT = tuple(c for c in TRACED if not issubclass(c, Outgoing))


@dataclass(frozen=True)
class Drawn:
    """A random program: a module of its own, which no function of Python made."""

    seed: int

    @property
    def name(self):
        return f"drawn_{self.seed}"

    @property
    def drawn(self):
        return random_program(self.seed, classes=SILENT, symbolic=False)

    @property
    def arrays(self):
        return self.drawn.arrays

    def bundle(self, target):
        """The files for a processor."""
        module = self.drawn.module
        code = Road(module, Options()).made(alone(target))
        labels = [p.name for p in module.main.params]
        results = [f"r{i}" for i, _ in enumerate(module.main.results)]
        wishes = Wishes(f"p_{self.name}", target, growing=1 << 16)
        return export(code, module, labels, self.arrays, 0, results, wishes, "")

    def expected(self):
        """The results of machine code in this process."""
        return list(Road(self.drawn.module, Options()).executable.run(self.arrays))


def random_programs(count: int, first: int = 0) -> list[Drawn]:
    """So many that run to their end."""
    found: list[Drawn] = []
    while len(found) < count:
        drawn = Drawn(first)
        first += 1
        try:
            drawn.expected()
        except dlvm.UserError:
            continue
        found.append(drawn)
    return found
