"""The table by which machine code of a rank reaches the others: functions and groups.

Functions have the signatures of MPI's. Those of a simulated mesh call Python, where the ranks meet,
which are threads of this process; an exception there ends the call, and is kept for the caller.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from dlvm.base.errors import IRError
from dlvm.gen.runtime.call_words import (
    BYTE,
    EACH,
    EXCHANGES,
    FROM,
    GATHER,
    GROUP,
    IGNORED,
    MOST,
    SEND,
    SUM,
    SWAP,
    TO,
    TYPE,
    WORD,
)
from dlvm.ir import Array
from dlvm.ir.sharding import ranks
from dlvm.ir.sharding.mesh import Mesh

LONG, SHORT = (1 << 63) - 1, (1 << 31) - 1
"""The most bytes that functions with long and with short counts exchange at once."""
ROW = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
ROWS = ctypes.CFUNCTYPE(ctypes.c_int, *ROW, *ROW, ctypes.c_int64)
SUMS = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 2, *(ctypes.c_int64,) * 4)
SENT = ctypes.CFUNCTYPE(ctypes.c_int, *ROW, *(ctypes.c_int64,) * 2, *ROW, *(ctypes.c_int64,) * 4)


def table_of(
    mesh: Mesh,
    rank: int,
    exchanges: Sequence[Any],
    groups: Sequence[int],
    types: Mapping[str, int] = MappingProxyType({}),
    add: int = 0,
) -> Array:
    """The words of a rank; ``groups`` are its communicators, one for each of the exchanges.

    ``types`` are handles of the types of elements, else their bytes, and ``add`` that of a sum.
    """
    words = np.zeros(EXCHANGES + EACH * max(1, len(exchanges)), np.int64)
    for i, (op, group) in enumerate(zip(exchanges, groups, strict=True)):
        own = words[EXCHANGES + EACH * i :]
        index = mesh.index(rank, op.axes)
        own[GROUP] = index if op.exchanged == "index" else group
        if op.exchanged == "send":
            own[FROM], own[TO] = op.sources[index], op.sources.index(index)
        elif op.exchanged == "sum":
            dtype = op.result_types[0].dtype.name
            own[TYPE], own[WORD] = types.get(dtype, op.result_types[0].dtype.bytes), add
    return words


class _Raised(threading.local):
    """What an exchange of this thread raised, which its machine code then leaves for."""

    error: BaseException | None = None


class Simulated:
    """The tables of all ranks of a simulated mesh, for one program."""

    def __init__(self, mesh: Mesh, exchanges: Sequence[Any]) -> None:
        self.exchanges = exchanges
        self.raised = _Raised()
        self._rows = ROWS(self._swap), ROWS(self._gather), SENT(self._send), SUMS(self._sum)
        self.tables = [
            table_of(mesh, rank, exchanges, range(len(exchanges))) for rank in range(mesh.size)
        ]
        addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._rows]
        for words in self.tables:
            words[[SWAP, GATHER, SEND, SUM]] = addresses
            words[[BYTE, IGNORED, MOST]] = 0, 0, LONG

    def _swap(self, x: int, n: int, _: int, y: int, m: int, __: int, group: int) -> int:
        op = self.exchanges[group]
        return self._met(op, (op.count, n), x, (op.count, m), y)

    def _gather(self, x: int, n: int, _: int, y: int, m: int, __: int, group: int) -> int:
        op = self.exchanges[group]
        return self._met(op, (n,), x, (op.count, m), y)

    def _send(self, x: int, n: int, _: int, to: int, __: int, y: int, *rest: int) -> int:
        op = self.exchanges[rest[-2]]
        return self._met(op, (n,), x, (n,), y)

    def _sum(self, x: int, y: int, n: int, bytes_: int, _: int, group: int) -> int:
        op = self.exchanges[group]
        return self._met(op, (n * bytes_,), x, (n * bytes_,), y, op.result_types[0].dtype.numpy)

    def _met(
        self, op: Any, given: tuple[int, ...], x: int, got: tuple[int, ...], y: int, as_: Any = "u1"
    ) -> int:
        """Bytes exchanged as the operation says, of elements of a type; 1 where that raises."""
        try:
            (found,) = ranks.exchange(op, (_bytes(x, given).copy().view(as_),))
            if found.size:
                _bytes(y, got)[...] = found.view(np.uint8)
        except BaseException as error:
            self.raised.error = error
            return 1
        return 0


def alone(exchanges: Sequence[Any]) -> Simulated | None:
    """The ranks of a mesh of one, in a program that exchanges something."""
    if not exchanges:
        return None
    if (mesh := exchanges[0].among).size > 1:
        raise IRError("a program for the ranks of a mesh runs on a mesh")
    return Simulated(mesh, exchanges)


def _bytes(address: int | None, shape: tuple[int, ...]) -> Array:
    if not address or 0 in shape:
        return np.empty(shape, np.uint8)
    count = int(np.prod(shape))
    memory: Any = (ctypes.c_uint8 * count).from_address(address)
    return np.frombuffer(memory, np.uint8).reshape(shape)
