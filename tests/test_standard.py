"""The array API standard 2024.12, name by name: what is here, and why each other name is not."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.dsl.words.names import lookup
from dlvm.dsl.words.remedies import OURS

SECTIONS = {
    "constants": "e inf nan newaxis pi",
    "data types": """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64
        complex64 complex128""",
    "data type functions": """astype can_cast finfo iinfo isdtype result_type""",
    "creation": """arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid
        ones ones_like tril triu zeros zeros_like""",
    "element-wise": """abs acos acosh add asin asinh atan atan2 atanh bitwise_and
        bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj
        copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot
        imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and
        logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal
        positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract
        tan tanh trunc""",
    "statistical": "max mean min prod std sum var",
    "searching": "argmax argmin count_nonzero where",
    "utility": "all any diff",
}
ABSENT = {
    "complex64": "there are no complex numbers",
    "complex128": "there are no complex numbers",
}
NAMES = [name for section in SECTIONS.values() for name in section.split()]
METHODS = """
    __abs__ __add__ __and__ __eq__ __floordiv__ __ge__ __getitem__ __gt__ __invert__ __le__
    __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__
    __rshift__ __setitem__ __sub__ __truediv__ __xor__ __radd__ __rand__ __rfloordiv__
    __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rsub__ __rtruediv__
    __rxor__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__ __ior__
    __ipow__ __irshift__ __isub__ __itruediv__ __ixor__ dtype mT ndim shape size T
"""


@pytest.mark.parametrize("name", NAMES)
def test_it_is_here_or_there_is_a_reason(name):
    assert hasattr(dlvm, name) != (name in ABSENT), ABSENT.get(name, f"dlvm has no {name}")
    if name not in ABSENT:
        assert name in dir(dlvm)
        assert not callable(getattr(dlvm, name)) or getattr(dlvm, name).__doc__


@pytest.mark.parametrize("name", METHODS.split())
def test_a_staged_array_has_it(name):
    def f(x):
        assert name in dir(type(x))
        return x

    dlvm.function(f)(np.ones((2, 2)))


UFUNCS = [
    name
    for name in sorted(dir(np))
    if isinstance(getattr(np, name), np.ufunc)
    and getattr(np, name).__name__ == name
    and getattr(np, name).signature is None
]
UNSTAGED = {
    "isnat": "there are no dates",
    "frexp": "it takes floats apart; the standard has no such function",
    "ldexp": "it puts floats together; the standard has no such function",
    "spacing": "nextafter gives it",
    "bitwise_count": "the standard has no such function",
    "gcd": "a loop of unknown length for each element",
    "lcm": "a loop of unknown length for each element",
    "float_power": "it is pow of f64 operands",
}


@pytest.mark.parametrize("name", UFUNCS)
def test_numpys_own_functions_of_elements_stage(name):
    found = lookup(OURS.get(name, name))
    assert (found is None) == (name in UNSTAGED), UNSTAGED.get(name, f"dlvm has no {name}")
