"""GLSL 4.30, the language of OpenGL's compute shaders: a table.

Like WGSL it has neither pointers nor 64-bit integers, nor elements of 8 and 16 bits, and its text
for these is WGSL's. It has f64, and ``precise``, which forbids the compiler to take steps together
or in another order; ``fma`` may be rounded twice all the same, so nothing asks for it. A shader has
one kernel, so a text has all of them, of which the driver gets the one whose name is defined.
"""

from __future__ import annotations

import re

from .c_like import like_c
from .dialect import Dialect
from .wgsl import FORMS as OF_WGSL
from .wgsl import HELPERS as HELPERS_OF_WGSL
from .wgsl import WGSL, as_signed
from .wgsl_f64 import F64_HELPERS

NAMES = {
    "bitcast<f32>": "uintBitsToFloat",
    "bitcast<i32>": "int",
    "bitcast<u32>": "dlvm_bits",
    "vec4<u32>": "uvec4",
    "vec2<u32>": "uvec2",
    "f32": "float",
    "i32": "int",
    "u32": "uint",
    "select": "dlvm_choose",
    "countLeadingZeros": "dlvm_leading",
    "round": "roundEven",
}
"""What WGSL calls otherwise."""
BARRIERS = "memoryBarrierShared(); memoryBarrierBuffer(); barrier()"
STATUS = "layout(std430, binding = 0) coherent buffer dlvm_status { uint status[]; };"
HELPERS = {
    "dlvm_u32_of_f64": """uint dlvm_u32_of_f64(double x, uint most) {
  if (dlvm_is_nan(x) || x <= 0.0lf) { return 0u; }
  if (x >= double(most)) { return most; }
  return uint(x);
}""",
    "dlvm_i32_of_f64": """uint dlvm_i32_of_f64(double x, uint most) {
  if (dlvm_is_nan(x)) { return 0u; }
  if (x >= double(most)) { return most; }
  if (x <= -double(most) - 1.0lf) { return ~most; }
  return uint(int(x));
}""",
    "dlvm_i64_of_f64": """uvec2 dlvm_i64_of_f64(double x) {
  if (dlvm_is_nan(x)) { return uvec2(0u, 0u); }
  if (x >= 9223372036854775808.0lf) { return uvec2(0xffffffffu, 0x7fffffffu); }
  if (x <= -9223372036854775808.0lf) { return uvec2(0u, 0x80000000u); }
  if (x < 0.0lf) { return dlvm_sub(uvec2(0u, 0u), dlvm_u64_of_f64(-x)); }
  return dlvm_u64_of_f64(x);
}""",
    "dlvm_u64_of_f64": """uvec2 dlvm_u64_of_f64(double x) {
  if (dlvm_is_nan(x) || x <= 0.0lf) { return uvec2(0u, 0u); }
  if (x >= 18446744073709551616.0lf) { return uvec2(0xffffffffu, 0xffffffffu); }
  const uvec2 bits = unpackDouble2x32(x);
  const uint power = (bits.y >> 20u) & 0x7ffu;
  const uvec2 whole = uvec2(bits.x, (bits.y & 0xfffffu) | 0x100000u);
  if (power < 1023u) { return uvec2(0u, 0u); }
  if (power < 1075u) { return dlvm_lshr(whole, 1075u - power); }
  return dlvm_shl(whole, power - 1075u);
}""",
    "dlvm_f64_of_i64": """double dlvm_f64_of_i64(uvec2 x) {
  precise const double high = double(int(x.y)) * 4294967296.0lf;
  precise const double whole = high + double(x.x);
  return whole;
}""",
    "dlvm_f64_of_u64": """double dlvm_f64_of_u64(uvec2 x) {
  precise const double high = double(x.y) * 4294967296.0lf;
  precise const double whole = high + double(x.x);
  return whole;
}""",
    "dlvm_f64_signed": """double dlvm_f64_signed(double size, double sign) {
  const uvec2 bits = unpackDouble2x32(size);
  const uint high = unpackDouble2x32(sign).y & 0x80000000u;
  return packDouble2x32(uvec2(bits.x, (bits.y & 0x7fffffffu) | high));
}""",
    **{name: like_c(f, NAMES) for name, f in HELPERS_OF_WGSL.items() if name not in F64_HELPERS},
    "dlvm_is_nan": like_c(HELPERS_OF_WGSL["dlvm_is_nan"], NAMES)
    + """
bool dlvm_is_nan(double x) {
  const uvec2 bits = unpackDouble2x32(x);
  const uint size = bits.y & 0x7fffffffu;
  return size > 0x7ff00000u || (size == 0x7ff00000u && bits.x != 0u);
}""",
    "dlvm_hidden": like_c(HELPERS_OF_WGSL["dlvm_hidden"], NAMES)
    + """
double dlvm_hidden(double x) {
  return packDouble2x32(unpackDouble2x32(x) ^ uvec2(dlvm_zero, 0u));
}""",
    "dlvm_choose": "uint dlvm_choose(uint no, uint yes, bool which) { return which ? yes : no; }",
    "dlvm_leading": "uint dlvm_leading(uint x) { return uint(31 - findMSB(x)); }",
    "dlvm_bits": "uint dlvm_bits(float x) { return floatBitsToUint(x); }\n"
    "uint dlvm_bits(int x) { return uint(x); }",
}
"""Each before those that it calls."""


def _forms() -> dict[str, str]:
    """WGSL's forms, but for those of f64 and what follows."""
    found = {
        word: re.sub(r"atomicLoad\(&(.*\])\)", r"\1", like_c(form, NAMES)).replace("(&{a}", "({a}")
        for word, form in OF_WGSL.items()
        if "double" not in word
    }
    del found["fsub.same.float"], found["bitcast"]
    for bits in (8, 16, 32):
        most = (1 << bits) - 1
        cut = "" if bits == 32 else f" & {most}u"
        found[f"@llvm.fptoui.sat.double.i{bits}"] = f"dlvm_u32_of_f64({{0}}, {most}u)"
        found[f"@llvm.fptosi.sat.double.i{bits}"] = f"dlvm_i32_of_f64({{0}}, {most >> 1}u){cut}"
        x, y = (like_c(as_signed(f"i{bits}", n), NAMES) for n in (0, 1))
        found[f"srem.i{bits}"] = f"uint({x} - {x} / {y} * {y}){cut}"  # GLSL's has no sign
        for word in ("uitofp", "sitofp"):
            same = found[f"{word}.i{bits}"]
            found[f"{word}.i{bits}.double"] = f"double{same.removeprefix('float')}"
    return found | {
        "store.i64.status": "{a}[2u * ({i})] = {x}.x; {a}[2u * ({i}) + 1u] = {x}.y;",
        "@dlvm.claim": "atomicExchange(status[2u * at_status + 6u], 1u) == 0u",
        "@llvm.fptoui.sat.double.i64": "dlvm_u64_of_f64({0})",
        "@llvm.fptosi.sat.double.i64": "dlvm_i64_of_f64({0})",
        "uitofp.i64.double": "dlvm_f64_of_u64({0})",
        "sitofp.i64.double": "dlvm_f64_of_i64({0})",
        "uitofp.i1": "{T}({0})",
        "fadd": "{0} + {1}",
        "fsub": "{0} - {1}",
        "fmul": "{0} * {1}",
        **{
            f"{word}.zero.double": found[f"{word}.zero.float"]
            for word in ("fadd", "fsub", "fmul", "fdiv")
        },
        "fneg.double": "packDouble2x32(unpackDouble2x32({0}) ^ uvec2(0u, 0x80000000u))",
        "@llvm.fabs.double": "dlvm_f64_signed({0}, 0.0lf)",
        "@llvm.copysign.double": "dlvm_f64_signed({0}, {1})",
        "@llvm.trunc.double": "dlvm_f64_signed(trunc({0}), {0})",  # Mesa's have no zero below 0
        "@llvm.floor.double": "dlvm_f64_signed(floor({0}), {0})",
        "@llvm.ceil.double": "dlvm_f64_signed(ceil({0}), {0})",
        "@llvm.rint.double": "dlvm_f64_signed(roundEven({0}), {0})",
        "@llvm.roundeven.double": "dlvm_f64_signed(roundEven({0}), {0})",
        "fpext.float.double": "double({0})",
        "fptrunc.double.float": "float({0})",
        "bitcast.float": "floatBitsToUint({0})",
        "bitcast.i32.float": "uintBitsToFloat({0})",
        "bitcast.double": "unpackDouble2x32({0})",
        "bitcast.i64.double": "packDouble2x32({0})",
        "select": "{0} ? {1} : {2}",
        "and.i1": "{0} && {1}",
        "or.i1": "{0} || {1}",
        "icmp.ult.i1": "!{0} && {1}",
        "icmp.ule.i1": "!{0} || {1}",
        "icmp.ugt.i1": "{0} && !{1}",
        "icmp.uge.i1": "{0} || !{1}",
        "icmp.eq.i64": "{0} == {1}",
        "icmp.ne.i64": "{0} != {1}",
        "fcmp.oeq.same.double": "!dlvm_is_nan({0})",
        "fcmp.une.same.double": "dlvm_is_nan({0})",
        "fcmp.uno.same.double": "dlvm_is_nan({0})",
        "@llvm.nvvm.read.ptx.sreg.ctaid.x": "gl_WorkGroupID.x",
        "@llvm.nvvm.read.ptx.sreg.nctaid.x": "gl_NumWorkGroups.x",
        "@llvm.nvvm.read.ptx.sreg.tid.x": "gl_LocalInvocationID.x",
        "@llvm.nvvm.barrier.cta.sync.aligned.all": BARRIERS,
        "@llvm.nvvm.bar.warp.sync": BARRIERS,
    }


TYPES = {t: like_c(x, NAMES) for t, x in WGSL.types.items()} | {"double": "double"}
GLSL = Dialect(
    name="opengl",
    language="GLSL",
    types=TYPES,
    signed={"i32": "int"},
    absent={},
    instead="f32",
    forms=_forms(),
    constants={t: like_c(x, NAMES) for t, x in WGSL.constants.items()}
    | {
        "float": "uintBitsToFloat({low}u)",
        "double": "packDouble2x32(uvec2({low}u, {high}u))",
    },
    infinite=("", ""),
    head=f"#version 430\n{STATUS}\nuint dlvm_zero;",
    let="precise const {T} {name} = {x};",
    variable="precise {T} {name} = {x};",
    array="{T} {name}[{count}];",
    shared="shared {T} {name}[{count}];",
    table="const {T} {name}[{count}] = {T}[{count}]({items});",
    record="struct {name} {{ {fields} }};",
    part="{T} {name};",
    zeros="{name}({zeros})",
    count="for ({T} {i} = {start}; {below}; {i} += {step}) {{",
    function="{T} {name}({parameters}) {{",
    parameter="{T} {name}",
    kernel="layout(std140, binding = 0) uniform {name}_given {{ uint zero, {parameters}; }} "
    "{name}_sizes;\n"
    "layout(local_size_x = {lanes}) in;\n"
    "void main() {{\n"
    "  dlvm_zero = {name}_sizes.zero;",
    buffer="at_{name}",
    size="{name}",
    place="const uint at_{name} = {kernel}_sizes.at_{name};",
    extent="const uint {name} = {kernel}_sizes.{name};",
    outside="layout(std430, binding = {i}) buffer {kernel}_{name}_held "
    "{{ {T} {kernel}_{name}[]; }};",
    called="{kernel}_{name}",
    first="at_{name}",
    whole="#ifdef {name}\n{text}\n#endif",
    held={
        f"{t}.{where}": f"{word} {T}"
        for t, T in TYPES.items()
        for where, word in (("read", "readonly"), ("written", "coherent"))
    },
    helpers=HELPERS,
    index="i32",
    fuses=False,
)
