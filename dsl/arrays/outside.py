"""Movements from outside the package as functions: each class by its name, as its fields say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.elementwise import results
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.words.names import DERIVERS, LISTERS, PUBLIC
from dlvm.ir import OPS
from dlvm.ops import IndexMap

OURS = "dlvm."
"""What the modules of this package begin with: its movements have functions of their own."""


def _outside() -> dict[str, type[IndexMap]]:
    """The movements whose fields are arrays and plain values, by the names that users see."""
    return {
        cls.name: cls
        for cls in OPS.values()
        if issubclass(cls, IndexMap)
        and not cls.__module__.startswith(OURS)
        and {spec.kind for spec in cls.layout} <= {"operand", "attribute"}
    }


def derive(name: str) -> Callable[..., Any] | None:
    """The public function of a movement from outside, if there is one of that name."""
    cls = _outside().get(name)
    if cls is None:
        return None
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    empty = inspect.Parameter.empty
    signature = inspect.Signature(
        [
            inspect.Parameter(s.name, kind, default=empty if s.required else s.default)
            for s in cls.layout
        ]
    )
    operands = {s.name for s in cls.layout if s.kind == "operand"}

    def call(*xs: Any, **named: Any) -> Any:
        given = signature.bind(*xs, **named)
        given.apply_defaults()
        fields = given.arguments.items()
        made = (staged(x).read() if field in operands else x for field, x in fields)
        return results(cls(*made), weak=False)

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = cls.__doc__
    public(name)(call)
    return PUBLIC[name]


DERIVERS.append(derive)
LISTERS.append(lambda: list(_outside()))
