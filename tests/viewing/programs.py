"""A function whose gradient is shown, with the lines that a page must follow."""

from __future__ import annotations

import numpy as np

import dlvm


def loss(w, x, u):
    table = dlvm.tanh(x @ w)  # first
    chained = x @ (w @ u)  # second
    return dlvm.cumsum(table, axis=0).sum() + (chained**2).mean()  # third


@dlvm.function
def step(w, x, u):
    return w - 0.1 * dlvm.grad(loss)(w, x, u)  # last


ARGUMENTS = np.ones((30, 20)), np.ones((500, 30)), np.ones((20, 1))
LINES = ("# first", "# second", "# third", "# last")
