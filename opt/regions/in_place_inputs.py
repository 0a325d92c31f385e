"""Loops over permuted or stepped arrays, whose trips read their part of the array where it lies.

A loop over ``x.transpose(1, 0, 2)`` or ``x[:, ::2]`` needs its operand in memory, slice by slice,
so it would be copied before the first trip. Instead the loop takes ``x`` whole, beside the numbers
of the parts, and each kernel of its body finds the elements of a part by an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from dlvm.ir import Builder, Dim, Function, Op, Param, Value
from dlvm.ir.rewrite import Env, everywhere, mapped, place, transform
from dlvm.ir.sizes.dims import at_least
from dlvm.ops import Contraction, Gather, IndexMap, Iota, Permute, Scan, Slice
from dlvm.ops.families import Elementwise, Movement, Reduction
from dlvm.passes import function_pass

LINE = 64
"""Bytes of a cache line, and of a vector. Pieces that are no whole lines are copied: vectors that
are filled in part took formulas of 17 to 33 elements twice the time."""
Reading = Elementwise | Reduction | Contraction
"""Operations of a body whose kernels find what they read by an index."""


@dataclass(frozen=True)
class Axis:
    """Where an axis of a permuted or stepped array lies in the array itself."""

    source: int
    start: Dim
    size: Dim
    step: int


@function_pass
def read_in_place(fn: Function) -> Function:
    """Let loops read the parts of a permuted or stepped array where they lie, without a copy.

    Where ``y`` is ``x`` with its axes permuted and cut, the slice ``y[i]`` is the part of ``x`` at
    the index ``start + i step`` along one axis. The array is copied all the same where a part has
    its elements in pieces that are no whole cache lines, and where anything else needs the copy.
    """
    return everywhere(fn, _read_in_place) if Scan in fn.kinds else fn


def _read_in_place(fn: Function) -> Function:
    copied, numbers = _copied(fn), dict[tuple[Dim, ...], Value]()

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Scan)
        found = {j: a for j, x in enumerate(op.xs) if x not in copied and (a := _axes(op, j))}
        return _in_place(op, found, numbers, env) if found else None

    return transform(fn, visit, on=Scan)


# -- which arrays -------------------------------------------------------------------------------


def _copied(fn: Function) -> set[Value]:
    """The values that something needs in memory: other than a loop that could do without."""
    found = set(fn.results)
    for op in fn.ops:
        if isinstance(op, Scan):
            found.update((*op.init, *op.captured))
            found.update(x for j, x in enumerate(op.xs) if not _axes(op, j))
        elif not isinstance(op, Reading | Movement):
            found.update(op.operands)
    return found


def _axes(op: Scan, j: int) -> tuple[Axis, ...] | None:
    """Where the axes of an operand lie, if kernels can read its parts in place, and had better."""
    if not isinstance(op.xs[j], Permute | Slice):
        return None
    y, axes = _laid_out(op.xs[j])
    if axes[0].step == 1 and all(a.source == i for i, a in enumerate(axes)) and _uncut(axes, y):
        return None  # the slices of rows in a row are views
    one_piece = axes[0].source == 0 and _contiguous(axes[1:], y) == len(axes) - 1
    found = _readers(op.body, op.body.params[len(op.init) + j])
    if any(isinstance(r, Contraction) for r in found) and not at_least(y.shape[axes[0].source], 1):
        return None
    evenly = not one_piece and not all(isinstance(r, Contraction) for r in found)
    return axes if found and _in_long_pieces(y, axes[1:], evenly) else None


def _uncut(axes: Sequence[Axis], y: Value) -> bool:
    """Whether all axes but the first are those of the whole array, forwards."""
    return all(a.step == 1 and a.size == y.shape[a.source] for a in axes[1:])


def _in_long_pieces(y: Value, axes: tuple[Axis, ...], evenly: bool) -> bool:
    """Whether a part lies in pieces of a line at least, and ``evenly`` of whole lines."""
    last = [a.size for a in axes[len(axes) - _contiguous(axes, y) :]]
    bytes_ = y.dtype.bytes * prod(n for n in last if isinstance(n, int))
    return (bytes_ % LINE == 0 or not evenly) and bytes_ >= LINE


def _laid_out(x: Value) -> tuple[Value, tuple[Axis, ...]]:
    """The array that is permuted and cut, and where each axis of what that gives lies in it."""
    axes = tuple(Axis(i, 0, n, 1) for i, n in enumerate(x.shape))
    while isinstance(x, Permute | Slice):
        if isinstance(x, Permute):
            axes = tuple(replace(a, source=x.perm[a.source]) for a in axes)
        else:
            axes = tuple(_within(a, x.starts[a.source], x.steps[a.source]) for a in axes)
        x = x.x
    return x, axes


def _within(axis: Axis, start: Dim, step: int) -> Axis:
    """An axis of a window, as one of what the window is cut from."""
    return replace(axis, start=start + axis.start * step, step=axis.step * step)


def _contiguous(axes: Sequence[Axis], y: Value) -> int:
    """The number of last axes that lie in memory as in one piece, the first of them maybe cut."""
    count = 0
    for axis, last in zip(reversed(axes), reversed(range(y.type.rank)), strict=False):
        if axis.source != last or axis.step != 1:
            break
        count += 1
        if axis.size != y.shape[last]:
            break
    return count


def _readers(body: Function, part: Value) -> list[Op]:
    """The operations of a body that read a part, if kernels find it for all of them."""
    parts, found = {part}, list[Op]()
    for op in body.ops:
        if parts.isdisjoint(op.operands):
            continue
        if _moves(op):
            parts.update(op.results)
        elif isinstance(op, Reading):
            found.append(op)
        else:
            return []
    return found if parts.isdisjoint(body.results) else []


def _moves(op: Op) -> bool:
    """Whether a movement of a part is that of the whole array, with an axis more."""
    return isinstance(op, IndexMap) and op.everywhere and not op.alias


# -- the loop that takes them whole --------------------------------------------------------------


@dataclass
class Parts:
    """What stands for the parts in a body: arrays whose first axis is looped over, and an index."""

    wholes: dict[Value, Value] = field(default_factory=dict[Value, Value])
    numbers: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def moved(self, op: Op) -> None:
        """Note what a movement of a part is: the same movement of every part."""
        ((x,), (result,)) = op.operands, op.results
        whole = self.wholes[x]
        (self.wholes[result],) = op.rebuild((whole,), **op.batched(whole.type.shape[0])).results
        self.numbers[result] = self.numbers[x]

    def read(self, x: Value) -> Value:
        """One part, made for one operation, so that the kernel of the operation reads it."""
        return Gather(self.wholes[x], self.numbers[x], 0, mode="clip")


def _in_place(
    op: Scan, found: dict[int, tuple[Axis, ...]], numbers: dict[tuple[Dim, ...], Value], env: Env
) -> tuple[Value, ...]:
    """The loop on whole arrays and the numbers of their parts, which loops alike share."""
    first = len(op.init)
    params, xs = list(op.body.params), list(op.xs)
    arrays: list[Value] = []
    parts, builder = Parts(), Builder()
    for j, axes in found.items():
        part, (array, _) = params[first + j], _laid_out(xs[j])
        xs[j] = _numbers(array.shape[axes[0].source], axes[0], numbers)
        params[first + j] = Param(xs[j].type.with_shape(()), f"{part.name}_at", origin=part.origin)
        params.append(Param(array.type, f"{part.name}_whole", origin=part.origin))
        arrays.append(array)
        parts.numbers[part] = params[first + j]
        with builder:
            parts.wholes[part] = _looped_first(params[-1], axes)
    results = _on_parts(op.body, parts, builder)
    body = replace(op.body, params=tuple(params), ops=tuple(builder.ops), results=results)
    init, taken, captured = (
        tuple(mapped(values, env)) for values in (op.init, xs, (*op.captured, *arrays))
    )
    return Scan(init, taken, captured, body, op.length, op.reverse, op.unroll).results


def _numbers(size: Dim, axis: Axis, known: dict[tuple[Dim, ...], Value]) -> Value:
    """The indices at which the parts lie along an axis of the array, one for each trip."""
    key = (size, axis.start, axis.size, axis.step)
    if key not in known:
        whole = Iota(size)
        cut = axis.size != size or axis.step != 1
        known[key] = Slice(whole, (axis.start,), (axis.size,), (axis.step,)) if cut else whole
    return known[key]


def _looped_first(whole: Value, axes: tuple[Axis, ...]) -> Value:
    """An array with the axis that is looped over first and uncut, the others cut and permuted."""
    everything = replace(axes[0], start=0, size=whole.shape[axes[0].source], step=1)
    order = sorted((everything, *axes[1:]), key=lambda a: a.source)
    starts, sizes, steps = zip(*((a.start, a.size, a.step) for a in order), strict=True)
    if sizes != whole.shape or {*steps} != {1}:
        whole = Slice(whole, starts, sizes, steps)
    perm = tuple(a.source for a in axes)
    return whole if perm == tuple(range(len(perm))) else Permute(whole, perm)


def _on_parts(body: Function, parts: Parts, builder: Builder) -> tuple[Value, ...]:
    """Write the operations of a body on its parts; what the body gives."""
    env: Env = {}
    for op in body.ops:
        builder.origin = op.origin
        if _moves(op) and op.operands[0] in parts.wholes:
            with builder:
                parts.moved(op)
            continue
        with builder:
            read = {x: parts.read(x) for x in op.operands if x in parts.wholes}
        known = {x: v for x, v in env.items() if x in op.operands} | read
        place(builder, op, known)
        env.update((r, known[r]) for r in op.results if r in known)
    return tuple(mapped(body.results, env))
