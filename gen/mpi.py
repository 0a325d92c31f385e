"""MPI: the library of processes that run one program, opened where a launcher has started them.

By its standard binary interface (MPI 5: ``libmpi_abi.so.1``), whose handles are fixed numbers, or
by handles that mpi4py tells of its own library. The first ``dlvm.mesh`` starts it.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import io
import itertools
import os
import platform
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from dlvm.base import environment, notes
from dlvm.base.errors import AssertionFailed, UserError
from dlvm.base.lazy import lazy
from dlvm.gen.llvm.cache import store
from dlvm.gen.loops.status import UNCOUNTED, error_of
from dlvm.gen.rank_tables import LONG, SHORT, table_of
from dlvm.gen.runtime.call_words import BYTE, GATHER, IGNORED, MOST, SEND, SUM, SWAP
from dlvm.ir import Array, Module
from dlvm.ir.sharding import ranks
from dlvm.ir.sharding.mesh import Mesh
from dlvm.target import allowed

T = TypeVar("T")
PAUSE = 0.2
"""Seconds before a rank ends all others, in which they say what they have to say."""
CORES = 4096
"""Numbers of cores that are looked at."""
NAME = "libmpi_abi.so.1"
WORLD, BYTES, MULTIPLE = 0x101, 0x247, 4096
"""Handles of the standard: all processes, a byte, and that any thread may call it."""
TYPES, ADD = {"f32": 0x210, "f64": 0x214}, 0x21
"""Those of floats, and of their sum."""
NAMED = {"f32": "FLOAT", "f64": "DOUBLE"}
WHEELS = ("mpich", "impi-rt")
"""Packages that bring a library, of which an environment holds one: they overwrite one another."""


class Library:
    """An open library: its functions, its handles, and which of the processes this one is."""

    world, byte, ignored = WORLD, BYTES, 0
    types, add = TYPES, ADD
    failed = False

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._lib: Any = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise UserError(
                f"the library of MPI can't be opened: {error}",
                remedy="pip install mpich, or set DLVM_MPI to the library of the cluster",
            ) from None
        running, given = ctypes.c_int(), ctypes.c_int()
        self._check("MPI_Initialized", ctypes.byref(running))
        self._starts = not running.value  # else who has started it ends it
        if self._starts:
            self._check("MPI_Init_thread", None, None, MULTIPLE, ctypes.byref(given))
        self.rank, self.size = (self._asked(f"MPI_Comm_{n}", WORLD) for n in ("rank", "size"))
        self.owner = os.getpid()

    def _asked(self, name: str, group: int) -> int:
        found = ctypes.c_int()
        self._check(name, ctypes.c_void_p(group), ctypes.byref(found))
        return found.value

    def _check(self, name: str, *given: Any) -> None:
        self._checked(getattr(self._lib, name), *given)

    def _checked(self, function: Any, *given: Any) -> None:
        if code := function(*given):
            raise UserError(
                f"{function.__name__} of {self.path} failed with code {code}",
                remedy="look at what the launcher and the other ranks say",
            )

    @property
    def most(self) -> int:
        """How many bytes its functions count."""
        return LONG if hasattr(self._lib, "MPI_Alltoall_c") else SHORT

    def function(self, name: str) -> Any:
        """A function; that with long counts, where the library has it."""
        return getattr(self._lib, f"{name}_c" if self.most == LONG else name)

    def address(self, name: str) -> int:
        """Where it is."""
        return ctypes.cast(self.function(name), ctypes.c_void_p).value or 0

    def group(self, color: int, key: int) -> int:
        """A communicator of the processes that give the same colour, in order of their keys."""
        self._check_process()
        found = ctypes.c_void_p()
        world = ctypes.c_void_p(self.world)
        self._check("MPI_Comm_split", world, color, key, ctypes.byref(found))
        return found.value or 0

    def gather(self, x: Array, group: int, count: int) -> Array:
        """The bytes of all processes of a group, a row for each."""
        self._check_process()
        if x.nbytes > self.most:
            raise error_of((UNCOUNTED, 0, 0), Module(()))
        out = np.empty((count, x.nbytes), np.uint8)
        flat = np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8)
        byte, n = ctypes.c_void_p(self.byte), ctypes.c_int64(x.nbytes)
        at = [ctypes.c_void_p(a.ctypes.data) for a in (flat, out)]
        with notes.noted(notes.TOGETHER):
            self._checked(
                *(self.function("MPI_Allgather"), at[0], n, byte, at[1], n, byte),
                ctypes.c_void_p(group),
            )
        return out

    def abort(self, code: int = 1) -> None:
        """Ends all processes."""
        if os.getpid() == self.owner:
            notes.fail()
            self._lib.MPI_Abort(ctypes.c_void_p(self.world), code)

    def finish(self) -> None:
        """Ends MPI, as the last thing that this process does, if it was started here.

        A rank that has left by ``sys.exit`` with a status of failure ends all others.
        """
        if self.failed and self.size > 1:
            self.abort()
        if self._starts and os.getpid() == self.owner:
            self._lib.MPI_Finalize()

    def _check_process(self) -> None:
        if os.getpid() != self.owner:
            raise UserError(
                "this process was forked after MPI had started, and can't reach the other ranks",
                remedy="start processes before the first mesh is made, or by spawn",
            )


class ByMpi4py(Library):
    """The library that mpi4py was made for, whose handles it tells."""

    def __init__(self) -> None:
        tool: Any = import_module("mpi4py.MPI")  # an extra, which starts it
        maps = Path("/proc/self/maps").read_text("utf8").splitlines()
        self.path = next(p for line in maps if "libmpi.so" in (p := line.split()[-1]))
        self._lib = ctypes.CDLL(self.path, ctypes.RTLD_GLOBAL)
        self.world, self.byte = (tool._handleof(x) for x in (tool.COMM_WORLD, tool.BYTE))
        self.types = {n: tool._handleof(getattr(tool, of)) for n, of in NAMED.items()}
        self.add = tool._handleof(tool.SUM)
        self.ignored = 0 if "Open MPI" in tool.Get_library_version() else 1
        self.rank, self.size = tool.COMM_WORLD.rank, tool.COMM_WORLD.size
        self.owner, self._starts = os.getpid(), False


def found_path() -> str:
    """The library to open: DLVM_MPI, or that of a wheel in this environment, or the system's."""
    if told := environment.value("DLVM_MPI"):
        return told
    both = [name for name in WHEELS if _installed(name)]
    if len(both) > 1:
        raise UserError(
            f"{' and '.join(both)} are installed, whose libraries overwrite one another",
            remedy=f"pip uninstall {both[1]}, then pip install --force-reinstall {both[0]}",
        )
    own = Path(sys.prefix) / "lib" / NAME
    return str(own) if own.exists() else NAME


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


@cache
def library() -> Library:
    """The library of this process, started at the first call."""
    import atexit

    path = found_path()
    by_mpi4py = path == NAME and not environment.value("DLVM_MPI") and _installed("mpi4py")
    made = ByMpi4py() if by_mpi4py else Library(path)
    atexit.register(made.finish)
    notes.open_notes(made.rank)
    previous, leave = sys.excepthook, sys.exit

    def left(status: Any = None, /) -> NoReturn:
        """Leaves this rank, whose status ``finish`` looks at: the others may wait for it."""
        made.failed = status not in (None, 0)
        leave(status)

    def ended(kind: Any, error: Any, trace: Any) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            previous(kind, error, trace)
        sys.stderr.write(said.getvalue())  # at once, as another rank may end this one
        sys.stderr.flush()
        if made.size > 1:
            time.sleep(PAUSE)
            made.abort()

    sys.excepthook, sys.exit = ended, left
    return made


class Processes:
    """The ranks of a mesh as processes, of which this is one."""

    def __init__(self, mesh: Mesh, mpi: Library) -> None:
        self.mesh, self.mpi, self.rank = mesh, mpi, mpi.rank
        self._groups: dict[tuple[str, ...], int] = {}

    def group(self, axes: tuple[str, ...]) -> int:
        """The communicator of ranks that differ along axes, made by all ranks at once."""
        if axes not in self._groups:
            color = min(self.mesh.group(self.rank, axes))
            self._groups[axes] = self.mpi.group(color, self.mesh.index(self.rank, axes))
        return self._groups[axes]

    @lazy
    def _near(self) -> tuple[int, int]:
        """The communicator of ranks that find one another's code on disk, and the place there."""
        kept = store()
        place = "" if kept is None else f"{platform.node()} {kept.folder}"
        digest = hashlib.sha256(place.encode()).digest() if place else bytes(32)
        found = [bytes(row) for row in self.gathered(np.frombuffer(digest, np.uint8))]
        same = [r for r, d in enumerate(found) if d == digest] if place else [self.rank]
        return self.mpi.group(same[0], self.rank), same.index(self.rank)

    @lazy
    def cores(self) -> int:
        """The cores that are this rank's own, of those on which ranks of its machine may run."""
        name = np.frombuffer(hashlib.sha256(platform.node().encode()).digest(), np.uint8)
        mine = np.zeros(CORES, np.uint8)
        mine[[c for c in allowed() if c < CORES]] = 1
        hosts, may = self.gathered(name), self.gathered(mine)
        found: dict[bytes, list[Array]] = {}
        for host, row in zip(hosts, may, strict=True):
            found.setdefault(host.tobytes(), []).append(row)
        each = (int(np.any(rows, axis=0).sum()) // len(rows) for rows in found.values())
        return max(1, min(each))  # all ranks run one program

    @contextmanager
    def in_turn(self) -> Generator[None]:
        """The first rank of a machine compiles; the others come once it has, and find the code."""
        group, place = self._near

        def meet() -> None:
            self.mpi.gather(np.zeros(1, np.uint8), group, self.mesh.size)

        if place:
            meet()
        try:
            yield
        finally:
            if not place:
                meet()

    def exchange(self, op: ranks.Exchanged, rank: int, xs: ranks.Pieces) -> ranks.Pieces:
        """What this rank gets, by the meaning of the exchange: all give all that they have."""
        count = self.mesh.count(op.axes)
        rows = [self.mpi.gather(np.asarray(x), self.group(op.axes), count) for x in xs]
        pieces = [
            tuple(
                np.frombuffer(row[r].tobytes(), x.dtype).reshape(x.shape)
                for row, x in zip(rows, xs, strict=True)
            )
            for r in range(count)
        ]
        return op.reference_of_ranks(pieces)[self.mesh.index(rank, op.axes)]

    def gathered(self, piece: Array) -> list[Array]:
        """The pieces of all ranks, in their order."""
        rows = self.mpi.gather(piece, self.mpi.world, self.mesh.size)
        return [np.frombuffer(r.tobytes(), piece.dtype).reshape(piece.shape) for r in rows]

    def run(self, work: Callable[[int], T]) -> list[T]:
        """``work`` of this rank; an error that the others may not have ends them all."""
        try:
            with ranks.here(self, self.rank), notes.noted(notes.TOGETHER):
                return [work(self.rank)]
        except AssertionFailed:  # of whole values, so all ranks have it
            raise
        except UserError as error:
            if self.mpi.size > 1:
                sys.stderr.write(f"rank {self.rank}: {error}\n")
                sys.stderr.flush()
                time.sleep(PAUSE)
                self.mpi.abort()
            raise

    def agree(self, text: str, what: str) -> None:
        """An error on all ranks where they have different texts, with the first line that differs.

        Ranks that run different Python would wait for one another.
        """
        digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)
        found = [bytes(row) for row in self.gathered(digest)]
        if len({*found}) == 1:
            return
        other = next(r for r, d in enumerate(found) if d != found[0])
        size = max(int(n[0]) for n in self.gathered(np.array([len(text.encode())])))
        padded = np.zeros(size, np.uint8)
        padded[: len(text.encode())] = np.frombuffer(text.encode(), np.uint8)
        first, second = (
            bytes(self.gathered(padded)[r]).rstrip(b"\0").decode().splitlines() for r in (0, other)
        )
        lines = itertools.zip_longest(first, second, fillvalue="nothing")
        mine, theirs = next((a, b) for a, b in lines if a != b)
        raise UserError(
            f"the ranks 0 and {other} run different programs: {what} has {mine.strip()!r} on the"
            f" one and {theirs.strip()!r} on the other",
            remedy="start all ranks with the same script, arguments and data of the same shapes",
        )

    def table(self, exchanges: Sequence[Any]) -> Array:
        """The table of this rank for a program with these exchanges."""
        groups = [self.group(op.axes) for op in exchanges]
        words = table_of(self.mesh, self.rank, exchanges, groups, self.mpi.types, self.mpi.add)
        names = ("MPI_Alltoall", "MPI_Allgather", "MPI_Sendrecv", "MPI_Allreduce")
        words[[SWAP, GATHER, SEND, SUM]] = [self.mpi.address(name) for name in names]
        words[[BYTE, IGNORED, MOST]] = self.mpi.byte, self.mpi.ignored, self.mpi.most
        return words
