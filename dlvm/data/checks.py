"""Checks of what ``batches`` is given, at the call: a loop finds no mistake after an hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.kinds import INDEX
from dlvm.random import fold_in

from .rows import Rows


def check_counts(least: int, **given: Any) -> None:
    """Checks that numbers are whole, and at least that."""
    for name, count in given.items():
        if not INDEX.fits(count) or count < least:
            raise ArgumentError(
                f"batches: {name}={count!r:.40}: expected a whole number of at least {least}",
                remedy=f"give a whole number, such as {name}={max(least, 1)}",
            )


def check_last(last: Any) -> None:
    """Checks what becomes of the last rows of an epoch."""
    if last not in ("short", "drop"):
        raise ArgumentError(
            f'batches: last={last!r:.40}: expected "short" or "drop"',
            remedy='give last="short" for a short batch at the end of an epoch, or last="drop"',
        )


def check_key(key: Any, augment: Any) -> None:
    """Checks that ``augment`` has a key, and that a key is one."""
    if augment is not None and key is None:
        raise ArgumentError(
            "batches: augment= takes keys, and there is no key",
            remedy="give a key, such as key=dlvm.random.key(0), or transform= in place of augment=",
        )
    if key is not None:
        fold_in(key, 0)


def check_threads(threads: int, prefetch: int) -> None:
    """Checks that each thread has a batch to make."""
    if threads > 1 and prefetch < threads:
        raise ArgumentError(
            f"batches: threads={threads}, and prefetch={prefetch} batches are made at a time",
            remedy=f"give prefetch={threads} or more",
        )


def check_functions(**given: Any) -> None:
    """Checks that what is given can be called."""
    for name, f in given.items():
        if f is not None and not callable(f):
            raise ArgumentError(
                f"batches: {name}={f!r:.40}: expected a function",
                remedy=f"give a function, such as {name}=lambda batch: batch",
            )


def bounds_of(buckets: Sequence[int] | None, lengths: Any) -> tuple[int, ...] | None:
    """The greatest length in each bucket, in ascending order."""
    if (buckets is None) != (lengths is None):
        given, other = ("buckets", "lengths") if lengths is None else ("lengths", "buckets")
        raise ArgumentError(
            f"batches: {given}= is given, and {other}= is not",
            remedy="give both: buckets=(16, 32), and the lengths of the examples as lengths=",
        )
    if buckets is None:
        return None
    found = tuple(buckets)
    whole = all(map(INDEX.fits, found))
    if not found or not whole or any(a >= b for a, b in pairwise((0, *found))):
        raise ArgumentError(
            f"batches: buckets={buckets!r:.60}: expected positive whole numbers that ascend",
            remedy="give the greatest length in each bucket, such as buckets=(16, 32, 64)",
        )
    return tuple(map(int, found))


def check_rows(source: Rows, start: int, collate: Any) -> None:
    """Checks that rows of arrays are as many as the other arguments need."""
    if collate is not None:
        raise ArgumentError(
            "batches: collate= makes batches of the examples of a stream; arrays need none",
            remedy="give transform=, a function of a batch, in place of collate=",
        )
    if source.rows and not source.per_epoch:
        raise ArgumentError(
            f'batches: size={source.size} of {source.rows} rows: last="drop" leaves no batch',
            remedy=f'give a size of at most {source.rows}, or last="short"',
        )
    if start > source.total:
        raise ArgumentError(
            f"batches: start={start}, and there are {source.total} batches "
            f"in {source.epochs} epochs",
            remedy=f"give a start of at most {source.total}, or more epochs",
        )


def check_stream(
    source: Any, key: Any, augment: Any, weights: Any, lengths: Any, epochs: int
) -> None:
    """Checks that nothing is asked of a stream that only rows of arrays can do."""
    if key is not None and augment is None:
        raise ArgumentError(
            "batches: a key shuffles the rows of arrays, and a stream comes in its own order",
            remedy="leave the key out, and shuffle where the examples are made",
        )
    if weights is not None:
        raise ArgumentError(
            "batches: weights= draws from the rows of arrays, and a stream comes in its own order",
            remedy="leave the weights out, and draw where the examples are made",
        )
    if lengths is not None and not callable(lengths):
        raise ArgumentError(
            "batches: lengths= of a stream is a function of an example",
            remedy="give a function, such as lengths=len",
        )
    if epochs > 1 and isinstance(source, Iterator):
        raise ArgumentError(
            f"batches: epochs={epochs}, and an iterator can be read once",
            remedy="give the function that makes the iterator: dlvm.batches(rows, ...), "
            "not dlvm.batches(rows(), ...)",
        )
