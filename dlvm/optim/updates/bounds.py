"""Limits on gradients: of each element, and of the norm of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.trees import flatten
from dlvm.dsl.words.namespace import xp
from dlvm.optim.combining import Stateless
from dlvm.optim.leaves import moved, number, quiet, root, same, scalar, wide


@dataclass(frozen=True)
class Clip(Stateless):
    """Each element no less than ``-limit`` and no more than ``limit``."""

    limit: Any

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Elements within the limits."""

        def within(x: Any) -> Any:
            limit = scalar(self.limit, x)
            return xp.clip(x, -limit, limit)

        return moved(within, updates), state


@dataclass(frozen=True)
class ClipByNorm(Stateless):
    """All elements times one number, so that the norm of all leaves is at most ``limit``."""

    limit: Any

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Updates of the same direction; a norm that is no number makes all of them NaN."""
        norm = global_norm(updates)

        def within(x: Any) -> Any:
            less = x / scalar(norm, x) * scalar(self.limit, x)
            return xp.where(norm < number(self.limit), x, less)

        return moved(within, updates), state


@facing_users
def global_norm(updates: Any) -> Any:
    """The square root of the sum of all squares of a tree; leaves of 16 bits are summed in f32."""
    with quiet():
        squares = [xp.sum(wide(x) * wide(x)) for x in flatten(updates)[0]]
        return same(root(reduce(add, squares))) if squares else xp.zeros(())


@facing_users
def clip(max_delta: Any) -> Clip:
    """Clips each element of the updates to the range from ``-max_delta`` to ``max_delta``."""
    return Clip(max_delta)


@facing_users
def clip_by_global_norm(max_norm: Any) -> ClipByNorm:
    """Scales all updates by one factor so that their norm is at most ``max_norm``."""
    return ClipByNorm(max_norm)
