"""What a kernel may do in place: which of its inputs may be the memory of which output.

Two ways. A kernel that scatters updates its target, an ``inout`` buffer, and so gives a result
without a buffer of its own. And an output may overwrite an input where every element of the
input is read only to compute the element that is then stored at the same place: the store
depends on the load, so no target may exchange the two, whatever it knows of aliasing.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Let,
    Load,
    LoopKernel,
    Nested,
    Product,
    Scalar,
    Search,
    Store,
    Word,
    statements,
)

_KNOWN: WeakKeyDictionary[LoopKernel, frozenset[tuple[int, int]]] = WeakKeyDictionary()


def replaceable(kernel: LoopKernel) -> frozenset[tuple[int, int]]:
    """Pairs (input, output) of buffers that may be one memory."""
    found = _KNOWN.get(kernel)
    if found is None:
        found = _KNOWN[kernel] = frozenset(_replaceable(kernel))
    return found


def _replaceable(kernel: LoopKernel) -> Iterator[tuple[int, int]]:
    loads = list(_loads(kernel.body))
    stores = list(_stores(kernel.body))
    products = [s for s in statements(kernel.body) if isinstance(s, Product)]
    read_whole = {m.buffer for p in products for m in (p.x, p.y) if isinstance(m.buffer, Buffer)}
    read_whole |= {x.memory for x in _searches(kernel.body) if isinstance(x.memory, Buffer)}
    for i, source in enumerate(kernel.buffers):
        for o, target in enumerate(kernel.buffers):
            if (
                (source.role, target.role) == ("in", "out")
                and source.size == target.size
                and source.dtype == target.dtype
                and source not in read_whole
                and _same_place(source, target, loads, stores)
            ):
                yield i, o


def _same_place(
    source: Buffer,
    target: Buffer,
    loads: list[tuple[int, Load]],
    stores: list[tuple[int, Store]],
) -> bool:
    read = [(body, load) for body, load in loads if load.memory == source]
    written = [(body, store) for body, store in stores if store.memory == target]
    if len(written) != 1:
        return not read
    where, store = written[0]
    needed = _cone(store.scalar)
    return all(
        body == where and load.offset == store.offset and load in needed for body, load in read
    )


def _cone(scalar: Scalar) -> set[Scalar]:
    """The scalar and all that it is computed from."""
    found: set[Scalar] = set()
    pending = [scalar]
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending.extend(one.operands if isinstance(one, Word) else ())
    return found


def _searches(body: Body) -> list[Search]:
    lets = (s for s in statements(body) if isinstance(s, Let))
    return [s.scalar for s in lets if isinstance(s.scalar, Search)]


def _loads(body: Body) -> Iterator[tuple[int, Load]]:
    for statement in body:
        if isinstance(statement, Let) and isinstance(statement.scalar, Load):
            yield id(body), statement.scalar
        elif isinstance(statement, Nested):
            yield from _loads(statement.body)


def _stores(body: Body) -> Iterator[tuple[int, Store]]:
    for statement in body:
        if isinstance(statement, Store):
            yield id(body), statement
        elif isinstance(statement, Nested):
            yield from _stores(statement.body)
