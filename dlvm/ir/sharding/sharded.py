"""An array of which each rank of a mesh has a piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.base.elsewhere import Elsewhere
from dlvm.base.errors import UserError
from dlvm.ir.types import Array

from . import ranks
from .mesh import Mesh, Sharding, shares, shown
from .pieces import piece_of, whole

Names = tuple[str | tuple[str, ...] | None, ...]


class Sharded(Elsewhere):
    """An array that the ranks of a mesh share, as ``dlvm.shard`` and functions of a mesh make it.

    ``pieces`` has the piece of each rank that this process holds, all of one shape; what lies
    beyond the end of the array in the last ones may be anything. ``shape`` is that of the whole
    array.
    """

    remedy = "pass {x}.whole(), or make it a function of the mesh: @dlvm.function(mesh=mesh)"

    def __init__(
        self, mesh: Mesh, pieces: Sequence[Array], shape: Sequence[int], sharding: Sharding
    ) -> None:
        self.mesh, self.pieces, self.sharding = mesh, tuple(pieces), sharding
        self.shape, self.dtype = tuple(shape), self.pieces[0].dtype

    @staticmethod
    def cut(mesh: Mesh, x: Array, sharding: Sharding) -> Sharded:
        """An array cut into pieces; ranks that have the same piece share its memory."""
        made: dict[tuple[int, ...], Array] = {}
        pieces: list[Array] = []
        for rank in ranks.held(mesh):
            at = tuple(mesh.index(rank, axes) for axes in sharding)
            if at not in made:
                made[at] = piece_of(mesh, x, sharding, rank)
            pieces.append(made[at])
        return Sharded(mesh, pieces, x.shape, sharding)

    @property
    def spec(self) -> Names:
        """What shares each axis: a name, a tuple of names, or None where the axis is whole."""
        return tuple(
            (axes[0] if len(axes) == 1 else axes) if axes else None for axes in self.sharding
        )

    @property
    def local(self) -> Array:
        """The part of this rank, without what lies beyond the end of the array."""
        rank = ranks.rank()
        piece, at = self.pieces[ranks.held(self.mesh).index(rank)], list[slice]()
        for axis, axes in enumerate(self.sharding):
            low = self.mesh.index(rank, axes) * piece.shape[axis]
            at.append(slice(max(0, min(piece.shape[axis], self.shape[axis] - low))))
        return piece[tuple(at)]

    def whole(self) -> Array:
        """The whole array, as a new array of NumPy; in several processes all ask at once."""
        pieces = self.pieces
        if self.mesh.processes:
            pieces = ranks.world_of(self.mesh).gathered(pieces[0])
        return whole(self.mesh, pieces, self.sharding, self.shape)

    @property
    def is_whole(self) -> bool:
        """Whether every rank has the whole array."""
        return shares(self.sharding) is None

    def copied(self) -> Sharded:
        """An array with the same elements whose memory a program may overwrite."""
        made = {id(x): np.array(x, order="C") for x in self.pieces}
        pieces = [made[id(x)] for x in self.pieces]
        return Sharded(self.mesh, pieces, self.shape, self.sharding)

    def overlaps(self, other: Elsewhere) -> bool:
        """Whether two arrays share memory."""
        if not isinstance(other, Sharded):
            return False
        return any(np.may_share_memory(x, y) for x in self.pieces for y in other.pieces)

    @property
    def address(self) -> int:
        """An error, since each piece has an address of its own."""
        raise UserError(f"expected one array, found pieces of ranks: {self!r}", remedy=self.remedy)

    @property
    def ordinal(self) -> int | None:
        """None, as it is on no device."""
        return None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.whole(), dtype)

    def __repr__(self) -> str:
        shape = shown(self.shape, self.sharding)
        return f"<sharded {self.dtype}[{shape}] on the mesh {self.mesh}>"
