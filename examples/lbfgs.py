"""Find minima that are known with L-BFGS: Rosenbrock's valley, and a logistic regression.

The valley of Rosenbrock (1960) in n dimensions is 0 at ones. Of the regression, on measurements of
569 tumours, Newton's method tells the minimum: its second derivatives are those of
``dlvm.hessian``, and NumPy solves.

    python examples/lbfgs.py [--dimensions 2 10 100 1000] [--folder out]
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
from pictures import curve
from sklearn.datasets import load_breast_cancer

import dlvm
from dlvm import nn, optim


def rosenbrock(x):
    """A curved valley: easy to find, hard to follow."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def start(n: int) -> np.ndarray:
    """Where everybody starts."""
    return np.array([(-1.2, 1.0)[i % 2] for i in range(n)])


def valley(n: int) -> float:
    """The largest distance of an element from the minimum that is known."""
    begin = time.perf_counter()
    found = optim.minimize(rosenbrock, start(n), steps=20_000)
    seconds = time.perf_counter() - begin
    away = float(np.abs(found.params - 1).max())
    print(
        f"{n:7d} dimensions: {int(found.steps):5d} steps, value {float(found.value):.1e}, "
        f"{away:.1e} from the minimum, {seconds:.2f} s with compiling"
    )
    return away


def descent(n: int, steps: int = 20_000) -> list[float]:
    """The decimal digits of each value on the way, step by step."""
    optimizer = optim.lbfgs()

    @dlvm.function(donate=("x", "state"))
    def step(x, state):
        value, slope = dlvm.value_and_grad(rosenbrock)(x)
        updates, state = optimizer.update(slope, state, x, value=value, value_fn=rosenbrock)
        return optim.apply(x, updates), state, value

    x = start(n)
    state = optimizer.init(x)
    values: list[float] = []
    while len(values) < steps and (not values or values[-1] > 1e-20):
        x, state, value = step(x, state)
        values.append(float(value))
    return [max(0.0, 20 + math.log10(max(v, 1e-20))) for v in values]


# -- logistic regression -------------------------------------------------------------------------


def tumours():
    """Standardised measurements with a column of ones, and whether a tumour is benign."""
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    return np.column_stack([x, np.ones(len(x))]), y.astype(np.float64)


def cost(w, x, y):
    """Mean cross-entropy, and a penalty that makes the minimum the only one."""
    return nn.binary_cross_entropy_with_logits(x @ w, y).mean() + 1e-3 * (w**2).sum()


def newton(x, y, steps: int = 20):
    """The minimum to the last digits, from second derivatives."""
    slopes, curvature = dlvm.function(dlvm.grad(cost)), dlvm.function(dlvm.hessian(cost))
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        w = w - np.linalg.solve(curvature(w, x, y), slopes(w, x, y))
    return w


def regression() -> float:
    """The largest distance of a weight from Newton's."""
    x, y = tumours()
    begin = time.perf_counter()
    found = optim.minimize(cost, np.zeros(x.shape[1]), x, y, tol=1e-12)
    seconds = time.perf_counter() - begin
    away = float(np.abs(found.params - newton(x, y)).max())
    print(
        f"logistic regression, {x.shape[1]} weights: {int(found.steps)} steps, value "
        f"{float(found.value):.6f}, {away:.1e} from Newton's minimum, {seconds:.2f} s"
    )
    return away


def main() -> None:
    """Minimise, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 10, 100, 1000])
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    worst = max([valley(n) for n in options.dimensions] + [regression()])
    print(f"all minima found: none is further than {worst:.1e} from where it is known to be")
    title = f"log10 of the value above 1e-20, {max(options.dimensions)} dimensions"
    (options.folder / "lbfgs.svg").write_text(curve(descent(max(options.dimensions)), title))
    print(f"picture: {options.folder / 'lbfgs.svg'}")


if __name__ == "__main__":
    main()
