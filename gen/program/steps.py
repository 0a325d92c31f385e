"""The program level: what runs between kernels, as steps on storage, with real loops.

A ``Program`` is a function after its values got memory: each step reads and writes views of
storages; branches and loops hold steps. It knows types and sizes, but neither addresses nor
targets. ``control`` makes it, ``coalesce`` takes copies out of it, ``memory`` gives it an arena,
``program_run`` is its meaning, ``driver`` its machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

from dlvm.base.errors import Origin
from dlvm.gen.loops.statements import Buffer, LoopKernel
from dlvm.ir import Array, Dim, DType, Op, TensorType
from dlvm.ir.sizes.dims import product, substitute, symbol


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

    def __str__(self) -> str:
        """``%t3: f32[2,4] + offset``; alone where it covers its storage in the shape it has."""
        where = f" + {self.offset}" if self.offset != 0 else ""
        if isinstance(self.storage.place, Given) and self.whole:
            return f"%{self.storage.name}"
        return f"%{self.storage.name}{where}: {self.type}"


class Stated:
    """What a step states of itself: the analyses of a program read this, and match no classes.

    ``READS`` and ``WRITES`` name the fields that hold views. ``ORDER`` names those that hold
    bodies in the order in which they run; None stands for the step itself, which reads and writes.
    One of the bodies runs if the step ``CHOOSES``, else all. ``RAISES`` says whether it can end the
    call with an error of the user's. ``TEXT`` are the lines before, between and after the bodies.
    """

    __slots__ = ()
    READS: ClassVar[tuple[str, ...]] = ()
    WRITES: ClassVar[tuple[str, ...]] = ()
    ORDER: ClassVar[tuple[str | None, ...]] = (None,)
    CHOOSES: ClassVar[bool] = False
    RAISES: ClassVar[bool] = False
    TEXT: ClassVar[tuple[str, ...]] = ()

    @property
    def reads(self) -> list[View]:
        """The views that the step by itself reads."""
        return self._views(self.READS)

    @property
    def writes(self) -> list[View]:
        """The views that the step by itself writes."""
        return self._views(self.WRITES)

    @property
    def may_raise(self) -> bool:
        """Whether the step by itself can end the call with an error of the user's."""
        return self.RAISES

    @property
    def order(self) -> tuple[tuple[Step, ...] | None, ...]:
        """The bodies as they run; None is the step itself."""
        return tuple(None if name is None else getattr(self, name) for name in self.ORDER)

    @property
    def bodies(self) -> tuple[tuple[Step, ...], ...]:
        """The groups of steps that the step holds."""
        return tuple(body for body in self.order if body is not None)

    @property
    def repeats(self) -> bool:
        """Whether the bodies may run more than once."""
        return len(self.ORDER) > 1 and not self.CHOOSES

    @property
    def trips(self) -> Dim | None:
        """How often the bodies run; None where only a run can tell."""
        return 1

    @property
    def filled(self) -> tuple[tuple[Storage, ...], tuple[Storage, ...]]:
        """The storages that all trips together overwrite, and what each trip writes of them."""
        return (), ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The lines before, between and after the bodies."""
        names = (*self.READS, *self.WRITES)
        views = {name: ", ".join(map(str, self._views((name,)))) for name in names}
        return tuple(text.format(self, **views) for text in self.TEXT)

    def changed(
        self,
        body: Callable[[tuple[Step, ...]], tuple[Step, ...]],
        view: Callable[[View], View] = lambda view: view,
    ) -> Self:
        """The same step with other bodies and views."""
        new: dict[str, Any] = {}
        for name in (*self.READS, *self.WRITES):
            held = getattr(self, name)
            new[name] = view(held) if isinstance(held, View) else tuple(map(view, held))
        new |= {name: body(getattr(self, name)) for name in self.ORDER if name}
        return replace(cast(Any, self), **new)

    def _views(self, names: tuple[str, ...]) -> list[View]:
        found: list[View] = []
        for name in names:
            held = getattr(self, name)
            found += [held] if isinstance(held, View) else held
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Launch(Stated):
    """Run a kernel on one view for each of its buffers.

    ``sizes`` are what its symbols are here where they have another value, ``places`` those of the
    operations that it computes here; an equal kernel of other sizes and places shares its code.
    """

    TEXT = ("launch @{0.kernel.name}({views}){0.stated_sizes}",)
    READS = ("views",)
    kernel: LoopKernel
    views: tuple[View, ...]
    sizes: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    places: tuple[Origin, ...] = field(default=(), repr=False)

    @property
    def stated_sizes(self) -> str:
        """The sizes, as text."""
        return f" sizes ({', '.join(f'{n}={d}' for n, d in self.sizes.items())})" * bool(self.sizes)

    def here(self, d: Dim) -> Dim:
        """A size of the kernel in symbols of the function that launches it."""
        return substitute(d, self.sizes) if self.sizes else d

    @property
    def known(self) -> tuple[Dim, ...]:
        """What the symbols of the kernel are here."""
        return tuple(self.sizes.get(s, symbol(s)) for s in self.kernel.symbols)

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

    @property
    def reads(self) -> list[View]:
        """The views that the kernel reads."""
        return self.roles("in", "inout")

    @property
    def writes(self) -> list[View]:
        """The views that the kernel writes."""
        return self.roles("out", "inout", "scratch")

    @property
    def may_raise(self) -> bool:
        """Whether the kernel can end the call with an error of the user's."""
        return self.kernel.may_raise


@dataclass(frozen=True, eq=False, slots=True)
class Copy(Stated):
    """Write the elements of one view into another; the two are the same or apart."""

    TEXT = ("copy {source} -> {target}",)
    READS, WRITES = ("source",), ("target",)
    source: View
    target: View


@dataclass(frozen=True, eq=False, slots=True)
class If(Stated):
    """Run one of two branches."""

    TEXT = ("if {condition} {{", "}} else {{", "}}")
    READS = ("condition",)
    ORDER = (None, "then", "otherwise")
    CHOOSES = True
    condition: View
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True, eq=False, slots=True)
class While(Stated):
    """Run ``before``; leave unless the condition holds; run ``body``; start again."""

    TEXT = ("loop {{", "  leave unless {condition}", "}}")
    READS = ("condition",)
    ORDER = ("before", None, "body")
    before: tuple[Step, ...]
    condition: View
    body: tuple[Step, ...]

    @property
    def trips(self) -> None:
        """Only a run can tell."""


@dataclass(frozen=True, eq=False, slots=True)
class For(Stated):
    """Run ``body`` with ``variable`` = 0 ... length-1, or from the last to the first.

    The trips together fill the storages ``fills``, each trip writing its own ``parts``. Trips
    that are ``apart`` may run in any order, at once.
    """

    TEXT = ("for {0.variable} < {0.length}{0.how} {{", "}}")
    ORDER = (None, "body")
    variable: str
    length: Dim
    reverse: bool
    body: tuple[Step, ...]
    fills: tuple[Storage, ...] = ()
    parts: tuple[Storage, ...] = ()
    apart: bool = False

    @property
    def trips(self) -> Dim:
        """The length."""
        return self.length

    @property
    def filled(self) -> tuple[tuple[Storage, ...], tuple[Storage, ...]]:
        """The storages that all trips together overwrite, and what each trip writes of them."""
        return self.fills, self.parts

    @property
    def how(self) -> str:
        """The order of trips, as text."""
        return " downwards" * self.reverse + " apart" * self.apart


@dataclass(frozen=True, eq=False, slots=True)
class Push(Stated):
    """``result`` becomes the tape with the values on top of it."""

    TEXT = ("push ({xs}) on {tape} -> {result}",)
    READS, WRITES = ("tape", "xs"), ("result",)
    tape: View
    xs: tuple[View, ...]
    result: View


@dataclass(frozen=True, eq=False, slots=True)
class Pop(Stated):
    """``xs`` become what lies on top of the tape, and ``result`` the tape below."""

    TEXT = ("pop ({xs}) off {tape} -> {result}",)
    READS, WRITES = ("tape",), ("xs", "result")
    tape: View
    xs: tuple[View, ...]
    result: View


@dataclass(frozen=True, eq=False, slots=True)
class EndUnless(Stated):
    """End the call with this code unless the condition holds."""

    TEXT = ("check {condition} code {0.code}",)
    RAISES = True
    READS = ("condition",)
    condition: View
    code: int


@dataclass(frozen=True, eq=False, slots=True)
class Show(Stated):
    """Print or tap a view under the label that ``prints`` has at that index."""

    TEXT = ("show {x} as {0.index}",)
    READS = ("x",)
    x: View
    index: int


@dataclass(frozen=True, eq=False, slots=True)
class CallPython(Stated):
    """Call the reference of an operation that no kernel computes; ``calls`` has it at that index.

    ``sizes`` are the symbols of the function at this place.
    """

    TEXT = ("call reference {0.index} ({xs}) -> ({results})",)
    RAISES = True
    READS, WRITES = ("xs",), ("results",)
    xs: tuple[View, ...]
    results: tuple[View, ...]
    sizes: tuple[Dim, ...]
    index: int


@dataclass(frozen=True, eq=False, slots=True)
class Exchange(Stated):
    """What the ranks of a mesh exchange, which ``exchanges`` of the program has at that index.

    A ``swap`` sends a row to each rank of a group, a ``gather`` all of ``xs`` to each of them, and
    ``send`` to one; a ``sum`` is of all. An ``index`` is that of the rank, and has no operand.
    """

    TEXT = ("{0.kind} {0.index} ({xs}) -> ({results})",)
    RAISES = True
    READS, WRITES = ("xs",), ("results",)
    xs: tuple[View, ...]
    results: tuple[View, ...]
    kind: str
    index: int


@dataclass(frozen=True, eq=False, slots=True)
class CallFunction(Stated):
    """Run another function of the program on memory of its own.

    ``sizes`` are what its symbols are here. A donated argument is also the result that
    overwrites it.
    """

    TEXT = ("enter @{0.callee}({arguments}) -> ({results}){0.stated_sizes}",)
    RAISES = True
    READS, WRITES = ("arguments",), ("results",)
    callee: str
    arguments: tuple[View, ...]
    results: tuple[View, ...]
    sizes: tuple[Dim, ...]

    @property
    def stated_sizes(self) -> str:
        """The sizes, as text."""
        return f" sizes ({', '.join(map(str, self.sizes))})" if self.sizes else ""


@dataclass(frozen=True, eq=False, slots=True)
class Tick(Stated):
    """Add the time since the last tick to a slot; only builds that measure have ticks."""

    TEXT = ("tick {0.slot}",)
    slot: int


Told: TypeAlias = tuple[str, TensorType, str]
"""The label and type of a value that is given out, and whether to ``print`` or to ``tap``."""
Called: TypeAlias = tuple[Op, tuple[str, ...]]
"""An operation whose reference is called, and the names of the sizes that a call of it passes."""
Calls: TypeAlias = CallPython | CallFunction | Exchange
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
    exchanges: tuple[Op, ...] = ()

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
    def has_tape(self) -> bool:
        """Whether a run may take memory for tapes."""
        return any(isinstance(step, Push | Pop) for step in self.walk())

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


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, those inside right after the one that holds them."""
    for step in steps:
        yield step
        for body in step.bodies:
            yield from walk(body)
