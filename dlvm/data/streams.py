"""Batches of a stream: of examples that come one after the other and are not counted before.

A generator can be read once. A function that returns a new iterator is read once for each epoch.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.trace.kinds import INDEX
from dlvm.dsl.trace.specs import concrete
from dlvm.dsl.trace.trees import flatten, labels, unflatten
from dlvm.ir import Array

from .plans import Plan

Examples = Callable[[], Any]
RAGGED = (
    "give buckets= and lengths=, which pad examples, or collate=, which makes a batch of a list"
)


def function_of(source: Any) -> Examples:
    """A stream as a function that returns an iterator."""
    return Once(source) if isinstance(source, Iterator) else source  # pyright: ignore[reportUnknownArgumentType]


def is_stream(source: Any) -> bool:
    """Whether a source is an iterator, or a function that returns one."""
    is_function = inspect.isroutine(source) or isinstance(source, functools.partial)
    return isinstance(source, Iterator) or is_function


class Once:
    """An iterator as a function that returns it, and refuses to return it again."""

    def __init__(self, examples: Iterator[Any]) -> None:
        self.examples: Iterator[Any] | None = examples

    def __call__(self) -> Iterator[Any]:
        """The iterator, at the first call."""
        examples, self.examples = self.examples, None
        if examples is None:
            raise ArgumentError(
                "batches: the iterator has been read, and can't be read again",
                remedy="give the function that makes the iterator: dlvm.batches(rows, ...), "
                "not dlvm.batches(rows(), ...)",
            )
        return examples


@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """Examples of an iterator as a source of batches."""

    examples: Examples
    size: int
    epochs: int
    last: str
    collate: Callable[[list[Any]], Any] | None
    lengths: Callable[[Any], int] | None
    bounds: tuple[int, ...] | None

    @property
    def total(self) -> None:
        """None: examples are counted by reading them."""

    def plans(self, start: int) -> Iterator[Plan]:
        """The plans from number ``start`` on; the examples of earlier ones are read and dropped."""
        number = 0
        for _ in range(self.epochs):
            for held, bound in self._epoch():
                if number >= start:
                    yield Plan(number, held, bound)
                number += 1

    def _epoch(self) -> Iterator[tuple[list[Any], int | None]]:
        """The examples of each batch, in the order in which batches are complete."""
        waiting: dict[int | None, list[Any]] = {bound: [] for bound in self.bounds or (None,)}
        for number, example in enumerate(self.examples()):
            bound = self._bound(number, example)
            waiting[bound].append(example)
            if len(waiting[bound]) == self.size:
                yield waiting[bound], bound
                waiting[bound] = []
        if self.last == "short":
            yield from ((held, bound) for bound, held in waiting.items() if held)

    def _bound(self, number: int, example: Any) -> int | None:
        """The longest length in the bucket of an example."""
        if self.lengths is None or self.bounds is None:
            return None
        length = self.lengths(example)
        if not INDEX.fits(length) or not 0 <= length <= self.bounds[-1]:
            raise ArgumentError(
                f"batches: lengths gave {length!r:.40} for example {number}, "
                f"and buckets hold lengths from 0 to {self.bounds[-1]}",
                remedy="give a last bucket that holds every length, or leave the example out",
            )
        return next(bound for bound in self.bounds if length <= bound)

    def make(self, plan: Plan) -> Any:
        """What ``collate`` makes of the examples; without it, arrays that are stacked."""
        held: Any = plan.held
        if self.collate is not None:
            return self.collate(held)
        lengths = self.lengths
        counts = [None if lengths is None else lengths(example) for example in held]
        return _stacked(held, plan.bound, counts)


def _stacked(examples: Sequence[Any], bound: int | None, lengths: Sequence[int | None]) -> Any:
    """Examples as one tree; leaves as long as their example are padded."""
    flat = [flatten(example) for example in examples]
    spec = flat[0][1]
    names = labels(spec, "example")
    for leaves, other in flat:
        if other != spec:
            raise ShapeError(
                f"batches: examples have the structures {spec} and {other}", remedy=RAGGED
            )
        if not leaves:
            raise ShapeError("batches: an example holds no array", remedy="give arrays or numbers")
    columns: list[Array] = []
    for i, name in enumerate(names):
        arrays = [concrete("batches", leaves[i], name) for leaves, _ in flat]
        padded = [_padded(x, n, bound) for x, n in zip(arrays, lengths, strict=True)]
        columns.append(_column(padded, name))
    return unflatten(spec, columns)


def _padded(x: Array, length: int | None, bound: int | None) -> Array:
    if bound is None or length is None or not x.ndim or len(x) != length:
        return x
    return np.concatenate([x, np.zeros((bound - length, *x.shape[1:]), x.dtype)])


def _column(arrays: list[Array], name: str) -> Array:
    for x in arrays:
        if x.shape != arrays[0].shape:
            raise ShapeError(
                f"batches: {name} has the shape {arrays[0].shape} in one example and "
                f"{x.shape} in another",
                remedy=RAGGED,
            )
    return np.stack(arrays)
