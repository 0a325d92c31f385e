"""The program level: what runs between kernels, as steps on storage, with real loops.

A ``Program`` is a function after its values got memory: each step reads and writes views of
storages; branches and loops hold steps. It knows types and sizes, but neither addresses nor
targets. ``control`` makes it, ``coalesce`` takes copies out of it, ``memory`` gives it an arena,
``program_run`` is its meaning, ``driver`` its machine code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dlvm.base.errors import Origin
from dlvm.gen.loops.statements import Buffer, LoopKernel
from dlvm.ir import Array, Dim, DType, Op, TensorType
from dlvm.ir.dims import product


@dataclass(frozen=True, slots=True)
class Given:
    """Memory that somebody else owns: the caller's arrays, or a constant."""

    kind: Literal["param", "result", "constant"]
    index: int


@dataclass(frozen=True, slots=True)
class PartOf:
    """A part of another storage; the offset, in elements, may name loop variables."""

    parent: Storage
    offset: Dim


@dataclass(frozen=True, eq=False, slots=True)
class Storage:
    """Memory for ``size`` elements, dense; without a place it is in the arena.

    ``loops`` are the variables of the loops around the storage.
    """

    name: str
    dtype: DType
    size: Dim
    place: Given | PartOf | None = None
    loops: tuple[str, ...] = ()

    @property
    def bytes(self) -> Dim:
        """How much memory it needs."""
        return self.size * self.dtype.bytes


@dataclass(frozen=True, slots=True)
class View:
    """A dense row-major tensor at an offset, in elements, into a storage."""

    storage: Storage
    type: TensorType
    offset: Dim = 0

    @property
    def whole(self) -> bool:
        """Whether it covers its storage."""
        return self.offset == 0 and self.type.size == self.storage.size

    def same_memory(self, other: View) -> bool:
        """Whether both start at the same element; views of equal size are then the same."""
        return self.storage is other.storage and self.offset == other.offset

    def slice(self, index: Dim) -> View:
        """The part at an index of the first axis."""
        inner = self.type.with_shape(self.type.shape[1:])
        return View(self.storage, inner, self.offset + index * product(inner.shape))


@dataclass(frozen=True, eq=False, slots=True)
class Launch:
    """Run a kernel on one view for each of its buffers.

    ``places`` are those of the operations that it computes here; an equal kernel of other places
    shares its code.
    """

    kernel: LoopKernel
    views: tuple[View, ...]
    places: tuple[Origin, ...] = field(default=(), repr=False)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The lines of the source whose operations it computes, each once and in order."""
        lines = {(o.file, o.line): o for o in reversed(self.places)}
        return tuple(sorted(lines.values(), key=lambda o: (o.file, o.line)))

    @property
    def shared(self) -> frozenset[str]:
        """The buffers that lie in one memory with another, where either is written."""
        pairs = list(zip(self.kernel.buffers, self.views, strict=True))

        def meets(b: Buffer, v: View) -> bool:
            others = (c for c, w in pairs if c is not b and w.storage is v.storage)
            return any(b.role != "in" or c.role != "in" for c in others)

        return frozenset(b.name for b, v in pairs if meets(b, v))

    def roles(self, *roles: str) -> list[View]:
        """The views that the kernel uses in one of these roles."""
        pairs = zip(self.kernel.buffers, self.views, strict=True)
        return [view for buffer, view in pairs if buffer.role in roles]


@dataclass(frozen=True, eq=False, slots=True)
class Copy:
    """Write the elements of one view into another; the two are the same or apart."""

    source: View
    target: View


@dataclass(frozen=True, eq=False, slots=True)
class If:
    """Run one of two branches."""

    condition: View
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True, eq=False, slots=True)
class While:
    """Run ``before``; leave unless the condition holds; run ``body``; start again."""

    before: tuple[Step, ...]
    condition: View
    body: tuple[Step, ...]


@dataclass(frozen=True, eq=False, slots=True)
class For:
    """Run ``body`` with ``variable`` = 0 ... length-1, or from the last to the first.

    The trips together fill the storages ``fills``, each trip writing its own ``parts``. Trips
    that are ``apart`` may run in any order, at once.
    """

    variable: str
    length: Dim
    reverse: bool
    body: tuple[Step, ...]
    fills: tuple[Storage, ...] = ()
    parts: tuple[Storage, ...] = ()
    apart: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Push:
    """``result`` becomes the tape with the values on top of it."""

    tape: View
    xs: tuple[View, ...]
    result: View


@dataclass(frozen=True, eq=False, slots=True)
class Pop:
    """``xs`` become what lies on top of the tape, and ``result`` the tape below."""

    tape: View
    xs: tuple[View, ...]
    result: View


@dataclass(frozen=True, eq=False, slots=True)
class EndUnless:
    """End the call with this code unless the condition holds."""

    condition: View
    code: int


@dataclass(frozen=True, eq=False, slots=True)
class Show:
    """Print or tap a view under the label that ``prints`` has at that index."""

    x: View
    index: int


@dataclass(frozen=True, eq=False, slots=True)
class CallPython:
    """Call the reference of an operation that no kernel computes; ``calls`` has it at that index.

    ``sizes`` are the symbols of the function at this place.
    """

    xs: tuple[View, ...]
    results: tuple[View, ...]
    sizes: tuple[Dim, ...]
    index: int


@dataclass(frozen=True, eq=False, slots=True)
class CallFunction:
    """Run another function of the program on memory of its own.

    ``sizes`` are what its symbols are here. A donated argument is also the result that
    overwrites it.
    """

    callee: str
    arguments: tuple[View, ...]
    results: tuple[View, ...]
    sizes: tuple[Dim, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Tick:
    """Add the time since the last tick to a slot; only builds that measure have ticks."""

    slot: int


Told: TypeAlias = tuple[str, TensorType, str]
"""The label and type of a value that is given out, and whether to ``print`` or to ``tap``."""
Called: TypeAlias = tuple[Op, tuple[str, ...]]
"""An operation whose reference is called, and the names of the sizes that a call of it passes."""
Calls: TypeAlias = CallPython | CallFunction
"""A step that runs code outside of its function."""
Step: TypeAlias = Launch | Copy | If | While | For | Push | Pop | EndUnless | Show | Calls | Tick


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """Steps on storages. A donated parameter's storage may also be that of a result.

    ``callees`` are the functions that are entered from here or from one another; they share
    constants, prints, calls of references and kernels with it. What is donated to an ``inner`` one
    is its caller's own, and may be spoilt when the call ends with an error. A ``trip`` is the body
    of a loop, and enters nothing but trips.
    """

    name: str
    symbols: tuple[str, ...]
    params: tuple[View, ...]
    results: tuple[View, ...]
    constants: tuple[Array, ...]
    prints: tuple[Told, ...]
    steps: tuple[Step, ...]
    donated: frozenset[Storage] = frozenset()
    callees: tuple[Program, ...] = ()
    inner: bool = False
    trip: bool = False
    calls: tuple[Called, ...] = ()

    def walk(self) -> Iterator[Step]:
        """Every step, those inside right after the one that holds them, those of callees last."""
        yield from walk(self.steps)
        for callee in self.callees:
            yield from walk(callee.steps)

    @property
    def forks(self) -> bool:
        """Whether threads may share trips of a loop."""
        return any(isinstance(step, For) and step.apart for step in self.walk())

    @property
    def enters(self) -> bool:
        """Whether functions are entered besides trips, which enter no function again."""
        return not all(callee.trip for callee in self.callees)

    def callee(self, name: str) -> Program:
        """The function of that name."""
        return next(c for c in self.callees if c.name == name)

    def kernels(self) -> list[LoopKernel]:
        """The kernels in order of their first launch, each once."""
        return list(dict.fromkeys(s.kernel for s in self.launches()))

    def launches(self) -> list[Launch]:
        """The places that run a kernel, in order."""
        return [step for step in self.walk() if isinstance(step, Launch)]


def blocks(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The groups of steps that a step holds."""
    match step:
        case If():
            return step.then, step.otherwise
        case While():
            return step.before, step.body
        case For():
            return (step.body,)
        case _:
            return ()


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, those inside right after the one that holds them."""
    for step in steps:
        yield step
        for block in blocks(step):
            yield from walk(block)


def may_raise(step: Step) -> bool:
    """Whether a step by itself can end the call with an error of the user's."""
    return isinstance(step, EndUnless | Calls) or (
        isinstance(step, Launch) and step.kernel.may_raise
    )


def reads(step: Step) -> list[View]:
    """What a step by itself reads."""
    match step:
        case Launch():
            return step.roles("in", "inout")
        case Copy(source=source):
            return [source]
        case If(condition=condition) | While(condition=condition) | EndUnless(condition=condition):
            return [condition]
        case Push(tape=tape, xs=xs):
            return [tape, *xs]
        case Pop(tape=tape):
            return [tape]
        case Show(x=x):
            return [x]
        case CallPython(xs=xs):
            return [*xs]
        case CallFunction(arguments=arguments):
            return [*arguments]
        case For() | Tick():
            return []


def writes(step: Step) -> list[View]:
    """What a step by itself writes."""
    match step:
        case Launch():
            return step.roles("out", "inout", "scratch")
        case Copy(target=target):
            return [target]
        case Push(result=result):
            return [result]
        case Pop(xs=xs, result=result):
            return [*xs, result]
        case CallPython(results=results) | CallFunction(results=results):
            return [*results]
        case _:
            return []
