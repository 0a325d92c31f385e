"""What a call costs beside its work: nanoseconds for one call, each measured in turn with others.

python benchmarks/calls.py [--rounds 30] [--json calls.json]

Every round times each contender once and the best round counts, as other programs only add time.
An empty Python function and ``np.add`` on the same arrays are the measure. Calls without a
decorator stand beside the same staged and, where they are installed, in JAX and PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import timeit
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dlvm

SMALL = (8, 8)
BIG = 16_000_000


def array() -> Any:
    """A small array."""
    return np.ones(SMALL, np.float32)


PACKAGE = """
class Model:
    def __init__(self, leaves):
        self.rates = [1.0] * (leaves // 2)
        self.layers = [{"w": 1.0} for _ in range(leaves - leaves // 2)]

    def __call__(self, x):
        for rate in self.rates:
            x = x if rate > 0 else -x
        return x if all(layer["w"] > 0 for layer in self.layers) else -x
"""
"""A module that counts as a part of an installed package; a leaf is a number that a call reads."""


def installed_model(leaves: int) -> Callable[[], Any]:
    """A call of a function that captures a model of an installed class."""
    module = types.ModuleType("foreign_model")
    module.__file__ = "/usr/lib/python3/site-packages/foreign_model.py"
    sys.modules[module.__name__] = module
    exec(compile(PACKAGE, module.__file__, "exec"), module.__dict__)
    model, x = module.__dict__["Model"](leaves), array()
    f = dlvm.function(lambda x: model(x) + 1)
    return lambda: f(x)


def contenders() -> dict[str, Callable[[], Any]]:
    """What is called, by name."""
    x, w = array(), array()
    found: dict[str, Callable[[], Any]] = {
        "an empty Python function": lambda: None,
        "np.empty((8, 8))": lambda: np.empty(SMALL, np.float32),
        "np.add(x, x), x f32[8,8]": lambda: np.add(x, x),
    }
    for n in (1, 5, 10):
        f = dlvm.function(lambda *xs: xs[0] + xs[-1])
        arrays = [array() for _ in range(n)]
        found[f"{n} arrays, one result"] = lambda f=f, arrays=arrays: f(*arrays)
        compiled = f.compile(*arrays)
        found[f"{n} arrays, one result, compiled"] = lambda c=compiled, arrays=arrays: c(*arrays)
    captured = dlvm.function(lambda x: x + w)
    found["1 array and a captured one"] = lambda: captured(x)
    for leaves in (10, 1000):
        found[f"a captured model of {leaves} leaves"] = installed_model(leaves)
    scaled = dlvm.function(lambda x, rate: x * rate)
    found["1 array and a Python float"] = lambda: scaled(x, 0.5)
    named = dlvm.function(lambda x, rate, kind: x * rate, static=("kind",))
    found["by name, and a static one"] = lambda: named(x, rate=0.5, kind="a")
    sizes = dlvm.function(dynamic={"x": "B,8"})(lambda x: x + 1)
    found["1 array of an open size"] = lambda: sizes(x)
    params = {f"w{i}": array() for i in range(10)}
    first = dlvm.function(lambda p, x: p["w0"] + x)
    found["a dict of 10 arrays and one"] = lambda: first(params, x)
    layers = [{"w": array(), "b": array()} for _ in range(5)]
    nested = dlvm.function(lambda p, x: p[0]["w"] + x)
    found["a list of 5 dicts and one"] = lambda: nested(layers, x)
    twice = dlvm.function(lambda p: {k: v + v for k, v in p.items()})
    found["a dict of 10 arrays to another"] = lambda: twice(params)
    step = dlvm.function(lambda p, x: {k: v + x for k, v in p.items()}, donate=("p",))
    mine = {f"w{i}": array() for i in range(10)}

    def stepped() -> None:
        nonlocal mine
        mine = step(mine, x)

    found["a step on 10 donated arrays"] = stepped
    return found | undecorated()


def undecorated() -> dict[str, Callable[[], Any]]:
    """Calls without a decorator, each beside the same one staged."""
    key, x = dlvm.random.key(0), array()
    net = dlvm.nn.MLP(key, [8, 64, 8])
    params = {f"w{i}": array() for i in range(6)}
    adam = dlvm.optim.adam(1e-3)
    state = adam.init(params)
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "random.split": (dlvm.random.split, (key,)),
        "random.fold_in": (dlvm.random.fold_in, (key, 3)),
        "a layer, layer_norm": (dlvm.nn.layer_norm, (x, x[0], x[0])),
        "a network of two layers": (lambda net, x: net(x), (net, x)),
        "adam on 6 arrays": (lambda g, s, p: adam.update(g, s, p), (params, state, params)),
    }
    found: dict[str, Callable[[], Any]] = {}
    for name, (f, args) in calls.items():
        found[name] = lambda f=f, args=args: f(*args)
        staged = dlvm.function(f)
        found[f"{name}, staged"] = lambda f=staged, args=args: f(*args)

    def slope(y: Any) -> Any:
        return dlvm.value_and_grad(lambda w: ((y @ w) ** 2).sum())(x)

    found["value_and_grad(lambda)"] = lambda: slope(x)
    staged_slope = dlvm.function(slope)
    found["value_and_grad(lambda), staged"] = lambda: staged_slope(x)
    return found


def with_jax() -> dict[str, Callable[[], Any]]:
    """The calls of ``undecorated`` as they are written in JAX without ``jit``, if it is there."""
    if importlib.util.find_spec("jax") is None:
        return {}
    jax: Any = importlib.import_module("jax")
    key, x = jax.random.key(0), jax.numpy.ones(SMALL)
    net = [(jax.numpy.ones(sizes), jax.numpy.ones(sizes[1])) for sizes in ((8, 64), (64, 8))]
    params = {f"w{i}": x for i in range(6)}

    def adam(g: Any, m: Any, v: Any) -> Any:
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        return jax.tree.map(lambda a, b: -1e-3 * a / (jax.numpy.sqrt(b) + 1e-8), m, v), m, v

    def network() -> Any:
        (w, b), (v, c) = net
        return jax.nn.relu(x @ w + b) @ v + c

    calls = {
        "random.split": lambda: jax.random.split(key),
        "random.fold_in": lambda: jax.random.fold_in(key, 3),
        "a layer, layer_norm": lambda: jax.nn.standardize(x) * x[0] + x[0],
        "a network of two layers": network,
        "adam on 6 arrays": lambda: adam(params, params, params),
        "value_and_grad(lambda)": lambda: jax.value_and_grad(lambda w: ((x @ w) ** 2).sum())(x),
    }
    return {f"{name}, JAX": lambda f=f: jax.block_until_ready(f()) for name, f in calls.items()}


def with_torch() -> dict[str, Callable[[], Any]]:
    """The calls of ``undecorated`` that PyTorch has, if it is there."""
    if importlib.util.find_spec("torch") is None:
        return {}
    torch: Any = importlib.import_module("torch")
    nn, x = torch.nn, torch.ones(SMALL)
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 8))
    params = [torch.ones(SMALL, requires_grad=True) for _ in range(6)]
    for p in params:
        p.grad = torch.ones(SMALL)
    adam, w = torch.optim.Adam(params, 1e-3), torch.ones(SMALL, requires_grad=True)

    def slope() -> Any:
        loss = ((x @ w) ** 2).sum()
        return loss, torch.autograd.grad(loss, w)

    calls = {
        "a layer, layer_norm": lambda: nn.functional.layer_norm(x, (8,), x[0], x[0]),
        "a network of two layers": lambda: net(x),
        "adam on 6 arrays": adam.step,
        "value_and_grad(lambda)": slope,
    }
    return {f"{name}, PyTorch": f for name, f in calls.items()}


def large() -> dict[str, Callable[[], Any]]:
    """Results of 64 MB, which die before the next one is made."""
    x = np.ones(BIG, np.float32)
    out = np.empty_like(x)
    f = dlvm.function(lambda x: x + x)
    g = dlvm.function(lambda x: x + x, donate=("x",))
    y = np.zeros_like(x)

    def doubled() -> None:
        nonlocal y
        y = g(y)

    return {
        "np.add(x, x), 64 MB": lambda: np.add(x, x),
        "np.add(x, x, out=out), 64 MB": lambda: np.add(x, x, out=out),
        "x + x, 64 MB": lambda: f(x),
        "x + x, 64 MB, donated": doubled,
    }


def measure(found: dict[str, Callable[[], Any]], rounds: int, number: int) -> dict[str, float]:
    """Seconds of one call: the best of all rounds."""
    for call in found.values():
        call()
        call()
    best = dict.fromkeys(found, float("inf"))
    for _ in range(rounds):
        for name, call in found.items():
            best[name] = min(best[name], timeit.timeit(call, number=number) / number)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(contenders(), options.rounds, 1000)
    found |= measure(with_jax() | with_torch(), options.rounds, 50)
    beside = found["np.add(x, x), x f32[8,8]"]
    for name, seconds in found.items():
        print(f"{name:42} {seconds * 1e9:8.0f} ns   {seconds / beside:5.2f} np.add")
    big = measure(large(), max(3, options.rounds // 3), 1)
    for name, seconds in big.items():
        print(f"{name:42} {seconds * 1e3:8.2f} ms")
    if options.json:
        options.json.write_text(json.dumps(found | big, indent=1))


if __name__ == "__main__":
    main()
