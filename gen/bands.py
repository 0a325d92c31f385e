"""The inner half of a product: one panel of k of one block of columns, band by band of rows.

``bands`` copies x where that pays, a batch of rows at a time, each while the one before it is
summed, and has finished sums made into results while they are in the cache; ``band`` takes a few
rows along all strips of columns, so that they stay near while y comes from the second cache.
``Plan`` is what all functions of a product agree upon.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.ir import DType
from dlvm.target import Target

from .emit import Text, Writer
from .micro import BAND, Shape, Vectors, micro_kernel, shapes
from .packing import copy_function

PANEL = 1 << 19
"""Bytes of a copied panel of y, which stays in the second cache."""
BATCH = 48
"""Rows of x that are copied together (of a transposed x whole lines of a cache) and finished."""
SIDES = "ptr %x, i64 %x.step, i64 %x.along, ptr %y, i64 %y.step, i64 %y.far"
REST = "ptr %sums, i64 %sums.step, i64 %depth, i64 %rows, i64 %cols, i1 %first"
FINISH = "ptr %finish, i64 %row, i64 %col, ptr %environment"
JOB = ("from", "step", "left", "cols", "to")
"""A copy of x that is made in slices: rows in memory, how many are left, where they go."""
POINTERS = ("from", "to")


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
    def copies_x(self) -> bool:
        """Whether x is copied at least sometimes."""
        return self.x_transposed or self.converts

    @property
    def strip(self) -> int:
        """Columns of the widest micro kernel."""
        return self.shapes[0].vectors * self.lanes

    @property
    def depth(self) -> int:
        """Steps of k in a panel: fewer where x is copied for each block of columns anew."""
        return 256 if self.copies_x else 512

    @property
    def width(self) -> int:
        """Columns of a block: as many as a panel holds."""
        return PANEL // self.depth // max(self.dtype.bytes, 4)

    @property
    def x_row(self) -> int:
        """Elements from row to row of a copied x: apart by no power of two."""
        return self.depth + self.lanes

    @property
    def slice(self) -> int:
        """Rows in memory of x that are copied at once."""
        return self.lanes if self.x_transposed else 1

    def vectors(self, w: Writer) -> Vectors:
        """Who writes their loads and sums."""
        return Vectors(w, self.stored, self.lanes)


def write_bands(text: Text, plan: Plan) -> None:
    """``void @bands(SIDES, REST, i1 %copied, FINISH)`` and what it calls."""
    for shape in plan.shapes:
        micro_kernel(text, _micro(shape), shape, plan.stored, plan.lanes)
    if plan.copies_x:
        _slice(text, plan)
    _band(text, plan)
    _bands(text, plan)


def _micro(shape: Shape) -> str:
    return f"micro.{shape.rows}x{shape.vectors}"


# -- all rows ---------------------------------------------------------------------------------


def _bands(text: Text, plan: Plan) -> None:
    w = Writer(text)
    v = plan.vectors(w)
    half = BATCH * plan.x_row
    job, room = w.array(f"[{len(JOB)} x i64]"), "null"
    if plan.copies_x:
        room = w.array(f"[{2 * half} x {v.element}]")
        _next(w, v, plan, job, "0", room)
        w.do(f"call void @slice(ptr {job}, i64 {plan.depth})")
    x_step = w.value(f"select i1 %copied, i64 {plan.x_row}, i64 %x.step")
    x_along = w.value("select i1 %copied, i64 1, i64 %x.along")
    with w.loop("0", "%rows", BATCH) as b:
        rows = _least(w, w.value(f"sub i64 %rows, {b.index}"), BATCH)
        sums = v.at("%sums", w.value(f"mul i64 {b.index}, %sums.step"))
        x = v.at("%x", w.value(f"mul i64 {b.index}, %x.step"), plan.stored)
        if plan.copies_x:
            odd = w.value(f"and i64 {w.value(f'sdiv i64 {b.index}, {BATCH}')}, 1")
            at = w.value(f"mul i64 {odd}, {half}")
            x = w.value(f"select i1 %copied, ptr {v.at(room, at)}, ptr {x}")
            other = v.at(room, w.value(f"sub i64 {half}, {at}"))
            _next(w, v, plan, job, w.value(f"add i64 {b.index}, {BATCH}"), other)
        with w.loop("0", rows, BAND) as i:
            here = _least(w, w.value(f"sub i64 {rows}, {i.index}"), BAND)
            start = v.at(x, w.value(f"mul i64 {i.index}, {x_step}"))
            to = v.at(sums, w.value(f"mul i64 {i.index}, %sums.step"))
            sides = f"ptr {start}, i64 {x_step}, i64 {x_along}, ptr %y, i64 %y.step, i64 %y.far"
            rest = f"ptr {to}, i64 %sums.step, i64 %depth, i64 {here}, i64 %cols, i1 %first"
            w.do(f"call void @band({sides}, {rest}, ptr {job})")
        if plan.copies_x:
            w.do(f"call void @slice(ptr {job}, i64 {plan.depth})")
        with w.when(w.value("icmp ne ptr %finish, null")):
            row = w.value(f"add i64 %row, {b.index}")
            spot = f"i64 {row}, i64 %col, i64 {rows}, i64 %cols"
            w.do(f"call void %finish(ptr {sums}, {spot}, ptr %environment)")
    header = f"internal void @bands({SIDES}, {REST}, i1 %copied, {FINISH})"
    text.functions["bands"] = w.function(header)


def _least(w: Writer, x: str, y: str | int) -> str:
    return w.call("i64", "llvm.smin.i64", ("i64", x), ("i64", str(y)))


# -- copies of x, in slices -------------------------------------------------------------------


def _next(w: Writer, v: Vectors, plan: Plan, job: str, row: str, to: str) -> None:
    """What is to be copied next: a batch of rows from this one on, or nothing."""
    rows = _least(w, w.value(f"sub i64 %rows, {row}"), BATCH)
    lines, cols = ("%depth", rows) if plan.x_transposed else (rows, "%depth")
    there = w.value(f"and i1 %copied, {w.value(f'icmp sgt i64 {rows}, 0')}")
    left = w.value(f"select i1 {there}, i64 {lines}, i64 0")
    start = v.at("%x", w.value(f"mul i64 {row}, %x.step"), plan.stored)
    step = "%x.along" if plan.x_transposed else "%x.step"
    for name, value in zip(JOB, (start, step, left, cols, to), strict=True):
        type_ = "ptr" if name in POINTERS else "i64"
        w.do(f"store {type_} {value}, ptr {_word(w, job, name)}, align 8")


def _word(w: Writer, job: str, name: str) -> str:
    return w.value(f"getelementptr i64, ptr {job}, i64 {JOB.index(name)}")


def _slice(text: Text, plan: Plan) -> None:
    """``void @slice(ptr %job, i64 %most)``: some of the lines that are left."""
    w = Writer(text)
    v = plan.vectors(w)
    places = {name: _word(w, "%job", name) for name in JOB}
    for name, place in places.items():
        type_ = "ptr" if name in POINTERS else "i64"
        w.do(f"%{name} = load {type_}, ptr {place}, align 8")
    with w.when(w.value("icmp sgt i64 %left, 0")):
        lines = w.call("i64", "llvm.smin.i64", ("i64", "%left"), ("i64", "%most"))
        copy = copy_function(text, plan.stored, plan.lanes, plan.strip, plan.x_transposed)
        sizes = ("%cols", lines) if plan.x_transposed else (lines, "%cols")
        sides = f"ptr %from, i64 %step, i64 {sizes[0]}, i64 {sizes[1]}, ptr %to"
        w.do(f"call void @{copy}({sides}, i64 {plan.x_row}, i64 {plan.strip})")
        start = v.at("%from", w.value(f"mul i64 {lines}, %step"), plan.stored)
        along = 1 if plan.x_transposed else plan.x_row
        to = v.at("%to", w.value(f"mul i64 {lines}, {along}"))
        w.do(f"store ptr {start}, ptr {places['from']}, align 8")
        w.do(f"store ptr {to}, ptr {places['to']}, align 8")
        w.do(f"store i64 {w.value(f'sub i64 %left, {lines}')}, ptr {places['left']}, align 8")
    text.functions["slice"] = w.function("internal void @slice(ptr %job, i64 %most)")


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
    text.functions["band"] = w.function(f"internal void @band({SIDES}, {REST}, ptr %job)")


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
    """One call of a micro kernel, and a slice of the next rows of x."""
    if plan.copies_x:
        w.do(f"call void @slice(ptr %job, i64 {plan.slice})")
    x = v.at("%x", w.value(f"mul i64 {r}, %x.step"))
    piece = w.value(f"sdiv i64 {c}, {plan.strip}")
    y = v.at("%y", w.value(f"mul i64 {piece}, %y.far"))
    sums = v.at(v.at("%sums", w.value(f"mul i64 {r}, %sums.step")), c)
    left = f"i64 {w.value(f'sub i64 %rows, {r}')}, i64 {w.value(f'sub i64 %cols, {c}')}"
    w.do(
        f"call void @{_micro(shape)}(ptr {x}, i64 %x.step, i64 %x.along, ptr {y}, i64 %y.step, "
        f"ptr {sums}, i64 %sums.step, i64 %depth, {left}, i1 %first)"
    )
