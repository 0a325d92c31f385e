"""Products of a few rows, or of few columns: the matrix is read once from end to end.

``_along`` reads the rows of a matrix, eight at a time; ``_across`` reads a matrix whose
columns lie along, transposing squares in registers. They are one object file for all products of
a type. What was read is added to the sums of every row of x, which lie in memory near; of one row
or two they lie in registers. Both sum each element by the same chains over k as a product of
matrices does, so which of them is taken changes no bit: ``void @NAME(SIGNATURE)`` makes
``sums[i, c] = sum over k of x[i, k] * y[k, c]``, where ``x[i, k]`` lies at
``i * x.step + k * x.near``, and each sum likewise: columns are rows of the transposes. Sums of a
chunk of k are added to those of the chunks before, which lie on the stack if there is room.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from dlvm.gen.text.lanes import sum_type
from dlvm.gen.text.module import FunctionWriter, Text, declaration
from dlvm.ir import DType

from .micro_kernel import Shape, Vectors, micro_kernel
from .packing import transposed

COPIED_FROM = 24
"""Rows of x from which on it is better to copy y."""
ROWS = 8
"""Rows of y that are read at once."""
BROAD, NARROW_BROAD = 1024, 64
"""Columns that are summed at once, and as many where the stack is small."""
WIDEST = 8
"""Bytes of the widest element: of narrower ones more sums lie on the stack."""
SIGNATURE = (
    "ptr noalias %x, i64 %x.step, i64 %x.near, ptr noalias %y, i64 %y.step, "
    "i64 %rows, i64 %k, i64 %cols, ptr noalias %sums, i64 %sums.step, i64 %sums.near, i64 %chunk"
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


def write_thin(text: Text, dtype: DType, lanes: int, shapes: Sequence[Shape], near: int) -> None:
    """Both functions, and micro kernels for one row and for two of a y of so many bytes at most."""
    for shape in shapes:
        micro_kernel(text, _micro(shape), shape, dtype, lanes, x_transposed=False)
    for across in (False, True):
        w, name = FunctionWriter(text), thin_name(dtype, across)
        v = Vectors(w, dtype, lanes)
        if across:
            _across(v)
        else:
            _along(v, shapes, near)
        text.functions[name] = w.function(f"void @{name}({SIGNATURE})")


def _micro(shape: Shape) -> str:
    return f"thin.{shape.rows}x{shape.vectors}"


@dataclass(frozen=True, slots=True)
class Thin:
    """The sides of a call: where x starts and its two steps, y, and which function is called."""

    x: tuple[str, str, str]
    y: Side
    across: bool


def call_thin(v: Vectors, sides: Thin, sizes: tuple[str, str], sums: tuple[str, str, str]) -> None:
    """Calls a function for so many rows and columns."""
    w, name = v.w, thin_name(v.dtype, sides.across)
    w.text.declarations[name] = declaration(name, SIGNATURE)
    (x, step, near), y, (rows, cols) = sides.x, sides.y, sizes
    given = f"ptr {x}, i64 {step}, i64 {near}, ptr {y.start}, i64 {y.step}"
    results = f"ptr {sums[0]}, i64 {sums[1]}, i64 {sums[2]}, i64 %chunk"
    w.do(f"call void @{name}({given}, i64 {rows}, i64 %k, i64 {cols}, {results})")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some k: the first, the one behind the last, and whether chunks come before, or none after."""

    start: str
    stop: str
    later: str
    last: str


@contextmanager
def _chunks(v: Vectors) -> Generator[Chunk]:
    """Each chunk of k; a k of 0 is one."""
    w = v.w
    deep = w.call("i64", "llvm.smax.i64", ("i64", "%k"), ("i64", "1"))
    with w.loop("0", deep, "%chunk") as p:
        end = w.value(f"add i64 {p.index}, %chunk")
        stop = w.call("i64", "llvm.smin.i64", ("i64", end), ("i64", "%k"))
        later = w.value(f"icmp ne i64 {p.index}, 0")
        yield Chunk(p.index, stop, later, w.value(f"icmp sge i64 {end}, %k"))


def _along(v: Vectors, shapes: Sequence[Shape], near: int) -> None:
    """Where element (k, c) of y lies at ``k * y.step + c``; for up to ``broad`` columns.

    What comes from memory is best read along whole rows, several at a time.
    """
    w = v.w
    low = w.value(f"icmp sle i64 %rows, {shapes[-1].rows}")
    elements = w.value("mul i64 %k, %y.step")
    small = w.value(f"icmp sle i64 {elements}, {near // v.dtype.bytes}")
    low = w.value(f"and i1 {low}, {small}")
    for step in ("%x.near", "%sums.near"):
        low = w.value(f"and i1 {low}, {w.value(f'icmp eq i64 {step}, 1')}")
    with w.when(low):
        _in_registers(v, shapes)
    with w.when(w.value(f"xor i1 {low}, true")):
        _in_memory(v)


def _in_registers(v: Vectors, shapes: Sequence[Shape]) -> None:
    """One row or two, a piece of which a micro kernel sums over a chunk of k at a time."""
    w = v.w
    for shape in shapes:
        this = w.value(f"icmp eq i64 %rows, {shape.rows}")
        wide = shape.vectors * v.lanes
        with w.when(this), _chunks(v) as chunk, w.loop("0", "%cols", wide) as c:
            depth = w.value(f"sub i64 {chunk.stop}, {chunk.start}")
            x = v.at("%x", chunk.start)
            y = v.at(v.at("%y", w.value(f"mul i64 {chunk.start}, %y.step")), c.index)
            first = w.value(f"xor i1 {chunk.later}, true")
            sides = f"ptr {x}, i64 %x.step, i64 0, ptr {y}, i64 %y.step"
            sums = f"ptr {v.at('%sums', c.index)}, i64 %sums.step"
            left = w.value(f"sub i64 %cols, {c.index}")
            sizes = f"i64 {depth}, i64 {shape.rows}, i64 {left}, i1 {first}"
            w.do(f"call void @{_micro(shape)}({sides}, {sums}, {sizes})")


def _in_memory(v: Vectors) -> None:
    """Several rows, whose sums lie on the stack."""
    w, lanes = v.w, v.lanes
    row = broad(w.text) + lanes
    most = COPIED_FROM * (WIDEST // v.dtype.bytes)
    sums = Side(w.array(f"[{most * row} x {v.element}]"), str(row))
    numbers = w.array(f"[{COPIED_FROM * ROWS} x {v.element}]")
    whole = w.value(f"and i64 %cols, {-lanes}")
    mask = v.mask(0, w.value(f"sub i64 %cols, {whole}"))
    some = w.value(f"icmp slt i64 {whole}, %cols")
    with w.loop("0", "%cols", lanes) as c:
        _clear(v, sums, c.index)
    room = w.value(f"icmp sle i64 %rows, {most // 2}")
    with _chunks(v) as chunk:
        with w.loop("0", "%cols", lanes) as c:
            _clear(v, sums, c.index)
        size = w.value(f"sub i64 {chunk.stop}, {chunk.start}")
        eights = w.value(f"add i64 {chunk.start}, {w.value(f'and i64 {size}, {-ROWS}')}")
        for start, stop, rows in ((chunk.start, eights, ROWS), (eights, chunk.stop, 1)):
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
            _give(v, chunk, Sums(sums, sums.row(v, "%rows"), room), c.index, c.index)


def _across(v: Vectors) -> None:
    """Where element (k, c) of y lies at ``c * y.step + k``."""
    w, lanes = v.w, v.lanes
    sums = Side(w.array(f"[{2 * COPIED_FROM * lanes} x {v.element}]"), str(lanes))
    last = w.value("sub i64 %cols, 1")
    apart = [w.value(f"mul i64 %x.near, {q}") for q in range(lanes)]
    with w.loop("0", "%cols", lanes) as c:
        columns: list[str] = []
        for i in range(lanes):
            at = w.value(f"add i64 {c.index}, {i}")
            there = w.call("i64", "llvm.smin.i64", ("i64", at), ("i64", last))
            columns.append(v.at("%y", w.value(f"mul i64 {there}, %y.step")))
        with _chunks(v) as chunk:
            _clear(v, sums, "0")
            size = w.value(f"sub i64 {chunk.stop}, {chunk.start}")
            whole = w.value(f"add i64 {chunk.start}, {w.value(f'and i64 {size}, {-lanes}')}")
            with w.loop(chunk.start, whole, lanes) as p:
                rows = transposed(v, [v.load(v.at(column, p.index)) for column in columns])
                _add(v, _far(v, p.index), apart, rows, sums, "0")
            with w.loop(whole, chunk.stop, 1) as p:
                row = _gathered(v, [v.at(column, p.index) for column in columns])
                _add(v, _far(v, p.index), apart[:1], [row], sums, "0")
            _give(v, chunk, Sums(sums, sums.row(v, "%rows"), "true"), "0", c.index)


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
            found = w.load(v.element, at, v.dtype.bytes)
            w.store(v.element, found, v.at(place, q), v.dtype.bytes)
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


@dataclass(frozen=True, slots=True)
class Sums:
    """Those of a chunk, and where those of the chunks before start, if there is ``room`` for them.

    Otherwise they lie where they are wanted.
    """

    here: Side
    before: str
    room: str


def _give(v: Vectors, chunk: Chunk, sums: Sums, c: str, column: str) -> None:
    """A vector of every row's sums, added to those before: where they are wanted, or kept."""
    w = v.w
    wanted = v.at("%sums", w.value(f"mul i64 {column}, %sums.near")), "%sums.step", "%sums.near"
    kept = v.at(sums.before, c), sums.here.step, "1"
    before = _either(v, sums.room, kept, wanted)
    to = _either(v, chunk.last, wanted, before)
    beside = w.value(f"icmp eq i64 {to[2]}, 1")
    left = w.value(f"sub i64 %cols, {column}")
    with w.when(beside):
        _give_beside(v, chunk, sums, c, v.mask(0, left), before, to)
    with w.when(w.value(f"xor i1 {beside}, true")):
        stop = w.call("i64", "llvm.smin.i64", ("i64", left), ("i64", str(v.lanes)))
        _give_apart(v, chunk, sums, c, stop, before, to)


Place: TypeAlias = "tuple[str, str, str]"
"""Where sums start, how far their rows are apart, and their columns."""


def _either(v: Vectors, condition: str, x: Place, y: Place) -> Place:
    """One of two places."""
    start, step, near = (
        v.w.value(f"select i1 {condition}, {t} {a}, {t} {b}")
        for t, a, b in zip(("ptr", "i64", "i64"), x, y, strict=True)
    )
    return start, step, near


def _give_beside(
    v: Vectors, chunk: Chunk, sums: Sums, c: str, mask: str, before: Place, to: Place
) -> None:
    """Vectors, whose columns lie side by side both where they are kept and where they go."""
    w = v.w
    with w.loop("0", "%rows") as i:
        found = v.load(v.at(sums.here.row(v, i.index), c))

        def added() -> list[str]:
            return [v.add(v.load(Side(*before[:2]).row(v, i.index), mask), found)]

        (all_,) = w.maybe_all(chunk.later, v.type, [found], added)
        v.store(all_, Side(*to[:2]).row(v, i.index), mask)


def _give_apart(
    v: Vectors, chunk: Chunk, sums: Sums, c: str, stop: str, before: Place, to: Place
) -> None:
    """Columns one after the other."""
    w, align = v.w, v.dtype.bytes
    with w.loop("0", stop) as q, w.loop("0", "%rows") as i:

        def at(place: Place) -> str:
            row = Side(*place[:2]).row(v, i.index)
            return v.at(row, w.value(f"mul i64 {q.index}, {place[2]}"))

        here = v.at(v.at(sums.here.row(v, i.index), c), q.index)
        found = w.load(v.element, here, align)

        def added() -> list[str]:
            earlier = w.load(v.element, at(before), align)
            word = "fadd" if v.dtype.is_float else "add"
            return [w.value(f"{word} {v.element} {earlier}, {found}")]

        (all_,) = w.maybe_all(chunk.later, v.element, [found], added)
        w.store(v.element, all_, at(to), align)


def _gathered(v: Vectors, pointers: list[str]) -> str:
    """One element from each of these places."""
    found = "poison"
    for i, pointer in enumerate(pointers):
        x = v.w.load(v.element, pointer, v.dtype.bytes)
        found = v.w.value(f"insertelement {v.type} {found}, {v.element} {x}, i32 {i}")
    return found
