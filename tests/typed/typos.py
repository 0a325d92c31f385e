"""Forty mistakes that a type checker must find: each line that is marked, and no other.

``python -m tools.typos`` compares what pyright finds with the marks. Nothing runs this file.
"""

# ruff: noqa: B018  (expressions that nobody uses)

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import dlvm

Floats = NDArray[np.float32]
x: Floats = np.ones((3, 3), np.float32)
key = dlvm.random.key(0)


@dlvm.function
def loss(w: Floats, x: Floats, scale: float = 1.0) -> Floats:
    return dlvm.sum((x @ w) ** 2) * scale


@dataclass
class Model:
    w: Floats
    heads: dlvm.static[int]
    layers: int = dlvm.static(default=2)


# names
dlvm.nonsense  # typo
dlvm.expp(x)  # typo
dlvm.concatenate_all([x, x])  # typo
dlvm.flaot32  # typo
dlvm.ShapeEror  # typo
dlvm.random.normall(key)  # typo
dlvm.random.Key(0)  # typo
dlvm.linalg.slove(x, x)  # typo
dlvm.linalg.cholseky(x)  # typo
dlvm.nn.rellu(x)  # typo
dlvm.nn.Linaer(key, 3, 4)  # typo
dlvm.nn.initializers.glorot(key)  # typo
dlvm.optim.adm(1e-3)  # typo
dlvm.tree.mapp(abs, x)  # typo
dlvm.testing.gradchek  # typo
dlvm.onnx.lod("model.onnx")  # typo
dlvm.vampp(loss)  # typo

# parameters
dlvm.sum(x, axs=0)  # typo
dlvm.sum(x, keepdim=True)  # typo
dlvm.exp(x, x)  # typo
dlvm.exp()  # typo
dlvm.where(x > 0, x)  # typo
dlvm.zeros((3, 3), dtpye="f32")  # typo
dlvm.random.uniform(key, (3,), min=0.0)  # typo
dlvm.linalg.solve(x)  # typo
dlvm.nn.softmax(x, dim=-1)  # typo
dlvm.nn.Linear(key, 3)  # typo
dlvm.optim.adam(learning_rat=1e-3)  # typo
dlvm.grad(loss, argnums=0)  # typo
dlvm.vmap(loss, in_axis=0)  # typo
dlvm.function(statics=("n",))  # typo
loss(x, x, scal=2.0)  # typo
dlvm.grad(loss)(x, x, scal=2.0)  # typo
dlvm.value_and_grad(loss)(x)  # typo

# types
dlvm.sum("x")  # typo
dlvm.reshape(x, "3")  # typo
dlvm.zeros(3, 5)  # typo
loss("x", x)  # typo
Model(x, "four")  # typo
dlvm.stack(3, x)  # typo
