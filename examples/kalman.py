"""Fit the noise of a moving object's model, by the gradient of a Kalman filter's likelihood.

A state of position and speed follows ``s_t = F s_(t-1) + w_t``, and ``y_t = H s_t + v_t`` is
measured. The filter is a ``dlvm.scan`` over measurements; its log likelihood is the sum of the log
densities of what each measurement adds (Harvey 1989, section 3.4). The parameters are logarithms
of the deviations of w, an acceleration, and of v.

    python examples/kalman.py [--steps 500] [--folder out]
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pictures import curve

import dlvm
from dlvm import linalg, optim

STEP = 0.1
F = np.array([[1.0, STEP], [0.0, 1.0]])
H = np.array([[1.0, 0.0]])
PUSH = np.array([STEP**2 / 2, STEP])
START = 10 * np.eye(2)


def filtered(log_scales: Any, ys: Any) -> Any:
    """Means of the state given the measurements up to it, and the log likelihood of all."""
    q = dlvm.exp(2 * log_scales[0]) * np.outer(PUSH, PUSH)
    r = dlvm.exp(2 * log_scales[1]) * np.eye(1)

    def step(carry: Any, y: Any) -> Any:
        mean, p, total = carry
        mean, p = F @ mean, F @ p @ F.T + q
        s, missed = H @ p @ H.T + r, y - H @ mean
        gain = linalg.solve(s, H @ p).T
        density = missed @ linalg.solve(s, missed) + linalg.slogdet(s)[1] + math.log(2 * math.pi)
        mean, p = mean + gain @ missed, p - gain @ H @ p
        return (mean, p, total - 0.5 * density), mean

    (_, _, total), means = dlvm.scan(step, (np.zeros(2), START, 0.0), ys)
    return means, total


def log_likelihood(log_scales: Any, ys: Any) -> Any:
    """Log density of the measurements."""
    return filtered(log_scales, ys)[1]


def surprise(log_scales: Any, ys: Any) -> Any:
    """What the fit makes small."""
    return -log_likelihood(log_scales, ys)


def simulated(steps: int, push: float = 1.0, noise: float = 0.5) -> Any:
    """States and measurements of them."""
    rng = np.random.default_rng(1)
    state: Any = np.zeros(2)
    states: list[Any] = []
    for _ in range(steps):
        state = F @ state + PUSH * push * rng.standard_normal()
        states.append(state)
    truth = np.array(states)
    return truth, truth @ H.T + noise * rng.standard_normal((steps, 1))


def main() -> None:
    """Fit, compare with the truth, draw."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    truth, ys = simulated(options.steps)
    begin = time.perf_counter()
    found = optim.minimize(surprise, np.zeros(2), ys, tol=1e-6)
    seconds = time.perf_counter() - begin
    push, noise = np.exp(found.params)
    print(
        f"log likelihood {-float(found.value):.3f} after {int(found.steps)} steps, largest element "
        f"of the gradient {np.abs(found.grad).max():.1e}, {seconds:.1f} s with compiling"
    )
    print(f"acceleration {push:.3f} (drawn with 1), noise {noise:.3f} (drawn with 0.5)")
    means = dlvm.function(filtered)(found.params, ys)[0]
    wrong: list[npt.NDArray[np.float64]] = [x[:, 0] - truth[:, 0] for x in (means, ys)]
    errors = [np.sqrt(np.mean(w**2)) for w in wrong]
    print(f"root mean square error of the filter {errors[0]:.3f}, of measurements {errors[1]:.3f}")
    path = means[:, 0] - means[:, 0].min()
    (options.folder / "kalman.svg").write_text(curve(path.tolist(), "filtered position"))
    print(f"picture: {options.folder / 'kalman.svg'}")


if __name__ == "__main__":
    main()
