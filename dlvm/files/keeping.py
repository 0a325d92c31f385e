"""``states``: a folder with the states of a run, to go on from the last whole one.

A state is a folder: a file of safetensors for each rank, with the pieces that it wrote, and an
index, which is written last. A folder without an index is no state: it is never listed, and the
next save removes it. A state that is saved again is a new folder beside the old one, which is
removed when the new one is whole.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dlvm.base.errors import ArgumentError, UserError
from dlvm.dsl.arrays.sharding import Ranks, mesh_of
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import INDEX as WHOLE
from dlvm.dsl.trace.scopes import type_of, user_origin
from dlvm.dsl.trace.specs import Spec
from dlvm.dsl.trace.trees import flatten, labels, unflatten
from dlvm.ir import Array
from dlvm.ir.sharding import ranks
from dlvm.ir.sharding.mesh import Mesh, Sharding, checked_axes
from dlvm.ir.sharding.pieces import place
from dlvm.ir.sharding.ranks import held, told
from dlvm.ir.sharding.sharded import Sharded

from .contents import Contents, opened
from .grids import (
    EARLIER,
    INDEX,
    Cell,
    Grid,
    damaged,
    index_of,
    overlap,
    read_index,
    within,
)
from .names import names_of, path_of
from .preempted import NOTICE
from .reading import check_names, check_type, in_place_of
from .writing import saved, to_disk, write_arrays, write_whole

Tree = TypeVar("Tree")
NAME = re.compile(r"state-(0|[1-9][0-9]{0,17})(?:\.([1-9][0-9]{0,17}))?")
"""The folder of a state: its step, and how often that was saved again."""
LIKE = "give a tree with the names and types that were saved"


class Folder(NamedTuple):
    """The folder of a state, which is whole if it has an index."""

    step: int
    again: int
    path: Path

    @property
    def is_whole(self) -> bool:
        """Whether the state was saved to its end."""
        return (self.path / INDEX).is_file()

    def remove(self) -> None:
        """Removes a state, its index first: what is left is no state."""
        (self.path / INDEX).unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)


@dataclass(frozen=True)
class States:
    """The states of a run in a folder, which ``dlvm.states`` makes."""

    folder: Path
    max_to_keep: int | None

    @facing_users
    def save(self, step: int, tree: Any) -> None:
        """Keeps a tree as the state of a step, at once or not at all.

        Leaves are arrays, plain or ``Sharded``, and numbers: parameters, the state of an optimiser,
        a random key. Of a ``Sharded`` each rank writes its piece. Afterwards the states of the
        smallest steps beyond ``max_to_keep`` are removed.
        """
        _check_step("save", step)
        leaves, spec = flatten(tree)
        names, places = names_of("save", spec, "tree"), labels(spec, "tree")
        pairs = zip(leaves, places, strict=True)
        arrays = [x if isinstance(x, Sharded) else saved(x, at) for x, at in pairs]
        types = [type_of(x, at) for x, at in zip(arrays, places, strict=True)]
        grids = [Grid.of(t, x) for t, x in zip(types, arrays, strict=True)]
        files: dict[int, dict[str, Array]] = {}
        for name, grid, x in zip(names, grids, arrays, strict=True):
            for rank, piece in grid.written_here(x):
                files.setdefault(rank, {})[name] = np.asarray(piece, order="C")
        first = ranks.rank() == 0  # of the processes of a mesh, which wait for one another
        (again, *_) = told(self._begun(int(step)).again if first else 0)
        new = self._folder(int(step), again)
        try:
            for number, pieces in files.items():
                write_arrays(_file(new.path, number), pieces)
            told(0)
            if first:
                text = index_of(dict(zip(names, grids, strict=True)))
                write_whole(new.path / INDEX, lambda path: path.write_text(text, "utf8"))
        except BaseException:
            new.remove()
            raise
        if first:
            self._forget(new)
        told(0)

    def _folder(self, step: int, again: int) -> Folder:
        name = f"state-{step}" + (f".{again}" if again else "")
        return Folder(step, again, self.folder / name)

    def _begun(self, step: int) -> Folder:
        """A new folder for a state, once unfinished ones are removed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        again: list[int] = []
        for found in self._folders():
            if not found.is_whole:
                found.remove()
            elif found.step == step:
                again.append(found.again + 1)
        new = self._folder(step, max(again, default=0))
        new.path.mkdir()
        to_disk(self.folder)
        return new

    def _forget(self, new: Folder) -> None:
        """Removes older states of the same step, and the first ones beyond what is kept."""
        others = [found for found in self._folders() if found.path != new.path]
        steps = sorted({found.step for found in others} - {new.step})
        first = 0 if self.max_to_keep is None else len(steps) - (self.max_to_keep - 1)
        dropped = {new.step, *steps[: max(0, first)]}
        for found in others:
            if found.step in dropped:
                found.remove()

    def _folders(self) -> list[Folder]:
        """The folders of states, whole or not, in the order in which they were saved."""
        try:
            entries = [(NAME.fullmatch(entry.name), entry) for entry in os.scandir(self.folder)]
        except FileNotFoundError:
            return []
        return sorted(
            Folder(int(name[1]), int(name[2] or 0), Path(entry.path))
            for name, entry in entries
            if name and entry.is_dir(follow_symlinks=False)
        )

    def _whole(self) -> dict[int, Folder]:
        """The states by step; of one that was saved again, the last."""
        return {found.step: found for found in self._folders() if found.is_whole}

    @facing_users
    def all_steps(self) -> list[int]:
        """The steps of which there are whole states, in ascending order."""
        return sorted(self._whole())

    @facing_users
    def latest_step(self) -> int | None:
        """The last step of which there is a whole state; None if there is none."""
        return max(self._whole(), default=None)

    @facing_users
    def restore(
        self, like: Tree, step: int | None = None, *, mesh: Ranks | None = None
    ) -> tuple[int, Tree]:
        """The last state, or that of a step, as ``(step, tree)``; ``(0, like)`` if there is none.

        The tree has the structure of ``like``, and each leaf must have the shape and the element
        type of its place. Where ``like`` has a ``Sharded``, the result is one of the same mesh, on
        whatever mesh it was saved; where it has a plain array, the result is whole.

        With a ``mesh`` arrays lie on it as they lay when they were saved, whatever ``like`` has:
        along the axes of the same names, and whole along others. So a resumed run goes on with the
        program that saved it, and has the bits of a run that was never interrupted.
        """
        on = None if mesh is None else mesh_of("restore", mesh)
        whole = self._whole()
        if step is None:
            if not whole:
                return 0, like
            step = max(whole)
        _check_step("restore", step)
        if step not in whole:
            raise ArgumentError(
                f"restore: {os.fspath(self.folder)!r} has no state of step {step}; it has "
                f"{', '.join(map(str, whole)) or 'none'}",
                origin=user_origin(),
                remedy="give a step of runs.all_steps(), or none for the last one",
            )
        return step, _read(whole[step].path, like, on)

    @facing_users
    def preempted(self) -> bool:
        """Whether the system has asked a process of the run to end, by SIGTERM: save and leave.

        The processes of a mesh ask at once, at the same step, and are told the same.

        The first call, in the main thread, begins to listen; until then the signal ends the
        process, as it does without.
        """
        return any(told(NOTICE.asked()))


@facing_users
def states(folder: str | os.PathLike[str], max_to_keep: int | None = 3) -> States:
    """The states of a run in a folder, of which the last ``max_to_keep`` are kept, or all if None.

    A state is all that a run goes on from: parameters, the state of the optimiser, a random key,
    numbers. A save that is killed at any moment leaves the states that were there before::

        runs = dlvm.states("run")
        start, tree = runs.restore(tree)              # (0, tree) if there is no state yet
        for step, batch in enumerate(dlvm.batches(rows, 32, key, start=start), start + 1):
            tree = train(tree, batch)
            leave = runs.preempted()
            if leave or step % 100 == 0:
                runs.save(step, tree)
            if leave:
                break
    """
    path = path_of("states", folder, "dlvm.states(folder)")
    if max_to_keep is not None and (not WHOLE.fits(max_to_keep) or max_to_keep < 1):
        raise ArgumentError(
            f"states: max_to_keep={max_to_keep!r:.40}: expected a whole number of at least 1",
            origin=user_origin(),
            remedy="give max_to_keep=None to keep all states",
        )
    return States(Path(os.path.abspath(path)), None if max_to_keep is None else int(max_to_keep))


def _check_step(what: str, step: Any) -> None:
    example = "save(step, tree)" if what == "save" else "restore(like, step=12)"
    if not WHOLE.fits(step) or not 0 <= step < 10**18:
        raise ArgumentError(
            f"{what}: step={step!r:.40}: expected a whole number of at least 0",
            origin=user_origin(),
            remedy=f"write runs.{example}",
        )


def _file(state: Path, rank: int) -> Path:
    """The file with what a rank wrote of a state."""
    return state / f"rank-{rank}.safetensors"


# -- reading -------------------------------------------------------------------------------------


def _read(state: Path, like: Any, mesh: Mesh | None) -> Any:
    """A state in the structure of a tree whose leaves have its types."""
    leaves, spec = flatten(like)
    names, places = names_of("restore", spec, "like"), labels(spec, "like")
    grids = read_index(state / INDEX)
    check_names("restore", os.fspath(state), names, list(grids), (LIKE, LIKE))
    contents = cache(partial(_contents, state))
    wanted: list[tuple[Mesh, Sharding] | None] = []
    for leaf, name, at in zip(leaves, names, places, strict=True):
        said = f"restore: {os.fspath(state)!r}: {name}"
        check_type(said, grids[name].type, leaf, at, LIKE)
        wanted.append(_layout(leaf, at) if mesh is None else _saved(grids[name], said, mesh))
    rows = zip(names, leaves, wanted, strict=True)
    found = [in_place_of(x, _array(grids[n], n, at, contents)) for n, x, at in rows]
    return unflatten(spec, found)


def _saved(grid: Grid, said: str, mesh: Mesh) -> tuple[Mesh, Sharding] | None:
    """How an array that was shared lies on a mesh that may lack axes; None for a whole one."""
    sharding = tuple(tuple(a for a in axes if a in mesh.sizes) for axes in grid.names)
    try:
        checked_axes(mesh, sharding, said)
    except UserError as error:
        raise error.located(user_origin()) from None
    return (mesh, sharding) if any(sharding) else None


def _layout(leaf: Any, label: str) -> tuple[Mesh, Sharding] | None:
    """How a leaf of ``like`` lies on its mesh; None for a whole one."""
    if isinstance(leaf, Spec) and leaf.sharding is not None:
        raise ArgumentError(
            f"restore: {label} is {leaf!r}, which does not say of which mesh",
            origin=user_origin(),
            remedy="give an array that dlvm.shard has cut, or a spec without names for a whole one",
        )
    return (leaf.mesh, leaf.sharding) if isinstance(leaf, Sharded) else None


def _contents(state: Path, rank: int) -> Contents:
    """The file of a rank, which lies in the folder of its state."""
    path = _file(state, rank)
    try:
        if path.is_symlink():
            raise damaged(path, "expected a file, found a link, which may lead anywhere")
        return opened(os.fspath(path))
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from None
    except UserError as error:
        raise _of_state(error) from None


def _of_state(error: UserError) -> UserError:
    """The error of a file, told as one of a state."""
    error.message, error.remedy = error.message.replace("load: ", "restore: ", 1), EARLIER
    return error


def _array(
    grid: Grid, name: str, on: tuple[Mesh, Sharding] | None, contents: Callable[[int], Contents]
) -> Array | Sharded:
    """An array, whole or as the ranks of a mesh have it."""
    sizes = [int(n) for n in grid.type.shape]
    if on is None:
        out = np.empty(sizes, grid.type.dtype.numpy)
        _fill(out, tuple(slice(0, n) for n in sizes), grid, name, contents)
        return out
    (mesh, sharding), made, pieces = on, dict[tuple[int, ...], Array](), list[Array]()
    local = [int(n) for n in mesh.locally(sizes, sharding)]
    for rank in held(mesh):
        at = tuple(mesh.index(rank, axes) for axes in sharding)
        if at not in made:
            made[at] = np.zeros(local, grid.type.dtype.numpy)
            _fill(made[at], place(mesh, sizes, sharding, rank), grid, name, contents)
        pieces.append(made[at])
    return Sharded(mesh, pieces, sizes, sharding)


def _fill(
    out: Array, region: Cell, grid: Grid, name: str, contents: Callable[[int], Contents]
) -> None:
    """Reads a region of an array from the files of the ranks that wrote it."""
    for rank, cell in grid.cells():
        if (both := overlap(cell, region)) is None:
            continue
        file = contents(rank)
        if name not in file.entries:
            raise damaged(file.file, f"it has no {name}, of which the index says it has a part")
        try:
            found = file.array(name)
        except UserError as error:
            raise _of_state(error) from None
        if (t := type_of(found)) != (expected := grid.type_in(cell)):
            raise damaged(file.file, f"{name} is {t}, and the index says {expected}")
        out[within(both, region)] = found[within(both, cell)]
