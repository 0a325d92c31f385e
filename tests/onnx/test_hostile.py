"""Damaged models: the only error that reading and importing them gives is a ``UserError``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dlvm

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from tests.running import runs_all, seed

from .test_load import NODE, WHOLE, made, value

ROOT = Path(__file__).parents[2]


def test_five_thousand_damaged_models_are_imported_or_refused(request: pytest.FixtureRequest):
    """In a process of its own, which has a limit of memory; each seed has a sixth of them."""
    parts, first = (1, 0) if runs_all(request.config) else (6, seed() % 6)
    reads, imports = 2000 // parts, 5000 // parts
    command = [sys.executable, "-m", "tests.onnx.hostile", "--cases", str(reads)]
    command += ["--imports", str(imports), "--seed", str(first * imports)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert not done.returncode, done.stdout + done.stderr
    counts = re.findall(r"(\d+) fine, (\d+) refused, (\d+) wrong", done.stdout)
    (fine, refused, wrong), imported = counts[0], counts[1]
    assert min(int(fine), int(refused)) > reads // 4 and wrong == "0"
    assert sum(map(int, imported)) == imports
    assert min(map(int, imported[:2])) > imports // 5 and imported[2] == "0"


def test_a_model_that_asks_for_more_memory_than_there_is_is_refused():
    zero, end = np.array(0), np.array(2**58)
    data = made(
        [NODE("Range", ["a", "b", "c"], ["y"])],
        [],
        [value("y", "n", kind=WHOLE)],
        a=zero,
        b=end,
        c=zero + 1,
    )
    with pytest.raises(dlvm.UserError, match=r"Range.*bytes of constants"):
        dlvm.onnx.load(data)()


def test_an_array_of_more_axes_than_numpy_has_is_refused():
    with pytest.raises(dlvm.ShapeError, match="at most 64 axes, found 65"):
        dlvm.reshape(np.ones(1), (1,) * 65)
