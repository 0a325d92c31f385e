"""The inner kernels of products: a few rows and columns, summed over k in registers.

``Vectors`` writes the loads, stores and sums of one product's element type. A micro kernel adds
``x @ y`` to a piece of the accumulators in memory, or starts it: each element is one chain of fma
over k in order (of multiplications and additions for integers, which wrap). Rows past the end
compute row 0 again and are not written; columns past it are masked.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.ir import BF16, F16, DType
from dlvm.target import Target

from .emit import Carry, Text, Writer
from .lanes import llvm_type, splat_text, suffix, vector

BAND = 12
"""Rows that all micro kernels together step over; each takes a divisor of it."""
NARROW = 6
"""Rows of the widest micro kernel: where rows lie at powers of two from one another, six keep to
their ways of a cache."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows of accumulators, and vectors in each."""

    rows: int
    vectors: int


def shapes(target: Target) -> tuple[Shape, ...]:
    """From wide to narrow, for what is left of the columns: as much as registers hold."""
    wide = Shape(NARROW, 4 if target.registers >= 32 else 2)
    rests = (Shape(BAND, 2),) if target.registers >= 32 else ()
    return (wide, *rests, Shape(BAND, 1))


class Vectors:
    """Vectors of the type in which a product sums, from memory of the type of its operands."""

    def __init__(self, w: Writer, stored: DType, lanes: int) -> None:
        self.w, self.stored, self.lanes = w, stored, lanes
        self.dtype = stored.compute
        self.element = llvm_type(self.dtype)
        self.type = vector(self.element, lanes)
        self.truth = vector("i1", lanes)

    def at(self, pointer: str, offset: str | int, dtype: DType | None = None) -> str:
        """The address of an element."""
        element = llvm_type(dtype or self.dtype)
        return self.w.value(f"getelementptr {element}, ptr {pointer}, i64 {offset}")

    def mask(self, start: int, size: str) -> str:
        """Which of the lanes from ``start`` on are below a size."""
        counting = ", ".join(f"i32 {start + i}" for i in range(self.lanes))
        narrow = self.w.value(f"trunc i64 {size} to i32")
        all_ = splat_text(self.w, "i32", narrow, self.lanes)
        return self.w.value(f"icmp slt {vector('i32', self.lanes)} <{counting}>, {all_}")

    def load(self, pointer: str, mask: str | None = None, dtype: DType | None = None) -> str:
        """A vector; zeros where the mask is off."""
        dtype = dtype or self.dtype
        element, align = llvm_type(dtype), dtype.bytes
        type_ = vector(element, self.lanes)
        if mask is None:
            return self.w.value(f"load {type_}, ptr {pointer}, align {align}")
        name = f"llvm.masked.load.{suffix(element, self.lanes)}.p0"
        where = (("i32", str(align)), (self.truth, mask), (type_, "zeroinitializer"))
        return self.w.call(type_, name, ("ptr", pointer), *where)

    def fetch(self, pointer: str, mask: str | None = None) -> str:
        """A vector of an operand, in the type of the sum."""
        found = self.load(pointer, mask, self.stored)
        if self.stored == F16:
            return self.w.value(f"fpext {vector('half', self.lanes)} {found} to {self.type}")
        if self.stored == BF16:
            bits = vector("i32", self.lanes)
            wide = self.w.value(f"zext {vector('i16', self.lanes)} {found} to {bits}")
            high = self.w.value(f"shl {bits} {wide}, {splat_text(self.w, 'i32', '16', self.lanes)}")
            return self.w.value(f"bitcast {bits} {high} to {self.type}")
        return found

    def store(self, x: str, pointer: str, mask: str | None = None) -> None:
        """Write a vector, where the mask is on."""
        align = self.dtype.bytes
        if mask is None:
            self.w.do(f"store {self.type} {x}, ptr {pointer}, align {align}")
            return
        name = f"llvm.masked.store.{suffix(self.element, self.lanes)}.p0"
        where = (("ptr", pointer), ("i32", str(align)), (self.truth, mask))
        self.w.call("void", name, (self.type, x), *where)

    def prefetch(self, pointer: str, *, to_write: bool = False) -> None:
        """Bring a line of the cache near; an address that is not there does no harm."""
        use = (("i32", str(int(to_write))), ("i32", "3"), ("i32", "1"))
        self.w.call("void", "llvm.prefetch.p0", ("ptr", pointer), *use)

    def splat(self, pointer: str) -> str:
        """One element in every lane."""
        x = self.w.value(f"load {self.element}, ptr {pointer}, align {self.dtype.bytes}")
        return splat_text(self.w, self.element, x, self.lanes)

    def multiply_add(self, x: str, y: str, z: str) -> str:
        """x*y + z: rounded once, or modulo 2**bits."""
        if self.dtype.is_float:
            operands = ((self.type, t) for t in (x, y, z))
            return self.w.call(self.type, f"llvm.fma.{suffix(self.element, self.lanes)}", *operands)
        product = self.w.value(f"mul {self.type} {x}, {y}")
        return self.w.value(f"add {self.type} {product}, {z}")


SIDES = "ptr noalias %x, i64 %x.step, i64 %x.along, ptr noalias %y, i64 %y.step"
SUMS = "ptr noalias %sums, i64 %sums.step"
SIZES = "i64 %depth, i64 %rows, i64 %cols, i1 %first"


def micro_kernel(text: Text, name: str, shape: Shape, stored: DType, lanes: int) -> None:
    """``void @NAME(SIDES, SUMS, SIZES)``: sums += x @ y, or sums = x @ y at the ``first`` k.

    Element (i, k) of x lies at ``i * x.step + k * x.along``.
    """
    _Micro(text, name, shape, stored, lanes).write()


class _Micro:
    def __init__(self, text: Text, name: str, shape: Shape, stored: DType, lanes: int) -> None:
        self.w = Writer(text)
        self.v = Vectors(self.w, stored, lanes)
        self.text, self.name, self.shape = text, name, shape

    def write(self) -> None:
        """Whole pieces without masks, and others."""
        w, shape = self.w, self.shape
        far = [w.value(f"icmp sgt i64 %rows, {i}") for i in range(1, shape.rows)]
        exists = ["true", *far]
        self.xs = [self._row_of_x(i, exists[i]) for i in range(shape.rows)]
        self.rows = [self._row_of_sums(i, exists[i]) for i in range(shape.rows)]
        wide = w.value(f"icmp sge i64 %cols, {shape.vectors * self.v.lanes}")
        whole = w.value(f"and i1 {wide}, {exists[-1]}")
        with w.when(whole):
            self._sum(None, exists)
        with w.when(w.value(f"xor i1 {whole}, true")):
            masks = [self.v.mask(v * self.v.lanes, "%cols") for v in range(shape.vectors)]
            self._sum(masks, exists)
        header = f"internal void @{self.name}({SIDES}, {SUMS}, {SIZES})"
        self.text.functions[self.name] = w.function(header)

    def _row_of_x(self, i: int, exists: str) -> str:
        offset = self.w.value(f"mul i64 %x.step, {i}")
        return self.v.at("%x", self.w.value(f"select i1 {exists}, i64 {offset}, i64 0"))

    def _row_of_sums(self, i: int, exists: str) -> str:
        offset = self.w.value(f"mul i64 %sums.step, {i}")
        return self.v.at("%sums", self.w.value(f"select i1 {exists}, i64 {offset}, i64 0"))

    def _sum(self, masks: list[str] | None, exists: list[str]) -> None:
        """Accumulators from memory or zero, all of k, and back to memory."""
        w, shape, v = self.w, self.shape, self.v
        each = [(i, j) for i in range(shape.rows) for j in range(shape.vectors)]
        zeros = ["zeroinitializer"] * len(each)
        before = w.maybe_all(
            w.value("xor i1 %first, true"),
            v.type,
            zeros,
            lambda: [
                v.load(v.at(self.rows[i], j * v.lanes), masks[j] if masks else None)
                for i, j in each
            ],
        )
        for i, j in each:  # the sums of the next kernel, which this one gives time to come
            v.prefetch(v.at(self.rows[i], (shape.vectors + j) * v.lanes), to_write=True)
        carried = [Carry(v.type, start) for start in before]
        with w.loop("0", "%depth", 1, carried) as k:
            self._step(k.index, masks, carried)
        if masks is None:
            for (i, j), c in zip(each, carried, strict=True):
                v.store(c.now, v.at(self.rows[i], j * v.lanes))
            return
        for i in range(shape.rows):
            with w.when(exists[i]):
                for j in range(shape.vectors):
                    now = carried[i * shape.vectors + j].now
                    v.store(now, v.at(self.rows[i], j * v.lanes), masks[j])

    def _step(self, k: str, masks: list[str] | None, carried: list[Carry]) -> None:
        """One k: a row of y in vectors, times one element of each row of x."""
        w, v = self.w, self.v
        row = v.at("%y", w.value(f"mul i64 {k}, %y.step"))
        ys = [
            v.load(v.at(row, j * v.lanes), masks[j] if masks else None)
            for j in range(self.shape.vectors)
        ]
        along = w.value(f"mul i64 {k}, %x.along")
        for i, start in enumerate(self.xs):
            x = v.splat(v.at(start, along))
            for j, y in enumerate(ys):
                c = carried[i * self.shape.vectors + j]
                c.next = v.multiply_add(x, y, c.now)
