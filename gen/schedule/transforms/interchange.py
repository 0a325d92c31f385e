"""The transform ``interchange``: a loop and the one right inside it change places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.statements import (
    Bind,
    Body,
    Check,
    Define,
    Let,
    Loop,
    Memory,
    Store,
    accesses,
    statements,
)
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import at_least, canonical, divide_exactly, symbols, terms_of


@register
@dataclass(frozen=True, slots=True)
class Interchange(Transform):
    """The loop inside becomes the outer one.

    Between the two may stand what computes scalars, which each turn then does. The outer loop may
    be serial where each turn of the inner one has elements of its own of all that is written.
    """

    word: ClassVar[str] = "interchange"
    alone: ClassVar[bool] = True

    def rewritten(self, loop: Loop) -> Body:
        """The two loops in the other order; the turns of both must be independent."""
        *between, inner = loop.body
        plain = Let | Define | Bind | Check
        if not (isinstance(inner, Loop) and all(isinstance(s, plain) for s in between)):
            raise self.refused("it holds more than one loop and scalars before it")
        if any(isinstance(s, Check) for s in between) and not at_least(inner.extent, 1):
            raise self.refused(f"it checks what {inner.var} may never come to")
        kinds = {loop.kind, inner.kind} <= {"parallel", "serial"} and inner.kind == "parallel"
        if not kinds or loop.grain != 0 or (loop.kind == "serial" and not owns(inner)):
            raise self.refused(f"the turns of the loops are {loop.kind} and {inner.kind}")
        names = {loop.var, *(s.name for s in between if isinstance(s, Define | Bind))}
        if names & set(symbols(inner.extent)):
            raise self.refused(f"how long {inner.var} is depends on the turn of {loop.var}")
        return (replace(inner, body=(replace(loop, body=(*between, *inner.body)),)),)


def owns(loop: Loop) -> bool:
    """Whether each turn of a loop touches elements of its own of all that the loop writes.

    Seen as rows of as many pieces as the loop has turns, a turn keeps to its piece of each row.
    """
    inside = {s.var: s.extent for s in statements(loop.body) if isinstance(s, Loop)}
    touched = list(accesses(loop.body))
    written: dict[Memory, set[Dim | None]] = {
        x.memory: set() for x in touched if isinstance(x, Store)
    }
    for x in touched:
        if x.memory in written:
            step = step_of(x.offset, loop.var)
            written[x.memory].add(step if _keeps(x.offset, step, loop, inside) else None)
    return all(len(steps) == 1 and None not in steps for steps in written.values())


def _keeps(offset: Dim, step: Dim | None, loop: Loop, inside: dict[str, Dim]) -> bool:
    """Whether an element lies in the piece of its turn: pieces are ``step`` elements long."""
    if step is None or not at_least(step, 1):
        return False
    row, far = step * loop.extent, 0
    for mono, k in terms_of(offset):
        term = canonical({mono: k})
        if loop.var in symbols(term) or divide_exactly(term, row) is not None:
            continue
        name = found[0] if len(found := symbols(term)) == 1 else ""
        each, size = (step_of(term, name), inside.get(name)) if found else (term, 2)
        if not isinstance(size, int) or not isinstance(each, int) or each < 0:
            return False
        far += each * (size - 1)
    return at_least(step, far + 1)
