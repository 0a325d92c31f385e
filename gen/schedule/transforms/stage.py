"""The transform ``stage``: what is read again and again, or across, is copied to an array first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.rewriting import renamed
from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    Scalar,
    Statement,
    Store,
    accesses,
)
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import product, substitute, symbol
from dlvm.ir.sizes.positions import flatten

MOST_BYTES = 1 << 20
"""Bytes of an array that a step may ask for."""


class Read(NamedTuple):
    """A load of a buffer, its offset in the loops' own indices, and the loops around it."""

    load: Load
    offset: Dim
    loops: tuple[Loop, ...]


@register
@dataclass(frozen=True, slots=True)
class Stage(Transform):
    """Each turn of the loop first copies what the loops inside it read of the buffer ``of``.

    With a ``size`` that is so many elements which lie beside one another; without, it is what one
    place in the nest of these loops reads, as many elements as the nest has turns.
    """

    word: ClassVar[str] = "stage"
    alone: ClassVar[bool] = True
    of: str
    size: int = 0

    def rewritten(self, loop: Loop) -> Body:
        """The loop, with arrays and the loops that fill them before what it does."""
        found = [*reads(loop.body, self.of)]
        if any(isinstance(x, Store) and x.memory.name == self.of for x in accesses(loop.body)):
            raise self.refused(f"{self.of} is written there")
        if not found:
            raise self.refused(f"nothing of {self.of} is read there")
        made = self._row(loop, found) if self.size else self._tiles(loop, found)
        return (self._with(loop, *made),)

    def _row(self, loop: Loop, found: list[Read]) -> tuple[list[Statement], dict[Scalar, Scalar]]:
        """One array for elements beside one another, all of which are read."""
        starts = [_outer(x) for x in found]
        far = [start - starts[0] for start in starts]
        ahead = [n for n in far if isinstance(n, int)]
        if len(ahead) < len(far) or any(x.load.where for x in found):
            raise self.refused("what is read does not lie in one row")
        start = starts[0] + min(ahead)
        buffer = found[0].load.memory
        array = self._array(loop, found[0].load, self.size, "")
        index = f"{loop.var}.{self.of}"
        load = Load(array.dtype, buffer, start + symbol(index))
        copy = (Let(load), Store(array, symbol(index), load))
        names: dict[Scalar, Scalar] = {
            x.load: Load(array.dtype, array, x.load.offset - start) for x in found
        }
        return [array, Loop(index, self.size, "parallel", copy)], names

    def _tiles(self, loop: Loop, found: list[Read]) -> tuple[list[Statement], dict[Scalar, Scalar]]:
        """An array for each place at which the loops inside read, with an axis for each of them."""
        done: list[Statement] = []
        names: dict[Scalar, Scalar] = {}
        arrays: dict[Dim, Local] = {}
        for x in found:
            if not across(x):
                continue
            turns = tuple(map(_most, x.loops))
            sizes = tuple(n for n in turns if n is not None)
            if len(sizes) < len(turns):
                raise self.refused("the loops inside have no known number of turns at most")
            at = flatten([symbol(s.var) for s in x.loops], sizes)
            if x.offset not in arrays:
                count = int(str(product(sizes)))
                array = self._array(loop, x.load, count, str(len(arrays)))
                arrays[x.offset] = array
                load = Load(array.dtype, x.load.memory, x.offset)
                done += (array, *_copied(x, load, array, at, f".{array.name}"))
            names[x.load] = Load(x.load.dtype, arrays[x.offset], at)
        if not names:
            raise self.refused(f"nothing of {self.of} is read across two loops inside")
        return done, names

    def _with(self, loop: Loop, before: list[Statement], names: dict[Scalar, Scalar]) -> Loop:
        """The loop that fills arrays before it reads these."""
        first = next(i for i, s in enumerate(loop.body) if self._begins(s))
        body = renamed(loop.body, names)
        return replace(loop, body=(*body[:first], *before, *body[first:]))

    def _begins(self, s: Statement) -> bool:
        """Whether arrays have to be filled before a statement."""
        x = s.scalar if isinstance(s, Let) else None
        own = isinstance(x, Load) and x.memory.name == self.of
        return own or isinstance(s, Loop | Local | Store)

    def _array(self, loop: Loop, x: Load, size: int, suffix: str) -> Local:
        if not 0 < size * x.dtype.bytes <= MOST_BYTES:
            raise self.refused(f"an array of {size} elements is empty or too large")
        return Local(f"{loop.var[1:]}.{self.of}{suffix}", x.dtype, size)


def _copied(x: Read, load: Load, array: Local, at: Dim, suffix: str) -> Body:
    """Loops that copy a tile, along the lines of the buffer."""
    names = {s.var: symbol(f"{s.var}{suffix}") for s in x.loops}
    offset, to = substitute(load.offset, names), substitute(at, names)
    found = Load(load.dtype, load.memory, offset)
    body: Body = (Let(found), Store(array, to, found))
    for s in sorted(x.loops, key=lambda s: step_of(x.offset, s.var) != 1):
        body = (Loop(f"{s.var}{suffix}", s.extent, "parallel", body, s.limit),)
    return body


def reads(body: Body, name: str) -> Iterator[Read]:
    """What is read of a buffer in the loops inside a body."""
    yield from _reads(body, name, (), {})


def _reads(
    body: Body, name: str, loops: tuple[Loop, ...], defines: dict[str, Dim]
) -> Iterator[Read]:
    for s in body:
        if isinstance(s, Define):
            defines = {**defines, s.name: substitute(s.dim, defines)}
        if isinstance(s, Loop):
            yield from _reads(s.body, name, (*loops, s), defines)
        x = s.scalar if isinstance(s, Let) else None
        if isinstance(x, Load) and isinstance(x.memory, Buffer) and x.memory.name == name:
            yield Read(x, substitute(x.offset, defines), loops)


def across(x: Read) -> bool:
    """Whether a load moves by one element along a loop, but far along the innermost."""
    steps = [step_of(x.offset, s.var) for s in x.loops]
    plain = all(step is not None and step != 0 for step in steps) and not x.load.where
    free = all(s.kind == "parallel" for s in x.loops)
    return len(steps) == 2 and plain and free and steps[0] == 1 and steps[1] not in (1, -1)


def _most(loop: Loop) -> int | None:
    """How many turns a loop has at most, where that is known."""
    return loop.limit or (loop.extent if isinstance(loop.extent, int) else None)


def _outer(x: Read) -> Dim:
    """The part of an offset that the loops inside do not decide."""
    return substitute(x.offset, {s.var: 0 for s in x.loops})
