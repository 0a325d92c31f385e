"""The launches and copies of one call as a list, for a page that makes them without Python.

The walker of ``execution`` runs a program whose sizes are all known on a device that only writes
down what it is asked for. Loops that the host counts are then unrolled, functions are entered, and
each launch has its buffers, sizes and blocks. What needs a value of the device has no place in such
a list.

All memory is one buffer. A browser refuses a launch with two bindings that overlap, so a part that
overlaps another is copied to a second buffer before the launch, and back after it where the kernel
writes to it. Kernels with many arrays have one binding around all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dlvm.base.errors import CompilerError, Origin, UserError
from dlvm.gen.loops.status import WORDS, culprits
from dlvm.gen.printed.dialect import spelt
from dlvm.gen.program.steps import EndUnless, If, Launch, Pop, Push, Step, While, walk
from dlvm.ir import Array
from dlvm.ir.sizes.dims import evaluate

from .device import DeviceCode, Ready
from .devices.numbered import APART, WORD, word_of, words
from .executable import DeviceExecutable
from .execution import DeviceActivation, Shared
from .layout import Layout
from .printing import is_joined, stored

Part: TypeAlias = tuple[int, int, int]
"""A buffer by its number, where a part of it starts, and the bytes of that."""
MEMORY, ASIDE = 0, 1
"""The numbers of both buffers."""
MOST = 10_000
"""Launches and copies of a call at most: a page holds each, and makes its bindings once."""
REMEDY = 'write target="wasm32", whose page runs the whole function'


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel by its name, its blocks, its words before buffers, and the buffers.

    The words are a zero, the indices of first elements, sizes, and the index of the status.
    """

    kernel: str
    blocks: int
    words: tuple[int, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy of whole words from one buffer to another."""

    source: Part
    target: Part


@dataclass(frozen=True, slots=True)
class Recording:
    """One call: the bytes of both buffers, and what is asked for in order.

    ``params``, ``results`` and ``constants`` say where each starts in the first buffer; a result
    that is written over an argument is where that is.
    """

    buffers: tuple[int, int]
    params: tuple[int, ...]
    results: tuple[int, ...]
    constants: tuple[int, ...]
    status: int
    steps: tuple[Launched | Copied, ...]
    kernels: dict[str, int]
    """The parts that are bound for each kernel."""


@dataclass
class _Recorder:
    """A device that writes down what it is asked for; addresses are places in its one buffer."""

    steps: list[Launched | Copied] = field(default_factory=list["Launched | Copied"])
    kernels: dict[str, int] = field(default_factory=dict[str, int])
    end: int = 0
    aside: int = 0
    """The bytes of the other buffer, in which parts are that a launch can't bind where they are."""
    name: str = "a page"
    place: tuple[int, int] = (0, 0)
    stream: int = 0
    shares: bool = False
    _sizes: dict[int, int] = field(default_factory=dict[int, int])
    _free: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def allocate(self, count: int) -> int:
        """Memory that nobody uses any more, or more of it."""
        size = _up(max(1, count))
        if self._free.get(size):
            return self._free[size].pop()
        address, self.end = self.end, self.end + size
        self._sizes[address] = size
        return address

    def free(self, address: int) -> None:
        """The memory is for whoever needs some next, as steps run in order."""
        self._free.setdefault(self._sizes[address], []).append(address)

    def write(self, address: int, array: Array) -> None:
        """Nothing comes from the host while steps run."""
        raise CompilerError("a value of the host is needed while steps are written down")

    def read(self, address: int, array: Array) -> None:
        """Nothing goes to the host while steps run."""
        raise CompilerError("a value of the device is needed while steps are written down")

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy by way of the other buffer, as none may be of one buffer to itself."""
        (away,) = self._aside([count])
        self._copied((MEMORY, source, count), away)
        self._copied(away, (MEMORY, target, count))

    def launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        """A launch, with copies around it of parts that overlap."""
        if not ready.blocks:
            return
        kernel = ready.kernel.loops
        each = [b.dtype.bytes for b in kernel.buffers]
        parts = [(MEMORY, a, max(n, e)) for a, n, e in zip(at, ready.bytes, each, strict=True)]
        first = _bound((MEMORY, status, WORDS * 8))
        if is_joined(kernel):
            return self._launched(ready, [first, _around(parts)], [p[1] for p in parts], each)
        written = stored(kernel)
        changed = [b.name in written for b in kernel.buffers]
        moved = _meeting(parts, changed)
        away = dict(zip(moved, self._aside([parts[i][2] for i in moved]), strict=True))
        for i, part in away.items():
            self._copied(parts[i], part)
        bound = [away.get(i, part) for i, part in enumerate(parts)]
        self._launched(ready, [first, *map(_bound, bound)], [p[1] for p in bound], each)
        for i, part in away.items():
            if changed[i]:
                self._copied(part, parts[i])
        return None

    def _launched(
        self, ready: Ready, bound: Sequence[Part], starts: Sequence[int], each: Sequence[int]
    ) -> None:
        """A launch on these bindings, with buffers that start in them or in the only one."""
        name, given = spelt(ready.kernel.loops.name), list(bound[1:])
        if len(given) < len(starts):
            given = given * len(starts)
        firsts = [(s - p[1]) // e for s, p, e in zip(starts, given, each, strict=True)]
        self.kernels[name] = len(bound)
        words = (0, *firsts, *(word_of(n, "webgpu", REMEDY) for n in ready.sizes), 0)
        self._add(Launched(name, ready.blocks, words, tuple(bound)))

    def _aside(self, counts: Sequence[int]) -> list[Part]:
        """Parts of the other buffer until the next step."""
        found, end = list[Part](), 0
        for count in counts:
            found.append((ASIDE, end, count))
            end += _up(count)
        self.aside = max(self.aside, end)
        return found

    def _copied(self, source: Part, target: Part) -> None:
        if (source[1] | target[1] | source[2]) % WORD:
            raise UserError(
                "a page copies whole words of 32 bits, and a step copies some bytes of an array",
                remedy=REMEDY,
            )
        if source[2]:
            self._add(Copied(source, target))

    def _add(self, step: Launched | Copied) -> None:
        self.steps.append(step)
        if len(self.steps) > MOST:
            raise UserError(
                f"a page holds at most {MOST:,} launches of kernels, and a call makes more",
                remedy=REMEDY,
            )

    def wait(self) -> None:
        """Nothing runs."""

    def follow(self, stream: int) -> None:
        """There is no other library."""

    def ordinal(self, address: int) -> int | None:
        """No address is one of a GPU."""

    def mark(self) -> Any:
        """No time passes."""

    def milliseconds(self, start: Any, end: Any) -> float:
        """No time passes."""
        return 0.0


def _up(count: int) -> int:
    """The bytes from one part to the next."""
    return -(-count // APART) * APART


def _bound(part: Part) -> Part:
    """What is bound of a buffer for a part of it."""
    number, offset, count = part
    start = offset // APART * APART
    return number, start, words(offset, count)[1] - start


def _around(parts: Sequence[Part]) -> Part:
    """What is bound of a buffer for all these parts of it."""
    start = min(p[1] for p in parts)
    return _bound((MEMORY, start, max(p[1] + p[2] for p in parts) - start))


def _meeting(parts: Sequence[Part], changed: Sequence[bool]) -> list[int]:
    """Which parts to copy so that no binding overlaps another; those that are written stay."""
    taken, found = list[Part](), list[int]()
    for i in sorted(range(len(parts)), key=lambda i: not changed[i]):
        _, start, size = _bound(parts[i])
        if any(start < other + n and other < start + size for _, other, n in taken):
            found.append(i)
        else:
            taken.append((MEMORY, start, size))
    return found


def record(made: DeviceExecutable) -> Recording:
    """One call of a program whose sizes are all known."""
    _refuse(made)
    device, program = _Recorder(), made.program
    layout = Layout.of(program, made.arena, made.code, {})
    status = device.allocate(WORDS * 8)  # first, so that a part around others never holds it
    given = [device.allocate(evaluate(s.bytes, {})) for s in layout.given]
    at = dict(zip(layout.given, given, strict=True))
    constants = tuple(device.allocate(x.nbytes) for x in program.constants)
    shared = Shared(device, made.code, constants, status, made.fails)
    DeviceActivation(layout, shared, given).steps()
    return Recording(
        (device.end, device.aside),
        tuple(at[v.storage] for v in program.params),
        tuple(at[v.storage] for v in program.results),
        constants,
        status,
        tuple(device.steps),
        device.kernels,
    )


DECIDE: dict[type, str] = {
    If: "cond",
    While: "while_loop",
    EndUnless: "a check",
    Push: "a tape",
    Pop: "a tape",
}
"""The steps after which only a value of the device tells what runs next, as users know them."""


def _refuse(made: DeviceExecutable) -> None:
    """An error for a step that needs a value of the device, with its line."""
    for step in made.program.walk():
        if type(step) in DECIDE:
            raise UserError(
                f"{DECIDE[type(step)]}: a page can't tell what runs next without a value of the"
                " device",
                origin=_origin(step, made),
                remedy=REMEDY,
            )


def _origin(step: Step, made: DeviceExecutable) -> Origin | None:
    """The line of a check, or the first one of what a step holds."""
    if isinstance(step, EndUnless):
        op = culprits(made.module).get(step.code)
        return op.origin if op else None
    launches = (s for s in walk((step,)) if isinstance(s, Launch))
    return next((o for launch in launches for o in launch.origins), None)
