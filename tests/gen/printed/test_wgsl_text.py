"""Text of kernels in WGSL, which needs no device: types that it has not, buffers and refusals."""

import re

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.printed.dialect import spelt
from dlvm.gen.printed.module import PrintedText
from dlvm.gen.printed.wgsl import WGSL
from dlvm.gen.printed.writer import PrintedWriter
from dlvm.gen.text.sizes import Offsets
from dlvm.ir.sizes import dims

X = np.ones((4, 40), "f4")


def text(f, *arguments):
    return dlvm.function(f, target="webgpu").compile(*arguments).text("wgsl")


@pytest.mark.parametrize(
    ("llvm", "x", "printed"),
    [
        ("float", "0x3FB99999A0000000", "0x1.99999ap-4f"),
        ("float", "0xFFF0000000000000", "(-dlvm_float(0x7f800000u))"),
        ("i64", "-2", "vec2<u32>(4294967294u, 4294967295u)"),
        ("i8", "-1", "255u"),
        ("half", "0xH3C00", "15360u"),
    ],
)
def test_constants_are_exact(llvm, x, printed):
    assert WGSL.constant(llvm, x) == printed


def test_a_row_is_shared_in_arrays_outside_of_its_kernel():
    found = text(lambda x: x / x.sum(axis=1, keepdims=True), X)
    kernel = found.index("@compute @workgroup_size(32)")
    assert 0 < found.index("var<workgroup> k0_") < kernel < found.index("workgroupBarrier()")
    assert "@group(0) @binding(2) var<storage, read_write> k0_b0: array<f32>;" in found
    assert "at_b0: u32" in found and "%" not in found.replace("% ", "")


def test_indices_are_short_and_numbers_long():
    found = text(lambda x, i: x[i], X[0], np.arange(3))
    assert "dlvm_less(" in found and "dlvm_mul(" not in found
    assert not re.search(r"for \(var \w+: vec2", found)
    assert "dlvm_mul(" in text(lambda i: i * i, np.arange(3))


def test_sizes_that_no_index_reaches_bound_nothing():
    """Words of 32 bits have no such divisor, and none in which to write it."""
    w, n = PrintedWriter(PrintedText(WGSL)), dims.symbol("n")
    offsets = Offsets(w)
    offsets.scopes[0].names["n"] = "%n"
    for d in (n // (1 << 40), n // (3 << 40), dims.mod(n, 1 << 40), dims.minimum(n, 1 << 40)):
        offsets.index(d)
    lines = w.body()
    assert lines.count(">> 31u") == 2 and "& 4294967295u" in lines
    assert "select(n, 2147483647u, " in lines


def test_no_variable_has_the_name_of_a_type():
    assert [spelt(f"%{x}") for x in ("i32", "f16", "i3", "u640")] == ["i32_", "f16_", "i3", "u640"]


def test_bytes_are_parts_of_words_which_stores_share():
    found = text(lambda x, c: x.astype("i1") * c, X, np.ones(40, "i1"))
    assert "k0_b1: array<u32>;" in found and "k0_b2: array<atomic<u32>>;" in found
    assert "atomicAnd(&k0_b2[" in found and "& 255u" in found


def test_functions_are_those_that_are_called_after_what_they_call():
    found = text(lambda i: (i // 7 * i).astype("f4"), np.arange(3))
    for name, body in WGSL.helpers.items():
        where = found.find(f"fn {name}(")
        called = f"{name}(" in found.replace(f"fn {name}(", "")
        assert called == (where >= 0), name
        assert body in found or not called
    assert "dlvm_half_of_float" not in found


def test_f64_is_refused_with_its_line():
    def f(x):
        return x * dlvm.exp(x)

    with pytest.raises(UserError, match=r"f64.*: WGSL has no arrays of f64") as found:
        text(f, np.ones(3))
    assert "return x * dlvm.exp(x)" in str(found.value)
    assert "compute in f32, or leave the target out" in str(found.value)


def test_a_function_that_needs_f64_inside_is_refused_with_its_line():
    with pytest.raises(UserError, match="WGSL has no lgamma of f32") as found:
        text(lambda x: dlvm.lgamma(x), X)
    assert "dlvm.lgamma(x)" in str(found.value)
