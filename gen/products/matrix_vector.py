"""Products of a few rows, or of few columns: the matrix is read once from end to end.

``_along`` reads the rows of a matrix, eight at a time; ``_across`` reads a matrix whose
columns lie along, transposing squares in registers. They are one object file for all products of
a type. What was read is added to the sums of every
row of x, which lie in memory near. Both sum each element by the same chains over k as a product of
matrices does, so which of them is taken changes no bit: ``void @NAME(SIGNATURE)`` makes
``sums[i, c] = sum over k of x[i, k] * y[k, c]``, where ``x[i, k]`` lies at
``i * x.step + k * x.near``, and each sum likewise: columns are rows of the transposes. But at the
``first`` chunk of k it adds to the sums that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.gen.text.lanes import sum_type
from dlvm.gen.text.module import FunctionWriter, Text, declaration
from dlvm.ir import DType

from .micro_kernel import Vectors
from .packing import transposed

COPIED_FROM = 24
"""Rows of x from which on it is better to copy y."""
ROWS = 8
"""Rows of y that are read at once."""
BROAD, NARROW_BROAD = 1024, 64
"""Columns that are summed at once, and as many where the stack is small."""
SIGNATURE = (
    "ptr noalias %x, i64 %x.step, i64 %x.near, ptr noalias %y, i64 %y.step, "
    "i64 %rows, i64 %k, i64 %cols, ptr noalias %sums, i64 %sums.step, i64 %sums.near, i1 %first"
)


@dataclass(frozen=True, slots=True)
class Side:
    """A matrix by rows: where it starts, and how far they are apart."""

    start: str
    step: str

    def row(self, v: Vectors, i: str) -> str:
        """Where a row starts."""
        return v.at(self.start, v.w.value(f"mul i64 {i}, {self.step}"))


def broad(text: Text) -> int:
    """How many columns are summed at once: their sums lie on the stack."""
    return NARROW_BROAD if text.word == 32 else BROAD


def thin_name(dtype: DType, across: bool) -> str:
    """That of one of the two functions."""
    return f"dlvm.thin.{sum_type(dtype)}.{'across' if across else 'along'}"


def write_thin(text: Text, dtype: DType, lanes: int) -> None:
    """Both functions."""
    for across, write in ((False, _along), (True, _across)):
        w, name = FunctionWriter(text), thin_name(dtype, across)
        write(Vectors(w, dtype, lanes))
        text.functions[name] = w.function(f"void @{name}({SIGNATURE})")


@dataclass(frozen=True, slots=True)
class Thin:
    """The sides of a call: where x starts and its two steps, y, and which function is called."""

    x: tuple[str, str, str]
    y: Side
    across: bool


def call_thin(v: Vectors, sides: Thin, sizes: tuple[str, str], sums: tuple[str, str, str]) -> None:
    """Calls a function for so many rows and columns, chunk of ``%k`` by chunk of ``%chunk``."""
    w, name = v.w, thin_name(v.dtype, sides.across)
    w.text.declarations[name] = declaration(name, SIGNATURE)
    (x, step, near), (rows, cols) = sides.x, sizes
    deep = w.call("i64", "llvm.smax.i64", ("i64", "%k"), ("i64", "1"))
    with w.loop("0", deep, "%chunk") as p:
        rest = w.value(f"sub i64 %k, {p.index}")
        depth = w.call("i64", "llvm.smin.i64", ("i64", rest), ("i64", "%chunk"))
        start = v.at(x, w.value(f"mul i64 {p.index}, {near}"))
        y = v.at(sides.y.start, p.index) if sides.across else sides.y.row(v, p.index)
        first = w.value(f"icmp eq i64 {p.index}, 0")
        given = f"ptr {start}, i64 {step}, i64 {near}, ptr {y}, i64 {sides.y.step}"
        results = f"ptr {sums[0]}, i64 {sums[1]}, i64 {sums[2]}, i1 {first}"
        w.do(f"call void @{name}({given}, i64 {rows}, i64 {depth}, i64 {cols}, {results})")


def _along(v: Vectors) -> None:
    """Where element (k, c) of y lies at ``k * y.step + c``; for up to ``broad`` columns."""
    w, lanes = v.w, v.lanes
    row = broad(w.text) + lanes
    sums = Side(w.array(f"[{COPIED_FROM * row} x {v.element}]"), str(row))
    numbers = w.array(f"[{COPIED_FROM * ROWS} x {v.element}]")
    whole = w.value(f"and i64 %cols, {-lanes}")
    mask = v.mask(0, w.value(f"sub i64 %cols, {whole}"))
    some = w.value(f"icmp slt i64 {whole}, %cols")
    with w.loop("0", "%cols", lanes) as c:
        _clear(v, sums, c.index)
    eights = w.value(f"and i64 %k, {-ROWS}")
    for start, stop, rows in (("0", eights, ROWS), (eights, "%k", 1)):
        apart = [str(q) for q in range(rows)]
        with w.loop(start, stop, rows) as p:
            x = _near(v, p.index, rows, numbers)
            ys = [w.value(f"add i64 {p.index}, {i}") for i in range(rows)]
            ys = [v.at("%y", w.value(f"mul i64 {i}, %y.step")) for i in ys]
            with w.loop("0", whole, lanes) as c:
                _add(v, x, apart, [v.load(v.at(y, c.index)) for y in ys], sums, c.index)
            with w.when(some):
                _add(v, x, apart, [v.load(v.at(y, whole), mask) for y in ys], sums, whole)
    with w.loop("0", "%cols", lanes) as c:
        _give(v, sums, c.index, c.index)


def _across(v: Vectors) -> None:
    """Where element (k, c) of y lies at ``c * y.step + k``."""
    w, lanes = v.w, v.lanes
    sums = Side(w.array(f"[{COPIED_FROM * lanes} x {v.element}]"), str(lanes))
    last = w.value("sub i64 %cols, 1")
    whole = w.value(f"and i64 %k, {-lanes}")
    apart = [w.value(f"mul i64 %x.near, {q}") for q in range(lanes)]
    with w.loop("0", "%cols", lanes) as c:
        columns: list[str] = []
        for i in range(lanes):
            at = w.value(f"add i64 {c.index}, {i}")
            there = w.call("i64", "llvm.smin.i64", ("i64", at), ("i64", last))
            columns.append(v.at("%y", w.value(f"mul i64 {there}, %y.step")))
        _clear(v, sums, "0")
        with w.loop("0", whole, lanes) as p:
            rows = transposed(v, [v.load(v.at(column, p.index)) for column in columns])
            _add(v, _far(v, p.index), apart, rows, sums, "0")
        with w.loop(whole, "%k", 1) as p:
            row = _gathered(v, [v.at(column, p.index) for column in columns])
            _add(v, _far(v, p.index), apart[:1], [row], sums, "0")
        _give(v, sums, "0", c.index)


def _far(v: Vectors, k: str) -> Side:
    """Elements of x from this k on, where they lie."""
    return Side(v.at("%x", v.w.value(f"mul i64 {k}, %x.near")), "%x.step")


def _near(v: Vectors, k: str, count: int, to: str) -> Side:
    """A piece of every row of x, copied, as its rows may share the ways of a cache."""
    w, far, near = v.w, _far(v, k), Side(to, str(count))
    with w.loop("0", "%rows") as i:
        row, place = far.row(v, i.index), near.row(v, i.index)
        for q in range(count):
            at = v.at(row, w.value(f"mul i64 %x.near, {q}"))
            found = w.value(f"load {v.element}, ptr {at}, align {v.dtype.bytes}")
            w.do(f"store {v.element} {found}, ptr {v.at(place, q)}, align {v.dtype.bytes}")
    return near


def _clear(v: Vectors, sums: Side, c: str) -> None:
    """Zeros in a vector of every row's sums."""
    with v.w.loop("0", "%rows") as i:
        v.store("zeroinitializer", v.at(sums.row(v, i.index), c))


def _add(v: Vectors, x: Side, apart: Sequence[str], ys: Sequence[str], sums: Side, c: str) -> None:
    """Vectors of y, each times a number, added to those of every row's sums one after another."""
    with v.w.loop("0", "%rows") as i:
        row, to = x.row(v, i.index), v.at(sums.row(v, i.index), c)
        total = v.load(to)
        for offset, y in zip(apart, ys, strict=True):
            total = v.multiply_add(v.splat(v.at(row, offset)), y, total)
        v.store(total, to)


def _give(v: Vectors, sums: Side, c: str, column: str) -> None:
    """A vector of every row's sums, where they are wanted."""
    w = v.w
    left = w.value(f"sub i64 %cols, {column}")
    wanted = Side(v.at("%sums", w.value(f"mul i64 {column}, %sums.near")), "%sums.step")
    beside = w.value("icmp eq i64 %sums.near, 1")
    later = w.value("xor i1 %first, true")
    with w.when(beside):
        mask = v.mask(0, left)
        with w.loop("0", "%rows") as i:
            found, to = v.load(v.at(sums.row(v, i.index), c)), wanted.row(v, i.index)

            def added(found: str = found, to: str = to) -> list[str]:
                return [v.add(v.load(to, mask), found)]

            (all_,) = w.maybe_all(later, v.type, [found], added)
            v.store(all_, to, mask)
    with w.when(w.value(f"xor i1 {beside}, true")):
        stop = w.call("i64", "llvm.smin.i64", ("i64", left), ("i64", str(v.lanes)))
        with w.loop("0", stop) as q, w.loop("0", "%rows") as i:
            at = v.at(v.at(sums.row(v, i.index), c), q.index)
            found = w.value(f"load {v.element}, ptr {at}, align {v.dtype.bytes}")
            to = v.at(wanted.row(v, i.index), w.value(f"mul i64 {q.index}, %sums.near"))

            def plus(found: str = found, to: str = to) -> list[str]:
                before = w.value(f"load {v.element}, ptr {to}, align {v.dtype.bytes}")
                word = "fadd" if v.dtype.is_float else "add"
                return [w.value(f"{word} {v.element} {before}, {found}")]

            (found,) = w.maybe_all(later, v.element, [found], plus)
            w.do(f"store {v.element} {found}, ptr {to}, align {v.dtype.bytes}")


def _gathered(v: Vectors, pointers: list[str]) -> str:
    """One element from each of these places."""
    found = "poison"
    for i, pointer in enumerate(pointers):
        x = v.w.value(f"load {v.element}, ptr {pointer}, align {v.dtype.bytes}")
        found = v.w.value(f"insertelement {v.type} {found}, {v.element} {x}, i32 {i}")
    return found
