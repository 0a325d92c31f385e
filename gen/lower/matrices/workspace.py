"""Matrices in scratch memory, as the loops of factorisations see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.builder import At, Nest
from dlvm.gen.loops.statements import Buffer, Kind, Scalar
from dlvm.gen.lower.elements import Pull
from dlvm.ir import Dim, DType, Value
from dlvm.ir.sizes.dims import floordiv, product
from dlvm.ir.sizes.positions import Index, flatten
from dlvm.ops import Factorisation
from dlvm.ops.factorisations.tridiagonal import LANES


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix of a batch, from ``start`` on, in memory that is read and written."""

    nest: Nest
    memory: Buffer
    start: Dim
    columns: Dim

    def at(self, i: Dim, j: Dim) -> Dim:
        """The offset of an element."""
        return self.start + i * self.columns + j

    def load(self, i: Dim, j: Dim, *where: Dim) -> Scalar:
        """An element, or zero where one of ``where`` is negative."""
        return self.nest.load(self.memory, self.at(i, j), where)

    def store(self, i: Dim, j: Dim, x: Scalar) -> None:
        """Write an element."""
        self.nest.store(self.memory, self.at(i, j), x)


class Work:
    """What the loops of one factorisation are made with: operands, results and scratch memory."""

    def __init__(
        self,
        pull: Pull,
        op: Factorisation,
        targets: Mapping[Value, Buffer],
        kind: Kind,
        blocked: bool,
    ) -> None:
        self.kind: Kind = kind
        self.blocked = blocked
        self.pull, self.nest, self.words, self.targets = pull, pull.nest, pull.words, targets
        self.dtype = op.result_types[0].dtype.compute
        self.batch = op.operands[0].shape[:-2]
        self._rooms: dict[str, Buffer] = {}

    @property
    def together(self) -> bool:
        """Whether the lanes of a block share all loops whose turns are independent."""
        return self.kind == "parallel" and not self.blocked

    def room(self, name: str, line: Index, shape: Index, batch: Index, dtype: DType) -> Matrix:
        """A matrix of scratch memory for each one of the batch."""
        whole = (*batch, *shape)
        if name not in self._rooms:
            self._rooms[name] = self.nest.room(name, dtype, product(whole))
        if self._rooms[name].size != product(whole):
            raise CompilerError(f"the scratch matrix {name} has two sizes in one kernel")
        start = flatten((*line, 0, 0), whole)
        return Matrix(self.nest, self._rooms[name], start, shape[-1])

    def element(self, x: Value, index: Index) -> Scalar:
        """An element of an operand, in the type in which it is computed."""
        return self.words.wide(self.pull.element(x, At(index)))

    def result(self, value: Value, index: Index, x: Scalar) -> None:
        """Write an element of a result."""
        found = self.words.cast(x, value.type.dtype)
        self.nest.store(self.targets[value], flatten(index, value.shape), found)

    def each(self, rows: Dim, columns: Dim, do: Callable[[Dim, Dim], None]) -> None:
        """Something independent for each element of a matrix."""
        with self.nest.loop(self.kind, rows) as i, self.nest.loop(self.kind, columns) as j:
            do(i, j)

    def number(self, x: float) -> Scalar:
        """A number of the type in which is computed."""
        return self.words.constant(x, self.dtype)

    def folded(self, count: Dim, start: Scalar, step: Callable[[Scalar, Dim], Scalar]) -> Scalar:
        """A state carried through a loop, step by step."""
        state = self.nest.local("state", start.dtype, 1)
        self.nest.store(state, 0, start)
        with self.nest.loop("serial", count, "s") as i:
            self.nest.store(state, 0, step(self.nest.load(state, 0), i))
        return self.nest.load(state, 0)

    def dot(
        self, count: Dim, x: Callable[[Dim], Scalar], y: Callable[[Dim], Scalar] | None = None
    ) -> Scalar:
        """A sum of products, or of squares: ``LANES`` chains, their sum, and then what is left.

        Chains that do not wait for one another take a fraction of the time of a single one.
        """
        nest, words, whole = self.nest, self.words, floordiv(count, LANES)
        chains = nest.local("chains", self.dtype, LANES)

        def added(total: Scalar, i: Dim) -> Scalar:
            first = x(i)
            return words.binary("add", total, words.binary("mul", first, y(i) if y else first))

        with nest.loop(self.kind, LANES) as lane:
            nest.store(chains, lane, self.number(0))
        with nest.loop("serial", whole) as turn, nest.loop(self.kind, LANES) as lane:
            nest.store(chains, lane, added(nest.load(chains, lane), turn * LANES + lane))
        total = nest.load(chains, 0)
        for lane in range(1, LANES):
            total = words.binary("add", total, nest.load(chains, lane))

        def last(total: Scalar, i: Dim) -> Scalar:
            return added(total, nest.named("last", whole * LANES + i, count - 1))

        return self.folded(count - whole * LANES, total, last)

    def minus(self, x: Scalar, y: Scalar, z: Scalar) -> Scalar:
        """``x - y*z``, with two roundings as in the references."""
        return self.words.binary("sub", x, self.words.binary("mul", y, z))
