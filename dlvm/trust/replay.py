"""Finds the operation that made a number bad, by running the program again in the interpreter.

A *bad* number is a NaN or an infinity, whichever is asked about. A bad result was computed by
operations whose operands were bad already, back to one whose operands were not: the culprit. Every
bad array carries its culprit along, through calls, branches and the trips of loops. Bad numbers
that reach no result, because a ``where`` does not select them, are not reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from dlvm.base.errors import NotFinite, UserError
from dlvm.ir import Array, Declaration, Function, Module, Op, Value, dtype_of
from dlvm.ir.dataflow import Runs
from dlvm.ir.interpret import Interpreter
from dlvm.ops import Structured
from dlvm.ops.flow.effects import Outgoing

Bad = Callable[[Array], Array]


def not_a_number(x: Array) -> Array:
    """A mask of the elements that are NaN."""
    return np.isnan(x)


def infinite(x: Array) -> Array:
    """A mask of the elements that are infinite."""
    return np.isinf(x)


def not_finite(x: Array) -> Array:
    """A mask of the elements that are NaN or infinite."""
    return ~np.isfinite(x)


def shows(x: Array, bad: Bad) -> bool:
    """Whether the array is of floats and has a bad element."""
    dtype = dtype_of(x)
    return dtype is not None and dtype.is_float and bool(np.any(bad(x)))


def is_array(x: Any) -> TypeGuard[Array]:
    """Whether the object is an array; the base of a view may be something else."""
    return isinstance(x, np.ndarray)


@dataclass(frozen=True, eq=False)
class Culprit:
    """The operation that made a bad number, with its operands, its result and the way to it.

    ``path`` is the chain of regions and calls around it, ``lanes`` the number of batched calls on
    it, ``born`` its ordinal among culprits.
    """

    op: Op
    operands: tuple[Array, ...]
    result: Array
    path: tuple[str, ...]
    lanes: int
    born: int

    @property
    def from_infinities(self) -> bool:
        """Whether an operand was infinite."""
        return any(shows(x, infinite) for x in self.operands)


@dataclass(slots=True)
class Frame:
    """An operation with regions or a callee, while these run."""

    op: Op
    inherited: Culprit | None
    trips: Counter[str] = field(default_factory=Counter[str])


@dataclass(slots=True)
class Notes:
    """The state of a run: the culprit of each bad array, by its id, and the current path."""

    blame: dict[int, tuple[Array, Culprit | None]] = field(default_factory=dict[int, Any])
    frames: list[Frame] = field(default_factory=list[Frame])
    path: list[str] = field(default_factory=list[str])
    born: list[Culprit] = field(default_factory=list[Culprit])


@dataclass(slots=True)
class Replay(Interpreter):
    """An interpreter that tracks the culprit of every bad array."""

    bad: Bad = not_a_number
    traced: Module = field(default_factory=lambda: Module(()))
    notes: Notes = field(default_factory=Notes)

    def step(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        """Runs one operation; prints and taps are skipped, as the first run showed them."""
        if isinstance(op, Outgoing):
            return ()
        notes, known = self.notes, len(self.notes.born)
        inherited = self._inherited(operands)
        holds = op.holds_regions or op.called is not None
        if holds:
            notes.frames.append(Frame(op, inherited))
        try:
            outputs = super(Replay, self).step(op, operands)
        finally:
            if holds:
                notes.frames.pop()
        for y in outputs:
            if id(y) not in notes.blame and shows(y, self.bad):
                inside = notes.born[known] if len(notes.born) > known else inherited
                given = inherited or holds or any(shows(x, self.bad) for x in operands)
                notes.blame[id(y)] = y, inside if given else self._born(op, operands, y)
        return outputs

    def call(self, fn: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Runs a function or region, and records it as a step on the way."""
        notes = self.notes
        if not notes.frames:
            return super(Replay, self).call(fn, arrays)
        frame = notes.frames[-1]
        trip = frame.trips[fn.name]
        frame.trips[fn.name] += 1
        notes.path.append(_way(frame.op, fn, trip, self.traced))
        try:
            return super(Replay, self).call(fn, arrays)
        finally:
            notes.path.pop()

    def _born(self, op: Op, operands: Sequence[Array], y: Array) -> Culprit:
        notes = self.notes
        lanes = sum(isinstance(self._callee(f.op), Declaration) for f in notes.frames)
        path = tuple(p for p in notes.path if p)
        found = Culprit(op, tuple(operands), y, path, lanes, len(notes.born))
        notes.born.append(found)
        return found

    def _callee(self, op: Op) -> Any:
        """The declaration of the batched form that the operation calls, or None."""
        entry = _entry(op, self.traced)
        return entry if isinstance(entry, Declaration) and entry.kind == "batched" else None

    def _inherited(self, operands: Sequence[Array]) -> Culprit | None:
        """The culprit of the first bad operand, or None."""
        for x in operands:
            if not shows(x, self.bad):
                continue
            whole: Any = x
            while is_array(whole):
                if id(whole) in self.notes.blame:
                    return self.notes.blame[id(whole)][1]
                whole = whole.base
            return self.notes.frames[-1].inherited if self.notes.frames else None
        return None


def _entry(op: Op, traced: Module) -> Any:
    return traced.entry(op.called.name) if op.called and op.called.name in traced else None


def _way(op: Op, fn: Function, trip: int, traced: Module) -> str:
    """The words for one step on the way to an operation."""
    if op.called is not None:
        entry = _entry(op, traced)
        kinds = {"adjoint": "the gradient of ", "tangent": "the tangent of ", "batched": "vmap of "}
        if isinstance(entry, Declaration):
            return f"in {kinds.get(entry.kind, '')}{entry.of}"
        return f"in {fn.name}"
    if not isinstance(op, Structured) or op.dataflow.runs is Runs.ONCE:
        return ""
    if op.dataflow.runs is Runs.CHOICE:
        holds = "holds" if fn is op.giving[0] else "does not hold"
        return f"in the branch for a condition that {holds}{_at(op)}"
    if fn is op.test:
        return f"in the condition of the loop{_at(op)}, before trip {trip}"
    return f"in trip {trip} of the loop{_at(op)}"


def _at(op: Op) -> str:
    return f" at {op.origin}" if op.origin else ""


# -- messages ----------------------------------------------------------------------------------


def culprit(
    module: Module, traced: Module, arrays: Sequence[Array], bad: Bad
) -> tuple[bool, Culprit | None]:
    """Whether a result of the expanded module is bad, and the culprit, if it is known."""
    machine = Replay(module, write=lambda text: None, bad=bad, traced=traced)
    with np.errstate(all="ignore"):
        results = machine.enter(module.main.name, arrays)
    shown = [r for r in results if shows(r, bad)]
    makers = [machine.notes.blame.get(id(r), (r, None))[1] for r in shown]
    found = [m for m in makers if m is not None]
    return bool(shown), min(found, key=lambda c: c.born) if found else None


def accuse(
    found: Culprit, bad: Bad, names: dict[Value, str], earlier: Culprit | None = None
) -> NotFinite:
    """The error that names the culprit; ``earlier`` is the culprit of its infinite operands."""
    at = found.op.origin
    what = "a NaN" if np.isnan(found.result[bad(found.result)]).any() else "an infinity"
    told = at.derived if at is not None and at.derived else found.op.name
    which = np.asarray(bad(found.result))
    index = tuple(int(n) for n in np.argwhere(which)[0])
    notes = [f"{_count(which)}{_place(index, found.lanes)}"]
    notes += [
        f"{_operand(v, i, names)}: {described(x)}"
        for i, (v, x) in enumerate(zip(found.op.operands, found.operands, strict=True))
    ][:3]
    notes += found.path[:3]
    given = "infinities" if found.from_infinities else "finite numbers"
    made = f"{told} made {what} out of {given}"
    if told != found.op.name:
        made += f", in its {found.op.name}"
    if earlier is not None:
        where = earlier.op.origin
        by = where.derived if where is not None and where.derived else earlier.op.name
        notes.append(f"the first infinity came from {by}{_at(earlier.op)}")
    return NotFinite(made, origin=at, notes=tuple(notes), remedy=DEFINED)


DEFINED = "keep the operand in the domain, such as by dlvm.where(ok, x, 1.0) before the operation"


def _count(which: Array) -> str:
    return f"{int(which.sum())} of {which.size} elements" if which.ndim else "a scalar"


def _place(index: tuple[int, ...], lanes: int) -> str:
    if not index:
        return ""
    if lanes and len(index) >= lanes:
        lane = ", ".join(map(str, index[:lanes]))
        rest = f" at {list(index[lanes:])}" if index[lanes:] else ""
        return f", the first in lane {lane}{rest}"
    return f", the first at {list(index)}"


def _operand(v: Value, i: int, names: dict[Value, str]) -> str:
    named = names.get(v, "")
    return f"operand {i}{f' ({named})' if named else ''}, {v.type}"


def described(x: Array) -> str:
    """The range of an array, and the number of its zeros, NaN and infinities."""
    if not x.size:
        return "no elements"
    dtype = dtype_of(x)
    if dtype is None or not dtype.is_float:
        return f"from {x.min()} to {x.max()}"
    wide = x.astype(np.float64)
    fine = wide[np.isfinite(wide)]
    text = f"from {fine.min():.6g} to {fine.max():.6g}" if fine.size else "nothing finite"
    counts = (("zeros", wide == 0), ("NaN", np.isnan(wide)), ("infinite", np.isinf(wide)))
    return ", ".join([text, *(f"{int(w.sum())} {name}" for name, w in counts if w.any())])


def given_bad(arrays: Sequence[Array], labels: Sequence[str], bad: Bad) -> UserError | None:
    """The error for the first argument that was bad when it was passed, or None."""
    for x, label in zip(arrays, labels, strict=True):
        if shows(x, bad):
            which = bad(x)
            index = tuple(int(n) for n in np.argwhere(which)[0])
            found = "a NaN" if np.isnan(x[which]).any() else "an infinity"
            return NotFinite(
                f"{label} contains {found} already",
                notes=(f"{_count(which)}{_place(index, 0)}", described(x)),
                remedy="look at the code that computed this argument",
            )
    return None
