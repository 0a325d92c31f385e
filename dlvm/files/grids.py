"""Arrays that ranks wrote in parts, and the index that says which rank has which.

An array is cut along each axis at the same places for all ranks, so the index has these places and
the rank of each cell. Cells neither overlap nor leave a gap, whatever an index says; and as it
names ranks, not files, it can name nothing outside of its folder.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dlvm.base.errors import UserError
from dlvm.dsl.trace.scopes import user_origin
from dlvm.ir import Array, TensorType
from dlvm.ir.sharding.mesh import Sharding
from dlvm.ir.sharding.ranks import held
from dlvm.ir.sharding.sharded import Sharded

from .contents import TYPES, once

FORMAT = "dlvm states 1"
INDEX = "index.json"
"""The file that makes a state whole, written last."""
MOST = 1 << 27
"""Bytes of an index at most, which is more than that of a million arrays."""
EARLIER = "restore an earlier state: runs.restore(like, step=n), for an n of runs.all_steps()"
Cell = tuple[slice, ...]


@dataclass(frozen=True)
class Grid:
    """The type of an array, where its cells start along each axis, and the rank of each cell.

    ``names`` are the axes of the mesh that shared each axis.
    """

    type: TensorType
    names: Sharding
    starts: tuple[tuple[int, ...], ...]
    ranks: tuple[int, ...]

    @staticmethod
    def of(t: TensorType, x: Array | Sharded) -> Grid:
        """How an array is written: of ranks that have the same piece, the first one writes it."""
        shape = tuple(x.shape)
        if not isinstance(x, Sharded):
            starts = tuple((0,) if n else () for n in shape)
            return Grid(t, ((),) * len(shape), starts, () if 0 in shape else (0,))
        mesh, cells = x.mesh, dict[tuple[int, ...], int]()
        sizes = [max(1, int(n)) for n in mesh.locally(shape, x.sharding)]
        starts = tuple(tuple(range(0, n, k)) for n, k in zip(shape, sizes, strict=True))
        others = [a for a in mesh.sizes if not any(a in axes for axes in x.sharding)]
        for rank in range(mesh.size):
            at = tuple(mesh.index(rank, axes) for axes in x.sharding)
            inside = all(i < len(cuts) for i, cuts in zip(at, starts, strict=True))
            if inside and mesh.index(rank, others) == 0:
                cells[at] = rank
        return Grid(t, x.sharding, starts, tuple(cells[at] for at in sorted(cells)))

    def cells(self) -> Iterator[tuple[int, Cell]]:
        """The cells, each with the rank that wrote it."""
        sizes = [int(n) for n in self.type.shape]
        along = [
            [slice(a, b) for a, b in pairwise((*cuts, n))]
            for cuts, n in zip(self.starts, sizes, strict=True)
        ]
        return zip(self.ranks, itertools.product(*along), strict=True)

    def type_in(self, cell: Cell) -> TensorType:
        """The type of the array in a cell."""
        return TensorType(self.type.dtype, tuple(s.stop - s.start for s in cell))

    def written_here(self, x: Array | Sharded) -> Iterator[tuple[int, Array]]:
        """The cells that this process writes."""
        cells = dict(self.cells())
        pieces = x.pieces if isinstance(x, Sharded) else (x,)
        for rank, piece in zip(
            held(x.mesh if isinstance(x, Sharded) else None), pieces, strict=True
        ):
            if rank in cells:
                yield rank, piece[tuple(slice(s.stop - s.start) for s in cells[rank])]


def overlap(cell: Cell, region: Cell) -> Cell | None:
    """What a cell and a region have in common; None if that is nothing."""
    pairs = [(a, b) for a, b in zip(cell, region, strict=True)]
    both = tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in pairs)
    return both if all(s.start < s.stop for s in both) else None


def within(part: Cell, cell: Cell) -> Cell:
    """A part of an array by its place in a cell of it."""
    return tuple(
        slice(s.start - c.start, s.stop - c.start) for s, c in zip(part, cell, strict=True)
    )


# -- the index -----------------------------------------------------------------------------------


def index_of(grids: dict[str, Grid]) -> str:
    """The text of an index."""
    arrays = {name: _entry(grid) for name, grid in grids.items()}
    return json.dumps({"format": FORMAT, "arrays": arrays})


def _entry(grid: Grid) -> dict[str, Any]:
    t = grid.type
    return {
        "dtype": t.dtype.name.upper(),
        "shape": t.shape,
        "names": grid.names,
        "starts": grid.starts,
        "ranks": grid.ranks,
    }


def read_index(path: Path) -> dict[str, Grid]:
    """The arrays of an index; one that is damaged, or made to do harm, is an error."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST:
            raise ValueError(f"expected a file of at most {MOST >> 20} MiB")
        given = json.loads(path.read_bytes(), object_pairs_hook=once)
        if _object("an index", given, {"format", "arrays"})["format"] != FORMAT:
            raise ValueError(f"its format is {given['format']!r:.40}; expected {FORMAT!r}")
        return {
            name: _grid(name, entry) for name, entry in _object("arrays", given["arrays"]).items()
        }
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None


def damaged(path: str | os.PathLike[str], why: str) -> UserError:
    """The error for a file of a state that can't be used."""
    return UserError(f"restore: {os.fspath(path)!r}: {why}", origin=user_origin(), remedy=EARLIER)


def _object(name: str, given: Any, keys: set[str] | None = None) -> dict[str, Any]:
    """An object of JSON, which has these names."""
    if not isinstance(given, dict) or (keys is not None and {*given} != keys):  # pyright: ignore[reportUnknownArgumentType]
        said = f" with {', '.join(sorted(keys))}" if keys else ""
        raise ValueError(f"{name}: expected an object{said}, found {given!r:.40}")
    return given  # pyright: ignore[reportUnknownVariableType]


def _list(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise ValueError(f"{name}: expected a list, found {given!r:.40}")
    return given  # pyright: ignore[reportUnknownVariableType]


def _grid(name: str, entry: Any) -> Grid:
    fields = _object(name, entry, {"dtype", "shape", "names", "starts", "ranks"})
    dtype = TYPES.get(fields["dtype"]) if isinstance(fields["dtype"], str) else None
    if dtype is None:
        raise ValueError(f"{name} has elements of type {fields['dtype']!r:.40}")
    shape, ranks = _counts(name, fields["shape"]), _counts(name, fields["ranks"])
    starts = tuple(_counts(name, cuts) for cuts in _list(name, fields["starts"]))
    if len(starts) != len(shape):
        raise ValueError(f"{name}: starts along {len(starts)} axes, of {len(shape)}")
    for cuts, n in zip(starts, shape, strict=True):
        if (cuts[:1] != ((0,) if n else ())) or any(a >= b for a, b in pairwise((*cuts, n))):
            raise ValueError(
                f"{name}: cells start at {cuts!r:.40} of {n}: expected 0 and ascending"
            )
    if len(ranks) != math.prod(map(len, starts)) or len(set(ranks)) != len(ranks):
        raise ValueError(f"{name}: expected one rank for each cell")
    names = tuple(tuple(_list(name, axes)) for axes in _list(name, fields["names"]))
    if len(names) != len(shape) or not all(isinstance(a, str) for axes in names for a in axes):
        raise ValueError(f"{name}: expected names of axes, found {names!r:.40}")
    return Grid(TensorType(dtype, shape), names, starts, ranks)


def _counts(name: str, given: Any) -> tuple[int, ...]:
    """A list of whole numbers that are not negative."""
    found = _list(name, given)
    if any(type(n) is not int or n < 0 for n in found):
        raise ValueError(f"{name}: expected whole numbers, found {given!r:.40}")
    return tuple(found)
