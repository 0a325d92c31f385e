"""A compiled program as users hold it: called with trees, shown as text, never traced again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm.compile import Road
from dlvm.errors import DonationError, UserError
from dlvm.ir import Array, Module
from dlvm.ir.interpret import bind

from .guards import Found
from .scopes import user_origin
from .specs import Parameters, as_array, given
from .tracing import Input, Program
from .trees import Spec as Tree
from .trees import flatten, shown, unflatten

if TYPE_CHECKING:
    from dlvm.gen.report import Report

log = logging.getLogger("dlvm.compile")


@dataclass(frozen=True, slots=True)
class Shape:
    """How a program is called: the structure of its arguments and what each leaf must be."""

    parameters: Parameters
    tree: Tree
    inputs: tuple[Input, ...]
    static: tuple[Any, ...]


class Compiled:
    """One function compiled for one signature."""

    def __init__(
        self, shape: Shape, program: Program, road: Road, captured: Sequence[Found]
    ) -> None:
        self._shape = shape
        self._program = program
        self._road = road
        self._captured = tuple(captured)
        params = program.module.main.params
        self._types = [p.type for p in params]
        self._labels = [*(i.label for i in shape.inputs), *(c.path for c in captured)]
        self._donated = sorted(program.module.main.donations().values())
        self.copied: set[str] = set()

    @property
    def module(self) -> Module:
        """The traced module."""
        return self._program.module

    @property
    def program(self) -> Program:
        """What the trace gave."""
        return self._program

    @property
    def road(self) -> Road:
        """The machine code and how it was made; also for a trace that gives the same program."""
        return self._road

    @property
    def report(self) -> Report:
        """Time by phase, kernels, operations and memory."""
        return self._road.report

    def text(self, stage: str) -> str:
        """One stop of the road as text."""
        return self._road.text(stage)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run; arguments that this code was not made for are an error."""
        arguments = self._shape.parameters.bind(args, kwargs)
        leaves, tree = flatten(arguments.values)
        if tree != self._shape.tree or arguments.static_key() != self._shape.static:
            raise UserError(
                f"compiled for arguments {shown(self._shape.tree)}, called with {shown(tree)}",
                origin=user_origin(),
                remedy="call the staged function itself, which compiles for each structure",
            )
        names = arguments.leaf_labels(tree)
        return self.run([given(x, name) for x, name in zip(leaves, names, strict=True)])

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run on leaves in parameter order; captured arrays are read now."""
        labels = self._labels
        arrays = [
            as_array(x, t, name) for x, t, name in zip(leaves, self._types, labels, strict=False)
        ]
        arrays += [np.asarray(c.read()) for c in self._captured]
        try:
            bind(self._types, arrays, labels)
            self._ready(arrays)
            results = self._road.executable.run(arrays)
        except UserError as error:
            raise error.located(user_origin()) from None
        return unflatten(self._program.tree, results)

    def _ready(self, arrays: list[Array]) -> None:
        """Donated arguments that can't be given away are copied, or refused."""
        for i in self._donated:
            for j, other in enumerate(arrays):
                if i != j and np.may_share_memory(arrays[i], other):
                    raise DonationError(
                        f"{self._labels[i]} is donated, but it overlaps with {self._labels[j]}",
                        remedy="donate an array of its own, such as a copy",
                    )
        for i in self._donated:
            flags = arrays[i].flags
            if not (flags.owndata and flags.writeable and flags.c_contiguous):
                arrays[i] = self._copy(i, arrays[i])

    def _copy(self, i: int, array: Array) -> Array:
        label = self._labels[i]
        if label not in self.copied:
            self.copied.add(label)
            why = "read-only" if not array.flags.writeable else "a view of other memory"
            log.warning("%s is donated but %s: a copy is overwritten instead", label, why)
        return np.array(array, order="C")
