"""What functions of other array libraries are told that get a staged value, by their own protocols.

JAX asks a value that it does not know for ``__jax_array__``, PyTorch for ``__torch_function__``.
"""

from __future__ import annotations

import sys
from typing import Any

from dlvm.base.errors import StagedTypeError
from dlvm.dsl.words.names import lookup
from dlvm.dsl.words.origins import calls_in
from dlvm.dsl.words.remedies import CALLED

from .scopes import user_origin
from .suggestions import instead

OPERATOR = "deferring_binary_op"
"""The function of JAX that an operator calls, which asks and then leaves the value to us."""


def jax_array(x: Any) -> Any:
    """The value itself for operators of JAX's arrays; an error for all functions of JAX."""
    if sys._getframe(1).f_code.co_name == OPERATOR:  # pyright: ignore[reportPrivateUsage]
        return x
    called = calls_in("jax")
    raise _unstaged(x, "jax", called[0].rpartition(".")[2] if called else "")


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
