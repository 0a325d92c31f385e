"""The interpreter: runs any module by the NumPy references of its operations.

It is the specification that every pass and every target is checked against. It binds the symbols in
a function's parameter types to the sizes of its arguments, checks that each reference returns
exactly the inferred type, and reports errors at the user's line.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dlvm.base.errors import CompilerError, IRError, OutOfMemory, ShapeError, TooDeep, UserError
from dlvm.base.floating import standard_mode
from dlvm.base.handlers import raised_by_handler

from .core import Form, Function, Op, Value, as_tuple
from .module import Module, hooks
from .sizes.dims import evaluate
from .taps import say
from .types import Array, TensorType, dtype_of, known
from .unify import unify

MAX_DEPTH = 1000
"""Calls that may be active at once in the interpreter, which recurses in Python."""
FRAMES = 32
"""Python frames allowed for each call, including the branches and loops around it."""


def too_deep(name: str) -> TooDeep:
    """The error for a function whose recursion is too deep."""
    return TooDeep(
        f"the recursion of {name} is too deep: the stack has no space for another call",
        remedy="end the recursion sooner, or write it as a loop with a stack of its own",
    )


class _Room:
    """How many runs need a deep stack of Python, and the limit that comes back after them."""

    lock = threading.Lock()
    runs = 0
    before = 0


@contextmanager
def deep_enough() -> Generator[None]:
    """Raises Python's recursion limit while a module runs, so that MAX_DEPTH calls fit."""
    with _Room.lock:
        if not _Room.runs:
            _Room.before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_Room.before, MAX_DEPTH * FRAMES))
        _Room.runs += 1
    try:
        yield
    finally:
        with _Room.lock:
            _Room.runs -= 1
            if not _Room.runs:
                sys.setrecursionlimit(_Room.before)


@dataclass(slots=True)
class Interpreter:
    """One run: the module, the sizes of the symbols, and the function that prints effects."""

    module: Module
    symbols: dict[str, int] = field(default_factory=dict[str, int])
    write: Callable[[str], None] = say
    depth: int = 0

    def call(self, fn: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Runs a function or region whose symbols have sizes."""
        env: dict[Value, Array] = dict(zip(fn.params, arrays, strict=True))
        step = self.step
        for op in fn.ops:
            found = step(op, [env[v] for v in op.operands])
            if len(found) == 1:
                env[op.results[0]] = found[0]
            else:
                env.update(zip(op.results, found, strict=True))
        return tuple(env[r] for r in fn.results)

    def enter(self, name: str, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Runs a function of the module as a call does: with its own symbols, one level deeper."""
        fn = self.module.function(name)
        types = [p.type for p in fn.params]
        names = [p.name or f"argument {i}" for i, p in enumerate(fn.params)]
        if self.depth == MAX_DEPTH:
            raise too_deep(name)
        inner = replace(self, symbols=bind(types, arrays, names), depth=self.depth + 1)
        with nullcontext() if self.depth else standard_mode():
            return inner.call(fn, arrays)

    def step(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        """Runs one operation and checks the types of its results."""
        try:
            checked = tuple(map(np.asarray, op.run(self, *operands)))
        except UserError as error:
            raise error.located(op.origin) from None
        except MemoryError as error:
            raise self._starved(op).located(op.origin) from error
        except (CompilerError, RecursionError):
            raise
        except Exception as error:
            if raised_by_handler(error):
                raise
            raise _wrong(op, f"the reference of {op.name} raised {error!r}") from error
        if [(x.shape, x.dtype) for x in checked] != (self._forms(op) if self.symbols else op.forms):
            wanted = ", ".join(map(str, op.result_types)) or "no result"
            told = ", ".join(f"{found.dtype}{list(found.shape)}" for found in checked)
            raise _wrong(
                op, f"expected the reference of {op.name} to return {wanted}, found {told}"
            )
        return checked

    def _starved(self, op: Op) -> OutOfMemory:
        """The error for an operation for whose results no memory is left."""
        shapes = ((t, self.shape(t)) for t in op.result_types)
        sizes = (
            f"{math.prod(shape) * t.dtype.bytes:,} bytes for {t.dtype}[{','.join(map(str, shape))}]"
            for t, shape in shapes
        )
        return OutOfMemory(f"{op.name}: no memory is left; its result takes {', '.join(sizes)}")

    def _forms(self, op: Op) -> list[Form]:
        """What the results look like, with the sizes of this run."""
        return [(self.shape(t), form[1]) for t, form in zip(op.result_types, op.forms, strict=True)]

    def shape(self, t: TensorType) -> tuple[int, ...]:
        """The shape of a type, with the sizes of this run."""
        return tuple(evaluate(d, self.symbols) for d in t.shape)

    def concrete(self, op: Op) -> Op:
        """The operation with the sizes of this run in place of symbols in its attributes."""
        if not self.symbols:
            return op
        changed = {
            name: new
            for name, value in op.attributes.items()
            if (new := known(value, self.symbols)) is not value
        }
        if not changed:
            return op
        copy = object.__new__(type(op))
        copy.__dict__.update(op.__dict__)
        copy.__dict__.update(changed)
        return copy


def _wrong(op: Op, what: str) -> Exception:
    """The error for a reference that fails: the user's where the operation is."""
    if not op.asks_python:
        return CompilerError(what)
    remedy = f"correct reference() or infer() of the class {type(op).__name__}"
    return UserError(what, remedy=remedy).located(op.origin)


def bind(
    types: Sequence[TensorType], arrays: Sequence[Array], names: Sequence[str]
) -> dict[str, int]:
    """The size of every symbol, from the shapes of the arguments; an error names the equation."""
    pairs = list(zip(types, arrays, strict=True))
    if all(t.shape == array.shape and t.dtype.numpy == array.dtype for t, array in pairs):
        return {}
    given: list[TensorType] = []
    for t, array, name in zip(types, arrays, names, strict=True):
        dtype = dtype_of(array)
        if dtype is None:
            raise ShapeError(f"{name}: expected {t}, found {array.dtype} elements")
        given.append(TensorType(dtype, array.shape))
    return {symbol: int(size) for symbol, size in unify(types, given, names).items()}


def run(module: Module, name: str, arrays: Sequence[Any]) -> tuple[Array, ...]:
    """Runs a function of the module on arrays in the order of its parameters."""
    fn = module.function(name)
    if len(arrays) != len(fn.params):
        raise IRError(f"@{name}: expected {len(fn.params)} arguments, found {len(arrays)}")
    inputs = [np.asarray(a) for a in arrays]
    with np.errstate(all="ignore"), deep_enough():
        return Interpreter(module).enter(name, inputs)


def elementwise(fn: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Runs a region of scalar operations on whole arrays, element by element."""
    env: dict[Value, Any] = dict(zip(fn.params, arrays, strict=True))
    for op in fn.ops:
        out = op.reference(*(env[v] for v in op.operands))
        for result, array in zip(op.results, as_tuple(out), strict=True):
            env[result] = np.asarray(array, result.type.dtype.numpy)
    return tuple(env[r] for r in fn.results)


hooks.run = run
