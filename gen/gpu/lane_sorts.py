"""A row that one lane sorts, in loops that languages without pointers have: a stable merge sort.

Runs of one element are merged in pairs, then those of two, and so on. What is merged is written to
spare memory, and back. It knows nothing of which rows one lane sorts: ``gen/lower`` decides that.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from dlvm.gen.cpu.merge_sort import before
from dlvm.gen.loops.statements import Buffer, Sort
from dlvm.gen.text.lanes import stored_type
from dlvm.gen.text.module import Carry

if TYPE_CHECKING:
    from .nvptx import GpuEmitter


def sort(e: GpuEmitter, s: Sort) -> None:
    """Sorts the row, where it is to be sorted."""
    condition = e.offsets.holds(s.where)
    with e.w.when(condition) if condition is not None else nullcontext():
        _Row(e, s).sort()


class _Row:
    def __init__(self, e: GpuEmitter, s: Sort) -> None:
        self.w, self.type, self.s = e.w, e.w.text.index, s
        start = e.offsets.known(s.offset)
        self.at = {b: e.access.address(b, start) for b in s.touched}
        self.count = e.offsets.first(e.offsets.known(s.count))
        self.row: tuple[Buffer, ...] = (s.values,) if s.order is None else (s.values, s.order)

    def _do(self, op: str, x: str, y: str) -> str:
        return self.w.value(f"{op} {self.type} {x}, {y}")

    def _is(self, relation: str, x: str, y: str) -> str:
        return self._do(f"icmp {relation}", x, y)

    def _least(self, x: str, y: str) -> str:
        return self.w.value(f"select i1 {self._is('slt', x, y)}, {self.type} {x}, {self.type} {y}")

    def _load(self, buffer: Buffer, i: str) -> str:
        element = stored_type(buffer.dtype)
        return self.w.load(element, self.w.step(element, self.at[buffer], i))

    def _move(self, to: Sequence[Buffer], k: str, source: Sequence[Buffer], i: str) -> None:
        """Elements i of one row, and of its order, as elements k of another."""
        for b, a in zip(to, source, strict=True):
            element = stored_type(b.dtype)
            self.w.store(element, self._load(a, i), self.w.step(element, self.at[b], k))

    def sort(self) -> None:
        """Merges runs of 1, 2, 4 and more elements, until there is one."""

        def double(width: str) -> str:
            self._level(width)
            return self._do("add", width, width)

        self.w.as_long_as(self.type, "1", lambda n: self._is("slt", n, self.count), double)

    def _level(self, width: str) -> None:
        """Each pair of neighbouring runs of a width as one run."""
        w, spare = self.w, self.s.spare
        with w.loop("0", self.count, self._do("add", width, width)) as turn:
            low = turn.index
            middle = self._least(self._do("add", low, width), self.count)
            high = self._least(self._do("add", middle, width), self.count)
            left, right = Carry(self.type, low), Carry(self.type, middle)
            with w.loop(low, high, "1", [left, right]) as place:
                later = self._takes_later(left.now, middle, right.now, high)
                source = w.value(
                    f"select i1 {later}, {self.type} {right.now}, {self.type} {left.now}"
                )
                self._move(spare, place.index, self.row, source)
                step = w.value(f"zext i1 {later} to {self.type}")
                right.next = self._do("add", right.now, step)
                left.next = self._do("add", left.now, self._do("xor", step, "1"))
        with w.loop("0", self.count) as turn:
            self._move(self.row, turn.index, spare, turn.index)

    def _takes_later(self, left: str, middle: str, right: str, high: str) -> str:
        """Whether the next element comes from the later run; of equal ones the earlier is first."""
        w, s = self.w, self.s
        rest, more = self._is("slt", left, middle), self._is("slt", right, high)

        def comes_before() -> str:
            x, y = self._load(s.values, right), self._load(s.values, left)
            return before(w, s.values.dtype, x, y, s.descending)

        both = w.value(f"and i1 {rest}, {more}")
        return w.maybe(both, "i1", w.value(f"xor i1 {rest}, true"), comes_before)
