"""Functions of a mesh: their arguments, signatures and transformations."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ShapeError, TraceError, UserError
from dlvm.gen import rank_tables
from dlvm.ir.sharding import ranks

MESH = dlvm.mesh({"data": 2, "part": 2}, simulate=4)
OTHER = dlvm.mesh({"lines": 2}, simulate=2)
X, W = np.arange(12.0).reshape(6, 2), np.ones(2)


@dlvm.function(mesh=MESH)
def loss(w: Any, x: Any) -> Any:
    return ((dlvm.shard(x, "data", ...) @ w) ** 2).sum()


@dlvm.function
def total(x: Any) -> Any:
    return x.sum()


def rows() -> Any:
    return dlvm.shard(X, "data", None, mesh=MESH)


def heads(text: str) -> str:
    """The line of the main function."""
    return text.splitlines()[1]


def test_a_sharded_argument_is_a_parameter_that_arrives_in_pieces() -> None:
    made = loss.compile(W, rows())
    wanted = "func @loss(%w: f64[2], %x: f64[6@data,2]) -> f64 {"
    for stage in ("traced", "differentiated", "optimized", "placed"):
        assert heads(made.text(stage)) == wanted
    for stage in ("partitioned", "kernels"):
        assert heads(made.text(stage)) == wanted.replace("6@data", "3")
    assert made.road.options.mesh == MESH.mesh and "mesh=data=2,part=2" in repr(made)


def test_specs_name_what_shares_their_axes() -> None:
    text = "f64[B@data+part,2]"
    spec = dlvm.spec(text)
    assert repr(spec) == f"spec('{text}')"
    assert f"%x: {text})" in heads(str(loss.trace(W, spec)))
    with pytest.raises(UserError, match="x: the mesh has no axis 'dat'"):
        loss.trace(W, dlvm.spec("f64[B@dat,2]"))
    with pytest.raises(UserError, match="the function has no mesh"):
        total.trace(spec)


def test_each_way_to_cut_the_arguments_is_a_program_and_explain_says_so() -> None:
    f = dlvm.function(mesh=MESH)(lambda x: x.sum())
    for x in (X, rows(), X, rows(), dlvm.shard(X, None, None, mesh=MESH)):
        assert float(f(x)) == X.sum()
    said = str(f.explain())
    assert "2 compiled" in said and "x was f64[6,2], is f64[6@data,2]" in said


def test_the_program_gets_the_pieces_and_calls_take_no_short_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, found = loss.compile(W, rows()), list[Any]()

    class Executable:
        def run(self, arrays: Any) -> Any:
            found.append(arrays)
            return (arrays[1],)

    monkeypatch.setitem(made.road.__dict__, "executable", Executable())
    cut = rows()
    for _ in range(3):
        assert loss(W, cut) is cut  # results stay as the program left them
    assert [arrays[1] for arrays in found] == [cut] * 3
    np.testing.assert_array_equal(found[0][0], W)


def test_arrays_of_pieces_are_refused_where_no_mesh_or_another_one_runs() -> None:
    for call in (total, total.compile(X)):
        for _ in range(2):
            call(X)  # there is a short cut
            with pytest.raises(UserError, match="x: expected an array, found one that the ranks"):
                call(rows())
    with pytest.raises(UserError, match="found one of the mesh data=2,part=2"):
        dlvm.function(mesh=OTHER)(lambda x: x.sum())(rows())
    captured = rows()
    with pytest.raises(TraceError, match="captures an array shared by ranks"):
        dlvm.function(mesh=MESH)(lambda: dlvm.sum(captured))()


def test_a_compiled_program_takes_arrays_cut_as_it_was_compiled_for() -> None:
    made = loss.compile(W, rows())
    with pytest.raises(ShapeError, match=r"cut by \(data, None\), called with a whole array"):
        made(W, X)
    with pytest.raises(ShapeError, match=r"called with an array cut by \(None, part\)"):
        made(W, dlvm.shard(X, None, "part", mesh=MESH))


def test_a_donated_array_that_another_name_reaches_is_copied() -> None:
    f = dlvm.function(mesh=MESH, donate="x")(lambda x: x + 1)
    x = kept = rows()
    f(x)
    np.testing.assert_array_equal(kept.whole(), X)


def test_a_debugged_call_looks_at_the_whole_arrays() -> None:
    f = dlvm.function(mesh=MESH, debug="nans", donate="x")(lambda x: dlvm.log(x - 3))
    with pytest.raises(dlvm.NotFinite, match="log made a NaN") as found:
        f(rows())
    assert "3 of 12 elements, the first at [0, 0]" in str(found.value)


def test_transformations_have_the_mesh_of_their_function() -> None:
    def shards(module: dlvm.Module) -> int:
        return sum(op.name == "shard" for fn in module.functions for op in fn.ops)

    assert shards(dlvm.grad(loss).trace(W, rows())) == 1
    assert "%x: f64[6@data,2])" in heads(dlvm.grad(loss).compile(W, rows()).text("placed"))
    assert shards(dlvm.vmap(loss, in_axes=(None, 0)).trace(W, X[None])) == 1
    assert dlvm.eval_shape(loss, W, rows()).shape == ()
    found, pullback = dlvm.vjp(loss, W, X)
    np.testing.assert_allclose(pullback(1.0)[0], 2 * X.T @ (X @ W))
    assert float(found) == ((X @ W) ** 2).sum()
    open_ = dlvm.function(mesh=MESH, dynamic=True)(lambda x: dlvm.shard(x, "data", None) * 2)
    assert dlvm.eval_shape(open_, X).shape == (6, 2)


def test_two_meshes_in_one_trace_are_an_error_with_both_lines() -> None:
    def outer(x: Any) -> Any:
        return loss(W, x)

    assert loss(W, X) == dlvm.function(mesh=MESH)(outer)(X)
    for staged in (dlvm.function(mesh=OTHER)(outer), dlvm.function(outer)):
        with pytest.raises(TraceError, match="and outer, which calls it") as found:
            staged(X)
        said = str(found.value)
        assert "def loss(w: Any" in said and "def outer(x: Any" in said


def test_options_that_are_refused() -> None:
    with pytest.raises(UserError, match="mesh='data': expected a mesh"):
        dlvm.function(mesh="data")(total)  # type: ignore[call-overload]
    with pytest.raises(UserError, match="expected the host"):
        dlvm.function(mesh=MESH, target="cuda:0:sm_90")(total)


def test_annotations_of_one_value_that_disagree_are_an_error_with_both_lines() -> None:
    def twice(x: Any) -> Any:
        first = dlvm.shard(x, "data", None)
        return first + dlvm.shard(x, None, "data")

    def inside(x: Any) -> Any:
        return dlvm.shard(dlvm.shard(x, "data", ...), "part", None)

    for wrong in (twice, inside):
        with pytest.raises(TraceError, match=r"is annotated as \(data.*found \(") as found:
            dlvm.function(mesh=MESH)(wrong)(X)
        assert "test_mesh.py" in str(found.value.notes)
    agreed = dlvm.function(mesh=MESH)(lambda x: dlvm.shard(dlvm.shard(x, "data", ...), ..., None))
    np.testing.assert_array_equal(np.asarray(agreed(rows())), X)


def test_the_error_of_a_call_is_its_own_whichever_rank_has_it() -> None:
    f = dlvm.function(mesh=MESH)(lambda t, i: t[dlvm.shard(i, "data")].sum())
    for wrong in ([0, 1, 9, 2], [8, 0, 1, 2], [0, 1, 2, 7], [6, 6, 6, 6]):
        with pytest.raises(dlvm.errors.IndexOutOfRange, match=f"index {max(wrong)} "):
            f(np.arange(4.0), np.array(wrong))
        assert f(np.arange(4.0), np.array([0, 1, 2, 3])) == 6.0


def test_what_looks_at_one_device_refuses_a_program_of_ranks() -> None:
    with pytest.raises(UserError, match="profile: expected a program of one device"):
        loss.compile(W, X).profile(W, X)
    with dlvm.debug(bounds=True), pytest.raises(UserError, match="for one CPU, found ranks"):
        dlvm.function(mesh=MESH)(lambda x: dlvm.shard(x, "data", None).sum())(X)


def test_the_library_may_add() -> None:
    mesh = dlvm.mesh({"data": 4}, simulate=4, sums="library")
    assert repr(mesh) == "<mesh data=4,library>" and mesh.mesh.named(str(mesh.mesh)) == mesh.mesh
    for dtype in ("f4", "f8", "i8"):  # integers by ranks
        x = np.arange(4 * 700).reshape(4, 700).astype(dtype)
        f = dlvm.function(lambda x: dlvm.shard(x, "data", None).sum(0), mesh=mesh)
        told = f.compile(x).text("kernels")
        assert ("add_ranks" in told) == (dtype in ("f4", "f8"))
        np.testing.assert_array_equal(f(x), x.sum(0))
    with pytest.raises(UserError, match="pieces= promises bits"):
        dlvm.mesh({"data": 4}, simulate=4, sums="library", pieces={"data": 8})
    with pytest.raises(UserError, match="expected 'ordered' or 'library'"):
        dlvm.mesh({"data": 4}, simulate=4, sums="fast")


def test_an_exchange_of_more_bytes_than_are_counted_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    total = lambda x: dlvm.shard(x, "data", None).sum(0)  # noqa: E731
    assert np.allclose(dlvm.function(mesh=MESH)(total)(X), X.sum(0))
    monkeypatch.setattr(rank_tables, "LONG", 8)
    with pytest.raises(UserError, match=r"more than 2\^31 bytes"):
        dlvm.function(mesh=MESH)(lambda x: total(x) * 2)(X)


def test_a_function_without_a_mesh_prints_on_every_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(ranks.PROCESSES, MESH.mesh, types.SimpleNamespace(rank=1))
    dlvm.function(lambda x: dlvm.print("seen", x))(1.0)
    assert capsys.readouterr().out == "seen 1.0\n"
