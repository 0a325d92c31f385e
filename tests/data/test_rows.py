"""Batches of rows: drawn with weights, in buckets by length, transformed and augmented."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError

KEY = dlvm.random.key(3)
X = np.arange(12)


def lists(batches: Any) -> list[Any]:
    return [b.tolist() for b in batches]


def test_a_transform_is_applied_to_each_batch():
    found = dlvm.batches({"x": X}, 5, transform=lambda b: b["x"] * 2.0)
    assert lists(found) == [(2.0 * X[i : i + 5]).tolist() for i in (0, 5, 10)]


def test_augment_has_a_key_of_each_batch_that_resuming_and_threads_do_not_change():
    def noisy(batch: Any, key: Any) -> Any:
        return batch + dlvm.random.uniform(key, batch.shape)

    args: Any = {"size": 4, "key": KEY, "epochs": 2, "augment": noisy}
    whole = lists(dlvm.batches(X, **args, transform=lambda b: b * 100))
    fractions = np.concatenate(whole) % 1
    assert len(set(fractions)) == 24  # one key for all batches repeats
    assert lists(dlvm.batches(X, **args, transform=lambda b: b * 100, start=4)) == whole[4:]
    for threads in (1, 3):
        other = dlvm.batches(
            X, **args, transform=lambda b: b * 100, prefetch=threads, threads=threads
        )
        assert lists(other) == whole


def test_weights_draw_rows_with_their_odds():
    weights = np.zeros(2000)
    weights[[3, 70]] = 1, 3
    args: Any = {"key": KEY, "weights": weights, "epochs": 2}
    drawn = np.concatenate(list(dlvm.batches(np.arange(2000), 100, **args)))
    assert len(drawn) == 4000 and {*drawn.tolist()} == {3, 70}
    assert abs((drawn == 70).mean() - 0.75) < 0.03
    assert (drawn[:2000] != drawn[2000:]).any()
    rest = np.concatenate(list(dlvm.batches(np.arange(2000), 100, **args, start=15)))
    np.testing.assert_array_equal(rest, drawn[1500:])


LENGTHS = np.array([2, 7, 3, 8, 1, 4, 5, 3, 0, 6])
PADDED = np.where(np.arange(8) < LENGTHS[:, None], 1 + np.arange(10)[:, None], 0)
DATA = {"text": PADDED, "length": LENGTHS, "label": np.arange(20).reshape(10, 2)}


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("last, count", [("short", 4), ("drop", 3)])
def test_a_batch_holds_rows_of_one_bucket_that_are_cut_to_it(key, last, count):
    found = dlvm.batches(DATA, 3, key, last=last, lengths=LENGTHS, buckets=(2, 4, 8))
    every = list(found)
    assert len(found) == len(every) == count
    for b in every:
        bound = b["text"].shape[1]
        below = {2: -1, 4: 2, 8: 4}[bound]
        assert ((below < b["length"]) & (b["length"] <= bound)).all()
        np.testing.assert_array_equal((b["text"] > 0).sum(axis=1), b["length"])
        assert b["label"].shape == (len(b["length"]), 2)
    if last == "short":
        rows = np.concatenate([b["label"][:, 0] // 2 for b in every])
        assert sorted(rows) == list(range(10))


def test_buckets_of_an_epoch_are_resumed_and_mixed():
    args: Any = {"size": 2, "key": KEY, "epochs": 3, "lengths": LENGTHS, "buckets": (4, 8)}
    whole = [b["label"].tolist() for b in dlvm.batches(DATA, **args)]
    assert [b["label"].tolist() for b in dlvm.batches(DATA, **args, start=7)] == whole[7:]
    shapes = [b["text"].shape[1] for b in dlvm.batches(DATA, **args)]
    assert len(whole) == 15 and shapes != sorted(shapes)


def test_shuffled_rows_of_a_mapped_file_are_read_alone(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(20.0).reshape(10, 2))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = dlvm.batches(mapped, 4, KEY, prefetch=2, threads=2)
    assert np.shares_memory(found.source.leaves[0], mapped)
    every = list(found)
    assert all(type(b) is np.ndarray and b.flags.owndata for b in every)
    assert sorted(np.concatenate(every)[:, 0].tolist()) == list(range(0, 20, 2))


@pytest.mark.parametrize(
    "given, said",
    [
        ({"transform": 3}, "transform=3: expected a function"),
        ({"augment": lambda b, key: b}, "augment= takes keys, and there is no key"),
        ({"collate": list}, "collate= makes batches of the examples of a stream"),
        ({"threads": 0}, "threads=0: expected a whole number"),
        ({"threads": 4, "prefetch": 1}, "threads=4, and prefetch=1 batches are made at a time"),
        ({"weights": np.ones(12)}, "weights= draws rows at random, and there is no key"),
        ({"weights": np.ones(11), "key": KEY}, r"weights has the shape \(11,\)"),
        ({"weights": -np.ones(12), "key": KEY}, "negative or not finite"),
        ({"weights": np.zeros(12), "key": KEY}, "nothing but zeros"),
        ({"buckets": (4,)}, "buckets= is given, and lengths= is not"),
        ({"lengths": X}, "lengths= is given, and buckets= is not"),
        ({"lengths": X, "buckets": (4, 4)}, "expected positive whole numbers that ascend"),
        ({"lengths": X, "buckets": ()}, "expected positive whole numbers that ascend"),
        ({"lengths": X, "buckets": ("a",)}, "expected positive whole numbers that ascend"),
        ({"lengths": X, "buckets": (4, 8)}, "lengths are 0 to 11, and buckets hold lengths"),
        ({"lengths": X / 2, "buckets": (12,)}, "expected one whole number for each of 12 rows"),
        ({"lengths": X, "buckets": (12,)}, "no array has a second axis of length 12"),
        (
            {"lengths": X, "buckets": (12,), "weights": np.ones(12), "key": KEY},
            "weights= and buckets= are given",
        ),
    ],
)
def test_what_makes_no_batches_of_rows_is_refused(given, said):
    with pytest.raises(UserError, match=said):
        dlvm.batches(X, 3, **given)
