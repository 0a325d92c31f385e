"""Matrix products as objects of their own: one for each element type, transposition and target.

A product is compiled once for a process and linked with each program that calls it. It cuts the
result into blocks of columns, a block into panels of k, and a panel into bands of rows, which
micro kernels sum. What is read along far strides, in another type or many times is copied first.
The sums lie in the result itself, or in a tile of which the program makes its results (an
epilogue, a rounding) while it is in the cache. Every element is one chain over k in order, so
neither blocks nor threads nor copies change its bits.

``void @NAME(ptr %context, ptr %call)``: the words of ``%call`` are named in ``WORDS``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from dlvm.ir import DType
from dlvm.target import Target

from .emit import Text, Writer
from .lanes import llvm_type
from .llvm import object_code
from .micro import BAND, GROUP, Shape, Vectors, micro_kernel, shapes
from .packing import LINE, copy_columns, copy_groups, copy_rows
from .pool import include_fork

WORDS = ("m", "n", "k", "x", "x.step", "y", "y.step", "out", "out.step", "finish", "environment")
"""Sizes; where the operands lie and how far their rows in memory are apart; where the product is
to be written, or (``finish`` is not null) the function that is called with each tile and the
environment that it is given."""
POINTERS = ("x", "y", "out", "finish", "environment")
DEPTH = 1024
"""Bytes of k in one panel of a row."""
LARGE = 1 << 15
"""Bytes of an operand from which copying pays, where at least MANY rows or columns use it."""
MANY = 24
BATCH = 48
"""Rows of a transposed x that are copied together: whole lines of a cache."""
PIECE = 1 << 17
"""Multiplications that a thread is given at least."""


@dataclass(frozen=True, slots=True)
class Generic:
    """What a product depends on before its sizes are known; ``width`` is that of a tile."""

    dtype: DType
    x_transposed: bool
    y_transposed: bool
    height: int
    width: int

    @property
    def name(self) -> str:
        """That of its function."""
        letters = "".join("t" if t else "n" for t in (self.x_transposed, self.y_transposed))
        element = self.dtype.name if self.dtype.is_float else llvm_type(self.dtype)
        return f"dlvm.product.{element}.{letters}.{self.height}x{self.width}"


def use(text: Text, generic: Generic, target: Target) -> str:
    """The name of a product's function, which the module's code may call from now on."""
    name, alone = generic.name, replace(target, threads=1)
    text.declarations[name] = f"declare void @{name}(ptr, ptr)"
    text.objects[name] = lambda: machine_code(generic, alone)
    return name


@cache
def machine_code(generic: Generic, target: Target) -> bytes:
    """The object file of a product."""
    return object_code(code(generic, target), target)


def code(generic: Generic, target: Target) -> str:
    """The module of a product."""
    from .cpu import attributes

    text = Text(attributes(target))
    _Product(text, generic, target).write()
    return str(text)


class _Product:
    """Writes the functions of one product."""

    def __init__(self, text: Text, generic: Generic, target: Target) -> None:
        self.text, self.generic = text, generic
        self.stored, self.dtype = generic.dtype, generic.dtype.compute
        self.converts = self.stored != self.dtype
        self.lanes = target.lanes(max(self.dtype.bytes, 4))
        self.shapes = shapes(target)
        self.strip = self.shapes[0].vectors * self.lanes
        self.depth = DEPTH // self.dtype.bytes
        self.group = self.depth * LINE + 2 * LINE  # apart by no power of two
        self.y_far = self.depth * self.strip

    def write(self) -> None:
        """Everything, those that are called first."""
        stored, lanes = self.stored, self.lanes
        for s in self.shapes:
            name = self.micro(s)
            micro_kernel(self.text, name, s, stored, lanes, self.generic.x_transposed)
        copy_y = copy_columns if self.generic.y_transposed else copy_rows
        copy_y(self.text, "copy.y", stored, lanes, self.strip)
        if self.generic.x_transposed:
            copy_groups(self.text, "copy.x", stored)
        elif self.converts:
            copy_rows(self.text, "copy.x", stored, lanes, self.strip)
        self.bands()
        self.rows()
        self.blocks()
        self.part()
        self.whole()

    def micro(self, shape: Shape) -> str:
        """The name of a micro kernel."""
        return f"micro.{shape.rows}x{shape.vectors}"

    # -- the call ------------------------------------------------------------------------------

    def words(self, w: Writer, *names: str) -> None:
        """Words of the call, under their names."""
        for name in names:
            at = w.value(f"getelementptr i64, ptr %call, i64 {WORDS.index(name)}")
            w.do(f"%{name} = load {'ptr' if name in POINTERS else 'i64'}, ptr {at}, align 8")

    def function(self, w: Writer, name: str, parameters: str, linkage: str = "internal ") -> None:
        """Finish a function."""
        self.text.functions[name] = w.function(f"{linkage}void @{name}({parameters})")

    def whole(self) -> None:
        """All rows, or all columns where there are few rows, in parts for threads."""
        w = Writer(self.text)
        self.words(w, "m", "n", "k")
        _, _, count = self.split(w)
        inside = w.value(f"mul i64 {w.value('mul i64 %m, %n')}, %k")
        total = w.value(f"add i64 {w.value(f'sdiv i64 {inside}, {PIECE}')}, 1")
        grain = w.value(f"add i64 {w.value(f'sdiv i64 {count}, {total}')}, 1")
        include_fork(self.text)
        w.do(f"call void @fork(ptr %context, ptr @part, ptr %call, i64 {count}, i64 {grain})")
        self.function(w, self.generic.name, "ptr %context, ptr %call", "")

    def split(self, w: Writer) -> tuple[str, str, str]:
        """Whether parts are columns, how many one unit is, and how many units there are."""
        few = w.value(f"icmp slt i64 {w.value('mul i64 %m, 4')}, %n")
        unit = w.value(f"select i1 {few}, i64 {self.strip}, i64 {BAND}")
        size = w.value(f"select i1 {few}, i64 %n, i64 %m")
        up = w.value(f"add i64 {size}, {w.value(f'sub i64 {unit}, 1')}")
        return few, unit, w.value(f"sdiv i64 {up}, {unit}")

    def part(self) -> None:
        """Some of the rows or columns."""
        w = Writer(self.text)
        self.words(w, "m", "n", "k")
        by_columns, unit, _ = self.split(w)
        size = w.value(f"select i1 {by_columns}, i64 %n, i64 %m")
        start = w.value(f"mul i64 %begin, {unit}")
        stop = self.least(w, w.value(f"mul i64 %end, {unit}"), size)

        def chosen(condition: str, value: str, otherwise: str) -> str:
            return w.value(f"select i1 {condition}, i64 {value}, i64 {otherwise}")

        by_rows = w.value(f"xor i1 {by_columns}, true")
        rows = chosen(by_rows, start, "0"), chosen(by_rows, stop, "%m")
        cols = chosen(by_columns, start, "0"), chosen(by_columns, stop, "%n")
        bounds = ", ".join(f"i64 {b}" for b in (*rows, *cols))
        w.do(f"call void @blocks(ptr %call, {bounds})")
        self.function(w, "part", "ptr %call, i64 %begin, i64 %end")

    # -- blocks --------------------------------------------------------------------------------

    def least(self, w: Writer, x: str, y: str) -> str:
        """The smaller of two sizes."""
        return w.call("i64", "llvm.smin.i64", ("i64", x), ("i64", y))

    def blocks(self) -> None:
        """Blocks of columns, in each all rows, or (where tiles are finished) some of them."""
        w = Writer(self.text)
        self.words(w, "finish", "out", "out.step", "environment")
        v = Vectors(w, self.stored, self.lanes)
        height, width = self.generic.height, self.generic.width
        tile = w.array(f"[{height * width} x {v.element}]")
        panel = w.array(f"[{self.depth * width} x {v.element}]")
        tiled = w.value("icmp ne ptr %finish, null")
        all_ = w.value("sub i64 %rows.end, %rows.start")
        step = w.value(f"select i1 {tiled}, i64 {height}, i64 {all_}")
        sums_step = w.value(f"select i1 {tiled}, i64 {width}, i64 %out.step")
        with (
            w.loop("%cols.start", "%cols.end", width) as c,
            w.loop("%rows.start", "%rows.end", step) as r,
        ):
            cols = self.least(w, w.value(f"sub i64 %cols.end, {c.index}"), str(width))
            rows = self.least(w, w.value(f"sub i64 %rows.end, {r.index}"), step)
            there = w.value(f"add i64 {w.value(f'mul i64 {r.index}, %out.step')}, {c.index}")
            direct = v.at("%out", there)
            sums = w.value(f"select i1 {tiled}, ptr {tile}, ptr {direct}")
            first = w.value(f"icmp eq i64 {r.index}, %rows.start")
            spot = f"i64 {r.index}, i64 {c.index}, i64 {rows}, i64 {cols}"
            w.do(
                f"call void @rows(ptr %call, {spot}, ptr {panel}, ptr {sums}, i64 {sums_step}, "
                f"i1 {first})"
            )
            with w.when(tiled):
                w.do(f"call void %finish(ptr {tile}, {spot}, ptr %environment)")
        bounds = "i64 %rows.start, i64 %rows.end, i64 %cols.start, i64 %cols.end"
        self.function(w, "blocks", f"ptr %call, {bounds}")

    def rows(self) -> None:
        """Rows of one block of columns, panel of k by panel; y is copied once if it is small."""
        w = Writer(self.text)
        self.words(w, "m", "n", "k", "y", "y.step")
        v = Vectors(w, self.stored, self.lanes)
        x_copied = "true" if self.converts else "false"
        if self.generic.x_transposed and not self.converts:
            x_copied = self.large(w, "%m", "%n")
        y_copied = "true"
        if not (self.generic.y_transposed or self.converts):
            y_copied = self.large(w, "%n", "%m")
        copied = w.value(f"or i1 {x_copied}, {y_copied}")
        depth = w.call("i64", "llvm.smax.i64", ("i64", "%k"), ("i64", "1"))
        step = w.value(f"select i1 {copied}, i64 {self.depth}, i64 {depth}")
        many = w.value(f"icmp sgt i64 {depth}, {step}")
        needed = w.value(f"or i1 {many}, %new")
        copies = w.value(f"and i1 {needed}, {y_copied}")
        y_step = w.value(f"select i1 {y_copied}, i64 {self.strip}, i64 %y.step")
        y_far = w.value(f"select i1 {y_copied}, i64 {self.y_far}, i64 {self.strip}")
        with w.loop("0", depth, step) as p:
            left = self.least(w, w.value(f"sub i64 %k, {p.index}"), step)
            along, across = (
                (p.index, "%col")
                if self.generic.y_transposed is False
                else (
                    "%col",
                    p.index,
                )
            )
            start = w.value(f"add i64 {w.value(f'mul i64 {along}, %y.step')}, {across}")
            source = v.at("%y", start, self.stored)
            with w.when(copies):
                w.do(
                    f"call void @copy.y(ptr {source}, i64 %y.step, i64 {left}, i64 %cols, "
                    f"ptr %panel, i64 {self.strip}, i64 {self.y_far})"
                )
            y = w.value(f"select i1 {y_copied}, ptr %panel, ptr {source}")
            first = w.value(f"icmp eq i64 {p.index}, 0")
            w.do(
                f"call void @bands(ptr %call, i64 %row, i64 %rows, i64 %cols, i64 {p.index}, "
                f"i64 {left}, i1 {x_copied}, ptr {y}, i64 {y_step}, i64 {y_far}, ptr %sums, "
                f"i64 %sums.step, i1 {first})"
            )
        spot = "i64 %row, i64 %col, i64 %rows, i64 %cols"
        self.function(
            w, "rows", f"ptr %call, {spot}, ptr %panel, ptr %sums, i64 %sums.step, i1 %new"
        )

    def large(self, w: Writer, size: str, users: str) -> str:
        """Whether an operand with this many rows or columns is better copied."""
        elements = w.value(f"mul i64 %k, {size}")
        large = w.value(f"icmp sgt i64 {elements}, {LARGE // self.stored.bytes}")
        return w.value(f"and i1 {large}, {w.value(f'icmp sge i64 {users}, {MANY}')}")

    # -- bands ---------------------------------------------------------------------------------

    def bands(self) -> None:
        """Bands of rows, of which x is copied a batch at a time; in each, strips of columns."""
        w = Writer(self.text)
        self.words(w, "x", "x.step")
        v = Vectors(w, self.stored, self.lanes)
        transposed = self.generic.x_transposed
        copying = transposed or self.converts
        room = (BATCH // GROUP) * self.group + LINE if transposed else BATCH * self.depth
        lines = w.array(f"[{room} x {v.element}]") if copying else "null"
        step = w.value(f"select i1 %copied, i64 {BATCH}, i64 {BAND}")
        near = w.value(f"select i1 %copied, i64 {LINE if transposed else self.depth}, i64 %x.step")
        own = GROUP if transposed else w.value(f"mul i64 %x.step, {GROUP}")
        far_copied = self.group if transposed else GROUP * self.depth
        far = w.value(f"select i1 %copied, i64 {far_copied}, i64 {own}")
        with w.loop("0", "%rows", step) as b:
            rows = self.least(w, w.value(f"sub i64 %rows, {b.index}"), step)
            at = w.value(f"add i64 %row, {b.index}")
            along, across = ("%p", at) if transposed else (at, "%p")
            start = w.value(f"add i64 {w.value(f'mul i64 {along}, %x.step')}, {across}")
            x = source = v.at("%x", start, self.stored)
            if copying:
                sizes = f"i64 %depth, i64 {rows}" if transposed else f"i64 {rows}, i64 %depth"
                to = (
                    f"i64 {LINE}, i64 {self.group}"
                    if transposed
                    else (f"i64 {self.depth}, i64 {self.strip}")
                )
                with w.when("%copied"):
                    w.do(
                        f"call void @copy.x(ptr {source}, i64 %x.step, {sizes}, ptr {lines}, {to})"
                    )
                x = w.value(f"select i1 %copied, ptr {lines}, ptr {source}")
            with w.loop("0", rows, BAND) as i:
                here = self.least(w, w.value(f"sub i64 {rows}, {i.index}"), str(BAND))
                band = w.value(f"mul i64 {w.value(f'sdiv i64 {i.index}, {GROUP}')}, {far}")
                line = w.value(f"add i64 {b.index}, {i.index}")
                sums = v.at("%sums", w.value(f"mul i64 {line}, %sums.step"))
                side = f"ptr {v.at(x, band)}, i64 {near}, i64 {far}"
                self.strips(w, v, side, sums, here)
        self.function(
            w,
            "bands",
            "ptr %call, i64 %row, i64 %rows, i64 %cols, i64 %p, i64 %depth, i1 %copied, ptr %y, "
            "i64 %y.step, i64 %y.far, ptr %sums, i64 %sums.step, i1 %first",
        )

    def strips(self, w: Writer, v: Vectors, x: str, sums: str, rows: str) -> None:
        """Strips of columns, the last as wide as is left."""
        with w.loop("0", "%cols", self.strip) as c:
            left = w.value(f"sub i64 %cols, {c.index}")
            piece = w.value(f"sdiv i64 {c.index}, {self.strip}")
            y = v.at("%y", w.value(f"mul i64 {piece}, %y.far"))
            self.strip_of(w, v, 0, x, f"ptr {y}, i64 %y.step", v.at(sums, c.index), rows, left)

    def strip_of(
        self, w: Writer, v: Vectors, which: int, x: str, y: str, sums: str, rows: str, left: str
    ) -> None:
        """One strip, by the narrowest micro kernel that covers what is left."""
        shape = self.shapes[which]
        if which + 1 == len(self.shapes):
            self.band(w, v, shape, x, y, sums, rows, left)
            return
        narrower = self.shapes[which + 1].vectors * self.lanes
        wide = w.value(f"icmp sgt i64 {left}, {narrower}")
        with w.when(wide):
            self.band(w, v, shape, x, y, sums, rows, left)
        with w.when(w.value(f"xor i1 {wide}, true")):
            self.strip_of(w, v, which + 1, x, y, sums, rows, left)

    def band(
        self, w: Writer, v: Vectors, shape: Shape, x: str, y: str, sums: str, rows: str, left: str
    ) -> None:
        """The rows of a band, as many at a time as the micro kernel takes."""
        pointer, near, far = x.split(", ")
        with w.loop("0", rows, shape.rows) as r:
            group = w.value(f"sdiv i64 {r.index}, {GROUP}")
            start = v.at(pointer.split()[1], w.value(f"mul {far.replace(' ', ' ', 1)}, {group}"))
            to = v.at(sums, w.value(f"mul i64 {r.index}, %sums.step"))
            here = w.value(f"sub i64 {rows}, {r.index}")
            w.do(
                f"call void @{self.micro(shape)}(ptr {start}, {near}, {far}, {y}, ptr {to}, "
                f"i64 %sums.step, i64 %depth, i64 {here}, i64 {left}, i1 %first)"
            )
