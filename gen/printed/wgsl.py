"""WGSL, the language of WebGPU: a table, and functions for what the language has not.

It has neither pointers nor 64-bit integers. Indices are 32-bit; numbers of i64 and u64 are two
words, the low one first, and their arithmetic is a function for each operation. Elements of 8 and
16 bits lie packed in words, as on the host, so that copies and views need no conversion: a load
shifts, and a store is an atomic "and" that clears the bits of the element and an "or" that sets
them, as other lanes store to the same word. In registers and in arrays of lanes and blocks such an
element takes a word, whose other bits are 0. The language promises no ``fma`` of one rounding and
no f64 (see ``wgsl_f64``). It may assume that there is neither infinity nor NaN, so both are made
of bits, and NaN is found by them.
"""

from __future__ import annotations

import re

from .dialect import Dialect
from .wgsl_f64 import F64_HELPERS, f64_forms

NARROW = {"i8": 0xFF, "i16": 0xFFFF, "half": 0xFFFF}
"""Types that have no storage of their own, with the bits of one."""
NO_F64 = "WGSL has no arrays of f64"
ROUNDED = "dlvm_hidden({0} %s {1})"
"""A result that the driver knows nothing of: else it takes sums of constants together, of which
one was added to round, and rounds some products and sums as one."""
OF_ZERO = "dlvm_hidden({0}) %s dlvm_hidden({1})"
"""One operand is the number 0, of which a driver else knows too much: ``x * 0`` of an infinite
x is NaN, ``-0 + 0`` is 0."""
BARRIERS = "workgroupBarrier(); storageBarrier()"
HELPERS = {
    "dlvm_hidden": """fn dlvm_hidden(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ dlvm_zero);
}""",
    **F64_HELPERS,
    "dlvm_float_of_half": """fn dlvm_float_of_half(h: u32) -> f32 {
  let sign: u32 = (h & 0x8000u) << 16u;
  let power: u32 = (h >> 10u) & 31u;
  let rest: u32 = h & 0x3ffu;
  if (power == 31u) {
    return bitcast<f32>(sign | 0x7f800000u | (rest << 13u) | select(0u, 0x400000u, rest != 0u));
  }
  if (power == 0u) {
    return bitcast<f32>(sign | bitcast<u32>(f32(rest) * 0x1p-24f));
  }
  return bitcast<f32>(sign | ((power + 112u) << 23u) | (rest << 13u));
}""",
    "dlvm_half_of_float": """fn dlvm_half_of_float(x: f32) -> u32 {
  let bits: u32 = bitcast<u32>(x);
  let sign: u32 = (bits >> 16u) & 0x8000u;
  let size: u32 = bits & 0x7fffffffu;
  if (size > 0x7f800000u) { return sign | 0x7e00u | ((size >> 13u) & 0x3ffu); }
  if (size >= 0x477ff000u) { return sign | 0x7c00u; }
  if (size >= 0x38800000u) {
    return sign | (((size + 0xfffu + ((size >> 13u) & 1u)) >> 13u) - 0x1c000u);
  }
  if (size <= 0x33000000u) { return sign; }
  let by: u32 = 126u - (size >> 23u);
  let whole: u32 = (size & 0x7fffffu) | 0x800000u;
  let found: u32 = whole >> by;
  let rest: u32 = whole & ((1u << by) - 1u);
  let half: u32 = 1u << (by - 1u);
  return sign | (found + select(0u, 1u, rest > half || (rest == half && (found & 1u) == 1u)));
}""",
    "dlvm_u32_of_float": """fn dlvm_u32_of_float(x: f32, most: u32) -> u32 {
  if (dlvm_is_nan(x) || x <= 0f) { return 0u; }
  if (x >= f32(most)) { return most; }
  return u32(x);
}""",
    "dlvm_i32_of_float": """fn dlvm_i32_of_float(x: f32, most: u32) -> u32 {
  if (dlvm_is_nan(x)) { return 0u; }
  if (x >= f32(most)) { return most; }
  if (x <= -f32(most) - 1f) { return ~most; }
  return bitcast<u32>(i32(x));
}""",
    "dlvm_u64_of_float": """fn dlvm_u64_of_float(x: f32) -> vec2<u32> {
  if (dlvm_is_nan(x) || x <= 0f) { return vec2<u32>(0u, 0u); }
  if (x >= 0x1p+64f) { return vec2<u32>(0xffffffffu, 0xffffffffu); }
  return dlvm_whole(x);
}""",
    "dlvm_i64_of_float": """fn dlvm_i64_of_float(x: f32) -> vec2<u32> {
  if (dlvm_is_nan(x)) { return vec2<u32>(0u, 0u); }
  if (x >= 0x1p+63f) { return vec2<u32>(0xffffffffu, 0x7fffffffu); }
  if (x <= -0x1p+63f) { return vec2<u32>(0u, 0x80000000u); }
  let whole: vec2<u32> = dlvm_whole(x);
  if (x < 0f) { return dlvm_sub(vec2<u32>(0u, 0u), whole); }
  return whole;
}""",
    "dlvm_whole": """fn dlvm_whole(x: f32) -> vec2<u32> {
  let bits: u32 = bitcast<u32>(x);
  let power: u32 = (bits >> 23u) & 255u;
  let whole: vec2<u32> = vec2<u32>((bits & 0x7fffffu) | 0x800000u, 0u);
  if (power < 127u) { return vec2<u32>(0u, 0u); }
  if (power < 150u) { return vec2<u32>(whole.x >> (150u - power), 0u); }
  return dlvm_shl(whole, power - 150u);
}""",
    "dlvm_float_of_i64": """fn dlvm_float_of_i64(x: vec2<u32>) -> f32 {
  if ((x.y >> 31u) == 1u) { return -dlvm_float_of_u64(dlvm_sub(vec2<u32>(0u, 0u), x)); }
  return dlvm_float_of_u64(x);
}""",
    "dlvm_float_of_u64": """fn dlvm_float_of_u64(x: vec2<u32>) -> f32 {
  if ((x.x | x.y) == 0u) { return 0f; }
  var zeros: u32 = countLeadingZeros(x.y);
  if (x.y == 0u) { zeros = 32u + countLeadingZeros(x.x); }
  let first: vec2<u32> = dlvm_shl(x, zeros);
  let rest: u32 = first.y & 255u;
  let whole: u32 = first.y >> 8u;
  let more: bool = rest > 128u || (rest == 128u && (first.x != 0u || (whole & 1u) == 1u));
  return bitcast<f32>(((189u - zeros) << 23u) + whole + select(0u, 1u, more));
}""",
    "dlvm_srem": """fn dlvm_srem(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let rest: vec2<u32> = dlvm_divided(dlvm_size(x), dlvm_size(y)).zw;
  if ((x.y >> 31u) == 1u) { return dlvm_sub(vec2<u32>(0u, 0u), rest); }
  return rest;
}""",
    "dlvm_sdiv": """fn dlvm_sdiv(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let found: vec2<u32> = dlvm_divided(dlvm_size(x), dlvm_size(y)).xy;
  if (((x.y ^ y.y) >> 31u) == 1u) { return dlvm_sub(vec2<u32>(0u, 0u), found); }
  return found;
}""",
    "dlvm_divided": """fn dlvm_divided(x: vec2<u32>, y: vec2<u32>) -> vec4<u32> {
  var found: vec2<u32> = x;
  var rest: vec2<u32> = vec2<u32>(0u, 0u);
  for (var i: u32 = 0u; i < 64u; i += 1u) {
    let over: u32 = rest.y >> 31u;
    rest = vec2<u32>((rest.x << 1u) | (found.y >> 31u), (rest.y << 1u) | (rest.x >> 31u));
    found = vec2<u32>(found.x << 1u, (found.y << 1u) | (found.x >> 31u));
    if (over == 1u || !dlvm_below(rest, y)) {
      rest = dlvm_sub(rest, y);
      found.x |= 1u;
    }
  }
  return vec4<u32>(found, rest);
}""",
    "dlvm_size": """fn dlvm_size(x: vec2<u32>) -> vec2<u32> {
  if ((x.y >> 31u) == 1u) { return dlvm_sub(vec2<u32>(0u, 0u), x); }
  return x;
}""",
    "dlvm_below": """fn dlvm_below(x: vec2<u32>, y: vec2<u32>) -> bool {
  return x.y < y.y || (x.y == y.y && x.x < y.x);
}""",
    "dlvm_less": """fn dlvm_less(x: vec2<u32>, y: vec2<u32>) -> bool {
  return bitcast<i32>(x.y) < bitcast<i32>(y.y) || (x.y == y.y && x.x < y.x);
}""",
    "dlvm_add": """fn dlvm_add(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let low: u32 = x.x + y.x;
  return vec2<u32>(low, x.y + y.y + select(0u, 1u, low < x.x));
}""",
    "dlvm_sub": """fn dlvm_sub(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(x.x - y.x, x.y - y.y - select(0u, 1u, x.x < y.x));
}""",
    "dlvm_mul": """fn dlvm_mul(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let a: u32 = x.x & 0xffffu;
  let b: u32 = x.x >> 16u;
  let c: u32 = y.x & 0xffffu;
  let d: u32 = y.x >> 16u;
  let first: u32 = a * d + ((a * c) >> 16u);
  let second: u32 = b * c + (first & 0xffffu);
  let high: u32 = b * d + (first >> 16u) + (second >> 16u);
  return vec2<u32>(x.x * y.x, high + x.x * y.y + x.y * y.x);
}""",
    "dlvm_shl": """fn dlvm_shl(x: vec2<u32>, by: u32) -> vec2<u32> {
  if (by == 0u) { return x; }
  if (by >= 32u) { return vec2<u32>(0u, x.x << (by - 32u)); }
  return vec2<u32>(x.x << by, (x.y << by) | (x.x >> (32u - by)));
}""",
    "dlvm_lshr": """fn dlvm_lshr(x: vec2<u32>, by: u32) -> vec2<u32> {
  if (by == 0u) { return x; }
  if (by >= 32u) { return vec2<u32>(x.y >> (by - 32u), 0u); }
  return vec2<u32>((x.x >> by) | (x.y << (32u - by)), x.y >> by);
}""",
    "dlvm_ashr": """fn dlvm_ashr(x: vec2<u32>, by: u32) -> vec2<u32> {
  let high: i32 = bitcast<i32>(x.y);
  if (by == 0u) { return x; }
  if (by >= 32u) { return vec2<u32>(bitcast<u32>(high >> (by - 32u)), bitcast<u32>(high >> 31u)); }
  return vec2<u32>((x.x >> by) | (x.y << (32u - by)), bitcast<u32>(high >> by));
}""",
    "dlvm_float": """fn dlvm_float(bits: u32) -> f32 { return bitcast<f32>(bits); }""",
    "dlvm_is_nan": """fn dlvm_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}""",
}
"""Each before those that it calls, with the types of their names, which WGSL infers."""
TYPED = re.compile(r"\b((?:let|var) \w+): \S+ =")


def as_signed(type_: str, n: int) -> str:
    """An operand as a signed integer of 32 bits."""
    by = 32 - int(type_[1:])
    return f"(bitcast<i32>({{{n}}} << {by}u) >> {by}u)" if by else f"bitcast<i32>({{{n}}})"


def _of_words(type_: str) -> dict[str, str]:
    """The forms for integers of 32 bits or fewer; what sticks out above is cut off."""
    x, y, bits = as_signed(type_, 0), as_signed(type_, 1), int(type_[1:])

    def cut(form: str) -> str:
        return form if bits == 32 else f"({form}) & {NARROW[type_]}u"

    found = {
        "add": cut("{0} + {1}"),
        "sub": cut("{0} - {1}"),
        "mul": cut("{0} * {1}"),
        "shl": cut("{0} << {1}"),
        "ashr": cut(f"bitcast<u32>({x} >> {{1}})"),
        "sdiv": cut(f"bitcast<u32>({x} / {y})"),
        "srem": cut(f"bitcast<u32>({x} % {y})"),
        "icmp.slt": f"{x} < {y}",
        "icmp.sle": f"{x} <= {y}",
        "icmp.sgt": f"{x} > {y}",
        "icmp.sge": f"{x} >= {y}",
        "sitofp": f"f32({x})",
        "uitofp": "f32({0})",
    }
    found = {f"{word}.{type_}": form for word, form in found.items()}
    found[f"zext.{type_}.i64"] = "vec2<u32>({0}, 0u)"
    found[f"sext.{type_}.i64"] = f"vec2<u32>(bitcast<u32>({x}), bitcast<u32>({x} >> 31u))"
    found[f"trunc.i64.{type_}"] = cut("{0}.x")
    most = (1 << bits) - 1
    unsigned, signed = (f"dlvm_{s}32_of_float({{0}}, {most >> (s == 'i')}u)" for s in "ui")
    found[f"@llvm.fptoui.sat.float.{type_}"] = unsigned
    found[f"@llvm.fptosi.sat.float.{type_}"] = cut(signed)
    for to in ("i8", "i16", "i32"):
        if int(to[1:]) > bits:
            found[f"zext.{type_}.{to}"] = "{0}"
            wide = f"bitcast<u32>({x})"
            found[f"sext.{type_}.{to}"] = f"{wide} & 65535u" if to == "i16" else wide
        elif int(to[1:]) < bits:
            found[f"trunc.{type_}.{to}"] = f"{{0}} & {NARROW[to]}u"
    return found


LONG = {
    "add": "dlvm_add({0}, {1})",
    "sub": "dlvm_sub({0}, {1})",
    "mul": "dlvm_mul({0}, {1})",
    "shl": "dlvm_shl({0}, {1}.x)",
    "lshr": "dlvm_lshr({0}, {1}.x)",
    "ashr": "dlvm_ashr({0}, {1}.x)",
    "udiv": "dlvm_divided({0}, {1}).xy",
    "urem": "dlvm_divided({0}, {1}).zw",
    "sdiv": "dlvm_sdiv({0}, {1})",
    "srem": "dlvm_srem({0}, {1})",
    "icmp.eq": "all({0} == {1})",
    "icmp.ne": "any({0} != {1})",
    "icmp.ult": "dlvm_below({0}, {1})",
    "icmp.ule": "!dlvm_below({1}, {0})",
    "icmp.ugt": "dlvm_below({1}, {0})",
    "icmp.uge": "!dlvm_below({0}, {1})",
    "icmp.slt": "dlvm_less({0}, {1})",
    "icmp.sle": "!dlvm_less({1}, {0})",
    "icmp.sgt": "dlvm_less({1}, {0})",
    "icmp.sge": "!dlvm_less({0}, {1})",
    "sitofp": "dlvm_float_of_i64({0})",
    "uitofp": "dlvm_float_of_u64({0})",
}
"""The forms for integers of two words."""


def _packed(type_: str) -> dict[str, str]:
    """Loads and stores of elements of which several lie in a word."""
    bits, by = NARROW[type_], 2 if type_ == "i8" else 1
    word = f"{{a}}[({{i}}) >> {by}u]"
    at = f"((({{i}}) & {(1 << by) - 1}u) << {5 - by}u)"
    return {
        f"load.{type_}.read": f"({word} >> {at}) & {bits}u",
        f"load.{type_}.written": f"(atomicLoad(&{word}) >> {at}) & {bits}u",
        f"store.{type_}.written": f"atomicAnd(&{word}, ~({bits}u << {at})); "
        f"atomicOr(&{word}, {{x}} << {at});",
    }


FORMS = {
    **f64_forms(),
    **{form: text for t in ("i8", "i16", "i32") for form, text in _of_words(t).items()},
    **{f"{word}.i64": form for word, form in LONG.items()},
    **{form: text for t in NARROW for form, text in _packed(t).items()},
    "@llvm.fptoui.sat.float.i64": "dlvm_u64_of_float({0})",
    "@llvm.fptosi.sat.float.i64": "dlvm_i64_of_float({0})",
    "store.i64.status": "atomicStore(&{a}[2u * ({i})], {x}.x); "
    "atomicStore(&{a}[2u * ({i}) + 1u], {x}.y);",
    "lshr": "{0} >> {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "xor.i1": "{0} != {1}",
    "udiv": "{0} / {1}",
    "urem": "{0} % {1}",
    "fsub.same.float": "{0} - dlvm_hidden({1})",
    **{
        f"{word}.zero.float": OF_ZERO % sign
        for word, sign in (("fadd", "+"), ("fsub", "-"), ("fmul", "*"), ("fdiv", "/"))
    },
    "fadd": ROUNDED % "+",
    "fsub": ROUNDED % "-",
    "fmul": ROUNDED % "*",
    "@llvm.fma": "fma({0}, {1}, {2})",
    "fdiv": "{0} / {1}",
    "fneg": "bitcast<f32>(bitcast<u32>({0}) ^ 0x80000000u)",
    "icmp.eq": "{0} == {1}",
    "icmp.ne": "{0} != {1}",
    "icmp.ult": "{0} < {1}",
    "icmp.ule": "{0} <= {1}",
    "icmp.ugt": "{0} > {1}",
    "icmp.uge": "{0} >= {1}",
    "icmp.ult.i1": "!{0} & {1}",
    "icmp.ule.i1": "!{0} | {1}",
    "icmp.ugt.i1": "{0} & !{1}",
    "icmp.uge.i1": "{0} | !{1}",
    "fcmp.oeq": "{0} == {1}",
    "fcmp.oeq.same.float": "!dlvm_is_nan({0})",
    "fcmp.olt": "{0} < {1}",
    "fcmp.ole": "{0} <= {1}",
    "fcmp.ogt": "{0} > {1}",
    "fcmp.oge": "{0} >= {1}",
    "fcmp.one": "{0} < {1} || ({0} > {1})",
    "fcmp.ueq": "!({0} < {1} || ({0} > {1}))",
    "fcmp.une": "!({0} == {1})",
    "fcmp.une.same.float": "dlvm_is_nan({0})",
    "fcmp.ult": "!({0} >= {1})",
    "fcmp.ule": "!({0} > {1})",
    "fcmp.ugt": "!({0} <= {1})",
    "fcmp.uge": "!({0} < {1})",
    "fcmp.uno": "dlvm_is_nan({0}) || dlvm_is_nan({1})",
    "fcmp.uno.same.float": "dlvm_is_nan({0})",
    "fcmp.ord": "!(dlvm_is_nan({0}) || dlvm_is_nan({1}))",
    "select": "select({2}, {1}, {0})",
    "bitcast": "bitcast<{T}>({0})",
    "bitcast.half": "{0}",
    "bitcast.i16.half": "{0}",
    "zext.i1": "select(0u, 1u, {0})",
    "zext.i1.i64": "vec2<u32>(select(0u, 1u, {0}), 0u)",
    "trunc.i8.i1": "({0} & 1u) != 0u",
    "trunc.i32.i1": "({0} & 1u) != 0u",
    "uitofp.i1": "select(0f, 1f, {0})",
    "fpext.half.float": "dlvm_float_of_half({0})",
    "fptrunc.float.half": "dlvm_half_of_float({0})",
    "@llvm.fabs": "bitcast<f32>(bitcast<u32>({0}) & 0x7fffffffu)",
    "@llvm.sqrt": "sqrt({0})",
    "@llvm.trunc": "trunc({0})",
    "@llvm.floor": "floor({0})",
    "@llvm.ceil": "ceil({0})",
    "@llvm.rint": "round({0})",
    "@llvm.roundeven": "round({0})",
    "@llvm.copysign": "bitcast<f32>((bitcast<u32>({0}) & 0x7fffffffu)"
    " | (bitcast<u32>({1}) & 0x80000000u))",
    "@dlvm.claim": "atomicExchange(&status[2u * at_status + 6u], 1u) == 0u",
    "@llvm.ctlz": "countLeadingZeros({0})",
    "@llvm.nvvm.read.ptx.sreg.ctaid.x": "group_id.x",
    "@llvm.nvvm.read.ptx.sreg.nctaid.x": "group_count.x",
    "@llvm.nvvm.read.ptx.sreg.tid.x": "lane_id.x",
    "@llvm.nvvm.barrier.cta.sync.aligned.all": BARRIERS,
    "@llvm.nvvm.bar.warp.sync": BARRIERS,
}

WGSL = Dialect(
    name="webgpu",
    language="WGSL",
    types={
        "i1": "bool",
        "i8": "u32",
        "i16": "u32",
        "i32": "u32",
        "i64": "vec2<u32>",
        "half": "u32",
        "float": "f32",
        "double": "vec2<u32>",
    },
    signed={"i32": "i32"},
    absent={"f64": NO_F64, "c64": NO_F64, "c128": NO_F64},
    instead="f32",
    forms=FORMS,
    constants={
        "i8": "{x}u",
        "i16": "{x}u",
        "i32": "{x}u",
        "i64": "vec2<u32>({low}u, {high}u)",
        "half": "{x}u",
        "float": "{x}f",
        "double": "vec2<u32>({low}u, {high}u)",
    },
    infinite=("dlvm_float(0x7f800000u)", "dlvm_float(0x7fc00000u)"),
    head="@group(0) @binding(0) var<storage, read_write> status: array<atomic<u32>>;\n"
    "var<private> dlvm_zero: u32;",
    let="let {name}: {T} = {x};",
    variable="var {name}: {T} = {x};",
    array="var {name}: array<{T}, {count}>;",
    shared="var<workgroup> {name}: array<{T}, {count}>;",
    table="const {name} = array<{T}, {count}>({items});",
    record="struct {name} {{ {fields} }}",
    part="{name}: {T},",
    zeros="{name}({zeros})",
    count="for (var {i}: {T} = {start}; {below}; {i} += {step}) {{",
    function="fn {name}({parameters}) -> {T} {{",
    parameter="{name}: {T}",
    kernel="struct {name}_given {{ zero: u32, {parameters} }}\n"
    "@group(0) @binding(1) var<uniform> {name}_sizes: {name}_given;\n"
    "@compute @workgroup_size({lanes})\n"
    "fn {name}(@builtin(workgroup_id) group_id: vec3<u32>, "
    "@builtin(num_workgroups) group_count: vec3<u32>, "
    "@builtin(local_invocation_id) lane_id: vec3<u32>) {{\n"
    "  dlvm_zero = {name}_sizes.zero;",
    buffer="at_{name}: u32",
    size="{name}: u32",
    place="let at_{name} = {kernel}_sizes.at_{name};",
    extent="let {name} = {kernel}_sizes.{name};",
    outside="@group(0) @binding({n}) var<storage, read_write> {kernel}_{name}: array<{T}>;",
    called="{kernel}_{name}",
    first="at_{name}",
    held={
        **{f"{t}.read": "u32" for t in NARROW},
        **{f"{t}.written": "atomic<u32>" for t in NARROW},
        "i64.status": "atomic<u32>",
    },
    helpers={name: TYPED.sub(r"\1 =", text) for name, text in HELPERS.items()},
    index="i32",
    fuses=False,
    has_doubles=False,
    may_fuse=True,
)
