"""Summaries of functions: the operations of a code object that may read captured state.

The code is walked once per process, without values. Where two ways through it meet, a register of
its own stands for either value, as in SSA form; one whose sources are all the same is replaced by
it. A trace evaluates the operations with the objects that exist then (``follow``).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Mapping, Sequence

from .abstract_values import Value
from .code import Step, decoded
from .instructions import Entry, Lost, Operation, Recorder, Stack, effect, recorded


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The operations of a function, its constants, and the operations that read each entry."""

    operations: Sequence[Operation]
    fixed: Mapping[Entry, Value]
    readers: Mapping[Entry, frozenset[int]]


@functools.lru_cache(maxsize=4096)
def summary_of(code: types.CodeType) -> Summary | None:
    """The summary of a code object; None if its stack can't be followed."""
    try:
        recorder, meetings = _Walk(code).run()
    except Lost:
        return None
    operations = [*recorder.operations]
    same = _replaced(meetings)
    merges = [
        Operation(effect("merged"), tuple(sources), (register,), step, 0)
        for register, (step, sources) in meetings.items()
        if register not in same
    ]
    operations = sorted([*merges, *operations], key=lambda op: op.step)
    operations = _with_sources(operations, same)
    once = _stored_once(code, operations)
    operations = [
        op for op in operations if op.effect.name != "store" or op.effect.given[0] not in once
    ]
    operations = _with_sources(operations, once)
    return Summary(operations, {**recorder.fixed}, _readers(operations))


def _with_sources(
    operations: Sequence[Operation], instead: Mapping[Entry, Entry]
) -> list[Operation]:
    """The operations, with other sources in place of some."""
    return [
        dataclasses.replace(op, sources=tuple(_end(instead, s) for s in op.sources))
        for op in operations
    ]


def _stored_once(code: types.CodeType, operations: Sequence[Operation]) -> dict[Entry, Entry]:
    """Variables that are stored once, before all steps that read them, and the entry stored."""
    shared = {*code.co_cellvars, *code.co_freevars, *code.co_varnames[: _parameters(code)]}
    found: dict[Entry, Entry] = {}
    read: set[Entry] = set()
    for op in operations:
        read.update(op.sources)
        name = op.effect.given[0] if op.effect.name == "store" else None
        if name in found or name in read:
            shared.add(name)
        elif name is not None:
            found[name] = op.sources[0]
    return {name: entry for name, entry in found.items() if name not in shared}


def _parameters(code: types.CodeType) -> int:
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + stars


def _readers(operations: Sequence[Operation]) -> dict[Entry, frozenset[int]]:
    found: dict[Entry, set[int]] = {}
    for n, op in enumerate(operations):
        for source in op.sources:
            if source not in op.results:
                found.setdefault(source, set()).add(n)
    return {entry: frozenset(numbers) for entry, numbers in found.items()}


_Meetings = dict[int, tuple[int, set[Entry]]]


def _replaced(meetings: _Meetings) -> dict[Entry, Entry]:
    """Registers that stand for one other entry only, and that entry."""
    same: dict[Entry, Entry] = {}
    changed = True
    while changed:
        changed = False
        for register, (_, sources) in meetings.items():
            others = {_end(same, s) for s in sources} - {register}
            if register not in same and len(others) == 1:
                same[register] = others.pop()
                changed = True
    return {register: _end(same, register) for register in same}


def _end(same: Mapping[Entry, Entry], entry: Entry) -> Entry:
    while entry in same:
        entry = same[entry]
    return entry


class _Walk:
    """One walk over a function's code, which visits every step that can be reached once."""

    def __init__(self, code: types.CodeType) -> None:
        self.steps = decoded(code).steps
        self.recorder = Recorder(code)
        self.meetings: _Meetings = {}
        self.stacks: dict[int, Stack] = {}
        targets = {step.target for step in self.steps}
        handlers = {step.handler.target for step in self.steps if step.handler}
        self.joins = (targets | handlers) - {None}
        self.pending: list[int] = []

    def run(self) -> tuple[Recorder, _Meetings]:
        """Visits the steps."""
        self._reach(0, ())
        while self.pending:
            n = self.pending.pop()
            self._visit(n, self.steps[n], self.stacks[n])
        return self.recorder, self.meetings

    def _visit(self, n: int, step: Step, stack: Stack) -> None:
        to = self.recorder
        if step.handler is not None:
            kept, pushed = stack[: step.handler.depth], step.handler.pushed
            self._reach(step.handler.target, (*kept, *(to.unknown,) * pushed))
        after = recorded(to, n, step, stack)
        if step.following is not None:
            self._reach(step.following, after)
        if step.target is not None:
            self._reach(step.target, to.resized(stack, step.jump_effect))

    def _reach(self, n: int, stack: Stack) -> None:
        if n not in self.stacks:
            joins = n in self.joins
            self.stacks[n] = tuple(self._meeting(n, x) for x in stack) if joins else stack
            self.pending.append(n)
        known = self.stacks[n]
        if len(known) != len(stack):
            raise Lost
        for register, x in zip(known, stack, strict=True):
            if isinstance(register, int) and register in self.meetings:
                self.meetings[register][1].add(x)
            elif register != x:
                raise Lost

    def _meeting(self, n: int, entry: Entry) -> Entry:
        if entry == self.recorder.null:
            return entry  # a gap is one on every way
        register = self.recorder.register()
        self.meetings[register] = (n, set())
        return register
