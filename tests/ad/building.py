"""Small programs written in Python, their derivatives declared, and the oracles they meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm.ad import expand
from dlvm.ir import Builder, Declaration, Function, Module, Param, TensorType, Value, parse
from dlvm.ir.sizes.dims import evaluate
from dlvm.ir.types import DTYPES

Arrays = Sequence[Any]


def t(text: str) -> TensorType:
    """A type from its text, ``f64[3,N]``."""
    m = parse(f"dlvm 1\nfunc @f(%x: {text}) -> {text} {{\n  return %x\n}}\n")
    return m.main.params[0].type


def function(name: str, types: str | Sequence[TensorType], body: Callable[..., Any]) -> Function:
    """A function, or a region, with these parameter types; the body builds its operations."""
    found = [t(w) for w in types.split()] if isinstance(types, str) else list(types)
    params = tuple(Param(each, f"x{i}") for i, each in enumerate(found))
    with Builder() as builder:
        out = body(*params)
    results = (out,) if isinstance(out, Value) else tuple(out)
    return Function(name, params, tuple(builder.ops), results)


def checked(*entries: Function | Declaration) -> Module:
    """The expanded module, after verification and a round trip through text."""
    module = Module(tuple(entries)).verify()
    full = expand(module).verify()
    assert not full.declarations
    assert parse(str(full)) == full
    return full


def draw(type_: TensorType, rng: np.random.Generator, **sizes: int) -> np.ndarray:
    """Random numbers of a type, away from kinks and poles."""
    shape = [evaluate(d, sizes) for d in type_.shape]
    if type_.dtype.kind == "f":
        sign = rng.choice([-1.0, 1.0], size=shape)
        return np.asarray(sign * rng.uniform(0.3, 1.7, size=shape), type_.dtype.numpy)
    return np.asarray(rng.integers(0, 2, size=shape), type_.dtype.numpy)


def floats(fn: Function) -> tuple[int, ...]:
    """The positions of float parameters."""
    return tuple(i for i, p in enumerate(fn.params) if p.type.dtype.is_float)


def derivatives(fn: Function, *others: Function | Declaration) -> Module:
    """``fn`` with its adjoint ``d``, the adjoint ``dd`` of that, and its tangent ``v``."""
    wrt = floats(fn)
    keep = tuple(range(len(fn.results)))
    first = Declaration("adjoint", "d", fn.name, wrt, keep, seeded=True)
    probe = Module((fn, *others, first)).signature("d")
    again = tuple(i for i, p in enumerate(probe.params) if p.dtype.is_float)
    second = Declaration("adjoint", "dd", "d", again, seeded=True)
    tangent = Declaration("tangent", "v", fn.name, wrt, keep)
    return checked(fn, *others, first, second, tangent)


def assert_adjoint(
    module: Module, primal: str, adjoint: str, args: Arrays, rng: np.random.Generator
) -> None:
    """``<J v, w> = <v, J' w>``, with ``J v`` by central differences of fourth order in f64."""
    fn = module.function(primal)
    wrt = floats(fn)
    out = module.run(primal, *args)
    w = [rng.normal(size=o.shape) for o in out if o.dtype.kind == "f"]
    g = module.run(adjoint, *args, *w)
    for k, i in enumerate(wrt):
        v = rng.normal(size=np.shape(args[i]))

        def along(h: float, i: int = i, v: np.ndarray = v) -> float:
            moved = [*args[:i], args[i] + h * v, *args[i + 1 :]]
            ys = [y for y in module.run(primal, *moved) if y.dtype.kind == "f"]
            return sum(float((y * s).sum()) for y, s in zip(ys, w, strict=True))

        h = 1e-3
        slope = (8 * (along(h) - along(-h)) - along(2 * h) + along(-2 * h)) / (12 * h)
        found = float((g[k] * v).sum())
        scale = 1 + abs(slope) + abs(found)
        assert abs(slope - found) < 1e-8 * scale, (i, slope, found)


def assert_derivatives(fn: Function, rng: np.random.Generator, **sizes: int) -> Module:
    """First and second derivatives of a function against finite differences."""
    module = derivatives(fn)
    args = [draw(p.type, rng, **sizes) for p in fn.params]
    assert_adjoint(module, fn.name, "d", args, rng)
    more = [draw(p.type, rng, **sizes) for p in module.function("d").params[len(args) :]]
    assert_adjoint(module, "d", "dd", [*args, *more], rng)
    return module


def scalar(number: Any, dtype: str = "f64") -> np.ndarray:
    """A rank-0 array."""
    return np.array(number, DTYPES[dtype].numpy)
