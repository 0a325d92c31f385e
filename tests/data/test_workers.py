"""Threads that make batches: in order, in the caller's contexts, and their errors."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dlvm

KEY = dlvm.random.key(3)


def test_threads_work_at_the_same_time_and_batches_stay_in_order():
    meeting = threading.Barrier(3, timeout=30)

    def met(batch: Any) -> Any:
        meeting.wait()  # breaks unless three threads are here at once
        return batch

    found = dlvm.batches(np.arange(24), 4, KEY, transform=met, prefetch=6, threads=3)
    expected = list(dlvm.batches(np.arange(24), 4, KEY))
    np.testing.assert_array_equal(list(found), expected)


def fails(batch: Any) -> Any:
    if 9 in batch:
        raise KeyError("the ninth row")  # this line
    return batch


def generated() -> Iterator[float]:
    yield from (1.0, 2.0, 3.0, 4.0)
    raise OSError("the disk is gone")  # this line


@pytest.mark.parametrize("prefetch, threads", [(0, 1), (1, 1), (4, 3)])
def test_an_error_reaches_the_loop_with_its_line_after_the_batches_before_it(prefetch, threads):
    args: Any = {"prefetch": prefetch, "threads": threads}
    found, seen = dlvm.batches(np.arange(16), 4, transform=fails, **args), 0
    with pytest.raises(KeyError, match="the ninth row") as caught:
        for _ in found:
            seen += 1
    assert seen == 2
    assert (
        traceback.extract_tb(caught.tb)[-1].line == 'raise KeyError("the ninth row")  # this line'
    )
    assert caught.value.__notes__ == ["dlvm.batches was making batch 2"]

    with pytest.raises(OSError, match="the disk is gone") as broken:
        for batch in dlvm.batches(generated(), 2, **args):
            seen += len(batch)
    assert seen == 6
    assert traceback.extract_tb(broken.tb)[-1].name == "generated"


@pytest.mark.parametrize("prefetch", [0, 2])
def test_contexts_of_the_caller_hold_where_batches_are_made(prefetch):
    with dlvm.default_dtype("f32"):
        found = dlvm.batches(np.arange(4), 2, transform=lambda b: dlvm.zeros(3), prefetch=prefetch)
        assert [b.dtype for b in found] == [np.float32, np.float32]
