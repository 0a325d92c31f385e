"""Products: the batched matrix product, to which every other contraction is brought."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ir import Array, Dim, TensorType, Value, rewrite, zeros
from dlvm.ir.numerics import FAST, ROUNDING
from dlvm.ir.properties import Of, Properties
from dlvm.ir.sharding.factors import Factors, all_of
from dlvm.ir.sizes.dims import product
from dlvm.ops.elements.casting import converted
from dlvm.ops.elements.elementwise import Mul
from dlvm.ops.families import Contraction, wide
from dlvm.ops.literals import is_splat
from dlvm.ops.patterns import are_transposes, is_transpose

from .movement import Broadcast, Permute, Reshape
from .sums import Sum, spread


class Matmul(Contraction):
    """``y[b, m, n] = sum over k of x[b, m, k] * y[b, k, n]`` with equal leading batch axes.

    The empty sum is 0. Half precision multiplies and sums in f32 and rounds once.
    """

    name = "matmul"
    x: Value
    y: Value

    def infer(self) -> TensorType:
        """The batch axes, the rows of ``x`` and the columns of ``y``."""
        x, y = self.x.type, self.y.type
        if x.dtype != y.dtype or x.dtype.kind not in "iuf":
            raise DTypeError(f"matmul: expected one numeric element type, found {x} and {y}")
        if x.rank < 2 or x.rank != y.rank or x.shape[:-2] != y.shape[:-2]:
            raise ShapeError(
                f"matmul: expected equal batch axes and two more each, found {x} and {y}"
            )
        if x.shape[-1] != y.shape[-2]:
            raise ShapeError(
                f"matmul: {x.shape[-1]} columns of {x} against {y.shape[-2]} rows of {y}",
                sides=(x.shape[-1], y.shape[-2]),
            )
        return x.with_shape((*x.shape[:-1], y.shape[-1]))

    def batched(self, size: Dim) -> dict[str, Any]:
        return {}

    def factors(self) -> Factors:
        """Batches, rows and columns pass; what is summed over is added."""
        lead, (m, n, k) = all_of(self.type.rank - 2), (-1, -2, -3)
        places = ((*lead, m, k), (*lead, k, n))
        return Factors(places, ((*lead, m, n),), {k: "add"}, (0, 0))

    def properties(self, of: Of) -> Properties:
        """Zeros and signs of both; ``X X'`` is semidefinite, ``X S X'`` symmetric as S is."""
        x, y = of(self.x), of(self.y)
        kept = x & y & {"lower", "upper", "diagonal", "orthogonal", "identity"}
        signs = x & y & {"nonnegative"} if self.dtype.is_float else frozenset[str]()
        return kept | signs | _congruence(self.x, self.y, of)

    def reference(self, *operands: Array) -> Any:
        x, y = (wide(a) for a in operands)
        return np.matmul(x, y).astype(self.x.dtype.numpy)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return Matmul(dy[0], transposed(self.y)), Matmul(transposed(self.x), dy[0])


def _congruence(x: Value, y: Value, of: Of) -> Properties:
    """The symmetry of ``X X'`` and of ``X S X'``, whichever product was first."""
    if are_transposes(x, y):
        return frozenset(("psd",))
    if isinstance(y, Matmul) and are_transposes(x, y.y):
        return of(y.x) & {"symmetric", "psd"}
    if isinstance(x, Matmul) and are_transposes(x.x, y):
        return of(x.y) & {"symmetric", "psd"}
    return frozenset()


def transposed(x: Value) -> Value:
    """The last two axes exchanged."""
    rank = x.type.rank
    return Permute(x, (*range(rank - 2), rank - 1, rank - 2))


@rewrite(
    Permute,
    example=lambda x, y: transposed(Matmul(transposed(x), transposed(y))),
    given=("f[M,K]", "f[N,M]"),
    law_class=ROUNDING,
)
def transpose_of_product(op: Permute) -> Value | None:
    """(A' B')' = B A: the transposes of a product of transposes cancel."""
    if not is_transpose(op):
        return None
    match op.x:
        case Matmul(Permute(x, p), Permute(y, q)) if p == q == op.perm:
            return Matmul(y, x)
        case _:
            return None


def _zero_operand(op: Matmul) -> Value | None:
    return zeros(op.type) if is_splat(op.x, 0) or is_splat(op.y, 0) else None


@rewrite(
    Matmul,
    example=(lambda x, y: Matmul(x, zeros(y.type)), lambda x, y: Matmul(zeros(x.type), y)),
    given=("i[M,K]", "i[K,N]"),
)
def product_with_zero(op: Matmul) -> Value | None:
    """A 0 = 0 for integers, exactly."""
    return None if op.dtype.is_float else _zero_operand(op)


@rewrite(
    Matmul,
    example=(lambda x, y: Matmul(x, zeros(y.type)), lambda x, y: Matmul(zeros(x.type), y)),
    given=("f[M,K]", "f[K,N]"),
    law_class=FAST,
)
def product_of_floats_with_zero(op: Matmul) -> Value | None:
    """A 0 = 0 for floats; where A has a NaN or an infinity the product has NaN."""
    return _zero_operand(op)


@rewrite(Matmul, example=lambda x, y: Matmul(x, y), given=("n[M,0]", "n[0,N]"))
def product_over_nothing(op: Matmul) -> Value | None:
    """A product of no columns with no rows is 0, as every sum starts from 0, exactly."""
    return zeros(op.type) if op.x.shape[-1] == 0 else None


@rewrite(
    Matmul,
    example=lambda x, y: Matmul(x, spread(y, TensorType(y.dtype, (*x.shape[:1], *y.shape)), (0,))),
    given=("n[B,M,K]", "n[K,N]"),
    law_class=ROUNDING,
)
def one_factor_for_all(op: Matmul) -> Value | None:
    """x[b,m,:] Y for one Y is a single product whose rows are all (b, m)."""
    rank = op.type.rank
    match op:
        case Matmul(x, Broadcast(y, _, axes)) if rank > 2 and axes == (rank - 2, rank - 1):
            rows = Reshape(x, (product(x.shape[:-1]), x.shape[-1]))
            return Reshape(Matmul(rows, y), op.shape)
        case _:
            return None


@rewrite(
    Matmul,
    example=lambda x, y: Matmul(x, y),
    given=("n[B,1,K]", "n[B,K,1]"),
    law_class=ROUNDING,
)
def product_of_vectors(op: Matmul) -> Value | None:
    """x' y is the sum of x * y, which folds by a tree and fuses; halves multiply in f32."""
    if op.shape[-2:] != (1, 1):
        return None
    flat, compute = (*op.shape[:-2], op.x.shape[-1]), op.dtype.compute
    x, y = (converted(Reshape(v, flat), compute) for v in (op.x, op.y))
    total = Sum(Mul(x, y), (len(flat) - 1,))
    return Reshape(converted(total, op.dtype), op.shape)


@rewrite(
    Sum,
    example=lambda x, y: Sum(Matmul(transposed(x), y), (0,)),
    given=("n[B,K,M]", "n[B,K,N]"),
    law_class=ROUNDING,
)
def sum_of_products(op: Sum) -> Value | None:
    """The sum over b of X_b' Y_b is X' Y with the X_b, and the Y_b, one below the other."""
    match op.x:
        case Matmul(Permute(x, perm), y) if op.axes == tuple(range(x.type.rank - 2)) != ():
            if perm != (*op.axes, x.type.rank - 1, x.type.rank - 2):
                return None
            below = (product(x.shape[:-1]),)
            tall, wide = (Reshape(v, (*below, v.shape[-1])) for v in (x, y))
            return Matmul(transposed(tall), wide)
        case _:
            return None
