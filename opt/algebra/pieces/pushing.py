"""Parts are taken before elements are computed: a window, a row or a diagonal of a formula.

Where nobody else reads the whole, only what is asked for is computed. Each law moves a part one
operation towards the parameters, past formulas of elements, repetitions, permutations, sums and
joined pieces; parts of parts are composed by laws of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm.ir import Dim, Op, Value, rewrite
from dlvm.ir.knowledge import properties_of
from dlvm.ir.numerics import ROUNDING
from dlvm.ir.sizes.dims import at_least
from dlvm.ops import Broadcast, Concat, Diagonal, Gather, Permute, Reshape, Slice, Sum
from dlvm.ops.families import Elementwise


def _of_operands(op: Op, part: Callable[[Value], Value]) -> Value | None:
    """A formula of elements on parts of its operands, or None of any other operation."""
    if not isinstance(op, Elementwise) or op.results != (op,) or not op.shape_free:
        return None
    return op.rebuild([part(x) for x in op.operands])


@rewrite(
    Slice,
    example=lambda x, y: Slice(x * y + x, (1, 0), (1, 2), (1, 1)),
    given=("f[3,2]", "f[3,2]"),
    weighed=True,
)
def window_of_formula(op: Slice) -> Value | None:
    """f(x, y)[i] = f(x[i], y[i]), exactly."""
    if not isinstance(op.x, Op):
        return None
    return _of_operands(op.x, lambda x: Slice(x, op.starts, op.sizes, op.steps))


@rewrite(
    Gather,
    example=lambda x, y, i: Gather(x * y + x, i, 0, mode="clip"),
    given=("f[3,N]", "f[3,N]", "i[1]"),
    weighed=True,
)
def rows_of_formula(op: Gather) -> Value | None:
    """f(x, y)[i] = f(x[i], y[i]), exactly, for indices that are never dropped."""
    # rows of the identity are left: they pick rows of what they are multiplied with
    if not isinstance(op.x, Op) or op.mode == "drop" or "identity" in properties_of(op.x):
        return None

    return _of_operands(op.x, lambda x: _rows(op, x))


def _rows(like: Gather, x: Value) -> Value:
    """The same rows of another tensor; an index outside is blamed on the same line."""
    found = Gather(x, like.indices, like.axis, like.batch, like.mode)
    found.origin = like.origin
    return found


@rewrite(
    Diagonal,
    example=lambda x, y: Diagonal(x * y + x),
    given=("f[N,N]", "f[N,N]"),
    weighed=True,
)
def diagonal_of_formula(op: Diagonal) -> Value | None:
    """diag(f(x, y)) = f(diag x, diag y), exactly."""
    return _of_operands(op.x, Diagonal) if isinstance(op.x, Op) else None


@rewrite(
    Diagonal,
    example=(
        lambda x, y: Diagonal(Broadcast(y, x.shape, (0,))),
        lambda x, y: Diagonal(Broadcast(y, x.shape, (1,))),
    ),
    given=("n[N,N]", "n[N]"),
)
def diagonal_of_repeated(op: Diagonal) -> Value | None:
    """The diagonal of what repeats along rows or columns is what is repeated."""
    match op.x:
        case Broadcast(x, shape, axes):
            last = len(shape) - 1
            if not {last, last - 1} <= set(axes):
                return Broadcast(x, op.shape, tuple(min(a, last - 1) for a in axes))
            return None
        case _:
            return None


@rewrite(
    Slice,
    example=lambda x: Slice(Permute(x, (1, 0)), (1, 0), (1, 2), (1, 1)),
    given=("n[2,3]",),
)
def window_of_permuted(op: Slice) -> Value | None:
    """A window of permuted axes is the permuted window, exactly."""
    match op.x:
        case Permute(x, perm):
            back = [perm.index(i) for i in range(len(perm))]
            starts, sizes = (tuple(of[i] for i in back) for of in (op.starts, op.sizes))
            steps = tuple(op.steps[i] for i in back)
            return Permute(Slice(x, starts, sizes, steps), perm)
        case _:
            return None


@rewrite(
    Slice,
    example=lambda x: Slice(Sum(x, (1,)), (1,), (1,), (1,)),
    given=("n[3,N]",),
    law_class=ROUNDING,
    weighed=True,
)
def window_of_sums(op: Slice) -> Value | None:
    """A window of sums is the sums of a window."""
    match op.x:
        case Sum(x, axes):
            starts: list[Dim] = [0] * x.type.rank
            sizes, steps = list(x.shape), [1] * x.type.rank
            kept = [i for i in range(x.type.rank) if i not in axes]
            for i, start, size, step in zip(kept, op.starts, op.sizes, op.steps, strict=True):
                starts[i], sizes[i], steps[i] = start, size, step
            return Sum(Slice(x, tuple(starts), tuple(sizes), tuple(steps)), axes)
        case _:
            return None


@rewrite(
    Slice,
    example=(
        lambda x, y: Slice(Concat((x, y, x), 1), (0, 1), (2, 2), (1, 1)),
        lambda x, y: Slice(Concat((x, y), 1), (1, 0), (1, 3), (1, 1)),
    ),
    given=("n[2,2]", "n[2,1]"),
    weighed=True,
)
def window_of_pieces(op: Slice) -> Value | None:
    """A window of joined tensors joins the windows of those that it touches, exactly."""
    match op.x:
        case Concat(pieces, axis) if op.steps[axis] == 1:
            low, at, found = op.starts[axis], 0, list[Value]()
            high = low + op.sizes[axis]
            for piece in pieces:
                end = at + piece.shape[axis]
                if not (at_least(low, end) or at_least(at, high)):
                    if (part := _touched(op, piece, axis, (at, end, low, high))) is None:
                        return None
                    found.append(part)
                at = end
            return Concat(tuple(found), axis) if found else None
        case _:
            return None


def _touched(op: Slice, piece: Value, axis: int, bounds: tuple[object, ...]) -> Value | None:
    """The part of one piece that lies in a window, where all bounds are numbers."""
    if not all(isinstance(b, int) for b in bounds):
        return None
    at, end, low, high = (int(str(b)) for b in bounds)
    start, stop = max(low, at) - at, min(high, end) - at
    starts, sizes = list(op.starts), list(op.sizes)
    starts[axis], sizes[axis] = start, stop - start
    part = Slice(piece, tuple(starts), tuple(sizes), op.steps)
    return window_between_ones(part) or part


@rewrite(
    Slice,
    example=(
        lambda x: Slice(Reshape(x, (2, 1, 3)), (1, 0, 0), (1, 1, 2), (1, 1, 2)),
        lambda x: Slice(Reshape(x, (1, 2, 3)), (0, 0, 1), (1, 2, 2), (1, 1, 1)),
    ),
    given=("n[2,3]",),
)
def window_between_ones(op: Slice) -> Value | None:
    """A window of a tensor that got or lost axes of size 1 is the window without these axes."""
    x = op.x
    if not isinstance(x, Reshape) or _long(x.shape) != _long(x.x.shape):
        return None
    if any(op.sizes[i] != 1 for i, n in enumerate(x.shape) if n == 1):
        return None
    numbers = zip(x.shape, op.starts, op.sizes, op.steps, strict=True)
    found = iter((start, size, step) for n, start, size, step in numbers if n != 1)
    parts = [(0, 1, 1) if n == 1 else next(found) for n in x.x.shape]
    starts, sizes, steps = zip(*parts, strict=True) if parts else ((), (), ())
    return Reshape(Slice(x.x, starts, sizes, steps), op.shape)


def _long(shape: Sequence[Dim]) -> list[Dim]:
    return [n for n in shape if n != 1]


@rewrite(Diagonal, example=lambda x: Diagonal(Reshape(x, (1, *x.shape))), given=("n[N,N]",))
def diagonal_of_reshaped_batch(op: Diagonal) -> Value | None:
    """The diagonal of matrices whose batch axes are reshaped is reshaped in the same way."""
    match op.x:
        case Reshape(x) if x.type.rank > 1 and x.shape[-2:] == op.x.shape[-2:]:
            return Reshape(Diagonal(x), op.shape)
        case _:
            return None
