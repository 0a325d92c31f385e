"""What is exported as StableHLO: jaxlib verifies and keeps it, and XLA computes what we do."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from tests.exporting.programs import CASES

xla = pytest.importorskip("tests.stablehlo.xla", reason="needs jax: pip install jax")


def flat(found):
    return [np.asarray(leaf) for leaf in dlvm.tree.leaves(found)]


@pytest.mark.parametrize("name", CASES)
def test_xla_computes_what_we_compute(name: str):
    case = CASES[name]
    text = dlvm.export(case.f, *case.types, format="stablehlo")
    expected = flat(dlvm.function(case.f)(*case.args))
    arrays = [np.asarray(a) for a in case.args]
    found = xla.run(text, arrays)
    assert [a.dtype for a in found] == [a.dtype for a in expected]
    for ours, theirs in zip(expected, found, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=2e-5, atol=2e-6)
    assert xla.kept(text)


def test_open_sizes_stay_open():
    case = CASES["open gradient"]
    text = dlvm.export(case.f, *case.types, format="stablehlo")
    assert "tensor<?x3xf32>" in text
    for batch in (1, 7):
        args = (*case.args[:2], np.ones((batch, 3), np.float32))
        found = xla.run(text, [np.asarray(a) for a in args])
        for theirs, ours in zip(found, flat(case.f(*args)), strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-6)


def taped(x):
    end = lambda s: s[0] < 20.0  # noqa: E731
    return dlvm.while_loop(end, lambda s: (s[0] * 2.0, dlvm.sin(s[1] * s[0])), (x, x))[1]


def test_what_has_no_form_is_refused_with_its_name_and_line():
    with pytest.raises(dlvm.UserError, match=r"no form for the operation (push|pop|empty_tape)"):
        dlvm.export(dlvm.grad(taped), np.float32(0.7), format="stablehlo")
    with pytest.raises(dlvm.UserError, match="form for the operation qr") as caught:
        dlvm.export(lambda x: dlvm.linalg.qr(x), np.ones((3, 3)), format="stablehlo")
    assert "dlvm.linalg.qr(x)" in str(caught.value)


def definite(x):
    return x @ x.mT + 2.0 * np.eye(x.shape[-1], dtype=np.float32)


FACTORS = {
    "cholesky": lambda x: dlvm.linalg.cholesky(definite(x)),
    "gradient of cholesky": dlvm.grad(lambda x: dlvm.linalg.cholesky(definite(x)).sum()),
    "solves": lambda x: dlvm.linalg.cho_solve(dlvm.linalg.cho_factor(definite(x)), x),
    "upper, transposed, unit": lambda x: dlvm.linalg.solve_triangular(
        definite(x), x, lower=False, trans=1, unit_diagonal=True
    ),
}


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4)])
def test_xla_factors_as_we_do(name: str, shape: tuple[int, ...]):
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    text = dlvm.export(FACTORS[name], x, format="stablehlo")
    (found,) = xla.run(text, [x])
    ours = dlvm.function(FACTORS[name])(x)
    np.testing.assert_allclose(found, ours, rtol=1e-4, atol=1e-5)
    again = dlvm.stablehlo.load(text)
    np.testing.assert_allclose(again(x), ours, rtol=1e-4, atol=1e-5)


def test_factors_of_open_sizes_and_of_halves_are_written():
    x = np.eye(3, dtype=np.float32) * 4
    text = dlvm.export(dlvm.linalg.cholesky, dlvm.spec("f32[N,N]"), format="stablehlo")
    np.testing.assert_array_equal(xla.run(text, [x])[0], np.eye(3) * 2)
    half = dlvm.export(dlvm.linalg.cholesky, x.astype("f2"), format="stablehlo")
    np.testing.assert_array_equal(xla.run(half, [x.astype("f2")])[0], np.eye(3) * 2)


@pytest.mark.parametrize(("name", "f"), [("lu", dlvm.linalg.det), ("qr", dlvm.linalg.qr)])
def test_other_factors_are_refused_by_name(name: str, f):
    with pytest.raises(dlvm.UserError, match=f"no form for the operation {name}"):
        dlvm.export(f, np.eye(3, dtype=np.float32), format="stablehlo")


FLOATS = np.array([1.5, -0.0, np.inf, -np.nan, 1e-7, 3])
BITS = {
    "f32 as i32": (FLOATS.astype("f4"), "i4"),
    "f64 as u64": (FLOATS, "u8"),
    "f16 as i16": (FLOATS.astype("f2"), "i2"),
    "i32 as f32": (np.array([0, -1, 1 << 30, -(1 << 31)], np.int32), "f4"),
}


@pytest.mark.parametrize("name", BITS)
def test_xla_reads_the_bits_that_we_read(name: str):
    x, to = BITS[name]
    f = lambda x: dlvm.bitcast(x, to)  # noqa: E731
    text = dlvm.export(f, x, format="stablehlo")
    np.testing.assert_array_equal(xla.run(text, [x])[0], dlvm.function(f)(x))
    np.testing.assert_array_equal(dlvm.stablehlo.load(text)(x), dlvm.function(f)(x))


def test_xla_computes_the_next_float():
    x, y = np.float32([0, 1, -1, np.inf, 1e-40]), np.float32([1, 0, -2, 0, -1])
    text = dlvm.export(dlvm.nextafter, x, y, format="stablehlo")
    np.testing.assert_array_equal(xla.run(text, [x, y])[0][:-1], np.nextafter(x, y)[:-1])


def test_an_index_outside_reads_the_nearest_and_writes_nothing():
    x, i = np.arange(4.0, dtype=np.float32), np.array([1, 9, -9])
    text = dlvm.export(lambda x, i: (x[i], x.at[i].set(-1.0)), x, i, format="stablehlo")
    read, written = xla.run(text, [x, i])
    np.testing.assert_array_equal(read, [1, 3, 0])
    np.testing.assert_array_equal(written, [0, -1, 2, 3])


def test_a_format_can_be_added():
    names = []
    dlvm.exporting.register("names", lambda program: " ".join(program.arguments))
    try:
        names = dlvm.export(lambda x, y: x + y, 1.0, 2.0, format="names")
    finally:
        del dlvm.exporting.FORMATS["names"]
    assert names == "x y"
