"""Second moments of matrices as the product of a row and a column, which need little memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import plain, shape_of
from dlvm.dsl.trace.trees import flatten_with_none
from dlvm.dsl.words.namespace import xp
from dlvm.optim.leaves import (
    aligned,
    cast,
    count,
    element_type,
    increased,
    is_float,
    number,
    quiet,
    scalar,
    unzipped,
    wide,
)


class FactoredState(NamedTuple):
    """Steps taken, and means of squares: rows and columns of matrices, all elements of others.

    A place that is not used holds one 0.
    """

    count: Any
    v_row: Any
    v_col: Any
    v: Any


@dataclass(frozen=True)
class ScaleByFactoredRms:
    """Gradients divided by the root of the mean of their squares, which is a product for matrices.

    The product of the means r of rows and c of columns over the mean of r has the least divergence
    from the squares.
    """

    factored: bool
    decay_rate: Any
    step_offset: Any
    min_dim_size_to_factor: Annotated[int, static]
    epsilon: Any

    @computing
    def init(self, params: Any) -> Any:
        """Zeros."""
        leaves, spec = flatten_with_none(params)
        rows = [self._first(p) if is_float(p) else (None,) * 3 for p in leaves]
        return FactoredState(count(), *unzipped(spec, rows, 3))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Gradients in units of how large they have been."""
        steps = increased(state.count, 1 - number(self.step_offset))
        decay = 1.0 - xp.asarray(steps) ** (-1.0 * number(self.decay_rate))
        (grads,), spec = aligned("update", gradients=updates)
        moments = zip(*(flatten_with_none(tree)[0] for tree in state[1:]), strict=True)
        with quiet():
            found = [
                (None,) * 4 if g is None else self._leaf(g, decay, *moment)
                for g, moment in zip(grads, moments, strict=True)
            ]
        moved, *after = unzipped(spec, found, 4)
        return moved, FactoredState(increased(state.count), *after)

    def _axes(self, x: Any) -> tuple[int, int] | None:
        """The second largest axis and the largest, if there are two that are large enough."""
        shape = [n for n in shape_of(plain(x)) if isinstance(n, int)]  # parameters have no others
        if not self.factored or len(shape) < 2:
            return None
        *_, second, first = map(int, np.argsort(np.array(shape)))
        return (second, first) if shape[second] >= self.min_dim_size_to_factor else None

    def _first(self, p: Any) -> tuple[Any, Any, Any]:
        kind, axes, shape = element_type(p).compute, self._axes(p), shape_of(plain(p))
        if axes is None:
            return xp.zeros(1, kind), xp.zeros(1, kind), xp.zeros(shape, kind)
        second, first = axes
        row, column = (shape[:i] + shape[i + 1 :] for i in (first, second))
        return xp.zeros(row, kind), xp.zeros(column, kind), xp.zeros(1, kind)

    def _leaf(self, g: Any, decay: Any, row: Any, column: Any, v: Any) -> tuple[Any, Any, Any, Any]:
        x, axes = wide(g), self._axes(g)
        kept = scalar(decay, x)
        squares = x * x + scalar(self.epsilon, x)
        if axes is None:
            v = kept * v + (1 - kept) * squares
            return cast(x / xp.sqrt(v), element_type(g)), row, column, v
        second, first = axes
        row = kept * row + (1 - kept) * xp.mean(squares, axis=first)
        column = kept * column + (1 - kept) * xp.mean(squares, axis=second)
        among = second - 1 if second > first else second
        share = row / xp.mean(row, axis=among, keepdims=True)
        by_rows = xp.expand_dims(1 / xp.sqrt(share), first)
        by_columns = xp.expand_dims(1 / xp.sqrt(column), second)
        return cast(x * by_rows * by_columns, element_type(g)), row, column, v


@facing_users
def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: Any = 0.8,
    step_offset: Any = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: Any = 1e-30,
) -> ScaleByFactoredRms:
    """Divides gradients by the root of a mean of squares that is kept as rows and columns.

    The mean decays by ``1 - step ** -decay_rate`` (Shazeer and Stern, 2018). The mean of an array
    is kept as rows and columns if its two largest axes have at least ``min_dim_size_to_factor``
    elements; that of any other array has a number for each element.
    """
    return ScaleByFactoredRms(factored, decay_rate, step_offset, min_dim_size_to_factor, epsilon)
