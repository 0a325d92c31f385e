"""Scopes: they collect the operations of a trace while Python runs, one scope inside another.

A scope collects the operations of one function or region. A value of an outer scope that is
used in an inner one is lifted: each scope on the way gets a parameter for it and remembers what
it stands for, so that regions are closed and captures are explicit operands. This module
knows values, not the staged arrays that users see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeGuard, TypeVar

import numpy as np

from dlvm.base.elsewhere import Elsewhere
from dlvm.base.errors import CompilerError, DTypeError, Origin, TraceError, UserError
from dlvm.base.progress import doing
from dlvm.dsl.words.origins import origin_in as origin_in
from dlvm.dsl.words.origins import steps_of_users
from dlvm.dsl.words.origins import user_origin as user_origin
from dlvm.ir import (
    NUMBERS,
    TAPE,
    Array,
    Builder,
    Declaration,
    DType,
    Op,
    Param,
    TensorType,
    Value,
    dtype_of,
    literal,
)
from dlvm.ir.core import MAX_NESTING, Entry
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ops import Constant

T = TypeVar("T", bound=Array | Elsewhere)
E = TypeVar("E", bound=UserError)
EACH = 256
"""Operations of a scope after which a trace may report its progress."""


class Recorder(Builder):
    """A builder that stamps every operation with the user's line."""

    def append(self, op: Op) -> None:
        """Add an operation, as its constructor does."""
        if op.origin is None:
            op.origin = self.origin or user_origin()
        self.ops.append(op)
        if not len(self.ops) % EACH:
            doing("tracing", self.ops.__len__)


def plain_name(name: str) -> str:
    """A name of letters, digits and underscores for IR text."""
    letters = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return "_".join(part for part in letters.split("_") if part) or "f"


def is_array(x: Any) -> TypeGuard[Array]:
    """Whether something is a NumPy array."""
    return isinstance(x, np.ndarray)


def is_sequence(x: Any) -> TypeGuard[Sequence[Any]]:
    """Whether something is a list or a tuple."""
    return isinstance(x, list | tuple)


def type_of(array: Array | Elsewhere, label: str = "") -> TensorType:
    """The type that an array has in a program."""
    dtype = dtype_of(ordinary(array, label).dtype)
    if dtype is None or dtype is TAPE:
        raise DTypeError(
            f"{label or 'an array'} has elements of type {array.dtype}; there are "
            f"{', '.join(map(str, NUMBERS))}",
            origin=user_origin(),
            remedy=_converted(array, label or "x"),
        )
    return TensorType(dtype, array.shape)


def ordinary(array: T, label: str = "") -> T:
    """The array itself; a subclass whose operations have another meaning is refused."""
    x = label or "x"
    if hasattr(array, "filled"):  # asking for np.ma would import it
        raise DTypeError(
            f"{label or 'an array'} is a masked array, and its mask would be lost",
            origin=user_origin(),
            remedy=f"pass {x}.data and ~{x}.mask, and give where= to reductions",
        )
    if isinstance(array, np.matrix):
        raise DTypeError(
            f"{label or 'an array'} is a np.matrix, whose * is a product of matrices",
            origin=user_origin(),
            remedy=f"pass np.asarray({x}), and write @ for products of matrices",
        )
    return array


def _converted(array: Array | Elsewhere, x: str) -> str:
    """The remedy: how to convert an array of elements that dlvm does not have."""
    if not array.dtype.isnative and array.dtype.kind in "iuf":
        return f"swap its bytes: {x}.astype({x}.dtype.name)"
    if array.dtype.kind == "c":
        return f"pass its parts as two arrays, {x}.real and {x}.imag"
    if array.dtype.kind in "mM":
        return f"count in units: {x}.astype(np.int64)"
    return f"make it an array of numbers: {x}.astype(np.float64)"


@dataclass(frozen=True, slots=True)
class Captured:
    """An array from outside a trace that became a hidden argument: its path and its parameter."""

    path: str
    array: Array
    param: Param


@dataclass(frozen=True, slots=True)
class Call:
    """A call or operator in the user's code: the function's name, the line, the instruction.

    ``operand`` is the place of the operand of interest, the first one being 0.
    """

    name: str
    origin: Origin
    step: tuple[CodeType, int] | None
    operand: int = 0


@dataclass(frozen=True, slots=True)
class Accident:
    """What made values of a ``narrow`` type f64: ``kind`` is a number of NumPy's, whole numbers
    or a default; ``text`` is the operation that widened them.
    """

    kind: str
    cause: Call
    narrow: DType
    text: str


class Trace:
    """The state that all scopes of one trace share: functions made so far, and notes
    for the user.
    """

    def __init__(
        self,
        label: str,
        find: Callable[[Array], str | None],
        known: frozenset[int] = frozenset(),
        mesh: Mesh | None = None,
    ) -> None:
        self.label = label
        self.mesh = mesh
        """The mesh whose ranks run the program."""
        self.find = find
        self.known = known
        self.entries: list[Entry] = []
        self.names: set[str] = set()
        self.arrays: dict[int, Captured] = {}
        self.taken: set[tuple[CodeType, int, int]] = set()
        """The code and offset at which each array was captured, with the array's identity."""
        self.constants: list[tuple[TensorType, Origin]] = []
        self.widenings: list[tuple[str, Origin]] = []
        self.by_default: dict[Value, Call] = {}
        """Values whose element type is a default, with the call that made them."""
        self.counted: dict[Value, Call] = {}
        """Integers and bools that promotion has made f64, with the operation that did."""
        self.wide: set[Value] = set()
        """Values that are f64 because the user said so."""
        self.accident: Accident | None = None
        """What first made f32 or halves f64 although the user did not say so."""
        self.refused: list[tuple[str, str | None, Origin]] = []
        """Messages, remedies and lines of refusals, which end the trace unless one is caught."""
        self.memo: dict[Any, Any] = {}
        self.open: list[Any] = []
        self.main: Any = None
        self.python: Any = None
        self.sources: dict[Value, tuple[Value, Scope]] = {}
        """The outer values for which lifted parameters of inner scopes stand."""
        self.inputs: dict[Param, Any] = {}
        """The names of the other parameters of scopes, and the values for which they stand."""

    def is_known(self, array: Array) -> bool:
        """Whether an array, or the array of which it is a view, is a constant of the function."""
        while id(array) not in self.known and isinstance(array.base, np.ndarray):
            array = array.base
        return id(array) in self.known

    def forget(self) -> None:
        """Releases the objects that were read to find captured state, when the trace is done."""
        self.find = _found_before
        self.taken.clear()

    def release(self) -> None:
        """Releases what was captured, when the program is compiled: each call reads it again."""
        self.forget()
        self.arrays.clear()
        self.memo.clear()

    def mark(self) -> tuple[list[Entry], set[str], dict[Any, Any]]:
        """The number of functions written so far, to which ``reset`` can return."""
        return list(self.entries), set(self.names), dict(self.memo)

    def reset(self, mark: tuple[list[Entry], set[str], dict[Any, Any]]) -> None:
        """Forgets the functions written since a mark."""
        self.entries, self.names, self.memo = list(mark[0]), set(mark[1]), dict(mark[2])

    def unique(self, name: str) -> str:
        """A name for a function that no other one of the module has."""
        stem = plain_name(name)
        n, found = 1, stem
        while found in self.names:
            n, found = n + 1, f"{stem}_{n}"
        self.names.add(found)
        return found

    def declare(self, kind: str, of: str, **options: Any) -> Declaration:
        """A derived function of the module, for a pass to fill in; the same one if asked again."""
        key = (kind, of, tuple(sorted(options.items())))
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = Declaration(kind, self.unique(f"{kind}_{of}"), of, **options)
            self.entries.append(found)
        return found


def _found_before(array: Array) -> str | None:
    raise CompilerError("an array was captured after the trace was done")


class Scope:
    """The operations of one function or region while its Python runs."""

    def __init__(self, trace: Trace, parent: Scope | None, label: str) -> None:
        self.trace = trace
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.label = label
        self.root: Scope = self if parent is None else parent.root
        self.builder = Recorder()
        self.params: tuple[Param, ...] = ()
        self.lifted: dict[Value, Param] = {}
        self.alive = False
        self.symbolic = False
        self._tokens: list[Token[Scope | None]] = []

    def __enter__(self) -> Scope:
        if self.depth > MAX_NESTING:
            raise TraceError(
                f"control flow nests more than {MAX_NESTING} deep in {self.label}",
                origin=user_origin(),
                remedy="write the nesting as a loop: dlvm.scan or dlvm.while_loop",
            )
        self._tokens.append(_current.set(self))
        self.builder.__enter__()
        self.alive = True
        return self

    def __exit__(self, *error: object) -> None:
        self.alive = False
        self.builder.__exit__(*error)
        _current.reset(self._tokens.pop())

    def lift(self, value: Value, owner: Scope) -> Value:
        """A value of this scope or of one around it, as a value of this scope."""
        if owner is self:
            return value
        if self.parent is None:
            raise CompilerError(f"{value!r} was lifted out of its trace")
        outer = self.parent.lift(value, owner)
        found = self.lifted.get(outer)
        if found is None:
            name = outer.name if isinstance(outer, Param) else f"outer_{len(self.lifted)}"
            found = self.lifted[outer] = Param(outer.type, name, origin=outer.origin)
            self.trace.sources[found] = (value, owner)
        return found

    def within(self, owner: Scope) -> bool:
        """Whether a scope is this one or around it."""
        scope: Scope | None = self
        while scope is not None and scope is not owner:
            scope = scope.parent
        return scope is owner

    def capture(self, array: Array) -> Value:
        """An array from outside the trace: a hidden argument if it has a name, else a constant."""
        trace, key = self.trace, id(array)
        known = trace.arrays.get(key)
        if known is None:
            path = trace.find(array)
            if path is None:
                return self._constant(array)
            param = Param(type_of(array), f"captured_{plain_name(path)}")
            known = trace.arrays[key] = Captured(path, array, param)
        trace.taken.update((code, at, key) for code, at in steps_of_users())
        return self.lift(known.param, self.root)

    def _constant(self, array: Array) -> Value:
        dtype = type_of(array).dtype
        if not self.trace.is_known(array):
            op = Constant(literal(array, dtype))
            self.trace.constants.append((op.type, user_origin()))
            return op
        fixed = array.dtype == dtype.numpy and not array.flags.writeable
        return Constant(array if fixed else literal(array, dtype), known=True)


_current: ContextVar[Scope | None] = ContextVar("dlvm_scope", default=None)


def current() -> Scope | None:
    """The scope that is being traced now, if any."""
    return _current.get()


def refusal(error: E) -> E:
    """The error itself, noted in the trace that it ends unless the user's code catches it."""
    scope = current()
    if scope is not None and error.origin is not None:
        scope.trace.refused.append((error.message, error.remedy, error.origin))
    return error
