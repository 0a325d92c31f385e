"""What an optimiser is, chains of them, and ``apply``.

An optimiser is an object with two pure functions of trees: ``init(params)`` gives a state, and
``update(grads, state, params)`` gives what is added to the parameters, and the next state.
Hyperparameters are fields: numbers of a captured optimiser are part of the code, and arguments
where the optimiser is an argument or is made of them inside of a staged function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from dlvm.base.errors import CallError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import is_sequence, user_origin
from dlvm.dsl.trace.trees import labels, unflatten

from .leaves import aligned, cast, element_type, is_float, not_a_float, quiet, same, wide


class Transformation(Protocol):
    """An optimiser, or a part of one: ``init`` and ``update``."""

    def init(self, params: Any) -> Any:
        """The state before the first step, a tree of arrays."""
        ...

    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """The updates for ``apply``, in place of the gradients that are given, and the new state.

        ``extra`` are arguments that some optimisers need, such as the ``value_fn=`` of ``lbfgs``.
        """
        ...


class Stateless:
    """A part that remembers nothing; its state is an empty tuple."""

    @computing
    def init(self, params: Any) -> Any:
        """Nothing."""
        return ()


@dataclass(frozen=True)
class Chain:
    """Transformations one after another; the state is the tuple of theirs."""

    parts: tuple[Transformation, ...]

    @computing
    def init(self, params: Any) -> Any:
        """The state of each part."""
        return tuple(part.init(params) for part in self.parts)

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Each part is given the updates of the one before it."""
        check_state("update", state, len(self.parts))
        after: list[Any] = []
        for part, before in zip(self.parts, state, strict=True):
            updates, new = part.update(updates, before, params, **extra)
            after.append(new)
        return updates, tuple(after)


def check_state(what: str, state: Any, parts: int) -> None:
    """The state of a chain is the tuple that its ``init`` made."""
    if not is_sequence(state) or len(state) != parts:
        raise CallError(
            f"{what}: the state is a tuple of {parts} states, one for each part, found "
            f"{type(state).__name__}",
            origin=user_origin(),
            remedy="call update(grads, state, params), with the state that init(params) made",
        )


@facing_users
def chain(*transformations: Transformation) -> Transformation:
    """One optimiser of several parts: each changes the updates that the one before it gives.

    ``chain(clip_by_global_norm(1.0), adam(1e-3))`` clips gradients and then takes a step of Adam.
    """
    for part in transformations:
        check_transformation("chain", part)
    return Chain(transformations)


def check_transformation(what: str, part: Any) -> None:
    """Refuses what has no ``init`` and ``update``."""
    if isinstance(part, type) or not (hasattr(part, "init") and hasattr(part, "update")):
        raise CallError(
            f"{what}: a part is an optimiser with init and update, found {type(part).__name__}",
            origin=user_origin(),
            remedy="pass what a function such as adam returns, and not the function",
        )


@computing
def apply(params: Any, updates: Any) -> Any:
    """``params + updates``, each leaf of the type it has; leaves without an update stay.

    Parameters of 16 bits are added to in f32 and rounded once.
    """
    columns, spec = aligned("apply", updates=updates, parameters=params)
    moved: list[Any] = []
    for i, (u, p) in enumerate(zip(*columns, strict=True)):
        if u is not None and not is_float(p):
            raise not_a_float("apply", labels(spec, "params")[i], p)
        moved.append(p if u is None else _moved(p, u))
    return unflatten(spec, moved)


def _moved(p: Any, u: Any) -> Any:
    start = wide(p)
    with quiet():
        return same(cast(start + cast(u, element_type(start)), element_type(p)))
