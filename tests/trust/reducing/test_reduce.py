"""Programs are cut down to what fails, with what is declared of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.ir import parse
from dlvm.trust.blame import bisect
from dlvm.trust.reducing.case import Case
from dlvm.trust.reducing.fewer import with_results
from dlvm.trust.reducing.reduce import reduce
from tests.faults import BUGS, exchanged

TWICE = parse("""dlvm 1

func @main(%x: f64[3], %y: f64[3]) -> (f64[3], f64, f64[3]) {
  %s = sub %x, %y : f64[3]
  %e = exp %s : f64[3]
  %r = sum %e axes=(0) : f64
  return %e, %r, %e
}
adjoint @back of @main wrt (0, 1) keep (0, 1, 2) seeded
batched @lanes of @back axes (0, none, 0, 0, 0) size L
""")
ARRAYS = (np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.25, -0.5]))


def test_a_result_that_stands_twice_keeps_both_places():
    """Both were taken for the last one, which a declaration must not name twice."""
    case = Case(TWICE, ARRAYS)
    for kept, keep in (((0, 1, 2), (0, 1, 2)), ((0, 2), (0, 1)), ((1, 2), (1, 0)), ((1,), (0,))):
        fewer = with_results(case, kept)
        back: Any = next(e for e in fewer.module.entries if e.name == "back")
        assert back.keep == keep
    assert with_results(case, (0, 1, 2)).module.verify() == case.module


def test_a_wrong_rule_of_lanes_is_named_in_the_adjoint_of_such_a_function():
    bug = next(b for b in BUGS if b.name == "batching")
    with bug.plant():
        named = bisect(TWICE, ARRAYS)
        assert named is not None
        small, failure = reduce(TWICE, ARRAYS, named)
    assert failure.law is not None and failure.law.name == exchanged.__name__
    assert small.ops < len(TWICE.main.ops)
