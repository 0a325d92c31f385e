"""The pytest plugin, in a run of its own."""

from __future__ import annotations

import pytest

from tests.test_house import ROOT

TESTS = """
import numpy as np, pytest, dlvm
from dlvm.ops import Tanh

@pytest.fixture
def x():
    return np.array([0.3, 0.7])

@pytest.mark.gradcheck(order=1)
def test_right(x):
    return dlvm.tanh, x

@pytest.mark.gradcheck(order=1)
def test_wrong(x, monkeypatch):
    right = Tanh.adjoint
    monkeypatch.setattr(Tanh, "adjoint", lambda self, dy: (-right(self, dy)[0],))
    return dlvm.tanh, x

@pytest.mark.gradcheck
def test_no_function():
    return 3

def target():
    return dlvm.function(lambda x: x + 1.0).compile(np.ones(3)).report.target

def test_ways(dlvm_ways):
    assert (target() == "interpreter") == (dlvm_ways == "interpreted")

def test_interpreted(dlvm_interpret):
    assert target() == "interpreter"

def test_cache(dlvm_private_cache):
    dlvm.function(lambda x: x * 3.0)(np.ones(3))
    assert list(dlvm_private_cache.rglob("*"))

@pytest.mark.dlvm_debug(nans=True)
def test_looked_at():
    dlvm.function(dlvm.log)(np.array(-1.0))

def test_not_looked_at():
    dlvm.function(dlvm.log)(np.array(-1.0))
"""


def test_what_the_plugin_offers(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-pdlvm.testing.plugin", "--strict-markers", "-rA")
    result.assert_outcomes(passed=6, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*the sign is wrong*",
            "*returns (f, [*]args), found 3*",
            "*log made a NaN out of finite numbers*",
            "PASSED *test_right",
            "PASSED *test_ways[[]compiled[]]",
            "PASSED *test_ways[[]interpreted[]]",
            "PASSED *test_interpreted",
            "PASSED *test_cache",
            "PASSED *test_not_looked_at",
        ]
    )
