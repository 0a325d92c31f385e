"""Indexes and files of states that are damaged, or made to do harm, are errors of the user's."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError
from dlvm.files.grids import INDEX

X = np.arange(12.0).reshape(6, 2)
LIKE = {"x": X, "n": 1}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A whole state, of an array that three ranks share."""
    mesh = dlvm.mesh({"data": 3}, simulate=3)
    dlvm.states(tmp_path).save(3, {"x": dlvm.shard(X, "data", None, mesh=mesh), "n": 2})
    return tmp_path / "state-3"


def refused(state: Path, said: str = "") -> None:
    with pytest.raises(UserError, match=f"restore: .*{said}") as caught:
        dlvm.states(state.parent).restore(LIKE)
    assert "runs." in str(caught.value) or "give a tree" in str(caught.value)


ENTRY: dict[str, Any] = {
    "paths outside": {"ranks": ["../../x", 1, 2]},
    "absolute paths": {"ranks": ["/etc/passwd", 1, 2]},
    "a rank that is none": {"ranks": [-1, 1, 2]},
    "a rank twice": {"ranks": [0, 1, 1]},
    "a rank without a file": {"ranks": [0, 1, 7]},
    "a rank beyond all": {"ranks": [0, 1, 10**400]},
    "ranks in another order": {"ranks": [0, 2, 1], "starts": [[0, 1, 4], [0]]},
    "too few ranks": {"ranks": [0, 1]},
    "True as a rank": {"ranks": [0, True, 2]},
    "no list of ranks": {"ranks": 3},
    "overlaps": {"starts": [[0, 2, 2], [0]]},
    "starts that descend": {"starts": [[0, 4, 2], [0]]},
    "a start beyond the end": {"starts": [[0, 2, 6], [0]]},
    "a gap at the front": {"starts": [[1, 2, 4], [0]]},
    "larger cells than files have": {"starts": [[0, 3, 4], [0]]},
    "no start": {"starts": [[], [0]], "ranks": []},
    "too few axes": {"starts": [[0, 2, 4]]},
    "starts that are no list": {"starts": {"0": 1}},
    "a number in a list of starts": {"starts": [0, 1]},
    "another shape": {"shape": [6, 3]},
    "a shape that is beyond memory": {"shape": [10**15, 2]},
    "more axes": {"shape": [6, 2, 1], "starts": [[0, 2, 4], [0], [0]]},
    "a size that is no number": {"shape": ["6", 2]},
    "a size below zero": {"shape": [-6, 2]},
    "a size with a fraction": {"shape": [6.0, 2]},
    "another type": {"dtype": "I64"},
    "a type that there is not": {"dtype": "F7"},
    "a type of another kind": {"dtype": ["F64"]},
    "more names": {"file": "rank-0"},
    "axes that are no text": {"names": [[1], []]},
    "axes of too few": {"names": [["data"]]},
    "axes in no list": {"names": "data"},
}


@pytest.mark.parametrize("name", ENTRY)
def test_a_hostile_entry_is_refused(name: str, state: Path):
    index = json.loads((state / INDEX).read_text())
    index["arrays"]["x"].update(ENTRY[name])
    (state / INDEX).write_text(json.dumps(index))
    refused(state)


@pytest.mark.parametrize(
    "text",
    ["", "7", "[]", "null", "{}", '{"arrays": {}}', '{"format": "dlvm states 1", "arrays": []}',
     '{"format": "dlvm states 2", "arrays": {}}', '{"format": [], "arrays": {}}', "[" * 100_000,
     '{"format": "dlvm states 1", "arrays": {"n": 1}}', "\x00", "9" * 10_000,
     '{"format": "dlvm states 1", "format": "dlvm states 1", "arrays": {}}'],
)  # fmt: skip
def test_a_hostile_index_is_refused(text: str, state: Path):
    (state / INDEX).write_text(text)
    refused(state)


def test_every_cut_of_an_index_and_random_damage(state: Path):
    text, rng = (state / INDEX).read_bytes(), random.Random(0)
    for size in range(0, len(text), 3):
        (state / INDEX).write_bytes(text[:size])
        refused(state)
    for _ in range(300):
        damaged = bytearray(text)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(text))] = rng.choice(b'0123456789-,:[]{}"ex\xff')
        (state / INDEX).write_bytes(damaged)
        try:
            dlvm.states(state.parent).restore(LIKE)
        except UserError:
            continue
        assert json.loads(damaged) == json.loads(text)


def test_files_of_ranks_that_are_not_what_the_index_says(state: Path, tmp_path: Path):
    file = state / "rank-1.safetensors"
    bytes_of = file.read_bytes()
    for size in (0, 7, len(bytes_of) // 2, len(bytes_of) - 1):
        file.write_bytes(bytes_of[:size])
        refused(state, "rank-1.safetensors'")
    for other, said in (
        ({"x": X}, r"x is f64\[6,2\], and the index says f64\[2,2\]"),
        ({"x": X[:2].astype(np.int64)}, "x is i64"),
        ({"y": X[:2]}, "it has no x"),
    ):
        dlvm.save(file, other)
        refused(state, said)
    file.unlink()
    refused(state, "No such file")
    outside = tmp_path / "outside"
    outside.write_bytes(bytes_of)
    file.symlink_to(outside)
    refused(state, "found a link")
    file.unlink()
    os.mkfifo(file)
    refused(state, "a folder or a device")


def test_an_index_that_is_no_file(state: Path, tmp_path: Path):
    shutil.move(state / INDEX, tmp_path / "elsewhere")
    (state / INDEX).symlink_to(tmp_path / "elsewhere")
    refused(state, "expected a file")
