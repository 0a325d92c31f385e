"""What parts with moments have in common: decaying means, and how trees of moments are walked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from dlvm.dsl.call.undecorated import computing
from dlvm.optim.leaves import (
    cast,
    count,
    each,
    element_type,
    filled,
    increased,
    number,
    scalar,
    wide,
)


def mean(decay: Any, old: Any, x: Any) -> Any:
    """``decay * old + (1 - decay) * x``."""
    return scalar(decay, x) * old + scalar(1 - number(decay), x) * x


def weight(decay: Any, steps: Any) -> Any:
    """``1 - decay ** steps``: the sum of the weights of a decaying mean that began at 0."""
    return 1 - number(decay) ** steps


def unbiased(decay: Any, m: Any, x: Any, weights: tuple[Any, Any], nesterov: bool) -> Any:
    """A decaying mean divided by its weight so far.

    By Nesterov it is the mean after one more step with the same gradient. ``weights`` are those
    after this step and after the next.
    """
    now, ahead = weights
    up = m / scalar(now, x)
    return mean(decay, m / scalar(ahead, x), x / scalar(now, x)) if nesterov else up


class Moments(ABC):
    """A part that remembers numbers for each element: its moments.

    ``state`` is a named tuple with a tree for each moment, in their order, after a ``count`` of
    steps if it has this field.
    """

    state: ClassVar[type[Any]]

    @abstractmethod
    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        """What one array of gradients becomes, and its new moments."""

    def _first(self, name: str) -> Any:
        """A moment before the first step."""
        return 0.0

    def _shared(self, steps: Any) -> Any:
        """What all leaves of a step share, computed of the steps taken with this one."""
        return None

    def _names(self) -> list[str]:
        return [name for name in self.state._fields if name != "count"]

    @computing
    def init(self, params: Any) -> Any:
        """The first moments in each place."""
        steps = {"count": count()} if "count" in self.state._fields else {}
        return self.state(**steps, **{k: filled(params, self._first(k)) for k in self._names()})

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """What gradients become, and the new moments."""
        steps = {"count": increased(state.count)} if "count" in self.state._fields else {}
        shared, names = self._shared(steps.get("count")), self._names()

        def leaf(g: Any, *moments: Any) -> tuple[Any, ...]:
            moved, *after = self._leaf(wide(g), shared, moments)
            return cast(moved, element_type(g)), *after

        trees = {f"state.{name}": getattr(state, name) for name in names}
        moved, *after = each("update", leaf, 1 + len(names), gradients=updates, **trees)
        return moved, self.state(**steps, **dict(zip(names, after, strict=True)))
