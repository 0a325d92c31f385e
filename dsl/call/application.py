"""A staged function with the arguments of one call, for tools that inspect it and do not call it.

It holds the traced module, an array for each of its parameters (captured ones last), the expression
by which the user reaches each array, and the argument to which each array belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.dsl.trace.specs import Spec, as_array
from dlvm.dsl.trace.tracing import Program
from dlvm.dsl.trace.trees import labels
from dlvm.ir import Array, Module


@dataclass(frozen=True)
class Application:
    """``owners`` are the arguments that parameters belong to, empty for captured arrays."""

    program: Program
    arrays: tuple[Array, ...]
    labels: tuple[str, ...]
    owners: tuple[str, ...]
    blank: frozenset[int] = frozenset()
    """Which arrays only stand for specs."""

    @property
    def module(self) -> Module:
        """The traced module."""
        return self.program.module

    @property
    def results(self) -> list[str]:
        """What a user writes to reach each result."""
        return labels(self.program.tree, "result")


def application(
    program: Program,
    leaves: Sequence[Any],
    names: Sequence[str],
    owners: Sequence[str],
    specs: bool = False,
) -> Application:
    """A program with its arrays: those of the call, which may be specs, and captured ones."""
    captured = [*program.trace.arrays.values()]
    types = [p.type for p in program.module.main.params]
    blank = frozenset(i for i, x in enumerate(leaves) if specs and isinstance(x, Spec))
    arrays = [
        np.empty(0) if i in blank else as_array(x, t, n)
        for i, (x, t, n) in enumerate(zip(leaves, types, names, strict=False))
    ]
    return Application(
        program,
        (*arrays, *(c.array for c in captured)),
        (*names, *(c.path for c in captured)),
        (*owners, *("" for _ in captured)),
        blank,
    )
