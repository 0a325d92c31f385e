"""Compiled functions keep the error that their operations state; ``make accuracy`` looks longer."""

import numpy as np
import pytest

from dlvm.ir import BF16, F16, F32, F64, TensorType, splat
from dlvm.ops import Erf
from tests.accuracy import ROUNDED_ONCE, errors, errors_of_the_reference, measured
from tests.exactly import exactly
from tests.gen.compiled import TARGETS

COUNT = {F16: 0, BF16: 0, F32: 4000, F64: 25}
CASES = [(cls, dtype) for dtype in COUNT for cls in measured()]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("cls", "dtype"), CASES, ids=lambda v: getattr(v, "name", str(v)))
def test_the_stated_error_holds(cls, dtype, target):
    limit = ROUNDED_ONCE if dtype.bits == 16 else cls.ulp
    assert errors(cls, dtype, COUNT[dtype], TARGETS[target]) <= limit


@pytest.mark.parametrize("cls", [c for c in measured() if not c.typed], ids=lambda c: c.name)
def test_what_an_operation_means_in_f64_is_near_enough_to_be_an_oracle(cls):
    assert errors_of_the_reference(cls, COUNT[F64]) <= 4.0


def test_an_operation_whose_exact_values_nobody_knows_is_told_what_to_write():
    op, at = Erf(splat(1.0, TensorType(F64))), [np.array([0.5, 2.0])]
    assert exactly(op, at) is not None
    op.exact = ""  # type: ignore[misc]  # of this one; its reference asks Python's math
    assert exactly(op, at) is None


def test_operations_that_round_once_are_measured_too():
    names = {cls.name for cls in measured()}
    assert {"add", "div", "sqrt", "floor", "remainder", "nextafter", "exp"} <= names
    assert not names & {"less", "select", "cast", "modf"}  # of truths, types or two results
    known = {cls.name for cls in measured() if cls.typed}
    assert known == {"floordiv", "nextafter"}
