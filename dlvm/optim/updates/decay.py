"""Weight decay, with masks that say which parameters decay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlvm.base.errors import CallError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import unflatten
from dlvm.optim.combining import Stateless
from dlvm.optim.leaves import aligned, cast, element_type, quiet, same, scalar, wide
from dlvm.optim.places import chosen_places


@dataclass(frozen=True)
class Decay(Stateless):
    """``updates + rate * params`` where the mask holds."""

    rate: Any
    mask: Any

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Updates that, like gradients, point away from 0."""
        check_params("weight decay", params)
        columns, spec = aligned("update", gradients=updates, parameters=params)
        rows = zip(*columns, chosen_places(self.mask, params), strict=True)
        moved = [self._leaf(u, p) if decays and u is not None else u for u, p, decays in rows]
        return unflatten(spec, moved), state

    def _leaf(self, u: Any, p: Any) -> Any:
        x = wide(u)
        with quiet():
            pull = scalar(self.rate, x) * cast(p, element_type(x))
            return same(cast(x + pull, element_type(u)))


def check_params(what: str, params: Any) -> None:
    """Refuses a call without the parameters that ``what`` needs."""
    if params is None:
        raise CallError(
            f"update: {what} needs the parameters",
            origin=user_origin(),
            remedy="call update(grads, state, params)",
        )


@facing_users
def add_decayed_weights(weight_decay: Any = 0.0, mask: Any = None) -> Decay:
    """Adds ``weight_decay * params`` to the updates; ``mask`` says which parameters decay.

    ``mask`` is a tree of True and False, or a function that gives one for the parameters.
    """
    return Decay(weight_decay, mask)
