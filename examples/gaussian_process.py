"""Fit a Gaussian process to 200 noisy points, by the gradient of its log marginal likelihood.

For y of n points with the covariance ``K = a^2 exp(-(x_i - x_j)^2 / 2l^2) + s^2 I`` it is
``-(y' inv(K) y + log det K + n log 2 pi) / 2``. The function is written in that form; one Cholesky
factor serves the solve, the determinant and the gradient with respect to a, l and s.

    python examples/gaussian_process.py [--points 200] [--folder out]
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


def covariance(log_scales: Any, x: Any, z: Any) -> Any:
    """That of the process without noise, between two sets of points."""
    amplitude, length = dlvm.exp(log_scales[0]), dlvm.exp(log_scales[1])
    return amplitude**2 * dlvm.exp(-0.5 * ((x[:, None] - z) / length) ** 2)


def noisy(log_scales: Any, x: Any) -> Any:
    """That of measurements: independent noise is on the diagonal."""
    noise = dlvm.exp(2 * log_scales[2])
    return covariance(log_scales, x, x) + noise * dlvm.eye(len(x))


def log_likelihood(log_scales: Any, x: Any, y: Any) -> Any:
    """Log density of y, for logarithms of amplitude, length and noise."""
    factor = linalg.cholesky(noisy(log_scales, x))
    half = linalg.solve_triangular(factor, y, lower=True)
    log_det = 2 * dlvm.log(dlvm.diagonal(factor)).sum()
    return -0.5 * (half @ half + log_det + len(x) * math.log(2 * math.pi))


@dlvm.function
def predicted(log_scales: Any, x: Any, y: Any, z: Any) -> Any:
    """Mean and deviation of the process at z, given measurements y at x."""
    factor = linalg.cholesky(noisy(log_scales, x))
    across = linalg.solve_triangular(factor, covariance(log_scales, x, z), lower=True)
    mean = linalg.solve_triangular(factor, y, lower=True) @ across
    return mean, dlvm.sqrt(dlvm.exp(2 * log_scales[0]) - (across**2).sum(0))


def truth(x: Any) -> Any:
    """What was measured."""
    return np.sin(x) + 0.5 * np.sin(2.3 * x)


def drawn(n: int, noise: float = 0.2) -> Any:
    """Points and measurements."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, n))
    return x, truth(x) + noise * rng.standard_normal(n)


def surprise(log_scales: Any, x: Any, y: Any) -> Any:
    """What the fit makes small."""
    return -log_likelihood(log_scales, x, y)


def main() -> None:
    """Fit, compare with the truth, draw."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    x, y = drawn(options.points)
    begin = time.perf_counter()
    found = optim.minimize(surprise, np.zeros(3), x, y, tol=1e-6)
    seconds = time.perf_counter() - begin
    amplitude, length, noise = np.exp(found.params)
    print(
        f"log likelihood {-float(found.value):.3f} after {int(found.steps)} steps, largest element "
        f"of the gradient {np.abs(found.grad).max():.1e}, {seconds:.1f} s with compiling"
    )
    print(f"amplitude {amplitude:.3f}, length {length:.3f}, noise {noise:.3f} (drawn with 0.2)")
    between = np.linspace(0.2, 9.8, 300)
    mean, deviation = predicted(found.params, x, y, between)
    wrong: npt.NDArray[np.float64] = mean - truth(between)
    error = np.sqrt(np.mean(wrong**2))
    within: npt.NDArray[np.bool_] = np.abs(wrong) < 2 * deviation
    inside = 100 * float(np.mean(within))
    print(f"root mean square error {error:.3f}; {inside:.1f}% of the truth within two deviations")
    (options.folder / "gaussian_process.svg").write_text(
        curve((mean - mean.min()).tolist(), "the fitted mean above its least value")
    )
    print(f"picture: {options.folder / 'gaussian_process.svg'}")


if __name__ == "__main__":
    main()
