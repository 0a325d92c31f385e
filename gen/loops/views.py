"""Parts of memory with a size and a step along each axis, and whether an element lies outside.

Slices, blocks, columns and transposes are views: an element lies at ``start`` plus its index times
the step, axis by axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dlvm.ir import Dim
from dlvm.ir.sizes.dims import canonical, divide_exactly, substitute, symbol, symbols, terms_of

from .index import step_of
from .proofs import SEARCH_STEPS, Facts
from .statements import Memory, Operand

WHOLES = 64
"""Terms of a quotient, at most."""
EASY = 40
"""Steps of a search for a proof that are enough for most claims that hold."""


class Axis(NamedTuple):
    """How many elements lie along an axis, and how far each is from the one before."""

    size: Dim
    step: Dim


@dataclass(frozen=True, slots=True)
class View:
    """Some elements of memory."""

    memory: Memory
    start: Dim
    axes: tuple[Axis, ...]


def view_of(memory: Memory, offset: Dim, sizes: Mapping[str, Dim]) -> View | None:
    """The elements at an offset for all values of some variables, if they make a view."""
    steps = [step_of(offset, name) for name in sizes]
    start = substitute(offset, dict.fromkeys(sizes, 0))
    axes: list[Axis] = []
    whole = start
    for (name, size), step in zip(sizes.items(), steps, strict=True):
        if step is None or not set(sizes).isdisjoint(symbols(step)):
            return None
        axes.append(Axis(size, step))
        whole = whole + step * symbol(name)
    return View(memory, start, tuple(axes)) if whole == offset else None


def matrix(x: Operand, rows: Dim, cols: Dim) -> View:
    """The elements of an operand of a product."""
    far, near = (cols, rows) if x.transposed else (rows, cols)
    return View(x.buffer, x.offset, (Axis(far, x.step), Axis(near, 1)))


def outside(view: View, offset: Dim, facts: Facts) -> bool:
    """Whether an element lies in no place of a view.

    For some step memory is seen as rows of that many elements, in which the view is a rectangle:
    then the element's row or column must be another. A step of one leaves the rows alone.
    """
    return any(
        _outside_in_rows(view, offset, step, facts, effort, divided)
        for effort in (EASY, SEARCH_STEPS)
        for step in _pitches(view)
        for divided in ((_divided,) if len(terms_of(step)) < 2 else (_divided, _divided_as_a_whole))
    )


def _pitches(view: View) -> dict[Dim, None]:
    return dict.fromkeys((*(axis.step for axis in view.axes), 1))


def _outside_in_rows(
    view: View, offset: Dim, step: Dim, facts: Facts, effort: int, divided: Divided
) -> bool:
    rectangle = _rectangle(view, step, facts, divided)
    row, column = divided(offset, step)
    if rectangle is None or not _in_row(column, column, step, facts):
        return False
    sides = zip(rectangle, (row, column), strict=True)
    return any(
        facts.nonnegative(at - last - 1, effort) or facts.nonnegative(first - at - 1, effort)
        for (first, last), at in sides
    )


def apart_in_rows(a: Dim, b: Dim, step: Dim, facts: Facts) -> bool:
    """Whether two elements lie in other rows of so many elements, or in other columns."""
    (row, column), (other, beside) = _divided(a, step), _divided(b, step)
    return (
        _in_row(column, column, step, facts)
        and _in_row(beside, beside, step, facts)
        and any(
            facts.nonnegative(y - x - 1) or facts.nonnegative(x - y - 1)
            for x, y in ((row, other), (column, beside))
        )
    )


def _in_row(first: Dim, last: Dim, step: Dim, facts: Facts) -> bool:
    return facts.nonnegative(first) and facts.nonnegative(step - 1 - last)


Side = tuple[Dim, Dim]
"""The first and the last place."""
Divided = Callable[[Dim, Dim], tuple[Dim, Dim]]
"""Whole steps in a size, and what is left."""


def _rectangle(view: View, step: Dim, facts: Facts, divided: Divided) -> tuple[Side, Side] | None:
    """Which rows of ``step`` elements, and which places in each, a view lies in."""
    row, column = divided(view.start, step)
    down: Side = (row, row)
    across: Side = (column, column)
    for size, each in view.axes:
        rows, rest = divided(each, step)
        if rest == 0:
            down = _wider(down, size, rows, facts)
        elif rows == 0:
            across = _wider(across, size, rest, facts)
        else:
            return None
    return (down, across) if _in_row(*across, step, facts) else None


def _wider(side: Side, size: Dim, step: Dim, facts: Facts) -> Side:
    """With so many more places, one ``step`` after the other."""
    far = (size - 1) * step
    return (side[0], side[1] + far) if facts.nonnegative(step) else (side[0] + far, side[1])


def _divided(d: Dim, step: Dim) -> tuple[Dim, Dim]:
    """Whole steps and what is left, for which ``d == whole * step + left``, term by term."""
    whole: Dim = 0
    if isinstance(step, int):
        whole = canonical({mono: k // step for mono, k in terms_of(d)})
    elif (exactly := divide_exactly(d, step)) is not None:
        whole = exactly
    else:
        parts = (divide_exactly(canonical({mono: k}), step) for mono, k in terms_of(d))
        for part in parts:
            whole = whole + (0 if part is None else part)
    return whole, d - whole * step


def _divided_as_a_whole(d: Dim, step: Dim) -> tuple[Dim, Dim]:
    """The same by the largest term of a step of several, such as n of ``n+1``."""
    first = max(
        terms_of(step), key=lambda term: (sum(power for _, power in term[0]), term[0] != ())
    )
    leading = canonical({first[0]: first[1]})
    whole: Dim = 0
    for _ in range(WHOLES):
        parts = (divide_exactly(canonical({mono: k}), leading) for mono, k in terms_of(d))
        part = next((p for p in parts if p is not None), None)
        if part is None:
            break
        whole, d = whole + part, d - part * step
    return whole, d
