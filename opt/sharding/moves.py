"""From one sharding to another: what ranks exchange for it, and how long that should take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as combinations

from dlvm.cost import exchange, size_in_bytes, typical
from dlvm.ir import Dim, TensorType, Value
from dlvm.ir.sharding.mesh import Axes, Mesh, Sharding
from dlvm.ops.flow.collectives import AllGather, AllToAll, PermuteRanks
from dlvm.ops.flow.ranked import ShardOf


@dataclass(frozen=True, slots=True)
class Move:
    """One exchange on the way: its kind, the axes of the mesh, of the array, and what follows."""

    kind: str
    axes: Axes
    axis: int
    to: int
    after: Sharding


def moves(mesh: Mesh, shape: tuple[Dim, ...], have: Sharding, want: Sharding) -> Iterator[Move]:
    """The exchanges that lead from one sharding to another, in order."""
    now = list(have)
    for axis, (old, new) in enumerate(zip(have, want, strict=True)):
        used = {a for i, s in enumerate(now) if i != axis for a in s}
        even = mesh.local(shape[axis], old) == mesh.local(shape[axis], new)
        free = old != new and not used & set(new)
        if old and new and free and even and mesh.count(old) == mesh.count(new):
            now[axis] = new
            yield Move("permute", tuple(dict.fromkeys((*old, *new))), axis, axis, tuple(now))
    for axis, to in combinations(range(len(shape)), repeat=2):
        axes = now[axis]
        if axis != to and axes and not want[axis] and not now[to] and want[to] == axes:
            now[axis], now[to] = (), axes
            yield Move("all_to_all", axes, axis, to, tuple(now))
    for axis, new in enumerate(want):
        if now[axis] and now[axis] != new:
            axes, now[axis] = now[axis], ()
            yield Move("gather", axes, axis, axis, tuple(now))
    for axis, new in enumerate(want):
        if new != now[axis]:
            now[axis] = new
            yield Move("cut", new, axis, axis, tuple(now))


def moved(mesh: Mesh, x: Value, shape: tuple[Dim, ...], have: Sharding, want: Sharding) -> Value:
    """A local value of a tensor of this shape, in another sharding."""
    named, now = str(mesh), have
    for step in moves(mesh, shape, have, want):
        axis, full = step.axis, (shape[step.axis],)
        match step.kind:
            case "permute":
                order = _sources(mesh, step.axes, now[axis], step.after[axis])
                (x,) = PermuteRanks(step.axes, named, (x,), order).results
            case "all_to_all":
                (x,) = AllToAll(step.axes, named, (x,), (axis,), (step.to,), full).results
            case "gather":
                (x,) = AllGather(step.axes, named, (x,), (axis,), full).results
            case _:
                x = ShardOf(step.axes, named, axis, x)
        now = step.after
    return x


def _sources(mesh: Mesh, axes: Axes, old: Axes, new: Axes) -> tuple[int, ...]:
    """For each rank along ``axes`` the one that has the piece which it is to have.

    A rank has the piece of its index along ``new``. Of those that had it, which have this index
    along ``old``, each one serves another rank.
    """
    small = Mesh(tuple((a, mesh.sizes[a]) for a in axes))
    left, free = (tuple(a for a in x if a not in y) for x, y in ((old, new), (new, old)))
    at = {(small.index(r, old), small.index(r, free)): r for r in range(small.size)}
    return tuple(at[small.index(r, new), small.index(r, left)] for r in range(small.size))


def seconds(mesh: Mesh, kind: str, size: Dim, axes: Axes) -> float:
    """The time of an exchange of a local array of so many bytes along axes."""
    link = mesh.link(axes)
    return exchange(kind, typical(size), mesh.count(axes), link.latency, link.bandwidth)


def moving(mesh: Mesh, t: TensorType, have: Sharding, want: Sharding) -> float:
    """The seconds that it takes to change the sharding of a tensor."""
    total, now = 0.0, have
    for step in moves(mesh, t.shape, have, want):
        total += seconds(mesh, step.kind, local_bytes(mesh, t, now), step.axes)
        now = step.after
    return total


def local_bytes(mesh: Mesh, t: TensorType, sharding: Sharding) -> Dim:
    """The bytes that each rank has of a tensor."""
    return size_in_bytes(t.with_shape(mesh.locally(t.shape, sharding)))
