"""The effect of each instruction, written down without the values that it meets.

A stack entry is the name of a local variable or the number of a register, whose values are found
when the code is followed. An instruction that may read captured state becomes an operation on
them; one that only moves entries becomes none. An unknown instruction hands over all entries.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# dis does not say what its entries are.

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .abstract_values import ANY, HOST, NULL, Built, Value, constant, only
from .code import Step

Entry: TypeAlias = "int | str"
Stack: TypeAlias = tuple[Entry, ...]
Act: TypeAlias = "Callable[[Recorder, Step, Stack], Stack]"
_IN_PLACE = 13
_SUBSCRIPT = 26
_LIST_TO_TUPLE = 6


class Lost(Exception):
    """Raised for a function whose stack can't be followed."""


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """What an operation does, with what the instruction itself says; there is one of each."""

    name: str
    given: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An effect on stack entries and variables; the results go to registers."""

    effect: Effect
    sources: Stack
    results: tuple[int, ...]
    step: int
    line: int


_EFFECTS: dict[Any, Effect] = {}


def effect(name: str, *given: Any) -> Effect:
    """The effect of this name."""
    return _EFFECTS.setdefault((name, *given), Effect(name, given))


@dataclass(slots=True)
class Recorder:
    """The operations of one function, in the order of its instructions."""

    code: types.CodeType
    operations: list[Operation] = field(default_factory=list[Operation])
    fixed: dict[int, Value] = field(default_factory=dict[int, Value])
    """Registers whose value is known from the code."""
    at: int = 0
    line: int = 0
    names: tuple[str, ...] = ()
    """The names of the arguments of the call that follows."""
    _registers: dict[Value, int] = field(default_factory=dict[Value, int])
    _loads: dict[Any, int] = field(default_factory=dict[Any, int])
    _count: int = 0

    def register(self) -> int:
        """A new register."""
        self._count += 1
        return self._count

    def known(self, value: Value) -> int:
        """The register that has this value from the beginning."""
        if value not in self._registers:
            self._registers[value] = self.register()
            self.fixed[self._registers[value]] = value
        return self._registers[value]

    @property
    def unknown(self) -> int:
        """The register of a value of which nothing is known."""
        return self.known(only(ANY))

    @property
    def host(self) -> int:
        """The register of a value that Python computes."""
        return self.known(only(HOST))

    @property
    def null(self) -> int:
        """The register of a gap."""
        return self.known(only(NULL))

    def emit(self, name: str, *sources: Entry, given: tuple[Any, ...] = (), count: int = 1) -> Any:
        """Records an operation; returns the register of its result, or all if there are several."""
        results = tuple(self.register() for _ in range(count))
        made = Operation(effect(name, *given), sources, results, self.at, self.line)
        self.operations.append(made)
        return results[0] if count == 1 else results

    def load(self, name: str, *sources: Entry, given: tuple[Any, ...]) -> int:
        """The register of a load, which is recorded once for each function."""
        key = (name, sources, given)
        if key not in self._loads:
            self._loads[key] = self.emit(name, *sources, given=given)
        return self._loads[key]

    def resized(self, stack: Stack, by: int) -> Stack:
        """A stack with entries removed, or with unknown values on top."""
        return stack[: len(stack) + by] if by <= 0 else (*stack, *(self.unknown,) * by)


def recorded(to: Recorder, n: int, step: Step, stack: Stack) -> Stack:
    """The stack after an instruction whose operations are recorded."""
    to.at, to.line = n, step.line
    act = ACTS.get(step.name)
    if act is None:
        to.emit("hand", *stack, count=0)
        return (to.unknown,) * (len(stack) + step.effect)
    try:
        return act(to, step, stack)
    except (IndexError, ValueError):
        raise Lost from None


def _split(stack: Stack, count: int) -> tuple[Stack, Stack]:
    if count > len(stack):
        raise Lost
    return stack[: len(stack) - count], stack[len(stack) - count :]


# -- the stack and variables -----------------------------------------------------------------------


def _same(to: Recorder, step: Step, stack: Stack) -> Stack:
    return stack


def _pop(to: Recorder, step: Step, stack: Stack) -> Stack:
    return to.resized(stack, step.effect)


def _copy(to: Recorder, step: Step, stack: Stack) -> Stack:
    return (*stack, stack[-step.arg])


def _swap(to: Recorder, step: Step, stack: Stack) -> Stack:
    out = [*stack]
    out[-1], out[-step.arg] = out[-step.arg], out[-1]
    return tuple(out)


def _push_null(to: Recorder, step: Step, stack: Stack) -> Stack:
    return (*stack, to.null)


def _load_const(to: Recorder, step: Step, stack: Stack) -> Stack:
    return (*stack, to.known(constant(step.value)))


def _variable(to: Recorder, name: str) -> Entry:
    return to.load("variable", given=(name,)) if name in to.code.co_freevars else name


def _load_fast(to: Recorder, step: Step, stack: Stack) -> Stack:
    names = step.value if isinstance(step.value, tuple) else (step.value,)
    return (*stack, *(_variable(to, name) for name in names))


def _store_fast(to: Recorder, step: Step, stack: Stack) -> Stack:
    names = step.value if isinstance(step.value, tuple) else (step.value,)
    for name in names:
        *rest, x = stack
        to.emit("store", x, given=(name,), count=0)
        stack = tuple(rest)
    return stack


def _store_load(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, x = stack
    first, second = step.value
    to.emit("store", x, given=(first,), count=0)
    return (*rest, _variable(to, second))


def _load_global(to: Recorder, step: Step, stack: Stack) -> Stack:
    gap = (to.null,) if step.name == "LOAD_GLOBAL" and step.arg & 1 else ()
    name = str(step.value)
    local = (name,) if step.name == "LOAD_NAME" else ()  # in the body of a class
    return (*stack, *gap, to.load("global", *local, given=(name,)))


def _store_global(to: Recorder, step: Step, stack: Stack) -> Stack:
    deletes = step.name == "DELETE_GLOBAL"
    x = to.unknown if deletes else stack[-1]
    to.emit("write_global", x, given=(str(step.value),), count=0)
    return stack if deletes else stack[:-1]


# -- attributes and items --------------------------------------------------------------------------


def _load_attr(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, x = stack
    called = step.name == "LOAD_METHOD" or (sys.version_info >= (3, 12) and step.arg & 1)
    gap = (to.null,) if called else ()
    return (*rest, *gap, to.load("attribute", x, given=(str(step.value),)))


def _load_super_attr(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, _, cls, first = stack
    gap = (to.null,) if step.arg & 1 else ()
    return (*rest, *gap, to.load("behind", cls, first, given=(str(step.value),)))


def _import_from(to: Recorder, step: Step, stack: Stack) -> Stack:
    return (*stack, to.load("attribute", stack[-1], given=(str(step.value),)))


def _import_name(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, _, names = stack
    return (*rest, to.emit("module", names, given=(str(step.value),)))


def _subscript(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, x, key = stack
    return (*rest, to.emit("subscript", x, key))


def _slice(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, x, low, high = stack
    return (*rest, to.emit("subscript", x, to.emit("slice_of", low, high)))


def _store_attr(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, x, target = stack
    to.emit("write_attribute", target, x, given=(str(step.value),), count=0)
    return tuple(rest)


def _store_subscript(to: Recorder, step: Step, stack: Stack) -> Stack:
    rest, (x, target, *key) = _split(stack, 4 if step.name == "STORE_SLICE" else 3)
    to.emit("write_item", target, x, key[0] if len(key) == 1 else to.unknown, count=0)
    return rest


def _delete(to: Recorder, step: Step, stack: Stack) -> Stack:
    rest, (target, *key) = _split(stack, 2 if step.name == "DELETE_SUBSCR" else 1)
    if key:
        to.emit("write_item", target, to.unknown, key[0], count=0)
    else:
        to.emit("write_attribute", target, to.unknown, given=(str(step.value),), count=0)
    return rest


# -- operators -------------------------------------------------------------------------------------


def _binary(to: Recorder, step: Step, stack: Stack) -> Stack:
    if step.name == "BINARY_OP" and step.arg == _SUBSCRIPT:
        return _subscript(to, step, stack)
    *rest, x, y = stack
    in_place = step.name == "BINARY_OP" and _IN_PLACE <= step.arg < _SUBSCRIPT
    return (*rest, to.emit("operate_in_place" if in_place else "operate", x, y))


def _unary(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, x = stack
    return (*rest, to.emit("operate", x))


def _truth(to: Recorder, step: Step, stack: Stack) -> Stack:
    to.emit("asked", stack[-1], count=0)
    return stack if step.name == "TO_BOOL" else to.resized(stack, step.effect)


def _identity(to: Recorder, step: Step, stack: Stack) -> Stack:
    if step.name == "IS_OP":
        *rest, x, y = stack
        to.emit("compared", x, y, count=0)
        return (*rest, to.host)
    to.emit("compared", stack[-1], to.known(constant(None)), count=0)
    return stack[:-1]


def _contains(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, x, container = stack
    return (*rest, to.emit("contains", container, x))


def _format(to: Recorder, step: Step, stack: Stack) -> Stack:
    count = 2 if step.name == "FORMAT_VALUE" and step.arg & 4 else 1
    rest, parts = _split(stack, 2 if step.name == "FORMAT_WITH_SPEC" else count)
    to.emit("hand", *parts, count=0)
    return (*rest, to.host)


# -- containers ------------------------------------------------------------------------------------


def _build(to: Recorder, step: Step, stack: Stack) -> Stack:
    rest, parts = _split(stack, step.arg)
    return (*rest, to.emit("built", *parts))


def _build_map(to: Recorder, step: Step, stack: Stack) -> Stack:
    rest, parts = _split(stack, 2 * step.arg if step.name == "BUILD_MAP" else step.arg + 1)
    return (*rest, to.emit("mapped", *parts))


def _build_text(to: Recorder, step: Step, stack: Stack) -> Stack:
    rest, parts = _split(stack, step.arg)
    if step.name == "BUILD_SLICE":
        return (*rest, to.emit("slice_of", *parts))
    to.emit("hand", *parts, count=0)
    return (*rest, to.host)


def _extend(to: Recorder, step: Step, stack: Stack) -> Stack:
    rest, parts = _split(stack, 2 if step.name == "MAP_ADD" else 1)
    at = len(rest) - step.arg
    one = step.name in ("LIST_APPEND", "SET_ADD", "MAP_ADD")
    values = step.name.startswith("DICT")
    held = to.emit("extended", rest[at], *parts, given=(one, values))
    return (*rest[:at], held, *rest[at + 1 :])


def _get_iter(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, x = stack
    return (*rest, to.emit("iterated", x))


def _for_iter(to: Recorder, step: Step, stack: Stack) -> Stack:
    return (*stack, to.emit("elements", stack[-1]))


def _unpack(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, x = stack
    exact = step.name == "UNPACK_SEQUENCE"
    count = step.arg if exact else step.effect + 1
    if not exact:
        return (*rest, *(to.emit("spread", x),) * count)
    parts = to.emit("parts", x, given=(count,), count=count)
    return (*rest, *reversed((parts,) if count == 1 else parts))


def _intrinsic(to: Recorder, step: Step, stack: Stack) -> Stack:
    if "LIST_TO_TUPLE" in f"{step.name} {step.value}" or step.arg == _LIST_TO_TUPLE:
        return stack
    to.emit("hand", stack[-1], count=0)
    return (*stack[:-1], to.unknown)


# -- calls and functions ---------------------------------------------------------------------------


def _keyword_names(to: Recorder, step: Step, stack: Stack) -> Stack:
    names: Any = step.value
    to.names = names if isinstance(names, tuple) else to.code.co_consts[step.arg]
    return stack


def _call(to: Recorder, step: Step, stack: Stack) -> Stack:
    names, to.names = to.names, ()
    if step.name == "CALL_KW":
        *rest, given = stack
        said = to.fixed.get(given, frozenset()) if isinstance(given, int) else frozenset[Any]()
        parts = next((t.parts for t in said if isinstance(t, Built)), ())
        names = tuple(next(iter(part)).value for part in parts)
        stack = tuple(rest)
    rest, args = _split(stack, step.arg)
    *rest, first, second = rest
    callee = second if first == to.null else first
    if to.null not in (first, second):
        args = (second, *args)
    return (*rest, to.emit("call", callee, *args, given=(names,)))


def _call_spread(to: Recorder, step: Step, stack: Stack) -> Stack:
    rest, given = _split(stack, 2 if step.arg & 1 or sys.version_info >= (3, 14) else 1)
    *rest, first, second = rest
    callee = second if first == to.null else first
    return (*rest, to.emit("call_spread", callee, *(x for x in given if x != to.null)))


def _make_function(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, code = stack
    flags = step.arg if sys.version_info < (3, 13) else 0
    kept, given = _split(tuple(rest), bin(flags & 15).count("1"))
    made = to.emit("made", code)
    if flags & 1:
        to.emit("defaults", made, given[0], given=(False,), count=0)
    if flags & 2:
        to.emit("defaults", made, given[flags & 1], given=(True,), count=0)
    return (*kept, made)


def _set_function_attribute(to: Recorder, step: Step, stack: Stack) -> Stack:
    *rest, given, function = stack
    if step.arg in (1, 2):
        to.emit("defaults", function, given, given=(step.arg == 2,), count=0)
    return (*rest, function)


def _returned(to: Recorder, step: Step, stack: Stack) -> Stack:
    says = step.name == "RETURN_CONST"
    to.emit("give", to.known(constant(step.value)) if says else stack[-1], count=0)
    return stack


def _yielded(to: Recorder, step: Step, stack: Stack) -> Stack:
    to.emit("yield", stack[-1], count=0)
    return (*stack[:-1], to.unknown)


_GROUPS: dict[Act, str] = {
    _same: "NOP RESUME EXTENDED_ARG MAKE_CELL COPY_FREE_VARS PRECALL SETUP_ANNOTATIONS NOT_TAKEN "
    "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT DELETE_FAST DELETE_NAME "
    "GEN_START ASYNC_GEN_WRAP TO_BOOL_NONE",
    _load_fast: "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST LOAD_DEREF "
    "LOAD_CLASSDEREF LOAD_CLOSURE LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW",
    _store_fast: "STORE_FAST STORE_DEREF STORE_NAME STORE_FAST_MAYBE_NULL STORE_FAST_STORE_FAST",
    _store_load: "STORE_FAST_LOAD_FAST",
    _load_const: "LOAD_CONST LOAD_SMALL_INT LOAD_CONST_IMMORTAL",
    _load_global: "LOAD_GLOBAL LOAD_NAME",
    _push_null: "PUSH_NULL",
    _load_attr: "LOAD_ATTR LOAD_METHOD",
    _load_super_attr: "LOAD_SUPER_ATTR",
    _import_from: "IMPORT_FROM",
    _import_name: "IMPORT_NAME",
    _subscript: "BINARY_SUBSCR",
    _slice: "BINARY_SLICE",
    _binary: "BINARY_OP COMPARE_OP",
    _unary: "UNARY_NEGATIVE UNARY_INVERT UNARY_POSITIVE UNARY_NOT",
    _truth: "TO_BOOL POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP "
    "POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE "
    "POP_JUMP_BACKWARD_IF_FALSE",
    _identity: "IS_OP POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE "
    "POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE",
    _contains: "CONTAINS_OP",
    _build: "BUILD_TUPLE BUILD_LIST BUILD_SET",
    _build_map: "BUILD_MAP BUILD_CONST_KEY_MAP",
    _build_text: "BUILD_STRING BUILD_SLICE",
    _format: "FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE",
    _extend: "LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE",
    _copy: "COPY",
    _swap: "SWAP",
    _pop: "POP_TOP POP_ITER END_FOR RERAISE POP_EXCEPT RAISE_VARARGS INTERPRETER_EXIT "
    "PUSH_EXC_INFO LOAD_ASSERTION_ERROR LOAD_BUILD_CLASS LOAD_COMMON_CONSTANT "
    "CHECK_EXC_MATCH RETURN_GENERATOR WITH_EXCEPT_START LOAD_LOCALS",
    _get_iter: "GET_ITER GET_YIELD_FROM_ITER",
    _for_iter: "FOR_ITER",
    _unpack: "UNPACK_SEQUENCE UNPACK_EX",
    _keyword_names: "KW_NAMES",
    _call: "CALL CALL_KW",
    _call_spread: "CALL_FUNCTION_EX",
    _intrinsic: "LIST_TO_TUPLE CALL_INTRINSIC_1",
    _make_function: "MAKE_FUNCTION",
    _set_function_attribute: "SET_FUNCTION_ATTRIBUTE",
    _returned: "RETURN_VALUE RETURN_CONST",
    _yielded: "YIELD_VALUE",
    _store_attr: "STORE_ATTR",
    _store_subscript: "STORE_SUBSCR STORE_SLICE",
    _delete: "DELETE_ATTR DELETE_SUBSCR",
    _store_global: "STORE_GLOBAL DELETE_GLOBAL",
}
ACTS: dict[str, Act] = {name: act for act, names in _GROUPS.items() for name in names.split()}
