"""A mesh: ranks along named axes, and how large the pieces of an array are.

A *sharding* names for each axis of an array the axes of the mesh that share it, the major one
first; where there are none, the axis is whole. The axes of a mesh are in row-major order: the ranks
of the last one are neighbours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property

from dlvm.base.errors import IRError, UserError
from dlvm.ir.sizes.dims import Dim, floordiv

Axes = tuple[str, ...]
Sharding = tuple[Axes, ...]
Coordinates = tuple[int, ...]


LIBRARY = "library"
"""The word of a mesh whose floats the library of MPI adds."""


@dataclass(frozen=True, slots=True)
class Link:
    """How ranks along an axis reach one another: seconds for a message, bytes in a second."""

    latency: float = 3e-6
    bandwidth: float = 10e9


@dataclass(frozen=True)
class Mesh:
    """Names and sizes of axes. ``pieces`` of an axis are how many parts its arrays are cut into.

    That is the number of its ranks where none is given; where one is given, a sum along the axis is
    a tree over pieces, whatever the number of ranks. ``links`` are what the compiler
    chooses by.
    """

    axes: tuple[tuple[str, int], ...]
    pieces: tuple[tuple[str, int], ...] = ()
    links: tuple[tuple[str, Link], ...] = field(default=(), compare=False)
    library_sums: bool = False
    """Whether the library of MPI adds floats, in an order of its own, and not ranks in theirs."""
    processes: bool = field(default=False, compare=False)
    """Whether its ranks are processes of MPI, of which this is one, and not threads of this one."""

    def __str__(self) -> str:
        pieces = dict(self.pieces)
        each = [f"{n}={k}" + (f"/{pieces[n]}" if n in pieces else "") for n, k in self.axes]
        return ",".join([*each, *[LIBRARY] * self.library_sums])

    @staticmethod
    def named(text: str) -> Mesh:
        """The mesh that ``str`` of one gives, such as ``data=2/8,model=4``."""
        axes: list[tuple[str, int]] = []
        pieces: list[tuple[str, int]] = []
        *parts, last = text.split(",")
        for part in (*parts, *[last] * (last != LIBRARY)):
            name, _, sizes = part.partition("=")
            size, _, count = sizes.partition("/")
            if not (name.isidentifier() and size.isdecimal() and int(size)):
                raise UserError(
                    f"a mesh: expected names with numbers of ranks, found {text!r}",
                    remedy="write data=2,model=4",
                )
            axes.append((name, int(size)))
            if count.isdecimal():
                pieces.append((name, int(count)))
        return Mesh(tuple(axes), tuple(pieces), library_sums=last == LIBRARY)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of ranks along each axis."""
        return dict(self.axes)

    @cached_property
    def _parts(self) -> dict[str, int]:
        return {**self.sizes, **dict(self.pieces)}

    @property
    def size(self) -> int:
        """The number of ranks."""
        return math.prod(self.sizes.values())

    def count(self, axes: Iterable[str]) -> int:
        """The number of ranks along axes together."""
        return math.prod(self.sizes[a] for a in axes)

    def parts(self, axes: Iterable[str]) -> int:
        """The number of pieces into which axes together cut an array."""
        return math.prod(self._parts[a] for a in axes)

    def pieced(self, axes: Iterable[str]) -> bool:
        """Whether the pieces along one of the axes are given."""
        return any(a in dict(self.pieces) for a in axes)

    def pieces_each(self, axes: Iterable[str]) -> int:
        """The pieces that each rank has."""
        axes = tuple(axes)
        return -(-self.parts(axes) // self.count(axes))

    def piece(self, size: Dim, axes: Iterable[str]) -> Dim:
        """The size of a piece of an axis that is shared by ``axes``."""
        return _up(size, self.parts(axes))

    def local(self, size: Dim, axes: Iterable[str]) -> Dim:
        """The size that each rank has; the last ranks have less of it, or none, that counts."""
        axes = tuple(axes)
        return self.pieces_each(axes) * self.piece(size, axes) if axes else size

    def even(self, size: Dim, axes: Iterable[str]) -> bool:
        """Whether all pieces have one size."""
        axes = tuple(axes)
        return self.piece(size, axes) * self.parts(axes) == size

    def full(self, size: Dim, axes: Iterable[str]) -> bool:
        """Whether all that each rank has counts."""
        axes = tuple(axes)
        return self.local(size, axes) * self.count(axes) == size

    @cached_property
    def logical(self) -> Mesh:
        """A mesh with a rank for each piece: programs are chosen by it, for any number of ranks.

        Where pieces are given bits are promised, so what was measured does not count.
        """
        return Mesh(tuple(self._parts.items()), links=() if self.pieces else self.links)

    def locally(self, shape: Sequence[Dim], sharding: Sharding) -> tuple[Dim, ...]:
        """The shape of the piece of each rank."""
        return tuple(self.local(n, axes) for n, axes in zip(shape, sharding, strict=True))

    # -- ranks -----------------------------------------------------------------------------------

    @cached_property
    def _coordinates(self) -> list[dict[str, int]]:
        grid = itertools.product(*(range(k) for _, k in self.axes))
        return [dict(zip(self.sizes, at, strict=True)) for at in grid]

    def index(self, rank: int, axes: Iterable[str]) -> int:
        """Which piece a rank has of what ``axes`` share."""
        at, found = self._coordinates[rank], 0
        for a in axes:
            found = found * self.sizes[a] + at[a]
        return found

    def group(self, rank: int, axes: Sequence[str]) -> list[int]:
        """The ranks that differ from this one along ``axes`` alone, by their index there."""
        at = self._coordinates[rank]
        rest = [a for a in self.sizes if a not in axes]
        same = (r for r, c in enumerate(self._coordinates) if all(c[a] == at[a] for a in rest))
        return sorted(same, key=lambda r: self.index(r, axes))

    def link(self, axes: Iterable[str]) -> Link:
        """The slowest of the links along axes."""
        given = [dict(self.links).get(a, Link()) for a in axes] or [Link()]
        return Link(max(x.latency for x in given), min(x.bandwidth for x in given))


def _up(size: Dim, count: int) -> Dim:
    return floordiv(size + (count - 1), count)


def shown(shape: Sequence[Dim], sharding: Sharding) -> str:
    """A shape with what shares each axis: ``512@data,256``."""
    pairs = zip(shape, sharding, strict=True)
    return ",".join(f"{n}@{'+'.join(axes)}" if axes else str(n) for n, axes in pairs)


def shares(sharding: Sharding | None) -> Sharding | None:
    """A sharding itself, or None if it leaves every axis whole."""
    return sharding if sharding and any(sharding) else None


_mesh: ContextVar[Mesh | None] = ContextVar("dlvm_mesh", default=None)


@contextmanager
def on(mesh: Mesh | None) -> Generator[None]:
    """Passes that run inside make programs for the ranks of this mesh."""
    token = _mesh.set(mesh)
    try:
        yield
    finally:
        _mesh.reset(token)


def known_mesh() -> Mesh | None:
    """The mesh of the compilation that is running, if it has one."""
    return _mesh.get()


def current() -> Mesh:
    """The same where there must be one."""
    if (mesh := _mesh.get()) is None:
        raise IRError(
            "a program is partitioned for a mesh, and none was given",
            remedy="run the pass under dlvm.ir.sharding.mesh.on(Mesh.named('data=2'))",
        )
    return mesh


def checked_axes(mesh: Mesh, sharding: Sharding, said: str) -> None:
    """An error where a sharding names what the mesh has not, or an axis twice."""
    seen: set[str] = set()
    for axes in sharding:
        for a in axes:
            if a not in mesh.sizes:
                raise UserError(
                    f"{said}: the mesh has no axis {a!r}; it has {', '.join(mesh.sizes)}",
                    remedy="use a name of the mesh, or None for an axis that is whole",
                )
            if a in seen:
                raise UserError(
                    f"{said}: the axis {a!r} is used twice",
                    remedy="share each axis of an array by other axes of the mesh",
                )
            seen.add(a)
        if len(axes) > 1 and mesh.pieced(axes):
            raise UserError(
                f"{said}: {' and '.join(axes)} share one axis, and pieces are given for one",
                remedy="share the axis by one name, or leave pieces= out",
            )
