"""Strategies draw what they say, with the edges among it, and shrink."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import find, given, settings

import dlvm.testing
from dlvm.base.errors import UserError
from dlvm.ir import F64, I64, NUMBERS
from dlvm.ops import Matmul
from dlvm.testing import arrays, programs, shapes
from tests.test_house import ROOT


@given(arrays([str(t) for t in NUMBERS]))
def test_arrays_have_types_and_shapes(x):
    assert x.size <= 1024 and x.ndim <= 3


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", np.float32])
def test_edges_are_among_the_elements(dtype):
    seen = []

    @settings(max_examples=100, derandomize=True, database=None)
    @given(arrays(dtype, (4,)))
    def collect(x):
        seen.append(x.astype(np.float64))

    collect()
    every = np.concatenate(seen)
    assert np.isnan(every).any() and np.isinf(every).any()
    assert np.signbit(every[every == 0]).any() and (every != 0).any()


def test_bounds_hold_for_edges_too():
    @given(arrays("f32", shapes(1, 2), low=0.5, high=4.0))
    def check(x):
        assert np.all((x >= 0.5) & (x <= 4.0))

    check()


def test_they_shrink():
    assert find(arrays("i32"), lambda x: x.ndim > 0).shape == (0,)
    assert find(arrays("f64", (2,)), lambda x: True).tolist() == [0.0, 0.0]


@given(programs([Matmul], (F64, I64), max_ops=4))
def test_programs_run(program):
    program.module.verify()
    assert len(program.run()) == len(program.module.main.results)


def test_unknown_types_are_told():
    with pytest.raises(UserError, match="no element type 'f31'"):
        arrays("f31")


def test_without_hypothesis_the_error_says_what_to_do():
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import numpy as np, dlvm.testing as t, dlvm\n"
        "print(t.gradcheck(dlvm.sin, np.array([1.0]), order=1, compiled=False).orders)\n"
        "try:\n    t.arrays\nexcept dlvm.UserError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.startswith("(1,)")
    assert "need Hypothesis" in done.stdout and "pip install hypothesis" in done.stdout


def test_every_name_is_there():
    assert all(hasattr(dlvm.testing, name) for name in dlvm.testing.__all__)
    assert set(dir(dlvm.testing)) == set(dlvm.testing.__all__)
    with pytest.raises(AttributeError):
        dlvm.testing.nothing  # noqa: B018
