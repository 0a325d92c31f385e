"""Windows that are added up where they overlap, tap by tap in place.

    sum over p of unpatch(x)[.., q*step + p*dilation, .., p]

Of few taps each is added by code of its own, which reads and writes along rows. Of many, or where
sizes are open, every place looks for the windows over it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from dlvm.ir import Dim, Function, Op, Value, zeros
from dlvm.ir.rewrite import Env, transform
from dlvm.ir.sizes.dims import product
from dlvm.ops import Reshape, Slice, Sum, Unpatch, Update
from dlvm.passes import function_pass

ONE_BY_ONE = 32
"""Number of taps up to which each is added in place.

For the 25 taps of a window of 5 x 5 over 64 images of 12 x 12 x 6 in f32 that took 0.33 ms, and a
sum over the taps at each place 2.3 ms; compiling it takes some 20 ms for each tap.
"""


@function_pass
def open_overlaps(fn: Function) -> Function:
    """Say a sum over the taps of ``unpatch`` by additions to windows of zeros, one for each tap."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        match op:
            case Sum(Unpatch() as placed, axes) if _over_taps(placed, axes):
                return (_added(placed, env.get(placed.x, placed.x)),)
            case _:
                return None

    return transform(fn, visit)


def _over_taps(op: Unpatch, axes: tuple[int, ...]) -> bool:
    """Whether all taps are summed, there are few, and all sizes are known."""
    rank = op.type.rank - len(op.axes)
    taps = product((*op.type.shape[rank:], 1))
    known = all(isinstance(n, int) for n in op.extents)
    few = isinstance(taps, int) and 0 < taps <= ONE_BY_ONE
    return known and few and axes == tuple(range(rank, op.type.rank))


def _added(op: Unpatch, x: Value) -> Value:
    """Each tap's share added to where it came from, in place."""
    rank = op.type.rank - len(op.axes)
    out, places = zeros(op.type.with_shape(op.type.shape[:rank])), x.type.shape[:rank]
    sizes = op.type.shape[rank:]
    for tap in itertools.product(*(range(int(str(n))) for n in sizes)):
        starts: list[Dim] = [0] * rank
        steps = [1] * rank
        for axis, p, step, d in zip(op.axes, tap, op.steps, op.dilations, strict=True):
            starts[axis], steps[axis] = p * d, step
        ones = (1,) * (x.type.rank - rank)
        share = Slice(x, (*(0,) * rank, *tap), (*places, *ones), (1,) * x.type.rank)
        window = Slice(out, tuple(starts), places, tuple(steps))
        out = Update(out, window + Reshape(share, places), tuple(starts), tuple(steps))
    return out
