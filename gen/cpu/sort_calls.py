"""Rows in a kernel that are sorted or searched: calls of generic functions, at an offset."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from dlvm.gen.loops.statements import Search, Sort
from dlvm.gen.text.lanes import Val, stored_type

from .merge_sort import searched, sort_function

if TYPE_CHECKING:
    from .kernels import Emitter


def sort(e: Emitter, s: Sort) -> None:
    """Call the function that sorts rows of this type."""
    name = sort_function(e.w.text, s.values.dtype, s.descending, s.order is not None)
    condition = e.offsets.holds(s.where)
    with e.w.when(condition) if condition is not None else nullcontext():
        start = e.offsets.known(s.offset)
        at = {b: f"ptr {e.access.address(b, start)}" for b in s.touched}
        order = (s.order, *s.spare[1:]) if s.order is not None else (s.values, s.spare[0])
        rows = (at[s.values], at[order[0]], at[s.spare[0]], at[order[1]])
        count = e.offsets.first(e.offsets.known(s.count))
        e.w.do(f"call void @{name}({', '.join(rows)}, i64 {count})")


def search(e: Emitter, s: Search) -> Val:
    """Halve where the search stands, which is in no vector loop; outside ``where`` nothing."""
    start, key = e.offsets.known(s.offset), e.access.stored(e.scalars[s.key])
    element, base = stored_type(s.memory.dtype), e.access.address(s.memory, start)

    def load(i: str) -> str:
        at = e.w.step(element, base, i)
        return e.w.load(element, at)

    count = e.offsets.first(e.offsets.known(s.count))
    if (condition := e.offsets.holds(s.where)) is not None:
        index = e.w.text.index
        count = e.w.value(f"select i1 {condition}, {index} {count}, {index} 0")
    return searched(e.w, s.memory.dtype, load, count, key, s.right)
