"""What a call needs to know of a program, and nothing more: plain data.

Names, types and donation of parameters, types of results, symbols, how much memory a call takes,
constants and labels of prints. It is written as JSON and bytes and read back without any pass
having run, so a program that comes from a cache is called like one that was just made. Lines of
errors are not in it: a call names an operation by its ordinal in the traced module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.gen.program.memory import Arena
from dlvm.gen.program.steps import Called, Program, Told
from dlvm.ir import Array, Builder, Dim, Function, Module, Op, Param, TensorType, dtype_of, parse
from dlvm.ir.sharding.mesh import Sharding
from dlvm.ir.text.line import Line, parse_dim, parse_type

UNKNOWN = 1 << 40
"""The work of a call in which ranks wait for one another: other threads run meanwhile."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of a call; a donated one may be overwritten."""

    name: str
    type: TensorType
    donated: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a call: a fresh array, or the donated argument that it overwrites."""

    type: TensorType
    overwrites: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """The type of a whole argument or result, and how it lies on a mesh."""

    type: TensorType
    sharding: Sharding | None
    name: str = ""
    donated: bool = False

    def plain(self) -> list[Any]:
        """This as JSON takes it."""
        return [str(self.type), self.sharding, self.name, self.donated]

    @staticmethod
    def from_plain(written: Sequence[Any]) -> Placed:
        """What ``plain`` wrote."""
        text, sharding, name, donated = written
        lies: Sharding | None = None if sharding is None else tuple(tuple(a) for a in sharding)
        return Placed(_type(text), lies, name, donated)


@dataclass(frozen=True, slots=True)
class Placement:
    """What a program of ranks takes and gives, as whole arrays; ``main`` is called with pieces.

    ``sizes`` are the symbols that the last parameter of ``main`` tells, if it has one more.
    """

    name: str
    params: tuple[Placed, ...]
    results: tuple[Placed, ...]
    sizes: tuple[str, ...]

    def plain(self) -> list[Any]:
        """This as JSON takes it."""
        each = ([x.plain() for x in xs] for xs in (self.params, self.results))
        return [self.name, *each, self.sizes]

    @staticmethod
    def from_plain(written: Sequence[Any]) -> Placement:
        """What ``plain`` wrote."""
        name, params, results, sizes = written
        given, found = (tuple(map(Placed.from_plain, xs)) for xs in (params, results))
        return Placement(name, given, found, tuple(sizes))


@dataclass(frozen=True, slots=True)
class Interface:
    """How ``main`` of a compiled program is called.

    ``symbols`` stand in the order of main's table of sizes, ``arena`` is how many bytes of memory
    a call borrows, ``work`` how many bytes it moves and operations it does, about, ``forks`` says
    whether it can use several threads, and ``enters`` whether functions call themselves in it,
    besides whose activations its kernels take so many bytes of the ``stack``.
    """

    name: str
    params: tuple[Parameter, ...]
    results: tuple[Result, ...]
    symbols: tuple[str, ...]
    arena: Dim
    work: Dim
    forks: bool
    enters: bool = False
    stack: int = 0
    constants: tuple[Array, ...] = ()
    prints: tuple[Told, ...] = ()
    calls: tuple[Called, ...] = ()
    exchanges: tuple[Op, ...] = ()
    """What ranks of a mesh exchange, in the order of their words in the table of a rank."""
    placement: Placement | None = None
    """How whole arrays lie on the mesh of such a program."""

    @staticmethod
    def of(program: Program, arena: Arena, time: Dim) -> Interface:
        """The interface of a program whose memory is planned, and which takes so long."""
        owners = {view.storage: i for i, view in enumerate(program.params)}
        return Interface(
            program.name,
            tuple(
                Parameter(v.storage.name, v.type, v.storage in program.donated)
                for v in program.params
            ),
            tuple(Result(v.type, owners.get(v.storage)) for v in program.results),
            program.symbols,
            arena.bytes,
            UNKNOWN if program.exchanges else time,
            any(kernel.forks for kernel in program.kernels()) or program.forks,
            program.enters,
            constants=tuple(map(_kept, program.constants)),
            prints=program.prints,
            calls=program.calls,
            exchanges=program.exchanges,
        )

    def plain(self) -> tuple[dict[str, Any], list[memoryview]]:
        """This as JSON takes it, and the elements of the constants.

        ``calls`` are left out: no program that has any is written.
        """
        return {
            "name": self.name,
            "params": [[p.name, str(p.type), p.donated] for p in self.params],
            "results": [[str(r.type), r.overwrites] for r in self.results],
            "symbols": list(self.symbols),
            "arena": str(self.arena),
            "work": str(self.work),
            "forks": self.forks,
            "enters": self.enters,
            "stack": self.stack,
            "constants": [str(type_of(a)) for a in self.constants],
            "prints": [[label, str(t), how] for label, t, how in self.prints],
            "exchanges": _shown(self.exchanges),
            "placement": None if self.placement is None else self.placement.plain(),
        }, [bytes_of(a) for a in self.constants]

    @staticmethod
    def from_plain(written: Mapping[str, Any], elements: Sequence[bytes | memoryview]) -> Interface:
        """What ``plain`` wrote."""
        return Interface(
            written["name"],
            tuple(Parameter(name, _type(t), donated) for name, t, donated in written["params"]),
            tuple(Result(_type(t), overwrites) for t, overwrites in written["results"]),
            tuple(written["symbols"]),
            parse_dim(Line(written["arena"], 1)),
            parse_dim(Line(written["work"], 1)),
            written["forks"],
            written["enters"],
            written["stack"],
            tuple(map(_array, written["constants"], elements)),
            tuple((label, _type(t), how) for label, t, how in written["prints"]),
            exchanges=parse(written["exchanges"]).main.ops if written["exchanges"] else (),
            placement=(at := written["placement"]) and Placement.from_plain(at),
        )


def _shown(exchanges: Sequence[Op]) -> str:
    """Operations of ranks as a function of what they take."""
    params: list[Param] = []
    ops: list[Op] = []
    for op in exchanges:
        own = [Param(x.type, f"x{len(params) + i}") for i, x in enumerate(op.operands)]
        params += own
        with Builder():  # no function that is being written gets it
            ops.append(op.rebuild(own))
    results = tuple(r for op in ops for r in op.results)
    return str(Module((Function("exchanges", tuple(params), tuple(ops), results),))) if ops else ""


def _kept(array: Array) -> Array:
    """A constant as code reads it, which nobody changes: the array itself where that holds."""
    fixed = array.flags.c_contiguous and array.flags.aligned and not array.flags.writeable
    return array if fixed else np.array(array, order="C")


def bytes_of(array: Array) -> memoryview:
    """The bytes of a constant."""
    return array.reshape(-1).view(np.uint8).data


def type_of(array: Array) -> TensorType:
    """The type of a constant."""
    dtype = dtype_of(array)
    assert dtype is not None, array.dtype
    return TensorType(dtype, array.shape)


def _type(text: str) -> TensorType:
    return parse_type(Line(text, 1))


def _array(text: str, elements: bytes | memoryview) -> Array:
    t = _type(text)
    return _kept(np.frombuffer(elements, t.dtype.numpy).reshape(t.shape))  # type: ignore[arg-type]
