"""Loads and stores: contiguous ones as vectors, others lane by lane, masked where they must be.

A guarded load of one element reads a zero elsewhere instead of branching. Arrays of the kernel's
own are stack memory that LLVM turns into registers as long as nothing but plain loads and stores
touches it, so masked access to them is done by selection.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from dlvm.gen.loops.statements import Load, Local, Memory, Store
from dlvm.gen.text.access import Kind, MemoryAccess, vector
from dlvm.gen.text.lanes import Val, splat, splat_text, stored_type
from dlvm.gen.text.module import FunctionWriter
from dlvm.gen.text.sizes import Offsets
from dlvm.ir import Dim, DType

from .prefetch import LINE, Ahead

ZERO = "dlvm.zero"
SHUFFLED_STRIDES = (-1, 2, 3, 4)
"""Distances of elements that are picked out of whole vectors; a gather asks for one by one."""
MASKED = 4
"""Bytes of an element from which on, without AVX-512, it may be read under a mask."""
STACK_ELEMENTS = 1024
"""Elements from which on an array is not kept in registers; such arrays share stack memory."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where memory lies; elements ``wide`` are vectors, one value for each lane."""

    pointer: str
    dtype: DType
    wide: int = 1

    @property
    def element(self) -> str:
        """What one offset steps over."""
        return vector(stored_type(self.dtype), self.wide)


class Access:
    """Loads and stores of one function, whose longest vectors have so many lanes, if any."""

    def __init__(self, w: FunctionWriter, offsets: Offsets, longest: int) -> None:
        self.w, self.offsets, self.longest = w, offsets, longest
        self.places: dict[str, Address] = {}
        self.ahead: Ahead | None = None
        self.spare: dict[str, list[str]] = {}
        """Large arrays whose bodies have ended, by their types."""
        self.used: list[tuple[str, str]] = []
        """Those of the bodies that are open, in the order of their declaration."""

    def declare(self, local: Local) -> None:
        """Stack memory; in a vector loop, one vector for each element.

        Vectors are read and written whole, so behind an array there is room for the lanes of its
        last that do not run.
        """
        v = self.offsets.vector
        wide = 1 if v is None else v.lanes
        size = local.size + (self.longest if v is None and local.size > 1 else 0)
        place = Address("", local.dtype, wide)
        type_ = f"[{size} x {place.element}]"
        spare = self.spare.get(type_)
        pointer = spare.pop() if spare else self.w.array(type_)
        if local.size * wide >= STACK_ELEMENTS:
            self.used.append((type_, pointer))
        self.places[local.name] = Address(pointer, local.dtype, wide)

    @contextmanager
    def body(self) -> Generator[None]:
        """What is declared inside ends with it: large arrays then serve those that follow."""
        before = len(self.used)
        yield
        for type_, pointer in self.used[before:]:
            self.spare.setdefault(type_, []).append(pointer)
        del self.used[before:]

    # -- loads -----------------------------------------------------------------------------

    def load(self, s: Load) -> Val:
        """The element, or those of all lanes."""
        place, offset = self.places[s.memory.name], self.offsets.known(s.offset)
        if isinstance(s.memory, Local):
            return self._own(s, place, offset)
        where = tuple(map(self.offsets.known, s.where))
        uniform = not any(map(self.offsets.varies, (offset, *where)))
        if uniform:
            return self._one(place, offset, where)
        v = self.offsets.vector
        assert v is not None
        mask = self.offsets.reaches(where)
        step = self.offsets.stride(offset)
        if isinstance(step, int) and self._is_short(step, place, v.lanes, masked=mask is not None):
            return self._loaded(self._striding(place, offset, mask, v.lanes, step), place, v.lanes)
        if step == 1:
            if mask is None:  # of the rest of a row, memory brings the line along
                self._ask(s, place, offset, v.lanes)
            return self._loaded(
                self._vector(place, self._address(place, offset), mask, v.lanes), place, v.lanes
            )
        return self._loaded(self._gather(place, offset, mask, v.lanes), place, v.lanes)

    def _ask(self, s: Load, place: Address, offset: Dim, lanes: int) -> None:
        """Bring the same elements of the next row nearer, where this one is read again."""
        if self.ahead is None or (there := self.ahead.next(self.offsets, s, offset)) is None:
            return
        start = self._address(place, there)
        for line in range(0, lanes * place.dtype.bytes, LINE):
            at = self.w.step("i8", start, line)
            use = (("i32", "0"), ("i32", "2"), ("i32", "1"))
            self.w.call("void", "llvm.prefetch.p0", ("ptr", at), *use)

    def address(self, memory: Memory, offset: Dim) -> str:
        """Where an element of memory lies."""
        return self._address(self.places[memory.name], offset)

    def stored(self, x: Val) -> str:
        """A value as it would lie in memory."""
        return self._storable(x)

    def _address(self, place: Address, offset: Dim) -> str:
        at = self.offsets.first(offset)
        return self.w.step(place.element, place.pointer, at)

    def _one(self, place: Address, offset: Dim, where: tuple[Dim, ...]) -> Val:
        pointer = self._address(place, offset)
        if where:
            self.w.text.constant(ZERO, "i64", "0")
            condition = self._all(where)
            pointer = self.w.value(f"select i1 {condition}, ptr {pointer}, ptr @{ZERO}")
        text = self.w.load(place.element, pointer, place.dtype.bytes)
        return self._loaded(text, place, 1)

    def _all(self, where: tuple[Dim, ...]) -> str:
        """A condition that is the same in all lanes."""
        tests = [self.w.value(f"icmp sge i64 {self.offsets.first(d)}, 0") for d in where]
        total = tests[0]
        for test in tests[1:]:
            total = self.w.value(f"and i1 {total}, {test}")
        return total

    def _loaded(self, text: str, place: Address, lanes: int) -> Val:
        """Bools are bytes in memory."""
        if place.dtype.kind == "b":
            bytes_ = vector("i8", lanes)
            text = self.w.value(f"icmp ne {bytes_} {text}, {splat_text(self.w, 'i8', '0', lanes)}")
        return Val(text, place.dtype, lanes)

    def _vector(self, place: Address, pointer: str, mask: str | None, lanes: int) -> str:
        return self.w.load_lanes(place.element, lanes, pointer, place.dtype.bytes, mask)

    def _is_short(self, step: int, place: Address, lanes: int, *, masked: bool) -> bool:
        """Whether whole vectors are quicker to read, and to pick from, than elements one by one."""
        permutes = self.w.text.permutes
        if step not in SHUFFLED_STRIDES:
            return False
        if masked:
            masks = permutes or (self.w.text.masks and place.dtype.bytes >= MASKED)
            return masks and 4 * abs(step) <= lanes
        return abs(step) <= (lanes // 2 if permutes else 2)

    def _striding(
        self, place: Address, offset: Dim, mask: str | None, lanes: int, step: int
    ) -> str:
        """Elements at a short distance, out of vectors that hold those between as well.

        Without a mask the vectors end where the last element does, and under one they are read
        where elements are wanted.
        """
        type_, first = vector(place.element, lanes), self._address(place, offset)
        places = range(0, step * lanes, step)
        low, span = min(places), max(places) - min(places) + 1
        count = -(-span // lanes)
        starts = [min(lanes * j, span - lanes if mask is None else span) for j in range(count)]
        found = ""
        for j, start in enumerate(starts):
            here = {at - low - start: i for i, at in enumerate(places) if (at - low) // lanes == j}
            near = self.w.step(place.element, first, low + start)
            one = self._vector(place, near, self._spread(mask, here, lanes), lanes)
            picked = {i: lanes + at for at, i in here.items()}
            order = ", ".join(f"i32 {picked.get(i, i)}" for i in range(lanes))
            pair = f"{type_} {found or 'poison'}, {type_} {one}"
            found = self.w.value(f"shufflevector {pair}, <{lanes} x i32> <{order}>")
        return found

    def _spread(self, mask: str | None, lane_of: dict[int, int], lanes: int) -> str | None:
        """A mask of elements, from one of the lanes for which they are read."""
        if mask is None:
            return None
        order = ", ".join(f"i32 {lane_of.get(i, lanes)}" for i in range(lanes))
        pair = f"{vector('i1', lanes)} {mask}, {vector('i1', lanes)} zeroinitializer"
        return self.w.value(f"shufflevector {pair}, <{lanes} x i32> <{order}>")

    def _pointers(self, place: Address, offset: Dim, lanes: int) -> str:
        at = self.offsets.each(offset)
        return self.w.step(place.element, place.pointer, at, lanes=lanes)

    def _mask(self, mask: str | None, lanes: int) -> str:
        return mask or splat_text(self.w, "i1", "true", lanes)

    def _gather(self, place: Address, offset: Dim, mask: str | None, lanes: int) -> str:
        given = (self._pointers(place, offset, lanes), place.element, lanes, place.dtype.bytes)
        mask = self._mask(mask, lanes)
        return self.w.access(MemoryAccess(Kind.GATHER, *given, mask=mask))

    def _own(self, s: Load, place: Address, offset: Dim) -> Val:
        v = self.offsets.vector
        lanes = place.wide if v is None or not self.offsets.varies(offset) else v.lanes
        if v is not None and self.offsets.stride(offset) not in (0, 1):
            return self._picked(place, self.offsets.positions(offset, v), lanes)
        return self._kept(place, self._address(place, offset), lanes)

    def _kept(self, place: Address, pointer: str, lanes: int) -> Val:
        """What lies in an array of the kernel's own."""
        element, align = stored_type(place.dtype), place.dtype.bytes
        return self._loaded(self.w.load_lanes(element, lanes, pointer, align), place, lanes)

    def _picked(self, place: Address, positions: Sequence[int], lanes: int) -> Val:
        """Elements at known positions, of two vectors beside one another."""
        type_, base = vector(stored_type(place.dtype), lanes), min(positions) // lanes * lanes
        both: list[str] = []
        for start in (base, base + lanes):
            pointer = self._address(place, start)
            both.append(f"{type_} {self.w.load(type_, pointer, place.dtype.bytes)}")
        mask = ", ".join(f"i32 {i - base}" for i in positions)
        text = self.w.value(f"shufflevector {', '.join(both)}, <{lanes} x i32> <{mask}>")
        return self._loaded(text, place, lanes)

    # -- stores ----------------------------------------------------------------------------

    def store(self, s: Store, x: Val) -> None:
        """Write the element, or those of all lanes that run."""
        place, offset = self.places[s.memory.name], self.offsets.known(s.offset)
        v = self.offsets.vector
        if isinstance(s.memory, Local) and (v is None or self.offsets.stride(offset) in (0, 1)):
            self._keep(place, offset, x)
            return
        if v is None:
            self._store_one(place, offset, s, x)
            return
        text = self._storable(splat(self.w, x, v.lanes))
        mask = self.offsets.reaches(s.where)
        element, lanes, align = place.element, v.lanes, place.dtype.bytes
        if self.offsets.stride(offset) != 1:
            pointers, mask = self._pointers(place, offset, lanes), self._mask(mask, lanes)
            self.w.access(MemoryAccess(Kind.SCATTER, pointers, element, lanes, align, text, mask))
            return
        self.w.store_lanes(element, lanes, text, self._address(place, offset), align, mask)

    def _storable(self, x: Val) -> str:
        if x.dtype.kind != "b":
            return x.text
        return self.w.value(f"zext {x.type} {x.text} to {vector('i8', x.lanes)}")

    def _store_one(self, place: Address, offset: Dim, s: Store, x: Val) -> None:
        value, pointer = self._storable(x), self._address(place, offset)
        condition = self.offsets.holds(s.where)
        with nullcontext() if condition is None else self.w.when(condition):
            self.w.store(place.element, value, pointer, place.dtype.bytes)

    def _keep(self, place: Address, offset: Dim, x: Val) -> None:
        v = self.offsets.vector
        across = v is not None and self.offsets.varies(offset)
        lanes = v.lanes if v is not None and across else place.wide
        x = splat(self.w, x, lanes)
        pointer = self._address(place, offset)
        if v is not None and across and v.mask is not None:
            old = self._kept(place, pointer, lanes)
            narrow = place.dtype.bytes < 4  # LLVM makes it a store under this mask
            mask = f"{vector('i1', lanes)} {v.access if narrow else v.mask}"
            chosen = self.w.value(f"select {mask}, {x.type} {x.text}, {x.type} {old.text}")
            x = Val(chosen, x.dtype, lanes)
        element, value = stored_type(place.dtype), self._storable(x)
        self.w.store_lanes(element, lanes, value, pointer, place.dtype.bytes)
