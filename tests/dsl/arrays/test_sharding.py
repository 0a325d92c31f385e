"""Meshes of users, and annotations in and out of staged functions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ArgumentError, ShapeError, TraceError, UserError
from dlvm.dsl.arrays.sharding import MADE
from dlvm.ir.sharding.ranks import World

MESH = dlvm.mesh({"data": -1, "model": 2}, simulate=4)
OTHER = dlvm.mesh({"rows": 2}, simulate=2)
X = np.arange(12.0).reshape(6, 2)


def specs(f: Any, *args: Any) -> list[tuple[str, ...]]:
    """The annotations in the program of a function of the mesh."""
    module = dlvm.function(mesh=MESH)(f).trace(*args)
    return [op.spec for fn in module.functions for op in fn.ops if op.name == "shard"]  # type: ignore[attr-defined]


def test_what_a_mesh_tells() -> None:
    assert (MESH.rank, MESH.size, MESH.shape) == (0, 4, {"data": 2, "model": 2})
    at = World(MESH.mesh).run(lambda _: (MESH.rank, MESH.index("data"), MESH.index("model")))
    assert at == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]
    assert dlvm.mesh({"data": -1}).size == 1
    assert pickle.loads(pickle.dumps(MESH)) == MESH != OTHER
    assert str(dlvm.mesh({"a": 2}, simulate=2, pieces={"a": 8}).mesh) == "a=2/8"


@pytest.mark.parametrize(
    "axes, options, said",
    [
        ({"a": 2}, {}, "a=2 do not fit the number of ranks, which is 1"),
        ({"a": 2, "b": -1}, {"simulate": 3}, "do not fit"),
        ({"a": -1, "b": -1}, {}, "a and b are both -1"),
        ({}, {}, "found none"),
        ({"a": 0}, {}, "at least 1"),
        ({"a": True}, {}, "whole number"),
        ({"a b": 1}, {}, "names of axes"),
        ({"a": 1}, {"simulate": "4"}, "simulate='4'"),
        ({"a": 2}, {"simulate": 2, "pieces": {"b": 4}}, "pieces= names 'b'"),
        ({"a": 2}, {"simulate": 2, "pieces": {"a": 1}}, "1 pieces along 'a'"),
    ],
)
def test_meshes_that_are_refused(axes: Any, options: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        dlvm.mesh(axes, **options)


@pytest.mark.parametrize(
    "names, spec",
    [
        (("data", None), ("data", "")),
        ((None, "model"), ("", "model")),
        ((("data", "model"), None), ("data+model", "")),
        (("data", ...), ("data", "...")),
        ((..., "data"), ("...", "data")),
        ((...,), ("...", "...")),
        (("data", "model", ...), ("data", "model")),
    ],
)
def test_names_become_the_annotation_of_each_axis(names: Any, spec: tuple[str, ...]) -> None:
    assert specs(lambda x: dlvm.shard(x, *names).sum(), X) == [spec]
    cut = dlvm.shard(X, *names, mesh=MESH)
    assert cut.spec == tuple(
        None if s in ("", "...") else tuple(s.split("+")) if "+" in s else s for s in spec
    )
    np.testing.assert_array_equal(cut.whole(), X)


@pytest.mark.parametrize(
    "names, said",
    [
        (("dat", None), "no axis 'dat'"),
        (("data", "data"), "used twice"),
        (("data",), "names for 2 axes, found 1"),
        (("data", None, None), "names for 2 axes, found 3"),
        ((..., ...), "one ... at most"),
        ((3, None), "found 3"),
        ((("data", 3), None), "found 3"),
    ],
)
def test_wrong_names_are_errors_in_and_out_of_staged_code(names: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as outside:
        dlvm.shard(X, *names, mesh=MESH)
    with pytest.raises(UserError, match=said) as inside:
        specs(lambda x: dlvm.shard(x, *names), X)
    for found in (outside, inside):
        assert "test_sharding.py" in str(found.value)
        if "axis" in said or "twice" in said:
            assert 'dlvm.mesh({"data": -1, "model": 2}, simulate=4)' in str(found.value)


def test_the_newest_mesh_cuts_and_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = dlvm.mesh({"a": 3}, simulate=3)
    assert dlvm.shard(X, "a", None).mesh == newest.mesh
    monkeypatch.setattr("dlvm.dsl.arrays.sharding.MADE", {})
    with pytest.raises(ArgumentError, match="there is no mesh"):
        dlvm.shard(X, "a", None)
    assert newest.mesh in MADE


def test_an_array_of_pieces_is_cut_again() -> None:
    rows = dlvm.shard(X, "data", None, mesh=MESH)
    columns = dlvm.shard(rows, None, "model", mesh=MESH)
    assert columns.spec == (None, "model") and dlvm.shard(rows, "data", ..., mesh=MESH) is rows
    np.testing.assert_array_equal(columns.whole(), X)


def test_a_rule_annotates_a_tree() -> None:
    net: dict[str, Any] = {"w": X, "b": X[0], "rate": 0.5}

    def rule(path: Any, leaf: Any) -> Any:
        return {"w": ("data", ...), "b": "model", "rate": ...}[path[-1]]

    cut = dlvm.shard(net, rule, mesh=MESH)
    assert cut["w"].spec == ("data", None) and cut["b"].spec == ("model",) and cut["rate"] == 0.5
    found = specs(lambda net: dlvm.shard(net, rule), net)
    assert sorted(found) == [("data", "..."), ("model",)]
    only = dlvm.shard(
        net, lambda path, leaf: ("data", None) if path[-1] == "w" else None, mesh=MESH
    )
    assert only["b"] is net["b"]
    with pytest.raises(ArgumentError, match="found a dict"):
        dlvm.shard(net, "data", None)
    with pytest.raises(UserError, match="path, leaf"):
        dlvm.shard(net, lambda leaf: None)  # type: ignore[misc]


def test_pieces_of_ranks_become_one_array() -> None:
    rows = [X[:4], X[:4], X[4:], X[4:]]
    made = MESH.from_local([X[:3], X[:3], X[3:], X[3:]], "data", None)
    np.testing.assert_array_equal(made.whole(), X)
    uneven = OTHER.from_local(lambda rank: (X[:3], X[3:5])[rank], "rows", None)
    assert uneven.shape == (5, 2) and [p.shape for p in uneven.pieces] == [(3, 2), (3, 2)]
    np.testing.assert_array_equal(uneven.whole(), X[:5])
    alone = dlvm.mesh({"data": -1}).from_local(X, "data", None)
    np.testing.assert_array_equal(alone.whole(), X)
    with pytest.raises(ShapeError, match="have 4, 4, 2, 2; expected 3, 3, 3, 3"):
        MESH.from_local(rows, "data", None)
    with pytest.raises(ShapeError, match="0 and 1 have different pieces"):
        MESH.from_local([X, X + 1, X, X], "data", None)
    with pytest.raises(ShapeError, match="pieces of 1 and 2 axes"):
        OTHER.from_local([X, X[0]], "rows", None)
    with pytest.raises(ArgumentError, match="pieces of 2 ranks, found a ndarray"):
        OTHER.from_local(X, "rows", None)


def test_staged_code_without_a_mesh_or_with_another_one_is_an_error() -> None:
    with pytest.raises(TraceError, match="has no mesh") as found:
        dlvm.grad(lambda x: dlvm.shard(x, "data", None).sum())(X)
    assert "@dlvm.function(mesh=mesh)" in str(found.value)
    with pytest.raises(TraceError, match="the mesh is rows=2, and that of the function") as found:
        specs(lambda x: dlvm.shard(x, "rows", None, mesh=OTHER), X)
    assert str(found.value).count("was made at test_sharding.py") == 2
