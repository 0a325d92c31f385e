"""Copies of large arrays between host and device through a few pieces of pinned memory.

A copy from pinned memory needs no other of the driver's, and runs while the host goes on: so an
argument is copied while earlier launches still run, and the next piece is filled while the last one
is on its way. Pinned memory is scarce, so arrays themselves are not pinned.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dlvm.base.errors import UserError
from dlvm.ir import Array

DIRECT = 1 << 16
"""Bytes of arrays that the driver copies by itself at once, without waiting for launches."""
PIECE, PIECES = 1 << 21, 4
"""Bytes of a piece, and how many there are."""
NO_TIMING = 2
"""CU_EVENT_DISABLE_TIMING."""
log = logging.getLogger("dlvm.gpu")


@dataclass(frozen=True, slots=True)
class Piece:
    """Pinned memory, and the event that its last copy has ended."""

    address: int
    copied: ctypes.c_void_p


class Staging:
    """The pinned memory of a device; ``call`` calls a function of its driver by name.

    One thread at a time uses it. ``write`` and ``read`` return whether they have copied: they
    leave it to the driver for small arrays, while another thread copies, and where the driver
    pins no memory.
    """

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = call
        self._pieces: deque[Piece] | None = None
        self._off, self._lock = False, threading.Lock()

    def write(self, target: int, array: Array, stream: ctypes.c_void_p) -> bool:
        """A copy to the device; the array may change afterwards."""
        if array.nbytes <= DIRECT:
            return False
        with self._ring() as pieces:
            for start, count in parts(array.nbytes) if pieces else ():
                piece = pieces[0]
                self._call("cuEventSynchronize", piece.copied)
                ctypes.memmove(piece.address, array.ctypes.data + start, count)
                places = ctypes.c_uint64(target + start), ctypes.c_void_p(piece.address)
                self._copy("cuMemcpyHtoDAsync_v2", *places, count, stream, piece)
                pieces.rotate(-1)
            return bool(pieces)

    def read(self, array: Array, source: int, stream: ctypes.c_void_p) -> bool:
        """A copy from the device, which has ended on return."""
        if array.nbytes <= DIRECT:
            return False
        with self._ring() as pieces:
            asked: deque[tuple[Piece, int, int]] = deque()
            for start, count in parts(array.nbytes) if pieces else ():
                if len(asked) == len(pieces):
                    self._taken(array, *asked.popleft())
                piece = pieces[0]
                places = ctypes.c_void_p(piece.address), ctypes.c_uint64(source + start)
                self._copy("cuMemcpyDtoHAsync_v2", *places, count, stream, piece)
                asked.append((piece, start, count))
                pieces.rotate(-1)
            for told in asked:
                self._taken(array, *told)
            return bool(pieces)

    def _copy(
        self, name: str, target: Any, source: Any, count: int, stream: ctypes.c_void_p, piece: Piece
    ) -> None:
        self._call(name, target, source, ctypes.c_size_t(count), stream)
        self._call("cuEventRecord", piece.copied, stream)

    def _taken(self, array: Array, piece: Piece, start: int, count: int) -> None:
        """Moves what has arrived in a piece to its place in an array."""
        self._call("cuEventSynchronize", piece.copied)
        ctypes.memmove(array.ctypes.data + start, piece.address, count)

    @contextmanager
    def _ring(self) -> Generator[deque[Piece]]:
        """The pieces, for this thread alone; none where they are not to be had.

        After an error, which may come between a copy and its event, they are never used again.
        """
        if self._off or not self._lock.acquire(blocking=False):
            yield deque()
            return
        try:
            pieces, self._pieces = self._pieces or self._pinned(), None
            yield pieces
            self._pieces = pieces
        finally:
            self._lock.release()

    def _pinned(self) -> deque[Piece]:
        """New pieces, or none if the driver refuses."""
        found = ctypes.c_void_p()
        try:
            size = ctypes.c_size_t(PIECE * PIECES)
            self._call("cuMemHostAlloc", ctypes.byref(found), size, 0)
            return deque(
                Piece((found.value or 0) + i * PIECE, self._event()) for i in range(PIECES)
            )
        except (UserError, AttributeError) as error:
            log.warning("arrays are not copied through pinned memory: %s", error)
            self._off = True
            return deque()

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), NO_TIMING)
        return event


def parts(count: int) -> Iterator[tuple[int, int]]:
    """The starts and sizes of the pieces of so many bytes."""
    for start in range(0, count, PIECE):
        yield start, min(PIECE, count - start)
