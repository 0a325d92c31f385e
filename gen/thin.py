"""Products with a vector: a row times a matrix, read once from end to end.

``thin_along`` reads the rows of a matrix, eight at a time, and adds to sums in memory;
``thin_across`` reads a matrix whose columns lie along, transposing squares in registers. Both sum
each element by the same chain over k as a product of matrices does, so which of them is taken
changes no bit: ``void @NAME(SIGNATURE)`` makes ``sums[c] = sum over k of v[k] * y[k, c]``.
"""

from __future__ import annotations

from dlvm.ir import DType

from .emit import Carry, Text, Writer
from .micro import Vectors
from .packing import transposed

ROWS = 8
SIGNATURE = (
    "ptr noalias %v, i64 %v.step, ptr noalias %y, i64 %y.step, i64 %k, i64 %start, i64 %stop, "
    "ptr noalias %sums"
)


def thin_along(text: Text, name: str, dtype: DType, lanes: int) -> None:
    """Where element (k, c) of y lies at ``k * y.step + c``."""
    w = Writer(text)
    v = Vectors(w, dtype, lanes)
    size = w.value("sub i64 %stop, %start")
    whole = w.value(f"and i64 {size}, {-lanes}")
    rest = w.value(f"sub i64 {size}, {whole}")
    mask = v.mask(0, rest)
    sums, y = v.at("%sums", "%start"), v.at("%y", "%start")
    some = w.value(f"icmp sgt i64 {rest}, 0")
    with w.loop("0", whole, lanes) as c:
        v.store("zeroinitializer", v.at(sums, c.index))
    with w.when(some):
        v.store("zeroinitializer", v.at(sums, whole), mask)
    eights = w.value(f"and i64 %k, {-ROWS}")
    for start, stop, rows in (("0", eights, ROWS), (eights, "%k", 1)):
        with w.loop(start, stop, rows) as p:
            at = [w.value(f"add i64 {p.index}, {i}") for i in range(rows)]
            xs = [v.splat(v.at("%v", w.value(f"mul i64 {i}, %v.step"))) for i in at]
            ys = [v.at(y, w.value(f"mul i64 {i}, %y.step")) for i in at]
            with w.loop("0", whole, lanes) as c:
                _add(v, xs, ys, sums, c.index, None)
            with w.when(some):
                _add(v, xs, ys, sums, whole, mask)
    text.functions[name] = w.function(f"internal void @{name}({SIGNATURE})")


def _add(v: Vectors, xs: list[str], ys: list[str], sums: str, c: str, mask: str | None) -> None:
    """Some rows of y, each times a number, added to a vector of sums one after the other."""
    to = v.at(sums, c)
    total = v.load(to, mask)
    for x, y in zip(xs, ys, strict=True):
        total = v.multiply_add(x, v.load(v.at(y, c), mask), total)
    v.store(total, to, mask)


def thin_across(text: Text, name: str, dtype: DType, lanes: int) -> None:
    """Where element (k, c) of y lies at ``c * y.step + k``."""
    w = Writer(text)
    v = Vectors(w, dtype, lanes)
    last = w.value("sub i64 %stop, 1")
    whole = w.value(f"and i64 %k, {-lanes}")
    with w.loop("%start", "%stop", lanes) as c:
        columns: list[str] = []
        for i in range(lanes):
            at = w.value(f"add i64 {c.index}, {i}")
            there = w.call("i64", "llvm.smin.i64", ("i64", at), ("i64", last))
            columns.append(v.at("%y", w.value(f"mul i64 {there}, %y.step")))
        total = Carry(v.type, "zeroinitializer")
        with w.loop("0", whole, lanes, [total]) as p:
            rows = transposed(v, [v.load(v.at(column, p.index)) for column in columns])
            total.next = total.now
            for q, row in enumerate(rows):
                at = w.value(f"add i64 {p.index}, {q}")
                total.next = v.multiply_add(_number(v, at), row, total.next)
        end = Carry(v.type, total.now)
        with w.loop(whole, "%k", 1, [end]) as p:
            row = _gathered(v, [v.at(column, p.index) for column in columns])
            end.next = v.multiply_add(_number(v, p.index), row, end.now)
        here = w.value(f"sub i64 %stop, {c.index}")
        v.store(end.now, v.at("%sums", c.index), v.mask(0, here))
    text.functions[name] = w.function(f"internal void @{name}({SIGNATURE})")


def _number(v: Vectors, k: str) -> str:
    return v.splat(v.at("%v", v.w.value(f"mul i64 {k}, %v.step")))


def _gathered(v: Vectors, pointers: list[str]) -> str:
    """One element from each of these places."""
    found = "poison"
    for i, pointer in enumerate(pointers):
        x = v.w.value(f"load {v.element}, ptr {pointer}, align {v.dtype.bytes}")
        found = v.w.value(f"insertelement {v.type} {found}, {v.element} {x}, i32 {i}")
    return found
