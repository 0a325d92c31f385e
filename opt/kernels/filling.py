"""Which operands of products are computed when they are needed, and are no arrays.

A product copies pieces of its operands to where it reads them often. The windows of a
convolution, heads that are joined, picked or cast rows and short formulas of what is in memory
are computed as they are copied, where that is all that they are for.
"""

from __future__ import annotations

from dlvm import cost
from dlvm.cost import instructions
from dlvm.ir import Dim, Function, Op, Value
from dlvm.ir.sizes.dims import at_least, product, symbols
from dlvm.ops import Broadcast, Gather, IndexMap, Permute, Reshape, Slice
from dlvm.ops.families import Contraction, Elementwise, Reduction, Running

LEAST = 16
"""Rows and columns of a product that reads a formula: with fewer, copying is most of the work."""
DEEPEST = 16
"""Operations between a product and memory, at most."""
Computed = Elementwise | Reduction | Running | Contraction | Gather | IndexMap
"""Operations of a kernel that others may go on in."""


def filling(fn: Function) -> set[Value]:
    """The values that only products read, and that these compute for themselves."""
    found = _Filling(fn)
    for op in reversed(fn.ops):
        found.look_at(op)
    return found.chosen()


def computed(x: Value, chosen: set[Value]) -> bool:
    """Whether a product computes an operand: it is more than a part of memory, maybe permuted."""
    pending = [x]
    while pending:
        value = pending.pop()
        if value in chosen and isinstance(value, Op):
            if not isinstance(value, Broadcast | Permute | Slice):
                return True
            pending.append(value.x)
    return False


class _Filling:
    """Who reads each value of a body, and what may be read as it is computed."""

    def __init__(self, fn: Function) -> None:
        self.users: dict[Value, list[Op]] = {}
        for op in fn.ops:
            for x in op.operands:
                self.users.setdefault(x, []).append(op)
        self.kept = set(fn.results)
        self.depth: dict[Value, int] = {}
        """Of the values that may be computed in products: how far these are."""
        self.repeated: set[Value] = set()
        """Of those: what is computed again for each window or row that repeats it."""
        self.arrays: dict[Value, frozenset[Value]] = {}
        """Of those that end in memory: the arrays that they are computed of."""

    def look_at(self, op: Op) -> None:
        """Whether an operation, all of whose users were looked at, is only for products."""
        if op.results != (op,) or op in self.kept or op not in self.users:
            return
        formula = isinstance(op, Elementwise | Gather)
        again = len(self.users[op]) > 1 and (formula or _in_short_pieces(op))
        if again or not (formula or _moves(op)):
            return
        if any(self._repeats(user) for user in self.users[op]):
            if isinstance(op, Elementwise) and instructions(op) > cost.ACCESS:
                return  # an array is read sooner than that is computed
            self.repeated.add(op)
        depths = [self._far(user, op, formula) for user in self.users[op]]
        if all(d is not None and d < DEEPEST for d in depths):
            self.depth[op] = 1 + max(d for d in depths if d is not None)

    def _repeats(self, user: Op) -> bool:
        grows = _moves(user) and user.results[0].type.size != user.operands[0].type.size
        return grows or user in self.repeated

    def _far(self, user: Op, x: Op, formula: bool) -> int | None:
        """How far a product is that reads a value by way of a user, if only products do."""
        if isinstance(user, Contraction):
            return 0 if user.dtype == user.dtype.compute and (not formula or _large(user)) else None
        return self.depth.get(user)

    def chosen(self) -> set[Value]:
        """Those that end in memory, and not in what a kernel computes anyhow.

        Movements alone of what a kernel computes are read from memory, too. A reshape of what is
        there is no movement.
        """
        for value in reversed(self.depth):  # operands first
            if isinstance(value, Op) and (found := self._arrays(value)) is not None:
                self.arrays[value] = found
        found = set[Value]()
        for value in self.depth:  # users first
            ends = value in self.arrays
            if ends and all(isinstance(u, Contraction) or u in found for u in self.users[value]):
                found.add(value)
        return found

    def _arrays(self, op: Op) -> frozenset[Value] | None:
        """The arrays in memory of which a value is computed; None if it is better kept itself."""
        if _is_number(op):
            return frozenset()
        if isinstance(op, Reshape):
            moves = op.x in self.arrays and longer(op) != longer(op.x)
            return self.arrays[op.x] if moves else None
        if _moves(op):
            (x,) = op.operands
            return self.arrays.get(x, frozenset((x,)))
        found = set[Value]()
        for x in op.operands:
            if x in self.arrays:
                found |= self.arrays[x]
            elif not _is_number(x):
                if not _in_memory(x):
                    return None
                found.add(x)
        most = 2 if isinstance(op, Gather) else 1  # or more would be kept than the result
        return frozenset(found) if len(found) <= most else None


def _moves(op: Op) -> bool:
    """Whether every element of a value is one of its operand's."""
    return isinstance(op, IndexMap) and op.everywhere


def _in_short_pieces(op: Op) -> bool:
    """Whether what a matrix is made of lies in pieces so short that one copy is better than two."""
    if not isinstance(op, Reshape):
        return False
    piece = product(op.x.shape[-2:])
    return isinstance(piece, int) and piece < LEAST


def longer(x: Value) -> list[Dim]:
    """The sizes of a tensor but for those that are 1."""
    return [n for n in x.type.shape if n != 1]


def _is_number(x: Value) -> bool:
    """Whether a value is one number throughout, or that."""
    while isinstance(x, Broadcast | Reshape):
        x = x.x
    return not x.type.shape


def _in_memory(x: Value) -> bool:
    """Whether no kernel computes a value that could go on with it."""
    while isinstance(x, Op) and _moves(x):
        (x,) = x.operands
    return not isinstance(x, Computed)


def _large(op: Contraction) -> bool:
    """Whether a product has more rows and columns than a few, if it has any."""
    sizes = op.shape[-2:]
    ranges = {name: (1.0, float("inf")) for d in sizes for name in symbols(d)}
    return all(at_least(n, LEAST, ranges) for n in sizes)
