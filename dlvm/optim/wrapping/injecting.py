"""Hyperparameters in the state of an optimiser, where they are read and set while it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, NamedTuple

import numpy as np

from dlvm.base.errors import ArgumentError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.trees import flatten
from dlvm.dsl.words.namespace import xp
from dlvm.ir import DType
from dlvm.optim.combining import Transformation
from dlvm.optim.leaves import cast, count, increased, is_float, number, same, widest
from dlvm.optim.places import Marks


class InjectState(NamedTuple):
    """Steps taken, hyperparameters by name, and the state of the inner optimiser."""

    count: Any
    hyperparams: Any
    inner_state: Any


@dataclass(frozen=True)
class Scheduled:
    """A hyperparameter that is a function of the step."""

    name: str
    schedule: Any


@dataclass(frozen=True)
class Inject:
    """The optimiser that a function makes of the hyperparameters in the state.

    Arrays of the user are copied into the state, which may be donated or written to.
    """

    make: Callable[..., Transformation]
    numbers: dict[str, Any]
    schedules: tuple[Scheduled, ...]
    others: Annotated[Marks, static]

    @computing
    def init(self, params: Any) -> Any:
        """The hyperparameters that were given, and schedules at step 0."""
        kind = widest(flatten(params)[0])
        given = {name: xp.copy(_typed(x, kind)) for name, x in self.numbers.items()}
        hyper = {**given, **self._scheduled(count(), kind)}
        return InjectState(count(), hyper, self._made(hyper).init(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """A step with the hyperparameters of the state, and with schedules at its count."""
        kind = widest(flatten(updates if params is None else params)[0])
        given = {name: _typed(x, kind) for name, x in state.hyperparams.items()}
        hyper = {**given, **self._scheduled(state.count, kind)}
        moved, inner = self._made(hyper).update(updates, state.inner_state, params, **extra)
        return moved, InjectState(increased(state.count), hyper, inner)

    def _made(self, hyper: dict[str, Any]) -> Transformation:
        return self.make(**self.others.tree, **hyper)

    def _scheduled(self, step: Any, kind: DType) -> dict[str, Any]:
        return {x.name: xp.copy(_typed(x.schedule(step), kind)) for x in self.schedules}


def _typed(x: Any, kind: DType) -> Any:
    """A hyperparameter as an array; floats in the type of the parameters."""
    found = xp.asarray(number(x))
    return same(cast(found, kind)) if is_float(found) else found


def _is_number(x: Any) -> bool:
    return not isinstance(x, bool) and isinstance(x, int | float | np.generic | np.ndarray | Tensor)


@facing_users
def inject_hyperparams(
    inner_factory: Callable[..., Transformation], static_args: str | Iterable[str] = ()
) -> Callable[..., Inject]:
    """A function like ``inner_factory`` whose optimiser keeps its hyperparameters in its state.

    ``state.hyperparams["learning_rate"]`` is the rate of the last step, and may be set; a schedule
    is evaluated at each step. Arguments in ``static_args`` stay as they are::

        optimizer = optim.inject_hyperparams(optim.adam)(learning_rate=1e-3)
    """
    names = {static_args} if isinstance(static_args, str) else set(static_args)
    signature = inspect.signature(inner_factory)
    if unknown := names - set(signature.parameters):
        raise ArgumentError(
            f"inject_hyperparams: expected names of parameters of {inner_factory.__name__}, found "
            f"{', '.join(map(repr, sorted(unknown)))}",
            origin=user_origin(),
            remedy=f"its parameters are {', '.join(signature.parameters)}",
        )

    @wraps(inner_factory)
    def made(*args: Any, **kwargs: Any) -> Inject:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {k: v for k, v in bound.arguments.items() if k not in names}
        numbers = {k: v for k, v in given.items() if _is_number(v)}
        schedules = {k: v for k, v in given.items() if callable(v)}
        others = {
            k: v for k, v in bound.arguments.items() if k not in numbers and k not in schedules
        }
        rows = tuple(Scheduled(k, v) for k, v in schedules.items())
        return Inject(inner_factory, numbers, rows, Marks(others))

    return made
