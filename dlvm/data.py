"""``batches``: rows of arrays in batches, shuffled by a key, so that a run can be resumed.

The order of the rows follows from the key and the number of the epoch alone. So the number of a
batch says what is in it, and a run that stopped after 1,000 batches continues with ``start=1000``.
"""

from __future__ import annotations

import collections
import functools
import importlib
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import INDEX
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.specs import concrete
from dlvm.dsl.trace.trees import Spec, flatten, labels, unflatten
from dlvm.ir import Array
from dlvm.random import fold_in, permutation

__all__ = ["batches"]

LONGEST = 60.0
"""Seconds between two lines of the log about progress, at most."""
Make = Callable[[], Any]


@dataclass(frozen=True, eq=False, repr=False)
class Batches:
    """Batches as an iterable with a length; each iteration begins at batch ``start``."""

    leaves: tuple[Array, ...]
    spec: Spec
    rows: int
    size: int
    key: Any
    start: int
    per_epoch: int
    total: int
    prefetch: int
    progress: bool

    def __len__(self) -> int:
        return self.total - self.start

    def __repr__(self) -> str:
        return f"<{len(self)} batches of {self.size} of {self.rows} rows>"

    def __iter__(self) -> Iterator[Any]:
        """The batches from ``start`` on."""
        found = _ahead(self._makers(), self.prefetch) if self.prefetch else _each(self._makers())
        return _shown(found, self.start, self.total) if self.progress else found

    def _makers(self) -> Iterator[Make]:
        """For each batch a function that makes it; the first one of an epoch draws the order."""
        order: Make = lambda: None  # noqa: E731  # replaced below, at the first batch
        for number in range(self.start, self.total):
            epoch, within = divmod(number, self.per_epoch)
            if number == self.start or not within:
                order = functools.cache(functools.partial(self._order, epoch))
            yield functools.partial(self._batch, order, within * self.size)

    def _order(self, epoch: int) -> Any:
        """The rows in the order of an epoch; None for the order in which they lie."""
        return None if self.key is None else permutation(fold_in(self.key, epoch), self.rows)

    def _batch(self, order: Make, first: int) -> Any:
        rows, of = slice(first, first + self.size), order()
        taken = [x[rows].copy() if of is None else x[of[rows]] for x in self.leaves]
        return unflatten(self.spec, taken)


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
) -> Batches:
    """The rows of a tree of arrays in batches of ``size``: an iterable of trees, with a length.

    A ``key`` of ``dlvm.random`` shuffles the rows anew in each epoch; without one they come in
    order. ``start`` is the number of batches to leave out at the beginning, as those of a run that
    is resumed. ``last`` says what becomes of the last rows of an epoch if they are fewer than
    ``size``: a short batch, or nothing. A thread makes ``prefetch`` batches ahead. ``progress``
    shows a bar of ``tqdm`` if that is installed, else it writes a line into the log now and then.
    Batches are copies, so that they may be changed and donated.
    """
    counts = {"epochs": epochs, "start": start, "prefetch": prefetch}
    for name, count, least in (("size", size, 1), *((n, c, 0) for n, c in counts.items())):
        _check_count(name, count, least)
    if last not in ("short", "drop"):
        raise ArgumentError(
            f'batches: last={last!r:.40}: expected "short" or "drop"',
            remedy='give last="short" for a short batch at the end of an epoch, or last="drop"',
        )
    leaves, spec, rows = _arrays(arrays)
    per_epoch = rows // size if last == "drop" else -(-rows // size)
    if rows and not per_epoch:
        raise ArgumentError(
            f'batches: size={size} of {rows} rows: last="drop" leaves no batch',
            remedy=f'give a size of at most {rows}, or last="short"',
        )
    total = per_epoch * int(epochs)
    if start > total:
        raise ArgumentError(
            f"batches: start={start}, and there are {total} batches in {epochs} epochs",
            remedy=f"give a start of at most {total}, or more epochs",
        )
    if key is not None:
        fold_in(key, 0)  # now, since a wrong key would be noticed only in the loop
    every = (int(start), per_epoch, total, int(prefetch), bool(progress))
    return Batches(leaves, spec, rows, int(size), key, *every)


def _check_count(name: str, count: Any, least: int) -> None:
    if not INDEX.fits(count) or count < least:
        raise ArgumentError(
            f"batches: {name}={count!r:.40}: expected a whole number of at least {least}",
            remedy=f"give a whole number, such as {name}={max(least, 1)}",
        )


def _arrays(tree: Any) -> tuple[tuple[Array, ...], Spec, int]:
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


def _each(makers: Iterator[Make]) -> Iterator[Any]:
    for make in makers:
        yield make()


def _ahead(makers: Iterator[Make], number: int) -> Iterator[Any]:
    """Batches that one thread makes, a number of them ahead of the one that is in use."""
    waiting: collections.deque[Future[Any]] = collections.deque()
    thread = ThreadPoolExecutor(1, "dlvm-batches")
    try:
        for make in makers:
            waiting.append(thread.submit(make))
            if len(waiting) > number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        thread.shutdown(cancel_futures=True)


def _shown(found: Iterator[Any], start: int, total: int) -> Iterator[Any]:
    """The same batches, with a bar of tqdm, or with lines in the log where there is no tqdm."""
    try:
        bar: Any = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return _logged(found, start, total)
    return iter(bar(found, initial=start, total=total, unit="batch"))


def _logged(found: Iterator[Any], start: int, total: int) -> Iterator[Any]:
    """Writes a line after a second, and later ones after twice the time, each minute at least.

    They are warnings, which Python shows by default: the caller has asked for them.
    """
    began, due = time.perf_counter(), 1.0
    for number, batch in enumerate(found, start + 1):
        yield batch
        if (passed := time.perf_counter() - began) >= due:
            due = passed + min(passed, LONGEST)
            rate = (number - start) / passed
            said = "batch %s of %s, %.0f s so far, %.3g batches a second"
            logging.getLogger("dlvm.data").warning(said, f"{number:,}", f"{total:,}", passed, rate)
