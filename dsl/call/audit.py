"""Audits: a function is traced again, which must give the program that a call is about to run.

Reading the code of a function does not tell all that it depends on. With ``DLVM_VERIFY=state``
every call is audited. Otherwise those functions are whose state goes to code that is not read, at
calls 2, 4, 8 ... 128, and later for at most a hundredth of the time that their calls take. No audit
is made of a function that does more than read while it is traced: it would do it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any, TypeAlias

from dlvm.base import environment
from dlvm.base.errors import Origin, StaleState
from dlvm.dsl.state.captures import Captures
from dlvm.dsl.state.guards import brief
from dlvm.dsl.trace.tracing import Program
from dlvm.dsl.trace.warned import warned
from dlvm.ir import Array, Op
from dlvm.ir.equality import first_difference
from dlvm.ops import Constant

LAST = 128
"""The last call that is audited whatever that takes."""
SHARE = 100
"""Beyond it, seconds in calls for each second in audits."""
Call: TypeAlias = "Callable[[Sequence[Any]], Any]"
Captured: TypeAlias = "Sequence[tuple[str, Array]]"
"""The captured arrays that a program would read, in the order of its parameters, and their paths;
views of one array share a path."""
Change: TypeAlias = "tuple[str, Origin | None]"
Again: TypeAlias = "Callable[[Callable[[Array], str | None]], Program]"
"""Traces a function again, with a function that names the captured arrays."""


def audit_of(label: str, captures: Captures, told: set[str]) -> Audit | None:
    """The audit of a new program, if what its function reads asks for one."""
    always = environment.auditing()
    if not always and not captures.is_doubtful:
        return None
    found = Audit(label, always, captures.repeats())
    told_of = always or captures.seen.hidden
    if found.why_not and told_of and not {"audit", *captures.seen.sources} & told:
        told.add("audit")
        warned(
            f"{label} reads state that can't be compared at each call, and isn't traced again to "
            f"see whether it has changed: {found.why_not}; pass what changes as an argument",
            None,
        )
    return found


class Audit:
    """When the next audit of one program is due, and up to which call it is known to be right."""

    __slots__ = ("_always", "_cost", "_due", "_spent", "calls", "label", "right", "why_not")

    def __init__(self, label: str, always: bool, why_not: str | None = None) -> None:
        self.label = label
        self._always = always
        self.why_not = why_not
        """Why no audit is made, if none is."""
        self.calls = 0
        self.right = 1
        """The last call for which the program is known to be right; for the first it was traced."""
        self._due = False
        self._cost = 0.0
        self._spent = 0.0

    def due(self) -> bool:
        """Counts a call, and says whether it is audited; it stays due until ``passed``."""
        if not self._due and self.why_not is None:
            self.calls += 1
            n = self.calls
            if self._always or n <= LAST:
                self._due = n > 1 and (self._always or n & (n - 1) == 0)
            else:
                self._due = self._spent >= SHARE * self._cost
        return self._due

    def counted(self, call: Call) -> Call:
        """A short cut that leaves calls to the slow path where an audit is due."""

        def counting(given: Sequence[Any]) -> Any:
            if self.due():
                return NotImplemented
            start = perf_counter()
            out = call(given)
            if out is NotImplemented:
                self.calls -= 1
            self._spent += perf_counter() - start
            return out

        return counting

    def __call__(self, made: Program, arrays: Captured, again: Again) -> StaleState | None:
        """Traces again; an error to raise if the program is not what its function is now."""
        start, kept = perf_counter(), list[Array]()

        def find(array: Array) -> str | None:
            kept.append(array)  # one that dies would give its identity to another one
            return next((p for p, x in arrays if _place(x) == _place(array)), None)

        try:
            now = again(find)
            found = _change(made, arrays, now, lambda: again(find))
            if found is not None and now.module != again(find).module:
                return self._stop("tracing it twice gives two programs")
        except Exception as error:
            found = f"tracing it again is an error: {error}", None
        if found is None:
            return self.passed(perf_counter() - start)
        what, origin = found
        return StaleState(
            f"{self.label} is compiled for state that has changed unseen: {what}; calls of this "
            f"program up to number {self.right} were right, this is number {self.calls}",
            origin=origin,
            remedy="pass what changes as an argument, or keep it in a plain number, list, dict, "
            "array or attribute; the next call compiles for what it is now",
        )

    def passed(self, seconds: float) -> None:
        """Notes an audit that found nothing."""
        self._due, self._spent, self._cost, self.right = False, 0.0, seconds, self.calls

    def _stop(self, why: str) -> None:
        """Ends the audits of a program."""
        self._due, self.why_not = False, why

    def __str__(self) -> str:
        """A line for ``explain()``."""
        if self.why_not is not None:
            return f"it isn't traced again to see whether it is still right: {self.why_not}"
        return f"traced again at calls up to {self.right} of {self.calls}: it gave the same program"


def _change(
    made: Program, arrays: Captured, now: Program, once_more: Callable[[], Program]
) -> Change | None:
    """What differs first between a program and its function, and the line."""
    read = [_place(captured.array) for captured in now.trace.arrays.values()]
    for (path, was), is_ in zip(arrays, read, strict=False):
        if _place(was) != is_:
            return f"another array is read than {path}", None
    found = first_difference(made.module.entries, now.module.entries)
    if found is None:  # what a call gives may be equal to nothing else, such as a pullback
        same = made.tree == now.tree or now.tree != once_more().tree
        return None if same else ("its results differ", None)
    if gone := [path for path, was in arrays if _place(was) not in read]:
        return f"another array is read than {gone[0]}", _origin(found)
    was, is_ = found
    return f"{_shown(was)} is now {_shown(is_)}", _origin(found)


def _place(array: Array) -> tuple[Any, ...]:
    """Where an array lies in memory, and how it is read."""
    interface = array.__array_interface__
    return interface["data"][0], array.shape, array.strides, array.dtype


def _origin(ops: Iterable[Op | None]) -> Origin | None:
    return next((op.origin for op in ops if op is not None and op.origin is not None), None)


def _shown(op: Op | None) -> str:
    """An operation in a message."""
    if op is None:
        return "nothing"
    types = ", ".join(map(str, op.result_types))
    if isinstance(op, Constant):
        value = op.value.item() if op.value.size == 1 else op.value.ravel()[:4].tolist()
        return f"the constant {brief(value)} : {types}"
    of = ", ".join(f"{name}={value!r:.40}" for name, value in op.attributes.items())
    return f"{op.name}({of}) : {types}"
