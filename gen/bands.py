"""The inner half of a product: one panel of k of one block of columns, band by band of rows.

``bands`` copies x where that pays, a batch of rows at a time; ``band`` takes a few rows along all
strips of columns, so that they stay in the nearest cache while y comes from the next. ``Plan`` is
what all functions of a product agree upon.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.ir import DType
from dlvm.target import Target

from .emit import Text, Writer
from .micro import BAND, GROUP, Shape, Vectors, micro_kernel, shapes
from .packing import LINE, copy_groups, copy_rows

PANEL = 1 << 19
"""Bytes of a copied panel of y, which stays in the second cache."""
BATCH = 48
"""Rows of x that are copied together: of a transposed x whole lines of a cache."""
SIDES = "ptr %x, i64 %x.step, i64 %x.far, ptr %y, i64 %y.step, i64 %y.far"
REST = "ptr %sums, i64 %sums.step, i64 %depth, i64 %rows, i64 %cols, i1 %first"


@dataclass(frozen=True, slots=True)
class Plan:
    """The types, layouts and sizes of one product on one processor."""

    stored: DType
    x_transposed: bool
    y_transposed: bool
    lanes: int
    shapes: tuple[Shape, ...]

    @staticmethod
    def of(stored: DType, x_transposed: bool, y_transposed: bool, target: Target) -> Plan:
        """For a processor; vectors of narrow integers are not wider than those of i32."""
        lanes = target.lanes(max(stored.compute.bytes, 4))
        return Plan(stored, x_transposed, y_transposed, lanes, shapes(target))

    @property
    def dtype(self) -> DType:
        """The type of the sums."""
        return self.stored.compute

    @property
    def converts(self) -> bool:
        """Whether the operands are of another type, so that they must be copied."""
        return self.stored != self.dtype

    @property
    def strip(self) -> int:
        """Columns of the widest micro kernel."""
        return self.shapes[0].vectors * self.lanes

    @property
    def depth(self) -> int:
        """Steps of k in a panel: fewer where x is copied for each block of columns anew."""
        return 128 if self.x_transposed else 512

    @property
    def width(self) -> int:
        """Columns of a block: as many as a panel holds."""
        return PANEL // self.depth // max(self.dtype.bytes, 4)

    @property
    def x_copied(self) -> tuple[int, int, int]:
        """Of a copied x: elements from row to row or k to k, from group to group, in all.

        Groups are apart by no power of two.
        """
        if self.x_transposed:
            far = (self.depth + 2) * LINE
            return LINE, far, BATCH // GROUP * far
        return self.depth, GROUP * self.depth, BATCH * self.depth

    def vectors(self, w: Writer) -> Vectors:
        """Who writes their loads and sums."""
        return Vectors(w, self.stored, self.lanes)


def write_bands(text: Text, plan: Plan) -> None:
    """``void @bands(SIDES, REST, i1 %copied)`` and what it calls."""
    for shape in plan.shapes:
        micro_kernel(text, _micro(shape), shape, plan.stored, plan.lanes, plan.x_transposed)
    if plan.x_transposed:
        copy_groups(text, "copy.x", plan.stored)
    elif plan.converts:
        copy_rows(text, "copy.x", plan.stored, plan.lanes, plan.strip)
    _band(text, plan)
    _bands(text, plan)


def _micro(shape: Shape) -> str:
    return f"micro.{shape.rows}x{shape.vectors}"


# -- all rows ---------------------------------------------------------------------------------


def _bands(text: Text, plan: Plan) -> None:
    w = Writer(text)
    v = plan.vectors(w)
    room = plan.x_copied[2] + LINE
    lines = w.array(f"[{room} x {v.element}]") if plan.x_transposed or plan.converts else ""
    step = w.value(f"select i1 %copied, i64 {BATCH}, i64 {BAND}")
    with w.loop("0", "%rows", step) as b:
        left = w.value(f"sub i64 %rows, {b.index}")
        rows = w.call("i64", "llvm.smin.i64", ("i64", left), ("i64", step))
        apart = b.index if plan.x_transposed else w.value(f"mul i64 {b.index}, %x.step")
        source = v.at("%x", apart, plan.stored)
        sums = v.at("%sums", w.value(f"mul i64 {b.index}, %sums.step"))
        if lines:
            with w.when("%copied"):
                _copied(w, v, plan, source, lines, sums, rows)
        with w.when(w.value("xor i1 %copied, true")):
            _call(w, f"ptr {source}, i64 %x.step, i64 %x.far", sums, rows)
    text.functions["bands"] = w.function(f"internal void @bands({SIDES}, {REST}, i1 %copied)")


def _copied(
    w: Writer, v: Vectors, plan: Plan, source: str, lines: str, sums: str, rows: str
) -> None:
    """A batch of rows is copied, and then taken band by band."""
    near, far, _ = plan.x_copied
    sizes = f"i64 %depth, i64 {rows}" if plan.x_transposed else f"i64 {rows}, i64 %depth"
    apart = f"i64 {near}, i64 {far if plan.x_transposed else plan.strip}"
    w.do(f"call void @copy.x(ptr {source}, i64 %x.step, {sizes}, ptr {lines}, {apart})")
    with w.loop("0", rows, BAND) as i:
        left = w.value(f"sub i64 {rows}, {i.index}")
        here = w.call("i64", "llvm.smin.i64", ("i64", left), ("i64", str(BAND)))
        group = w.value(f"sdiv i64 {i.index}, {GROUP}")
        x = v.at(lines, w.value(f"mul i64 {group}, {far}"))
        to = v.at(sums, w.value(f"mul i64 {i.index}, %sums.step"))
        _call(w, f"ptr {x}, i64 {near}, i64 {far}", to, here)


def _call(w: Writer, x: str, sums: str, rows: str) -> None:
    y = "ptr %y, i64 %y.step, i64 %y.far"
    sizes = f"i64 %depth, i64 {rows}, i64 %cols, i1 %first"
    w.do(f"call void @band({x}, {y}, ptr {sums}, i64 %sums.step, {sizes})")


# -- one band ---------------------------------------------------------------------------------


def _band(text: Text, plan: Plan) -> None:
    """The widest micro kernel as far as it is not mostly idle, a narrower one for the rest."""
    w = Writer(text)
    v = plan.vectors(w)
    wide, *narrow = plan.shapes
    rest = w.value(f"srem i64 %cols, {plan.strip}")
    whole = w.value(f"sub i64 %cols, {rest}")
    fits = w.value(f"icmp sle i64 {rest}, {narrow[0].vectors * plan.lanes}")
    stop = w.value(f"select i1 {fits}, i64 {whole}, i64 %cols")
    with w.loop("0", "%rows", wide.rows) as r, w.loop("0", stop, plan.strip) as c:
        _strip(w, v, plan, wide, r.index, c.index)
    with w.when(w.value(f"icmp slt i64 {stop}, %cols")):
        _rest(w, v, plan, narrow, whole, rest)
    text.functions["band"] = w.function(f"internal void @band({SIDES}, {REST})")


def _rest(w: Writer, v: Vectors, plan: Plan, narrow: list[Shape], start: str, rest: str) -> None:
    """The narrowest micro kernel that covers what is left of the columns."""
    shape, *narrower = narrow
    if not narrower:
        _strip(w, v, plan, shape, "0", start)
        return
    wide = w.value(f"icmp sgt i64 {rest}, {narrower[0].vectors * plan.lanes}")
    with w.when(wide):
        _strip(w, v, plan, shape, "0", start)
    with w.when(w.value(f"xor i1 {wide}, true")):
        _rest(w, v, plan, narrower, start, rest)


def _strip(w: Writer, v: Vectors, plan: Plan, shape: Shape, r: str, c: str) -> None:
    """One call of a micro kernel."""
    group = w.value(f"sdiv i64 {r}, {GROUP}")
    x = v.at("%x", w.value(f"mul i64 {group}, %x.far"))
    piece = w.value(f"sdiv i64 {c}, {plan.strip}")
    y = v.at("%y", w.value(f"mul i64 {piece}, %y.far"))
    sums = v.at(v.at("%sums", w.value(f"mul i64 {r}, %sums.step")), c)
    left = f"i64 {w.value(f'sub i64 %rows, {r}')}, i64 {w.value(f'sub i64 %cols, {c}')}"
    w.do(
        f"call void @{_micro(shape)}(ptr {x}, i64 %x.step, i64 %x.far, ptr {y}, i64 %y.step, "
        f"ptr {sums}, i64 %sums.step, i64 %depth, {left}, i1 %first)"
    )
