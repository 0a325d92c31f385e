"""Operands of products that are computed when they are needed, piece by piece.

What lies in memory in no regular way (the windows of a convolution, picked rows, heads that are
joined), or is only computed from it, is no array of its own: the product asks for some rows of it,
or some columns where these lie beside one another, and copies them to where it reads them often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.index import exact, step_of
from dlvm.gen.loops.statements import (
    CHUNK,
    Body,
    Fill,
    Let,
    Load,
    Local,
    Operand,
    Statement,
    statements,
)
from dlvm.ir import Dim, Value
from dlvm.ir.sizes.dims import floordiv, maximum, minimum, mod, product, symbol
from dlvm.ir.sizes.positions import Index, split
from dlvm.ops import Permute, Reshape

from .elements import Pull

FEW = 12
"""Elements of a unit that are written in vectors of powers of two, without masks."""
LONGEST = 256
"""Elements of a unit, at most."""
FITTING = 16
"""Elements from which on a unit that divides a chunk of k is taken in the place of a longer one."""


def filled(pull: Pull, x: Value, batch: Index) -> tuple[Operand, Fill] | None:
    """A matrix of a product as what computes it, rows or columns as they lie in memory."""
    if x.dtype != x.dtype.compute:
        return None
    inner, transposed = _upright(x)
    matrix = _Matrix.of(inner, len(batch))
    if matrix is None:
        return None
    fill = matrix.fill(pull, batch)
    return Operand(fill.piece, 0, transposed, 0), fill


def _upright(x: Value) -> tuple[Value, bool]:
    """The matrix itself, or that of which it is the transpose."""
    turned = (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2)
    if isinstance(x, Permute) and x.perm == turned:
        return x.x, True
    return x, False


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A value whose axes behind those of a batch are those of rows, and then of columns."""

    value: Value
    rows: tuple[Dim, ...]
    cols: tuple[Dim, ...]

    @staticmethod
    def of(x: Value, batch: int) -> _Matrix | None:
        """A matrix, or what was reshaped to be one."""
        plain = _Matrix(x, x.shape[batch:-1], x.shape[-1:])
        if not isinstance(x, Reshape):
            return plain
        shape = x.x.shape
        for cut in range(batch, len(shape)):
            rows, cols = shape[batch:cut], shape[cut:]
            if shape[:batch] == x.shape[:batch] and product(cols) == x.shape[-1]:
                return _Matrix(x.x, rows, cols) if product(rows) == x.shape[-2] else plain
        return plain

    def fill(self, pull: Pull, batch: Index) -> Fill:
        """What computes some rows of some units."""
        nest = pull.nest
        names = [nest.fresh(f"%{hint}") for hint in ("row", "unit", "rows", "units", "step")]
        row, first, rows, units, step = map(symbol, names)
        piece = Local(nest.fresh("piece"), self.value.dtype, 0)
        run = self._run(pull, batch)
        outer, length = self.cols[: len(self.cols) - len(run)], product(run)
        known = bool(outer) and isinstance(length, int)
        size = _unit(int(length), product(self.cols)) if known else 1

        def write(index: Index, at: Dim) -> None:
            nest.store(piece, r * step + at, pull.element(self.value, At((*batch, *down, *index))))

        with nest.scope(*names, closed=True) as body, nest.loop("serial", rows, "r") as r:
            down = self._digits(pull, row + r, self.rows)
            if known:
                parts = floordiv(length, size)
                with nest.loop("serial", units, "u") as u:
                    whole = nest.named("whole", floordiv(first + u, parts), product(outer) - 1)
                    part = nest.named("part", mod(first + u, parts), parts - 1)
                    across = self._digits(pull, whole, outer)
                    for at, width in exact(size) if size <= FEW else ((0, size),):
                        lanes = width if size <= FEW else 0
                        with nest.loop("parallel", width, "c", width=lanes) as c:
                            inner = split(part * size + at + c, run)
                            write((*across, *inner), u * size + at + c)
            elif outer:
                top, behind = floordiv(first, length), first + units
                runs = floordiv(behind - 1, length) - top + 1
                with nest.loop("serial", runs, "u", counts=1) as u:
                    whole = nest.named("whole", top + u, product(outer) - 1)
                    start = maximum(first - whole * length, 0)
                    across = self._digits(pull, whole, outer)
                    left = minimum(behind - whole * length, length) - start
                    with nest.loop("parallel", left, "c", counts=units) as c:
                        inner = split(start + c, run)
                        write((*across, *inner), whole * length - first + start + c)
            else:
                with nest.loop("parallel", units, "c") as c:
                    write(split(first + c, run), c)
        return Fill(piece, size, tuple(names), tuple(body))

    def _digits(self, pull: Pull, position: Dim, shape: Index) -> Index:
        """An index from its position, each part computed once."""
        parts = zip(split(position, shape), shape, strict=True)
        return tuple(
            d if len(shape) == 1 else pull.nest.named("digit", d, size - 1) for d, size in parts
        )

    def _run(self, pull: Pull, batch: Index) -> Index:
        """The axes of a run: what can be read along one line, as many of the last as possible."""
        if not pull.forms.take("units", len(self.cols) > 1):
            return self.cols
        lines = (i for i in range(len(self.cols) - 1) if self._on_one_line(pull, batch, i))
        return self.cols[next(lines, len(self.cols) - 1) :]

    def _on_one_line(self, pull: Pull, batch: Index, first: int) -> bool:
        """Whether all that is read moves by one step along the axes from one on."""
        nest = pull.nest
        before = (*self.rows, *self.cols[:first])
        names = [nest.fresh("%i") for _ in before]
        last = nest.fresh("%j")
        with nest.scope(*names, last, closed=True) as body:
            ahead = tuple(map(symbol, names))
            index = (*batch, *ahead, *split(symbol(last), self.cols[first:]))
            pull.element(self.value, At(index))
        loads = list(_loads(tuple(body)))
        return all(step_of(load.offset, last) is not None and not load.where for load in loads)


def _unit(length: int, k: Dim) -> int:
    """The elements of a unit of a run: as many as possible, of which whole ones are a chunk.

    What crosses the end of a chunk is computed for both chunks.
    """
    units = [n for n in range(1, LONGEST + 1) if length % n == 0]
    fitting = [n for n in units if CHUNK % n == 0]
    long = not isinstance(k, int) or k > CHUNK
    return fitting[-1] if long and fitting[-1] >= FITTING else units[-1]


def _loads(body: Body) -> Iterator[Load]:
    lets: Iterator[Statement] = statements(body)
    return (s.scalar for s in lets if isinstance(s, Let) and isinstance(s.scalar, Load))
