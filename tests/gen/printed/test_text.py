"""Text of printed kernels, which needs no device: instructions taken apart, refusals, names."""

from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError, UserError
from dlvm.gen.printed.instruction import Instruction, read
from dlvm.gen.printed.languages import DIALECTS
from dlvm.gen.printed.opencl import OPENCL

X = np.ones((4, 40), "f4")


def test_instructions_are_taken_apart():
    two = (("i64", "%a"), ("i64", "-3"))
    assert read("add nsw i64 %a, -3") == Instruction("add", two, "i64")
    assert read("icmp slt i64 %a, -3") == Instruction("icmp.slt", two, "i1")
    chosen = (("i1", "%c"), ("float", "%x"), ("float", "zeroinitializer"))
    line = "select i1 %c, float %x, float zeroinitializer"
    assert read(line) == Instruction("select", chosen, "float")
    assert read("fpext half %x to float") == Instruction("fpext", (("half", "%x"),), "float")
    call = read("call { i32, float } @f.v1(double %x, i64 2)")
    assert call == Instruction("@f.v1", (("double", "%x"), ("i64", "2")), "{ i32, float }")
    row = "{ i32, float }"
    assert read(f"extractvalue {row} %r, 1").type == "float"
    assert read(f"insertvalue {row} %r, i32 %q, 0").operands[1] == ("i32", "%q")
    with pytest.raises(CompilerError, match="a vector where one element is printed"):
        read("fadd <4 x float> %x, %y")


@pytest.mark.parametrize(
    ("llvm", "x", "printed"),
    [
        ("float", "0x3FB99999A0000000", "0x1.99999ap-4f"),
        ("double", "0xBFF0000000000000", "(-0x1p+0)"),
        ("float", "0xFFF0000000000000", "(-(float)INFINITY)"),
        ("i32", "-1", "4294967295u"),
        ("i8", "-1", "(uchar)255"),
        ("half", "0xH3C00", "(ushort)15360"),
        ("i1", "true", "true"),
    ],
)
def test_constants_are_exact(llvm, x, printed):
    assert OPENCL.constant(llvm, x) == printed


def test_a_row_is_shared_by_barriers_and_no_registers():
    f = dlvm.function(lambda x: dlvm.exp(x) / x.sum(axis=1, keepdims=True), target="opencl")
    text = f.compile(X).text("opencl")
    assert "#pragma OPENCL FP_CONTRACT OFF" in text
    assert "reqd_work_group_size(32, 1, 1)" in text
    assert "__local float k0_" in text and "barrier(" in text and "fma(" in text
    assert "shfl" not in text and "%" not in text.replace("% ", "")


def test_stages_and_names():
    f = dlvm.function(lambda x: x + 1, target="opencl").compile(X)
    with pytest.raises(dlvm.IRError, match=r"there is no stage 'ptx'.*loops, opencl$"):
        f.text("ptx")
    with pytest.raises(UserError, match="expected opencl, or opencl with the number of a device"):
        dlvm.function(lambda x: x, target="opencl:first")


def test_what_a_language_has_not_is_refused_with_its_line(monkeypatch):
    reason = "this language has no f64"
    monkeypatch.setitem(DIALECTS, "opencl", replace(OPENCL, absent={"f64": reason}))

    def f(x):
        return x * dlvm.exp(x)

    assert dlvm.function(f, target="opencl").compile(X).text("opencl")
    with pytest.raises(UserError, match=f"f64.*: {reason}") as found:
        dlvm.function(f, target="opencl").compile(np.ones(3)).text("opencl")
    assert "return x * dlvm.exp(x)" in str(found.value)
    assert "compute in f32, or leave the target out" in str(found.value)
