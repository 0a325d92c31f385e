"""Batches of the rows of arrays: shuffled, drawn with weights, or in buckets by length.

The order of the rows follows from the key and the number of the epoch alone. So the number of a
batch says what is in it, and a run that stopped after 1,000 batches continues with ``start=1000``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.specs import concrete
from dlvm.dsl.trace.trees import Spec, flatten, labels, unflatten
from dlvm.ir import Array
from dlvm.random import choice, fold_in, permutation

from .plans import Plan

Part = tuple[Any, int | None]
"""The rows of a batch, as places or as a slice, and the bound of its bucket."""


@dataclass(frozen=True, eq=False, repr=False)
class Buckets:
    """The bucket of each row, and the greatest length in each bucket."""

    bounds: tuple[int, ...]
    of: Array


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """The rows of a tree of arrays as a source of batches."""

    leaves: tuple[Array, ...]
    spec: Spec
    rows: int
    size: int
    key: Any
    epochs: int
    last: str
    weights: Array | None
    buckets: Buckets | None

    @property
    def per_epoch(self) -> int:
        """The number of batches in an epoch."""
        if self.buckets is None:
            return self._count(self.rows)
        counts = np.bincount(self.buckets.of, minlength=len(self.buckets.bounds))
        return sum(map(self._count, counts.tolist()))

    @property
    def total(self) -> int:
        """The number of batches in all epochs."""
        return self.per_epoch * self.epochs

    def _count(self, rows: int) -> int:
        return rows // self.size if self.last == "drop" else -(-rows // self.size)

    def plans(self, start: int) -> Iterator[Plan]:
        """The plans from number ``start`` on; the first one of an epoch draws its order."""
        per_epoch, parts = self.per_epoch, list[Part]()
        for number in range(start, self.total):
            epoch, within = divmod(number, per_epoch)
            if number == start or not within:
                parts = self._parts(self._order(epoch))
            yield Plan(number, *parts[within])

    def _order(self, epoch: int) -> Array | None:
        """The rows in the order of an epoch; None for the order in which they lie."""
        if self.key is None:
            return None
        drawn = fold_in(self.key, epoch)
        if self.weights is None:
            return permutation(drawn, self.rows)
        return choice(drawn, self.rows, (self.rows,), p=self.weights)

    def _parts(self, order: Array | None) -> list[Part]:
        if self.buckets is not None:
            return self._bucketed(np.arange(self.rows) if order is None else order, self.buckets)
        starts = range(0, self.rows, self.size)
        parts = [slice(i, min(i + self.size, self.rows)) for i in starts]
        return [(part if order is None else order[part], None) for part in parts]

    def _bucketed(self, order: Array, buckets: Buckets) -> list[Part]:
        """The batches in the order in which their last row comes; short ones are at the end."""
        found: list[tuple[int, Part]] = []
        for bucket, bound in enumerate(buckets.bounds):
            at = np.flatnonzero(buckets.of[order] == bucket)
            for first in range(0, len(at), self.size):
                part = at[first : first + self.size]
                full = len(part) == self.size
                if full or self.last == "short":
                    complete = int(part[-1]) if full else self.rows + bucket
                    found.append((complete, (order[part], bound)))
        return [part for _, part in sorted(found, key=lambda each: each[0])]

    def make(self, plan: Plan) -> Any:
        """A tree of copies of the rows, cut to the length of their bucket."""
        cut = [self._cut(x, plan.bound) for x in self.leaves]
        rows = plan.held
        taken = [x[rows].copy() if isinstance(rows, slice) else x[rows] for x in cut]
        return unflatten(self.spec, taken)

    def _cut(self, x: Array, bound: int | None) -> Array:
        if self.buckets is None or not _is_padded(x, self.buckets.bounds):
            return x
        return x[:, :bound]


def _is_padded(x: Array, bounds: Sequence[int]) -> bool:
    """Whether the second axis of an array is as long as the longest bucket."""
    return x.ndim > 1 and x.shape[1] == bounds[-1]


# -- what is given ---------------------------------------------------------------------------------


def leaves_of(tree: Any) -> tuple[tuple[Array, ...], Spec, int]:
    """The leaves of a tree as arrays, its structure, and the number of rows of each leaf."""
    written, spec = flatten(tree)
    names = labels(spec, "arrays")
    leaves = [concrete("batches", x, n) for x, n in zip(written, names, strict=True)]
    if not leaves:
        raise ArgumentError(
            "batches: there is no array in the tree",
            origin=user_origin(),
            remedy="give an array or a tree of arrays, such as (x, y)",
        )
    for x, name in zip(leaves, names, strict=True):
        if not x.ndim:
            raise ShapeError(
                f"batches: {name} has no axis of rows",
                origin=user_origin(),
                remedy="give arrays with an axis of rows: np.asarray(rows) for a list of numbers",
            )
        if len(x) != len(leaves[0]):
            raise ShapeError(
                f"batches: {names[0]} has {len(leaves[0])} rows, {name} has {len(x)}",
                origin=user_origin(),
                remedy="give arrays of one length along their first axis",
            )
    return tuple(leaves), spec, len(leaves[0])


def weights_of(weights: Any, rows: int, key: Any) -> Array | None:
    """The weight of each row as an f64; the key is what rows are drawn by."""
    if weights is None:
        return None
    if key is None:
        raise ArgumentError(
            "batches: weights= draws rows at random, and there is no key",
            remedy="give a key as well, such as key=dlvm.random.key(0)",
        )
    found = _one_for_each_row("weights", weights, rows, "biuf").astype(np.float64)
    if not (np.isfinite(found).all() and (found >= 0).all() and (found.sum() > 0 or not rows)):
        raise ArgumentError(
            "batches: weights has a number that is negative or not finite, or nothing but zeros",
            remedy="give finite weights of at least 0, of which one is positive",
        )
    return found


def buckets_of(
    lengths: Any, bounds: tuple[int, ...] | None, leaves: Sequence[Array]
) -> Buckets | None:
    """The bucket of each row, from its length."""
    if bounds is None:
        return None
    found = _one_for_each_row("lengths", lengths, len(leaves[0]), "iu")
    if len(found) and not 0 <= found.min() <= found.max() <= bounds[-1]:
        raise ArgumentError(
            f"batches: lengths are {found.min()} to {found.max()}, "
            f"and buckets hold lengths from 0 to {bounds[-1]}",
            remedy=f"give a last bucket of at least {found.max()}, and no negative length",
        )
    if not any(_is_padded(x, bounds) for x in leaves):
        raise ShapeError(
            f"batches: no array has a second axis of length {bounds[-1]}, the last of buckets=",
            remedy="give the length to which the rows are padded as the last bucket",
        )
    return Buckets(bounds, np.searchsorted(np.asarray(bounds), found))


def _one_for_each_row(name: str, given: Any, rows: int, kinds: str) -> Array:
    found = concrete("batches", given, name)
    if found.shape != (rows,) or found.dtype.kind not in kinds:
        word = "whole number" if "f" not in kinds else "number"
        raise ShapeError(
            f"batches: {name} has the shape {found.shape} and the type {found.dtype}: "
            f"expected one {word} for each of {rows} rows",
            remedy=f"give {name} as a vector of {rows} {word}s",
        )
    return found
