"""A staged function with the arguments of one call, for tools that inspect it and do not call it.

It holds the traced module, an array for each of its parameters (captured ones last), the expression
by which the user reaches each array, and the argument to which each array belongs.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def module(self) -> Module:
        """The traced module."""
        return self.program.module

    @property
    def results(self) -> list[str]:
        """What a user writes to reach each result."""
        return labels(self.program.tree, "result")
