"""What functions of other array libraries are told that get a staged value, by their own protocols.

JAX asks a value that it does not know for ``__jax_array__``, PyTorch for ``__torch_function__``.
optax computes by JAX.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from dlvm.base.errors import StagedTypeError, UserError
from dlvm.dsl.words.names import lookup
from dlvm.dsl.words.origins import WRAPPERS, builders_in, calls_in
from dlvm.dsl.words.remedies import CALLED

from .scopes import user_origin
from .suggestions import has_room, instead

OPERATORS = ("deferring_binary_op", "_operator_")
"""How functions of JAX begin that are operators, which ask and then leave the value to us."""

AROUND = ("chain", "with_extra_args_support")
"""Functions of optax that call parts of an optimiser and compute nothing."""
SAME = "optimisers and schedules of dlvm.optim have the names and arguments of optax"


class JaxArray:
    """``x.__jax_array__``: there is none for operators of JAX; functions of JAX end with an error.

    Some of its functions ask only whether there is one.
    """

    def __get__(self, x: Any, owner: type[Any]) -> Any:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if x is None or _home_of(frame) != "jax" or frame.f_code.co_name.startswith(OPERATORS):
            raise AttributeError("__jax_array__")
        if (of_optax := _unstaged_by_optax(x)) is not None:
            raise of_optax
        called = [name.rpartition(".")[2] for name in calls_in("jax")]
        raise _unstaged(x, "jax", next((n for n in called if n not in WRAPPERS), ""))


def _unstaged_by_optax(x: Any) -> StagedTypeError | None:
    """The error where optax called JAX: it names the function of ours in place of optax's."""
    built, origin = builders_in("optax", ("jax", "chex"))
    parts = [name for name in built if name not in AROUND]
    if not parts:
        return None
    ours = next((name for name in parts if has_room("optim", name)), None)
    name = ours or parts[-1]
    return StagedTypeError(
        f"optax's {name} can't be staged: it does not know {x.describe()}",
        origin=origin,
        remedy=f"write dlvm.optim.{ours}; {SAME}" if ours else instead(name) or CALLED,
    )


def wrapped(error: Exception) -> UserError | None:
    """What a staged value said, in the error that NumPy or JAX makes of it.

    NumPy names it as the cause. JAX raises its own where it has caught ours; where the user's code
    has caught it, the user's error counts.
    """
    inner = error.__cause__ or error.__context__
    if not isinstance(inner, UserError):
        return None
    caught = inner.__traceback__
    of_jax = caught is not None and _home_of(caught.tb_frame) == "jax"
    return inner if error.__cause__ is inner or of_jax else None


def _home_of(frame: FrameType) -> str:
    """The package whose code runs in a frame."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def torch_function(
    cls: type[Any], func: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """The error for a function of PyTorch; being a TypeError, it leaves operators to us."""
    x = next((x for x in args if isinstance(x, cls)), None)
    raise _unstaged(x, "torch", getattr(func, "__name__", ""))


def _unstaged(x: Any, library: str, name: str) -> StagedTypeError:
    said = "a staged value" if x is None else x.describe()
    ours = f"write dlvm.{name}" if name and lookup(name) else instead(name)
    return StagedTypeError(
        f"{library}'s {name or 'functions'} can't be staged: it does not know {said}",
        origin=user_origin(),
        remedy=ours or CALLED,
    )
