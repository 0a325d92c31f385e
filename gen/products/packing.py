"""How the operands of a product are copied before they are used many times.

What lies along far strides, or in another type than that of the sum, is copied piece by piece
into small panels: rows in strips as wide as the widest micro kernel, or columns in such strips,
by transposing squares in registers. Where strips lie beside one another, they are whole rows.
Strips that are narrower than vectors are put together in registers, row after row.
"""

from __future__ import annotations

from math import gcd

from dlvm.gen.text.module import Carry, FunctionWriter, Text
from dlvm.ir import DType

from .micro_kernel import Vectors

AHEAD = 4
"""Rows that are asked for before their turn comes."""
PANEL = "ptr noalias %from, i64 %step, i64 %rows, i64 %cols, ptr noalias %to, i64 %near, i64 %far"


def copy_function(text: Text, stored: DType, lanes: int, strip: int, columns: bool) -> str:
    """The name of ``void @NAME(PANEL)`` that copies rows or columns."""
    name = f"copy.{'columns' if columns else 'rows'}.{strip}"
    if name not in text.functions:
        rows = copy_narrow if strip % lanes else copy_rows
        (copy_columns if columns else rows)(text, name, stored, lanes, strip)
    return name


def copy_rows(text: Text, name: str, stored: DType, lanes: int, strip: int) -> None:
    """``to[c // strip * far + r * near + c % strip] = from[r * step + c]``, padded with zeros."""
    w = FunctionWriter(text)
    v = Vectors(w, stored, lanes)
    whole = w.value(f"mul i64 {w.value(f'udiv i64 %cols, {strip}')}, {strip}")
    distance = w.value(f"mul i64 %step, {AHEAD}")
    with w.loop("0", "%rows") as r:
        source = v.at("%from", w.value(f"mul i64 {r.index}, %step"), stored)
        later = v.at(source, distance, stored)
        to = Carry("ptr", v.at("%to", w.value(f"mul i64 {r.index}, %near")))
        with w.loop("0", whole, strip, [to]) as c:
            ahead = v.at(later, c.index, stored)
            _strip(v, v.at(source, c.index, stored), ahead, to, strip, None)
        rest = Carry("ptr", to.now)
        with w.loop(whole, "%cols", strip, [rest]) as c:
            left = w.value(f"sub i64 %cols, {c.index}")
            _strip(v, v.at(source, c.index, stored), None, rest, strip, left)
    text.functions[name] = w.function(f"internal void @{name}({PANEL})")


def copy_narrow(text: Text, name: str, stored: DType, lanes: int, strip: int) -> None:
    """The same where a strip's rows lie beside one another and don't fill vectors.

    As many rows as fill some are copied together, strip by strip, and the last ones by
    themselves: what they write after a row is of the next one, or past the last one.
    """
    w = FunctionWriter(text)
    v = Vectors(w, stored, lanes)
    group = lanes // gcd(lanes, strip)
    rounded = -(-strip // lanes) * lanes
    room = w.call(
        "i64", "llvm.smax.i64", ("i64", w.value(f"sub i64 %cols, {rounded - strip}")), ("i64", "0")
    )
    whole = w.value(f"mul i64 {w.value(f'udiv i64 {room}, {strip}')}, {strip}")
    groups = w.value(f"and i64 %rows, {-group}")
    for start, stop, count in (("0", groups, group), (groups, "%rows", 1)):
        with w.loop(start, stop, count) as r:
            rows = [
                v.at(
                    "%from", w.value(f"mul i64 {w.value(f'add i64 {r.index}, {i}')}, %step"), stored
                )
                for i in range(count)
            ]
            to = Carry("ptr", v.at("%to", w.value(f"mul i64 {r.index}, %near")))
            with w.loop("0", whole, strip, [to]) as c:
                _together(v, rows, c.index, to, strip, None)
            rest = Carry("ptr", to.now)
            with w.loop(whole, "%cols", strip, [rest]) as c:
                left = w.value(f"sub i64 %cols, {c.index}")
                _together(v, rows, c.index, rest, strip, left)
    text.functions[name] = w.function(f"internal void @{name}({PANEL})")


def _together(v: Vectors, rows: list[str], c: str, to: Carry, strip: int, left: str | None) -> None:
    """Pieces of rows, one after the other without a gap."""
    starts = range(0, strip, v.lanes)
    masks = [None if left is None else v.mask(i, left) for i in starts]
    pieces = [
        [
            v.fetch(v.at(v.at(row, c, v.stored), i, v.stored), m)
            for i, m in zip(starts, masks, strict=True)
        ]
        for row in rows
    ]
    size = len(rows) * strip
    for at in range(0, size, v.lanes):
        found = ""
        inside = [divmod(at + i, strip) for i in range(v.lanes) if at + i < size]
        for row, piece in dict.fromkeys((r, i // v.lanes) for r, i in inside):
            picks = [i % v.lanes if (r, i // v.lanes) == (row, piece) else None for r, i in inside]
            found = _merged(v, found, pieces[row][piece], picks)
        v.store(found, v.at(to.now, at))
    to.next = v.at(to.now, "%far")


def _merged(v: Vectors, before: str, x: str, picks: list[int | None]) -> str:
    """A vector with some lanes of another."""
    if not before:
        before = "poison"
    lanes = [
        f"i32 {i if pick is None else v.lanes + pick}"
        for i, pick in enumerate([*picks, *[None] * (v.lanes - len(picks))])
    ]
    mask = f"<{v.lanes} x i32> <{', '.join(lanes)}>"
    return v.w.value(f"shufflevector {v.type} {before}, {v.type} {x}, {mask}")


def _strip(
    v: Vectors, start: str, later: str | None, to: Carry, strip: int, left: str | None
) -> None:
    """A piece of a row; ``left`` is how many elements it has if it is not whole."""
    for i in range(0, strip, v.lanes):
        if later is not None:
            v.prefetch(v.at(later, i, v.stored))
        mask = None if left is None else v.mask(i, left)
        v.store(v.fetch(v.at(start, i, v.stored), mask), v.at(to.now, i))
    to.next = v.at(to.now, "%far")


def copy_columns(text: Text, name: str, stored: DType, lanes: int, strip: int) -> None:
    """``to[c // strip * far + r * near + c % strip] = from[c * step + r]``, a square at a time.

    Columns past the end are the last one once more. The columns after these are asked for, as
    they come next, or in the next call.
    """
    w = FunctionWriter(text)
    v = Vectors(w, stored, lanes)
    last = w.value("sub i64 %cols, 1")
    whole = w.value(f"and i64 %rows, {-lanes}")
    left = w.value(f"sub i64 %rows, {whole}")
    with w.loop("0", "%cols", lanes) as g:
        piece = w.value(f"sdiv i64 {g.index}, {strip}")
        inside = w.value(f"sub i64 {g.index}, {w.value(f'mul i64 {piece}, {strip}')}")
        to = v.at(v.at("%to", w.value(f"mul i64 {piece}, %far")), inside)
        columns: list[str] = []
        for i in range(lanes):
            c = w.call(
                "i64", "llvm.smin.i64", ("i64", w.value(f"add i64 {g.index}, {i}")), ("i64", last)
            )
            columns.append(v.at("%from", w.value(f"mul i64 {c}, %step"), stored))
        later = [v.at(c, w.value(f"mul i64 %step, {lanes}"), stored) for c in columns]
        with w.loop("0", whole, lanes) as r:
            for column in later:
                v.prefetch(v.at(column, r.index, stored))
            _square(v, columns, r.index, to, None)
        with w.when(w.value(f"icmp sgt i64 {left}, 0")):
            _square(v, columns, whole, to, left)
    text.functions[name] = w.function(f"internal void @{name}({PANEL})")


def _square(v: Vectors, columns: list[str], r: str, to: str, left: str | None) -> None:
    """As many rows as columns; of the last square those that are there, and zeros."""
    mask = None if left is None else v.mask(0, left)
    rows = [v.fetch(v.at(c, r, v.stored), mask) for c in columns]
    for q, row in enumerate(transposed(v, rows)):
        line = v.w.value(f"mul i64 {v.w.value(f'add i64 {r}, {q}')}, %near")
        v.store(row, v.at(to, line))


def transposed(v: Vectors, rows: list[str]) -> list[str]:
    """A square of vectors, transposed by exchanging neighbours, pairs, and so on."""
    distance = 1
    while distance < v.lanes:
        out = list(rows)
        for i in range(v.lanes):
            if not i & distance:
                j = i + distance
                out[i] = _shuffle(v, rows[i], rows[j], distance, 0)
                out[j] = _shuffle(v, rows[i], rows[j], distance, distance)
        rows, distance = out, distance * 2
    return rows


def _shuffle(v: Vectors, x: str, y: str, distance: int, start: int) -> str:
    lanes = v.lanes
    picks = [(at & ~distance) + start + (lanes if at & distance else 0) for at in range(lanes)]
    mask = f"<{lanes} x i32> <{', '.join(f'i32 {p}' for p in picks)}>"
    return v.w.value(f"shufflevector {v.type} {x}, {v.type} {y}, {mask}")
