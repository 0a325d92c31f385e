"""Panels of a product: blocks of columns, of each one panel of k after the other.

The sums lie in the result itself, or in a tile where that is not possible. A y that is far or
turned is copied for each block of columns and panel of k, and stays in the second cache. An x that
must be copied is copied once: the rows of a part, as many as stay near, panel of k by panel, and
with each all blocks of columns. Only the rows of a tile are copied for each tile anew.
"""

from __future__ import annotations

from dlvm.gen.runtime.interrupts import ask_in_kernel, halted
from dlvm.gen.text.module import FunctionWriter, Text, declaration

from .macro_kernel import BATCH, PANEL_STEPS, SIGNATURE, Plan
from .matrix_vector import COPIED_FROM
from .micro_kernel import NARROW
from .sources import Piece, Sources, ceiling, least

SIDES = ("m", "n", "k", "chunk", "x", "x.step", "y", "y.step")
FILLS = ("x.fill", "x.unit", "y.fill", "y.unit")
WORDS = (*SIDES, "out", "out.step", "finish", "environment", "context", *FILLS)
"""Sizes, and the terms of a chain; where the operands lie and how far their rows in memory are
apart; where the sums may lie (null: in tiles); the function that is called with each piece of the
finished sums, unless it is null, and the environment that it is given; the context of the call; the
functions that compute pieces of operands which are not in memory, in the same environment, and the
elements of a unit."""
POINTERS = ("x", "y", "out", "finish", "environment", "context", "x.fill", "y.fill")
TIMES = 3
"""Of how many multiplications, as a power of two, a vector is done with one byte's time."""
NEAR_COPIED_FROM = 128
"""Rows of x from which on it is better to copy a y whose rows lie along, in the third cache."""
DEEP = 32
"""Steps of k in which the lines of one tile can be asked for one by one."""


class Panels:
    """Writes what of a product is done by one thread, and knows the words of its call."""

    def __init__(self, text: Text, plan: Plan, tile: tuple[int, int]) -> None:
        self.text, self.plan, self.tile = text, plan, tile
        self.sources = Sources(text, plan)

    # -- the call ------------------------------------------------------------------------------

    def words(self, w: FunctionWriter, *names: str) -> None:
        """Words of the call, under their names."""
        for name in names:
            at = w.step("i64", "%call", WORDS.index(name))
            w.load("ptr" if name in POINTERS else "i64", at, 8, name=f"%{name}")

    def function(
        self, w: FunctionWriter, name: str, parameters: str, linkage: str = "internal "
    ) -> None:
        """Finish a function."""
        self.text.functions[name] = w.function(f"{linkage}void @{name}({parameters})")

    # -- what is copied ------------------------------------------------------------------------

    def copied(self, w: FunctionWriter) -> tuple[str, str]:
        """Whether x, and whether y, is read through copies."""
        plan = self.plan
        x = y = "true"
        if not plan.converts:
            x = self.large(w, "%m", "%n", COPIED_FROM) if plan.x_transposed else "false"
            y = "true" if plan.y_transposed else self.copied_y(w)
        filled = plan.filled
        return "true" if filled[0] else x, "true" if filled[1] else y

    def copied_y(self, w: FunctionWriter) -> str:
        """Whether y, whose rows lie along, is better copied: more rows use one that is near."""
        far = self.over(w, "%n", self.plan.caches[2])
        users = w.value(f"select i1 {far}, i64 {COPIED_FROM}, i64 {NEAR_COPIED_FROM}")
        return self.large(w, "%n", "%m", users)

    def large(self, w: FunctionWriter, size: str, users: str, least: str | int) -> str:
        """Whether an operand is better copied: many use it, and the first cache is too small."""
        many = w.value(f"icmp sge i64 {users}, {least}")
        return w.value(f"and i1 {self.over(w, size, self.plan.caches[0])}, {many}")

    def over(self, w: FunctionWriter, size: str, bytes_: int) -> str:
        """Whether an operand with this many rows or columns has more bytes than this."""
        elements = w.value(f"mul i64 %k, {size}")
        return w.value(f"icmp sgt i64 {elements}, {bytes_ // self.plan.stored.bytes}")

    # -- panels --------------------------------------------------------------------------------

    def blocks(self) -> None:
        """Blocks of columns, in each all rows, or (where there is a tile) some of them."""
        w = FunctionWriter(self.text)
        self.words(w, "m", "n", "k", "out", "out.step", "context")
        plan, (height, width) = self.plan, self.tile
        v = plan.vectors(w)
        x_copied, y_copied = self.copied(w)
        tiled = w.value("icmp eq ptr %out, null")
        all_ = w.value("sub i64 %rows.end, %rows.start")
        down = w.value(f"select i1 {tiled}, i64 {height}, i64 {all_}")
        across = w.value(f"select i1 {tiled}, i64 {width}, i64 {plan.width}")
        step = w.value(f"select i1 {tiled}, i64 {width}, i64 %out.step")
        here = least(w, across, w.value("sub i64 %cols.end, %cols.start"))
        tall = least(w, all_, str(height))
        wanted = [
            (y_copied, self.panel_size(w, here)),
            (tiled, w.value(f"mul i64 {tall}, {width * plan.dtype.bytes}")),
        ]
        if plan.copies_x:
            depth = least(w, "%k", str(PANEL_STEPS))
            wanted.append((w.value(f"and i1 {tiled}, {x_copied}"), self.x_size(w, tall, depth)))
        sizes = [w.value(f"select i1 {some}, i64 {size}, i64 0") for some, size in wanted]
        with (
            self.sources.room(w, sizes) as (panel, tile, *room),
            w.loop("%cols.start", "%cols.end", across) as c,
            w.loop("%rows.start", "%rows.end", down) as r,
        ):
            cols = least(w, w.value(f"sub i64 %cols.end, {c.index}"), across)
            rows = least(w, w.value(f"sub i64 %rows.end, {r.index}"), down)
            there = w.value(f"add i64 {w.value(f'mul i64 {r.index}, %out.step')}, {c.index}")
            sums = w.value(f"select i1 {tiled}, ptr {tile}, ptr {v.at('%out', there)}")
            first = w.value(f"icmp eq i64 {r.index}, %rows.start")
            spot = f"i64 {r.index}, i64 {c.index}, i64 {rows}, i64 {cols}"
            x = room[0] if room else "null"
            rest = f"ptr {x}, ptr {panel}, ptr {sums}, i64 {step}, i1 {first}"
            w.do(f"call void @panels(ptr %call, {spot}, {rest})")
        bounds = "i64 %rows.start, i64 %rows.end, i64 %cols.start, i64 %cols.end"
        self.function(w, "blocks", f"ptr %call, {bounds}")

    def panels(self) -> None:
        """Rows of one block of columns, panel of k by panel; x is copied here only for a tile."""
        w, plan = FunctionWriter(self.text), self.plan
        self.words(
            w,
            "m",
            "n",
            "k",
            "chunk",
            "x",
            "x.step",
            "environment",
            "context",
            *self.sources.fills("x"),
        )
        x_copied, _ = self.copied(w)
        depth = w.call("i64", "llvm.smax.i64", ("i64", "%k"), ("i64", "1"))
        step = "%chunk"
        several = w.value(f"icmp sgt i64 {depth}, {step}")
        needed = w.value(f"or i1 {several}, %new")
        with w.loop("0", depth, step) as p:
            left = least(w, w.value(f"sub i64 %k, {p.index}"), step)
            x = "null"
            if plan.copies_x:
                x = w.value(f"select i1 {x_copied}, ptr %room, ptr null")
                with w.when(x_copied):
                    self.sources.copy_x(w, "%row", p.index, "%rows", left, "%room")
            spot = f"i64 %row, i64 %col, i64 %rows, i64 %cols, i64 {p.index}, i64 {left}"
            rest = f"ptr {x}, ptr %panel, ptr %sums, i64 %sums.step, i1 {needed}"
            w.do(f"call void @panel(ptr %call, {spot}, {rest})")
        spot = "i64 %row, i64 %col, i64 %rows, i64 %cols"
        rest = "ptr %room, ptr %panel, ptr %sums, i64 %sums.step, i1 %new"
        self.function(w, "panels", f"ptr %call, {spot}, {rest}")

    def panel(self) -> None:
        """One panel of k of one block of columns; x lies copied at ``strips``, if it is copied."""
        w, plan = FunctionWriter(self.text), self.plan
        self.words(w, *SIDES, "finish", "environment", "context", *self.sources.fills("y"))
        v = plan.vectors(w)
        _, y_copied = self.copied(w)
        tall = w.value(f"icmp sge i64 %rows, {2 * BATCH}")
        deep = w.value(f"icmp sge i64 %depth, {3 * DEEP if plan.x_transposed else DEEP}")
        fits = w.value(f"icmp sle i64 %depth, {PANEL_STEPS}")
        asks = w.value(f"and i1 {w.value(f'and i1 {deep}, {fits}')}, {tall}")
        y_step = w.value(f"select i1 {y_copied}, i64 {plan.strip}, i64 %y.step")
        strip = self.strip_size(w, "%depth")
        y_far = w.value(f"select i1 {y_copied}, i64 {strip}, i64 {plan.strip}")
        sums = w.value("mul i64 %rows, %cols")
        work = w.value(f"lshr i64 {w.value(f'mul i64 {sums}, %depth')}, {TIMES}")
        ask_in_kernel(self.text, w, work)
        source = self.sources.start(w, v, "y", "%p", "%col", plan.y_transposed)
        with w.when(w.value(f"and i1 %new, {y_copied}")):
            piece = Piece("y", ("%p", "%col"), ("%depth", "%cols"), plan.y_transposed)
            self.sources.copy(w, piece, plan.strip, "%panel", str(plan.strip), strip)
        y = w.value(f"select i1 {y_copied}, ptr %panel, ptr {source}")
        first = w.value("icmp eq i64 %p, 0")
        ends = w.value(f"icmp eq i64 {w.value('add i64 %p, %depth')}, %k")
        finish = w.value(f"select i1 {ends}, ptr %finish, ptr null")
        in_place = self.sources.start(w, v, "x", "%row", "%p", plan.x_transposed)
        copied = w.value("icmp ne ptr %strips, null")
        x = w.value(f"select i1 {copied}, ptr %strips, ptr {in_place}")
        sides = f"ptr {x}, i64 %x.step, i64 0, ptr {y}, i64 {y_step}, i64 {y_far}"
        rest = f"ptr %sums, i64 %sums.step, i64 %depth, i64 %rows, i64 %cols, i1 {first}"
        results = f"ptr {finish}, i64 %row, i64 %col, ptr %environment"
        name = plan.bands
        self.text.declarations[name] = declaration(name, SIGNATURE)
        w.do(f"call void @{name}({sides}, {rest}, i1 {copied}, i1 {asks}, {results})")
        spot = "i64 %row, i64 %col, i64 %rows, i64 %cols, i64 %p, i64 %depth"
        rest = "ptr %strips, ptr %panel, ptr %sums, i64 %sums.step, i1 %new"
        self.function(w, "panel", f"ptr %call, {spot}, {rest}")

    # -- a copied x ----------------------------------------------------------------------------

    def copied_panels(self) -> None:
        """Rows as many as stay near, in them panels of k: each of x is copied once."""
        w, plan = FunctionWriter(self.text), self.plan
        names = "k", "chunk", "x", "x.step", "out", "out.step", "environment", "context"
        self.words(w, *names, *self.sources.fills("x"))
        v = plan.vectors(w)
        all_ = w.value("sub i64 %rows.end, %rows.start")
        blocks = ceiling(w, all_, str(plan.height))
        some = w.call("i64", "llvm.smax.i64", ("i64", blocks), ("i64", "1"))
        strips = ceiling(w, ceiling(w, all_, some), str(NARROW))
        down = w.value(f"mul i64 {strips}, {NARROW}")
        depth = w.call("i64", "llvm.smax.i64", ("i64", "%k"), ("i64", "1"))
        deep = "%chunk"
        size = self.x_size(w, down, least(w, depth, deep))
        across = least(w, str(plan.width), w.value("sub i64 %cols.end, %cols.start"))
        with (
            self.sources.room(w, [self.panel_size(w, across), size]) as (panel, room),
            w.loop("%rows.start", "%rows.end", down) as r,
            w.loop("0", depth, deep) as p,
        ):
            rows = least(w, w.value(f"sub i64 %rows.end, {r.index}"), down)
            left = least(w, w.value(f"sub i64 %k, {p.index}"), deep)
            going = w.value(f"xor i1 {halted(self.text, w)}, true")
            with w.when(going):
                self.sources.copy_x(w, r.index, p.index, rows, left, room)
            with w.loop("%cols.start", "%cols.end", plan.width) as c:
                cols = least(w, w.value(f"sub i64 %cols.end, {c.index}"), str(plan.width))
                there = w.value(f"add i64 {w.value(f'mul i64 {r.index}, %out.step')}, {c.index}")
                spot = f"i64 {r.index}, i64 {c.index}, i64 {rows}, i64 {cols}"
                rest = f"ptr {panel}, ptr {v.at('%out', there)}, i64 %out.step, i1 true"
                k = f"i64 {p.index}, i64 {left}"
                w.do(f"call void @panel(ptr %call, {spot}, {k}, ptr {room}, {rest})")
        bounds = "i64 %rows.start, i64 %rows.end, i64 %cols.start, i64 %cols.end"
        self.function(w, "copied", f"ptr %call, {bounds}")

    def strip_size(self, w: FunctionWriter, depth: str) -> str:
        """Elements of a strip of a copied y: it is turned in squares, the last of them whole."""
        up = w.value(f"add i64 {depth}, {self.plan.lanes - 1}")
        return w.value(f"mul i64 {w.value(f'and i64 {up}, {-self.plan.lanes}')}, {self.plan.strip}")

    def panel_size(self, w: FunctionWriter, cols: str) -> str:
        """Bytes of a copied panel of ``cols`` columns of y."""
        each = self.strip_size(w, least(w, "%k", str(PANEL_STEPS)))
        strips = ceiling(w, cols, str(self.plan.strip))
        return w.value(f"mul i64 {w.value(f'mul i64 {strips}, {each}')}, {self.plan.dtype.bytes}")

    def x_size(self, w: FunctionWriter, rows: str, depth: str) -> str:
        """Bytes of ``rows`` rows of a copied x, the last strip of them whole."""
        strips = w.value(f"mul i64 {ceiling(w, rows, str(NARROW))}, {NARROW}")
        row = w.value(f"mul i64 {self.plan.x_row(w, depth)}, {self.plan.dtype.bytes}")
        return w.value(f"mul i64 {strips}, {row}")
