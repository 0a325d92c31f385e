"""``batches``: examples in batches, in an order that a key determines, to be resumed anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dlvm.base.errors import ArgumentError, CallError
from dlvm.dsl.arrays.sharding import Ranks
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.random import fold_in

from .checks import (
    bounds_of,
    check_counts,
    check_functions,
    check_key,
    check_last,
    check_rows,
    check_stream,
    check_threads,
)
from .plans import Plan, Source
from .progress import shown
from .rows import Rows, buckets_of, leaves_of, weights_of
from .sharing import Shares, shares_of
from .streams import Stream, function_of, is_stream
from .workers import ahead, each

__all__ = ["batches"]

AUGMENT = 2**32 - 1
"""What is folded into the key for ``augment``: the number of an epoch that never comes."""
Transform = Callable[[Any], Any]
Augment = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False, repr=False)
class Batches:
    """Batches as an iterable; each iteration begins at batch ``start``."""

    source: Source
    size: int
    key: Any
    start: int
    prefetch: int
    threads: int
    progress: bool
    transform: Transform | None
    augment: Augment | None
    shares: Shares | None

    def __len__(self) -> int:
        if self.source.total is None:
            raise CallError(
                "batches: a stream has no length before it is read",
                origin=user_origin(),
                remedy="count the batches in the loop: enumerate(dlvm.batches(...))",
            )
        return self.source.total - self.start

    def __repr__(self) -> str:
        if isinstance(self.source, Rows):
            return f"<{len(self)} batches of {self.size} of {self.source.rows} rows>"
        return f"<batches of {self.size} of a stream>"

    def __iter__(self) -> Iterator[Any]:
        """The batches from ``start`` on."""
        plans = self.source.plans(self.start)
        if self.prefetch:
            found = ahead(plans, self._made, self.prefetch, self.threads)
        else:
            found = each(plans, self._made)
        return shown(found, self.start, self.source.total) if self.progress else found

    def _made(self, plan: Plan) -> Any:
        """The batch of a plan; an error says which batch could not be made."""
        try:
            if self.shares is not None:
                return self.shares.batch(plan, self._changed)
            return self._changed(plan)
        except Exception as error:
            error.add_note(f"dlvm.batches was making batch {plan.number}")
            raise

    def _changed(self, plan: Plan, piece: int | None = None) -> Any:
        """The examples of a plan, transformed and augmented; each piece has a key of its own."""
        batch = self.source.make(plan)
        if self.transform is not None:
            batch = self.transform(batch)
        if self.augment is not None:
            key = fold_in(fold_in(self.key, AUGMENT), plan.number)
            batch = self.augment(batch, key if piece is None else fold_in(key, piece))
        return batch


@facing_users
def batches(
    arrays: Any,
    size: int,
    key: Any = None,
    epochs: int = 1,
    start: int = 0,
    last: Literal["short", "drop"] = "short",
    prefetch: int = 0,
    progress: bool = False,
    *,
    transform: Transform | None = None,
    augment: Augment | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    weights: Any = None,
    lengths: Any = None,
    buckets: Sequence[int] | None = None,
    threads: int = 1,
    mesh: Ranks | None = None,
    axis: str | tuple[str, ...] | None = None,
) -> Batches:
    """The rows of a tree of arrays in batches of ``size``: an iterable of trees, with a length.

    A ``key`` of ``dlvm.random`` shuffles the rows anew in each epoch; without one they come in
    order. ``start`` is the number of batches to leave out at the beginning, as those of a run that
    is resumed. ``last`` says what becomes of the last rows of an epoch if they are fewer than
    ``size``: a short batch, or nothing. ``threads`` threads make ``prefetch`` batches ahead; their
    number does not change what batches hold. ``progress`` shows a bar of ``tqdm`` if that is
    installed, else it writes a line into the log now and then. Batches are copies, so that they may
    be changed and donated.

    ``transform(batch)`` is applied to each batch, and then ``augment(batch, key)``, with a key of
    the batch. ``weights`` holds a number for each row: rows are drawn with these odds, any row more
    than once. ``buckets`` holds lengths in ascending order and ``lengths`` the length of each row:
    all rows of a batch are of one bucket, and arrays whose second axis is as long as the last
    bucket are cut to the length of theirs.

    In place of a tree, a stream may be given: an iterator of examples, or a function that returns
    one, which each epoch calls. Its examples are trees, which are stacked; ``collate`` makes a
    batch of a list of them in another way. With ``buckets``, ``lengths`` is a function of an
    example, and arrays whose first axis is as long as their example are padded with zeros.

    With a ``mesh``, arrays of a batch are ``Sharded``: the ranks along its first axis share the
    rows, or those along ``axis``. Each process reads and makes the rows of its own ranks alone,
    piece by piece: ``transform`` and ``augment`` are called for each piece, and give a row for each
    row. What a piece holds follows from the key, the number of the batch and that of the piece.
    """
    check_counts(1, size=size, threads=threads)
    check_counts(0, epochs=epochs, start=start, prefetch=prefetch)
    check_last(last)
    check_functions(transform=transform, augment=augment, collate=collate)
    check_key(key, augment)
    check_threads(threads, prefetch)
    bounds, shares = bounds_of(buckets, lengths), shares_of(mesh, axis)
    if is_stream(arrays):
        check_stream(arrays, key, augment, weights, lengths, epochs)
        source: Source = Stream(
            function_of(arrays), int(size), int(epochs), last, collate, lengths, bounds
        )
    else:
        source = _rows(arrays, int(size), key, int(epochs), last, weights, lengths, bounds)
        check_rows(source, start, collate)
    every = (int(start), int(prefetch), int(threads), bool(progress))
    return Batches(source, int(size), key, *every, transform, augment, shares)


def _rows(
    tree: Any,
    size: int,
    key: Any,
    epochs: int,
    last: str,
    weights: Any,
    lengths: Any,
    bounds: tuple[int, ...] | None,
) -> Rows:
    leaves, spec, rows = leaves_of(tree)
    if weights is not None and bounds is not None:
        raise ArgumentError(
            "batches: weights= and buckets= are given, and rows that are drawn at random fill "
            "another number of batches in each epoch",
            remedy="leave one of them out",
        )
    odds, of = weights_of(weights, rows, key), buckets_of(lengths, bounds, leaves)
    return Rows(leaves, spec, rows, size, key, epochs, last, odds, of)
