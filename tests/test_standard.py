"""The array API standard 2024.12, name by name: what is here, and why each other name is not."""

from __future__ import annotations

import functools
import inspect
from typing import Any

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
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "sorting": "argsort sort",
    "sets": "unique_all unique_counts unique_inverse unique_values",
    "indexing": "take take_along_axis",
    "manipulation": """broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims
        repeat reshape roll squeeze stack tile unstack""",
    "linear algebra": "matmul matrix_transpose tensordot vecdot",
    "running": "cumulative_prod cumulative_sum",
    "utility": "all any diff",
}
ABSENT = {
    "complex64": "there are no complex numbers",
    "complex128": "there are no complex numbers",
    "nonzero": "how many elements it gives is not known while tracing",
}
NAMES = [name for section in SECTIONS.values() for name in section.split()]
METHODS = """
    __abs__ __add__ __and__ __eq__ __floordiv__ __ge__ __getitem__ __gt__ __invert__ __le__
    __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__
    __rshift__ __setitem__ __sub__ __truediv__ __xor__ __radd__ __rand__ __rfloordiv__
    __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rsub__ __rtruediv__
    __rxor__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__ __ior__
    __ipow__ __irshift__ __isub__ __itruediv__ __ixor__ dtype mT ndim shape size T
    __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __float__ __index__
    __int__ device to_device
"""
ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
    isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round
    sign signbit sin sinh square sqrt tan tanh trunc"""
TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp
    logical_and logical_or logical_xor maximum minimum multiply nextafter
    not_equal pow remainder subtract"""
SIGNATURES = """
    asarray(obj, /, *, dtype=None, device=None, copy=None)
    arange(start, /, stop=None, step=1, *, dtype=None, device=None)
    empty(shape, *, dtype=None, device=None)
    empty_like(x, /, *, dtype=None, device=None)
    eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
    from_dlpack(x, /, *, device=None, copy=None)
    full(shape, fill_value, *, dtype=None, device=None)
    full_like(x, /, fill_value, *, dtype=None, device=None)
    linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
    meshgrid(*arrays, indexing="xy")
    ones(shape, *, dtype=None, device=None)
    ones_like(x, /, *, dtype=None, device=None)
    tril(x, /, *, k=0)
    triu(x, /, *, k=0)
    zeros(shape, *, dtype=None, device=None)
    zeros_like(x, /, *, dtype=None, device=None)
    astype(x, dtype, /, *, copy=True, device=None)
    can_cast(from_, to, /)
    finfo(type, /)
    iinfo(type, /)
    isdtype(dtype, kind)
    result_type(*arrays_and_dtypes)
    clip(x, /, min=None, max=None)
    broadcast_arrays(*arrays)
    broadcast_to(x, /, shape)
    concat(arrays, /, *, axis=0)
    expand_dims(x, /, *, axis=0)
    flip(x, /, *, axis=None)
    moveaxis(x, source, destination, /)
    permute_dims(x, /, axes)
    repeat(x, repeats, /, *, axis=None)
    reshape(x, /, shape, *, copy=None)
    roll(x, /, shift, *, axis=None)
    squeeze(x, /, axis)
    stack(arrays, /, *, axis=0)
    tile(x, repetitions, /)
    unstack(x, /, *, axis=0)
    take(x, indices, /, *, axis=None)
    take_along_axis(x, indices, /, *, axis=-1)
    matmul(x1, x2, /)
    matrix_transpose(x, /)
    tensordot(x1, x2, /, *, axes=2)
    vecdot(x1, x2, /, *, axis=-1)
    argmax(x, /, *, axis=None, keepdims=False)
    argmin(x, /, *, axis=None, keepdims=False)
    count_nonzero(x, /, *, axis=None, keepdims=False)
    searchsorted(x1, x2, /, *, side="left", sorter=None)
    where(condition, x1, x2, /)
    unique_all(x, /)
    unique_counts(x, /)
    unique_inverse(x, /)
    unique_values(x, /)
    argsort(x, /, *, axis=-1, descending=False, stable=True)
    sort(x, /, *, axis=-1, descending=False, stable=True)
    cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
    cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
    max(x, /, *, axis=None, keepdims=False)
    mean(x, /, *, axis=None, keepdims=False)
    min(x, /, *, axis=None, keepdims=False)
    prod(x, /, *, axis=None, dtype=None, keepdims=False)
    std(x, /, *, axis=None, correction=0, keepdims=False)
    sum(x, /, *, axis=None, dtype=None, keepdims=False)
    var(x, /, *, axis=None, correction=0, keepdims=False)
    all(x, /, *, axis=None, keepdims=False)
    any(x, /, *, axis=None, keepdims=False)
    diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
    __array_namespace_info__()
    linalg.cholesky(x, /, *, upper=False)
    linalg.cross(x1, x2, /, *, axis=-1)
    linalg.det(x, /)
    linalg.inv(x, /)
    linalg.qr(x, /, *, mode="reduced")
    linalg.eigh(x, /)
    linalg.eigvalsh(x, /)
    linalg.svd(x, /, *, full_matrices=True)
    linalg.svdvals(x, /)
    linalg.pinv(x, /, *, rtol=None)
    linalg.matrix_rank(x, /, *, rtol=None)
    linalg.slogdet(x, /)
    linalg.solve(x1, x2, /)
    linalg.diagonal(x, /, *, offset=0)
    linalg.matmul(x1, x2, /)
    linalg.matrix_norm(x, /, *, keepdims=False, ord="fro")
    linalg.matrix_power(x, n, /)
    linalg.matrix_transpose(x, /)
    linalg.outer(x1, x2, /)
    linalg.tensordot(x1, x2, /, *, axes=2)
    linalg.trace(x, /, *, offset=0, dtype=None)
    linalg.vecdot(x1, x2, /, *, axis=-1)
    linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""
"""The functions of the standard 2024.12 with their parameters."""
STANDARD = {
    **{name: "(x, /)" for name in ONE.split()},
    **{name: "(x1, x2, /)" for name in TWO.split()},
    **{s[: s.index("(")]: s[s.index("(") :] for s in SIGNATURES.strip().splitlines()},
}
STANDARD = {name.strip(): said for name, said in STANDARD.items()}
OTHER_DEFAULTS = {
    ("argsort", "stable"): "every sort is stable",
    ("sort", "stable"): "every sort is stable",
    ("std", "correction"): "ddof= is another name of it",
    ("var", "correction"): "ddof= is another name of it",
}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_here_or_there_is_a_reason(name):
    assert hasattr(dlvm, name) != (name in ABSENT), ABSENT.get(name, f"dlvm has no {name}")
    if name not in ABSENT:
        assert name in dir(dlvm)
        assert not callable(getattr(dlvm, name)) or getattr(dlvm, name).__doc__


def parameters_of(said: str) -> dict[str, inspect.Parameter]:
    """The parameters of a signature as text."""
    made: dict[str, Any] = {}
    exec(f"def f{said}: ...", made)
    return dict(inspect.signature(made["f"]).parameters)


@pytest.mark.parametrize("name", [n for n in STANDARD if n not in ABSENT])
def test_inspect_shows_the_parameters_of_the_standard(name):
    ours = inspect.signature(functools.reduce(getattr, name.split("."), dlvm)).parameters
    standard = parameters_of(STANDARD[name])
    places = [p for p in ours.values() if p.kind <= p.VAR_POSITIONAL]
    for at, (given, p) in enumerate(standard.items()):
        if p.kind is p.KEYWORD_ONLY:
            mine = ours[given]
        else:
            mine = places[min(at, len(places) - 1)]
            many = mine.kind is mine.VAR_POSITIONAL
            assert at < len(places) or many, f"{given} is the argument number {at}"
            assert (p.kind is p.VAR_POSITIONAL) <= many, given
            assert p.kind is not p.POSITIONAL_OR_KEYWORD or mine.name == given
        assert mine.kind is not mine.POSITIONAL_ONLY or p.kind is p.POSITIONAL_ONLY
        if p.default is not p.empty and (name, given) not in OTHER_DEFAULTS:
            assert mine.default == p.default, given
    needed = [p.name for p in ours.values() if p.default is p.empty and p.kind < 2]
    assert len(needed) <= sum(p.default is p.empty for p in standard.values()), needed


def test_every_function_of_the_standard_has_its_parameters_here():
    functions = {n for n in NAMES if n not in ABSENT and callable(getattr(dlvm, n))}
    assert functions - {*STANDARD} == {n for n in functions if isinstance(getattr(dlvm, n), type)}


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
