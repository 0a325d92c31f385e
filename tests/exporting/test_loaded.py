"""What is exported and loaded again differs by no more than rounding explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.compile import expand
from dlvm.dsl.call.function import StagedFunction
from dlvm.trust.answers import Question, differ

from .programs import CASES, Case


def question(f: Callable[..., Any], args: Sequence[Any]) -> Question:
    """A function at its arguments, whose roundings the interpreter can change."""
    applied = StagedFunction(f).applied(tuple(args), {})
    return Question(expand(applied.module), applied.arrays)


def agrees(case: Case, loaded: Callable[..., Any]) -> None:
    """The loaded function gives the same results, up to what other roundings change in either."""
    args = [np.asarray(a) for a in case.args]
    ours, theirs = question(case.f, args), question(loaded, args)
    assert ours.answer.error is None and ours.answer.results
    difference = differ(ours, theirs.answer, theirs)
    assert difference is None, difference


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CASES)
def test_a_function_comes_back_from_onnx(name: str):
    case = CASES[name]
    if name == "shifts":
        pytest.skip("ONNX shifts unsigned integers alone, so that it is refused")
    m = dlvm.onnx.load(dlvm.export(case.f, *case.types, format="onnx"))
    agrees(case, lambda *xs: m.function(m.weights, *xs))


@pytest.mark.parametrize("name", CASES)
def test_a_function_comes_back_from_stablehlo(name: str):
    pytest.importorskip("jax", reason="needs jax: pip install jax")
    case = CASES[name]
    agrees(case, dlvm.stablehlo.load(dlvm.export(case.f, *case.args, format="stablehlo")))
