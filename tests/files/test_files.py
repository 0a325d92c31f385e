"""A tree that was saved is loaded with the same bits, or refused with the leaf that differs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import dlvm
from dlvm import UserError

from .trees import Layer, Pair, assert_equal_bits, model


def test_every_leaf_comes_back_bit_by_bit(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    dlvm.save(path, model())
    assert_equal_bits(dlvm.load(path, like=model(seed=1)), model())
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_names_are_keys_positions_and_fields_with_dots(tmp_path: Path):
    path = str(tmp_path / "model")
    dlvm.save(path, model())
    found = dlvm.load(path)
    names = {"blocks.0.qkv", "blocks.1.bias", "pair.second", "types.bf16", "7.0", "step"}
    assert names <= found.keys() and "blocks.0.bias" not in found
    assert list(found) == sorted(found) and found["blocks.1.bias"] == 1.5


def test_files_go_to_other_programs_and_come_from_them(tmp_path: Path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    arrays = {"a.0": np.arange(6.0).reshape(2, 3), "b": np.array(True), "c": np.zeros((0, 2), "i2")}
    dlvm.save(ours, {"a": [arrays["a.0"]], "b": True, "c": arrays["c"]})
    save_file(arrays, theirs)
    for found in (load_file(ours), dlvm.load(theirs), dlvm.load(ours)):
        assert_equal_bits(dict(found), arrays)


def test_a_leaf_that_is_the_whole_tree_has_a_name(tmp_path: Path):
    dlvm.save(tmp_path / "one", np.arange(3))
    assert list(dlvm.load(tmp_path / "one")) == ["value"]
    np.testing.assert_array_equal(dlvm.load(tmp_path / "one", like=np.zeros(3, int)), np.arange(3))
    dlvm.save(tmp_path / "none", {"a": None})
    assert dlvm.load(tmp_path / "none") == {}
    assert dlvm.load(tmp_path / "none", like={"a": None}) == {"a": None}


def test_loaded_arrays_are_read_when_used_and_do_not_write_to_the_file(tmp_path: Path):
    path = tmp_path / "model"
    dlvm.save(path, {"w": np.zeros(1 << 16)})
    before = path.read_bytes()
    first, second = dlvm.load(path)["w"], dlvm.load(path)["w"]
    assert not first.flags.owndata and first.flags.aligned
    first += 1
    assert path.read_bytes() == before and not second.any()
    dlvm.save(path, {"w": np.full(1 << 16, 7.0)})  # a new file in its place
    assert not second.any() and dlvm.load(path)["w"][0] == 7


def test_loaded_arrays_may_be_donated(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    dlvm.save(tmp_path / "w", {"w": np.arange(4.0)})
    step = dlvm.function(lambda w: w * 2, donate="w")
    np.testing.assert_array_equal(step(dlvm.load(tmp_path / "w")["w"]), [0, 2, 4, 6])
    assert dlvm.load(tmp_path / "w")["w"][3] == 3


def test_a_tree_of_specs_says_what_is_expected(tmp_path: Path):
    def init(key):
        return {"layers": [Layer(dlvm.random.normal(key, (3, 2), "f32"), dlvm.zeros(2))]}

    params = dlvm.function(init)(dlvm.random.key(0))
    dlvm.save(tmp_path / "p", params)
    like = dlvm.eval_shape(init, dlvm.random.key(1))
    assert_equal_bits(dlvm.load(tmp_path / "p", like=like), params)


def test_the_mode_of_the_file_is_kept_and_links_are_followed(tmp_path: Path):
    path, link = tmp_path / "real", tmp_path / "link"
    path.touch()
    made = path.stat().st_mode
    path.unlink()
    dlvm.save(path, {"a": 1})
    assert path.stat().st_mode == made
    path.chmod(0o600)
    link.symlink_to(path)
    dlvm.save(link, {"a": 2})
    assert link.is_symlink() and dlvm.load(path)["a"] == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_killed_save_left_is_removed_after_an_hour(tmp_path: Path):
    for name, age in (("old", 4000), ("new", 10)):
        folder = tmp_path / f".model.saving-{name}"
        folder.mkdir()
        (folder / "model").touch()
        for path in (folder / "model", folder):
            os.utime(path, (time.time() - age,) * 2)
    (tmp_path / ".other.saving-old").mkdir()
    dlvm.save(tmp_path / "model", {"a": 1})
    assert sorted(os.listdir(tmp_path)) == [".model.saving-new", ".other.saving-old", "model"]


def test_a_save_that_fails_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "model"
    dlvm.save(path, {"a": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        dlvm.save(path, {"a": 2})
    assert dlvm.load(path)["a"] == 1 and os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize(
    "tree, said",
    [
        ({"a.b": 1, "a": {"b": 2}}, r"tree\['a'\]\['b'\] and tree\['a\.b'\] can't have the name"),
        ({"0": 1, 0: 2}, "which each would have"),
        ({"\ud800": 1}, "can't have the name"),
        ({"__metadata__": 1}, "can't have the name '__metadata__'"),
        ({"n": 2**63}, r"tree\['n'\] is the integer 9223372036854775808, which does not fit"),
        ({"x": "text"}, r"save: tree\['x'\] is 'text' of type str"),
        ([1j], r"save: tree\[0\] is 1j of type complex"),
        ([np.array(1j)], r"tree\[0\] has elements of type complex128"),
        ([np.array([None])], r"tree\[0\] has elements of type object"),
        ([np.ones(3, ">f4")], r"tree\[0\] has elements of type >f4"),
        ([dlvm.spec("f32[3]")], r"save: tree\[0\] is a spec of type f32\[3\]"),
    ],
)
def test_what_has_no_name_or_no_bits_is_refused(tree, said: str, tmp_path: Path):
    with pytest.raises(UserError, match=said):
        dlvm.save(tmp_path / "model", tree)
    assert not os.listdir(tmp_path)


def test_a_staged_value_is_saved_after_the_call(tmp_path: Path):
    with pytest.raises(UserError, match=r"save: tree\[0\] is a staged value of type f64\[3\]"):
        dlvm.function(lambda x: dlvm.save(tmp_path / "model", [x]))(np.ones(3))


@pytest.mark.parametrize(
    "like, said",
    [
        ({"a": {"w": np.ones((2, 3))}}, r"has a\.b, n, for which like= has no place"),
        ({"a": {"v": 1, "b": 1}, "n": 3}, r"has no a\.v, which like= has"),
        ({"a": {"W": 1, "b": 1}, "n": 3}, r"has no a\.W, which like= has; did you mean 'a\.w'\?"),
        (
            {"a": {"w": np.ones((3, 2)), "b": 1.0}, "n": 3},
            r"a\.w is f64\[2,3\], and like\['a'\]\['w'\] is f64\[3,2\]",
        ),
        (
            {"a": {"w": np.ones((2, 3), "f4"), "b": 1.0}, "n": 3},
            r"a\.w is f64\[2,3\], and like\['a'\]\['w'\] is f32\[2,3\]",
        ),
        ({"a": {"w": np.ones((2, 3)), "b": 1}, "n": 3}, r"a\.b is f64, and .* is i64"),
        ({"a": {"w": dlvm.spec("f64[B,3]"), "b": 1.0}, "n": 3}, r"is f64\[B,3\]"),
        (Pair(1, 2), r"has no first, second, which like= has"),
        ({"a": {"w": "text", "b": 1.0}, "n": 3}, r"like\['a'\]\['w'\] is 'text'"),
    ],
)
def test_a_leaf_that_differs_is_named(like, said: str, tmp_path: Path):
    dlvm.save(tmp_path / "m", {"a": {"w": np.ones((2, 3)), "b": 0.5}, "n": 3})
    with pytest.raises(UserError, match=said):
        dlvm.load(tmp_path / "m", like=like)


@pytest.mark.parametrize(
    "call, said",
    [
        (
            lambda: dlvm.save({"a": 1}, "model"),
            "save: expected a path, found .* of type dict",
        ),
        (lambda: dlvm.load(None), "load: expected a path, found None"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_path_is_told(call, said: str):
    with pytest.raises(UserError, match=said):
        call()


def test_a_path_may_be_bytes_and_its_name_long(tmp_path: Path):
    path = os.fsencode(tmp_path / ("é" * 120))
    dlvm.save(path, {"a": 1})
    assert dlvm.load(path)["a"] == 1


def test_files_that_are_not_there_raise_python_s_errors(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        dlvm.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        dlvm.save(tmp_path / "none" / "model", {"a": 1})
    with pytest.raises(UserError, match="a folder or a device"):
        dlvm.load(tmp_path)
    with pytest.raises(IsADirectoryError):
        dlvm.save(tmp_path, {"a": 1})
