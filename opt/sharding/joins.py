"""How partial results of ranks are joined: in their order, or along a tree of pieces."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.ir import Builder, Dim, Op, Param, Value
from dlvm.ir.sharding.factors import Factors
from dlvm.ir.sharding.mesh import Axes, Mesh, Sharding
from dlvm.ir.sizes.dims import floordiv
from dlvm.ops import Broadcast, Concat, Permute, Reshape, Slice
from dlvm.ops.flow.collectives import WORDS, AllGather, AllReduce, GatherRows, ReduceScatter


def join(
    mesh: Mesh, x: Value, word: str, axes: Axes, here: Sharding, want: Sharding
) -> tuple[Value, Sharding]:
    """What ranks have along ``axes``, joined by a word: a piece of it where one is wanted."""
    for axis, wanted in enumerate(want):
        if wanted == axes and not here[axis]:
            lying = (*here[:axis], axes, *here[axis + 1 :])
            return ReduceScatter(axes, str(mesh), (x,), (axis,), word).results[0], lying
    return AllReduce(axes, str(mesh), (x,), word).results[0], here


def join_again(mesh: Mesh, op: Op, new: Op, axes: Axes) -> tuple[Value, ...]:
    """The same fold of what ranks have folded, along a new first axis."""
    return _again(op, GatherRows(axes, str(mesh), new.results).results)


def _again(op: Op, xs: Sequence[Value]) -> tuple[Value, ...]:
    return op.rebuild(xs, axes=(0,)).results


def join_pieces(
    mesh: Mesh,
    op: Op,
    rule: Factors,
    folded: dict[int, Axes],
    given: Sequence[Value],
    shapes: Sequence[tuple[Dim, ...]],
    word: str,
) -> tuple[Value, ...]:
    """The results of an operation on each piece, joined along a tree of pieces.

    Pieces are a new first axis of every operand, as of a batch. The tree is the same for any number
    of ranks: neighbours are joined, then neighbours of those.
    """
    xs, new, fields = list(given), op, op.resized(*shapes)
    for count, (factor, axes) in enumerate(folded.items()):
        each = mesh.pieces_each(axes)
        xs = [_in_pieces(x, _axis(rule.operands[i], factor, count), each) for i, x in enumerate(xs)]
        with Builder():  # of one piece; only that of all is written
            one = new.rebuild([Param(x.type.with_shape(x.shape[1:])) for x in xs], **fields)
        new, fields = one.rebuild(xs, **one.batched(each)), {}
    found = new.results
    for axes in reversed(folded.values()):
        if word == "again":
            found = _again(op, [_all_pieces(mesh, x, axes) for x in found])
        else:
            found = tuple(_along_a_tree(mesh, x, axes, word) for x in found)
    return found


def _axis(places: Sequence[int | None], factor: int, shift: int) -> int | None:
    return next((a + shift for a, f in enumerate(places) if f == factor), None)


def _in_pieces(x: Value, axis: int | None, each: int) -> Value:
    """An operand in pieces along a new first axis; the same for all, if it has no such axis."""
    if axis is None:
        return Broadcast(x, (each, *x.shape), tuple(range(1, x.type.rank + 1)))
    shape = list(x.shape)
    cut = Reshape(x, (*shape[:axis], each, floordiv(shape[axis], each), *shape[axis + 1 :]))
    order = (axis, *(a for a in range(cut.type.rank) if a != axis))
    return cut if order == tuple(range(len(order))) else Permute(cut, order)


def _all_pieces(mesh: Mesh, x: Value, axes: Axes) -> Value:
    """The pieces of all ranks along the first axis."""
    each, count = mesh.pieces_each(axes), mesh.count(axes)
    if count > 1:
        x = AllGather(axes, str(mesh), (x,), (0,), (each * count,)).results[0]
    return _first(x, mesh.parts(axes))


def _first(x: Value, count: int) -> Value:
    return x if x.shape[0] == count else _slice(x, 0, count, 1)


def _slice(x: Value, start: int, count: int, step: int) -> Value:
    rest = x.shape[1:]
    return Slice(x, (start, *(0,) * len(rest)), (count, *rest), (step, *(1,) * len(rest)))


def _along_a_tree(mesh: Mesh, x: Value, axes: Axes, word: str) -> Value:
    """Pieces joined by a word: what ranks can join of it by themselves first."""
    each, count, parts = mesh.pieces_each(axes), mesh.count(axes), mesh.parts(axes)
    if each * count == parts:
        while each > 1 and each % 2 == 0:
            x, each = _level(x, each, word), each // 2
    if count > 1:
        x = AllGather(axes, str(mesh), (x,), (0,), (each * count,)).results[0]
    left = min(each * count, parts)
    x = _first(x, left)
    while left > 1:
        x, left = _level(x, left, word), -(-left // 2)
    return Reshape(x, x.shape[1:])


def _level(x: Value, count: int, word: str) -> Value:
    """Neighbours joined, the last one left as it is where it has none."""
    half = count // 2
    pairs = WORDS[word](_slice(x, 0, half, 2), _slice(x, 1, half, 2))
    return pairs if count % 2 == 0 else Concat((pairs, _slice(x, count - 1, 1, 1)), 0)
