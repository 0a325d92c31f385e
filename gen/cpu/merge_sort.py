"""Sorting rows: a stable merge sort as portable LLVM, and the search by halving.

A row is cut into 2**p runs of 8 to 16 elements that differ in length by at most one, so that at
every level the two halves of a merge do, too. Runs are sorted by insertion. A merge then goes
from both ends at once, as in van den Hoven's quadsort: as many turns as the shorter half has
elements, each placing the first and the last of what is left, without a test for the end of a
half and without a branch on what is compared. Halves that are in order already are copied, and
a row that is in order is left alone. Levels go back and forth between the row and scratch memory;
runs are put where the last level ends in the row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dlvm.gen.math.instructions import LlvmScalars
from dlvm.gen.text.indices import as_number
from dlvm.gen.text.lanes import Val, stored_type
from dlvm.gen.text.module import Carry, FunctionWriter, Text
from dlvm.ir import F32, I64, DType

RUN = 16


def before(w: FunctionWriter, dtype: DType, x: str, y: str, descending: bool = False) -> str:
    """Whether an element as it is stored comes strictly before another; NaN is last."""
    if not dtype.is_float:
        signed = "s" if dtype.kind == "i" else "u"
        relation = f"{signed}gt" if descending else f"{signed}lt"
        return w.value(f"icmp {relation} {stored_type(dtype)} {x}, {y}")
    type_ = "double" if dtype.bits == 64 else "float"
    if dtype.bits == 16:
        x, y = (LlvmScalars(w).word("cast", F32, [Val(v, dtype)]).text for v in (x, y))
    ahead = w.value(f"fcmp {'ugt' if descending else 'ult'} {type_} {x}, {y}")
    number = w.value(f"fcmp ord {type_} {x}, {x}")
    return w.value(f"and i1 {ahead}, {number}")


def sort_function(text: Text, dtype: DType, descending: bool, paired: bool) -> str:
    """The name of ``void f(values, order, spare values, spare order, count)``, written once."""
    way, what = "down" if descending else "up", "pairs" if paired else "values"
    name = f"sort.{dtype}.{way}.{what}"
    if name not in text.functions:
        text.functions[name] = ""  # taken
        w = FunctionWriter(text)
        _Sorting(w, dtype, descending, paired).whole()
        pointers = ", ".join(f"ptr noalias %{p}" for p in ("v", "o", "sv", "so"))
        text.functions[name] = w.function(f"internal void @{name}({pointers}, i64 %n)")
    return name


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where elements lie, and their indices if these are wanted."""

    values: str
    order: str


class _Sorting:
    def __init__(self, w: FunctionWriter, dtype: DType, descending: bool, paired: bool) -> None:
        self.w, self.dtype, self.descending, self.paired = w, dtype, descending, paired
        self.element = stored_type(dtype)

    # -- pieces ----------------------------------------------------------------------------

    def do(self, op: str, x: str, y: str) -> str:
        return self.w.value(f"{op} i64 {x}, {y}")

    def at(self, base: str, i: str, type_: str) -> str:
        return self.w.step(type_, base, i)

    def load(self, rows: _Rows, i: str) -> str:
        return self.w.load(self.element, self.at(rows.values, i, self.element))

    def place(self, to: _Rows, k: str, value: str, source: _Rows, i: str) -> None:
        """Write an element, which was element i of the source, and its index with it."""
        self.w.store(self.element, value, self.at(to.values, k, self.element))
        if self.paired:
            index = self.w.load("i64", self.at(source.order, i, "i64"))
            self.w.store("i64", index, self.at(to.order, k, "i64"))

    def before(self, x: str, y: str) -> str:
        return before(self.w, self.dtype, x, y, self.descending)

    def select(self, condition: str, type_: str, x: str, y: str) -> str:
        return self.w.value(f"select i1 {condition}, {type_} {x}, {type_} {y}")

    def bound(self, run: str, levels: str) -> str:
        """Where a run starts: ``run * n >> levels``, which needs twice the bits of an address."""
        if self.w.text.word == 32:
            return self.do("lshr", self.do("mul", run, "%n"), levels)
        x, n, by = (self.w.value(f"zext i64 {v} to i128") for v in (run, "%n", levels))
        product = self.w.value(f"mul i128 {x}, {n}")
        return self.w.value(f"trunc i128 {self.w.value(f'lshr i128 {product}, {by}')} to i64")

    # -- the whole -------------------------------------------------------------------------

    def whole(self) -> None:
        """Nothing where the row is in order already."""
        w, slot = self.w, self.w.array("i64", 8)
        w.store("i64", "1", slot)

        def in_order() -> str:
            row = _Rows("%v", "%o")
            x, y = self.load(row, k), self.load(row, self.do("sub", k, "1"))
            return w.value(f"xor i1 {self.before(x, y)}, true")

        head, body, end = (w.name(n) for n in ("head", "ahead", "mixed"))
        w.jump(head)
        w.label(head)
        k = w.load("i64", slot)
        inside = w.value(f"icmp slt i64 {k}, %n")
        w.branch(w.maybe(inside, "i1", "false", in_order), body, end)
        w.label(body)
        w.store("i64", self.do("add", k, "1"), slot)
        w.jump(head)
        w.label(end)
        with w.when(inside):
            self.runs_and_merges()

    def runs_and_merges(self) -> None:
        """Runs, then levels of merges that double them."""
        w = self.w
        zeros = w.call(
            "i64", "llvm.ctlz.i64", ("i64", self.do("udiv", "%n", str(RUN))), ("i1", "false")
        )
        levels = self.do("sub", "64", zeros)
        odd = w.value(f"trunc i64 {levels} to i1")
        row, pairs = _Rows("%v", "%o"), (("%v", "%sv"), ("%o", "%so"))
        first = _Rows(*(self.select(odd, "ptr", s, r) for r, s in pairs))
        with w.loop("0", self.do("shl", "1", levels)) as turn:
            run = turn.index
            low, high = (self.bound(r, levels) for r in (run, self.do("add", run, "1")))
            self.insertion(row, first, low, high)
        other = (self.select(odd, "ptr", r, s) for r, s in pairs)
        starts = (first.values, first.order, *other)
        carried = [Carry("ptr", p) for p in starts]
        with w.loop("0", levels, 1, carried) as turn:
            a, b, c, d = (p.now for p in carried)
            self.level(_Rows(a, b), _Rows(c, d), turn.index, levels)
            for p, following in zip(carried, (c, d, a, b), strict=True):
                p.next = following

    def insertion(self, source: _Rows, to: _Rows, low: str, high: str) -> None:
        """The run from low to high in order, which may be done where it is."""
        w = self.w
        slot = w.array("i64", 8)
        with w.loop(low, high) as turn:
            x = self.load(source, turn.index)
            index = "0"
            if self.paired:
                index = w.load("i64", self.at(source.order, turn.index, "i64"))
            w.store("i64", turn.index, slot)
            self.shift(to, x, low, slot)
            k = w.load("i64", slot)
            w.store(self.element, x, self.at(to.values, k, self.element))
            if self.paired:
                w.store("i64", index, self.at(to.order, k, "i64"))

    def shift(self, to: _Rows, x: str, low: str, slot: str) -> None:
        """Move what x comes before one place up; the slot says where x goes."""
        w = self.w

        def comes_before() -> str:
            return self.before(x, self.load(to, self.do("sub", k, "1")))

        head, body, end = (w.name(n) for n in ("head", "shift", "found"))
        w.jump(head)
        w.label(head)
        k = w.load("i64", slot)
        more = w.maybe(w.value(f"icmp sgt i64 {k}, {low}"), "i1", "false", comes_before)
        w.branch(more, body, end)
        w.label(body)
        below = self.do("sub", k, "1")
        self.place(to, k, self.load(to, below), to, below)
        w.store("i64", below, slot)
        w.jump(head)
        w.label(end)

    # -- merging ---------------------------------------------------------------------------

    def level(self, source: _Rows, to: _Rows, turn: str, levels: str) -> None:
        """Merge neighbours among runs of ``2**turn`` of the first runs."""
        w = self.w
        left = self.do("sub", self.do("sub", levels, turn), "1")
        with w.loop("0", self.do("shl", "1", left)) as pair:
            first = self.do("shl", pair.index, self.do("add", turn, "1"))
            one = self.do("shl", "1", turn)
            middle = self.do("add", first, one)
            runs = (first, middle, self.do("add", middle, one))
            low, mid, high = (self.bound(r, levels) for r in runs)
            self.merge(source, to, low, mid, high)

    def merge(self, source: _Rows, to: _Rows, low: str, mid: str, high: str) -> None:
        """Two halves in order as one; nothing is compared where they follow one another."""
        w = self.w
        last = self.load(source, self.do("sub", mid, "1"))
        mixed, plain, end = (w.name(n) for n in ("mixed", "plain", "merged"))
        w.branch(self.before(self.load(source, mid), last), mixed, plain)
        w.label(plain)
        with w.loop(low, high) as turn:
            self.place(to, turn.index, self.load(source, turn.index), source, turn.index)
        w.jump(end)
        w.label(mixed)
        self.both_ends(source, to, low, mid, high)
        w.jump(end)
        w.label(end)

    def both_ends(self, source: _Rows, to: _Rows, low: str, mid: str, high: str) -> None:
        """The smallest and the largest of what is left, as often as both halves have some."""
        w = self.w
        sizes = self.do("sub", mid, low), self.do("sub", high, mid)
        turns = self.select(w.value(f"icmp slt i64 {sizes[0]}, {sizes[1]}"), "i64", *sizes)
        starts = (low, mid, self.do("sub", mid, "1"), self.do("sub", high, "1"))
        ends = [Carry("i64", s) for s in starts]
        with w.loop("0", turns, 1, ends) as turn:
            i, j, p, q = (c.now for c in ends)
            x, y = self.load(source, i), self.load(source, j)
            right = self.before(y, x)
            self.choose(source, to, self.do("add", low, turn.index), right, (j, y), (i, x))
            x, y = self.load(source, p), self.load(source, q)
            left = self.before(y, x)
            k = self.do("sub", self.do("sub", high, "1"), turn.index)
            self.choose(source, to, k, left, (p, x), (q, y))
            step = w.value(f"zext i1 {right} to i64")
            back = w.value(f"zext i1 {left} to i64")
            ends[0].next = self.do("add", i, self.do("xor", step, "1"))
            ends[1].next = self.do("add", j, step)
            ends[2].next = self.do("sub", p, back)
            ends[3].next = self.do("sub", q, self.do("xor", back, "1"))
        i, j, p, _ = (c.now for c in ends)
        with w.when(w.value(f"icmp ne i64 {sizes[0]}, {sizes[1]}")):
            rest = self.select(w.value(f"icmp sle i64 {i}, {p}"), "i64", i, j)
            self.place(to, self.do("add", low, turns), self.load(source, rest), source, rest)

    def choose(
        self,
        source: _Rows,
        to: _Rows,
        k: str,
        condition: str,
        a: tuple[str, str],
        b: tuple[str, str],
    ) -> None:
        """Write one of two elements, given by place and value."""
        value = self.select(condition, self.element, a[1], b[1])
        place = self.select(condition, "i64", a[0], b[0]) if self.paired else a[0]
        self.place(to, k, value, source, place)


def searched(
    w: FunctionWriter, dtype: DType, load: Callable[[str], str], count: str, key: str, right: bool
) -> Val:
    """The number of elements that come before a key, halving from the largest power of two on."""
    index = w.text.index
    found, step = w.array(index, 8), w.array(index, 8)
    zeros = w.call(index, f"llvm.ctlz.{index}", (index, count), ("i1", "false"))
    above = w.value(f"shl {index} 1, {w.value(f'sub {index} {index[1:]}, {zeros}')}")
    largest = w.value(f"lshr {index} {above}, 1")
    w.store(index, "0", found)
    w.store(index, largest, step)
    now = ""

    def halves() -> str:
        nonlocal now
        now = w.load(index, step)
        return w.value(f"icmp sgt {index} {now}, 0")

    with w.again(halves, ("head", "halve", "found")):
        low = w.load(index, found)
        probe = w.value(f"add {index} {low}, {now}")

        def passed() -> str:
            x = load(w.value(f"sub {index} {probe}, 1"))
            if not right:
                return before(w, dtype, x, key)
            return w.value(f"xor i1 {before(w, dtype, key, x)}, true")

        ok = w.maybe(w.value(f"icmp sle {index} {probe}, {count}"), "i1", "false", passed)
        w.store(index, w.value(f"select i1 {ok}, {index} {probe}, {index} {low}"), found)
        w.store(index, w.value(f"lshr {index} {now}, 1"), step)
    return Val(as_number(w, w.load(index, found)), I64)
