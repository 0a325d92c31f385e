"""Any two transformations of any control flow, against differences and calls one by one.

Every pair of transformations is tried by the interpreter, on a third of the constructs, so that
every transformation meets every construct both outside and inside; some are tried as machine code.
``HYPOTHESIS_PROFILE=long`` tries all, and more of these.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dlvm

from .combinations import CONSTRUCTS, TRANSFORMATIONS, evaluated

X = np.array([0.4, -0.3, 0.55])
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
NAMES, PLACES = list(TRANSFORMATIONS), list(CONSTRUCTS)


def check(outer, inner, construct, x=X, run=evaluated):
    within = TRANSFORMATIONS[inner][0](CONSTRUCTS[construct])
    make, oracle = TRANSFORMATIONS[outer]
    expected = oracle(within, x)
    np.testing.assert_allclose(run(make(within))(x), expected, rtol=1e-6, atol=1e-6)


TRIED = [
    (outer, inner, construct)
    for i, outer in enumerate(NAMES)
    for j, inner in enumerate(NAMES)
    for k, construct in enumerate(PLACES)
    if LONG or (i + j + k) % 3 == 0
]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("outer", "inner", "construct"), TRIED)
def test_two_transformations_of_control_flow(outer, inner, construct):
    check(outer, inner, construct)


@pytest.mark.parametrize("construct", PLACES)
def test_the_functions_are_what_python_makes_of_them(construct):
    """Outside a trace control flow is Python's own."""
    f = CONSTRUCTS[construct]
    for x in (X, X * 2 + 0.3, -X):
        np.testing.assert_allclose(evaluated(f)(x), f(x), rtol=1e-12)


@settings(max_examples=200 if LONG else 6)
@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(PLACES))
def test_machine_code_gives_what_the_interpreter_gives(outer, inner, construct):
    f = TRANSFORMATIONS[outer][0](TRANSFORMATIONS[inner][0](CONSTRUCTS[construct]))
    np.testing.assert_allclose(dlvm.function(f)(X), evaluated(f)(X), rtol=1e-10, atol=1e-12)


@settings(max_examples=60 if LONG else 5)
@given(st.sampled_from(NAMES), st.sampled_from(PLACES))
def test_a_budget_of_memory_changes_no_bit(name, construct):
    f = TRANSFORMATIONS[name][0](CONSTRUCTS[construct])
    free = dlvm.function(lambda x: f(x))
    budget = free.compile(X).report.peak_bytes // 2
    try:
        found = dlvm.function(lambda x: f(x), memory=budget)(X)
    except dlvm.UserError as error:
        least = int(str(error).split("at least ")[1].split()[0])
        found = dlvm.function(lambda x: f(x), memory=least)(X)
    np.testing.assert_array_equal(found, free(X))
