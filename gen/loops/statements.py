"""The loop level: what a kernel does to memory, one scalar at a time.

A kernel is a nest of loops over flat, dense buffers. Loop variables are symbols of
``dlvm.ir.sizes``, written ``%i0``, so offsets and extents are polynomials that the verifier can
bound. A scalar is computed once where its ``Let`` stands and named by identity; arithmetic is in
the words of ``dlvm.ir.scalar`` plus ``fma``. All mutable state is in memory: buffers, and
``Local`` arrays, private to each turn of the loops around their declaration. This room knows
nothing of targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from dlvm.base.errors import Origin
from dlvm.ir import BOOL, I64, Array, Dim, DType, TensorType, dtype_of
from dlvm.ir.sizes.dims import product

Where: TypeAlias = tuple[Dim, ...]
Kind: TypeAlias = Literal["serial", "parallel", "vector", "block", "lane"]
Role: TypeAlias = Literal["in", "out", "inout", "scratch"]

WARP = 32
"""Lanes of a GPU that run one instruction together, and exchange registers."""


# -- memory -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Buffer:
    """A dense row-major tensor that the caller hands over; ``scratch`` means nothing to it."""

    name: str
    type: TensorType
    role: Role

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return self.type.size

    @property
    def strides(self) -> tuple[Dim, ...]:
        """Elements from one index to the next, along each axis."""
        shape = self.type.shape
        return tuple(product(shape[i + 1 :]) for i in range(len(shape)))


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """Constant data that is part of the kernel."""

    name: str
    array: Array

    @property
    def dtype(self) -> DType:
        """The element type."""
        found = dtype_of(self.array)
        assert found is not None
        return found

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.array.size


@dataclass(frozen=True, slots=True)
class Local:
    """Declares an array of the kernel's own; ``shared`` by the lanes of a loop inside."""

    name: str
    dtype: DType
    size: int
    shared: bool = False


Memory: TypeAlias = Buffer | Table | Local


# -- scalars ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Scalar:
    """A value of one element; its identity is its name."""

    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Number(Scalar):
    """A constant."""

    value: float | int | bool


@dataclass(frozen=True, eq=False, slots=True)
class Size(Scalar):
    """The i64 that a size or index has here."""

    dim: Dim
    dtype: DType = field(default=I64, init=False)


@dataclass(frozen=True, eq=False, slots=True)
class Inside(Scalar):
    """Whether all of these are >= 0."""

    where: Where
    dtype: DType = field(default=BOOL, init=False)


@dataclass(frozen=True, eq=False, slots=True)
class Load(Scalar):
    """The element at a flat offset where all of ``where`` are >= 0; zero elsewhere."""

    memory: Memory
    offset: Dim
    where: Where = ()


@dataclass(frozen=True, eq=False, slots=True)
class Search(Scalar):
    """How many of the ``count`` elements at an offset come before ``key``, by halving.

    With ``right`` also those that equal it. The order is that of ``Sort``.
    """

    memory: Memory
    offset: Dim
    count: Dim
    key: Scalar
    right: bool
    where: Where = ()


@dataclass(frozen=True, eq=False, slots=True)
class Word(Scalar):
    """A word of ``dlvm.ir.scalar``, ``select``, ``cast`` or ``fma`` (x*y + z, rounded once)."""

    word: str
    operands: tuple[Scalar, ...]


# -- statements -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Let:
    """Computes a scalar; those that only serve the order of a fold are not ``counted``."""

    scalar: Scalar
    counted: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Define:
    """Another name for an index, which lies in ``0..high`` where all of ``where`` are >= 0."""

    name: str
    dim: Dim
    high: Dim
    where: Where = ()


@dataclass(frozen=True, eq=False, slots=True)
class Bind:
    """Makes an i64 scalar a symbol, which lies in ``0..high`` by construction."""

    name: str
    scalar: Scalar
    high: Dim


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """Writes the element at a flat offset where all of ``where`` are >= 0."""

    memory: Buffer | Local
    offset: Dim
    scalar: Scalar
    where: Where = ()


@dataclass(frozen=True, eq=False, slots=True)
class Check:
    """Records ``code``, the index and the size in the status unless ``ok`` (and ``where``)."""

    ok: Scalar
    index: Scalar
    size: Dim
    code: int
    where: Where = ()


@dataclass(frozen=True, eq=False, slots=True)
class Barrier:
    """All lanes get here before one goes on; it is needed for these ``arrays``, or in any case."""

    arrays: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """``0 <= var < extent``; turns of every kind but ``serial`` are independent.

    ``limit`` is a bound of the extent that is known, where one is; ``width`` is how many turns a
    vector takes (0: as many as the target's registers hold), and ``strip`` how many it takes for
    as long as so many are left. With a ``grain``, several threads
    share the turns, each taking so many or more; the turns of ``levels`` loops are then one
    range, where each stands in the one before beside nothing but scalars. Looking ``ahead``, what a
    turn reads for the second time is asked for where the next turn reads it. What is counted of the
    body is taken ``counts`` times, where that is simpler than the extent and right for all loops
    around together. A target that has the instruction ``by`` does the loop with that.
    """

    var: str
    extent: Dim
    kind: Kind
    body: Body
    limit: int | None = None
    width: int = 0
    strip: int = 0
    grain: Dim = 0
    levels: int = 1
    counts: Dim | None = None
    ahead: bool = False
    by: str = ""

    @property
    def chain(self) -> tuple[Loop, ...]:
        """The loops whose turns are shared as one range, outermost first."""
        chain: list[Loop] = [self]
        while len(chain) < self.levels:
            chain.append(next(s for s in chain[-1].body if isinstance(s, Loop)))
        return tuple(chain)


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix of a product: where it starts, and how far its rows are apart.

    Elements of a row lie beside one another; ``transposed``, those of a column do, and ``step``
    is from column to column. Of a matrix that is filled ``buffer`` is the piece of its ``Fill``.
    """

    buffer: Buffer | Local
    offset: Dim
    transposed: bool
    step: Dim

    def at(self, row: Dim, col: Dim) -> Dim:
        """The offset of an element."""
        far, near = (col, row) if self.transposed else (row, col)
        return self.offset + far * self.step + near

    def turned(self) -> Operand:
        """The transpose."""
        return replace(self, transposed=not self.transposed and self.step != 1)


@dataclass(frozen=True, eq=False, slots=True)
class Fill:
    """Computes an operand of a product when it is needed, piece by piece, into ``piece``.

    The operand's rows, or its columns where it is transposed, are made of ``units`` of so many
    elements each. In the body the first two of ``spot`` name the first row and unit of a piece, the
    next two how many there are, and the last how far rows are apart in the piece.
    """

    piece: Local
    unit: int
    spot: tuple[str, ...]
    body: Body


CHUNK = 256
"""Terms of a product that are one chain. A chain of k is off by some sqrt(k) roundings, and chunks
by sqrt(CHUNK) and the square root of their number. It is a panel of the blocked loops as well."""


@dataclass(frozen=True, eq=False, slots=True)
class Product:
    """``x @ y`` of sizes m, k, n; ``body`` sees it tile by tile, in the local ``tile``.

    In the body the first two of ``spot`` name the corner of the tile and the last two its rows
    and columns; its element (r, c) lies at ``r * width + c`` and was summed in the type of the
    tile: each ``chunk`` of k is one chain in order, by fma or modulo 2**bits, and the chunks' sums
    are added from first to last. Before what sees tiles the body may fill x, y or both.
    """

    x: Operand
    y: Operand
    m: Dim
    n: Dim
    k: Dim
    chunk: int
    tile: Local
    width: int
    spot: tuple[str, ...]
    body: Body

    @property
    def finish(self) -> Body:
        """What sees the tiles."""
        return tuple(s for s in self.body if not isinstance(s, Fill))

    def fill(self, x: Operand) -> Fill | None:
        """What computes an operand, if it is not in memory."""
        fills = (s for s in self.body if isinstance(s, Fill))
        return next((s for s in fills if s.piece == x.buffer), None)


@dataclass(frozen=True, eq=False, slots=True)
class Sort:
    """Puts the ``count`` elements at an offset of ``values`` in order, those of ``order`` alike.

    Stable; NaN is last, also where ``descending``. ``spare`` is scratch memory, laid out as
    ``values`` and ``order`` are, of which the same part is spoilt.
    """

    values: Buffer
    order: Buffer | None
    spare: tuple[Buffer, ...]
    offset: Dim
    count: Dim
    descending: bool
    where: Where = ()

    @property
    def touched(self) -> tuple[Buffer, ...]:
        """All that it reads and writes."""
        return (self.values, *(() if self.order is None else (self.order,)), *self.spare)


@dataclass(frozen=True, eq=False, slots=True)
class Multiply:
    """The 32 lanes of a warp add a product of two small matrices of shared arrays to a sum.

    The ``instruction`` says how large they are, and which elements of the sum a lane keeps, in its
    ``total`` from ``at`` on. Rows of x, and columns of y, lie ``step`` elements apart, and what is
    summed over lies side by side. Products are exact; the order of their sum is the processor's.
    """

    instruction: str
    x: Local
    x_offset: Dim
    x_step: int
    y: Local
    y_offset: Dim
    y_step: int
    total: Local
    at: int


Nested: TypeAlias = Loop | Product | Fill
"""Statements that hold others."""
Statement: TypeAlias = (
    Let | Define | Bind | Store | Check | Barrier | Local | Nested | Sort | Multiply
)
Body: TypeAlias = tuple[Statement, ...]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class LoopKernel:
    """Buffers in the order of arguments: operands, results, scratch; then the symbols of sizes.

    ``steps`` are the lines of the schedule that made these loops of the plain ones. Where they were
    lowered some ``forms`` of folds were asked for, and ``again`` makes them with others.
    """

    name: str
    buffers: tuple[Buffer, ...]
    symbols: tuple[str, ...]
    body: Body
    may_raise: bool
    steps: tuple[str, ...] = ()
    origin: Origin | None = field(default=None, compare=False)
    forms: tuple[str, ...] = ()
    again: Callable[[tuple[str, ...]], LoopKernel] | None = field(
        default=None, compare=False, repr=False
    )

    def formed(self, forms: tuple[str, ...]) -> LoopKernel:
        """The kernel with these forms of its folds."""
        if forms == self.forms or self.again is None:
            return self
        return replace(self.again(forms), origin=self.origin)

    @property
    def forks(self) -> bool:
        """Whether several threads can share the work."""
        return any(
            isinstance(s, Product) or (isinstance(s, Loop) and s.grain != 0)
            for s in statements(self.body)
        )

    def __str__(self) -> str:
        from .text import kernel_text

        return kernel_text(self)


def statements(body: Body) -> Iterator[Statement]:
    """Every statement, those of a loop right after it."""
    for statement in body:
        yield statement
        if isinstance(statement, Nested):
            yield from statements(statement.body)


def accesses(body: Body) -> Iterator[Load | Store]:
    """Every load and store that is a statement, with those in loops."""
    for s in statements(body):
        x = s.scalar if isinstance(s, Let) else s
        if isinstance(x, Load | Store):
            yield x


def dims(s: Statement) -> Iterator[Dim]:
    """The sizes and indices in one statement."""
    match s:
        case Let(Load(_, _, offset, where)) | Store(_, offset, _, where):
            yield from (offset, *where)
        case Let(Size(dim)) | Bind(_, _, dim):
            yield dim
        case Let(Search(_, _, offset, count, _, _, where)):
            yield from (offset, count, *where)
        case Sort():
            yield from (s.offset, s.count, *s.where)
        case Multiply():
            yield from (s.x_offset, s.y_offset)
        case Loop():
            yield from (s.extent, s.grain)
        case Define(_, dim, high, where):
            yield from (dim, high, *where)
        case Let(Inside(where)):
            yield from where
        case Check(_, _, size, _, where):
            yield from (size, *where)
        case Product():
            yield from (s.m, s.n, s.k, s.x.offset, s.x.step, s.y.offset, s.y.step)
        case _:
            return


def scalars(s: Statement) -> tuple[Scalar, ...]:
    """The scalars that one statement uses."""
    match s:
        case Let(Word(_, _, operands)):
            return operands
        case Let(Search(key=key)):
            return (key,)
        case Bind(_, scalar) | Store(_, _, scalar):
            return (scalar,)
        case Check(ok, index):
            return (ok, index)
        case _:
            return ()
