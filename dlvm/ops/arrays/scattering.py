"""The other ways to write at indices: in place of what is there, times it, the larger, the smaller.

Modes and batch axes are those of ``indexing``. Equal indices are served in order, so that a
result never depends on who comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError
from dlvm.ir import Array, TensorType, Value, rewrite, splat, zeros
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.elements.logic import Equal, Select
from dlvm.ops.elements.meanings import with_zeros_in_order

from .extremes import UFUNCS
from .indexing import Gather, Scatter, ScatterAdd, at_flat
from .movement import Reshape


class ScatterSet(Scatter):
    """``x`` with ``updates`` in place of what the indices name; of equal indices the last wins."""

    name = "scatter_set"

    def write(self, target: Array, at: Array, rows: Array) -> None:
        """In order of the indices."""
        for place, row in zip(at, rows, strict=True):
            target[place] = row

    def combine(self, s: Scalars[S], old: S, new: S) -> S:
        return new

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        where, nothing = (self.axis, self.batch, self.mode), zeros(self.updates.type)
        if self.indices.type.rank > self.batch:  # backwards, so that only the last is not 0
            cleared, picked = Exchange(dy[0], self.indices, nothing, *where, reverse=True).results
            return cleared, None, picked
        picked = Gather(dy[0], self.indices, *where)  # first, so that dy can be cleared in place
        return ScatterSet(dy[0], self.indices, nothing, *where), None, picked


@rewrite(
    ScatterSet,
    example=lambda x, i, u: ScatterSet(x, Reshape(i, (*i.shape, 1)), u, 1, batch=1, mode="clip"),
    given=("n[B,3,N]", "i[B,K]", "n[B,K,1,N]"),
)
def set_at_reshaped(op: ScatterSet) -> Value | None:
    """Reshaped indices write the same updates, reshaped with them."""
    return at_flat(op)


class Exchange(Scatter):
    """Puts each update in its place, and gives what it found there: ``(x, updates)`` exchanged.

    Updates come in order of the indices, or in ``reverse``; at equal indices one finds what
    the one before it put there. Outside of the axis ``drop`` finds 0. The adjoint is the
    exchange of the cotangents in the opposite order.
    """

    name = "exchange"
    reverse: bool = False

    def infer(self) -> tuple[TensorType, ...]:  # type: ignore[override]
        """The types of ``x`` and of the updates."""
        return super().infer(), self.updates.type

    def reference(self, *operands: Array) -> Any:
        x, indices, updates = operands
        axis, moved = self.axis, updates.shape
        size, count = x.shape[axis], int(np.prod(indices.shape[self.batch :], dtype=np.int64))
        safe, inside = self.resolve(indices, size)
        out = x.copy()
        before = np.zeros((*x.shape[:axis], count, *x.shape[axis + 1 :]), x.dtype)
        if size:
            steps = [(key, k) for key in np.ndindex(*x.shape[: self.batch]) for k in range(count)]
            for key, k in reversed(steps) if self.reverse else steps:
                if self.mode == "clip" or inside[key].reshape(-1)[k]:
                    rows = updates.reshape(before.shape)[key]
                    along = (slice(None),) * (axis - self.batch)
                    place = (*along, safe[key].reshape(-1)[k])
                    before[key][(*along, k)] = out[key][place]
                    out[key][place] = rows[(*along, k)]
        return out, before.reshape(moved)

    def combine(self, s: Scalars[S], old: S, new: S) -> S:
        return new

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        where = (self.axis, self.batch, self.mode, not self.reverse)
        dx, du = Exchange(dy[0], self.indices, dy[1], *where).results
        return dx, None, du


class _Numeric(Scatter):
    """Ways to write that calculate."""

    def infer(self) -> TensorType:
        """The type of ``x``, whose elements are numbers."""
        if self.x.dtype.kind not in "iuf":
            raise DTypeError(f"{self.name}: not defined for {self.x.type}")
        return super().infer()

    @property
    def where(self) -> tuple[int, int, str]:
        """Where in ``x`` the indices point, and what they may."""
        return self.axis, self.batch, self.mode


class ScatterMul(_Numeric):
    """``x`` with what the indices name multiplied by ``updates``, in order.

    Half precision rounds after each factor.
    """

    name = "scatter_mul"
    word = "mul"

    def write(self, target: Array, at: Array, rows: Array) -> None:
        """Unbuffered multiplication."""
        np.multiply.at(target, at, rows)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        factors = ScatterMul(splat(1, self.x.type), self.indices, self.updates, *self.where)
        dz = Gather(dy[0], self.indices, *self.where)
        return dy[0] * factors, None, dz * Gather(self.x, self.indices, *self.where) * self._rest()

    def _rest(self) -> Value:
        """For each update the product of the others at its place, also where some are zero.

        The sum of the other zeros stands for their product: it is 0 as well, and with one of
        them has the derivative of the product.
        """
        u = self.updates
        zero, one, nothing = Equal(u, zeros(u.type)), splat(1, u.type), zeros(u.type)
        product = self._at_each(ScatterMul, 1, Select(zero, one, u))
        count = Select(zero, one, nothing)
        others = self._at_each(ScatterAdd, 0, count) - count
        vanishing = Select(zero, u, nothing)
        other = self._at_each(ScatterAdd, 0, vanishing) - vanishing
        with_zeros = Select(Equal(others, one), other, nothing)
        return product / Select(zero, one, u) * Select(Equal(others, nothing), one, with_zeros)

    def _at_each(self, law: Any, start: int, updates: Value) -> Value:
        total = law(splat(start, self.x.type), self.indices, updates, *self.where)
        return Gather(total, self.indices, *self.where)


class _Extreme(_Numeric):
    """The extreme of old and new by ``word``; those who tie share the cotangent evenly."""

    def write(self, target: Array, at: Array, rows: Array) -> None:
        """Unbuffered extremes; NumPy leaves open which of two zeros is kept."""
        before = target.copy()
        UFUNCS[self.word].at(target, at, rows)

        def anywhere(truths: Array) -> Array:
            here = (before == 0) & (np.signbit(before) == (self.word == "min"))
            np.logical_or.at(here, at, truths)
            return here

        target[...] = with_zeros_in_order(target, rows, self.word, anywhere)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        u, where = self.updates, self.where
        kept, won = Equal(self.x, self), Equal(u, Gather(self, self.indices, *where))
        ours = Select(won, splat(1, u.type), zeros(u.type))
        ties = Select(kept, splat(1, self.x.type), zeros(self.x.type))
        share = dy[0] / ScatterAdd(ties, self.indices, ours, *where)
        dx = Select(kept, share, zeros(self.x.type))
        return dx, None, Select(won, Gather(share, self.indices, *where), zeros(u.type))


class ScatterMax(_Extreme):
    """``x`` with the larger of ``updates`` and what the indices name; NaN if either is.

    Those who tie share the cotangent evenly.
    """

    name = "scatter_max"
    word = "max"


class ScatterMin(_Extreme):
    """``x`` with the smaller of ``updates`` and what the indices name; NaN if either is.

    Those who tie share the cotangent evenly.
    """

    name = "scatter_min"
    word = "min"


_WRITING = (ScatterSet, ScatterAdd, ScatterMul, ScatterMin, ScatterMax)
SCATTERS: dict[str, type[Scatter]] = {c.name.removeprefix("scatter_"): c for c in _WRITING}
"""The operations that only write, by what they make of old and new: set, add, mul, min, max."""
