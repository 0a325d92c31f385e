"""Compiled functions keep the error that their operations state; ``make accuracy`` looks longer."""

import pytest

from dlvm.ir import BF16, F16, F32, F64
from tests.accuracy import ORACLES, ROUNDED_ONCE, errors, measured

COUNT = {F16: 0, BF16: 0, F32: 4000, F64: 25}
CASES = [(cls, dtype) for dtype in COUNT for cls in measured()]


@pytest.mark.parametrize(("cls", "dtype"), CASES, ids=lambda v: getattr(v, "name", str(v)))
def test_the_stated_error_holds(cls, dtype):
    limit = ROUNDED_ONCE if dtype.bits == 16 else cls.ulp
    assert errors(cls, dtype, COUNT[dtype]) <= limit


def test_every_rounded_operation_has_an_oracle():
    assert {cls.name for cls in measured()} == set(ORACLES)
