"""Scans whose gradient keeps little: segments of steps, each of which is computed again.

The gradient of a scan of T steps needs residuals of every step. With segments of k steps it keeps
T/k carries, and the residuals of the k steps of one segment at a time. With k near the square root
of T that is 2 sqrt(T) instead of T, at the cost of one more run of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.dsl.flow.control import check_callable, in_trace
from dlvm.dsl.flow.loops import common_length, scan
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import flatten, labels, map_leaves, unflatten
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv

from .derivatives import checkpoint


@facing_users
def checkpoint_scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: Any = None,
    *,
    every: int | None = None,
    policy: str = "nothing",
) -> tuple[Any, Any]:
    """``dlvm.scan``, of which a gradient keeps the carry of every ``every``-th step only.

    It then computes the steps between again, but for what ``policy`` saves. ``every`` is about
    the square root of the number of steps if that is known, else 32::

        step = lambda carry, a: (carry + a, carry)
        dlvm.checkpoint_scan(step, 0.0, x)[0]        # np.sum(x)
    """
    check_callable("checkpoint_scan", f)
    steps: Any = every
    if steps is not None and (not isinstance(steps, int | np.integer) or steps < 1):
        raise UserError(
            f"checkpoint_scan: every={every!r:.40}",
            origin=user_origin(),
            remedy="give a number of steps, at least 1",
        )
    if not in_trace():
        return scan(f, init, xs, length)
    leaves, tree = flatten(xs)
    tensors = [staged(x) for x in leaves]
    n = common_length([x.type.shape for x in tensors], labels(tree, "xs"), length)
    k = int(every or (math.isqrt(n) if isinstance(n, int) else 32) or 1)
    return _in_stretches(f, init, unflatten(tree, tensors), n, k, policy)


def _in_stretches(
    f: Callable[..., Any], init: Any, xs: Any, n: Dim, k: int, policy: str
) -> tuple[Any, Any]:
    """Whole segments, each one a checkpoint, then the remaining steps."""
    trips = floordiv(n, k)
    whole, rest = trips * k, n - trips * k

    def stretch(carry: Any, xs: Any) -> Any:
        return scan(f, carry, xs, k)

    def remainder(carry: Any, xs: Any) -> Any:
        return scan(f, carry, xs, rest)

    def cut(x: Any) -> Any:
        return xp.reshape(x[:whole], (trips, k, *x.shape[1:]))

    def joined(y: Any) -> Any:
        return xp.reshape(y, (whole, *y.shape[2:]))

    def left_over(x: Any) -> Any:
        return x[whole:]

    def both(a: Any, b: Any) -> Any:
        return xp.concat([a, b])

    carry, ys = scan(checkpoint(stretch, policy), init, map_leaves(cut, xs), trips)
    ys = map_leaves(joined, ys)
    if isinstance(rest, int) and not rest:
        return carry, ys
    carry, last = checkpoint(remainder, policy)(carry, map_leaves(left_over, xs))
    return carry, map_leaves(both, ys, last)
