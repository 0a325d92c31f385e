"""The public names as one object, for code that is written on top: ``xp.exp(x)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .names import named


class Namespace:
    """Every public function as an attribute, found when it is used."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return named(name)


xp = Namespace()
