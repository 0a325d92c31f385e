"""Batches of streams: of generators, which have no length, and of functions that make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError

KEY = dlvm.random.key(3)


def examples(n: int = 10) -> Iterator[Any]:
    for i in range(n):
        yield {"x": np.full(2, float(i)), "y": i, "none": None}


def sentences() -> Iterator[np.ndarray]:
    for n in (2, 7, 3, 8, 1, 4, 5, 3, 0, 6):
        yield np.full(n, n)


@pytest.mark.parametrize("prefetch, threads", [(0, 1), (1, 1), (4, 3)])
@pytest.mark.parametrize("last, sizes", [("short", [4, 4, 2]), ("drop", [4, 4])])
def test_examples_are_stacked_in_order(last, sizes, prefetch, threads):
    found = dlvm.batches(examples(), 4, last=last, prefetch=prefetch, threads=threads)
    every = list(found)
    assert [b["x"].shape for b in every] == [(n, 2) for n in sizes]
    assert np.concatenate([b["y"] for b in every]).tolist() == list(range(sum(sizes)))
    assert every[0]["y"].dtype == np.int64 and every[0]["none"] is None


def test_a_function_is_called_for_each_epoch_and_each_loop():
    found = dlvm.batches(examples, 4, epochs=2)
    whole = [b["y"].tolist() for b in found]
    assert whole == 2 * [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [b["y"].tolist() for b in found] == whole
    assert [b["y"].tolist() for b in dlvm.batches(examples, 4, epochs=2, start=4)] == whole[4:]


def test_an_endless_stream_is_read_no_further_than_it_is_used():
    read = []

    def endless() -> Iterator[Any]:
        while True:
            read.append(len(read))
            yield float(len(read))

    found = iter(dlvm.batches(endless(), 3, prefetch=2))
    assert next(found).tolist() == [1.0, 2.0, 3.0]
    found.close()  # type: ignore[attr-defined]
    assert 3 <= len(read) <= 9


def test_collate_makes_a_batch_of_a_list_of_examples():
    found = dlvm.batches(iter("abcde"), 2, collate="".join, transform=str.upper)
    assert list(found) == ["AB", "CD", "E"]


def test_a_key_of_a_stream_is_for_augment():
    def noisy(batch: Any, key: Any) -> Any:
        return dlvm.random.uniform(key, batch["y"].shape)

    first, second = dlvm.batches(examples(8), 4, KEY, augment=noisy)
    (again,) = dlvm.batches(examples(8), 4, KEY, augment=noisy, start=1)
    assert (first != second).all() and (second == again).all()


@pytest.mark.parametrize("last", ["short", "drop"])
def test_examples_in_buckets_are_padded_to_their_bucket(last):
    args: Any = {"lengths": len, "buckets": (2, 4, 8), "last": last}
    every = list(dlvm.batches(sentences(), 3, **args))
    assert [b.shape for b in every] == [(3, 8), (3, 4), (3, 2), (1, 8)][
        : 4 if last == "short" else 3
    ]
    for b in every:
        assert ((b > 0).sum(axis=1) == b.max(axis=1)).all()


def test_progress_of_a_stream_counts_batches(monkeypatch, caplog):
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    clock = iter(np.arange(0.0, 1000.0, 0.6))
    monkeypatch.setattr("dlvm.data.progress.time.perf_counter", lambda: next(clock))
    list(dlvm.batches(examples(), 2, progress=True))
    assert caplog.messages[0] == "batch 2, 1 s so far, 1.67 batches a second"


def test_a_stream_has_no_length():
    found = dlvm.batches(examples(), 4)
    assert repr(found) == "<batches of 4 of a stream>"
    with pytest.raises(UserError, match="a stream has no length before it is read"):
        len(found)


def test_an_iterator_is_not_silently_empty_the_second_time():
    found = dlvm.batches(examples(), 4)
    assert len(list(found)) == 3
    with pytest.raises(UserError, match="has been read, and can't be read again"):
        list(found)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: dlvm.batches(examples(), 2, KEY), "a stream comes in its own order"),
        (lambda: dlvm.batches(examples(), 2, weights=np.ones(3)), "weights= draws from the rows"),
        (lambda: dlvm.batches(examples(), 2, epochs=2), "an iterator can be read once"),
        (
            lambda: dlvm.batches(examples(), 2, lengths=[1], buckets=(2,)),
            "lengths= of a stream is a function",
        ),
        (
            lambda: list(dlvm.batches(sentences(), 2, lengths=len, buckets=(4,))),
            "lengths gave 7 for example 1, and buckets hold lengths from 0 to 4",
        ),
        (
            lambda: list(dlvm.batches(sentences(), 2)),
            r"has the shape \(2,\) in one example and \(7,\) in another",
        ),
        (lambda: list(dlvm.batches(iter([1, {"a": 1}]), 2)), "examples have the structures"),
        (lambda: list(dlvm.batches(iter(["a", "b"]), 2)), "example is 'a'"),
        (lambda: list(dlvm.batches(iter([None]), 2)), "an example holds no array"),
    ],
)
def test_what_makes_no_batches_of_a_stream_is_refused(call, said):
    with pytest.raises(UserError, match=said):
        call()
