"""The interpreter: runs any module by the NumPy references of its operations.

It is the specification that every pass and every target is checked against. It binds the
symbols of a function's parameter types to the sizes of its arguments, checks that each
reference gives exactly the type that was inferred, and gives errors the user's line.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dlvm.base.errors import CompilerError, IRError, ShapeError, TooDeep, UserError
from dlvm.base.floating import standard_mode

from .core import Function, Op, Value, as_tuple
from .dims import evaluate
from .module import Module
from .taps import say
from .types import Array, TensorType, dtype_of, known
from .unify import unify

MAX_DEPTH = 1000
"""How deep calls may nest in the interpreter, whose own stack is Python's."""
FRAMES = 32
"""Frames of Python that a call may take, with the branches and loops around it."""


def too_deep(name: str) -> TooDeep:
    """The error for a function that calls itself too often."""
    return TooDeep(
        f"{name} calls itself too deep: there is no room for another call",
        remedy="end the recursion sooner, or write it as a loop with a stack of its own",
    )


class _Room:
    """How many runs need a deep stack of Python, and the limit that comes back after them."""

    lock = threading.Lock()
    runs = 0
    before = 0


@contextmanager
def deep_enough() -> Generator[None]:
    """While a module runs Python's stack has room for as many calls as may nest."""
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
    """One run: the module, the sizes of symbols, and where effects go."""

    module: Module
    symbols: dict[str, int] = field(default_factory=dict[str, int])
    write: Callable[[str], None] = say
    depth: int = 0

    def call(self, fn: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Run a function or region whose symbols are known."""
        env: dict[Value, Array] = dict(zip(fn.params, arrays, strict=True))
        for op in fn.ops:
            outputs = self.step(op, [env[v] for v in op.operands])
            env.update(zip(op.results, outputs, strict=True))
        return tuple(env[r] for r in fn.results)

    def enter(self, name: str, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Run a function of the module with symbols of its own, as a call does."""
        fn = self.module.function(name)
        types = [p.type for p in fn.params]
        names = [p.name or f"argument {i}" for i, p in enumerate(fn.params)]
        if self.depth == MAX_DEPTH:
            raise too_deep(name)
        inner = replace(self, symbols=bind(types, arrays, names), depth=self.depth + 1)
        with nullcontext() if self.depth else standard_mode():
            return inner.call(fn, arrays)

    def step(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        """Run one operation and check what it gave."""
        try:
            outputs = op.run(self, *operands)
        except UserError as error:
            raise error.located(op.origin) from None
        except (CompilerError, MemoryError):
            raise
        except Exception as error:
            raise CompilerError(f"the reference of {op.name} failed: {error!r}") from error
        checked = tuple(np.asarray(o) for o in outputs)
        for found, expected in zip(checked, op.result_types, strict=True):
            if found.dtype != expected.dtype.numpy or found.shape != self.shape(expected):
                raise CompilerError(
                    f"the reference of {op.name} gave {found.dtype}{list(found.shape)}, "
                    f"its type is {expected}"
                )
        return checked

    def shape(self, t: TensorType) -> tuple[int, ...]:
        """The sizes of a type in this run."""
        return tuple(evaluate(d, self.symbols) for d in t.shape)

    def concrete(self, op: Op) -> Op:
        """The operation with every symbolic size in its attributes replaced by its value."""
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


def bind(
    types: Sequence[TensorType], arrays: Sequence[Array], names: Sequence[str]
) -> dict[str, int]:
    """The size of every symbol, from the shapes of arguments; an error names the equation."""
    given: list[TensorType] = []
    for t, array, name in zip(types, arrays, names, strict=True):
        dtype = dtype_of(array)
        if dtype is None:
            raise ShapeError(f"{name}: expected {t}, found {array.dtype} elements")
        given.append(TensorType(dtype, array.shape))
    return {symbol: int(size) for symbol, size in unify(types, given, names).items()}


def run(module: Module, name: str, arrays: Sequence[Any]) -> tuple[Array, ...]:
    """Run a function of the module on arrays in parameter order."""
    fn = module.function(name)
    if len(arrays) != len(fn.params):
        raise IRError(f"@{name} takes {len(fn.params)} arguments, found {len(arrays)}")
    inputs = [np.asarray(a) for a in arrays]
    with np.errstate(all="ignore"), deep_enough():
        return Interpreter(module).enter(name, inputs)


def elementwise(fn: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Run a region of scalars on whole arrays at once, element by element."""
    env: dict[Value, Any] = dict(zip(fn.params, arrays, strict=True))
    for op in fn.ops:
        out = op.reference(*(env[v] for v in op.operands))
        for result, array in zip(op.results, as_tuple(out), strict=True):
            env[result] = np.asarray(array, result.type.dtype.numpy)
    return tuple(env[r] for r in fn.results)
