"""``dlvm.testing.digits``, and programs on hostile numbers."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.testing import digits
from tests.opt.algebra.digits import losing

RNG = np.random.default_rng(0)
NEAR = np.eye(50) + 1e-5 * RNG.normal(size=(50, 50))
X = RNG.normal(size=(50, 3))


def change(m, x):
    return (m - dlvm.eye(50, dtype=m.dtype)) @ x


@pytest.mark.parametrize(("dtype", "most"), [("f4", 7.3), ("f8", 15.8)])
def test_the_law_that_loses_digits_is_named(dtype, most):
    if dtype == "f8" and np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        with pytest.raises(dlvm.UserError, match="no longer type"):
            digits(change, NEAR, X)
        return
    m, x = NEAR.astype(dtype), X.astype(dtype)
    found = digits(dlvm.function(change, numerics="fast"), m, x)
    assert not found.kept and found.law.startswith("sum_times_taken_apart at ")
    assert found.compiled[0] < found.literal[0] - 3
    assert most - 1.5 < found.strict[0] < most
    assert "most digits are lost by sum_times_taken_apart" in str(found)


def test_what_is_compiled_by_default_keeps_them():
    found = digits(change, NEAR.astype("f4"), X.astype("f4"))
    assert found.kept and not found.law
    assert abs(found.compiled[0] - found.literal[0]) < 1


def test_only_floats_have_digits():
    x = X.astype("f2")
    found = digits(lambda x: {"sum": x.sum(), "count": (x > 0).sum()}, x)
    assert found.names == ("result['sum']",) and 2 < found.compiled[0] < 3.4


def test_what_is_exact_has_all_digits():
    found = digits(lambda x: (dlvm.zeros(3, "f4"), x + x), X.astype("f4"))
    assert found.compiled == found.literal and min(found.compiled) > 6.8


def test_stated_properties_hold_of_the_copies():
    q = np.linalg.qr(NEAR)[0].astype("f4")
    s = (NEAR + NEAR.T).astype("f4")
    f = lambda q, s, x: (  # noqa: E731
        dlvm.assume(q, "orthogonal").T @ (dlvm.assume(q, "orthogonal") @ x),
        dlvm.assume(s, "symmetric").T @ x,
    )
    assert digits(f, q, s, X.astype("f4")).kept


def test_random_programs_on_hostile_numbers_keep_their_digits():
    assert not list(losing(iter(range(60))))
