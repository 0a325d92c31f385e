"""The types that editors show, as pyright checks them with ``python -m tools.typos``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, assert_type

import numpy as np
from numpy.typing import NDArray

import dlvm
from dlvm.dsl.trace.typed import Array

Floats = NDArray[np.float32]


class Params(NamedTuple):
    w: Floats
    b: Floats


@dlvm.function
def loss(p: Params, x: Floats, scale: float = 1.0) -> Array:
    return dlvm.sum((x @ p.w + p.b) ** 2) * scale


@dlvm.function
def aux(p: Params, x: Floats) -> tuple[Array, int]:
    return dlvm.sum(x @ p.w), 1


@dataclass
class Model:
    w: Floats
    heads: dlvm.static[int]
    depth: Annotated[int, dlvm.static]
    layers: int = dlvm.static(default=2)


def arrays(x: Floats, p: Params) -> None:
    key = dlvm.random.key(0)
    assert_type(dlvm.exp(x), Array)
    assert_type(dlvm.exp(x) * 2 + x, Array)
    assert_type(dlvm.modf(x), tuple[Array, Array])
    assert_type(dlvm.split(x, 3), list[Array])
    assert_type(dlvm.random.normal(key, (3, 4)), Array)
    assert_type(dlvm.random.split(key, (2, 3)), Array)
    assert_type(dlvm.linalg.solve(x, x), Array)
    assert_type(dlvm.nn.relu(x), Array)
    assert_type(dlvm.nn.Linear(key, 3, 4)(x), Array)
    assert_type(dlvm.nn.Sequential([dlvm.nn.Linear(key, 3, 4), dlvm.nn.relu])(x), Array)
    assert_type(dlvm.stop_gradient(p), Params)


def transformations(x: Floats, p: Params) -> None:
    assert_type(dlvm.grad(loss)(p, x), Params)
    assert_type(dlvm.grad(loss)(p, x=x, scale=2.0), Params)
    assert_type(dlvm.grad(loss, wrt="x")(p, x=x), Any)
    assert_type(dlvm.grad(aux, has_aux=True)(p, x), tuple[Params, int])
    assert_type(dlvm.value_and_grad(loss)(p, x), tuple[Array, Params])
    assert_type(dlvm.vmap(loss)(p, x, scale=2.0), Array)
    assert_type(dlvm.checkpoint(loss)(p=p, x=x), Array)
    assert_type(dlvm.function(dlvm.grad(loss), memory="1MB")(p, x), Params)
    dlvm.grad(lambda x: (x * x).sum())(x)


def configuration(x: Floats) -> None:
    model = Model(x, 2, 3)
    assert_type(model.heads, int)
    assert_type(model.layers, int)
