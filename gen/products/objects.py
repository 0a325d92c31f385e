"""Matrix products as objects of their own: one for each element type, transposition and target.

A product is compiled once for a process and linked with each program that calls it. It cuts the
result into blocks of columns, a block into panels of k, and a panel into bands of rows, which
micro kernels sum. What is read along far strides, in another type or many times is copied first.
The sums lie in the result itself, or in a tile where that is not possible; of them the program
makes its results (an epilogue, a rounding) while they are in the cache. Every element is a
chain over each chunk of k, so neither blocks nor threads nor copies change its bits.

``void @NAME(ptr %context, ptr %call)``: the words of ``%call`` are named in ``WORDS``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeAlias

from dlvm.gen.checked.bounds import include_checks
from dlvm.gen.llvm.binding import object_code
from dlvm.gen.runtime.call_words import THREADS
from dlvm.gen.runtime.pool import include_fork
from dlvm.gen.text.lanes import sum_type
from dlvm.gen.text.module import FunctionWriter, Listener, Part, Text
from dlvm.ir import DType
from dlvm.target import Target

from .few import LONG, Few
from .macro_kernel import Plan, write_bands
from .matrix_vector import COPIED_FROM, Side, Thin, broad, call_thin, write_thin
from .micro_kernel import NARROW, thin_shapes
from .panels import WORDS, Panels
from .sources import ceiling, least


@dataclass(frozen=True, slots=True)
class Generic:
    """What a product depends on before its sizes are known, with the sizes of a tile."""

    dtype: DType
    x_transposed: bool
    y_transposed: bool
    height: int
    width: int
    filled: tuple[bool, bool] = (False, False)
    ways: str = "both"
    """``thin`` where there are always few rows or columns, ``wide`` where there never are."""

    @property
    def thin(self) -> bool:
        """Whether few rows or columns are summed by themselves."""
        reads = self.dtype == self.dtype.compute and not any(self.filled)
        return reads and self.ways != "wide"

    @property
    def name(self) -> str:
        """That of its function."""
        letters = "".join("t" if t else "n" for t in (self.x_transposed, self.y_transposed))
        fills = "".join(x for x, filled in zip("xy", self.filled, strict=True) if filled)
        tile = f"{self.height}x{self.width}"
        letters += f".{fills}" if fills else ""
        return f"dlvm.product.{sum_type(self.dtype)}.{letters}.{self.ways}.{tile}"


@dataclass(frozen=True, slots=True)
class Inner:
    """What products have in common that sum alike: bands of rows, or a few rows alone."""

    dtype: DType
    x_transposed: bool | None
    """None where there are few rows."""

    @property
    def name(self) -> str:
        """The same for types that have the code in common."""
        return f"dlvm.inner.{sum_type(self.dtype)}.{self.x_transposed}"


Piece: TypeAlias = "Generic | Inner"


def pieces(generic: Generic) -> list[Piece]:
    """The object files of a product."""
    bands, thin = Inner(generic.dtype, generic.x_transposed), Inner(generic.dtype, None)
    wide = [bands] if generic.ways != "thin" else []
    return [generic, *wide, *([thin] if generic.thin else [])]


def use(text: Text, generic: Generic, target: Target) -> str:
    """The name of a product's function, which the module's code may call from now on."""
    name, alone = generic.name, replace(target, threads=1)
    text.declarations[name] = f"declare void @{name}(ptr, ptr)"
    for piece in pieces(generic):
        given = piece, alone, text.listener
        text.objects[piece.name] = Part(partial(code, *given), partial(_made, *given))
    return name


def _made(piece: Piece, target: Target, listener: type[Listener] | None) -> bytes:
    return machine_code(piece, target, listener)


@cache
def machine_code(piece: Piece, target: Target, listener: type[Listener] | None = None) -> bytes:
    """An object file of a product."""
    return object_code(code(piece, target, listener), target)


def code(piece: Piece, target: Target, listener: type[Listener] | None = None) -> str:
    """The module of a piece of a product, which checks every access if somebody listens."""
    text = Text.of(target, listener=listener)
    y_transposed = isinstance(piece, Generic) and piece.y_transposed
    filled = piece.filled if isinstance(piece, Generic) else (False, False)
    plan = Plan.of(piece.dtype, bool(piece.x_transposed), y_transposed, target, filled)
    match piece:
        case Generic():
            _Product(text, plan, (piece.height, piece.width)).write(piece)
        case Inner(x_transposed=None):
            write_thin(text, plan.dtype, plan.lanes, thin_shapes(target), plan.caches[2])
        case Inner():
            write_bands(text, plan)
    if listener is not None:
        include_checks(text, owner=False)
    return str(text)


class _Product(Panels):
    """Writes the functions of one product."""

    def write(self, generic: Generic) -> None:
        """Everything, what is called first."""
        w = FunctionWriter(self.text)
        self.words(w, "m", "n", "k", "out", "out.step")
        include_fork(self.text)
        done = self.thin(w) if generic.thin else "false"
        if generic.ways != "thin":
            self.panel()
            self.panels()
            self.blocks()
            self.part()
            if self.plan.copies_x:
                self.copied_panels()
            with w.when(w.value(f"xor i1 {done}, true")):
                self.whole(w)
        self.function(w, generic.name, "ptr %context, ptr %call", "")

    # -- the call ------------------------------------------------------------------------------

    def whole(self, w: FunctionWriter) -> None:
        """All rows, or all columns where there are fewer rows, in parts for threads."""
        _, _, count = self.split(w)
        inside = w.value(f"mul i64 {w.value('mul i64 %m, %n')}, %k")
        total = w.value(f"add i64 {w.value(f'sdiv i64 {inside}, {self.plan.thread}')}, 1")
        fewest = w.value(f"add i64 {w.value(f'sdiv i64 {count}, {total}')}, 1")
        self.fork(w, "part", count, fewest)

    def fork(self, w: FunctionWriter, name: str, count: str, fewest: str) -> None:
        """Call a function for so many units, in parts of some at least."""
        grain = w.call("i64", "llvm.smax.i64", ("i64", fewest), ("i64", self.share(w, count)))
        w.do(f"call void @fork(ptr %context, ptr @{name}, ptr %call, i64 {count}, i64 {grain})")

    def share(self, w: FunctionWriter, count: str) -> str:
        """The units of one thread: one part for each, as every part copies y for itself."""
        at = w.step("i64", "%context", THREADS)
        found = w.load("i64", at, 8)
        threads = w.call("i64", "llvm.smax.i64", ("i64", found), ("i64", "1"))
        return ceiling(w, count, threads)

    # -- vectors -------------------------------------------------------------------------------

    def thin(self, w: FunctionWriter) -> str:
        """Products of few rows, or of few columns as rows of the transposes; if it is one."""
        there = w.value("icmp ne ptr %out, null")
        row = w.value(f"and i1 {there}, {self.few(w, '%m', '%n', Few.rows(self.plan))}")
        found = self.few(w, "%n", "%m", Few.columns(self.plan))
        others = w.value(f"and i1 {there}, {found}")
        column = w.value(f"and i1 {others}, {w.value(f'xor i1 {row}, true')}")
        piece = w.value(f"sdiv i64 {self.plan.reads}, {w.value('add i64 %k, 1')}")
        fewest = w.value(f"add i64 {w.value(f'sdiv i64 {piece}, {self.plan.strip}')}, 1")
        for condition, name, size in ((row, "row", "%n"), (column, "column", "%m")):
            self.vector(name)
            with w.when(condition):
                up = w.value(f"add i64 {size}, {self.plan.strip - 1}")
                count = w.value(f"sdiv i64 {up}, {self.plan.strip}")
                self.fork(w, name, count, fewest)
        return w.value(f"or i1 {row}, {column}")

    def few(self, w: FunctionWriter, users: str, size: str, few: Few) -> str:
        """Whether reading a matrix is most of the work: one row uses it, or several a large one."""
        one = w.value(f"icmp sle i64 {users}, {few.always}")
        if not few.large:
            return one
        some = w.value(f"icmp slt i64 {users}, {COPIED_FROM}")
        wide = w.value(f"icmp sge i64 {size}, {self.plan.strip}")
        long = w.value(f"icmp sge i64 %k, {w.value(f'mul i64 {users}, {LONG}')}")
        several = self.over(w, size, few.large)
        for condition in (some, wide, long):
            several = w.value(f"and i1 {several}, {condition}")
        return w.value(f"or i1 {one}, {several}")

    def vector(self, name: str) -> None:
        """Some columns of few rows times a matrix, or some rows of a matrix times few columns."""
        w, plan = FunctionWriter(self.text), self.plan
        self.words(w, *WORDS)
        row = name == "row"
        size = "%n" if row else "%m"
        stop = least(w, w.value(f"mul i64 %end, {plan.strip}"), size)
        across = plan.y_transposed if row else not plan.x_transposed
        along = plan.x_transposed if row else not plan.y_transposed
        x, y = ("x", "y") if row else ("y", "x")
        step, near = ("1", f"%{x}.step") if along else (f"%{x}.step", "1")
        down, beside = ("%out.step", "1") if row else ("1", "%out.step")
        v = plan.vectors(w)
        with w.loop(w.value(f"mul i64 %begin, {plan.strip}"), stop, broad(self.text)) as c:
            count = least(w, w.value(f"sub i64 {stop}, {c.index}"), str(broad(self.text)))
            far = w.value(f"mul i64 {c.index}, %{y}.step") if across else c.index
            start = c.index if row else w.value(f"mul i64 {c.index}, %out.step")
            sides = Thin((f"%{x}", step, near), Side(v.at(f"%{y}", far), f"%{y}.step"), across)
            sums, sizes = v.at("%out", start), ("%m" if row else "%n", count)
            call_thin(v, sides, sizes, (sums, down, beside))
            with w.when(w.value("icmp ne ptr %finish, null")):
                spots = ("0", c.index, "%m", count), (c.index, "0", count, "%n")
                spot = ", ".join(f"i64 {i}" for i in spots[0 if row else 1])
                w.do(f"call void %finish(ptr {sums}, {spot}, ptr %environment)")
        self.function(w, name, "ptr %call, i64 %begin, i64 %end")

    # -- parts ---------------------------------------------------------------------------------

    def split(self, w: FunctionWriter) -> tuple[str, str, str]:
        """Whether parts are columns, how many one unit is, and how many units there are."""
        few = w.value(f"icmp slt i64 {w.value('mul i64 %m, 4')}, %n")
        unit = w.value(f"select i1 {few}, i64 {self.plan.strip}, i64 {NARROW}")
        size = w.value(f"select i1 {few}, i64 %n, i64 %m")
        return few, unit, ceiling(w, size, unit)

    def part(self) -> None:
        """Some of the rows or columns."""
        w = FunctionWriter(self.text)
        self.words(w, "m", "n", "k", "out")
        by_columns, unit, _ = self.split(w)
        size = w.value(f"select i1 {by_columns}, i64 %n, i64 %m")
        start = w.value(f"mul i64 %begin, {unit}")
        stop = least(w, w.value(f"mul i64 %end, {unit}"), size)

        def chosen(condition: str, value: str, otherwise: str) -> str:
            return w.value(f"select i1 {condition}, i64 {value}, i64 {otherwise}")

        by_rows = w.value(f"xor i1 {by_columns}, true")
        rows = chosen(by_rows, start, "0"), chosen(by_rows, stop, "%m")
        cols = chosen(by_columns, start, "0"), chosen(by_columns, stop, "%n")
        bounds = ", ".join(f"i64 {b}" for b in (*rows, *cols))
        others = "true"
        if self.plan.copies_x:
            there = w.value(f"and i1 {self.copied(w)[0]}, {w.value('icmp ne ptr %out, null')}")
            with w.when(there):
                w.do(f"call void @copied(ptr %call, {bounds})")
            others = w.value(f"xor i1 {there}, true")
        with w.when(others):
            w.do(f"call void @blocks(ptr %call, {bounds})")
        self.function(w, "part", "ptr %call, i64 %begin, i64 %end")
