"""The states of a run: saved on one mesh and restored onto another, the last of them kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError
from dlvm.files.grids import INDEX, read_index
from dlvm.files.preempted import Notice
from dlvm.ir.sharding.sharded import Sharded

from .trees import assert_equal_bits, model

X = np.arange(77.0).reshape(7, 11)


def mesh(**axes: int) -> Any:
    return dlvm.mesh(axes, simulate=int(np.prod(list(axes.values()))))


def cut(given: Any) -> Any:
    """A tree with arrays that the ranks of a mesh share in every way, and one that they don't."""
    names = [None, *given.shape]
    ways = {f"{a} {b}": (a, b) for a in names for b in names if a != b or a is None}
    shared = {n: dlvm.shard(X + i, *way, mesh=given) for i, (n, way) in enumerate(ways.items())}
    empty = dlvm.shard(np.zeros((0, 3), np.float32), names[1], None, mesh=given)
    return {"shared": [*shared.values()][:4], "empty": empty, "plain": X, "n": 3, "key": KEY}


KEY = dlvm.random.key(7)


def whole(tree: Any) -> Any:
    return dlvm.tree.map(lambda x: x.whole() if isinstance(x, Sharded) else x, tree)


MESHES = ({"a": 2, "b": 2}, {"a": 3, "b": 1}, {"b": 4, "a": 2}, {"a": 8, "b": 2})


def test_a_state_is_restored_onto_any_mesh_or_none(tmp_path: Path):
    expected = whole(cut(mesh(a=1, b=1)))
    for i, axes in enumerate(MESHES):
        runs = dlvm.states(tmp_path / str(i))
        runs.save(5, cut(mesh(**axes)))
        for other in MESHES:
            like = cut(mesh(**other))
            step, found = runs.restore(
                dlvm.tree.map(lambda x: x * 0 if isinstance(x, int) else x, like)
            )
            assert step == 5 and type(found["n"]) is int
            for x, y in zip(*map(dlvm.tree.leaves, (found, like)), strict=True):
                assert type(x) is type(y)
                if isinstance(x, Sharded) and isinstance(y, Sharded):
                    assert (x.mesh, x.spec, x.shape) == (y.mesh, y.spec, y.shape)
                    pairs = zip(x.pieces, y.pieces, strict=True)
                    assert all(a.tobytes() == b.tobytes() for a, b in pairs)
        plain = dlvm.tree.map(lambda x: x.whole() if isinstance(x, Sharded) else x, like)
        assert_equal_bits(runs.restore(plain)[1], expected | {"shared": whole(like)["shared"]})


def test_with_a_mesh_arrays_lie_as_they_were_saved(tmp_path: Path):
    x = dlvm.shard(X, ("b", "a"), None, mesh=mesh(a=2, b=2))
    runs = dlvm.states(tmp_path)
    runs.save(1, {"x": x, "y": X, "n": 1})
    for given, spec in ((mesh(a=2, b=2), ("b", "a")), (mesh(b=3), "b"), (mesh(b=3, c=1), "b")):
        found = runs.restore({"x": X, "y": X, "n": 0}, mesh=given)[1]
        assert found["x"].mesh == given.mesh and found["x"].spec == (spec, None)
        assert_equal_bits(whole(found), {"x": X, "y": X, "n": 1})
    found = runs.restore({"x": x, "y": X, "n": 0}, mesh=mesh(c=2))[1]  # which lacks both axes
    assert_equal_bits(found, {"x": X, "y": X, "n": 1})
    pieced = dlvm.mesh({"a": 2, "b": 1}, simulate=2, pieces={"a": 4})
    with pytest.raises(UserError, match="pieces are given for one"):
        runs.restore({"x": X, "y": X, "n": 0}, mesh=pieced)


def test_ranks_with_the_same_piece_write_it_once(tmp_path: Path):
    given = mesh(a=2, b=2)
    dlvm.states(tmp_path).save(0, {"w": dlvm.shard(X, "b", None, mesh=given), "x": X})
    files = {f.name: {*dlvm.load(f)} for f in (tmp_path / "state-0").glob("rank-*")}
    assert files == {"rank-0.safetensors": {"w", "x"}, "rank-1.safetensors": {"w"}}


def test_a_process_with_one_rank_writes_and_reads_its_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given, like = mesh(a=2, b=2), {"w": dlvm.shard(X, "b", None, mesh=mesh(a=2, b=2)), "x": X}
    runs = dlvm.states(tmp_path)
    runs.save(0, like)
    x, grids = like["w"], read_index(tmp_path / "state-0" / INDEX)
    for rank, names in enumerate((["w", "x"], ["w"], [], [])):
        for module in ("grids", "keeping"):
            monkeypatch.setattr(f"dlvm.files.{module}.held", lambda _, r=rank: [r])
        alone = {"w": Sharded(given.mesh, [x.pieces[rank]], x.shape, x.sharding), "x": X}
        here = {n: [r for r, _ in grids[n].written_here(alone[n])] for n in grids}
        assert [n for n, ranks in here.items() if ranks == [rank]] == names
        (piece,) = runs.restore(alone)[1]["w"].pieces
        np.testing.assert_array_equal(piece, x.pieces[rank])


def test_leaves_of_every_kind_come_back_bit_by_bit(tmp_path: Path):
    runs = dlvm.states(tmp_path / "deep" / "run")
    assert runs.restore(model(1))[0] == 0 and runs.latest_step() is None
    runs.save(12, model())
    step, found = runs.restore(model(1))
    assert step == 12
    assert_equal_bits(found, dlvm.tree.map(np.ascontiguousarray, model()) | rest(model()))
    found["turned"][:] = 0  # a copy of its own, whatever becomes of the files
    assert_equal_bits(runs.restore(model(1))[1]["turned"], np.array(model()["turned"], order="C"))


def rest(tree: Any) -> Any:
    return {name: tree[name] for name in ("step", "rate", "flag", "pair", "scalar", 7, "blocks")}


def test_the_last_states_are_kept(tmp_path: Path):
    runs = dlvm.states(tmp_path, max_to_keep=2)
    for step in (1, 5, 9, 10):
        runs.save(step, {"n": step})
    assert runs.all_steps() == [9, 10] and runs.latest_step() == 10
    assert runs.restore({"n": 0}, step=9) == (9, {"n": 9})
    runs.save(3, {"n": 3})  # the one that was just saved stays
    assert runs.all_steps() == [3, 10]
    every = dlvm.states(tmp_path, max_to_keep=None)
    for step in (11, 12, 13):
        every.save(step, {"n": step})
    assert every.all_steps() == [3, 10, 11, 12, 13]
    assert sorted(p.name for p in tmp_path.iterdir())[-1] == "state-3"


def test_a_step_that_is_saved_again_is_replaced(tmp_path: Path):
    runs = dlvm.states(tmp_path)
    for n in range(12):
        runs.save(4, {"n": n})
        assert runs.restore({"n": -1}) == (4, {"n": n}) and len([*tmp_path.iterdir()]) == 1


def test_what_is_half_written_is_never_listed_and_goes_at_the_next_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    runs = dlvm.states(tmp_path)
    runs.save(1, {"n": 1})
    half = tmp_path / "state-2"
    half.mkdir()
    (half / "rank-0.safetensors").write_bytes(b"half")
    (tmp_path / "notes").mkdir()
    (tmp_path / "state-3").write_text("a file")
    assert runs.all_steps() == [1] and runs.restore({"n": 0}) == (1, {"n": 1})
    runs.save(4, {"n": 4})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes", "state-1", "state-3", "state-4"]

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("dlvm.files.keeping.index_of", full)
    with pytest.raises(OSError, match="no space"):
        runs.save(5, {"n": 5})
    assert not (tmp_path / "state-5").exists() and runs.latest_step() == 4
    monkeypatch.undo()
    (tmp_path / "state-4" / INDEX).unlink()  # a removal that was killed
    assert runs.latest_step() == 1


PREEMPTED = """
import os, signal, sys
import dlvm

runs = dlvm.states(sys.argv[1])
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
step, tree = runs.restore({"n": 0})
while not runs.preempted():
    step, tree = step + 1, {"n": tree["n"] + 2}
    if step == 7:
        os.kill(os.getpid(), signal.SIGTERM)
runs.save(step, tree)
assert told == [1]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_a_preempted_run_saves_and_leaves(tmp_path: Path):
    command = [sys.executable, "-c", PREEMPTED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert dlvm.states(tmp_path).restore({"n": 0}) == (7, {"n": 14})


def test_a_thread_can_not_begin_to_listen_for_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dlvm.files.keeping.NOTICE", Notice())
    before = signal.getsignal(signal.SIGTERM)
    errors: list[UserError] = []

    def asks() -> None:
        try:
            dlvm.states(tmp_path).preempted()
        except UserError as error:
            errors.append(error)

    thread = threading.Thread(target=asks)
    thread.start()
    thread.join()
    assert "call it once in the main thread" in str(errors[0])
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    "run, said",
    [
        (lambda r: r.save(-1, {}), "step=-1: expected a whole number of at least 0"),
        (lambda r: r.save(1.5, {}), "save: step=1.5"),
        (lambda r: r.save({"n": 1}, 3), "write runs.save"),
        (lambda r: r.save(3, {"n": 2**70}), "does not fit in i64"),
        (lambda r: r.save(3, {"n": "text"}), "not an array or a number"),
        (lambda r: r.restore({"n": 1}, step=2), "has no state of step 2; it has 1"),
        (lambda r: r.restore({"n": 1}, step="1"), "step='1'"),
        (lambda r: r.restore({"m": 1}), "has no m, which like= has"),
        (lambda r: r.restore({}), "for which like= has no place"),
        (lambda r: r.restore({"n": 1.0}), r"n is i64, and like\['n'\] is f64"),
        (lambda r: r.restore({"n": dlvm.spec("i64[B@a]")}), "does not say of which mesh"),
        (lambda r: r.restore({"n": 1}, mesh=2), "restore: mesh=2: expected a mesh"),
        (lambda r: dlvm.states(r.folder, max_to_keep=0), "max_to_keep=0"),
        (lambda r: dlvm.states({"n": 1}), "expected a path"),
    ],
)
def test_what_is_refused(run: Any, said: str, tmp_path: Path):
    runs = dlvm.states(tmp_path)
    runs.save(1, {"n": 1})
    with pytest.raises(UserError, match=said):
        run(runs)
    assert runs.restore({"n": 0}) == (1, {"n": 1})


def test_files_of_whole_trees_name_states_for_what_ranks_share(tmp_path: Path):
    x = dlvm.shard(X, "a", None, mesh=mesh(a=2))
    path = tmp_path / "x.safetensors"
    for f in (lambda: dlvm.save(path, [x]), lambda: dlvm.load(path, like=[x])):
        dlvm.save(path, [X])
        with pytest.raises(UserError, match=r"\[0\] is shared by the ranks of the mesh a=2") as e:
            f()
        assert "dlvm.states(folder)" in str(e.value)


def test_a_relative_folder_is_that_of_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    runs = dlvm.states("run")
    monkeypatch.chdir(os.sep)
    runs.save(1, {"n": 1})
    assert (tmp_path / "run" / "state-1" / INDEX).is_file()
