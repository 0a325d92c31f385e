"""The inner half of a product: one panel of k of one block of columns, band by band of rows.

``bands`` has finished sums made into results while they are in the cache; ``band`` takes a few
rows along all strips of columns, so that they stay near while y comes from the second cache, and
asks for the next rows meanwhile. ``Plan`` is what all functions of a product agree upon.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm import cost
from dlvm.gen.loops.statements import CHUNK
from dlvm.gen.schedule import cost as of_kernels
from dlvm.gen.text.lanes import sum_type
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.ir import DType
from dlvm.target import Target

from .micro_kernel import (
    BAND,
    NARROW,
    UNROLLED_STEPS,
    Shape,
    Vectors,
    low_shapes,
    micro_kernel,
    shapes,
)

BATCH = 48
"""Rows that are finished together."""
PANEL_STEPS = CHUNK
"""Steps of k in a panel, at most: each panel is a chunk, whose sums start from zero."""
LINE = 64
"""Bytes of a line of the cache."""
SIDES = "ptr %x, i64 %x.step, i64 %x.far, ptr %y, i64 %y.step, i64 %y.far"
REST = "ptr %sums, i64 %sums.step, i64 %depth, i64 %rows, i64 %cols, i1 %first"
BESIDE = "i64 %share, ptr %wishes, i64 %change, i64 %stop"
"""Lines of the next rows of x that each micro kernel asks for, and when it asks for which."""
FINISH = "ptr %finish, i64 %row, i64 %col, ptr %environment"
SIGNATURE = f"{SIDES}, {REST}, i1 %copied, i1 %asks, {FINISH}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The types, layouts and sizes of one product on one processor."""

    stored: DType
    x_transposed: bool
    y_transposed: bool
    lanes: int
    shapes: tuple[Shape, ...]
    caches: tuple[int, int, int]
    """The bytes of the caches, the nearest first."""
    thread: int
    """Multiplications that are worth a thread."""
    reads: int
    """Elements of the second cache that are worth a thread to read."""
    filled: tuple[bool, bool] = (False, False)
    """Whether x, and whether y, is computed piece by piece."""

    @staticmethod
    def of(
        stored: DType,
        x_transposed: bool,
        y_transposed: bool,
        target: Target,
        filled: tuple[bool, bool] = (False, False),
    ) -> Plan:
        """For a processor; vectors of narrow integers are not wider than those of i32.

        Masks take two lanes at least, which LLVM splits where registers hold one.
        """
        lanes = max(2, target.lanes(max(stored.compute.bytes, 4)))
        machine = target.machine
        caches = machine.cache(1), machine.cache(2), machine.cache(3)
        thread = round(cost.THREAD / cost.PICOSECONDS * machine.rate / of_kernels.FMA) * lanes
        reads = round(cost.THREAD / cost.PICOSECONDS * machine.levels[1].rate) // stored.bytes
        turned, kernels = (x_transposed, y_transposed), shapes(target)
        return Plan(stored, *turned, lanes, kernels, caches, thread, reads, filled)

    @property
    def panel(self) -> int:
        """Bytes of a copied panel of y, which stays in the second cache."""
        return self.caches[1] // 2

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
        return self.x_transposed or self.converts or self.filled[0]

    @property
    def bands(self) -> str:
        """The name of the function of a panel."""
        return f"dlvm.bands.{sum_type(self.stored)}.{'t' if self.x_transposed else 'n'}"

    @property
    def strip(self) -> int:
        """Columns of the widest micro kernel."""
        return self.shapes[0].vectors * self.lanes

    @property
    def width(self) -> int:
        """Columns of a block: as many whole strips as a panel holds, and one at least."""
        columns = self.panel // PANEL_STEPS // max(self.dtype.bytes, 4)
        return max(1, columns // self.strip) * self.strip

    @property
    def height(self) -> int:
        """Rows of a copied x that lie beside one another, at most: a few more than stay near."""
        return 2 * self.caches[1] // PANEL_STEPS // self.dtype.bytes + BATCH

    def x_row(self, w: FunctionWriter, depth: str) -> str:
        """Elements for a row of a copied x: rows or strips are apart by no power of two."""
        up = w.value(f"and i64 {w.value(f'add i64 {depth}, {self.strip - 1}')}, {-self.strip}")
        return w.value(f"add i64 {up}, {self.lanes}")

    def vectors(self, w: FunctionWriter) -> Vectors:
        """Who writes their loads and sums."""
        return Vectors(w, self.stored, self.lanes)


def write_bands(text: Text, plan: Plan) -> None:
    """``void @BANDS(SIGNATURE)`` and what it calls: one object file, whichever way y lies."""
    for shape in (*plan.shapes, *low_shapes(plan.shapes[0])):
        asks, t = shape is plan.shapes[0], plan.x_transposed
        micro_kernel(text, _micro(shape), shape, plan.stored, plan.lanes, x_transposed=t, asks=asks)
    _band(text, plan)
    _bands(text, plan)


def _micro(shape: Shape) -> str:
    return f"micro.{shape.rows}x{shape.vectors}"


# -- all rows ---------------------------------------------------------------------------------


def _bands(text: Text, plan: Plan) -> None:
    w = FunctionWriter(text)
    v = plan.vectors(w)
    beside = _wishes(w, plan)
    row = plan.x_row(w, "%depth")
    in_copy = NARROW if plan.x_transposed else row
    x_step = w.value(f"select i1 %copied, i64 {in_copy}, i64 %x.step")
    down = "1" if plan.x_transposed else "%x.step"
    in_place = w.value(f"mul i64 {down}, {NARROW}")
    x_far = w.value(f"select i1 %copied, i64 {w.value(f'mul i64 {row}, {NARROW}')}, i64 {in_place}")
    with w.loop("0", "%rows", BATCH) as b:
        rows = _least(w, w.value(f"sub i64 %rows, {b.index}"), BATCH)
        sums = v.at("%sums", w.value(f"mul i64 {b.index}, %sums.step"))
        with w.loop("0", rows, BAND) as i:
            here = _least(w, w.value(f"sub i64 {rows}, {i.index}"), BAND)
            strip = w.value(f"sdiv i64 {w.value(f'add i64 {b.index}, {i.index}')}, {NARROW}")
            start = v.at("%x", w.value(f"mul i64 {strip}, {x_far}"))
            to = v.at(sums, w.value(f"mul i64 {i.index}, %sums.step"))
            sides = f"ptr {start}, i64 {x_step}, i64 {x_far}, ptr %y, i64 %y.step, i64 %y.far"
            rest = f"ptr {to}, i64 %sums.step, i64 %depth, i64 {here}, i64 %cols, i1 %first"
            w.do(f"call void @band({sides}, {rest}, {beside})")
        with w.when(w.value("icmp ne ptr %finish, null")):
            row = w.value(f"add i64 %row, {b.index}")
            spot = f"i64 {row}, i64 %col, i64 {rows}, i64 %cols"
            w.do(f"call void %finish(ptr {sums}, {spot}, ptr %environment)")
    text.functions[plan.bands] = w.function(f"void @{plan.bands}({SIGNATURE})")


def _least(w: FunctionWriter, x: str, y: str | int) -> str:
    return w.call("i64", "llvm.smin.i64", ("i64", x), ("i64", str(y)))


# -- what is asked for early ------------------------------------------------------------------


def _wishes(w: FunctionWriter, plan: Plan) -> str:
    """The last parameters of a band: which lines of the cache are asked for at which k.

    Its share of the next rows of a copied x, and all lines of the next kernel's sums.
    """
    wishes = w.array(f"[{PANEL_STEPS} x i64]")
    even = w.value(f"and i64 %depth, {-UNROLLED_STEPS}")
    stop = w.value(f"select i1 %asks, i64 {even}, i64 0")
    change = share = "0"
    if plan.x_transposed:
        change = w.value(f"and i64 {w.value(f'lshr i64 {stop}, 1')}, {-UNROLLED_STEPS}")
        lines = w.value(
            f"sdiv i64 {w.value(f'mul i64 %depth, {NARROW * plan.dtype.bytes}')}, {LINE}"
        )
        kernels = w.value(f"sdiv i64 {w.value(f'add i64 %cols, {plan.strip - 1}')}, {plan.strip}")
        share = w.value(f"add i64 {w.value(f'sdiv i64 {lines}, {kernels}')}, 1")
        _spread(w, wishes, "0", change, share, 1, str(LINE))
    shape = plan.shapes[0]
    step = w.value(f"mul i64 %sums.step, {plan.dtype.bytes}")
    _spread(w, wishes, change, stop, str(shape.rows * shape.vectors), shape.vectors, step)
    return f"i64 {share}, ptr {wishes}, i64 {change}, i64 {stop}"


def _spread(
    w: FunctionWriter, wishes: str, start: str, stop: str, lines: str, across: int, step: str
) -> None:
    """Spreads the lines of a matrix, ``across`` in a row, over the k from ``start`` to ``stop``."""
    with w.loop(start, stop, UNROLLED_STEPS) as k:
        turn = w.value(f"mul i64 {w.value(f'sub i64 {k.index}, {start}')}, {lines}")
        line = w.value(f"udiv i64 {turn}, {w.value(f'sub i64 {stop}, {start}')}")
        row = w.value(f"mul i64 {w.value(f'udiv i64 {line}, {across}')}, {step}")
        column = w.value(f"mul i64 {w.value(f'urem i64 {line}, {across}')}, {LINE}")
        at = w.step("i64", wishes, k.index)
        w.store("i64", w.value(f"add i64 {row}, {column}"), at, 8)


# -- one band ---------------------------------------------------------------------------------


def _band(text: Text, plan: Plan) -> None:
    """The widest micro kernel as far as it is not mostly idle, lower and narrower ones besides."""
    w = FunctionWriter(text)
    v = plan.vectors(w)
    wide, *narrow = plan.shapes
    rest = w.value(f"srem i64 %cols, {plan.strip}")
    whole = w.value(f"sub i64 %cols, {rest}")
    fits = w.value(f"icmp sle i64 {rest}, {narrow[0].vectors * plan.lanes}")
    stop = w.value(f"select i1 {fits}, i64 {whole}, i64 %cols")
    begin = "0"
    for shape, end in zip((wide, *low_shapes(wide)), _row_ends(w, plan), strict=True):
        with w.loop(begin, end, shape.rows) as r, w.loop("0", stop, plan.strip) as c:
            _strip(w, v, plan, shape, r.index, c.index)
        begin = end
    with w.when(w.value(f"icmp slt i64 {stop}, %cols")):
        _rest(w, v, plan, narrow, whole, rest)
    text.functions["band"] = w.function(f"internal void @band({SIDES}, {REST}, {BESIDE})")


def _row_ends(w: FunctionWriter, plan: Plan) -> tuple[str, str, str]:
    """Up to which rows of a band the widest kernel goes, and up to which one of four rows.

    Six rows and two are four twice, unless rows of x lie in strips.
    """
    wide, low = plan.shapes[0], low_shapes(plan.shapes[0])
    left = w.value(f"srem i64 %rows, {wide.rows}")
    few = w.value(f"icmp sle i64 {left}, {low[1].rows}")
    none = w.value(f"icmp eq i64 {left}, 0")
    whole = w.value(f"sub i64 %rows, {left}")
    taller = w.value(f"icmp sgt i64 {left}, {low[0].rows}")
    full = w.value(f"select i1 {taller}, i64 %rows, i64 {whole}")
    four = w.value(f"select i1 {few}, i64 {full}, i64 %rows")
    if plan.x_transposed:
        return full, four, "%rows"
    twice = w.value(f"and i1 {few}, {w.value(f'xor i1 {none}, true')}")
    twice = w.value(f"and i1 {twice}, {w.value(f'icmp sgt i64 {whole}, 0')}")
    return (
        w.value(f"select i1 {twice}, i64 0, i64 {full}"),
        w.value(f"select i1 {twice}, i64 %rows, i64 {four}"),
        "%rows",
    )


def _rest(
    w: FunctionWriter, v: Vectors, plan: Plan, narrow: list[Shape], start: str, rest: str
) -> None:
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


def _strip(w: FunctionWriter, v: Vectors, plan: Plan, shape: Shape, r: str, c: str) -> None:
    """One call of a micro kernel."""
    down = "%x.far" if plan.x_transposed else "%x.step"
    count = w.value(f"sdiv i64 {r}, {NARROW}") if plan.x_transposed else r
    x = v.at("%x", w.value(f"mul i64 {count}, {down}"))
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
        line = w.value(f"mul i64 {w.value(f'mul i64 {piece}, %share')}, {LINE}")
        ask = w.step("i8", v.at(x, "%x.far"), line)
        wishes = f", ptr {ask}, ptr {later}, ptr %wishes, i64 %change, i64 %stop"
    w.do(
        f"call void @{_micro(shape)}(ptr {x}, i64 %x.step, i64 %x.far, ptr {y}, i64 %y.step, "
        f"ptr {sums}, i64 %sums.step, i64 %depth, {left}, i1 %first{wishes})"
    )
