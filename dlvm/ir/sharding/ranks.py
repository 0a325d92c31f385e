"""Ranks of a simulated mesh: threads of this process, which meet where they exchange pieces.

Each rank runs the same program. At an exchange the ranks of a group wait for one another, and the
last one to come computes the results of all, from the pieces in the order of the group: so results
depend on no timing. A rank that ends with an error ends all others, and so does waiting for one
that does not come.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np

from dlvm.base.errors import IRError
from dlvm.ir.types import Array

from .mesh import Mesh

T = TypeVar("T")
Pieces = tuple[Array, ...]


class Exchanged(Protocol):
    """An operation of all ranks of a group."""

    axes: tuple[str, ...]

    def reference_of_ranks(self, pieces: Sequence[Pieces]) -> Sequence[Pieces]:
        """What each rank gets, from what each gives, both in the order of the group."""
        ...


class Abandoned(BaseException):
    """Raised in a rank that waits for one that has ended with an error.

    No ``Exception``, so that nothing on the way out takes it for an error of its own.
    """


class Meeting:
    """One exchange of a group: what came, and what each gets."""

    def __init__(self) -> None:
        self.came: dict[int, tuple[Exchanged, Pieces]] = {}
        self.given: dict[int, Pieces] = {}
        self.over = threading.Event()


class World:
    """The ranks of one run."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._lock = threading.Lock()
        self._groups: dict[tuple[int, tuple[str, ...]], tuple[int, ...]] = {}
        self._meetings: dict[tuple[int, ...], Meeting] = {}
        self._error: BaseException | None = None
        self._running = mesh.size
        self._waiting = 0

    def exchange(self, op: Exchanged, rank: int, xs: Pieces) -> Pieces:
        """What this rank gets of an exchange with the ranks of its group."""
        group = self._groups.get((rank, op.axes)) or tuple(self.mesh.group(rank, op.axes))
        with self._lock:
            self._groups[rank, op.axes] = group
            if self._error is not None:
                raise Abandoned
            meeting = self._meetings.setdefault(group, Meeting())
            meeting.came[rank] = (op, xs)
            if len(meeting.came) == len(group):
                self._meet(meeting, group)
            else:
                self._waiting += 1
                self._check_anyone_runs()
        meeting.over.wait()
        if rank not in meeting.given:
            raise Abandoned
        return meeting.given[rank]

    def _meet(self, meeting: Meeting, group: tuple[int, ...]) -> None:
        names = {type(op).__name__ for op, _ in meeting.came.values()}
        if len(names) > 1:
            raise IRError(f"ranks meet in different exchanges: {', '.join(sorted(names))}")
        op = meeting.came[group[0]][0]
        given = op.reference_of_ranks([meeting.came[r][1] for r in group])
        meeting.given.update(zip(group, given, strict=True))
        del self._meetings[group]
        self._waiting -= len(group) - 1
        meeting.over.set()

    def _check_anyone_runs(self) -> None:
        if self._error is None and 0 < self._running == self._waiting:
            waiting = (
                f"{', '.join(f'rank {r} in {type(op).__name__}' for r, (op, _) in m.came.items())}"
                for m in self._meetings.values()
            )
            said = f"ranks wait for others that never come: {'; '.join(waiting)}"
            self._abandon(IRError(said))

    def _abandon(self, error: BaseException) -> None:
        """Nobody waits any longer, as one has ended with this error."""
        self._error = self._error or error
        for meeting in self._meetings.values():
            meeting.over.set()

    def run(self, work: Callable[[int], T]) -> list[T]:
        """``work`` of every rank; an error of one is raised here, that of the lowest rank first."""
        found: dict[int, T] = {}
        errors: dict[int, BaseException] = {}

        def one(rank: int) -> None:
            try:
                with here(self, rank):
                    found[rank] = work(rank)
            except BaseException as error:  # raised again below
                errors[rank] = error
                with self._lock:
                    self._abandon(error)
            finally:
                with self._lock:
                    self._running -= 1
                    self._check_anyone_runs()

        contexts = [contextvars.copy_context() for _ in range(self.mesh.size)]
        threads = [threading.Thread(target=c.run, args=(one, r)) for r, c in enumerate(contexts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _, error in sorted(errors.items()):
            if not isinstance(error, Abandoned):
                raise error
        if self._error is not None:
            raise self._error
        return [found[r] for r in range(self.mesh.size)]


class _Place(threading.local):
    world: Any = None
    rank: int = 0


_place = _Place()


@contextmanager
def here(world: Any, number: int) -> Generator[None]:
    """Inside, this thread runs that rank."""
    before = _place.world, _place.rank
    _place.world, _place.rank = world, number
    try:
        yield
    finally:
        _place.world, _place.rank = before


PROCESSES: dict[Mesh, Any] = {}
"""The ranks of meshes as processes, of which this is one, with what ``World`` has."""


def world_of(mesh: Mesh) -> Any:
    """What runs the ranks of a mesh: this process one of them, or all as threads."""
    return PROCESSES[mesh] if mesh.processes else World(mesh)


def held(mesh: Mesh | None) -> Sequence[int]:
    """The ranks whose pieces this process has; of what is on no mesh, its own."""
    if mesh is None:
        return (rank(),)
    return (PROCESSES[mesh].rank,) if mesh.processes else range(mesh.size)


def told(number: int) -> list[int]:
    """What each process has for a number, which all give at once; of one process its own."""
    world = next(iter(PROCESSES.values()), None)
    if world is None:
        return [number]
    return [int(x[0]) for x in world.gathered(np.array([number], np.int64))]


def rank() -> int:
    """The rank that this thread runs; outside of a mesh that of the process, or 0."""
    if _place.world is not None:
        return _place.rank
    return next((world.rank for world in PROCESSES.values()), 0)


def speaks() -> bool:
    """Whether what this thread prints is seen: of a program of ranks the first one speaks."""
    return _place.world is None or _place.rank == 0


def exchange(op: Exchanged, xs: Pieces) -> Pieces:
    """What the rank of this thread gets of an exchange."""
    return _world().exchange(op, _place.rank, xs)


def index(axes: Sequence[str]) -> int:
    """Which piece the rank of this thread has of what axes share."""
    return _world().mesh.index(_place.rank, axes)


def _world() -> Any:
    if _place.world is None:
        raise IRError(
            "a program for the ranks of a mesh runs on a mesh",
            remedy="run it by dlvm.ir.sharding.ranks.World(mesh).run",
        )
    return _place.world
