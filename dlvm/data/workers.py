"""Batches that threads make, some of them ahead of the one that is in use.

One thread draws the plans, in order, and others make the batches of them, which come out in the
order of the plans. So what a batch holds is independent of the number of threads.
"""

from __future__ import annotations

import collections
import contextvars
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .plans import Plan

Make = Callable[[Plan], Any]
NAME = "dlvm-batches"
END: Any = object()
"""What is drawn after the last plan."""


def each(plans: Iterator[Plan], make: Make) -> Iterator[Any]:
    """The batches, each made when it is used."""
    for plan in plans:
        yield make(plan)


def ahead(plans: Iterator[Plan], make: Make, number: int, threads: int) -> Iterator[Any]:
    """The batches, of which threads make ``number`` ahead of the one that is in use.

    Contexts of the caller, such as ``dlvm.default_dtype``, hold in the threads as well. The threads
    end with the loop.
    """
    waiting: collections.deque[Future[Any]] = collections.deque()
    reader, makers = ThreadPoolExecutor(1, NAME), ThreadPoolExecutor(threads, NAME)

    def made(drawn: Future[Any]) -> Any:
        plan = drawn.result()
        return END if plan is END else make(plan)

    try:
        while True:
            drawn = reader.submit(contextvars.copy_context().run, next, plans, END)
            waiting.append(makers.submit(contextvars.copy_context().run, made, drawn))
            if len(waiting) > number:
                batch = waiting.popleft().result()
                if batch is END:
                    return
                yield batch
    finally:
        reader.shutdown(cancel_futures=True)
        makers.shutdown(cancel_futures=True)
