"""Weight decay, with masks that say which parameters decay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlvm.base.errors import ArgumentError, CallError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import broadcast_prefix, flatten_with_none, unflatten

from .bounds import Stateless
from .leaves import aligned, cast, element_type, quiet, same, scalar, wide


@dataclass(frozen=True)
class Decay(Stateless):
    """``updates + rate * params`` where the mask holds."""

    rate: Any
    mask: Any

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Updates that, like gradients, point away from 0."""
        if params is None:
            raise CallError(
                "update: weight decay needs the parameters",
                origin=user_origin(),
                remedy="call update(grads, state, params)",
            )
        columns, spec = aligned("update", gradients=updates, parameters=params)
        rows = zip(*columns, chosen_places(self.mask, params), strict=True)
        moved = [self._leaf(u, p) if decays and u is not None else u for u, p, decays in rows]
        return unflatten(spec, moved), state

    def _leaf(self, u: Any, p: Any) -> Any:
        x = wide(u)
        with quiet():
            pull = scalar(self.rate, x) * cast(p, element_type(x))
            return same(cast(x + pull, element_type(u)))


def chosen_places(mask: Any, params: Any) -> list[bool]:
    """For each leaf of the parameters, None among them, whether a mask holds there."""
    leaves, _ = flatten_with_none(params)
    if mask is None:
        return [True] * len(leaves)
    tree = mask(params) if callable(mask) else mask
    try:
        spread = iter(broadcast_prefix(tree, params))
    except ValueError as error:
        raise _wrong_mask("has another structure than the parameters") from error
    found = [p is not None and next(spread) for p in leaves]
    for x in found:
        if not isinstance(x, bool):
            raise _wrong_mask(f"holds True and False, found {type(x).__name__}")
    return found


def _wrong_mask(said: str) -> ArgumentError:
    return ArgumentError(
        f"update: the mask {said}",
        origin=user_origin(),
        remedy="give a tree of True and False like the parameters, in which one value may stand "
        "for a whole subtree, or a function of the parameters that returns such a tree",
    )


@facing_users
def add_decayed_weights(weight_decay: Any = 0.0, mask: Any = None) -> Decay:
    """Updates plus ``weight_decay * params``; ``mask`` says which parameters decay.

    ``mask`` is a tree of True and False, or a function that gives one for the parameters.
    """
    return Decay(weight_decay, mask)
