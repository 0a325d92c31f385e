"""Running scans: states carried along an axis, one element after the other.

A ``Carried`` is one scan inside of a loop along its axis; its state lies in arrays of one
element, which become registers. Loops around that loop are lines beside one another: vectors on
a CPU where they lie so in memory, lanes on a GPU. The order along the axis is part of the
meaning, so no schedule changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.index import guarded
from dlvm.gen.loops.statements import Scalar
from dlvm.ir import Dim, Function
from dlvm.ops import Running

if TYPE_CHECKING:
    from .elements import Pull


class Carried:
    """One running scan while its loop is open."""

    def __init__(self, pull: Pull, op: Running) -> None:
        self.pull, self.nest, self.words, self.op = pull, pull.nest, pull.words, op
        self.state = [self.nest.local("state", t, 1) for t in op.states()]
        self._keep(op.identity(self.words))

    def _keep(self, state: Sequence[Scalar]) -> None:
        for local, x in zip(self.state, state, strict=True):
            self.nest.store(local, 0, x)

    def turn(self, at: At) -> Scalar:
        """Take in the element at an index; the result there."""
        before = tuple(self.nest.load(local, 0) for local in self.state)
        xs = [self.words.wide(self.pull.element(x, at)) for x in self.op.operands]
        position = self.nest.size(at.index[self.op.axis])
        after = self.op.step(self.words, position, before, *xs)
        self._keep(after)
        found = self.op.project(self.words, before if self.op.exclusive else after)
        return self.words.cast(found, self.op.type.dtype)


def alone(pull: Pull, op: Running, at: At) -> Scalar:
    """One element of a scan where it is needed, from the start: any body has code."""
    nest, words, axis = pull.nest, pull.words, op.axis
    size, place = op.shape[axis], at.index[axis]
    scan = Carried(pull, op)
    found = nest.local("found", op.type.dtype, 1)
    nest.store(found, 0, words.constant(0, op.type.dtype))
    with nest.loop("serial", size, "k") as k:
        i = against(op, size, k)
        index = (*at.index[:axis], i, *at.index[axis + 1 :])
        here, new = guarded((), i - place, place - i), scan.turn(At(index, at.where))
        if here:
            new = words.select(nest.inside(here), new, nest.load(found, 0))
        nest.store(found, 0, new)
    return nest.load(found, 0)


def against(op: Running, size: Dim, turn: Dim) -> Dim:
    """Which element a turn takes in."""
    return size - 1 - turn if op.reverse else turn


def scans(body: Function) -> list[Running]:
    """The running scans of a body whose results have their shape, if they go one way together."""
    found = [op for op in body.ops if isinstance(op, Running)]
    ways = {(op.shape, op.axis, op.reverse) for op in found}
    return found if len(ways) == 1 and all(r.shape == found[0].shape for r in body.results) else []
