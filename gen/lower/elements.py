"""The element of a value at an index, as scalars: lowering by asking backwards.

``Pull`` holds one rule for each family of operations. A rule is a generator that asks for
elements of operands and returns the element of each result; rules are run by a loop, not by
recursion, as a kernel may be a long chain. Reductions and products are in ``fold.py``.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.builder import At, LoopScalars, Nest
from dlvm.gen.loops.index import guarded
from dlvm.gen.loops.statements import Buffer, Local, Scalar, Table, Where
from dlvm.gen.loops.status import code_of
from dlvm.ir import I64, U64, Dim, Function, Op, Param, Part, Value
from dlvm.ir.sizes.dims import at_least
from dlvm.ir.sizes.positions import flatten
from dlvm.ops import (
    Constant,
    DimSize,
    Elementwise,
    Gather,
    IndexMap,
    Iota,
    Matmul,
    Reduction,
    Running,
)
from dlvm.ops.arrays.indexing import Indexed

from .folds import Fold
from .forms import Forms
from .running import alone

Asked = tuple[Value, At]
Rule = Generator[Asked, Scalar, tuple[Scalar, ...]]


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of a value in an array: some positions of two axes, from a corner."""

    memory: Local
    axes: tuple[int, int]
    corner: tuple[Dim, Dim]
    width: int


class Pull:
    """Elements of the values of one kernel body, whose parameters are buffers.

    Of values in ``tiles`` a part lies in a local array; those in ``kept`` lie in the room of a
    result, since the sweep that computed them.
    """

    def __init__(
        self, body: Function, buffers: tuple[Buffer, ...], tree: tuple[int, int], forms: Forms
    ) -> None:
        self.nest = Nest()
        self.words = LoopScalars(self.nest)
        self.forms = forms
        self.fold = Fold(self, tree, forms)
        self.tiles: dict[Value, Tile] = {}
        self.buffers = dict(zip(body.params, buffers, strict=False))
        self.kept: dict[Value, Buffer] = {}
        self.spots: dict[Gather, Dim] = {}
        """Where the part begins that each of these picks, where that is known from outside."""
        self._tables: dict[Constant, Table] = {}
        self._checked: set[tuple[Scalar, Where]] = set()

    def element(self, value: Value, at: At) -> Scalar:
        """The element of a value at an index."""
        running: list[tuple[Asked, Rule]] = []
        asked: Asked = (value, at)
        while True:
            answer = self._answer(*asked)
            if answer is None:
                running.append((asked, self._rule(_owner(asked[0]), asked[1])))
            elif not running:
                return answer
            asked = self._advance(running, answer)

    def _advance(self, running: list[tuple[Asked, Rule]], answer: Scalar | None) -> Asked:
        """Go on with the last rule: what it asks next, or what it was asked if it is done."""
        asked, rule = running[-1]
        try:
            return rule.send(answer)  # pyright: ignore[reportArgumentType]
        except StopIteration as done:
            running.pop()
            self.nest.remember(_owner(asked[0]), asked[1], done.value)
            return asked

    def _answer(self, value: Value, at: At) -> Scalar | None:
        """What is known already, or can be said without asking."""
        owner = _owner(value)
        known = self.nest.known(owner, at) or self._direct(owner, at)
        return None if known is None else known[value.index if isinstance(value, Part) else 0]

    def _direct(self, value: Value, at: At) -> tuple[Scalar, ...] | None:
        if value in self.kept:
            return (self.nest.load(self.kept[value], flatten(at.index, value.shape), at.where),)
        if (tile := self.tiles.get(value)) is not None:
            i, j = (at.index[a] - c for a, c in zip(tile.axes, tile.corner, strict=True))
            total = self.nest.load(tile.memory, i * tile.width + j)
            return (self.words.cast(total, value.type.dtype),)
        match value:
            case Param():
                buffer = self.buffers[value]
                return (self.nest.load(buffer, flatten(at.index, value.shape), at.where),)
            case Constant():
                return (self._constant(value, at),)
            case DimSize(size):
                return (self.nest.size(size),)
            case Iota(_, dtype):
                return (self.words.cast(self.nest.size(at.index[0]), dtype),)
            case Reduction():
                return self.fold.alone(value, at)
            case Running():
                return (alone(self, value, at),)
            case Matmul():
                return (self.fold.dot(value, at),)
            case _:
                return None

    def _constant(self, op: Constant, at: At) -> Scalar:
        if op.value.size == 1:
            return self.words.constant(op.value.item(), op.dtype)
        return self.nest.load(self._table(op), flatten(at.index, op.shape), at.where)

    def _table(self, op: Constant) -> Table:
        return self._tables.setdefault(op, Table(self.nest.fresh("table"), op.value))

    def _rule(self, value: Value, at: At) -> Rule:
        match value:
            case Elementwise():
                return self._elementwise(value, at)
            case IndexMap():
                return self._moved(value, at)
            case Gather():
                return self._gather(value, at)
            case _:
                raise CompilerError(f"a kernel can't hold {value!r}")

    def _elementwise(self, op: Elementwise, at: At) -> Rule:
        """Half precision computes in f32 through the whole formula and rounds once."""
        xs: list[Scalar] = []
        for x in op.operands:
            xs.append(self.words.wide((yield x, at)))
        out = op.scalar(self.words, *xs)
        outputs = out if isinstance(out, tuple) else (out,)
        pairs = zip(outputs, op.result_types, strict=True)
        return tuple(self.words.cast(o, t.dtype) for o, t in pairs)

    def _moved(self, op: IndexMap, at: At) -> Rule:
        """An element of an operand: of the first that is read here, 0 if none is."""
        found: list[tuple[Scalar, Where]] = []
        failed: set[Dim] = set()
        for read in op.reads(at.index):
            if (inside := self._open(*read.where)) is None:
                continue
            x = yield op.operands[read.operand], At(read.index, guarded(at.where, *inside))
            inside = tuple(d for d in inside if d not in failed)
            found.append((x, inside))
            if not inside:
                break
            if len(inside) == 1:
                failed.add(-1 - inside[0])
        else:
            found.append((self.words.constant(0, op.result_types[0].dtype), ()))
        (out, _), *before = reversed(found)
        for x, inside in before:
            out = self.words.select(self.nest.inside(inside), x, out)
        return (out,)

    def _open(self, *conditions: Dim) -> Where | None:
        """Those of the conditions that may or may not hold here; none where one never does."""
        if any(self.nest.holds(-1 - d) for d in conditions):
            return None
        return guarded((), *(d for d in conditions if not self.nest.holds(d)))

    def _gather(self, op: Gather, at: At) -> Rule:
        rank = op.indices.type.rank - op.batch
        before, picked = at.index[: op.axis], at.index[op.axis : op.axis + rank]
        after = at.index[op.axis + rank :]
        if op in self.spots:
            return ((yield op.x, At((*before, self.spots[op], *after), at.where)),)
        raw = yield op.indices, At((*before[: op.batch], *picked), at.where)
        spot, inside = self.resolve(op, raw, at.where)
        where = guarded(at.where, *inside)
        x = yield op.x, At((*before, spot, *after), where)
        if not inside or op.mode == "error":
            return (x,)
        return (self.words.select(self.nest.inside(inside), x, self.words.constant(0, op.dtype)),)

    def resolve(self, op: Indexed, raw: Scalar, where: Where) -> tuple[Dim, Where]:
        """A run-time index as a safe one, and where it means an element.

        It wraps once when negative; in mode ``error`` it is checked, where there is an index at
        all: one that is the same everywhere stands outside of the loops over them.
        """
        words, size = self.words, op.operands[0].shape[op.axis]
        i, extent = self._signed(raw), self.nest.size(size)
        zero = words.constant(0, I64)
        if raw.dtype.kind == "i":
            wrapped = words.binary("add", i, extent)
            i = words.select(words.binary("lt", i, zero), wrapped, i)
        last = words.binary("sub", extent, words.constant(1, I64))
        safe = words.binary("max", words.binary("min", i, last), zero)
        spot = self.nest.bind("at", safe, size - 1)
        filled: Where = () if at_least(size, 1) else (size - 1,)
        if op.mode == "clip":
            return spot, filled
        ok = words.binary("eq", safe, i)
        if filled:
            ok = words.binary("and", ok, self.nest.inside(filled))
        if op.mode == "error":
            self._check(op, ok, raw, where)
        flag = self.nest.bind("ok", words.cast(ok, I64), 1)
        return spot, (*filled, flag - 1)

    def _signed(self, raw: Scalar) -> Scalar:
        """As i64; what is too large for that stays large."""
        if raw.dtype == U64:
            raw = self.words.binary("min", raw, self.words.constant(int(I64.highest), U64))
        return self.words.cast(raw, I64)

    def _check(self, op: Op, ok: Scalar, raw: Scalar, where: Where) -> None:
        if (ok, where) not in self._checked:
            self._checked.add((ok, where))
            size = op.operands[0].shape[op.axis] if isinstance(op, Indexed) else 0
            some = tuple(n - 1 for n in op.operands[1].shape if not at_least(n, 1))
            self.nest.check(ok, self._signed(raw), size, code_of(op), where, some)


def _owner(value: Value) -> Value:
    return value.op if isinstance(value, Part) else value
