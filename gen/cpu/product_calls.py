"""A product in a kernel: the call of its generic object, and the function that finishes a tile.

The function knows the kernel's buffers, its status and the indices around the product from an
environment in memory. Where one of its results is of the type of the sums and alone in its
memory, the sums are made there (``place_of_sums``) and overwritten by the result; a body that
only stores the product then needs no function at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Define,
    Fill,
    Let,
    Load,
    Local,
    Loop,
    Operand,
    Product,
    Scalar,
    Statement,
    Store,
    statements,
)
from dlvm.gen.products.few import ways_of
from dlvm.gen.products.macro_kernel import Plan
from dlvm.gen.products.objects import Generic, use
from dlvm.gen.products.panels import POINTERS, WORDS
from dlvm.gen.products.rooms import room
from dlvm.gen.runtime.interrupts import return_if_halted
from dlvm.gen.text.module import FunctionWriter
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import substitute, symbol, symbols
from dlvm.target import Target

from .access import Address

if TYPE_CHECKING:
    from .kernels import Emitter


def product(e: Emitter, s: Product) -> None:
    """Call the generic product on the operands, and on where its result goes."""
    outer = [n for scope in e.offsets.scopes for n in scope.names]
    values = {d: e.offsets.first(e.offsets.known(getattr(s, d))) for d in ("m", "n", "k")}
    values |= {
        "chunk": str(s.chunk),
        "out": "null",
        "out.step": "0",
        "finish": "null",
        "environment": "null",
    }
    values["context"] = "%context"
    for name, side in (("x", s.x), ("y", s.y)):
        values |= _side(e, s, name, side, outer)
    if s.finish != s.body:
        values["environment"] = _environment(e, outer)
    tiled = (sums := place_of_sums(s, e.shared)) is None
    if sums is not None:
        values["out"], values["out.step"] = _address(e, sums.place)
    if sums is None or not sums.plain:
        name = f"{e.kernel.name}.{s.tile.name}"
        _tile(e, s, name, outer, {} if sums is None else sums.instead)
        values["finish"] = f"@{name}"
        if s.finish == s.body:
            values["environment"] = _environment(e, outer)
    words = [("ptr" if name in POINTERS else "i64", values[name]) for name in WORDS]
    function = use(e.w.text, generic_of(s, e.target, tiled), e.target)
    e.w.do(f"call void @{function}(ptr %context, ptr {_array(e, words)})")
    return_if_halted(e.w.text, e.w)


def plan_of(s: Product, target: Target) -> Plan:
    """What is agreed upon for a product."""
    filled = s.fill(s.x) is not None, s.fill(s.y) is not None
    return Plan.of(s.x.buffer.dtype, s.x.transposed, s.y.transposed, target, filled)


def generic_of(s: Product, target: Target, tiled: bool) -> Generic:
    """The object that computes a product."""
    plan, height = plan_of(s, target), s.tile.size // s.width
    sides = (plan.stored, plan.x_transposed, plan.y_transposed)
    return Generic(*sides, height, s.width, plan.filled, ways_of(plan, s.m, s.n, s.k, tiled))


def room_of(s: Product, shared: frozenset[str], target: Target) -> Dim:
    """Bytes that a product takes for copies, at most; ``shared`` as its kernel is promised."""
    plan, tiled = plan_of(s, target), place_of_sums(s, shared) is None
    if ways_of(plan, s.m, s.n, s.k, tiled) == "thin":
        return 0
    units = tuple(1 if f is None else f.unit for f in (s.fill(s.x), s.fill(s.y)))
    return room(plan, (s.tile.size // s.width, s.width), s.m, s.n, s.k, tiled, units)


def _side(e: Emitter, s: Product, name: str, side: Operand, outer: Sequence[str]) -> dict[str, str]:
    """The words of the call that are about an operand."""
    if (fill := s.fill(side)) is None:
        start, step = _address(e, side)
        return {name: start, f"{name}.step": step, f"{name}.fill": "null", f"{name}.unit": "1"}
    function = f"{e.kernel.name}.{fill.piece.name}"
    _filling(e, fill, function, outer)
    words = {name: "null", f"{name}.step": "0"}
    return words | {f"{name}.fill": f"@{function}", f"{name}.unit": str(fill.unit)}


def _filling(e: Emitter, s: Fill, name: str, outer: Sequence[str]) -> None:
    """What computes a piece of an operand as a function."""
    arguments = ("%row", "%unit", "%rows", "%units", "%step")
    w = _inside(e, s.piece, "%piece", s.spot, arguments, s.body, outer, {})
    spot = ", ".join(f"i64 {a}" for a in arguments)
    header = f"internal void @{name}(ptr noalias %piece, {spot}, ptr noalias %environment)"
    e.w.text.functions[name] = w.function(header)


def _address(e: Emitter, side: Operand) -> tuple[str, str]:
    """Where a matrix starts, and how many elements its rows in memory are apart."""
    place = e.access.places[side.buffer.name]
    at = e.offsets.first(e.offsets.known(side.offset))
    pointer = e.w.step(place.element, place.pointer, at)
    return pointer, e.offsets.first(e.offsets.known(side.step))


def _array(e: Emitter, values: Sequence[tuple[str, str]]) -> str:
    """Words in memory of the function's own."""
    array = e.w.array(f"[{len(values)} x i64]")
    for i, (type_, value) in enumerate(values):
        slot = e.w.step("i64", array, i)
        e.w.store(type_, value, slot, 8)
    return array


def _environment(e: Emitter, outer: Sequence[str]) -> str:
    """What the function of a tile must know: buffers, the status, indices."""
    values = [("ptr", f"%{b.name}") for b in e.kernel.buffers] + [("ptr", "%status")]
    values += [("i64", e.offsets.first(symbol(n))) for n in outer]
    return _array(e, values)


def _tile(
    e: Emitter, s: Product, name: str, outer: Sequence[str], instead: Mapping[Scalar, Scalar]
) -> None:
    """The body of a product as a function of one tile, with other loads instead of some."""
    arguments = ("%row", "%col", "%rows", "%cols")
    w = _inside(e, s.tile, "%tile", s.spot, arguments, s.finish, outer, instead)
    spot = ", ".join(f"i64 {a}" for a in arguments)
    header = f"internal void @{name}(ptr noalias %tile, {spot}, ptr noalias %environment)"
    e.w.text.functions[name] = w.function(header)


def _inside(
    e: Emitter,
    memory: Local,
    pointer: str,
    spot: Sequence[str],
    arguments: Sequence[str],
    body: Body,
    outer: Sequence[str],
    instead: Mapping[Scalar, Scalar],
) -> FunctionWriter:
    """A body that is handed an array and where it is, and finds the rest in its environment."""
    w = FunctionWriter(e.w.text)
    inner = e.within(w)
    inner.instead.update(instead)
    loads = [("ptr", b.name) for b in e.kernel.buffers] + [("ptr", "status")]
    loads += [("i64", _outer(n)) for n in outer]
    for i, (type_, local) in enumerate(loads):
        slot = w.step("i64", "%environment", i)
        w.load(type_, slot, 8, name=f"%{local}")
    w.head += w.lines
    w.lines = []
    places = inner.access.places
    places.update({b.name: Address(f"%{b.name}", b.dtype) for b in e.kernel.buffers})
    places[memory.name] = Address(pointer, memory.dtype)
    inner.offsets.defined |= e.offsets.defined
    names = inner.offsets.scopes[0].names
    names.update({n: f"%{_outer(n)}" for n in outer})
    names.update(zip(spot, arguments, strict=True))
    inner.body(body)
    return w


def _outer(name: str) -> str:
    """The word for a size or an index from outside, unlike those of the arguments."""
    return f"s.{name.removeprefix('%')}"


# -- sums in the place of a result ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sums:
    """Where sums may lie, what reads them there, and whether they are all that is wanted."""

    place: Operand
    instead: Mapping[Scalar, Scalar]
    plain: bool


def place_of_sums(s: Product, shared: frozenset[str]) -> Sums | None:
    """A result each element of which is stored once its sum has been read for the last time."""
    if (nest := _nest(s)) is None:
        return None
    r, c, inner = nest
    at = symbol(r) * s.width + symbol(c)
    loads = [
        x for t in statements(s.finish) if isinstance(t, Let) if (x := _reads(t, s)) is not None
    ]
    if any(x.offset != at or x.where for x in loads):
        return None
    last = max((i for i, t in enumerate(inner) if _reads(t, s) is not None), default=-1)
    if len(loads) != sum(_reads(t, s) is not None for t in inner):
        return None
    for i, t in enumerate(inner):
        if isinstance(t, Store) and i > last and (place := _place(s, t, r, c)) is not None:
            others = (o for o in statements(s.finish) if isinstance(o, Store) and o is not t)
            alone = place.buffer.name not in shared
            if alone and all(o.memory != t.memory for o in others):
                instead: dict[Scalar, Scalar] = {
                    x: Load(x.dtype, place.buffer, t.offset) for x in loads
                }
                return Sums(place, instead, len(inner) == 2 and [t.scalar] == loads)
    return None


def _nest(s: Product) -> tuple[str, str, Body] | None:
    """Rows, and in them columns, of which all statements are about one element."""
    match s.finish:
        case (*above, Loop(r, rows, body=(*beside, Loop(c, cols, body=inner)))):
            whole = (rows, cols) == (symbol(s.spot[2]), symbol(s.spot[3]))
            simple = all(isinstance(t, Let | Define) for t in (*above, *beside))
            return (r, c, inner) if whole and simple else None
        case _:
            return None


def _reads(t: Statement, s: Product) -> Load | None:
    """The load of a sum that a statement is."""
    match t:
        case Let(Load(memory=memory) as x) if memory is s.tile:
            return x
        case _:
            return None


def _place(s: Product, t: Store, r: str, c: str) -> Operand | None:
    """The matrix that a store writes, if it is one of the type of the sums."""
    if not isinstance(t.memory, Buffer) or t.memory.role != "out" or t.where:
        return None
    row, col, _, _ = map(symbol, s.spot)
    corner = dict.fromkeys((r, c, *s.spot[:2]), 0)
    start = substitute(t.offset, corner)
    step = substitute(t.offset, {**corner, r: 1}) - start
    found = Operand(t.memory, start, False, step)
    own = {r, c, *s.spot} & {*symbols(start), *symbols(step)}
    same = found.at(row + symbol(r), col + symbol(c)) == t.offset
    return found if same and not own and t.memory.dtype == s.tile.dtype else None
