"""Products with matrices that pick rows, and with Kronecker products, which are never formed.

The order of a product finds them among its factors; alone, each has a law of its own to be told.
"""

from __future__ import annotations

from dlvm.ir import Value, rearrangement
from dlvm.ops import Gather, Matmul, Reshape, Slice, transposed
from dlvm.opt.algebra.examples import identity, kron, one_hot

from . import structure
from .chains import nothing
from .factors import times
from .products import flat


@rearrangement(
    Matmul,
    example=(
        lambda i, w, g: Matmul(one_hot(i, w), w),
        lambda i, w, g: Matmul(Reshape(one_hot(Reshape(i, (1, *i.shape)), w), (i.shape[0], 8)), w),
        lambda i, w, g: Matmul(transposed(w), transposed(one_hot(i, w))),
        lambda i, w, g: Matmul(Slice(identity(w), (1, 0), (3, 8), (2, 1)), w),
        lambda i, w, g: Matmul(transposed(one_hot(i, g)), g),
        lambda i, w, g: Matmul(transposed(g), one_hot(i, g)),
    ),
    given=("i[M]", "n[8,N]", "n[M,N]"),
)
def one_hot_product(op: Matmul) -> Value | None:
    """One-hot rows times W are rows of W, zeros outside of it; columns add rows where ones are."""
    return _special(op, "picking")


@rearrangement(
    Matmul,
    example=(
        lambda a, b, x: Matmul(kron(a, b), x),
        lambda a, b, x: Matmul(transposed(kron(a, b)), x),
        lambda a, b, x: Matmul(transposed(x), kron(a, b)),
    ),
    given=("n[M,N]", "n[N,M]", "n[M*N,2]"),
)
def kronecker_product(op: Matmul) -> Value | None:
    """kron(A, B) X, column by column A X_c B' with X_c of rows by columns of A and of B."""
    return _special(op, "kronecker")


@rearrangement(
    Matmul,
    example=lambda i, x: Matmul(Gather(identity(x), i, 0, mode="clip"), x),
    given=("i[M]", "n[8,N]"),
)
def rows_of_identity_times(op: Matmul) -> Value | None:
    """I[i] A = A[i], as for a permutation."""
    match op.x:
        case Gather(eye, i, 0, 0, mode) if structure.is_identity(eye) and op.y.type.rank == 2:
            found = Gather(op.y, i, 0, 0, mode)
            found.origin = op.x.origin
            return found
        case _:
            return None


def _special(op: Matmul, kind: str) -> Value | None:
    """A product that has a factor of some kind, which is not formed."""
    match flat(op.x, op.y, nothing).factors:
        case [left, right] if kind in (left.kind, right.kind):
            return times(left, right).matrix()
        case _:
            return None
