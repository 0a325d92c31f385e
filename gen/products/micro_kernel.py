"""The inner kernels of products: a few rows and columns, summed over k in registers.

``Vectors`` writes the loads, stores and sums of one product's element type. A micro kernel adds
``x @ y`` to a piece of the sums in memory, or starts it: each element is one chain of fma over k
in order (of multiplications and additions for integers, which wrap), from zero. Rows past the end
compute row 0 again and are not written; columns past it are masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from dlvm.gen.text.access import vector
from dlvm.gen.text.lanes import llvm_type, multiply_add, splat_text
from dlvm.gen.text.module import Carry, FunctionWriter, Text
from dlvm.ir import BF16, F16, DType
from dlvm.target import Target

NARROW = 6
"""Rows of the widest micro kernel: where rows lie at powers of two from one another, six keep to
their ways of a cache."""
BAND = 12
"""Rows that all micro kernels together step over; each takes a divisor of it."""
UNROLLED_STEPS = 2
"""Steps of k that are written out where nothing is masked: with four, addresses would take more
registers than there are."""


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


def low_shapes(wide: Shape) -> tuple[Shape, ...]:
    """From tall to low, for what is left of the rows where fewer than the widest takes are left."""
    return (Shape(4, wide.vectors), Shape(2, wide.vectors))


def thin_shapes(target: Target) -> tuple[Shape, ...]:
    """For one row and for two: as many chains as registers hold beside a row of y."""
    chains = target.registers // 2
    return (Shape(1, chains), Shape(2, chains // 2))


class Vectors:
    """Vectors of the type in which a product sums, from memory of the type of its operands."""

    def __init__(self, w: FunctionWriter, stored: DType, lanes: int) -> None:
        self.w, self.stored, self.lanes = w, stored, lanes
        self.dtype = stored.compute
        self.element = llvm_type(self.dtype)
        self.type = vector(self.element, lanes)
        self.truth = vector("i1", lanes)

    def at(self, pointer: str, offset: str | int, dtype: DType | None = None) -> str:
        """The address of an element."""
        element = llvm_type(dtype or self.dtype)
        return self.w.step(element, pointer, offset)

    def mask(self, start: int, size: str) -> str:
        """Which of the lanes from ``start`` on are below a size."""
        counting = ", ".join(f"i32 {start + i}" for i in range(self.lanes))
        narrow = self.w.value(f"trunc i64 {size} to i32")
        all_ = splat_text(self.w, "i32", narrow, self.lanes)
        return self.w.value(f"icmp slt {vector('i32', self.lanes)} <{counting}>, {all_}")

    def load(self, pointer: str, mask: str | None = None, dtype: DType | None = None) -> str:
        """A vector; zeros where the mask is off."""
        dtype = dtype or self.dtype
        return self.w.load_lanes(llvm_type(dtype), self.lanes, pointer, dtype.bytes, mask)

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
        self.w.store_lanes(self.element, self.lanes, x, pointer, self.dtype.bytes, mask)

    def prefetch(self, pointer: str, *, to_write: bool = False) -> None:
        """Bring a line of the cache near; an address that is not there does no harm."""
        use = (("i32", str(int(to_write))), ("i32", "3"), ("i32", "1"))
        self.w.call("void", "llvm.prefetch.p0", ("ptr", pointer), *use)

    def splat(self, pointer: str) -> str:
        """One element in every lane."""
        x = self.w.load(self.element, pointer, self.dtype.bytes)
        return splat_text(self.w, self.element, x, self.lanes)

    def add(self, x: str, y: str) -> str:
        """x + y: rounded, or modulo 2**bits."""
        return self.w.value(f"{'fadd' if self.dtype.is_float else 'add'} {self.type} {x}, {y}")

    def multiply_add(self, x: str, y: str, z: str) -> str:
        """x*y + z: rounded once where the processor can, or modulo 2**bits."""
        if self.dtype.is_float:
            return multiply_add(self.w, self.element, self.lanes, x, y, z)
        product = self.w.value(f"mul {self.type} {x}, {y}")
        return self.w.value(f"add {self.type} {product}, {z}")


SIDES = "ptr noalias %x, i64 %x.step, i64 %x.far, ptr noalias %y, i64 %y.step"
SUMS = "ptr noalias %sums, i64 %sums.step"
SIZES = "i64 %depth, i64 %rows, i64 %cols, i1 %first"
WISHES = "ptr %ask, ptr %next, ptr %wishes, i64 %change, i64 %stop"
"""What is asked for: near ``ask`` in the steps of k before ``change``, near ``next`` from there to
``stop``; for each step there stands at ``wishes`` how many bytes further a line of the cache is."""


def micro_kernel(
    text: Text,
    name: str,
    shape: Shape,
    stored: DType,
    lanes: int,
    *,
    x_transposed: bool,
    asks: bool = False,
) -> None:
    """``void @NAME(SIDES, SUMS, SIZES)``: sums += x @ y, or sums = x @ y at the ``first`` k.

    Element (i, k) of x lies at ``i * x.step + k``; of a transposed x, whose rows lie in strips, at
    ``i // NARROW * x.far + k * x.step + i % NARROW``. One that ``asks`` has ``WISHES`` besides, and
    needs no masks for whole pieces.
    """
    v = Vectors(FunctionWriter(text), stored, lanes)
    _Micro(text, name, shape, v, x_transposed, asks).write()


@dataclass(slots=True)
class _Micro:
    """Writes one kernel; ``down`` is how far its rows of x are from the first."""

    text: Text
    name: str
    shape: Shape
    v: Vectors
    x_transposed: bool
    asks: bool
    down: Sequence[str] = ()

    def write(self) -> None:
        """Whole pieces without masks, and others."""
        w, v, rows = self.v.w, self.v, range(self.shape.rows)
        exists = ["true", *(w.value(f"icmp sgt i64 %rows, {i}") for i in rows[1:])]
        masked = nullcontext()
        if self.asks:  # the others are for what is left, which mostly needs masks, or small
            wide = w.value(f"icmp sge i64 %cols, {self.shape.vectors * v.lanes}")
            whole = w.value(f"and i1 {wide}, {exists[-1]}")
            with w.when(whole):
                # all rows exist, but LLVM would compute multiples of a step anew at each k; what is
                # selected stays in registers
                near = ["true"] * len(rows) if self.x_transposed else exists
                self.down = [self._down(i, near[i]) for i in rows]
                self._sum(None, exists)
            masked = w.when(w.value(f"xor i1 {whole}, true"))
        with masked:
            self.down = [self._down(i, exists[i]) for i in rows]
            self._sum([v.mask(j * v.lanes, "%cols") for j in range(self.shape.vectors)], exists)
        wishes = f", {WISHES}" if self.asks else ""
        header = f"internal void @{self.name}({SIDES}, {SUMS}, {SIZES}{wishes})"
        self.text.functions[self.name] = w.function(header)

    def _down(self, i: int, exists: str) -> str:
        """How far row i of x is from the first."""
        if not self.x_transposed:
            return self._far("%x.step", i, exists)
        w, (strip, inside) = self.v.w, divmod(i, NARROW)
        offset = w.value(f"mul i64 %x.far, {strip}") if strip else "0"
        return w.value(f"select i1 {exists}, i64 {w.value(f'add i64 {offset}, {inside}')}, i64 0")

    def _far(self, step: str, i: int, exists: str = "true") -> str:
        """How far row i is from the first, which is read in its place if it does not exist."""
        offset = self.v.w.value(f"mul i64 {step}, {i}")
        return self.v.w.value(f"select i1 {exists}, i64 {offset}, i64 0")

    def _sum(self, masks: list[str] | None, exists: list[str]) -> None:
        """Accumulators from zero, all of k, added to what is in memory but at the first k."""
        v, wide = self.v, self.shape.vectors
        at = [v.at("%sums", self._far("%sums.step", i, there)) for i, there in enumerate(exists)]
        where = masks or [None] * wide

        def load() -> list[str]:
            return [v.load(v.at(row, j * v.lanes), where[j]) for row in at for j in range(wide)]

        zeros = ["zeroinitializer"] * (len(at) * wide)
        sums = [Carry(v.type, "", now=start) for start in zeros]
        sums = self._quick(sums) if masks is None else self._steps(sums, "0", "%depth", masks)
        here = [c.now for c in sums]

        def added() -> list[str]:
            return [v.add(before, now) for before, now in zip(load(), here, strict=True)]

        here = v.w.maybe_all(v.w.value("xor i1 %first, true"), v.type, here, added)
        for i, row in enumerate(at):
            with v.w.when(exists[i]) if masks else nullcontext():
                for j, c in enumerate(here[i * wide : (i + 1) * wide]):
                    v.store(c, v.at(row, j * v.lanes), where[j])

    def _quick(self, sums: list[Carry]) -> list[Carry]:
        """All k without masks; what comes next is asked for meanwhile.

        Line by line, as one that comes from far takes one of the few places through which rows of
        y come too: first x, if it is copied, and then the sums of the next kernel. Where there
        are too few k for that, all the sums at once.
        """
        w, v = self.v.w, self.v
        with w.when(w.value("icmp eq i64 %stop, 0")):
            for i in range(self.shape.rows):
                row = v.at("%next", w.value(f"mul i64 %sums.step, {i}"))
                for j in range(self.shape.vectors):
                    v.prefetch(v.at(row, j * v.lanes), to_write=True)
        change = "0"
        if self.x_transposed:
            change = "%change"
            sums = self._steps(sums, "0", change, None, UNROLLED_STEPS, "%ask")
        sums = self._steps(sums, change, "%stop", None, UNROLLED_STEPS, "%next")
        return self._steps(sums, "%stop", "%depth", None)

    def _steps(
        self,
        sums: list[Carry],
        start: str,
        stop: str,
        masks: list[str] | None,
        count: int = 1,
        wished: str = "",
    ) -> list[Carry]:
        """Steps of k, several in a turn, each of which prefetches a line near an address."""
        w, v, along = self.v.w, self.v, "%x.step" if self.x_transposed else "1"
        x = v.at("%x", w.value(f"mul i64 {start}, {along}"))
        y = v.at("%y", w.value(f"mul i64 {start}, %y.step"))
        wishes = w.step("i64", "%wishes", start) if wished else ""
        carried = [Carry(c.type, c.now) for c in sums]
        with w.loop("0", w.value(f"sub i64 {stop}, {start}"), count, carried) as k:
            if wished:
                line = w.step("i64", wishes, k.index)
                line = w.load("i64", line, 8)
                line = w.step("i8", wished, line)
                v.prefetch(line, to_write=wished == "%next")
            for i in range(count):
                here = w.value(f"add i64 {k.index}, {i}")
                right = v.at(x, w.value(f"mul i64 {here}, {along}"))
                self._step(right, v.at(y, w.value(f"mul i64 {here}, %y.step")), masks, carried)
        return carried

    def _step(self, x: str, y: str, masks: list[str] | None, carried: list[Carry]) -> None:
        """One k: a row of y in vectors, times one element of each row of x."""
        v, wide = self.v, self.shape.vectors
        ys = [v.load(v.at(y, j * v.lanes), masks[j] if masks else None) for j in range(wide)]
        for i, down in enumerate(self.down):
            each = v.splat(v.at(x, down))
            for j, row in enumerate(ys):
                c = carried[i * wide + j]
                c.next = v.multiply_add(each, row, c.next)
