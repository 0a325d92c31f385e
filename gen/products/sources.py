"""Where panels of a product come from: copied from memory, or computed piece by piece.

What is computed is asked for in whole units (``Fill``), some rows at a time, and copied from there
as it would be from memory. Rows of x that a product reads as they are need no copy.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dlvm.gen.loops.status import OUT_OF_MEMORY
from dlvm.gen.runtime.call_words import HALT
from dlvm.gen.runtime.memory import give_back, take
from dlvm.gen.text.module import FunctionWriter, Text

from .macro_kernel import LINE, Plan
from .micro_kernel import NARROW, Vectors
from .packing import copy_function

SOME = 8
"""Rows of an operand that are computed at once, at least."""
STACK_BYTES = 1 << 14
"""Bytes of copies and tiles that lie on the stack."""


def least(w: FunctionWriter, x: str, y: str) -> str:
    """The smaller of two sizes."""
    return w.call("i64", "llvm.smin.i64", ("i64", x), ("i64", y))


def ceiling(w: FunctionWriter, size: str, unit: str) -> str:
    """How many units cover a size."""
    up = w.value(f"add i64 {size}, {w.value(f'sub i64 {unit}, 1')}")
    return w.value(f"sdiv i64 {up}, {unit}")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an operand: its first row and column, and how many there are of both."""

    side: str
    spot: tuple[str, str]
    sizes: tuple[str, str]
    transposed: bool

    @property
    def both(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Where it is and how large."""
        return self.spot, self.sizes


class Sources:
    """Writes what brings operands to where a product reads them often."""

    def __init__(self, text: Text, plan: Plan) -> None:
        self.text, self.plan = text, plan

    def start(
        self, w: FunctionWriter, v: Vectors, name: str, row: str, col: str, transposed: bool
    ) -> str:
        """The address of an element of an operand."""
        far, near = (col, row) if transposed else (row, col)
        offset = w.value(f"add i64 {w.value(f'mul i64 {far}, %{name}.step')}, {near}")
        return v.at(f"%{name}", offset, self.plan.stored)

    def copy_x(self, w: FunctionWriter, top: str, p: str, rows: str, depth: str, to: str) -> None:
        """Copy some rows and steps of k of x."""
        plan = self.plan
        row = plan.x_row(w, depth)
        strip, near, far = plan.strip, row, str(plan.strip)
        if plan.x_transposed:
            strip, near, far = NARROW, str(NARROW), w.value(f"mul i64 {row}, {NARROW}")
        piece = Piece("x", (top, p), (rows, depth), plan.x_transposed)
        self.copy(w, piece, strip, to, near, far)

    def fills(self, side: str) -> tuple[str, ...]:
        """The words that are about what computes an operand, if something does."""
        return (f"{side}.fill", f"{side}.unit") if self.plan.filled["xy".index(side)] else ()

    def copy(
        self, w: FunctionWriter, piece: Piece, strip: int, to: str, near: str, far: str
    ) -> None:
        """Copy a part of an operand into strips, from where it lies or as it is computed."""
        plan = self.plan
        turned = piece.side == "y" and piece.transposed
        copy = copy_function(self.text, plan.stored, plan.lanes, strip, columns=turned)
        rows, cols = piece.sizes[::-1] if piece.transposed and not turned else piece.sizes
        if not self.fills(piece.side):
            start = self.start(w, plan.vectors(w), piece.side, *piece.spot, piece.transposed)
            sizes = f"i64 %{piece.side}.step, i64 {rows}, i64 {cols}"
            w.do(f"call void @{copy}(ptr {start}, {sizes}, ptr {to}, i64 {near}, i64 {far})")
            return
        place = to, near, far
        if piece.side == "x" and not piece.transposed and not plan.converts:
            whole = self.whole_units(w, piece)
            with w.when(whole):
                self.computed(w, piece, to, near)
            with w.when(w.value(f"xor i1 {whole}, true")):
                self.filled(w, piece, (rows, cols), strip, copy, place)
        else:
            self.filled(w, piece, (rows, cols), strip, copy, place)

    def whole_units(self, w: FunctionWriter, piece: Piece) -> str:
        """Whether no unit of x crosses the borders of a panel."""
        (_, p), (_, depth) = piece.both
        first, last = (w.value(f"urem i64 {n}, %x.unit") for n in (p, depth))
        return w.value(f"icmp eq i64 {w.value(f'or i64 {first}, {last}')}, 0")

    def computed(self, w: FunctionWriter, piece: Piece, to: str, step: str) -> None:
        """Compute rows of x where they are read, of a panel that holds whole units."""
        (row, p), (rows, depth) = piece.spot, piece.sizes
        first, units = (w.value(f"udiv i64 {n}, %x.unit") for n in (p, depth))
        spot = f"i64 {row}, i64 {first}, i64 {rows}, i64 {units}, i64 {step}"
        w.do(f"call void %x.fill(ptr {to}, {spot}, ptr %environment)")

    def filled(
        self,
        w: FunctionWriter,
        piece: Piece,
        sizes: tuple[str, str],
        strip: int,
        copy: str,
        place: tuple[str, str, str],
    ) -> None:
        """Copy a part of an operand as it is computed, some rows of it at a time."""
        v, bytes_, (to, near, far) = self.plan.vectors(w), self.plan.stored.bytes, place
        turned = piece.side == "y" and piece.transposed
        (row, at), (count, across) = (x[::-1] if piece.transposed else x for x in piece.both)
        unit = f"%{piece.side}.unit"
        first = w.value(f"udiv i64 {at}, {unit}")
        skipped = w.value(f"sub i64 {at}, {w.value(f'mul i64 {first}, {unit}')}")
        units = ceiling(w, w.value(f"add i64 {skipped}, {across}"), unit)
        step = w.value(f"mul i64 {units}, {unit}")
        line = w.value(f"mul i64 {step}, {bytes_}")
        some = str(strip)
        if not turned:
            whole = w.call("i64", "llvm.smax.i64", ("i64", line), ("i64", "1"))
            fitting = w.value(f"udiv i64 {STACK_BYTES - LINE}, {whole}")
            some = w.call("i64", "llvm.smax.i64", ("i64", fitting), ("i64", str(SOME)))
        if piece.side == "y" and not turned and not self.plan.converts:
            alone = self._one_strip(w, (skipped, step, across), strip)
            with w.when(alone):
                spot = f"i64 {row}, i64 {first}, i64 {count}, i64 {units}, i64 {near}"
                w.do(f"call void %y.fill(ptr {to}, {spot}, ptr %environment)")
            count = w.value(f"select i1 {alone}, i64 0, i64 {count}")
        with (
            self.room(w, [w.value(f"mul i64 {some}, {line}")]) as (room,),
            w.loop("0", count, some) as i,
        ):
            here = least(w, w.value(f"sub i64 {count}, {i.index}"), some)
            spot = f"i64 {w.value(f'add i64 {row}, {i.index}')}, i64 {first}, i64 {here}"
            rest = f"i64 {units}, i64 {step}, ptr %environment"
            w.do(f"call void %{piece.side}.fill(ptr {room}, {spot}, {rest})")
            done = w.value(f"udiv i64 {i.index}, {strip}") if turned else i.index
            target = v.at(to, w.value(f"mul i64 {done}, {far if turned else near}"))
            rows, cols = (sizes[0], here) if turned else (here, sizes[1])
            start = f"ptr {v.at(room, skipped, self.plan.stored)}, i64 {step}"
            rest = f"i64 {rows}, i64 {cols}, ptr {target}, i64 {near}, i64 {far}"
            w.do(f"call void @{copy}({start}, {rest})")

    def _one_strip(self, w: FunctionWriter, sizes: tuple[str, str, str], strip: int) -> str:
        """Whether whole units are all columns, and lie in one strip: they are computed there."""
        skipped, step, across = sizes
        whole = w.value(f"icmp eq i64 {step}, {across}")
        first = w.value(f"icmp eq i64 {skipped}, 0")
        fits = w.value(f"icmp sle i64 {step}, {strip}")
        return w.value(f"and i1 {w.value(f'and i1 {whole}, {first}')}, {fits}")

    @contextmanager
    def room(self, w: FunctionWriter, sizes: Sequence[str]) -> Generator[list[str]]:
        """Memory of these ``sizes`` for what is written inside: little of it is on the stack.

        What is inside does not run if there is none.
        """
        places, size = list[str](), "0"
        for own in sizes:
            places.append(size)
            up = w.value(f"add i64 {w.value(f'add i64 {size}, {own}')}, {LINE - 1}")
            size = w.value(f"and i64 {up}, {-LINE}")
        if self.text.os == "none":
            large, given = "true", take(w, w.value(f"add i64 {size}, {LINE}"))
        else:
            own = w.array(f"[{STACK_BYTES} x i8]", LINE)
            large = w.value(f"icmp sgt i64 {size}, {STACK_BYTES}")
            whole = w.value(f"add i64 {size}, {LINE}")
            given = w.maybe(large, "ptr", own, lambda: take(w, whole))
        none = w.value(f"icmp eq ptr {given}, null")
        with w.when(none):
            halt = w.step("i64", "%context", HALT)
            if self.text.os == "none":
                w.store("i64", OUT_OF_MEMORY, halt)
            else:
                order = "monotonic monotonic, align 8"  # what another thread was halted by stays
                w.do(f"cmpxchg ptr {halt}, i64 0, i64 {OUT_OF_MEMORY} {order}")
        with w.when(w.value(f"xor i1 {none}, true")):
            gap = w.value(f"sub i64 0, {w.value(f'ptrtoint ptr {given} to i64')}")
            gap = w.value(f"and i64 {gap}, {LINE - 1}")
            start = w.step("i8", given, gap)
            yield [w.step("i8", start, place) for place in places]
            with w.when(large):
                give_back(w, given)
