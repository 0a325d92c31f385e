"""Text in Metal's language, by its structure: nothing here compiles it."""

import re

import numpy as np
import pytest

import dlvm
from benchmarks.gpu_kinds import KINDS
from dlvm.base.errors import UserError
from dlvm.gen.printed.metal import METAL

DEFINED = re.compile(r"^(?:template <typename T> )?static \w+ (dlvm_\w+)\(", re.MULTILINE)
CALLED = re.compile(r"\b(dlvm_\w+)\(")
KERNEL = re.compile(r"^kernel void (\w+)\((.*)\) \{$", re.MULTILINE)
ADDRESSES = ("device", "constant", "uint3 dlvm_")
F64 = (
    lambda x, y: ((1 - x**3) / y + dlvm.sqrt(y), dlvm.round(x * y).astype("i4"), x.astype("f4")),
    (0.9, 2.5),
)
PROGRAMS = {
    **{name: KINDS[name] for name in ("layer norm", "dense", "gather", "loop")},
    "f64": F64,
    "cast": (
        lambda x: [x.astype(t) for t in ("i1", "u1", "i4", "u8", "f2", "bool")],
        (np.ones(3, "f4"),),
    ),
    "sort": (lambda x: dlvm.sort(x), (np.ones(5000, "f4"),)),
}


def text(f, *arguments):
    return dlvm.function(f, target="metal").compile(*arguments).text("metal")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_text_is_whole(name):
    f, arguments = PROGRAMS[name]
    found = text(f, *arguments)
    for left, right in ("{}", "()", "[]"):
        assert found.count(left) == found.count(right)
    assert found.startswith("#include <metal_stdlib>\n") and "double" not in found
    defined = DEFINED.findall(found)
    for call in CALLED.finditer(found):
        assert call[1] in defined[: len(DEFINED.findall(found[: call.start() + len(call[0])]))]
    assert not re.search(r"\b(let|var|fn|bitcast|as_\w+(?<!as_type)|convert_\w+|__\w+)\b", found)
    kernels = KERNEL.findall(found)
    assert len(kernels) == found.count("kernel void") == found.count("[[max_total_threads")
    for _, parameters in kernels:
        assert all(p.startswith(ADDRESSES) for p in parameters.split(", "))
        assert parameters.count("[[") == 3


def test_a_launch_is_a_kernel_with_arrays_that_its_lanes_share():
    f = dlvm.function(lambda x: x / x.sum(axis=1, keepdims=True), target="metal")
    program = f.compile(np.ones((4, 40), "f4"))
    found = program.text("metal")
    assert len(KERNEL.findall(found)) == program.report.launches == 1
    assert "[[max_total_threads_per_threadgroup(32)]]" in found
    assert re.search(r"^  threadgroup float k0_\w+\[32\];$", found, re.MULTILINE)
    assert "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);" in found


@pytest.mark.parametrize(
    ("llvm", "x", "printed"),
    [
        ("float", "0x3FB99999A0000000", "0.10000000149011612f"),
        ("float", "0xFFF0000000000000", "(-(float)INFINITY)"),
        ("float", "0x47EFFFFFE0000000", "3.4028234663852886e+38f"),
        ("double", "0xBFF0000000000000", "uint2(0u, 3220176896u)"),
        ("i64", "-2", "18446744073709551614ul"),
    ],
)
def test_constants_are_exact(llvm, x, printed):
    assert METAL.constant(llvm, x) == printed


def test_what_metal_has_not_says_so():
    with pytest.raises(UserError, match="prints Metal, which no device here runs") as found:
        dlvm.function(lambda x: x + 1, target="metal")(np.ones(3, "f4"))
    assert "write target='webgpu', which runs on Apple's GPUs" in str(found.value)
    with pytest.raises(UserError, match=r"f64.*: Metal has no arrays of f64"):
        text(lambda x: x * 2, np.ones(3))
    with pytest.raises(UserError, match="Metal has no lgamma of f32") as found:
        text(lambda x: dlvm.lgamma(x), np.ones(3, "f4"))
    assert "dlvm.lgamma(x)" in str(found.value)
