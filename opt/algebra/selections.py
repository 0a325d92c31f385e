"""Products with rows of the identity that are read at indices, as those of a permutation."""

from __future__ import annotations

from dlvm.ir import Value, rewrite
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import Gather, Matmul

from . import structure
from .examples import identity


@rewrite(
    Matmul,
    example=lambda i, x: Matmul(Gather(identity(x), i, 0, mode="clip"), x),
    given=("i[M]", "n[8,N]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
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
