"""Matrix products as objects of their own: one for each element type, transposition and target.

A product is compiled once for a process and linked with each program that calls it. It cuts the
result into blocks of columns, a block into panels of k, and a panel into bands of rows, which
micro kernels sum. What is read along far strides, in another type or many times is copied first.
The sums lie in the result itself, or in a tile where that is not possible; of them the program
makes its results (an epilogue, a rounding) while they are in the cache. Every element is one chain
over k in order, so neither blocks nor threads nor copies change its bits.

``void @NAME(ptr %context, ptr %call)``: the words of ``%call`` are named in ``WORDS``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from dlvm.ir import DType
from dlvm.target import Target

from .bands import BATCH, Plan, write_bands
from .bounds import checked, writing
from .emit import Text, Writer
from .interrupts import ask_in_kernel
from .lanes import llvm_type
from .llvm import object_code
from .micro import NARROW, Vectors
from .packing import copy_function
from .pool import include_fork
from .tape import THREADS
from .thin import BROAD, MANY, thin_across, thin_along

SIDES = ("m", "n", "k", "x", "x.step", "y", "y.step")
WORDS = (*SIDES, "out", "out.step", "finish", "environment", "context")
"""Sizes; where the operands lie and how far their rows in memory are apart; where the sums may
lie (null: in tiles); the function that is called with each piece of the finished sums, unless it
is null, and the environment that it is given; the context of the call."""
POINTERS = ("x", "y", "out", "finish", "environment", "context")
LARGE = 1 << 15
"""Bytes of an operand from which copying pays, where at least MANY rows or columns use it."""
VAST = 1 << 19
"""Bytes of a y that does not stay in the second cache until its next rows are summed."""
LONG = 8
"""Steps of k for each of few rows or columns that are worth giving each its sums one by one."""
TIMES = 3
"""Of how many multiplications, as a power of two, a vector is done with one byte's time."""
DEEP = 32
"""Steps of k in which the lines of one tile can be asked for one by one."""
PIECE = 1 << 17
"""Multiplications that a thread is given at least."""


@dataclass(frozen=True, slots=True)
class Generic:
    """What a product depends on before its sizes are known, with the sizes of a tile."""

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
    text.objects[name] = lambda: machine_code(generic, alone, writing())
    return name


@cache
def machine_code(generic: Generic, target: Target, check: bool = False) -> bytes:
    """The object file of a product, one that checks every access if need be."""
    text = code(generic, target)
    return object_code(checked(text, owner=False) if check else text, target)


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
        sides = generic.x_transposed, generic.y_transposed
        self.plan = Plan.of(generic.dtype, *sides, target)
        self.y_far = self.plan.depth * self.plan.strip

    def write(self) -> None:
        """Everything, what is called first."""
        plan = self.plan
        y = plan.y_transposed
        self.copy_y = copy_function(self.text, plan.stored, plan.lanes, plan.strip, y)
        write_bands(self.text, plan)
        self.panels()
        self.blocks()
        self.part()
        self.whole()

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
        self.words(w, "m", "n", "k", "out", "out.step")
        include_fork(self.text)
        done = "false"
        if not self.plan.converts:
            done = self.thin(w)
        with w.when(w.value(f"xor i1 {done}, true")):
            _, _, count = self.split(w)
            inside = w.value(f"mul i64 {w.value('mul i64 %m, %n')}, %k")
            total = w.value(f"add i64 {w.value(f'sdiv i64 {inside}, {PIECE}')}, 1")
            least = w.value(f"add i64 {w.value(f'sdiv i64 {count}, {total}')}, 1")
            grain = w.call("i64", "llvm.smax.i64", ("i64", least), ("i64", self.share(w, count)))
            w.do(f"call void @fork(ptr %context, ptr @part, ptr %call, i64 {count}, i64 {grain})")
        self.function(w, self.generic.name, "ptr %context, ptr %call", "")

    def share(self, w: Writer, count: str) -> str:
        """The units of one thread: one part for each, as every part copies y for itself."""
        at = w.value(f"getelementptr i64, ptr %context, i64 {THREADS}")
        found = w.value(f"load i64, ptr {at}, align 8")
        threads = w.call("i64", "llvm.smax.i64", ("i64", found), ("i64", "1"))
        up = w.value(f"add i64 {count}, {w.value(f'sub i64 {threads}, 1')}")
        return w.value(f"sdiv i64 {up}, {threads}")

    # -- vectors -------------------------------------------------------------------------------

    def thin(self, w: Writer) -> str:
        """Products of few rows, or of few columns as rows of the transposes; if it is one."""
        there = w.value("icmp ne ptr %out, null")
        row = w.value(f"and i1 {there}, {self.few(w, '%m', '%n', VAST)}")
        worth = VAST >> 2 if self.plan.x_transposed else 0
        others = w.value(f"and i1 {there}, {self.few(w, '%n', '%m', worth)}")
        column = w.value(f"and i1 {others}, {w.value(f'xor i1 {row}, true')}")
        piece = w.value(f"sdiv i64 {PIECE}, {w.value('add i64 %k, 1')}")
        grain = w.value(f"add i64 {w.value(f'sdiv i64 {piece}, {self.plan.strip}')}, 1")
        for condition, name, size in ((row, "row", "%n"), (column, "column", "%m")):
            self.vector(name)
            with w.when(condition):
                up = w.value(f"add i64 {size}, {self.plan.strip - 1}")
                count = w.value(f"sdiv i64 {up}, {self.plan.strip}")
                sizes = f"i64 {count}, i64 {grain}"
                w.do(f"call void @fork(ptr %context, ptr @{name}, ptr %call, {sizes})")
        return w.value(f"or i1 {row}, {column}")

    def few(self, w: Writer, users: str, size: str, worth: int) -> str:
        """Whether reading a matrix is most of the work: one row uses it, or several a large one."""
        one = w.value(f"icmp eq i64 {users}, 1")
        if not worth:
            return one
        some = w.value(f"icmp slt i64 {users}, {MANY}")
        wide = w.value(f"icmp sge i64 {size}, {self.plan.strip}")
        long = w.value(f"icmp sge i64 %k, {w.value(f'mul i64 {users}, {LONG}')}")
        several = self.over(w, size, worth)
        for condition in (some, wide, long):
            several = w.value(f"and i1 {several}, {condition}")
        return w.value(f"or i1 {one}, {several}")

    def vector(self, name: str) -> None:
        """Some columns of few rows times a matrix, or some rows of a matrix times few columns."""
        w, plan = Writer(self.text), self.plan
        self.words(w, *WORDS)
        row = name == "row"
        size = "%n" if row else "%m"
        stop = self.least(w, w.value(f"mul i64 %end, {plan.strip}"), size)
        across = plan.y_transposed if row else not plan.x_transposed
        along = plan.x_transposed if row else not plan.y_transposed
        function = f"thin.{'across' if across else 'along'}"
        write = thin_across if across else thin_along
        if function not in self.text.functions:
            write(self.text, function, plan.dtype, plan.lanes)
        x, y = ("x", "y") if row else ("y", "x")
        steps = f"i64 1, i64 %{x}.step" if along else f"i64 %{x}.step, i64 1"
        v = plan.vectors(w)
        with w.loop(w.value(f"mul i64 %begin, {plan.strip}"), stop, BROAD) as c:
            count = self.least(w, w.value(f"sub i64 {stop}, {c.index}"), str(BROAD))
            far = w.value(f"mul i64 {c.index}, %{y}.step") if across else c.index
            sides = f"ptr %{x}, {steps}, ptr {v.at(f'%{y}', far)}, i64 %{y}.step"
            start = c.index if row else w.value(f"mul i64 {c.index}, %out.step")
            sums = v.at("%out", start)
            sizes = f"i64 {'%m' if row else '%n'}, i64 %k, i64 {count}"
            strides = "i64 %out.step, i64 1" if row else "i64 1, i64 %out.step"
            w.do(f"call void @{function}({sides}, {sizes}, ptr {sums}, {strides})")
            with w.when(w.value("icmp ne ptr %finish, null")):
                spots = ("0", c.index, "%m", count), (c.index, "0", count, "%n")
                spot = ", ".join(f"i64 {i}" for i in spots[0 if row else 1])
                w.do(f"call void %finish(ptr {sums}, {spot}, ptr %environment)")
        self.function(w, name, "ptr %call, i64 %begin, i64 %end")

    # -- parts ---------------------------------------------------------------------------------

    def split(self, w: Writer) -> tuple[str, str, str]:
        """Whether parts are columns, how many one unit is, and how many units there are."""
        few = w.value(f"icmp slt i64 {w.value('mul i64 %m, 4')}, %n")
        unit = w.value(f"select i1 {few}, i64 {self.plan.strip}, i64 {NARROW}")
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
        """Blocks of columns, in each all rows, or (where there is a tile) some of them."""
        w = Writer(self.text)
        self.words(w, "out", "out.step")
        v = self.plan.vectors(w)
        height, width = self.generic.height, self.generic.width
        tile = w.array(f"[{height * width} x {v.element}]")
        panel = w.array(f"[{self.plan.depth * self.plan.width} x {v.element}]")
        tiled = w.value("icmp eq ptr %out, null")
        all_ = w.value("sub i64 %rows.end, %rows.start")
        down = w.value(f"select i1 {tiled}, i64 {height}, i64 {all_}")
        across = w.value(f"select i1 {tiled}, i64 {width}, i64 {self.plan.width}")
        step = w.value(f"select i1 {tiled}, i64 {width}, i64 %out.step")
        with (
            w.loop("%cols.start", "%cols.end", across) as c,
            w.loop("%rows.start", "%rows.end", down) as r,
        ):
            cols = self.least(w, w.value(f"sub i64 %cols.end, {c.index}"), across)
            rows = self.least(w, w.value(f"sub i64 %rows.end, {r.index}"), down)
            there = w.value(f"add i64 {w.value(f'mul i64 {r.index}, %out.step')}, {c.index}")
            sums = w.value(f"select i1 {tiled}, ptr {tile}, ptr {v.at('%out', there)}")
            first = w.value(f"icmp eq i64 {r.index}, %rows.start")
            spot = f"i64 {r.index}, i64 {c.index}, i64 {rows}, i64 {cols}"
            rest = f"ptr {panel}, ptr {sums}, i64 {step}, i1 {first}"
            w.do(f"call void @panels(ptr %call, {spot}, {rest})")
        bounds = "i64 %rows.start, i64 %rows.end, i64 %cols.start, i64 %cols.end"
        self.function(w, "blocks", f"ptr %call, {bounds}")

    def panels(self) -> None:
        """Rows of one block of columns, panel of k by panel; one panel of y is copied once."""
        w, plan = Writer(self.text), self.plan
        self.words(w, *SIDES, "finish", "environment", "context")
        v = plan.vectors(w)
        x_copied, y_copied = self.copied(w)
        copied = w.value(f"or i1 {x_copied}, {y_copied}")
        depth = w.call("i64", "llvm.smax.i64", ("i64", "%k"), ("i64", "1"))
        step = w.value(f"select i1 {copied}, i64 {plan.depth}, i64 {depth}")
        several = w.value(f"icmp sgt i64 {depth}, {step}")
        needed = w.value(f"or i1 {several}, %new")
        copies = w.value(f"and i1 {needed}, {y_copied}")
        tall = w.value(f"icmp sge i64 %rows, {2 * BATCH}")
        deep = w.value(f"icmp sge i64 {depth}, {3 * DEEP if plan.x_transposed else DEEP}")
        fits = w.value(f"icmp sle i64 {step}, {plan.depth}")
        asks = w.value(f"and i1 {w.value(f'and i1 {deep}, {fits}')}, {tall}")
        y_step = w.value(f"select i1 {y_copied}, i64 {plan.strip}, i64 %y.step")
        y_far = w.value(f"select i1 {y_copied}, i64 {self.y_far}, i64 {plan.strip}")
        sums = w.value("mul i64 %rows, %cols")
        with w.loop("0", depth, step) as p:
            left = self.least(w, w.value(f"sub i64 %k, {p.index}"), step)
            work = w.value(f"lshr i64 {w.value(f'mul i64 {sums}, {left}')}, {TIMES}")
            ask_in_kernel(self.text, w, work)
            source = self.start(w, v, "y", p.index, "%col", plan.y_transposed)
            with w.when(copies):
                to = f"ptr %panel, i64 {plan.strip}, i64 {self.y_far}"
                sizes = f"i64 %y.step, i64 {left}, i64 %cols"
                w.do(f"call void @{self.copy_y}(ptr {source}, {sizes}, {to})")
            y = w.value(f"select i1 {y_copied}, ptr %panel, ptr {source}")
            first = w.value(f"icmp eq i64 {p.index}, 0")
            ends = w.value(f"icmp eq i64 {w.value(f'add i64 {p.index}, {left}')}, %k")
            finish = w.value(f"select i1 {ends}, ptr %finish, ptr null")
            x = self.start(w, v, "x", "%row", p.index, plan.x_transposed)
            sides = f"ptr {x}, i64 %x.step, i64 0, ptr {y}, i64 {y_step}, i64 {y_far}"
            rest = f"ptr %sums, i64 %sums.step, i64 {left}, i64 %rows, i64 %cols, i1 {first}"
            results = f"ptr {finish}, i64 %row, i64 %col, ptr %environment"
            w.do(f"call void @bands({sides}, {rest}, i1 {x_copied}, i1 {asks}, {results})")
        spot = "i64 %row, i64 %col, i64 %rows, i64 %cols"
        rest = "ptr %panel, ptr %sums, i64 %sums.step, i1 %new"
        self.function(w, "panels", f"ptr %call, {spot}, {rest}")

    def start(self, w: Writer, v: Vectors, name: str, row: str, col: str, transposed: bool) -> str:
        """The address of an element of an operand."""
        far, near = (col, row) if transposed else (row, col)
        offset = w.value(f"add i64 {w.value(f'mul i64 {far}, %{name}.step')}, {near}")
        return v.at(f"%{name}", offset, self.plan.stored)

    def copied(self, w: Writer) -> tuple[str, str]:
        """Whether x, and whether y, is read through copies."""
        plan = self.plan
        x = y = "true"
        if not plan.converts:
            x = self.large(w, "%m", "%n") if plan.x_transposed else "false"
            y = "true" if plan.y_transposed else self.large(w, "%n", "%m")
        return x, y

    def large(self, w: Writer, size: str, users: str) -> str:
        """Whether an operand with this many rows or columns is better copied."""
        many = w.value(f"icmp sge i64 {users}, {MANY}")
        return w.value(f"and i1 {self.over(w, size, LARGE)}, {many}")

    def over(self, w: Writer, size: str, bytes_: int) -> str:
        """Whether an operand with this many rows or columns has more bytes than this."""
        elements = w.value(f"mul i64 %k, {size}")
        return w.value(f"icmp sgt i64 {elements}, {bytes_ // self.plan.stored.bytes}")
