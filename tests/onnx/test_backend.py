"""A sample of the tests of backends in the package onnx; tests.onnx.backend runs all of them."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")

from .backend import outcome
from .cases import Case, cases

EVERY = 12
"""One case in so many of the sample is compiled too."""


def sample() -> list[Case]:
    """The first case of each operation, and every tenth of the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = [c for c in cases("node", "simple") if c.is_core() and "_expanded" not in c.name]
    first = {c.model.graph.node[-1].op_type: c for c in reversed(known)}
    return [c for k, c in enumerate(known) if k % 10 == 0 or c is first[_name(c)]]


def _name(case: Case) -> str:
    return case.model.graph.node[-1].op_type


REFUSED = ("Det",)
"""Core operations that dlvm does not have."""


def test_the_sample_of_the_suite_passes():
    chosen = [c for c in sample() if _name(c) not in REFUSED]
    assert len(chosen) > 200
    found = {c.name: outcome(c, compiled=k % EVERY == 0)[:2] for k, c in enumerate(chosen)}
    assert {n: f for n, f in found.items() if f[0] != "passed"} == {}
