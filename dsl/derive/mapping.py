"""``map``: a function of each slice, one after the other or in batches side by side.

A map of single slices is a loop: each slice may use all threads, and needs the memory of one.
Batches are what ``vmap`` makes of them: elements of a batch share kernels, and threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.dsl.flow.control import check_callable, in_trace
from dlvm.dsl.flow.loops import common_length, scan, staged_scan
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import flatten, labels, unflatten
from dlvm.dsl.words.calling import called
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv

from .derivatives import vmap


@facing_users
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """``f`` of each slice along the leading axis, stacked; ``batch_size`` slices at a time."""
    check_callable("map", f)
    if batch_size is not None and not _is_count(batch_size):
        raise UserError(
            f"map: batch_size={batch_size!r:.40}",
            origin=user_origin(),
            remedy="give how many slices are taken at a time, a whole number of at least 1",
        )
    if batch_size is None or not in_trace():
        return _one_by_one(f, xs)
    return _in_batches(f, xs, int(batch_size))


def _is_count(x: Any) -> bool:
    return isinstance(x, int | np.integer) and x is not True and bool(x >= 1)


def _one_by_one(f: Callable[[Any], Any], xs: Any) -> Any:
    def step(carry: None, x: Any) -> tuple[None, Any]:
        return None, called("map: the function", "x", f, x)

    return (staged_scan("map", step, None, xs) if in_trace() else scan(step, None, xs))[1]


def _in_batches(f: Callable[[Any], Any], xs: Any, k: int) -> Any:
    """Whole batches in a loop, then the remaining slices as one more batch."""
    leaves, tree = flatten(xs)
    n = common_length([staged(x).type.shape for x in leaves], labels(tree, "xs"), None, "map")
    side_by_side = vmap(f)
    if isinstance(n, int) and n <= k:
        return side_by_side(xs)
    trips = floordiv(n, k)
    whole = [_batches(staged(x)[: trips * k], trips, k) for x in leaves]
    stacked, form = flatten(_one_by_one(side_by_side, unflatten(tree, whole)))
    done = [xp.reshape(y, (trips * k, *y.shape[2:])) for y in stacked]
    if n == trips * k:
        return unflatten(form, done)
    rest = flatten(side_by_side(unflatten(tree, [staged(x)[trips * k :] for x in leaves])))[0]
    return unflatten(form, [xp.concat(pair) for pair in zip(done, rest, strict=True)])


def _batches(x: Any, trips: Dim, k: int) -> Any:
    return xp.reshape(x, (trips, k, *x.shape[1:]))
