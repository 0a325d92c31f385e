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
    with pytest.raises(dlvm.UserError, match="nextafter") as caught:
        dlvm.export(lambda x: dlvm.nextafter(x, x + 1), np.ones(3), format="stablehlo")
    assert "dlvm.nextafter(x, x + 1)" in str(caught.value)


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
