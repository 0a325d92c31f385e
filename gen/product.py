"""Matrix products: one function for each element type and transposition, for all sizes.

A block of rows and columns of ``x @ y`` is summed in a small buffer that stays in cache, by
micro kernels that keep their accumulators in registers; then a function of the caller's finishes
it. Every element is one chain of fma over k in order, so neither blocks nor vectors change its
bits. Rows past the end read the last row again; columns past it are masked. What is read along
far strides is copied in panels first: a transposed ``y`` always (it is transposed in registers),
and else ``y`` and a transposed ``x`` where they are large.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.ir import DType
from dlvm.target import Target

from .emit import Carry, Lines, Text, Writer
from .lanes import llvm_type, splat_text, suffix, vector
from .loops import Local

PANEL = 128  # steps of k that a copied panel holds
LARGE = 1 << 19  # bytes of an operand from which copying pays, where FEW rows or columns use it
FEW = 24


@dataclass(frozen=True, slots=True)
class Shape:
    """A micro kernel: rows of accumulators and vectors in each."""

    rows: int
    vectors: int


def micro_shapes(target: Target) -> tuple[Shape, ...]:
    """For wide to narrow rests of columns; measured best where registers hold all of it."""
    if target.registers >= 32:
        return Shape(6, 4), Shape(12, 2), Shape(8, 1)
    return Shape(6, 2), Shape(8, 1)


def product_function(
    text: Text, tile: Local, width: int, transposed: tuple[bool, bool], target: Target
) -> str:
    """The name of the product's function, which is added to the module if it is new."""
    letters = "".join("t" if t else "n" for t in transposed)
    name = f"product.{tile.dtype}.{letters}"
    if name not in text.functions:
        _Generic(text, name, tile, width, transposed, target).write()
    return name


class _Generic:
    """The functions of one product."""

    def __init__(
        self,
        text: Text,
        name: str,
        tile: Local,
        width: int,
        transposed: tuple[bool, bool],
        target: Target,
    ) -> None:
        self.text, self.name, self.width = text, name, width
        self.height = tile.size // width
        self.x_transposed, self.y_transposed = transposed
        self.dtype: DType = tile.dtype
        self.element = llvm_type(tile.dtype)
        self.lanes = target.lanes(tile.dtype.bytes)
        self.vector = vector(self.element, self.lanes)
        self.shapes = micro_shapes(target)

    def write(self) -> None:
        for shape in self.shapes:
            self.micro(shape)
        if self.y_transposed:
            self.pack()
        else:
            self.copy("y", self.width)
        if self.x_transposed:
            self.copy("x", self.height)
        self.block()
        self.whole()

    def at(self, w: Writer, pointer: str, offset: str, into: Lines | None = None) -> str:
        return w.value(f"getelementptr {self.element}, ptr {pointer}, i64 {offset}", into)

    def least(self, w: Writer, x: str, y: str) -> str:
        return w.call("i64", "llvm.smin.i64", ("i64", x), ("i64", y))

    # -- all of it -------------------------------------------------------------------------

    def whole(self) -> None:
        """Blocks of columns, blocks of rows, panels of k; then the caller's function."""
        w = Writer(self.text)
        tile = w.array(f"[{self.height * self.width} x {self.element}]")
        panel = w.array(f"[{(PANEL + self.lanes) * self.width} x {self.element}]")
        depth = w.call("i64", "llvm.smax.i64", ("i64", "%k"), ("i64", "1"))
        copied = self._large(w, "%n", "%m") if not self.y_transposed else "true"
        beside = ("false", "")
        if self.x_transposed:
            lines = w.array(f"[{PANEL * self.height} x {self.element}]")
            beside = self._large(w, "%m", "%n"), lines
            copied = w.value(f"or i1 {copied}, {beside[0]}")
        step = w.value(f"select i1 {copied}, i64 {PANEL}, i64 {depth}")
        with w.loop("0", "%n", self.width) as c, w.loop("0", "%m", self.height) as r:
            cols = self.least(w, w.value(f"sub i64 %n, {c.index}"), str(self.width))
            rows = self.least(w, w.value(f"sub i64 %m, {r.index}"), str(self.height))
            with w.loop("0", depth, step) as p:
                left = self.least(w, w.value(f"sub i64 %k, {p.index}"), step)
                y, y_step = self._columns(w, copied, (p.index, left), (c.index, cols), panel)
                x = self._rows_of_x(w, beside, (p.index, left), (r.index, rows))
                sides = f"{x}, ptr {y}, i64 {y_step}"
                first = w.value(f"icmp eq i64 {p.index}, 0")
                sizes = f"i64 {left}, i64 {rows}, i64 {cols}, i1 {first}"
                w.do(f"call void @{self.name}.block({sides}, ptr {tile}, {sizes})")
            spot = f"i64 {r.index}, i64 {c.index}, i64 {rows}, i64 {cols}"
            w.do(f"call void %finish(ptr {tile}, {spot}, ptr %environment)")
        sizes = "i64 %m, i64 %n, i64 %k, ptr noalias %x, ptr noalias %y"
        header = f"internal void @{self.name}({sizes}, ptr %finish, ptr %environment)"
        self.text.functions[self.name] = w.function(header)

    def _large(self, w: Writer, size: str, others: str) -> str:
        """Whether an operand with this many rows or columns is read through a copy."""
        elements = w.value(f"mul i64 %k, {size}")
        large = w.value(f"icmp sgt i64 {elements}, {LARGE // self.dtype.bytes}")
        return w.value(f"and i1 {large}, {w.value(f'icmp sge i64 {others}, {FEW}')}")

    def _columns(
        self, w: Writer, copied: str, k: tuple[str, str], c: tuple[str, str], panel: str
    ) -> tuple[str, str]:
        """Where a panel of y lies, and how far apart its rows are."""
        down, across = ("1", "%k") if self.y_transposed else ("%n", "1")
        start = w.value(
            f"add i64 {w.value(f'mul i64 {k[0]}, {down}')}, {w.value(f'mul i64 {c[0]}, {across}')}"
        )
        source, step = self.at(w, "%y", start), "%k" if self.y_transposed else "%n"
        with w.when(copied):
            arguments = f"ptr {source}, i64 {step}, i64 {k[1]}, i64 {c[1]}, ptr {panel}"
            w.do(f"call void @{self.name}.copy.y({arguments})")
        y = w.value(f"select i1 {copied}, ptr {panel}, ptr {source}")
        return y, w.value(f"select i1 {copied}, i64 {self.width}, i64 {step}")

    def _rows_of_x(
        self, w: Writer, copy: tuple[str, str], k: tuple[str, str], r: tuple[str, str]
    ) -> str:
        """Where a block of x starts, and how far apart its rows (or its k) are."""
        along, across = ("%m", "1") if self.x_transposed else ("1", "%k")
        offset = w.value(
            f"add i64 {w.value(f'mul i64 {k[0]}, {along}')}, {w.value(f'mul i64 {r[0]}, {across}')}"
        )
        source = self.at(w, "%x", offset)
        if not self.x_transposed:
            return f"ptr {source}, i64 %k"
        copied, panel = copy
        with w.when(copied):
            arguments = f"ptr {source}, i64 %m, i64 {k[1]}, i64 {r[1]}, ptr {panel}"
            w.do(f"call void @{self.name}.copy.x({arguments})")
        x = w.value(f"select i1 {copied}, ptr {panel}, ptr {source}")
        return f"ptr {x}, i64 {w.value(f'select i1 {copied}, i64 {self.height}, i64 %m')}"

    # -- a block ---------------------------------------------------------------------------

    def block(self) -> None:
        """Strips of columns, as wide as is left of them, and in each the rows."""
        w = Writer(self.text)
        widest = self.shapes[0].vectors * self.lanes
        with w.loop("0", "%cols", widest) as c:
            left = w.value(f"sub i64 %cols, {c.index}")
            self._strip(w, c.index, left, 0)
        sides = "ptr noalias %x, i64 %x.step, ptr noalias %y, i64 %y.step, ptr noalias %tile"
        sizes = "i64 %depth, i64 %rows, i64 %cols, i1 %first"
        self.text.functions[f"{self.name}.block"] = w.function(
            f"internal void @{self.name}.block({sides}, {sizes})"
        )

    def _strip(self, w: Writer, c: str, left: str, which: int) -> None:
        shape = self.shapes[which]
        if which + 1 == len(self.shapes):
            self._rows(w, c, left, shape)
            return
        narrower = self.shapes[which + 1].vectors * self.lanes
        wide = w.value(f"icmp sgt i64 {left}, {narrower}")
        with w.when(wide):
            self._rows(w, c, left, shape)
        with w.when(w.value(f"xor i1 {wide}, true")):
            self._strip(w, c, left, which + 1)

    def _rows(self, w: Writer, c: str, left: str, shape: Shape) -> None:
        with w.loop("0", "%rows", shape.rows) as r:
            rows = w.value(f"sub i64 %rows, {r.index}")
            step = "1" if self.x_transposed else "%x.step"
            x = self.at(w, "%x", w.value(f"mul i64 {r.index}, {step}"))
            y = self.at(w, "%y", c)
            spot = w.value(f"add i64 {w.value(f'mul i64 {r.index}, {self.width}')}, {c}")
            tile = self.at(w, "%tile", spot)
            sides = f"ptr {x}, i64 %x.step, ptr {y}, i64 %y.step, ptr {tile}"
            sizes = f"i64 %depth, i64 {rows}, i64 {left}, i1 %first"
            w.do(f"call void @{self.name}.{shape.vectors}({sides}, {sizes})")

    # -- a micro kernel --------------------------------------------------------------------

    def micro(self, shape: Shape) -> None:
        """All accumulators in registers; the widest has code without masks as well."""
        w = Writer(self.text)
        last = w.value("sub i64 %rows, 1")
        starts: list[str] = []
        for i in range(shape.rows):
            row = self.least(w, str(i), last)
            if not self.x_transposed:
                row = w.value(f"mul i64 {row}, %x.step")
            starts.append(self.at(w, "%x", row))
        if self.y_transposed:
            self._sum(w, shape, starts, None)
        elif shape is not self.shapes[0]:
            self._masked(w, shape, starts)
        else:
            full = w.value(f"icmp sge i64 %cols, {shape.vectors * self.lanes}")
            with w.when(full):
                self._sum(w, shape, starts, None)
            with w.when(w.value(f"xor i1 {full}, true")):
                self._masked(w, shape, starts)
        sides = "ptr noalias %x, i64 %x.step, ptr noalias %y, i64 %y.step, ptr noalias %tile"
        sizes = "i64 %depth, i64 %rows, i64 %cols, i1 %first"
        name = f"{self.name}.{shape.vectors}"
        self.text.functions[name] = w.function(f"internal void @{name}({sides}, {sizes})")

    def _mask(self, w: Writer, start: int, size: str = "%cols") -> str:
        """Which of these columns exist."""
        wide = vector("i64", self.lanes)
        counting = ", ".join(f"i64 {start + i}" for i in range(self.lanes))
        all_ = splat_text(w, "i64", size, self.lanes)
        return w.value(f"icmp slt {wide} <{counting}>, {all_}")

    def _masked(self, w: Writer, shape: Shape, starts: list[str]) -> None:
        masks = [self._mask(w, v * self.lanes) for v in range(shape.vectors)]
        self._sum(w, shape, starts, masks)

    def _sum(self, w: Writer, shape: Shape, starts: list[str], masks: list[str] | None) -> None:
        spots = [
            self.at(w, "%tile", str(i * self.width + v * self.lanes))
            for i in range(shape.rows)
            for v in range(shape.vectors)
        ]
        carried: list[Carry] = []
        for spot in spots:
            before = w.value(f"load {self.vector}, ptr {spot}, align {self.dtype.bytes}")
            choice = f"{self.vector} zeroinitializer, {self.vector} {before}"
            carried.append(Carry(self.vector, w.value(f"select i1 %first, {choice}")))
        with w.loop("0", "%depth", 1, carried) as k:
            self._step(w, k.index, shape, starts, masks, carried)
        for spot, c in zip(spots, carried, strict=True):
            w.do(f"store {self.vector} {c.now}, ptr {spot}, align {self.dtype.bytes}")

    def _step(
        self,
        w: Writer,
        k: str,
        shape: Shape,
        starts: list[str],
        masks: list[str] | None,
        carried: list[Carry],
    ) -> None:
        """One k: a row of y in vectors, times one element of each row of x."""
        row = self.at(w, "%y", w.value(f"mul i64 {k}, %y.step"))
        ys = [
            self._load(w, self.at(w, row, str(v * self.lanes)), masks[v] if masks else None)
            for v in range(shape.vectors)
        ]
        along = w.value(f"mul i64 {k}, %x.step") if self.x_transposed else k
        for i, start in enumerate(starts):
            pointer = self.at(w, start, along)
            x = w.value(f"load {self.element}, ptr {pointer}, align {self.dtype.bytes}")
            x = splat_text(w, self.element, x, self.lanes)
            for v, y in enumerate(ys):
                c = carried[i * shape.vectors + v]
                operands = ((self.vector, t) for t in (x, y, c.now))
                c.next = w.call(self.vector, f"llvm.fma.{self._suffix}", *operands)

    @property
    def _suffix(self) -> str:
        return suffix(self.element, self.lanes)

    def _load(self, w: Writer, pointer: str, mask: str | None) -> str:
        align = self.dtype.bytes
        if mask is None:
            return w.value(f"load {self.vector}, ptr {pointer}, align {align}")
        return w.call(
            self.vector,
            f"llvm.masked.load.{self._suffix}.p0",
            ("ptr", pointer),
            ("i32", str(align)),
            (vector("i1", self.lanes), mask),
            (self.vector, "zeroinitializer"),
        )

    # -- copying panels of y ------------------------------------------------------

    def copy(self, side: str, width: int) -> None:
        """Rows of a panel from rows of memory."""
        w, lanes = Writer(self.text), self.lanes
        masks = [self._mask(w, v) for v in range(0, width, lanes)]
        with w.loop("0", "%depth") as k:
            source = self.at(w, "%from", w.value(f"mul i64 {k.index}, %step"))
            to = self.at(w, "%panel", w.value(f"mul i64 {k.index}, {width}"))
            for v, mask in enumerate(masks):
                row = self._load(w, self.at(w, source, str(v * lanes)), mask)
                target = self.at(w, to, str(v * lanes))
                w.do(f"store {self.vector} {row}, ptr {target}, align {self.dtype.bytes}")
        self._copying(w, side)

    def _copying(self, w: Writer, side: str) -> None:
        sides = "ptr noalias %from, i64 %step, i64 %depth, i64 %cols, ptr noalias %panel"
        name = f"{self.name}.copy.{side}"
        self.text.functions[name] = w.function(f"internal void @{name}({sides})")

    def pack(self) -> None:
        """Columns of a panel from rows of memory, a square of vectors at a time."""
        w, lanes = Writer(self.text), self.lanes
        last = w.value("sub i64 %cols, 1")
        with w.loop("0", "%cols", lanes) as g:
            rows: list[str] = []
            for i in range(lanes):
                row = self.least(w, w.value(f"add i64 {g.index}, {i}"), last)
                rows.append(self.at(w, "%from", w.value(f"mul i64 {row}, %step")))
            whole = w.value(f"and i64 %depth, {-lanes}")
            with w.loop("0", whole, lanes) as k:
                self._square(w, rows, k.index, g.index, None)
            left = w.value(f"sub i64 %depth, {whole}")
            with w.when(w.value(f"icmp sgt i64 {left}, 0")):
                self._square(w, rows, whole, g.index, self._mask(w, 0, left))
        self._copying(w, "y")

    def _square(self, w: Writer, rows: list[str], k: str, g: str, mask: str | None) -> None:
        vectors = [self._load(w, self.at(w, row, k), mask) for row in rows]
        for q, column in enumerate(self._transposed(w, vectors)):
            line = w.value(f"mul i64 {w.value(f'add i64 {k}, {q}')}, {self.width}")
            to = self.at(w, "%panel", w.value(f"add i64 {line}, {g}"))
            w.do(f"store {self.vector} {column}, ptr {to}, align {self.dtype.bytes}")

    def _transposed(self, w: Writer, rows: list[str]) -> list[str]:
        """A square of vectors, transposed by exchanging halves, quarters, and so on."""
        lanes, distance = self.lanes, 1
        while distance < lanes:
            out = list(rows)
            for i in range(lanes):
                if not i & distance:
                    j = i + distance
                    out[i] = self._shuffle(w, rows[i], rows[j], distance, 0)
                    out[j] = self._shuffle(w, rows[i], rows[j], distance, distance)
            rows, distance = out, distance * 2
        return rows

    def _shuffle(self, w: Writer, x: str, y: str, distance: int, start: int) -> str:
        lanes = self.lanes
        picks = [(at & ~distance) + start + (lanes if at & distance else 0) for at in range(lanes)]
        mask = f"<{lanes} x i32> <{', '.join(f'i32 {p}' for p in picks)}>"
        return w.value(f"shufflevector {self.vector} {x}, {self.vector} {y}, {mask}")
