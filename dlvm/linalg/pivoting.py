"""The order of columns in which QR takes those first that are farthest from the ones before.

Only the order is computed here. The factors are those of ``qr`` for the columns in that order, and
so are their derivatives, which are those of matrices of the same order.
"""

from __future__ import annotations

from typing import Any

from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp


def column_order(a: Tensor) -> Any:
    """Where the columns of the pivoted factors stand in the matrix (Businger and Golub 1965).

    What is left of each column after those that were chosen is computed in every step, by modified
    Gram-Schmidt, as lengths that are updated lose their digits. Of equal lengths the first counts.
    """
    from dlvm.dsl.flow.loops import fori_loop  # not loaded by those who call nothing of it

    x = xp.stop_gradient(a)
    x = xp.astype(x, "f32") if a.dtype.itemsize == 2 else x
    largest = xp.max(xp.abs(x), axis=(-2, -1), keepdims=True, initial=0.0)
    x = x / xp.where(largest > 0, largest, 1.0)
    places = xp.arange(x.shape[-1])
    order = xp.broadcast_to(places, (*x.shape[:-2], x.shape[-1]))
    steps = xp.minimum(*x.shape[-2:]) if _open(a) else min(*x.shape[-2:])

    def step(k: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        x, order = carry
        sizes = xp.sum(x * x, axis=-2)
        left = xp.where(places >= k, xp.take_along_axis(sizes, order, axis=-1), -1.0)
        found = xp.argmax(left, axis=-1, keepdims=True)
        chosen = xp.take_along_axis(order, found, axis=-1)
        moved = xp.where(places == found, order[..., k][..., None], order)
        return _without(x, chosen, sizes), xp.where(places == k, chosen, moved)

    return fori_loop(0, steps, step, (x, order))[1]


def _open(a: Tensor) -> bool:
    """Whether a size is not known while tracing."""
    return not all(isinstance(n, int) for n in a.type.shape[-2:])


def _without(x: Any, chosen: Any, sizes: Any) -> Any:
    """The columns without their parts along the chosen one."""
    column = xp.take_along_axis(x, chosen[..., None, :], axis=-1)
    size = xp.take_along_axis(sizes, chosen, axis=-1)[..., None, :]
    share = xp.matmul(xp.matrix_transpose(column), x) / xp.where(size > 0, size, 1.0)
    return x - column * share
