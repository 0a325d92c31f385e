"""One walk over a function's code: the stack at each step, and the effect of each instruction.

This module maps instructions to loads, calls and operators; ``paths`` defines the effect of those.
An unknown instruction hands over everything on the stack.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .code import Step, decoded
from .things import ANY, HOST, NULL, Built, Frame, Iter, Site, Value, only, union, widened

if TYPE_CHECKING:
    from .paths import Paths

Stack = tuple[Value, ...]
Act = Callable[["Walk", Site, Step, Stack], Stack]
UNKNOWN = only(ANY)
_IN_PLACE = 13
_SUBSCRIPT = 26
_SAME = "NOP RESUME EXTENDED_ARG MAKE_CELL COPY_FREE_VARS PRECALL SETUP_ANNOTATIONS NOT_TAKEN " + (
    "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT DELETE_FAST DELETE_NAME "
    "GEN_START ASYNC_GEN_WRAP TO_BOOL_NONE"
)


class Lost(Exception):
    """Raised for a function whose stack can't be followed."""


class Walk:
    """A walk over one function."""

    def __init__(self, paths: Paths, frame: Frame) -> None:
        self.paths = paths
        self.frame = frame
        self._names: tuple[str, ...] = ()

    def run(self) -> None:
        """Visits every step until no stack changes any more."""
        steps = decoded(self.frame.code).steps
        stacks: dict[int, Stack] = {0: ()}
        pending = [0]
        while pending:
            n = pending.pop()
            step, stack = steps[n], stacks[n]
            if step.handler is not None:
                kept, pushed = stack[: step.handler.depth], step.handler.pushed
                self._reach(stacks, pending, step.handler.target, (*kept, *(UNKNOWN,) * pushed))
            after = self._step(Site(self.frame, n, step.line), step, stack)
            if step.following is not None:
                self._reach(stacks, pending, step.following, after)
            if step.target is not None:
                jumped = _resized(stack, step.jump_effect)
                self._reach(stacks, pending, step.target, jumped)

    def _reach(self, stacks: dict[int, Stack], pending: list[int], n: int, new: Stack) -> None:
        known = stacks.get(n)
        if known is None:
            stacks[n] = new
        elif known == new:
            return
        elif len(known) != len(new):
            raise Lost
        else:
            merged = tuple(widened(a | b) for a, b in zip(known, new, strict=True))
            if merged == known:
                return
            stacks[n] = merged
        pending.append(n)

    def _step(self, site: Site, step: Step, stack: Stack) -> Stack:
        act = ACTS.get(step.name)
        try:
            if act is not None:
                return act(self, site, step, stack)
        except (IndexError, ValueError):
            raise Lost from None
        self.paths.hand(site, stack)
        return (UNKNOWN,) * (len(stack) + step.effect)

    # -- groups of instructions --------------------------------------------------------------------

    def same(self, site: Site, step: Step, stack: Stack) -> Stack:
        """An instruction without effect on captured state."""
        return stack

    def load_fast(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A local variable, or two."""
        names = step.value if isinstance(step.value, tuple) else (step.value,)
        found = (self.paths.variable(self.frame, name) for name in names)
        return (*stack, *found)

    def store_fast(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Writes a local variable, or two."""
        names = step.value if isinstance(step.value, tuple) else (step.value,)
        for name in names:
            *rest, x = stack
            self.paths.store(site, name, x)
            stack = tuple(rest)
        return stack

    def store_load(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Writes one local variable and reads another."""
        *rest, x = stack
        first, second = step.value
        self.paths.store(site, first, x)
        return (*rest, self.paths.variable(self.frame, second))

    def load_const(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A constant."""
        return (*stack, self.paths.constant(step.value))

    def load_global(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A global or built-in name."""
        gap = (only(NULL),) if step.name == "LOAD_GLOBAL" and step.arg & 1 else ()
        return (*stack, *gap, self.paths.of_global(site, str(step.value)))

    def push_null(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Pushes NULL."""
        return (*stack, only(NULL))

    def load_attr(self, site: Site, step: Step, stack: Stack) -> Stack:
        """An attribute; with a NULL beside it if it is called next."""
        *rest, x = stack
        called = step.name == "LOAD_METHOD" or (sys.version_info >= (3, 12) and step.arg & 1)
        gap = (only(NULL),) if called else ()
        return (*rest, *gap, self.paths.attribute(site, x, str(step.value)))

    def load_super_attr(self, site: Site, step: Step, stack: Stack) -> Stack:
        """An attribute behind a class."""
        *rest, _, cls, first = stack
        gap = (only(NULL),) if step.arg & 1 else ()
        return (*rest, *gap, self.paths.behind(site, cls, first, str(step.value)))

    def import_from(self, site: Site, step: Step, stack: Stack) -> Stack:
        """An attribute of the module on top of the stack."""
        return (*stack, self.paths.attribute(site, stack[-1], str(step.value)))

    def import_name(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A module."""
        *rest, _, names = stack
        return (*rest, self.paths.module(str(step.value), names))

    def subscript(self, site: Site, step: Step, stack: Stack) -> Stack:
        """The item under a key."""
        *rest, x, key = stack
        return (*rest, self.paths.subscript(site, x, key))

    def slice_(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A slice of a container."""
        *rest, x, low, high = stack
        return (*rest, self.paths.sliced(site, x, (low, high)))

    def binary(self, site: Site, step: Step, stack: Stack) -> Stack:
        """An operator of two operands."""
        if step.name == "BINARY_OP" and step.arg == _SUBSCRIPT:
            return self.subscript(site, step, stack)
        *rest, x, y = stack
        in_place = step.name == "BINARY_OP" and _IN_PLACE <= step.arg < _SUBSCRIPT
        return (*rest, self.paths.operate(site, (x, y), in_place))

    def unary(self, site: Site, step: Step, stack: Stack) -> Stack:
        """An operator of one operand."""
        *rest, x = stack
        return (*rest, self.paths.operate(site, (x,)))

    def truth(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Asks whether a value is true."""
        self.paths.asked(site, stack[-1])
        return stack if step.name == "TO_BOOL" else _resized(stack, step.effect)

    def identity(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Compares identities."""
        if step.name == "IS_OP":
            *rest, x, y = stack
            self.paths.compared(site, x, y)
            return (*rest, only(HOST))
        self.paths.compared(site, stack[-1], self.paths.constant(None))
        return stack[:-1]

    def contains(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Asks whether a container has an element."""
        *rest, x, container = stack
        self.paths.contains(site, container, x)
        return (*rest, only(HOST) if x | container <= {HOST} else UNKNOWN)

    def build(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A tuple, list or set of stack entries."""
        rest, parts = _split(stack, step.arg)
        return (*rest, _made(Built(parts)))

    def build_map(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A dict of stack entries."""
        count = 2 * step.arg if step.name == "BUILD_MAP" else step.arg + 1
        rest, parts = _split(stack, count)
        return (*rest, _made(Iter(union(parts) | UNKNOWN)))

    def build_text(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Text made of values, or a slice."""
        rest, parts = _split(stack, step.arg)
        if step.name == "BUILD_SLICE":
            return (*rest, self.paths.slice_of(site, parts))
        self.paths.hand(site, parts)
        return (*rest, only(HOST))

    def format(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A value as text."""
        count = 2 if step.name == "FORMAT_VALUE" and step.arg & 4 else 1
        count = 2 if step.name == "FORMAT_WITH_SPEC" else count
        rest, parts = _split(stack, count)
        self.paths.hand(site, parts)
        return (*rest, only(HOST))

    def extend(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Adds the top of the stack to a container that is being built."""
        count = 2 if step.name == "MAP_ADD" else 1
        rest, parts = _split(stack, count)
        at = len(rest) - step.arg
        new = union(parts)
        if step.name not in ("LIST_APPEND", "SET_ADD", "MAP_ADD"):
            new = self.paths.elements(site, new, values=step.name.startswith("DICT"))
        held = rest[at]
        return (*rest[:at], held | _made(Iter(new)), *rest[at + 1 :])

    def copy(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A stack entry once more."""
        return (*stack, stack[-step.arg])

    def swap(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Exchanges two stack entries."""
        out = [*stack]
        out[-1], out[-step.arg] = out[-step.arg], out[-1]
        return tuple(out)

    def pop(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Removes stack entries."""
        return _resized(stack, step.effect)

    def push(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Pushes unknown values."""
        return _resized(stack, step.effect)

    def get_iter(self, site: Site, step: Step, stack: Stack) -> Stack:
        """An iterator."""
        *rest, x = stack
        return (*rest, _made(Iter(self.paths.elements(site, x))))

    def for_iter(self, site: Site, step: Step, stack: Stack) -> Stack:
        """The next element of an iterator."""
        return (*stack, self.paths.elements(site, stack[-1]))

    def unpack(self, site: Site, step: Step, stack: Stack) -> Stack:
        """The parts of a sequence, the first on top."""
        *rest, x = stack
        count = step.arg if step.name == "UNPACK_SEQUENCE" else step.effect + 1
        exact = step.name == "UNPACK_SEQUENCE"
        parts = (
            self.paths.parts(site, x, count) if exact else (self.paths.elements(site, x),) * count
        )
        if not exact:
            parts = tuple(p | _made(Iter(p)) for p in parts)
        return (*rest, *reversed(parts))

    def keyword_names(self, site: Site, step: Step, stack: Stack) -> Stack:
        """The names of the arguments of the call that follows."""
        names: Any = step.value
        self._names = names if isinstance(names, tuple) else self.frame.code.co_consts[step.arg]
        return stack

    def call(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A call."""
        names, self._names = self._names, ()
        if step.name == "CALL_KW":
            *rest, given = stack
            parts = next((t.parts for t in given if isinstance(t, Built)), ())
            names = tuple(next(iter(part)).value for part in parts)
            stack = tuple(rest)
        rest, args = _split(stack, step.arg)
        *rest, first, second = rest
        if NULL in first:
            callee = second
        else:
            callee, args = first, args if NULL in second else (second, *args)
        by_name = dict(zip(names, args[len(args) - len(names) :], strict=True)) if names else {}
        args = args[: len(args) - len(names)]
        return (*rest, self.paths.call(site, callee, args, by_name))

    def call_spread(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A call with ``*args`` or ``**options``."""
        count = 2 if step.arg & 1 or sys.version_info >= (3, 14) else 1
        rest, given = _split(stack, count)
        *rest, first, second = rest
        callee = second if NULL in first else first
        spread = union(self.paths.elements(site, x - {NULL}) for x in given)
        return (*rest, self.paths.call(site, callee, (), {}, spread | UNKNOWN))

    def intrinsic(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A tuple made from a list keeps its elements; other intrinsics give unknown values."""
        if "LIST_TO_TUPLE" in str(step.value) or step.arg == 6 or step.name == "LIST_TO_TUPLE":
            return stack
        self.paths.hand(site, stack[-1:])
        return (*stack[:-1], UNKNOWN)

    def make_function(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A function defined inside this one."""
        *rest, code = stack
        flags = step.arg if sys.version_info < (3, 13) else 0
        count = bin(flags & 15).count("1")
        kept, given = _split(tuple(rest), count)
        defaults = given[0] if flags & 1 else None
        named = given[flags & 1] if flags & 2 else None
        return (*kept, self.paths.made(site, code, defaults, named))

    def set_function_attribute(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Defaults and annotations of a function that was just made."""
        *rest, given, function = stack
        if step.arg in (1, 2):
            self.paths.defaults(site, function, given, named=step.arg == 2)
        return (*rest, function)

    def returned(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A value that the function returns."""
        constant = step.name == "RETURN_CONST"
        x = self.paths.constant(step.value) if constant else stack[-1]
        self.paths.give(self.frame, x)
        return stack

    def yielded(self, site: Site, step: Step, stack: Stack) -> Stack:
        """A value that a generator yields."""
        self.paths.give(self.frame, only(Iter(stack[-1])))
        return (*stack[:-1], UNKNOWN)

    def store_attr(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Writes an attribute."""
        *rest, x, target = stack
        self.paths.write(site, target, x, name=str(step.value))
        return tuple(rest)

    def store_subscript(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Writes an item."""
        count = 4 if step.name == "STORE_SLICE" else 3
        rest, (x, target, *key) = _split(stack, count)
        self.paths.write(site, target, x, key=key[0] if len(key) == 1 else UNKNOWN)
        return rest

    def delete(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Deletes an attribute or an item."""
        count = 2 if step.name == "DELETE_SUBSCR" else 1
        rest, (target, *key) = _split(stack, count)
        if key:
            self.paths.write(site, target, UNKNOWN, key=key[0])
        else:
            self.paths.write(site, target, UNKNOWN, name=str(step.value))
        return rest

    def store_global(self, site: Site, step: Step, stack: Stack) -> Stack:
        """Writes a global variable."""
        if step.name == "DELETE_GLOBAL":
            self.paths.write_global(site, str(step.value), UNKNOWN)
            return stack
        *rest, x = stack
        self.paths.write_global(site, str(step.value), x)
        return tuple(rest)


def _made(thing: Any) -> Value:
    return widened(only(thing))


def _split(stack: Stack, count: int) -> tuple[Stack, Stack]:
    if count > len(stack):
        raise Lost
    return stack[: len(stack) - count], stack[len(stack) - count :]


def _resized(stack: Stack, by: int) -> Stack:
    return stack[: len(stack) + by] if by <= 0 else (*stack, *(UNKNOWN,) * by)


_GROUPS: dict[Act, str] = {
    Walk.same: _SAME,
    Walk.load_fast: "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST LOAD_DEREF "
    "LOAD_CLASSDEREF LOAD_CLOSURE LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW",
    Walk.store_fast: "STORE_FAST STORE_DEREF STORE_NAME STORE_FAST_MAYBE_NULL "
    "STORE_FAST_STORE_FAST",
    Walk.store_load: "STORE_FAST_LOAD_FAST",
    Walk.load_const: "LOAD_CONST LOAD_SMALL_INT LOAD_CONST_IMMORTAL",
    Walk.load_global: "LOAD_GLOBAL LOAD_NAME",
    Walk.push_null: "PUSH_NULL",
    Walk.load_attr: "LOAD_ATTR LOAD_METHOD",
    Walk.load_super_attr: "LOAD_SUPER_ATTR",
    Walk.import_from: "IMPORT_FROM",
    Walk.import_name: "IMPORT_NAME",
    Walk.subscript: "BINARY_SUBSCR",
    Walk.slice_: "BINARY_SLICE",
    Walk.binary: "BINARY_OP COMPARE_OP",
    Walk.unary: "UNARY_NEGATIVE UNARY_INVERT UNARY_POSITIVE UNARY_NOT",
    Walk.truth: "TO_BOOL POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE JUMP_IF_TRUE_OR_POP "
    "JUMP_IF_FALSE_OR_POP POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE "
    "POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE",
    Walk.identity: "IS_OP POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE "
    "POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE",
    Walk.contains: "CONTAINS_OP",
    Walk.build: "BUILD_TUPLE BUILD_LIST BUILD_SET",
    Walk.build_map: "BUILD_MAP BUILD_CONST_KEY_MAP",
    Walk.build_text: "BUILD_STRING BUILD_SLICE",
    Walk.format: "FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE",
    Walk.extend: "LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE",
    Walk.copy: "COPY",
    Walk.swap: "SWAP",
    Walk.pop: "POP_TOP POP_ITER END_FOR RERAISE POP_EXCEPT RAISE_VARARGS INTERPRETER_EXIT",
    Walk.push: "PUSH_EXC_INFO LOAD_ASSERTION_ERROR LOAD_BUILD_CLASS LOAD_COMMON_CONSTANT "
    "CHECK_EXC_MATCH RETURN_GENERATOR WITH_EXCEPT_START LOAD_LOCALS",
    Walk.get_iter: "GET_ITER GET_YIELD_FROM_ITER",
    Walk.for_iter: "FOR_ITER",
    Walk.unpack: "UNPACK_SEQUENCE UNPACK_EX",
    Walk.keyword_names: "KW_NAMES",
    Walk.call: "CALL CALL_KW",
    Walk.call_spread: "CALL_FUNCTION_EX",
    Walk.intrinsic: "LIST_TO_TUPLE CALL_INTRINSIC_1",
    Walk.make_function: "MAKE_FUNCTION",
    Walk.set_function_attribute: "SET_FUNCTION_ATTRIBUTE",
    Walk.returned: "RETURN_VALUE RETURN_CONST",
    Walk.yielded: "YIELD_VALUE",
    Walk.store_attr: "STORE_ATTR",
    Walk.store_subscript: "STORE_SUBSCR STORE_SLICE",
    Walk.delete: "DELETE_ATTR DELETE_SUBSCR",
    Walk.store_global: "STORE_GLOBAL DELETE_GLOBAL",
}
ACTS: dict[str, Act] = {name: act for act, names in _GROUPS.items() for name in names.split()}
