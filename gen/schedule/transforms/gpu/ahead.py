"""The transform ``ahead``: what later turns of a loop read is read before it is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.rewriting import Rewriting, renamed
from dlvm.gen.loops.simplify import used
from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    Scalar,
    Store,
    accesses,
    statements,
)
from dlvm.gen.schedule.transform import Transform, register
from dlvm.gen.schedule.transforms.unroll import MOST_STATEMENTS
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import symbol


@register
@dataclass(frozen=True, slots=True)
class Ahead(Transform):
    """Each turn of the loop ``.u`` does ``factor`` turns, on what was read by the one before.

    So as many elements of each buffer are on their way at any time. The last of these turns and
    the loop ``.r`` of what is left follow.
    """

    word: ClassVar[str] = "ahead"
    factor: int

    def rewritten(self, loop: Loop) -> Body:
        """The loop in pieces; its turns must read buffers and write arrays of their own."""
        n, step = loop.extent, self.factor
        if loop.kind != "serial" or not isinstance(n, int) or not 1 <= step <= n:
            raise self.refused(f"a known number of turns in order, {step} or more, is needed")
        loads = loads_of(loop.body)
        if not loads:
            raise self.refused("its turns do more than fold what they read")
        if step * len(list(statements(loop.body))) > MOST_STATEMENTS:
            raise self.refused(f"more than {MOST_STATEMENTS} statements")
        arrays = {
            x: Local(f"ahead.{loop.var.removeprefix('%')}.{i}", x.dtype, step)
            for i, x in enumerate(loads)
        }
        last = n // step - 1
        first = _joined(self._reads(loop, arrays, t, t, f".{t}.f") for t in range(step))
        end = _joined(self._folds(loop, arrays, step * last + t, t, f".{t}.l") for t in range(step))
        turns = replace(loop, var=f"{loop.var}.u", extent=last, body=self._turns(loop, arrays))
        rest = self._rest(loop, n - n % step, n % step) if n % step else ()
        return (*arrays.values(), *first, *((turns,) if last else ()), *end, *rest)

    def _turns(self, loop: Loop, arrays: dict[Load, Local]) -> Body:
        """As many turns as the factor, each on what was read before, and then reading on."""
        found: list[Body] = []
        for t in range(self.factor):
            at = self.factor * symbol(f"{loop.var}.u") + t
            found.append(self._folds(loop, arrays, at, t, f".{t}"))
            found.append(self._reads(loop, arrays, at + self.factor, t, f".{t}.n"))
        return _joined(found)

    def _reads(
        self, loop: Loop, arrays: dict[Load, Local], at: Dim, place: int, suffix: str
    ) -> Body:
        """What a turn reads, into a place of the arrays."""
        defines = [s for s in loop.body if isinstance(s, Define)]
        body: list[Let | Store] = []
        for x, array in arrays.items():
            body += (Let(x), Store(array, place, x))
        return Rewriting({loop.var: at}, suffix=suffix).body(used((*defines, *body)))

    def _folds(
        self, loop: Loop, arrays: dict[Load, Local], at: Dim, place: int, suffix: str
    ) -> Body:
        """A turn that finds in the arrays what it reads."""
        names: dict[Scalar, Scalar] = {x: Load(x.dtype, a, place) for x, a in arrays.items()}
        body = used(renamed(loop.body, names))
        return Rewriting({loop.var: at}, suffix=suffix).body(body)

    def _rest(self, loop: Loop, first: int, count: int) -> Body:
        name = f"{loop.var}.r"
        copy = Rewriting({loop.var: first + symbol(name)}, suffix=".r").body(loop.body)
        return (replace(loop, var=name, extent=count, body=copy),)


def loads_of(body: Body, shared: Collection[str] = ()) -> list[Load]:
    """The loads of turns that fold what they read into arrays; none for others.

    They are from buffers and from arrays that are ``shared`` and that the turns do not write.
    """
    if not all(isinstance(s, Let | Store | Define) for s in body):
        return []
    touched = list(accesses(body))
    written = {x.memory.name for x in touched if isinstance(x, Store)}
    given = {*shared} - written
    loads = [
        x
        for x in touched
        if isinstance(x, Load) and (isinstance(x.memory, Buffer) or x.memory.name in given)
    ]
    kept = [x for x in touched if isinstance(x, Store)]
    folds = kept and all(isinstance(x.memory, Local) for x in kept)
    return loads if folds and not any(x.where for x in loads) else []


def _joined(bodies: Iterable[Body]) -> Body:
    return tuple(s for body in bodies for s in body)
