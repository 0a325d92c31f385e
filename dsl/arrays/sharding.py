"""Meshes of ranks, and annotations that say which of their axes share the axes of an array."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dlvm.base import environment
from dlvm.base.errors import ArgumentError, Origin, ShapeError, TraceError, UserError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import fresh, here, staged
from dlvm.dsl.trace.provenance import place
from dlvm.dsl.trace.scopes import current, type_of, user_origin
from dlvm.dsl.trace.sharded import DECORATE
from dlvm.dsl.trace.specs import concrete
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.trees import map_with_keys
from dlvm.dsl.words.calling import called
from dlvm.ir import Array, Value
from dlvm.ir.sharding import ranks
from dlvm.ir.sharding.mesh import Axes, Mesh, Sharding, checked_axes
from dlvm.ir.sharding.pieces import part
from dlvm.ir.sharding.sharded import Sharded
from dlvm.ops import Shard

Partial = tuple[Axes | None, ...]
"""What shares each axis of an array; None where the compiler chooses."""
MADE: dict[Mesh, Origin] = {}
"""The lines on which meshes were made, the newest mesh last."""
MAKE = 'make one: dlvm.mesh({"data": -1})'
NAMES = 'dlvm.shard(x, "data", None) names the axis of a mesh that shares each axis of x'


class Ranks:
    """The ranks of a mesh, which ``dlvm.mesh`` makes: ``rank`` is the one that runs this line.

    A simulated mesh runs all of its ranks in this process; outside of what they run, ``rank`` is 0.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return ranks.rank()

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.mesh.size

    @property
    def shape(self) -> dict[str, int]:
        """The number of ranks along each axis, by name."""
        return dict(self.mesh.axes)

    @facing_users
    def index(self, axis: str | tuple[str, ...]) -> int:
        """The place of this rank along an axis, or along several together, the major one first."""
        axes = (axis,) if isinstance(axis, str) else axis
        _check(self.mesh, (axes,), "index")
        return self.mesh.index(self.rank, axes)

    @facing_users
    def from_local(self, pieces: Any, /, *names: Any) -> Sharded:
        """One array made of the pieces that each rank has, which lie along the axes named.

        The pieces of a simulated mesh of several ranks are given together: a list with one for each
        rank, or a function from the number of a rank to its piece::

            x = mesh.from_local(lambda rank: rows[rank], "data", None)

        Along an axis all pieces but the last ones have the same size; None names an axis of which
        every rank has all. ``dlvm.shard`` is for an array that is whole.
        """
        if self.mesh.processes:
            return self._of_process(pieces, names)
        found = [_piece(x, rank) for rank, x in enumerate(_each(self.mesh, pieces))]
        known = _known(names, found[0].ndim, self.mesh, "from_local")
        return _joined(self.mesh, found, tuple(axes or () for axes in known))

    def _of_process(self, piece: Any, names: Sequence[Any]) -> Sharded:
        """The same where each rank is a process, which gives its own piece; all do so at once."""
        own, mesh = _piece(piece(self.rank) if callable(piece) else piece, self.rank), self.mesh
        axes = _known(names, own.ndim, mesh, "from_local")
        sharding = tuple(names or () for names in axes)
        shapes = ranks.world_of(mesh).gathered(np.array(own.shape, np.int64))
        all_ = [np.broadcast_to(own.dtype.type(0), tuple(map(int, s))) for s in shapes]
        shape = [_size(mesh, all_, axis, names) for axis, names in enumerate(sharding)]
        for axis, names in enumerate(sharding):
            own = part(own, axis, 0, int(mesh.local(shape[axis], names)))
        return Sharded(mesh, [np.array(own, order="C")], shape, sharding)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranks) and self.mesh == other.mesh

    def __hash__(self) -> int:
        return hash(self.mesh)

    def __repr__(self) -> str:
        return f"<mesh {self.mesh}>"


@facing_users
def mesh(
    axes: Mapping[str, int],
    *,
    simulate: int | None = None,
    pieces: Mapping[str, int] | None = None,
    sums: str = "ordered",
) -> Ranks:
    """A mesh of ranks: names of axes, each with the number of ranks along it.

    One of them may be -1, for the ranks that are left. They are the processes that a launcher of
    MPI has started, or as many as this process is to ``simulate``, each by a thread, to try and to
    test a program. ``pieces`` of an axis
    are how many parts arrays are cut into along it: sums along it then give the same bits on any
    number of ranks up to that. With ``sums="library"`` the library of MPI adds floats of ranks, in
    an order that depends on it, on the size and on the number of ranks.

    >>> dlvm.mesh({"data": -1, "model": 2}, simulate=4).shape
    {'data': 2, 'model': 2}
    """
    _check_counts(axes, "mesh", least=-1)
    from dlvm.gen import links, mpi

    started = simulate is None and environment.launched()
    _check_counts({"simulate": 1 if simulate is None else simulate}, "mesh")
    if not axes:
        raise _wrong("mesh: expected names of axes, found none", 'write dlvm.mesh({"data": -1})')
    total = mpi.library().size if started else simulate or 1
    sizes = tuple(_filled(axes, total).items())
    cut = _cut_into(axes, pieces or {})
    made = Mesh(sizes, cut, library_sums=_by_library(sums, cut), processes=started)
    for name, count in made.pieces:
        if count < made.sizes[name]:
            raise _wrong(
                f"mesh: {count} pieces along {name!r}, which has {made.sizes[name]} ranks",
                "give each rank at least one piece",
            )
    if started:
        world = ranks.PROCESSES.setdefault(made, mpi.Processes(made, mpi.library()))
        made = links.linked(made, world)
    MADE.pop(made, None)
    MADE[made] = user_origin()
    return Ranks(made)


def _by_library(sums: str, pieces: Any) -> bool:
    if sums not in ("ordered", "library"):
        raise _wrong(f"mesh: sums={sums!r:.40}: expected 'ordered' or 'library'", "leave sums= out")
    if pieces and sums == "library":
        said = "mesh: pieces= promises bits that sums of the library do not have"
        raise _wrong(said, "leave out one of pieces= and sums=")
    return sums == "library"


def mesh_of(what: str, given: Any) -> Mesh:
    """The mesh that is given as ``mesh=``."""
    if not isinstance(given, Ranks):
        raise _wrong(f"{what}: mesh={given!r:.40}: expected a mesh", MAKE)
    return given.mesh


def _check_counts(given: Any, what: str, least: int = 1) -> None:
    """Refuses what is no dict from names to whole numbers of at least 1, or -1."""
    if not isinstance(given, Mapping):
        raise _wrong(
            f"{what}: expected a dict from names to numbers, found {given!r:.40}",
            'write dlvm.mesh({"data": 4, "model": 2}, simulate=8)',
        )
    for name, count in given.items():  # pyright: ignore[reportUnknownVariableType]
        if not (isinstance(name, str) and name.isidentifier()):
            raise _wrong(
                f"{what}: expected names of axes, found {name!r:.40}", "name axes as variables"
            )
        whole = isinstance(count, int) and not isinstance(count, bool)
        if not whole or count < least or count == 0:
            also = ", or -1 for what is left" if least < 0 else ""
            raise _wrong(
                f"{what}: {name}={count!r:.40}: expected a whole number of at least 1{also}",
                f"give {name} the number of ranks" + also,
            )


def _filled(axes: Mapping[str, int], total: int) -> dict[str, int]:
    """The number of ranks along each axis, of which one may be -1, of so many ranks in all."""
    free = [name for name, count in axes.items() if count == -1]
    rest = math.prod(count for count in axes.values() if count != -1)
    if len(free) > 1:
        raise _wrong(
            f"mesh: {' and '.join(free)} are both -1", "leave the number of one axis open at most"
        )
    if total % rest or (not free and total != rest):
        sizes = ", ".join(f"{name}={count}" for name, count in axes.items())
        raise _wrong(
            f"mesh: the axes {sizes} do not fit the number of ranks, which is {total}",
            f"simulate={rest} makes that many ranks in this process",
        )
    return {name: total // rest if count == -1 else count for name, count in axes.items()}


def _cut_into(axes: Mapping[str, int], pieces: Any) -> tuple[tuple[str, int], ...]:
    _check_counts(pieces, "mesh: pieces")
    for name in pieces:
        if name not in axes:
            raise _wrong(
                f"mesh: pieces= names {name!r}, and the axes are {', '.join(axes)}",
                "give pieces for axes of the mesh",
            )
    return tuple((name, pieces[name]) for name in axes if name in pieces)


# -- annotations ---------------------------------------------------------------------------------


@facing_users
def shard(x: Any, /, *names: Any, mesh: Ranks | None = None) -> Any:
    """The array itself, of which each rank of a mesh has a piece.

    For each axis of ``x`` there is the name of the axis of the mesh that shares it, a tuple of
    names for several, the major one first, or None if every rank has it whole. ``...`` stands for
    all axes that are not named, about which the compiler decides. In a function of a mesh this is
    the identity, and a gradient lies as its value does::

        mesh = dlvm.mesh({"data": 4}, simulate=4)

        @dlvm.function(mesh=mesh)
        def predict(w, x):
            return dlvm.tanh(dlvm.shard(x, "data", None) @ w)

    Outside of one the result is the array cut into pieces, for the newest mesh unless ``mesh`` is
    given, and ``...`` leaves axes whole: ``.local`` is the piece of this rank, ``.whole()`` all of
    it, ``.spec`` the names. A plain array is whole, and the same on every rank.

    A function in place of names says them for each leaf of a tree, by its path; None leaves a leaf
    as it is::

        net = dlvm.shard(net, lambda path, leaf: (None, "model") if path[-1] == "w" else None)
    """
    if len(names) == 1 and callable(names[0]):
        return map_with_keys(partial(_by_rule, names[0], mesh), x)
    if (kind := x.__class__) in (dict, list, tuple):
        raise _wrong(
            f"shard: expected an array, found a {kind.__name__}",
            'give the names by a function: dlvm.shard(tree, lambda path, leaf: ("data", ...))',
        )
    return _annotated(x, names, mesh)


def _by_rule(rule: Callable[..., Any], mesh: Ranks | None, path: Any, leaf: Any) -> Any:
    """A leaf of a tree with the names that a rule says."""
    names: Any = called("shard: the rule", "path, leaf", rule, path, leaf)
    if names is None or (type(leaf) in (bool, int, float) and names in ((), ..., (...,))):
        return leaf
    return _annotated(leaf, _several(names), mesh)


def _several(names: Any) -> tuple[Any, ...]:
    """A tuple itself, and one of anything else alone."""
    return names if isinstance(names, tuple) else (names,)  # pyright: ignore[reportUnknownVariableType]


def _annotated(x: Any, names: Sequence[Any], given: Ranks | None) -> Any:
    wanted = None if given is None else mesh_of("shard", given)
    if current() is None and not isinstance(x, Tensor):
        return _cut(x, names, wanted or _newest())
    traced, mesh = staged(x), _of_the_trace(wanted)
    known = _known(names, traced.type.rank, mesh, "shard")
    spec = tuple("..." if axes is None else "+".join(axes) for axes in known)
    if not spec:
        return traced
    value = traced.read()
    _agree(value, known)
    annotated = Shard(value, spec)
    for same in (value, annotated):
        here().trace.memo["annotated", same] = annotated
    return fresh(annotated, traced.weak)


def _agree(value: Value, known: Partial) -> None:
    """An error where a value is annotated twice, in two ways."""
    before: Any = here().trace.memo.get(("annotated", value))
    if before is None or all(
        None in (a, b) or a == b for a, b in zip(before.known, known, strict=True)
    ):
        return
    was, is_ = (
        ", ".join("..." if axes is None else "+".join(axes) or "None" for axes in annotation)
        for annotation in (before.known, known)
    )
    raise TraceError(
        f"shard: this value is annotated as ({was}) already, found ({is_})",
        origin=user_origin(),
        remedy="keep one of the two; a value that is computed from this one may lie otherwise",
        notes=() if before.origin is None else (f"the first is at {place(before.origin)}",),
    )


def _cut(x: Any, names: Sequence[Any], mesh: Mesh) -> Sharded:
    array = x if isinstance(x, Sharded) else concrete("shard", x, "x")
    known = _known(names, array.ndim, mesh, "shard")
    sharding = tuple(axes or () for axes in known)
    if isinstance(array, Sharded):
        if (array.mesh, array.sharding) == (mesh, sharding):
            return array
        array = array.whole()
    type_of(array, "x")
    return Sharded.cut(mesh, array, sharding)


def _newest() -> Mesh:
    if not MADE:
        raise _wrong("shard: there is no mesh", 'make one first: mesh = dlvm.mesh({"data": -1})')
    return next(reversed(MADE))


def _of_the_trace(given: Mesh | None) -> Mesh:
    """The mesh of the function that is traced."""
    scope = current()
    mesh = None if scope is None else scope.trace.mesh
    if mesh is None:
        raise TraceError(
            "shard: the function that is staged has no mesh", origin=user_origin(), remedy=DECORATE
        )
    if given is not None and given != mesh:
        raise TraceError(
            f"shard: the mesh is {given}, and that of the function is {mesh}",
            origin=user_origin(),
            remedy="leave mesh= out in staged code, and give it to dlvm.function",
            notes=(*_made_at(given), *_made_at(mesh)),
        )
    return mesh


def _known(names: Sequence[Any], rank: int, mesh: Mesh, said: str) -> Partial:
    """What shares each axis, from the names of the user."""
    found = [_axes(name, said) for name in names]
    if found.count(None) > 1:
        raise _wrong(f"{said}: expected one ... at most, found {found.count(None)}", NAMES)
    named = len(found) - found.count(None)
    if named > rank or (named < rank and None not in found):
        few = f"{said}: expected names for {rank} axes, found {named}"
        more = "leave some out" if named > rank else "end with ... if the compiler may choose"
        raise ShapeError(few, origin=user_origin(), remedy=f"{more}; None is for a whole axis")
    if None in found:
        at = found.index(None)
        found[at : at + 1] = [None] * (rank - named)
    _check(mesh, tuple(axes or () for axes in found), said)
    return tuple(found)


def _axes(name: Any, said: str) -> Axes | None:
    """The axes of the mesh that share an axis; None if the compiler chooses."""
    if name is ... or name is None:
        return None if name is ... else ()
    names = _several(name)
    for one in names:
        if not isinstance(one, str):
            wanted = "a name, a tuple of names, None or ..."
            raise _wrong(f"{said}: expected {wanted} for each axis, found {one!r:.40}", NAMES)
    return names


def _check(mesh: Mesh, sharding: Sharding, said: str) -> None:
    """The checks of names, with the lines of the user's call and of the mesh."""
    try:
        checked_axes(mesh, sharding, said)
    except UserError as error:
        raise error.located(user_origin(), *_made_at(mesh)) from None


def _made_at(mesh: Mesh) -> tuple[str, ...]:
    at = MADE.get(mesh)
    return () if at is None else (f"the mesh {mesh} was made at {place(at)}",)


def _wrong(said: str, remedy: str) -> ArgumentError:
    return ArgumentError(said, origin=user_origin(), remedy=remedy)


# -- arrays of pieces ----------------------------------------------------------------------------


def _each(mesh: Mesh, pieces: Any) -> list[Any]:
    """The piece of each rank, of a list or a function of the rank."""
    if callable(pieces):
        return [
            called("from_local: the function", "rank", pieces, rank) for rank in range(mesh.size)
        ]
    if mesh.size == 1:
        return [pieces]
    if isinstance(pieces, list | tuple) and len(pieces) == mesh.size:  # pyright: ignore[reportUnknownArgumentType]
        return [*pieces]  # pyright: ignore[reportUnknownArgumentType]
    raise _wrong(
        f"from_local: expected a list of the pieces of {mesh.size} ranks, found {_told(pieces)}",
        "give a list, or a function of the number of a rank",
    )


def _told(x: Any) -> str:
    listed = isinstance(x, list | tuple)
    return f"{len(x)} of them" if listed else f"a {type(x).__name__}"  # pyright: ignore[reportUnknownArgumentType]


def _piece(x: Any, rank: int) -> Array:
    array = concrete("from_local", x, f"pieces[{rank}]")
    type_of(array, f"pieces[{rank}]")
    return array


def _joined(mesh: Mesh, pieces: list[Array], sharding: Sharding) -> Sharded:
    """One array of pieces, each of which is filled up to the size that every rank has."""
    shape = [_size(mesh, pieces, axis, axes) for axis, axes in enumerate(sharding)]
    sizes = [int(mesh.local(n, axes)) for n, axes in zip(shape, sharding, strict=True)]
    made: dict[tuple[int, ...], tuple[int, Array]] = {}
    filled: list[Array] = []
    for rank, given in enumerate(pieces):
        at = tuple(mesh.index(rank, axes) for axes in sharding)
        if at not in made:
            x = given
            for axis, size in enumerate(sizes):
                x = part(x, axis, 0, size)
            made[at] = rank, np.array(x, order="C")
        first, whole = made[at]
        if given.dtype != pieces[0].dtype or given.tobytes() != pieces[first].tobytes():
            raise ShapeError(
                f"from_local: the ranks {first} and {rank} have different pieces of what both have",
                origin=user_origin(),
                remedy="name the axes of the mesh along which pieces differ, and give one type",
            )
        filled.append(whole)
    return Sharded(mesh, filled, shape, sharding)


def _size(mesh: Mesh, pieces: Sequence[Array], axis: int, axes: Axes) -> int:
    """The size of the whole array along an axis, of which every piece has its part."""
    if any(x.ndim != pieces[0].ndim for x in pieces):
        raise ShapeError(
            f"from_local: pieces of {' and '.join(sorted({str(x.ndim) for x in pieces}))} axes",
            origin=user_origin(),
            remedy="give pieces with the same number of axes",
        )
    found = [0] * mesh.count(axes)
    for rank, x in enumerate(pieces):
        found[mesh.index(rank, axes)] = x.shape[axis]
    size = sum(found)
    each = int(mesh.local(size, axes))
    fits = [max(0, min(each, size - i * each)) for i in range(len(found))]
    sizes = [x.shape[axis] for x in pieces]
    if sizes != [fits[mesh.index(rank, axes)] for rank in range(mesh.size)]:
        wanted = ", ".join(str(fits[mesh.index(rank, axes)]) for rank in range(mesh.size))
        raise ShapeError(
            f"from_local: along axis {axis} the ranks have {', '.join(map(str, sizes))}; expected"
            f" {wanted}, as {size} in all are cut",
            origin=user_origin(),
            remedy="move rows to the first ranks, so that the last one has what is left",
        )
    return size
