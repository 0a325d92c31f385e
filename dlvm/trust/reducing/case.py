"""A case: a program with arguments, from which steps make smaller cases.

A step is a function that makes a smaller case, and it is tried blindly: it may raise, its program
may be invalid, and the caller checks whether the case still fails in the same way. If an operation
is removed, its results become parameters whose arguments are the values it computed, so the rest
sees the same numbers as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dlvm.ad import expand
from dlvm.base.errors import DlvmError
from dlvm.ir import BOOL, F64, I64, Array, Declaration, Function, Module, Param, Value
from dlvm.ir.interpret import bind
from dlvm.ir.sizes.dims import symbols
from dlvm.ops import Constant
from dlvm.trust.rounding import Run

Steps = Iterator[Callable[[], "Case"]]


@dataclass(frozen=True)
class Case:
    """A program and the arguments of its first function."""

    module: Module
    arrays: tuple[Array, ...]

    @property
    def main(self) -> Function:
        """The first function."""
        return self.module.main

    @property
    def ops(self) -> int:
        """The number of operations, nested regions included."""
        return sum(1 for fn in self.module.functions for _ in fn.walk())

    @property
    def weight(self) -> tuple[int, ...]:
        """The size of a case, most important measure first, for comparison.

        The measures are operations, entries, values, symbols, elements, unusual types and numbers.
        """
        values = len(self.main.params) + len(self.main.results)
        types = [p.type for p in self.main.params]
        types += [t for op in self.main.walk() for t in op.result_types]
        named = sum(len([*symbols(d)]) for t in types for d in t.shape)
        numbers = [*self.arrays, *(op.value for op in self.main.walk() if isinstance(op, Constant))]
        elements = sum(a.size for a in numbers)
        extents = sum(d for t in types for d in t.shape if isinstance(d, int))
        odd = sum(t.dtype not in (F64, I64, BOOL) for t in types)
        wide = [a.astype(np.float64) for a in numbers]
        hard = sum(int(np.count_nonzero(a != np.round(a))) for a in wide)
        whole = sum(float(np.abs(a).sum()) for a in wide)
        ops = self.ops
        trouble = (hard, int(whole)) if np.isfinite(whole) else (hard + 1, 0)
        return ops, len(self.module.entries), values, named, elements + extents, odd, *trouble

    @cached_property
    def run(self) -> Run:
        """A run that records the operands of every operation and region, as far as it gets."""
        machine = Run(Module(()), seen={})
        try:
            machine.module = expand(self.module)
            with np.errstate(all="ignore"):
                machine.enter(self.main.name, [np.array(a) for a in self.arrays])
        except Exception:  # the program may fail; what ran before is recorded
            return machine
        return machine

    def with_main(self, fn: Function, more: Mapping[Param, Array] | None = None) -> Case:
        """The case with another first function; ``more`` are the arguments of new parameters."""
        known = dict(zip(self.main.params, self.arrays, strict=True)) | dict(more or {})
        entries = [_redeclared(e, self.main, fn) for e in self.module.entries if e is not self.main]
        return Case(Module((fn, *entries)), tuple(known[p] for p in fn.params))


def _redeclared(entry: Any, old: Function, new: Function) -> Any:
    """A declaration adapted to new parameters and results of the function that it is of."""
    if not isinstance(entry, Declaration) or entry.of != old.name:
        return entry
    params = {p: i for i, p in enumerate(new.params)}
    wrt = tuple(params[old.params[i]] for i in entry.wrt if old.params[i] in params)
    results = _places(old.results, new.results)
    keep = tuple(results[i] for i in entry.keep if i in results)
    axes = entry.axes
    if axes:
        given = dict(zip(old.params, axes, strict=True))
        axes = tuple(given.get(p) for p in new.params)
    return replace(entry, wrt=wrt, keep=keep, axes=axes)


def _places(old: Sequence[Value], new: Sequence[Value]) -> dict[int, int]:
    """The new positions of the old results; repeated results keep their order."""
    left: dict[Value, list[int]] = {}
    for i, value in enumerate(new):
        left.setdefault(value, []).append(i)
    return {i: left[value].pop(0) for i, value in enumerate(old) if left.get(value)}


def sizes_of(case: Case) -> dict[str, int]:
    """The sizes of the first function's symbols, for its arguments."""
    params = case.main.params
    try:
        return bind([p.type for p in params], case.arrays, [p.name for p in params])
    except DlvmError:
        return {}
