"""A product in a kernel: the call of its generic object, and the function that finishes a tile.

The function knows the kernel's buffers, its status and the indices around the product from an
environment in memory. A body that only stores the product needs no such function: then the
sums go where it stores them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlvm.ir import Dim
from dlvm.ir.dims import substitute, symbol, symbols

from .access import Place
from .emit import Writer
from .loops import Buffer, Let, Load, Loop, Operand, Product, Store
from .product import POINTERS, WORDS, Generic, use

if TYPE_CHECKING:
    from .cpu import Emitter


def product(e: Emitter, s: Product) -> None:
    """Call the generic product on the operands, and on where its result goes."""
    outer = [n for scope in e.offsets.scopes for n in scope.names]
    values = {d: e.offsets.first(e.offsets.known(getattr(s, d))) for d in ("m", "n", "k")}
    for name, side in (("x", s.x), ("y", s.y)):
        values[name], values[f"{name}.step"] = _address(e, side)
    if (out := plain_store(s)) is not None:
        values["out"], values["out.step"] = _address(e, out)
        values["finish"] = values["environment"] = "null"
    else:
        tile = f"{e.kernel.name}.{s.tile.name}"
        _tile(e, s, tile, outer)
        values["out"], values["out.step"] = "null", "0"
        values["finish"], values["environment"] = f"@{tile}", _environment(e, outer)
    words = [("ptr" if name in POINTERS else "i64", values[name]) for name in WORDS]
    generic = Generic(
        s.x.buffer.dtype, s.x.transposed, s.y.transposed, s.tile.size // s.width, s.width
    )
    name = use(e.w.text, generic, e.target)
    e.w.do(f"call void @{name}(ptr %context, ptr {_array(e, words)})")


def _address(e: Emitter, side: Operand) -> tuple[str, str]:
    """Where a matrix starts, and how many elements its rows in memory are apart."""
    place = e.access.places[side.buffer.name]
    at = e.offsets.first(e.offsets.known(side.offset))
    pointer = e.w.value(f"getelementptr {place.element}, ptr {place.pointer}, i64 {at}")
    return pointer, e.offsets.first(e.offsets.known(side.step))


def _array(e: Emitter, values: Sequence[tuple[str, str]]) -> str:
    """Words in memory of the function's own."""
    array = e.w.array(f"[{len(values)} x i64]")
    for i, (type_, value) in enumerate(values):
        slot = e.w.value(f"getelementptr i64, ptr {array}, i64 {i}")
        e.w.do(f"store {type_} {value}, ptr {slot}, align 8")
    return array


def _environment(e: Emitter, outer: Sequence[str]) -> str:
    """What the function of a tile must know: buffers, the status, indices."""
    values = [("ptr", f"%{b.name}") for b in e.kernel.buffers] + [("ptr", "%status")]
    values += [("i64", e.offsets.first(symbol(n))) for n in outer]
    return _array(e, values)


def _tile(e: Emitter, s: Product, name: str, outer: Sequence[str]) -> None:
    """The body of a product as a function of one tile."""
    w = Writer(e.w.text)
    inner = type(e)(w, e.kernel, e.target)
    loads = [("ptr", b.name) for b in e.kernel.buffers] + [("ptr", "status")]
    loads += [("i64", n.replace("%", "s.")) for n in outer]
    for i, (type_, local) in enumerate(loads):
        slot = w.value(f"getelementptr i64, ptr %environment, i64 {i}")
        w.do(f"%{local} = load {type_}, ptr {slot}, align 8")
    w.head += w.lines
    w.lines = []
    places = inner.access.places
    places.update({b.name: Place(f"%{b.name}", b.dtype) for b in e.kernel.buffers})
    places[s.tile.name] = Place("%tile", s.tile.dtype)
    names = inner.offsets.scopes[0].names
    names.update({n: f"%{n.replace('%', 's.')}" for n in outer})
    names.update(zip(s.spot, ("%row", "%col", "%rows", "%cols"), strict=True))
    inner.body(s.body)
    spot = "i64 %row, i64 %col, i64 %rows, i64 %cols"
    header = f"internal void @{name}(ptr noalias %tile, {spot}, ptr noalias %environment)"
    e.w.text.functions[name] = w.function(header)


# -- bodies that only store -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Copy:
    """One store of what one load gives, in loops over rows and columns."""

    load: Load
    store: Store
    r: str
    c: str


def plain_store(s: Product) -> Operand | None:
    """Where the product itself is stored, as it is, if that is all that its body does."""
    found = _copy(s)
    if found is None or not isinstance(found.store.memory, Buffer):
        return None
    row, col, _, _ = map(symbol, s.spot)
    at, r, c = found.store.offset, symbol(found.r), symbol(found.c)
    start = substitute(at, {found.r: 0, found.c: 0, s.spot[0]: 0, s.spot[1]: 0})
    step = substitute(at, {found.r: 1, found.c: 0, s.spot[0]: 0, s.spot[1]: 0}) - start
    own = {found.r, found.c, *s.spot}
    if any(own & set(symbols(d)) for d in (start, step)):
        return None
    if at - start != (row + r) * step + (col + c) or found.load.offset != r * s.width + c:
        return None
    return Operand(found.store.memory, start, False, step)


def _copy(s: Product) -> _Copy | None:
    match s.body:
        case (
            Loop(
                r,
                rows,
                body=(Loop(c, cols, body=(Let(Load() as x), Store(_, _, stored, ()) as y)),),
            ),
        ):
            sizes: tuple[Dim, ...] = (rows, cols)
            whole = sizes == (symbol(s.spot[2]), symbol(s.spot[3]))
            same = stored is x and x.memory is s.tile
            kind = isinstance(y.memory, Buffer) and y.memory.dtype == s.tile.dtype
            return _Copy(x, y, r, c) if whole and same and kind else None
        case _:
            return None
