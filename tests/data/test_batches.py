"""Batches: every row once in an epoch, in an order that a key and a number determine."""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError

KEY = dlvm.random.key(3)


def rows(n: int) -> Any:
    return {"x": np.arange(2.0 * n).reshape(n, 2), "y": (np.arange(n), None)}


def firsts(batches: Any) -> list[list[int]]:
    return [b["y"][0].tolist() for b in batches]


@pytest.mark.parametrize("prefetch", [0, 1, 3, 100])
@pytest.mark.parametrize("last, sizes", [("short", [4, 4, 2]), ("drop", [4, 4])])
def test_batches_are_trees_of_rows_in_order(last, sizes, prefetch):
    data = rows(10)
    found = dlvm.batches(data, 4, epochs=2, last=last, prefetch=prefetch)
    assert len(found) == 2 * len(sizes)
    for _ in range(2):  # each iteration begins anew
        every = list(found)
        assert [len(b["x"]) for b in every] == 2 * sizes
        for b in every:
            np.testing.assert_array_equal(b["x"], data["x"][b["y"][0]])
            assert b["y"][1] is None and b["x"].flags.owndata
        assert firsts(every)[: len(sizes)] == firsts(every)[len(sizes) :]
        assert firsts(every)[1] == [4, 5, 6, 7]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_key_shuffles_each_epoch_in_its_own_way(prefetch):
    data = rows(50)
    every = list(dlvm.batches(data, 8, KEY, epochs=3, prefetch=prefetch))
    epochs = [np.concatenate([b["y"][0] for b in every[k : k + 7]]) for k in (0, 7, 14)]
    for order in epochs:
        assert sorted(order) == list(range(50)) and (order != np.arange(50)).any()
    assert (epochs[0] != epochs[1]).any() and (epochs[1] != epochs[2]).any()
    expected = dlvm.random.permutation(dlvm.random.fold_in(KEY, 1), 50)
    np.testing.assert_array_equal(epochs[1], expected)
    for b in every:
        np.testing.assert_array_equal(b["x"], data["x"][b["y"][0]])


def test_a_run_resumes_at_any_batch():
    whole = firsts(dlvm.batches(rows(11), 4, KEY, epochs=3))
    for start in range(len(whole) + 1):
        rest = dlvm.batches(rows(11), 4, KEY, epochs=3, start=start)
        assert len(rest) == len(whole) - start and firsts(rest) == whole[start:]


def test_a_column_major_mapping_is_not_read_as_a_whole(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(np.arange(6.0).reshape(3, 2)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    (leaf,) = dlvm.batches(mapped, 2).source.leaves
    assert np.shares_memory(leaf, mapped)


def test_batches_say_what_they_are():
    assert repr(dlvm.batches(rows(10), 4, start=1)) == "<2 batches of 4 of 10 rows>"


def test_batches_are_copies():
    data = rows(4)
    for b in dlvm.batches(data, 2):
        b["x"][:] = -1
    assert (data["x"] >= 0).all()


def test_mapped_arrays_and_no_rows_are_fine(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0))
    (first, *_) = dlvm.batches(np.load(tmp_path / "x.npy", mmap_mode="r"), 4)
    assert type(first) is np.ndarray and first.tolist() == [0, 1, 2, 3]
    assert list(dlvm.batches(np.zeros((0, 3)), 4, KEY, epochs=5)) == []
    assert len(dlvm.batches(np.zeros((3, 2)), 4, epochs=0)) == 0


def test_a_thread_is_ahead_and_ends_with_the_loop():
    asked = []

    found = dlvm.batches(np.arange(40), 4, KEY, prefetch=3)
    for number, _ in enumerate(found):
        asked += [t.name for t in threading.enumerate() if t.name.startswith("dlvm-batches")]
        if number == 1:
            break
    assert asked
    deadline = time.monotonic() + 30
    while any(t.name.startswith("dlvm-batches") for t in threading.enumerate()):
        assert time.monotonic() < deadline, "the thread has not ended"
        time.sleep(0.01)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_progress_shows_a_bar_that_begins_at_the_start(prefetch, capsys):
    pytest.importorskip("tqdm")
    found = dlvm.batches(rows(10), 2, epochs=2, start=4, prefetch=prefetch, progress=True)
    assert firsts(found)[0] == [8, 9]
    assert "10/10" in capsys.readouterr().err


def test_without_tqdm_a_line_in_the_log_tells_of_progress(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    clock = iter(np.arange(0.0, 1000.0, 0.6))
    monkeypatch.setattr("dlvm.data.progress.time.perf_counter", lambda: next(clock))
    with caplog.at_level(logging.WARNING, "dlvm.data"):
        assert len(firsts(dlvm.batches(rows(20), 2, progress=True))) == 10
    said = [r.getMessage() for r in caplog.records]
    assert said[0] == "batch 2 of 10, 1 s so far, 1.67 batches a second"
    assert [s.split()[1] for s in said] == ["2", "4", "8"]


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: dlvm.batches(np.ones(3), 0), "size=0: expected a whole number of at least 1"),
        (lambda: dlvm.batches(np.ones(3), 2.5), "size=2.5: expected"),  # type: ignore[arg-type]
        (lambda: dlvm.batches(np.ones(3), True), "size=True: expected"),
        (lambda: dlvm.batches(np.ones(3), 2, epochs=-1), "epochs=-1: expected"),
        (lambda: dlvm.batches(np.ones(3), 2, start=3), "start=3, and there are 2 batches"),
        (lambda: dlvm.batches(np.ones(3), 2, last="all"), "last='all'"),  # type: ignore[arg-type]
        (lambda: dlvm.batches(np.ones(3), 4, last="drop"), "leaves no batch"),
        (lambda: dlvm.batches(np.array(3.0), 2), "arrays has no axis of rows"),
        (lambda: dlvm.batches([1.0, 2.0], 2), r"arrays\[0\] has no axis of rows"),
        (
            lambda: dlvm.batches((np.ones(3), {"y": np.ones(4)}), 2),
            r"arrays\[0\] has 3 rows, arrays\[1\]\['y'\] has 4",
        ),
        (lambda: dlvm.batches({}, 2), "there is no array in the tree"),
        (lambda: dlvm.batches(["text"], 2), r"batches: arrays\[0\] is 'text'"),
        (lambda: dlvm.batches(np.ones(3), 2, key=5), "key"),
        (lambda: dlvm.batches(np.ones(3), 2, seed=5), "seed"),  # type: ignore[call-arg]
    ],
)
def test_what_makes_no_batches_is_refused(call, said):
    with pytest.raises(UserError, match=said):
        call()


def test_staged_values_are_refused():
    with pytest.raises(UserError, match="batches: arrays is a staged value"):
        dlvm.function(lambda x: next(iter(dlvm.batches(x, 2))))(np.ones(3))
