"""What a planner is to those who compile."""

from __future__ import annotations

from typing import Protocol

from dlvm.gen.loops.statements import LoopKernel


class Plans(Protocol):
    """What says how the loops of each kernel run, such as a ``Schedule``."""

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of folds that are asked for at first; ``applied`` may ask for others."""
        ...

    def applied(self, plain: LoopKernel) -> LoopKernel:
        """The loops that run in the place of the plain ones."""
        ...
