"""A part of a file: some names, a prefix, or what a tree and a file have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError

from .trees import assert_equal_bits

RUN = {
    "params": {"w": np.arange(6.0).reshape(2, 3), "b": np.ones(3, np.float32)},
    "params2": {"w": np.zeros(2)},
    "step": 7,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    dlvm.save(tmp_path / "run", RUN)
    return tmp_path / "run"


def test_names_read_these_arrays_alone(path: Path, monkeypatch: pytest.MonkeyPatch):
    found = dlvm.load(path, names=["params.w", "step"])
    assert list(found) == ["params.w", "step"] and found["step"] == 7
    assert list(dlvm.load(path, names="step")) == ["step"] and dlvm.load(path, names=[]) == {}


def test_a_prefix_is_a_file_of_its_own(path: Path):
    params: Any = RUN["params"]
    assert_equal_bits(dlvm.load(path, prefix="params"), {"b": params["b"], "w": params["w"]})
    like = {"w": np.zeros((2, 3)), "b": np.zeros(3, np.float32)}
    assert_equal_bits(dlvm.load(path, like=like, prefix="params"), params)
    assert_equal_bits(dlvm.load(path, like=like["w"], prefix="params.w"), params["w"])
    assert dlvm.load(path, like=0, prefix="step") == 7


def test_names_that_are_not_shared_are_kept_or_left_out_and_told(
    path: Path, caplog: pytest.LogCaptureFixture
):
    new = np.full(4, 2.0)
    like = {"w": np.zeros((2, 3)), "new": {"a": new, "rate": 0.5}}
    found = dlvm.load(path, like=like, prefix="params", strict=False)
    assert_equal_bits(found, {"w": RUN["params"]["w"], "new": {"a": new, "rate": 0.5}})  # type: ignore[index]
    assert [m.partition(" has ")[2] for m in caplog.messages] == [
        "no new.a, new.rate: kept from like=",
        "b: left out, not in like=",
    ]
    caplog.clear()
    dlvm.load(path, like=RUN, strict=False)
    assert not caplog.messages


@pytest.mark.parametrize(
    "given, said",
    [
        ({"names": ["params.ww"]}, r"has no 'params.ww'; did you mean 'params.w'\?"),
        ({"names": [3]}, "expected names of arrays"),
        ({"prefix": "param"}, r"has no 'param'; did you mean 'params"),
        ({"names": ["step"], "prefix": "params"}, "names= and prefix= are given"),
        ({"names": ["step"], "like": {"step": 0}}, "names= and like= are given"),
        ({"strict": False}, "strict=False is given, and there is no tree"),
        (
            {"like": {"v": dlvm.spec("f64[3]")}, "strict": False},
            r"has no v, and like\['v'\] is a spec",
        ),
        ({"like": {"step": np.zeros(2)}, "strict": False}, r"step is i64, and like\['step'\]"),
        ({"like": {"step": 0}}, "for which like= has no place"),
        ({"like": {**RUN, "v": 1}}, "has no v, which like= has"),
    ],
)
def test_what_does_not_fit_is_refused(path: Path, given: Any, said: str):
    with pytest.raises(UserError, match=said):
        dlvm.load(path, **given)
