"""Dropout: zeros at random places while a network is trained."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import UserError
from dlvm.dsl.arrays.random_numbers import bernoulli
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp


@exported("nn.dropout")
def dropout(key: Any, x: Any, rate: Any, training: bool = True) -> Any:
    """``x / (1 - rate)``, but 0 at random places with a probability of ``rate``; else ``x``.

    The places that are kept are ``jax.random.bernoulli(key, 1 - rate, x.shape)`` in f32.
    """
    if isinstance(rate, int | float) and not 0 <= rate <= 1:
        raise UserError(
            f"dropout: expected a rate from 0 to 1, found {rate}",
            origin=user_origin(),
            remedy="pass the share of elements that become 0, such as 0.1",
        )
    if not training:
        return xp.asarray(x)
    share = 1.0 - xp.asarray(rate)
    kept = bernoulli(key, xp.astype(share, "f32"), xp.shape(x))
    x = xp.multiply(x, 1.0)
    safe = xp.astype(xp.where(share > 0, share, 1.0), x.dtype)
    return xp.where(kept, x / safe, 0)
