"""Batches whose rows the ranks of a mesh share: the same rows in each piece on any ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError
from dlvm.ir.sharding.sharded import Sharded

KEY = dlvm.random.key(3)
X, Y = np.arange(44.0).reshape(22, 2), np.arange(22)


def mesh(ranks: int, pieces: int | None = 8) -> Any:
    given = None if pieces is None else {"data": pieces}
    return dlvm.mesh({"data": ranks}, simulate=ranks, pieces=given)


def test_whole_batches_are_those_without_a_mesh_and_ranks_have_their_rows():
    for key in (None, KEY):
        args: Any = {"arrays": {"x": X, "y": Y}, "size": 8, "key": key, "epochs": 2, "start": 1}
        for given in (mesh(1), mesh(2), mesh(3, None), mesh(4), mesh(8)):
            expected = dlvm.batches(**args)
            found = dlvm.batches(**args, mesh=given)
            assert len(found) == len(expected) == 5
            for want, have in zip(expected, found, strict=True):
                assert type(have["x"]) is Sharded and have["x"].spec == ("data", None)
                assert have["x"].shape == want["x"].shape and have["y"].mesh == given.mesh
                np.testing.assert_array_equal(have["x"].whole(), want["x"])
                np.testing.assert_array_equal(have["y"].whole(), want["y"])


def test_a_piece_follows_from_the_key_its_batch_and_its_number_on_any_ranks():
    def noisy(batch: Any, key: Any) -> Any:
        return batch + dlvm.random.uniform(key, batch.shape)

    args: Any = {"size": 10, "key": KEY, "augment": noisy, "transform": lambda x: x * 100}
    every = [[b.whole() for b in dlvm.batches(X, **args, mesh=mesh(n))] for n in (1, 3, 8)]
    for one, two, three in zip(*every, strict=True):
        assert one.tobytes() == two.tobytes() == three.tobytes()
    assert len({*np.concatenate(every[0]).ravel() % 1}) == 44  # each piece draws its own numbers
    ahead = dlvm.batches(X, **args, mesh=mesh(2), start=1, prefetch=2, threads=2)
    assert [b.whole().tobytes() for b in ahead] == [b.tobytes() for b in every[0][1:]]


class Watched(np.ndarray[Any, Any]):
    """An array that tells which rows were read."""

    read: list[Any]

    def __getitem__(self, at: Any) -> Any:
        self.read.append(at)
        return super().__getitem__(at)


def test_a_process_reads_the_rows_of_its_ranks_alone(monkeypatch: pytest.MonkeyPatch):
    from dlvm.data import sharing
    from dlvm.data.rows import Rows

    monkeypatch.setattr(sharing, "held", lambda mesh: [mesh.size - 2])  # type: ignore[misc]
    batches = dlvm.batches(X, 8, KEY, mesh=mesh(4))
    rows = batches.source
    assert isinstance(rows, Rows)
    watched = rows.leaves[0].view(Watched)
    watched.read = []
    object.__setattr__(rows, "leaves", (watched,))
    found = next(iter(batches))
    want = next(iter(dlvm.batches(Y, 8, KEY)))[4:6]
    assert [int(i) for at in watched.read for i in at] == want.tolist()
    np.testing.assert_array_equal(found.pieces[0], X[want])


def test_memory_maps_and_ranks_along_other_axes(tmp_path: Path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    two = dlvm.mesh({"model": 2, "data": 2}, simulate=4)
    for axis, spec in ((None, "model"), ("data", "data"), (("model", "data"),) * 2):
        (batch,) = dlvm.batches(mapped, 22, mesh=two, axis=axis)  # type: ignore[arg-type]
        assert batch.spec == (spec, None)
        np.testing.assert_array_equal(batch.whole(), X)
    (batch,) = dlvm.batches(mapped, 22, mesh=two, axis="data")
    assert batch.pieces[0] is batch.pieces[2] and batch.pieces[0] is not batch.pieces[1]


def test_streams_and_buckets_are_shared():
    def sentences() -> Any:
        for n in (2, 7, 3, 8, 1, 4, 5):
            yield {"words": np.arange(1.0, n + 1), "label": n}

    args: Any = {"size": 3, "lengths": lambda s: len(s["words"]), "buckets": (4, 8)}
    shared = dlvm.batches(sentences, **args, mesh=mesh(4, None))  # some ranks have no row
    for want, have in zip(dlvm.batches(sentences, **args), shared, strict=True):
        np.testing.assert_array_equal(have["words"].whole(), want["words"])
        np.testing.assert_array_equal(have["label"].whole(), want["label"])
    labels = dlvm.batches(
        sentences, 3, collate=lambda s: np.array([x["label"] for x in s]), mesh=mesh(2)
    )
    assert [b.whole().tolist() for b in labels] == [[2, 7, 3], [8, 1, 4], [5]]


@pytest.mark.parametrize(
    "given, said",
    [
        ({"mesh": 2}, "mesh=2: expected a mesh"),
        ({"axis": "data"}, "there is no mesh"),
        ({"mesh": mesh(2), "axis": "rows"}, "the mesh has no axis 'rows'; it has data"),
        ({"mesh": mesh(2), "axis": 0}, "axis=0: expected the name of an axis"),
        ({"mesh": mesh(2), "axis": ("data", "data")}, "used twice"),
    ],
)
def test_meshes_that_are_refused(given: Any, said: str):
    with pytest.raises(UserError, match=said):
        dlvm.batches(X, 4, **given)


@pytest.mark.parametrize(
    "transform, said",
    [
        (lambda b: b.sum(), r"batch has the shape \(\), of a piece of 1 rows"),
        (lambda b: (), "a piece holds no array"),
        (lambda b: b.astype(str), "batch"),
        (lambda b: b if b[0, 0] else b[:, 0], "different pieces"),
        (lambda b: b if b[0, 0] else [b], "different structures"),
    ],
)
def test_transforms_that_do_not_give_a_row_for_each(transform: Any, said: str):
    with pytest.raises(UserError, match=said) as caught:
        list(dlvm.batches(X, 8, transform=transform, mesh=mesh(2)))
    assert "dlvm.batches was making batch 0" in caught.value.__notes__
