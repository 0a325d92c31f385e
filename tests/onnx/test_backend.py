"""A sample of the tests of backends in the package onnx; tests.onnx.backend runs all of them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from dlvm.onnx.table import TABLE, key_of_node

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")

from .backend import outcome
from .cases import Case, cases

BESIDE = {
    *("SimplifiedLayerNormalization", "GlobalLpPool", "Multinomial"),
    *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"),
}
"""Operations for which the package has no case; test_operations.py has one."""
EVERY = 12
"""One case in so many of the sample is compiled too."""


ROUNDING = ("test_dft_inverse", "test_dft_inverse_opset19")
"""Cases that expect 2e-7 where the exact result is 0."""


def sample() -> list[Case]:
    """The first case of each operation of the table, and every tenth of the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = [c for c in cases("node", "simple") if _is_ours(c)]
    first = {_key(c): c for c in reversed(known)}
    return [c for k, c in enumerate(known) if k % 10 == 0 or c is first[_key(c)]]


def _is_ours(case: Case) -> bool:
    nodes = case.model.graph.node
    return (
        case.has_plain_types()
        and all(key_of_node(n) in TABLE for n in nodes)
        and "_expanded" not in case.name
        and case.name not in ROUNDING
    )


def _key(case: Case) -> Any:
    return key_of_node(case.model.graph.node[-1])


def test_the_sample_of_the_suite_passes(drawn_third: slice):
    """A third of the cases in each run."""
    every = sample()
    assert len(every) > 250
    chosen = every[drawn_third]
    found = {c.name: outcome(c, compiled=k % EVERY == 0)[:2] for k, c in enumerate(chosen)}
    assert {n: f for n, f in found.items() if f[0] != "passed"} == {}


def test_every_operation_of_the_table_has_a_case():
    tried = {_key(c) for c in sample()}
    assert {name for domain, name in TABLE if not domain and (domain, name) not in tried} <= BESIDE
