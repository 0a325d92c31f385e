"""Arrays from nothing and questions about element types: NumPy's answers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm.base.errors import DTypeError, TraceError, UserError

TYPES = [None, "int8", "int64", "uint16", "float16", "float32", "float64"]


def alike(found, expected, rtol=0.0):
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "given", [(5,), (2, 9), (2, 9, 3), (9, 2, -2), (0, 1, 0.1), (5.0, 1.0, -0.3)]
)
def test_counting(given, dtype):
    if dtype == "uint16" and len(given) == 3 and given[2] < 0:
        given = tuple(abs(v) for v in given)
    alike(dlvm.arange(*given, dtype=dtype), np.arange(*given, dtype=dtype))
    staged = dlvm.function(lambda x: x[0] * 0 + dlvm.arange(*given, dtype=dtype))
    alike(
        staged(np.zeros(1, dtype or "f8")),
        np.arange(*given, dtype=dtype) + np.zeros((), dtype or "f8"),
    )


@pytest.mark.parametrize("dtype", [None, "int32", "float32"])
def test_even_steps(dtype):
    for given in ((0, 1), (1, 5, 7), (0.0, 3, 1), (0, 1, 0), (2, 3, 5, False)):
        alike(dlvm.linspace(*given, dtype=dtype), np.linspace(*given, dtype=dtype), 1e-15)
    a, b = np.array([0.0, 2.0]), np.array([1.0, -2.0])
    for axis in (0, -1):
        alike(dlvm.linspace(a, b, 4, axis=axis), np.linspace(a, b, 4, axis=axis), 1e-15)
    ours, numpys = (m.linspace(0, 1, 5, retstep=True) for m in (dlvm, np))
    assert ours[1] == numpys[1]
    g = dlvm.grad(lambda b: (dlvm.linspace(0.0, b, 3) * np.array([1.0, 2.0, 3.0])).sum())(2.0)
    assert g == 4.0


def test_matrices_and_grids():
    for k in (-1, 0, 2):
        alike(dlvm.eye(3, 4, k), np.eye(3, 4, k))
        alike(dlvm.tri(3, 4, k, np.int8), np.tri(3, 4, k, np.int8))
    alike(dlvm.identity(3, np.float32), np.identity(3, np.float32))
    x, y, z = np.arange(2), np.arange(3.0), np.arange(4)
    for arrays in ((x,), (x, y), (x, y, z)):
        for indexing in ("xy", "ij"):
            for sparse in (False, True):
                ours, numpys = (
                    m.meshgrid(*arrays, indexing=indexing, sparse=sparse) for m in (dlvm, np)
                )
                for a, b in zip(ours, numpys, strict=True):
                    alike(a, b)
    with pytest.raises(UserError, match="indexing 'xy' or 'ij'"):
        dlvm.meshgrid(x, indexing="yx")


def test_symbolic_sizes():
    def f(x):
        n = x.shape[0]
        full = dlvm.full(n, 2.0), dlvm.arange(1, n), dlvm.eye(n, k=1), dlvm.linspace(0, 1, n)
        return (*full, dlvm.tri(n), *dlvm.meshgrid(x, dlvm.arange(n)), dlvm.zeros_like(x))

    staged = dlvm.function(f, dynamic={"x": "N"})
    for n in (0, 1, 2, 7):
        for found, expected in zip(staged(np.ones(n)), f(np.ones(n)), strict=True):
            alike(found, expected, 1e-15)
    assert len(staged.explain().compiles) == 1


def test_a_size_that_only_the_call_knows():
    with pytest.raises(TraceError, match=r"can't become an index or a size"):
        dlvm.function(lambda n: dlvm.arange(n))(5)
    with pytest.raises(UserError, match="whole numbers only"):
        dlvm.function(lambda x: dlvm.arange(0.0, x.shape[0], 0.5), dynamic={"x": "N"})(np.ones(3))


def test_names_of_types_and_numbers():
    for name in ("bool", "int8", "uint64", "float16", "float32"):
        assert getattr(dlvm, name) == np.dtype(name)
        assert name in dir(dlvm)
    assert dlvm.bfloat16 is ml_dtypes.bfloat16
    assert (dlvm.pi, dlvm.e, dlvm.inf, dlvm.newaxis) == (np.pi, np.e, np.inf, None)
    assert dlvm.zeros(2, dlvm.bfloat16).dtype == ml_dtypes.bfloat16


def test_promotion_of_types():
    every = ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64"]
    for a in every:
        for b in every:
            assert dlvm.result_type(a, b) == np.promote_types(a, b) == dlvm.promote_types(a, b)
            assert dlvm.can_cast(a, b) == np.can_cast(a, b)
    assert dlvm.result_type(np.float32, 1.5) == np.float32
    assert dlvm.result_type(np.ones(2, np.int8), 1.5) == np.float64
    assert dlvm.result_type(dlvm.bfloat16, np.float16) == np.float32
    f = dlvm.function(lambda x: x * (dlvm.result_type(x, np.float64) == np.float64))
    assert f(np.ones(1, np.float32)) == 1


def test_kinds_and_limits():
    assert dlvm.isdtype(np.int8, "signed integer") and dlvm.isdtype("f4", ("bool", "numeric"))
    assert dlvm.isdtype(dlvm.bfloat16, "real floating") and not dlvm.isdtype(np.bool_, "numeric")
    assert dlvm.isdtype(np.float32, np.float32) and not dlvm.isdtype(np.float32, np.float64)
    assert dlvm.finfo(np.float32).eps == np.finfo(np.float32).eps
    assert float(dlvm.finfo(dlvm.bfloat16).eps) == 2**-7
    assert dlvm.iinfo(np.uint8).max == 255
    for ask, wrong in ((dlvm.finfo, np.int8), (dlvm.iinfo, np.float32), (dlvm.iinfo, bool)):
        with pytest.raises(DTypeError, match="expected"):
            ask(wrong)


def test_arrays_of_others_come_in():
    x = np.arange(3.0)
    assert np.array_equal(dlvm.from_dlpack(x), x)
    assert dlvm.asarray([1, 2], dtype=np.int8).dtype == np.int8
