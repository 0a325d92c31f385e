"""Records of calls on plain arrays: the references that a call makes are called again.

To find the operations of ``dlvm.exp(x)``, ``written`` traces the function, which takes ten times as
long as the operations take for small arrays. They depend on the types and the layout of arrays, and
on the values of all other arguments. The second call with these makes a record of the operations,
and later calls run it. A record is made only if the function reads no element of an array: it must
write the same operations for arrays of other elements. A call that a record can't compute is
written again, which then decides about the error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dlvm.base.debugging import contexts
from dlvm.base.floating import standard_mode
from dlvm.dsl.trace.defaults import default_float
from dlvm.ir import F64, Array, DType, Function, Module, Op, Value
from dlvm.ir.equality import same_entries
from dlvm.ir.interpret import Interpreter
from dlvm.ops.families import runs_reference

from .written import Written, lent

Compute = Callable[[tuple[Any, ...], dict[str, Any]], Any]
Ours = Callable[[Any, Any], tuple[tuple[Any, ...], dict[str, Any]]]
Key = tuple[Any, ...]
KEPT = 64
"""Number of calls that are remembered of each function."""
LARGEST = 1 << 22
"""Size in bytes of the largest array in a call that is recorded: a record saves 0.1 ms."""
LONGEST = 512
"""Number of values in a call that is recorded, those in lists counted each."""
SMALL = 1 << 12
"""Size in bytes of the largest array that is computed once, when the record is made."""
SETTINGS = frozenset((int, bool, str, type(None), type))


Step = tuple[Callable[..., Any], tuple[int, ...], bool]
"""One operation: what runs it, where its operands are among the arrays known so far, and whether
its results are a tuple of several."""


@dataclass(frozen=True, slots=True)
class Record:
    """The operations of a call: ``constants`` follow the arguments, then the results of each step.

    ``results`` are places, each with the operand that holds its memory; ``tree`` is None for one.
    """

    constants: tuple[Array, ...]
    steps: tuple[Step, ...]
    results: tuple[tuple[int, str], ...]
    tree: Any

    def __call__(self, arrays: Sequence[Array]) -> Any:
        """The results for the arrays among the arguments."""
        known = [*arrays, *self.constants]
        with np.errstate(all="ignore"), standard_mode():
            for run, operands, several in self.steps:
                out = run(*[known[i] for i in operands])
                if several:
                    known += map(np.asarray, out)
                else:
                    known.append(np.asarray(out))
        found = [lent(known[i], arrays, held) for i, held in self.results]
        return found[0] if self.tree is None else self.tree.unflatten(found)


class Records:
    """Computes a public function on plain arrays; its results may be ``views``.

    ``ours`` makes what users spell the arguments of ``fn``.
    """

    def __init__(self, fn: Callable[..., Any], ours: Ours, views: bool) -> None:
        self.views = views
        self.ours = ours
        self._fn = fn
        self._kept: dict[Key, Record | None] = {}
        self._seen: set[Key] = set()

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results for plain arguments."""
        arrays: list[Array] = []
        key = None if contexts else _key_of_call(args, kwargs, arrays)
        record = None if key is None else self._kept.get(key)
        if record is not None:
            try:
                return record(arrays)
            except Exception:  # the error is that of the call as written
                pass
        elif key in self._seen and key not in self._kept:
            return self._recorded(key, args, kwargs, arrays)
        elif key is not None and key not in self._seen:
            self._remember(key)
        return self._written(args, kwargs).computed(self.views)

    def _written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Written:
        args, kwargs = self.ours(args, kwargs)
        return Written.of(self._fn, args, kwargs)

    def _remember(self, key: Key) -> None:
        if len(self._seen) >= KEPT:
            self._seen.clear()
            self._kept.clear()
        self._seen.add(key)

    def _recorded(
        self, key: Key, args: tuple[Any, ...], kwargs: dict[str, Any], arrays: Sequence[Array]
    ) -> Any:
        """The results of a call of which a record is made."""
        written = self._written(args, kwargs)
        found = written.computed(self.views)
        self._kept[key] = self._record(written, args, kwargs, arrays)
        return found

    def _record(
        self, written: Written, args: Any, kwargs: Any, arrays: Sequence[Array]
    ) -> Record | None:
        """The record of what was written; None if that depends on elements of the arrays."""
        places: tuple[int, ...] | None = ()
        if not all(map(_is_plain, written.module.main.ops)):
            return None
        for extreme in (0, 1):
            others = _others(arrays, extreme)
            rest = iter(others)
            try:
                again = self._written(_with(args, rest), _with(kwargs, rest))
            except Exception:  # elements were read, and others are an error
                return None
            places = _places(again.given, others)
            if places is None or not _alike(written, again):
                return None
        held = written.held if self.views else ("",) * len(written.held)
        return _record(written.module.main, held, written.tree, places, len(arrays))


# -- what tells calls apart ------------------------------------------------------------------------


def _key_of_call(args: tuple[Any, ...], kwargs: dict[str, Any], arrays: list[Array]) -> Key | None:
    """What the operations of a call depend on; None if that is unknown. Collects its arrays."""
    found: list[Any] = [len(args), *kwargs] if kwargs else [len(args)]
    if not _keys(args, arrays, found) or (kwargs and not _keys(kwargs.values(), arrays, found)):
        return None
    if (default := default_float()) is not F64:
        found.append(default)
    if len(arrays) > 1 and (arrays[0] is arrays[1] or len(set(map(id, arrays))) < len(arrays)):
        found += [next(i for i, x in enumerate(arrays) if x is y) for y in arrays]
    return tuple(found)


def _keys(values: Collection[Any], arrays: list[Array], found: list[Any]) -> bool:
    """Adds the keys of some values to those found; False if one has none, or they are too many."""
    if len(found) + len(values) > LONGEST:
        return False
    for x in values:
        cls = x.__class__
        if cls is np.ndarray:
            if x.nbytes > LARGEST:
                return False
            arrays.append(x)
            found.append((x.dtype, x.shape, x.strides))
        elif cls in SETTINGS:
            found.append((cls, x))
        elif cls is float:
            found.append((cls, x or str(x)))  # zeros have signs
        elif cls is tuple or cls is list:
            found.append((cls, len(x)))
            if not _keys(x, arrays, found):
                return False
        elif isinstance(x, np.generic):
            arrays.append(np.asarray(x))  # pyright: ignore[reportUnknownArgumentType]
            found.append(cls)
        elif isinstance(x, np.dtype | DType):
            found.append((np.dtype, x))
        else:
            return False
    return True


# -- what a record needs ---------------------------------------------------------------------------


def _is_plain(op: Op) -> bool:
    """Whether an operation is computed from its operands alone, by code of ours."""
    return not (op.holds_regions or op.has_effect or op.asks_python or op.enters)


def _others(arrays: Sequence[Array], extreme: int) -> list[Array]:
    """Arrays of the same types and layouts whose elements are extreme; the same for the same."""
    made: dict[int, Array] = {}
    for x in arrays:
        if id(x) not in made:
            made[id(x)] = _other(x, extreme)
    return [made[id(x)] for x in arrays]


def _other(x: Array, extreme: int) -> Array:
    low, high = byte_bounds(x) if x.size else (0, 0)
    number: Any = (np.nan, -np.inf)[extreme]
    if x.dtype.kind in "iu":
        number = (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)[extreme]
    elif x.dtype.kind == "b":
        number = bool(extreme)
    memory = np.full((high - low) // x.itemsize + 1, number, x.dtype)
    start = x.__array_interface__["data"][0] - low if x.size else 0
    return np.ndarray(x.shape, x.dtype, memory, start, x.strides)


def _with(values: Any, arrays: Iterator[Array]) -> Any:
    """Arguments with other arrays in the place of theirs."""
    cls = values.__class__
    if cls is tuple or cls is list:
        found = [_with(x, arrays) for x in values]
        return found if cls is list else tuple(found)
    if cls is dict:
        return {name: _with(x, arrays) for name, x in values.items()}
    return next(arrays) if isinstance(values, np.ndarray | np.generic) else values


def _places(given: Sequence[Array], arrays: Sequence[Array]) -> tuple[int, ...] | None:
    """Which of the arrays each one given is; None if one is none of them."""
    found = [next((i for i, y in enumerate(arrays) if x is y), -1) for x in given]
    return None if -1 in found else tuple(found)


def _alike(a: Written, b: Written) -> bool:
    return (
        a.held == b.held and a.tree == b.tree and same_entries(a.module.entries, b.module.entries)
    )


def _record(
    function: Function, held: Sequence[str], tree: Any, places: Sequence[int], arrays: int
) -> Record:
    """The record of operations, whose parameters are at these places among the arguments.

    What constants alone decide is computed here.
    """
    machine = Interpreter(Module((function,)))
    fixed: dict[Value, Array] = {}
    later: list[Op] = []
    with np.errstate(all="ignore"), standard_mode():
        for op in function.ops:
            if all(v in fixed for v in op.operands) and _is_small(op):
                out = op.run(machine, *(fixed[v] for v in op.operands))
                fixed |= {r: _frozen(x) for r, x in zip(op.results, out, strict=True)}
            else:
                later.append(op)
    at = dict[Value, int](zip(function.params, places, strict=True))
    for value in (*fixed, *(r for op in later for r in op.results)):
        at[value] = arrays + len(at) - len(function.params)
    steps = tuple(_step(op, machine, at) for op in later)
    results = tuple((at[r], h) for r, h in zip(function.results, held, strict=True))
    one = len(results) == 1 and tree.is_leaf()
    return Record(tuple(fixed.values()), steps, results, None if one else tree)


def _step(op: Op, machine: Interpreter, at: Mapping[Value, int]) -> Step:
    """The step of an operation: its reference itself, unless that is given wider operands."""
    run = op.reference if runs_reference(op) else functools.partial(_run, op, machine)
    return run, tuple(at[v] for v in op.operands), len(op.results) > 1


def _run(op: Op, machine: Interpreter, *operands: Array) -> Any:
    (first, *others) = found = op.run(machine, *operands)
    return found if others else first


def _is_small(op: Op) -> bool:
    return all(math.prod(t.shape) * t.dtype.bytes <= SMALL for t in op.result_types)


def _frozen(x: Any) -> Array:
    found = np.asarray(x).view()
    found.flags.writeable = False
    return found
