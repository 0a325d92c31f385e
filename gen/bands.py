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
from .micro import BAND, NARROW, STEPS, Shape, Vectors, micro_kernel, shapes
from .packing import copy_function

PANEL = 1 << 19
"""Bytes of a copied panel of y, which stays in the second cache."""
BATCH = 48
"""Rows of x that are copied together (of a transposed x whole lines of a cache) and finished."""
MOST = 512
"""Steps of k in a panel."""
LINE = 64
"""Bytes of a line of the cache."""
SIDES = "ptr %x, i64 %x.step, i64 %x.far, ptr %y, i64 %y.step, i64 %y.far"
REST = "ptr %sums, i64 %sums.step, i64 %depth, i64 %rows, i64 %cols, i1 %first"
BESIDE = "ptr %job, ptr %wishes, i64 %change, i64 %stop"
FINISH = "ptr %finish, i64 %row, i64 %col, ptr %environment"
JOB = ("from", "step", "left", "cols", "to", "share")
"""A copy of x that is made in slices: rows in memory, how many are left, where they go, and how
many of them are the share of each micro kernel."""
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
        """For a processor; vectors of narrow integers are not wider than those of i32.

        Masks take two lanes at least, which LLVM splits where registers hold one.
        """
        lanes = max(2, target.lanes(max(stored.compute.bytes, 4)))
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
        return MOST // 2 if self.copies_x else MOST

    @property
    def width(self) -> int:
        """Columns of a block: as many as a panel holds."""
        return PANEL // self.depth // max(self.dtype.bytes, 4)

    @property
    def x_row(self) -> int:
        """Elements for a row of a copied x: rows or strips are apart by no power of two."""
        return self.depth + self.lanes

    @property
    def x_lines(self) -> int:
        """Lines of the cache that a row in memory of a batch of a transposed x takes."""
        return -(-BATCH * self.stored.bytes // LINE)

    def vectors(self, w: Writer) -> Vectors:
        """Who writes their loads and sums."""
        return Vectors(w, self.stored, self.lanes)


def write_bands(text: Text, plan: Plan) -> None:
    """``void @bands(SIDES, REST, i1 %copied, i1 %asks, FINISH)`` and what it calls."""
    for shape in plan.shapes:
        asks, t = shape is plan.shapes[0], plan.x_transposed
        micro_kernel(text, _micro(shape), shape, plan.stored, plan.lanes, x_transposed=t, asks=asks)
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
    wishes = _wishes(w, plan, job)
    in_copy = NARROW if plan.x_transposed else plan.x_row
    x_step = w.value(f"select i1 %copied, i64 {in_copy}, i64 %x.step")
    down = "1" if plan.x_transposed else "%x.step"
    in_place = w.value(f"mul i64 {down}, {NARROW}")
    x_far = w.value(f"select i1 %copied, i64 {NARROW * plan.x_row}, i64 {in_place}")
    with w.loop("0", "%rows", BATCH) as b:
        rows = _least(w, w.value(f"sub i64 %rows, {b.index}"), BATCH)
        sums = v.at("%sums", w.value(f"mul i64 {b.index}, %sums.step"))
        x = v.at("%x", w.value(f"mul i64 {b.index}, {down}"), plan.stored)
        if plan.copies_x:
            odd = w.value(f"and i64 {w.value(f'sdiv i64 {b.index}, {BATCH}')}, 1")
            at = w.value(f"mul i64 {odd}, {half}")
            x = w.value(f"select i1 %copied, ptr {v.at(room, at)}, ptr {x}")
            other = v.at(room, w.value(f"sub i64 {half}, {at}"))
            _next(w, v, plan, job, w.value(f"add i64 {b.index}, {BATCH}"), other)
        with w.loop("0", rows, BAND) as i:
            here = _least(w, w.value(f"sub i64 {rows}, {i.index}"), BAND)
            strip = w.value(f"sdiv i64 {i.index}, {NARROW}")
            start = v.at(x, w.value(f"mul i64 {strip}, {x_far}"))
            to = v.at(sums, w.value(f"mul i64 {i.index}, %sums.step"))
            sides = f"ptr {start}, i64 {x_step}, i64 {x_far}, ptr %y, i64 %y.step, i64 %y.far"
            rest = f"ptr {to}, i64 %sums.step, i64 %depth, i64 {here}, i64 %cols, i1 %first"
            w.do(f"call void @band({sides}, {rest}, ptr {job}, {wishes})")
        if plan.copies_x:
            w.do(f"call void @slice(ptr {job}, i64 {plan.depth})")
        with w.when(w.value("icmp ne ptr %finish, null")):
            row = w.value(f"add i64 %row, {b.index}")
            spot = f"i64 {row}, i64 %col, i64 {rows}, i64 %cols"
            w.do(f"call void %finish(ptr {sums}, {spot}, ptr %environment)")
    header = f"internal void @bands({SIDES}, {REST}, i1 %copied, i1 %asks, {FINISH})"
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
    down, step = ("1", "%x.step") if plan.x_transposed else ("%x.step", "%x.step")
    start = v.at("%x", w.value(f"mul i64 {row}, {down}"), plan.stored)
    strips = w.value(f"sdiv i64 {w.value(f'add i64 %cols, {plan.strip - 1}')}, {plan.strip}")
    kernels = w.value(f"mul i64 {strips}, {BATCH // plan.shapes[0].rows}")
    share = w.value(f"add i64 {w.value(f'sdiv i64 {lines}, {kernels}')}, 1")
    for name, value in zip(JOB, (start, step, left, cols, to, share), strict=True):
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
        strip, near, far = plan.strip, plan.x_row, plan.strip
        if plan.x_transposed:
            strip, near, far = NARROW, NARROW, NARROW * plan.x_row
        copy = copy_function(text, plan.stored, plan.lanes, strip, columns=False)
        sides = f"ptr %from, i64 %step, i64 {lines}, i64 %cols, ptr %to"
        w.do(f"call void @{copy}({sides}, i64 {near}, i64 {far})")
        start = v.at("%from", w.value(f"mul i64 {lines}, %step"), plan.stored)
        to = v.at("%to", w.value(f"mul i64 {lines}, {near}"))
        w.do(f"store ptr {start}, ptr {places['from']}, align 8")
        w.do(f"store ptr {to}, ptr {places['to']}, align 8")
        w.do(f"store i64 {w.value(f'sub i64 %left, {lines}')}, ptr {places['left']}, align 8")
    text.functions["slice"] = w.function("internal void @slice(ptr %job, i64 %most)")


# -- what is asked for early ------------------------------------------------------------------


def _wishes(w: Writer, plan: Plan, job: str) -> str:
    """The last parameters of a band: which lines of the cache are asked for at which k.

    All lines of the next kernel's sums, and those of its share of a transposed x.
    """
    wishes = w.array(f"[{MOST} x i64]")
    even = w.value(f"and i64 %depth, {-STEPS}")
    stop = w.value(f"select i1 %asks, i64 {even}, i64 0")
    change = (
        w.value(f"and i64 {w.value(f'lshr i64 {stop}, 1')}, {-STEPS}") if plan.x_transposed else "0"
    )
    if plan.x_transposed:
        change = w.value(f"and i64 {w.value(f'lshr i64 {stop}, 1')}, {-STEPS}")
        share = w.value(f"load i64, ptr {_word(w, job, 'share')}, align 8")
        step = w.value(f"mul i64 %x.step, {plan.stored.bytes}")
        _spread(
            w, wishes, "0", change, w.value(f"mul i64 {share}, {plan.x_lines}"), plan.x_lines, step
        )
    shape = plan.shapes[0]
    step = w.value(f"mul i64 %sums.step, {plan.dtype.bytes}")
    _spread(w, wishes, change, stop, str(shape.rows * shape.vectors), shape.vectors, step)
    return f"ptr {wishes}, i64 {change}, i64 {stop}"


def _spread(
    w: Writer, wishes: str, start: str, stop: str, lines: str, across: int, step: str
) -> None:
    """So many lines of a matrix, so many in a row of it, at the k from ``start`` to ``stop``."""
    with w.loop(start, stop, STEPS) as k:
        turn = w.value(f"mul i64 {w.value(f'sub i64 {k.index}, {start}')}, {lines}")
        line = w.value(f"udiv i64 {turn}, {w.value(f'sub i64 {stop}, {start}')}")
        row = w.value(f"mul i64 {w.value(f'udiv i64 {line}, {across}')}, {step}")
        column = w.value(f"mul i64 {w.value(f'urem i64 {line}, {across}')}, {LINE}")
        at = w.value(f"getelementptr i64, ptr {wishes}, i64 {k.index}")
        w.do(f"store i64 {w.value(f'add i64 {row}, {column}')}, ptr {at}, align 8")


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
    text.functions["band"] = w.function(f"internal void @band({SIDES}, {REST}, {BESIDE})")


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
        share = w.value(f"load i64, ptr {_word(w, '%job', 'share')}, align 8")
        w.do(f"call void @slice(ptr %job, i64 {share})")
    strip = w.value(f"sdiv i64 {r}, {NARROW}")
    x = v.at("%x", w.value(f"mul i64 {strip}, %x.far"))
    piece = w.value(f"sdiv i64 {c}, {plan.strip}")
    y = v.at("%y", w.value(f"mul i64 {piece}, %y.far"))
    sums = v.at(v.at("%sums", w.value(f"mul i64 {r}, %sums.step")), c)
    left = f"i64 {w.value(f'sub i64 %rows, {r}')}, i64 {w.value(f'sub i64 %cols, {c}')}"
    wishes = ""
    if shape is plan.shapes[0]:
        more = w.value(f"icmp slt i64 {w.value(f'add i64 {c}, {plan.strip}')}, %cols")
        down = w.value(f"mul i64 {w.value(f'add i64 {r}, {shape.rows}')}, %sums.step")
        below = v.at("%sums", down)
        later = w.value(f"select i1 {more}, ptr {v.at(sums, plan.strip)}, ptr {below}")
        ask = _rows_of_x(w) if plan.x_transposed else "null"
        wishes = f", ptr {ask}, ptr {later}, ptr %wishes, i64 %change, i64 %stop"
    w.do(
        f"call void @{_micro(shape)}(ptr {x}, i64 %x.step, i64 %x.far, ptr {y}, i64 %y.step, "
        f"ptr {sums}, i64 %sums.step, i64 %depth, {left}, i1 %first{wishes})"
    )


def _rows_of_x(w: Writer) -> str:
    """Where the next slice of x is, if there is one; else near sums, which does no harm."""
    left = w.value(f"load i64, ptr {_word(w, '%job', 'left')}, align 8")
    some = w.value(f"icmp sgt i64 {left}, 0")
    at = w.value(f"load ptr, ptr {_word(w, '%job', 'from')}, align 8")
    return w.value(f"select i1 {some}, ptr {at}, ptr %sums")
