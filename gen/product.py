"""Matrix products: one function for each element type and transposition, for all sizes.

A block of 96 rows by 64 columns of ``x @ y`` is summed in a small buffer that stays in cache, by
micro kernels that keep their accumulators in registers; then a function of the caller's finishes
it. Every element is one chain of fma over k in order, so neither blocks nor vectors change its
bits. Rows past the end read the last row again; columns past it are masked. A transposed ``y``
is first copied in panels, transposed in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.ir import DType
from dlvm.target import Target

from .emit import Carry, Lines, Text, Writer
from .lanes import llvm_type, splat_text, suffix, vector
from .loops import Local

PANEL = 256  # steps of k that a copied panel holds


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
        self.x_transposed, self.packed = transposed
        self.dtype: DType = tile.dtype
        self.element = llvm_type(tile.dtype)
        self.lanes = target.lanes(tile.dtype.bytes)
        self.vector = vector(self.element, self.lanes)
        self.shapes = micro_shapes(target)

    def write(self) -> None:
        for shape in self.shapes:
            self.micro(shape)
        if self.packed:
            self.pack()
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
        panel = "%y"
        if self.packed:
            panel = w.array(f"[{(PANEL + self.lanes) * self.width} x {self.element}]")
        step = str(PANEL) if self.packed else "%depth"
        w.do("%depth = call i64 @llvm.smax.i64(i64 %k, i64 1)")
        self.text.declarations["llvm.smax.i64"] = "declare i64 @llvm.smax.i64(i64, i64)"
        with w.loop("0", "%n", self.width) as c, w.loop("0", "%m", self.height) as r:
            cols = self.least(w, w.value(f"sub i64 %n, {c.index}"), str(self.width))
            rows = self.least(w, w.value(f"sub i64 %m, {r.index}"), str(self.height))
            with w.loop("0", "%depth", step) as p:
                self._panel(w, p.index, (r.index, rows), (c.index, cols), tile, panel)
            spot = f"i64 {r.index}, i64 {c.index}, i64 {rows}, i64 {cols}"
            w.do(f"call void %finish(ptr {tile}, {spot}, ptr %environment)")
        sizes = "i64 %m, i64 %n, i64 %k, ptr noalias %x, ptr noalias %y"
        header = f"internal void @{self.name}({sizes}, ptr %finish, ptr %environment)"
        self.text.functions[self.name] = w.function(header)

    def _panel(
        self, w: Writer, p: str, r: tuple[str, str], c: tuple[str, str], tile: str, panel: str
    ) -> None:
        """One panel of k for one block."""
        depth = w.value(f"sub i64 %k, {p}")
        if self.packed:
            depth = self.least(w, depth, str(PANEL))
            start = w.value(f"add i64 {w.value(f'mul i64 {c[0]}, %k')}, {p}")
            y, y_step = panel, str(self.width)
            source = self.at(w, "%y", start)
            arguments = f"ptr {source}, i64 %k, i64 {depth}, i64 {c[1]}, ptr {panel}"
            w.do(f"call void @{self.name}.pack({arguments})")
        else:
            start = w.value(f"add i64 {w.value(f'mul i64 {p}, %n')}, {c[0]}")
            y, y_step = self.at(w, "%y", start), "%n"
        along, across = ("%m", "1") if self.x_transposed else ("1", "%k")
        offset = w.value(
            f"add i64 {w.value(f'mul i64 {p}, {along}')}, {w.value(f'mul i64 {r[0]}, {across}')}"
        )
        x, x_step = self.at(w, "%x", offset), "%m" if self.x_transposed else "%k"
        first = w.value(f"icmp eq i64 {p}, 0")
        sides = f"ptr {x}, i64 {x_step}, ptr {y}, i64 {y_step}, ptr {tile}"
        sizes = f"i64 {depth}, i64 {r[1]}, i64 {c[1]}, i1 {first}"
        w.do(f"call void @{self.name}.block({sides}, {sizes})")

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
        """All accumulators in registers; without masks where all columns are there."""
        w = Writer(self.text)
        last = w.value("sub i64 %rows, 1")
        starts: list[str] = []
        for i in range(shape.rows):
            row = self.least(w, str(i), last)
            if not self.x_transposed:
                row = w.value(f"mul i64 {row}, %x.step")
            starts.append(self.at(w, "%x", row))
        if self.packed:
            self._sum(w, shape, starts, None)
        else:
            full = w.value(f"icmp sge i64 %cols, {shape.vectors * self.lanes}")
            with w.when(full):
                self._sum(w, shape, starts, None)
            with w.when(w.value(f"xor i1 {full}, true")):
                masks = [self._mask(w, v * self.lanes) for v in range(shape.vectors)]
                self._sum(w, shape, starts, masks)
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

    # -- copying a transposed operand ------------------------------------------------------

    def pack(self) -> None:
        """Columns of a panel from rows of memory, a square of vectors at a time."""
        w, lanes = Writer(self.text), self.lanes
        last = w.value("sub i64 %cols, 1")
        with w.loop("0", "%cols", lanes) as g:
            rows: list[str] = []
            for i in range(lanes):
                row = self.least(w, w.value(f"add i64 {g.index}, {i}"), last)
                rows.append(self.at(w, "%y", w.value(f"mul i64 {row}, %step")))
            whole = w.value(f"and i64 %depth, {-lanes}")
            with w.loop("0", whole, lanes) as k:
                self._square(w, rows, k.index, g.index, None)
            left = w.value(f"sub i64 %depth, {whole}")
            with w.when(w.value(f"icmp sgt i64 {left}, 0")):
                self._square(w, rows, whole, g.index, self._mask(w, 0, left))
        sides = "ptr noalias %y, i64 %step, i64 %depth, i64 %cols, ptr noalias %panel"
        header = f"internal void @{self.name}.pack({sides})"
        self.text.functions[f"{self.name}.pack"] = w.function(header)

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
