"""Reads from the code of a caller where the arguments of a call lie and what is overwritten next.

In ``net, v = step(net, x)`` the variable ``net`` refers to the argument, but is given another value
before anything can read it. So that reference doesn't count. Only code that runs straight on after
the call is read, up to the first instruction that could do anything else.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal

from .places import Kind, Place

COMPUTED = "computed"
Source = Place | Literal["computed"]
"""Where an argument comes from: a place, or another expression."""
RESULT = object()
"""Stands for the results of a call, and for parts of them."""
LOADS: dict[str, Kind] = {
    **dict.fromkeys(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"), "fast"),
    "LOAD_DEREF": "cell",
    "LOAD_GLOBAL": "global",
    "LOAD_NAME": "name",
}
STORES: dict[str, Kind] = {
    "STORE_FAST": "fast",
    "STORE_DEREF": "cell",
    "STORE_GLOBAL": "global",
    "STORE_NAME": "name",
}
CONSTANTS = {"LOAD_CONST", "LOAD_SMALL_INT"}
SUBSCRIPTS = {"BINARY_SUBSCR"}
CALLS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX"}
PASSED_OVER = {"PRECALL", "NOP", "CACHE", "EXTENDED_ARG", "NOT_TAKEN"}


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction with its argument, and by how much it makes the stack higher."""

    name: str
    value: Any
    index: int
    rise: int


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call: what is called, with which arguments, and what is overwritten straight after it.

    ``overwritten`` is in order. ``spread`` says that arguments come from a tuple made for the call,
    ``named`` that some are passed by name.
    """

    callee: Source | None
    arguments: dict[int | str, Source]
    overwritten: tuple[Place, ...]
    spread: bool = False
    named: bool = False


def call_site(code: CodeType, at: int) -> CallSite | None:
    """The call at an offset of a code; None where it can't be read."""
    every = list(dis.get_instructions(code))
    here = next((i for i, x in enumerate(every) if x.offset == at), None)
    if here is None or every[here].opname not in CALLS:
        return None
    before = [s for x in every[:here] for s in _steps(x, code)]
    after = (s for x in every[here + 1 :] for s in _steps(x, code))
    given = _given(every[here], before)
    if given is None:
        return None
    callee, arguments, spread, named = given
    return CallSite(callee, arguments, _overwritten(after), spread, named)


def _steps(x: dis.Instruction, code: CodeType) -> Iterator[Step]:
    """An instruction as steps: what does two things at once is two steps."""
    if x.opname in PASSED_OVER and x.opname != "PRECALL":
        return
    if x.opname.count("_FAST") == 2:
        first, second = x.opname.replace("_BORROW", "").split("_FAST_")
        for part, name in zip((first + "_FAST", second), x.argval, strict=True):
            yield Step(part, name, _index(code, name), 1 if part.startswith("LOAD") else -1)
        return
    known = x.opname in LOADS or x.opname in STORES
    index = _index(code, x.argval) if known and "GLOBAL" not in x.opname else 0
    has_argument = x.opcode >= dis.HAVE_ARGUMENT
    try:
        rise = dis.stack_effect(x.opcode, x.arg if has_argument else None, jump=False)
    except ValueError:
        rise = 0
    jumps = x.opcode in dis.hasjrel or x.opcode in dis.hasjabs
    value = code.co_consts[x.arg or 0] if x.opname == "KW_NAMES" else x.argval
    yield Step("JUMP" if jumps else x.opname, value, index, rise)


def _index(code: CodeType, name: str) -> int:
    """Where a frame has a variable."""
    every = (*code.co_varnames, *(n for n in code.co_cellvars if n not in code.co_varnames))
    every += code.co_freevars
    return every.index(name) if name in every else 0


# -- before the call -------------------------------------------------------------------------------

Given = tuple["Source | None", dict["int | str", "Source"], bool, bool]


def _given(call: dis.Instruction, before: list[Step]) -> Given | None:
    """The callee, the arguments, and whether they are spread and passed by name."""
    while before and before[-1].name == "PRECALL":
        before.pop()
    if call.opname == "CALL_FUNCTION_EX":
        return _spread(before) if not (call.arg or 0) & 1 else None
    names: Sequence[str] = ()
    if (before and before[-1].name == "KW_NAMES") or call.opname == "CALL_KW":
        names = before.pop().value
    count = int(call.arg or 0)
    spans = _spans(before, count)
    if spans is None:
        return None
    keys: list[int | str] = [*range(count - len(names)), *names]
    arguments: dict[int | str, Source] = {k: _source(s) for k, s in zip(keys, spans, strict=True)}
    return _callee(before), arguments, False, bool(names)


def _spread(before: list[Step]) -> Given | None:
    """``f(a, b, *rest)``: the first ones are known."""
    if not before or not _makes_tuple(before.pop()):
        return None
    while before and before[-1].name in ("LIST_EXTEND", "LIST_APPEND"):
        before.pop()
        if _spans(before, 1) is None:
            return None
    if not before or before[-1].name != "BUILD_LIST":
        return None
    count = int(before.pop().value)
    spans = _spans(before, count)
    if spans is None:
        return None
    arguments: dict[int | str, Source] = {i: _source(s) for i, s in enumerate(spans)}
    return _callee(before), arguments, True, False


def _makes_tuple(step: Step) -> bool:
    whole = step.name == "CALL_INTRINSIC_1" and step.value == 6
    return step.name == "LIST_TO_TUPLE" or whole


def _spans(before: list[Step], count: int) -> list[list[Step]] | None:
    """Takes the steps that make the topmost values off the end, for each value in order."""
    found: list[list[Step]] = []
    for _ in range(count):
        height, span = 0, list[Step]()
        while height < 1:
            if not before or before[-1].name == "JUMP" or before[-1].name in STORES:
                return None
            span.insert(0, before.pop())
            height += span[0].rise
        found.insert(0, span)
    return found


def _callee(before: list[Step]) -> Source | None:
    while before and before[-1].name == "PUSH_NULL":
        before.pop()
    if before and before[-1].name == "LOAD_GLOBAL":  # this may be two values
        return Place("global", before[-1].value)
    spans = _spans(before, 1)
    return None if spans is None else _source(spans[0])


def _source(span: list[Step]) -> Source:
    """Where the value of an expression comes from.

    Who else has a computed value has a reference of his own. A variable lends its own one to the
    call in some versions of Python, so it has to be known.
    """
    first, *rest = span
    if first.name not in LOADS:
        return COMPUTED
    found = Place(LOADS[first.name], first.value, first.index)
    while rest:
        step = rest.pop(0)
        if step.name == "LOAD_ATTR":
            found = found.below("attribute", step.value)
        elif step.name in CONSTANTS and rest and _is_subscript(rest.pop(0)):
            found = found.below("element", step.value)
        else:
            return COMPUTED
    return found


def _is_subscript(step: Step) -> bool:
    return step.name in SUBSCRIPTS or (step.name == "BINARY_OP" and step.value == 26)


# -- after the call --------------------------------------------------------------------------------


@dataclass
class _After:
    """Follows the stack on from a call."""

    stack: list[Any] = field(default_factory=lambda: [RESULT])
    read: set[Place] = field(default_factory=set[Place])
    written: list[Place] = field(default_factory=list[Place])
    results: set[Place] = field(default_factory=set[Place])
    """Places that hold results of the call."""

    def load(self, place: Place) -> None:
        self.read.add(place)
        self.stack.append(RESULT if place in self.results else place)

    def write(self, place: Place) -> None:
        moved = any(w.root == w and w == place.root != place for w in self.written)
        if place not in self.read and not moved:
            self.written.append(place)

    def step(self, step: Step) -> bool:
        """Takes a step; False for one that could do anything else."""
        if step.name in LOADS and step.rise == 1:
            self.load(Place(LOADS[step.name], step.value, step.index))
        elif step.name in CONSTANTS:
            self.stack.append(("constant", step.value))
        elif step.name in STORES:
            value, place = self.stack.pop(), Place(STORES[step.name], step.value, step.index)
            self.write(place)
            self.results = self.results | {place} if value is RESULT else self.results - {place}
        elif step.name == "UNPACK_SEQUENCE":
            whole = self.stack.pop()
            self.stack += [RESULT] * step.value
            return whole is RESULT
        elif step.name == "COPY":
            self.stack.append(self.stack[-step.value])
        elif step.name == "SWAP":
            at = -step.value
            self.stack[-1], self.stack[at] = self.stack[at], self.stack[-1]
        else:
            return self._below(step)
        return True

    def _below(self, step: Step) -> bool:
        """Attributes and elements."""
        top = self.stack.pop() if self.stack else None
        if step.name == "LOAD_ATTR" and isinstance(top, Place):
            self.load(top.below("attribute", step.value))
        elif step.name == "STORE_ATTR" and isinstance(top, Place):
            self.stack.pop()
            self.write(top.below("attribute", step.value))
        elif step.name == "STORE_SUBSCR" and isinstance(top, tuple):
            owner = self.stack.pop()
            self.stack.pop()
            if not isinstance(owner, Place):
                return False
            self.write(owner.below("element", top[1]))  # pyright: ignore[reportUnknownArgumentType]
        elif _is_subscript(step) and isinstance(top, tuple) and isinstance(self.stack[-1], Place):
            self.load(self.stack.pop().below("element", top[1]))
        else:
            return False
        return True


def _overwritten(after: Iterator[Step]) -> tuple[Place, ...]:
    """Places that are written straight after a call, before they are read."""
    state = _After()
    with suppress(IndexError):  # a step that reaches below the result, as `return` in a `with` does
        for step in after:
            if not state.step(step):
                break
    return tuple(state.written)
