"""The operations of a module in VHLO as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from dlvm.base.errors import UserError
from dlvm.ir import TensorType
from dlvm.stablehlo.reading.tree import Block, Node, Tree, unreadable

from .cursor import Cursor, damaged
from .entries import NONE, Entries
from .sections import LAZY, OPERATIONS, ORDERED, SHORT, Tables, at, opened
from .vhlo import as_stablehlo, listed, word_of

ATTRIBUTES, RESULTS, OPERANDS, SUCCESSORS, REGIONS, ORDERS, PROPERTIES = (1 << i for i in range(7))
"""What an operation has, as bits of its mask."""
UNREAD = (
    "arg_attrs", "function_type", "res_attrs",
    "api_version", "backend_config", "called_computations", "operand_layouts", "result_layouts",
)  # fmt: skip
"""Attributes that no reader asks for."""
UNMADE = -1
"""The number of a value that is not made yet."""
DEEPEST = 100
"""How deep regions may stand in one another."""


def read_artifact(data: bytes) -> Tree:
    """The functions of a portable artifact."""
    tables, cursor = opened(data)
    if not any(name.startswith("vhlo.") for name in tables.names):
        raise UserError(
            "stablehlo.load: expected a portable artifact, found MLIR's bytecode without VHLO",
            remedy="give it the text of the module, or bytes of jax.export",
        )
    return Module(tables).tree(cursor)


class Scope:
    """The values that a region sees: numbers of our own, by those that each region gives anew."""

    def __init__(self, fresh: Iterator[int]) -> None:
        self._numbers: list[int] = []
        self._fresh = fresh

    @property
    def size(self) -> int:
        """How many values there are room for."""
        return len(self._numbers)

    def resize(self, size: int) -> None:
        """Makes room for the values of a region, or forgets them."""
        self._numbers = [*self._numbers[:size], *[UNMADE] * (size - len(self._numbers))]

    def define(self, place: int) -> int:
        """A new value at a place."""
        if place >= len(self._numbers):
            raise damaged(f"value {place} has no room in its region")
        self._numbers[place] = next(self._fresh)
        return self._numbers[place]

    def use(self, place: int) -> int:
        """The value at a place."""
        found = self._numbers[place] if place < len(self._numbers) else UNMADE
        if found == UNMADE:
            raise damaged(f"value {place} is used before it is made")
        return found


@dataclass
class Region:
    """The region that is being read: its values, the next place for one, and how deep it is."""

    scope: Scope
    next: int
    depth: int

    def define(self, count: int) -> tuple[int, ...]:
        """New values at the next places."""
        self.next += count
        return tuple(self.scope.define(i) for i in range(self.next - count, self.next))


class Module:
    """Reads the operations of one module."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._version = tables.version
        self._entries = Entries(tables)
        self._functions: dict[str, Block] = {}
        self._fresh = count()

    def tree(self, cursor: Cursor) -> Tree:
        """The functions by name."""
        self._block(cursor, Region(Scope(self._fresh), 0, 0))
        if not self._functions:
            raise damaged("expected a module with a function, found none")
        first = next(iter(self._functions.values()))
        return Tree({"main": first, **self._functions})

    def _block(self, cursor: Cursor, region: Region) -> Block:
        total, has_params = cursor.flagged()
        types = self._params(cursor) if has_params else ()
        params = region.define(len(types))
        if has_params and self._version >= ORDERED and cursor.byte():
            _skip_orders(cursor, len(types))
        if total > cursor.left:
            raise damaged(f"it announces {total} operations, and only {cursor.left} bytes follow")
        nodes = [self._node(cursor, region) for _ in range(total)]
        *rest, last = nodes or [Node("nothing", (), (), (), {}, ())]
        return Block(params, types, tuple(rest), last.operands)

    def _params(self, cursor: Cursor) -> tuple[TensorType, ...]:
        return tuple(self._param(cursor) for _ in range(cursor.count("parameters")))

    def _param(self, cursor: Cursor) -> TensorType:
        placed = True
        if self._version >= SHORT:
            index, placed = cursor.flagged()
        else:
            index = cursor.number()
        if placed:
            cursor.number()
        return self._entries.type(index)

    def _node(self, cursor: Cursor, region: Region) -> Node:
        name = at(self._tables.names, cursor.number(), "operation")
        mask = cursor.byte()
        cursor.number()
        said = self._said(name, cursor, mask)
        types = self._types(cursor) if mask & RESULTS else ()
        operands = tuple(map(region.scope.use, cursor.list())) if mask & OPERANDS else ()
        if mask & SUCCESSORS:
            raise unreadable(word_of(name), "it jumps to another block")
        results = region.define(len(types))
        if mask & ORDERS:
            _skip_orders(cursor, len(types))
        regions = self._regions(cursor, region) if mask & REGIONS else ()
        if name == "vhlo.func_v1":
            self._function(said, regions)
        return Node(word_of(name), operands, results, types, said, regions)

    def _said(self, name: str, cursor: Cursor, mask: int) -> dict[str, Any]:
        """The attributes, from the list of the operation or from a dictionary."""
        indices: dict[str, int] = {}
        kept = cursor.number() if mask & ATTRIBUTES else None
        if mask & PROPERTIES:
            listing = at(self._tables.properties, cursor.number(), "list of attributes")
            indices = listed(name, listing.again().numbers())
        elif kept is not None:
            indices = self._entries.named(kept)
        if not name.startswith("vhlo."):
            return {}
        read = {k: self._entries.attribute(v) for k, v in indices.items() if k not in UNREAD}
        return as_stablehlo(name, {k: v for k, v in read.items() if v is not NONE})

    def _types(self, cursor: Cursor) -> tuple[TensorType, ...]:
        return tuple(map(self._entries.type, cursor.list()))

    def _regions(self, cursor: Cursor, outer: Region) -> tuple[Block, ...]:
        total, isolated = cursor.flagged()
        if outer.depth == DEEPEST:
            raise damaged(f"regions stand in one another more than {DEEPEST} deep")
        if total > cursor.left:
            raise damaged(f"it announces {total} regions, and only {cursor.left} bytes follow")
        if isolated and self._version >= LAZY:
            kind, cursor = cursor.section()
            if kind != OPERATIONS:
                raise damaged(f"expected operations, found section {kind}")
        scope = Scope(self._fresh) if isolated else outer.scope
        return tuple(self._region(cursor, scope, outer.depth + 1) for _ in range(total))

    def _region(self, cursor: Cursor, scope: Scope, depth: int) -> Block:
        if (blocks := cursor.number()) != 1:
            raise unreadable("a region", f"it has {blocks} blocks instead of one")
        first = scope.size
        scope.resize(first + cursor.count("values"))
        found = self._block(cursor, Region(scope, first, depth))
        scope.resize(first)
        return found

    def _function(self, said: dict[str, Any], regions: tuple[Block, ...]) -> None:
        name = said.get("sym_name")
        if not isinstance(name, str) or len(regions) != 1:
            raise damaged("a function without a name or a body")
        self._functions[name] = regions[0]


def _skip_orders(cursor: Cursor, values: int) -> None:
    """Passes over the order of uses, which does not matter here."""
    for _ in range(cursor.number() if values > 1 else 1):
        if values > 1:
            cursor.number()
        total, _ = cursor.flagged()
        for _ in range(total):
            cursor.number()
