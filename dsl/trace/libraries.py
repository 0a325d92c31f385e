"""What functions of other array libraries are told that get a staged value, by their own protocols.

JAX asks a value that it does not know for ``__jax_array__``, PyTorch for ``__torch_function__``.
"""

from __future__ import annotations

import sys
from typing import Any

from dlvm.base.errors import StagedTypeError
from dlvm.dsl.words.names import lookup
from dlvm.dsl.words.origins import WRAPPERS, calls_in
from dlvm.dsl.words.remedies import CALLED

from .scopes import user_origin
from .suggestions import instead

OPERATORS = ("deferring_binary_op", "_operator_")
"""How functions of JAX begin that are operators, which ask and then leave the value to us."""


class JaxArray:
    """``x.__jax_array__``: there is none for operators of JAX; functions of JAX end with an error.

    Some of its functions ask only whether there is one.
    """

    def __get__(self, x: Any, owner: type[Any]) -> Any:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        asks = str(frame.f_globals.get("__name__", "")).partition(".")[0] == "jax"
        if x is None or not asks or frame.f_code.co_name.startswith(OPERATORS):
            raise AttributeError("__jax_array__")
        called = [name.rpartition(".")[2] for name in calls_in("jax")]
        raise _unstaged(x, "jax", next((n for n in called if n not in WRAPPERS), ""))


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
