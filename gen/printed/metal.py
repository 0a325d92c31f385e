"""Metal's language, of Apple's GPUs: a table, of text that nothing here compiles or runs.

It is C++ with address spaces, so what OpenCL C says is changed where Metal says it otherwise. It
has no f64: single numbers of it are their bits, as in WGSL, whose functions these are. The text
turns off what Metal does by default, reordering and contraction; an older compiler than that of
Metal 3.2 needs the option ``fastMathEnabled = NO`` as well. A conversion that saturates is a
function, as Metal's does not promise to.
"""

from __future__ import annotations

from dataclasses import replace

from .c_like import like_c
from .opencl import OPENCL
from .wgsl import HELPERS
from .wgsl_f64 import f64_forms

NAMES = {
    "bitcast<f32>": "as_type<float>",
    "bitcast<i32>": "as_type<int>",
    "bitcast<u32>": "as_type<uint>",
    "vec4<u32>": "uint4",
    "vec3<u32>": "uint3",
    "vec2<u32>": "uint2",
    "f32": "float",
    "i32": "int",
    "u32": "uint",
    "select": "dlvm_choose",
    "countLeadingZeros": "clz",
}
"""What WGSL calls otherwise."""
NO_F64 = "Metal has no arrays of f64"
HEAD = """#include <metal_stdlib>
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
using namespace metal;"""
BARRIERS = "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device)"
LAST = {
    "dlvm_choose": """template <typename T> static T dlvm_choose(T no, T yes, bool which) {
  return which ? yes : no;
}""",
    "dlvm_saturated": """template <typename T> static T dlvm_saturated(float x, T zero) {
  const T most = numeric_limits<T>::max(), least = numeric_limits<T>::lowest();
  if (x != x) { return zero; }
  if (x >= 2.0f * float(most / 2 + 1)) { return most; }
  return x <= float(least) ? least : T(x);
}""",
}


def _forms() -> dict[str, str]:
    """Those of OpenCL C, and those of WGSL for f64, with integers of 64 bits as one number."""
    found = {
        word: form.replace("as_{S}(", "as_type<{S}>(").replace("as_{T}(", "as_type<{T}>(")
        for word, form in OPENCL.forms.items()
    }
    of_f64 = {word: like_c(form, NAMES) for word, form in f64_forms().items()}
    for word, form in of_f64.items():
        if word.endswith(".i64"):
            of_f64[word] = f"as_type<ulong>({form})"
        elif word.endswith(".i64.double"):
            of_f64[word] = form.replace("{0}", "as_type<uint2>({0})")
    power = of_f64["@dlvm.power.double"]
    of_f64["@dlvm.power.double"] = power.replace("{1}", "as_type<uint2>({1})")
    return (
        found
        | of_f64
        | {
            "fpext.half": "float(as_type<half>({0}))",
            "fptrunc.float": "as_type<ushort>(half({0}))",
            "@llvm.sqrt": "precise::sqrt({0})",
            "@llvm.fptosi.sat": "({T})dlvm_saturated({0}, {U}(0))",
            "@llvm.fptoui.sat": "dlvm_saturated({0}, {T}(0))",
            "@dlvm.claim": "atomic_exchange_explicit((device atomic_uint *)status + 6, 1u, "
            "memory_order_relaxed) == 0u",
            "@llvm.nvvm.read.ptx.sreg.ctaid.x": "dlvm_group.x",
            "@llvm.nvvm.read.ptx.sreg.nctaid.x": "dlvm_groups.x",
            "@llvm.nvvm.read.ptx.sreg.tid.x": "dlvm_lane.x",
            "@llvm.nvvm.barrier.cta.sync.aligned.all": BARRIERS,
            "@llvm.nvvm.bar.warp.sync": BARRIERS,
        }
    )


METAL = replace(
    OPENCL,
    name="metal",
    language="Metal",
    runs="write target='webgpu', which runs on Apple's GPUs, or take the text",
    types={**OPENCL.types, "double": "uint2"},
    absent={"f64": NO_F64, "c64": NO_F64, "c128": NO_F64},
    forms=_forms(),
    constants={
        **OPENCL.constants,
        "float": "{decimal}f",
        "double": "uint2({low}u, {high}u)",
    },
    head=HEAD,
    shared="threadgroup {T} {name}[{count}];",
    table="constant {T} {name}[{count}] = {{{items}}};",
    kernel="[[max_total_threads_per_threadgroup({lanes})]]\n"
    "kernel void {name}({parameters}, "
    "uint3 dlvm_group [[threadgroup_position_in_grid]], "
    "uint3 dlvm_groups [[threadgroups_per_grid]], "
    "uint3 dlvm_lane [[thread_position_in_threadgroup]]) {{",
    buffer="device uchar *m_{name}, constant ulong &at_{name}",
    size="constant ulong &{name}",
    place="device {T} *{name} = (device {T} *)(m_{name} + at_{name});",
    helpers={
        name: text if name in LAST else f"static {like_c(text, NAMES)}"
        for name, text in (HELPERS | LAST).items()
    },
    has_doubles=False,
)
