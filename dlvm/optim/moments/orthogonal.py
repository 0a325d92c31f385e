"""Muon: updates of matrices that are nearly orthogonal, by iterations of Newton and Schulz."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.optim.combining import Stateless
from dlvm.optim.leaves import moved, norm, scalar

from .base import Moments, mean, unbiased, weight

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of ``a x + b x^3 + c x^5``, which takes singular values from 0 to 1 near 1 in five steps."""
Coefficients = tuple[Any, ...]


class MuonState(NamedTuple):
    """Steps taken, and the decaying mean of gradients."""

    count: Any
    mu: Any


@dataclass(frozen=True)
class ScaleByMuon(Moments):
    """Approximates the orthogonal matrix nearest to the decaying mean of gradients."""

    rows: Annotated[Coefficients, static]
    beta: Any
    eps: Any
    nesterov: bool
    adaptive: bool
    state = MuonState

    def _shared(self, steps: Any) -> Any:
        return weight(self.beta, steps), weight(self.beta, steps + 1)

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        m = mean(self.beta, moments[0], _matrix(x))
        up = unbiased(self.beta, m, x, shared, self.nesterov)
        near = self._orthogonal(up)
        return xp.sum(up * near) * near if self.adaptive else near, m

    def _orthogonal(self, x: Any) -> Any:
        """Steps with matrices of the shorter side."""
        shape = shape_of(plain(x))
        tall = shape[0] > shape[1]  # type: ignore[operator]
        x = x.T if tall else x
        x = x / (norm(x) + scalar(self.eps, x))
        for a, b, c in self.rows:
            square = x @ x.T
            x = a * x + (b * square + c * (square @ square)) @ x
        return x.T if tall else x


@dataclass(frozen=True)
class ScaleByShape(Stateless):
    """Matrices times ``sqrt(max(1, columns / rows))``, or the root of their longer side."""

    consistent_rms: Any

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Updates whose elements have a size that does not depend on the width of a layer."""

        def scaled(x: Any) -> Any:
            rows, columns = (1.0 * n for n in _matrix(x).shape)
            if self.consistent_rms is None:
                factor = xp.sqrt(xp.maximum(1.0, columns / xp.maximum(rows, 1.0)))
            else:
                factor = xp.sqrt(xp.maximum(rows, columns)) * scalar(self.consistent_rms, x)
            return x * scalar(factor, x)

        return moved(scaled, updates), state


def _matrix(x: Any) -> Any:
    if len(shape := shape_of(plain(x))) != 2:
        raise ShapeError(
            f"scale_by_muon: expected matrices, found the shape {shown_shape(shape)}",
            origin=user_origin(),
            remedy="use muon, which takes Adam for other parameters",
        )
    return x


@facing_users
def scale_by_muon(
    ns_coeffs: Coefficients = COEFFICIENTS,
    ns_steps: int = 5,
    beta: Any = 0.95,
    eps: Any = 1e-8,
    *,
    nesterov: bool = True,
    adaptive: bool = False,
) -> ScaleByMuon:
    """Muon for matrices, without a learning rate (Jordan et al., 2024).

    ``ns_coeffs`` are three coefficients for every step, or a tuple of three for each.
    """
    each_step = not isinstance(ns_coeffs[0], int | float)
    rows: list[tuple[Any, ...]] = [tuple(row) for row in (ns_coeffs if each_step else [ns_coeffs])]
    if any(len(row) != 3 for row in rows) or (each_step and len(rows) < ns_steps):
        raise ArgumentError(
            f"scale_by_muon: expected 3 coefficients, or a tuple of 3 for each of {ns_steps} "
            f"steps, found {ns_coeffs}",
            origin=user_origin(),
            remedy="leave ns_coeffs out",
        )
    rows = rows[-ns_steps:] if each_step else rows * ns_steps
    return ScaleByMuon(tuple(rows), beta, eps, nesterov, adaptive)
