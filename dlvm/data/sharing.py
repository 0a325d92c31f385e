"""Batches whose rows the ranks of a mesh share.

A batch is cut into the pieces of the mesh, and each piece is made by itself: its rows, what
``transform`` makes of them, and what ``augment`` does with the key of the piece. So a piece follows
from the key, the number of the batch and its own number, on any number of ranks. A process makes
the pieces of its own ranks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.arrays.sharding import mesh_of
from dlvm.dsl.trace.scopes import type_of, user_origin
from dlvm.dsl.trace.sharded import check_axes
from dlvm.dsl.trace.specs import concrete
from dlvm.dsl.trace.trees import Spec, flatten, labels, unflatten
from dlvm.ir import Array
from dlvm.ir.sharding.mesh import Axes, Mesh
from dlvm.ir.sharding.pieces import part
from dlvm.ir.sharding.ranks import held
from dlvm.ir.sharding.sharded import Sharded

from .plans import Plan

Make = Callable[[Plan, int], Any]
"""Makes the rows of a part of a plan, which is the piece of that number."""
ROW_FOR_ROW = "give arrays with one row for each row of the piece, of one shape and type"


@dataclass(frozen=True)
class Shares:
    """The axes of a mesh along which ranks share the rows of batches."""

    mesh: Mesh
    axes: Axes

    def batch(self, plan: Plan, make: Make) -> Any:
        """The batch of a plan: a tree of arrays, of which each rank has its rows."""
        places = [self.mesh.index(rank, self.axes) for rank in held(self.mesh)]
        made = {place: self._rows(plan, place, make) for place in sorted(set(places))}
        leaves = zip(*(made[place][0] for place in places), strict=True)
        return unflatten(made[places[0]][1], [self._shared(xs, plan.count) for xs in leaves])

    def _shared(self, pieces: Sequence[Array], rows: int) -> Sharded:
        whole = ((),) * (pieces[0].ndim - 1)
        return Sharded(self.mesh, pieces, (rows, *pieces[0].shape[1:]), (self.axes, *whole))

    def _rows(self, plan: Plan, place: int, make: Make) -> tuple[list[Array], Spec]:
        """The leaves of the rows at a place along the axes, filled up to what every rank has."""
        size, each = int(self.mesh.piece(plan.count, self.axes)), self.mesh.pieces_each(self.axes)
        numbers = range(place * each, (place + 1) * each)
        some = [n for n in numbers if n * size < plan.count]
        made = [_leaves(plan.part(n * size, (n + 1) * size), n, make) for n in some]
        if not made:  # of no row, the types are those of any row
            columns, spec = _leaves(plan.part(0, 1), 0, make)
            made = [([x[:0] for x in columns], spec)]
        spec, names = made[0][1], labels(made[0][1], "batch")
        if any(other != spec for _, other in made):
            raise _wrong("pieces have different structures")
        columns = zip(names, zip(*(leaves for leaves, _ in made), strict=True), strict=True)
        return [part(_joined(xs, name), 0, 0, each * size) for name, xs in columns], spec


def shares_of(mesh: Any, axis: Any) -> Shares | None:
    """How ranks share rows, from ``mesh=`` and ``axis=``; None for batches of whole arrays."""
    if mesh is None:
        if axis is None:
            return None
        raise ArgumentError(
            f"batches: axis={axis!r:.40} is given, and there is no mesh",
            origin=user_origin(),
            remedy="give mesh= as well, or leave axis= out",
        )
    ranks = mesh_of("batches", mesh)
    axes = _named(next(iter(ranks.sizes)) if axis is None else axis)
    check_axes((axes,), "batches", ranks)
    return Shares(ranks, axes)


def _named(axis: Any) -> Axes:
    axes: Any = axis if isinstance(axis, tuple) else (axis,)  # pyright: ignore[reportUnknownVariableType]
    if not axes or not all(isinstance(name, str) for name in axes):
        raise ArgumentError(
            f"batches: axis={axis!r:.40}: expected the name of an axis of the mesh, or a tuple",
            origin=user_origin(),
            remedy="leave axis= out, and the first axis of the mesh shares the rows",
        )
    return axes


def _leaves(plan: Plan, number: int, make: Make) -> tuple[list[Array], Spec]:
    """The leaves of one piece, each with a row for each of its examples."""
    given, spec = flatten(make(plan, number))
    leaves: list[Array] = []
    for leaf, name in zip(given, labels(spec, "batch"), strict=True):
        x = concrete("batches", leaf, name)
        type_of(x, name)
        if not x.ndim or len(x) != plan.count:
            raise _wrong(f"{name} has the shape {x.shape}, of a piece of {plan.count} rows")
        leaves.append(x)
    if not leaves:
        raise _wrong("a piece holds no array")
    return leaves, spec


def _joined(pieces: Sequence[Array], name: str) -> Array:
    """The rows of several pieces, which must fit together."""
    if len({(x.shape[1:], x.dtype) for x in pieces}) > 1:
        shapes = " and ".join(sorted({f"{x.dtype}{[*x.shape[1:]]}" for x in pieces}))
        raise _wrong(f"rows of {name} are {shapes} in different pieces")
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _wrong(said: str) -> ShapeError:
    return ShapeError(f"batches: {said}", remedy=ROW_FOR_ROW)
