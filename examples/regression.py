"""Ridge and generalised least squares, written as in a textbook.

Ridge regression is ``inv(X'X + a I) X'y``; its penalty a is chosen by the gradient of the error
that leaving out each point in turn would give, ``mean(((y - Hy) / (1 - diag H))^2)`` with
``H = X inv(X'X + a I) X'``. Generalised least squares, ``inv(X' inv(M) X) X' inv(M) y``, knows the
covariance M of the errors. The compiler turns each ``inv`` that is multiplied into a solve.

    python examples/regression.py [--points 200] [--folder out]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pictures import curve

import dlvm
from dlvm import linalg, optim

Array = npt.NDArray[np.floating[Any]]


def ridge(x: Any, y: Any, penalty: Any) -> Any:
    """Coefficients of the least squared error plus ``penalty`` times their squares."""
    return linalg.inv(x.T @ x + penalty * dlvm.eye(x.shape[1])) @ (x.T @ y)


def left_out(log_penalty: Any, x: Any, y: Any) -> Any:
    """The mean squared error of each point from a fit to all others."""
    hat = x @ linalg.inv(x.T @ x + dlvm.exp(log_penalty) * dlvm.eye(x.shape[1])) @ x.T
    return (((y - hat @ y) / (1 - dlvm.diagonal(hat))) ** 2).mean()


def generalised(x: Any, m: Any, y: Any) -> Any:
    """Coefficients of the least variance, for errors with the covariance ``m``."""
    weighted = linalg.inv(m) @ x
    return linalg.inv(x.T @ weighted) @ (weighted.T @ y)


def drawn(points: int, unknowns: int = 40) -> tuple[Array, Array, Array]:
    """A matrix with columns alike, coefficients, and measurements with noise."""
    rng = np.random.default_rng(2)
    mixed = rng.standard_normal((unknowns, unknowns)) * np.geomspace(1, 0.01, unknowns)[:, None]
    x = rng.standard_normal((points, unknowns)) @ mixed
    true = rng.standard_normal(unknowns)
    return x, true, x @ true + rng.standard_normal(points)


def correlated(points: int) -> Array:
    """The covariance of errors of which each resembles its neighbours."""
    i = np.arange(points)
    return 0.95 ** np.abs(i[:, None] - i)


def main() -> None:
    """Fit, compare with what was drawn, draw."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    x, true, y = drawn(options.points)
    found = optim.minimize(left_out, np.zeros(()), x, y)
    print(
        f"penalty {np.exp(found.params):.3f}: error of points left out {float(found.value):.4f}, "
        f"without a penalty {float(dlvm.function(left_out)(-50.0, x, y)):.4f}"
    )
    staged = dlvm.function(ridge)
    errors = [np.linalg.norm(staged(x, y, a) - true) for a in (np.exp(found.params), 0.0)]
    print(f"ridge: coefficients {errors[0]:.2f} from the true ones, least squares {errors[1]:.2f}")
    m, z = correlated(options.points), x[:, :3]
    drawn_once = np.random.default_rng(3).standard_normal((options.points, 500))
    noise: Array = np.linalg.cholesky(m) @ drawn_once
    fits: list[Array] = [dlvm.function(generalised)(z, m, noise), np.linalg.lstsq(z, noise)[0]]
    spreads = [float(np.sqrt(np.mean(fit**2))) for fit in fits]
    print(f"generalised: spread of coefficients {spreads[0]:.4f}, least squares {spreads[1]:.4f}")
    penalties = dlvm.vmap(left_out, in_axes=(0, None, None))(np.linspace(-6, 6, 121), x, y)
    title = "error of points left out, penalties from e**-6 to e**6"
    (options.folder / "regression.svg").write_text(curve(penalties.tolist(), title))
    print(f"picture: {options.folder / 'regression.svg'}")


if __name__ == "__main__":
    main()
