"""Numbers of f64 in WGSL, as bits in two words: IEEE's arithmetic by integers.

It is for the few numbers beside arrays, such as the powers of Adam's decay. Arrays of f64 are
refused, as each sum is a hundred instructions. So are functions such as ``exp`` of f64: a driver
writes out each of the two hundred calls that they are, and took minutes. Whole powers are a loop.
The algorithms are those of Berkeley SoftFloat (Hauser): a number is a sign, a power and a whole
number whose first bit is 62, and is rounded where it is packed.
"""

from __future__ import annotations

F64_HELPERS = {
    "dlvm_f64_power": """fn dlvm_f64_power(x: vec2<u32>, n: vec2<u32>) -> vec2<u32> {
  let one = vec2<u32>(0u, 0x3ff00000u);
  var left = dlvm_size(n);
  var square = x;
  var found = one;
  while ((left.x | left.y) != 0u) {
    if ((left.x & 1u) == 1u) { found = dlvm_f64_mul(found, square); }
    square = dlvm_f64_mul(square, square);
    left = dlvm_lshr(left, 1u);
  }
  if ((n.y >> 31u) == 1u) { return dlvm_f64_div(one, found); }
  return found;
}""",
    "dlvm_f64_root": """fn dlvm_f64_root(x: vec2<u32>) -> vec2<u32> {
  if (dlvm_f64_is_nan(x) || dlvm_f64_is_zero(x)) { return x; }
  if ((x.y >> 31u) == 1u) { return vec2<u32>(0u, 0x7ff80000u); }
  if (x.y == 0x7ff00000u) { return x; }
  let parts = dlvm_f64_parts(x);
  var power = bitcast<i32>(parts.z) - 1023;
  var whole = parts.xy;
  if ((power & 1) == 1) { whole = dlvm_shl(whole, 1u); power -= 1; }
  var rest = vec2<u32>(0u, 0u);
  var root = vec2<u32>(0u, 0u);
  for (var i = 0u; i < 56u; i += 1u) {
    rest = dlvm_shl(rest, 2u);
    rest.x |= whole.y >> 30u;
    whole = dlvm_shl(whole, 2u);
    var more = dlvm_shl(root, 2u);
    more.x |= 1u;
    root = dlvm_shl(root, 1u);
    if (!dlvm_below(rest, more)) { rest = dlvm_sub(rest, more); root.x |= 1u; }
  }
  root = dlvm_shl(root, 7u);
  root.x |= select(0u, 1u, (rest.x | rest.y) != 0u);
  return dlvm_f64_normal(0u, power / 2 + 1022, root);
}""",
    "dlvm_f64_div": """fn dlvm_f64_div(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let sign = (x.y ^ y.y) & 0x80000000u;
  let nan = vec2<u32>(0u, 0x7ff80000u);
  if (dlvm_f64_is_nan(x) || dlvm_f64_is_nan(y)) { return nan; }
  let infinite = (x.y & 0x7fffffffu) == 0x7ff00000u;
  if ((y.y & 0x7fffffffu) == 0x7ff00000u) { return select(vec2<u32>(0u, sign), nan, infinite); }
  if (dlvm_f64_is_zero(y)) {
    return select(vec2<u32>(0u, sign | 0x7ff00000u), nan, dlvm_f64_is_zero(x));
  }
  if (infinite) { return vec2<u32>(0u, sign | 0x7ff00000u); }
  if (dlvm_f64_is_zero(x)) { return vec2<u32>(0u, sign); }
  let a = dlvm_f64_parts(x);
  let b = dlvm_f64_parts(y);
  var rest = a.xy;
  var found = vec2<u32>(0u, 0u);
  for (var i = 0u; i < 63u; i += 1u) {
    found = dlvm_shl(found, 1u);
    if (!dlvm_below(rest, b.xy)) { rest = dlvm_sub(rest, b.xy); found.x |= 1u; }
    rest = dlvm_shl(rest, 1u);
  }
  found.x |= select(0u, 1u, (rest.x | rest.y) != 0u);
  return dlvm_f64_normal(sign, bitcast<i32>(a.z) - bitcast<i32>(b.z) + 1022, found);
}""",
    "dlvm_f64_mul": """fn dlvm_f64_mul(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let sign = (x.y ^ y.y) & 0x80000000u;
  let nan = vec2<u32>(0u, 0x7ff80000u);
  if (dlvm_f64_is_nan(x) || dlvm_f64_is_nan(y)) { return nan; }
  let none = dlvm_f64_is_zero(x) || dlvm_f64_is_zero(y);
  if (max(x.y & 0x7fffffffu, y.y & 0x7fffffffu) >= 0x7ff00000u) {
    return select(vec2<u32>(0u, sign | 0x7ff00000u), nan, none);
  }
  if (none) { return vec2<u32>(0u, sign); }
  let a = dlvm_f64_parts(x);
  let b = dlvm_f64_parts(y);
  let zero = vec2<u32>(0u, 0u);
  let low = dlvm_mul(vec2<u32>(a.x, 0u), vec2<u32>(b.x, 0u));
  let first = dlvm_mul(vec2<u32>(a.x, 0u), vec2<u32>(b.y, 0u));
  let second = dlvm_mul(vec2<u32>(a.y, 0u), vec2<u32>(b.x, 0u));
  var middle = dlvm_add(first, vec2<u32>(low.y, 0u));
  var high = dlvm_mul(vec2<u32>(a.y, 0u), vec2<u32>(b.y, 0u));
  high = dlvm_add(high, vec2<u32>(middle.y, 0u));
  middle = dlvm_add(vec2<u32>(middle.x, 0u), second);
  high = dlvm_add(high, vec2<u32>(middle.y, 0u));
  high.x |= select(0u, 1u, (low.x | middle.x) != 0u);
  return dlvm_f64_normal(sign, bitcast<i32>(a.z) + bitcast<i32>(b.z) - 1022, high);
}""",
    "dlvm_f64_sub": """fn dlvm_f64_sub(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  return dlvm_f64_add(x, vec2<u32>(y.x, y.y ^ 0x80000000u));
}""",
    "dlvm_f64_add": """fn dlvm_f64_add(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let nan = vec2<u32>(0u, 0x7ff80000u);
  if (dlvm_f64_is_nan(x) || dlvm_f64_is_nan(y)) { return nan; }
  if ((x.y & 0x7fffffffu) == 0x7ff00000u) {
    return select(x, nan, (x.y ^ y.y) == 0x80000000u && y.x == 0u);
  }
  if ((y.y & 0x7fffffffu) == 0x7ff00000u) { return y; }
  if (dlvm_f64_is_zero(y)) { return select(x, x & y, dlvm_f64_is_zero(x)); }
  if (dlvm_f64_is_zero(x)) { return y; }
  let less = dlvm_below(vec2<u32>(x.x, x.y & 0x7fffffffu), vec2<u32>(y.x, y.y & 0x7fffffffu));
  let large = select(x, y, less);
  let small = select(y, x, less);
  let a = dlvm_f64_parts(large);
  let b = dlvm_f64_parts(small);
  let moved = dlvm_sticky(b.xy, a.z - b.z);
  let sign = large.y & 0x80000000u;
  if (((x.y ^ y.y) >> 31u) == 0u) {
    return dlvm_f64_normal(sign, bitcast<i32>(a.z) - 1, dlvm_add(a.xy, moved));
  }
  let rest = dlvm_sub(a.xy, moved);
  return dlvm_f64_normal(select(sign, 0u, (rest.x | rest.y) == 0u), bitcast<i32>(a.z) - 1, rest);
}""",
    "dlvm_f64_nearest": """fn dlvm_f64_nearest(x: vec2<u32>, how: u32) -> vec2<u32> {
  let power = (x.y >> 20u) & 0x7ffu;
  let sign = x.y & 0x80000000u;
  let size = vec2<u32>(x.x, x.y & 0x7fffffffu);
  if (power >= 1075u || dlvm_f64_is_zero(x)) { return x; }
  let away = (how == 2u && sign != 0u) || (how == 3u && sign == 0u);
  if (power < 1023u) {
    let up = away || (how == 1u && dlvm_below(vec2<u32>(0u, 0x3fe00000u), size));
    return vec2<u32>(0u, sign | select(0u, 0x3ff00000u, up));
  }
  let by = 1075u - power;
  let whole = dlvm_shl(dlvm_lshr(size, by), by);
  let rest = dlvm_sub(size, whole);
  if ((rest.x | rest.y) == 0u) { return x; }
  let half = dlvm_shl(vec2<u32>(1u, 0u), by - 1u);
  let odd = (dlvm_lshr(size, by).x & 1u) == 1u;
  let near = how == 1u && (dlvm_below(half, rest) || (all(half == rest) && odd));
  var found = whole;
  if (away || near) { found = dlvm_add(whole, dlvm_shl(vec2<u32>(1u, 0u), by)); }
  return vec2<u32>(found.x, found.y | sign);
}""",
    "dlvm_f64_of_float": """fn dlvm_f64_of_float(x: f32) -> vec2<u32> {
  let bits = bitcast<u32>(x);
  let sign = bits & 0x80000000u;
  var rest = bits & 0x7fffffu;
  var power = (bits >> 23u) & 255u;
  if (power == 255u) {
    let quiet = select(0u, 0x80000u, rest > 0u);
    return vec2<u32>(rest << 29u, sign | 0x7ff00000u | (rest >> 3u) | quiet);
  }
  if (power == 0u) {
    if (rest == 0u) { return vec2<u32>(0u, sign); }
    let by = countLeadingZeros(rest) - 8u;
    rest = (rest << by) & 0x7fffffu;
    power = 1u - by;
  }
  return vec2<u32>(rest << 29u, sign | ((power + 896u) << 20u) | (rest >> 3u));
}""",
    "dlvm_float_of_f64": """fn dlvm_float_of_f64(x: vec2<u32>) -> f32 {
  let sign = x.y & 0x80000000u;
  if (dlvm_f64_is_nan(x)) {
    return bitcast<f32>(sign | 0x7fc00000u | ((x.y & 0x7ffffu) << 3u) | (x.x >> 29u));
  }
  if (dlvm_f64_is_zero(x)) { return bitcast<f32>(sign); }
  let parts = dlvm_f64_parts(x);
  var whole = parts.y | select(0u, 1u, parts.x != 0u);
  var power = bitcast<i32>(parts.z) - 897;
  if (power < 0) {
    whole = dlvm_sticky(vec2<u32>(whole, 0u), u32(-power)).x;
    power = 0;
  } else if (power > 253 || (power == 253 && whole + 64u >= 0x80000000u)) {
    return bitcast<f32>(sign | 0x7f800000u);
  }
  let found = ((whole + 64u) >> 7u) & ~select(0u, 1u, (whole & 127u) == 64u);
  return bitcast<f32>(sign | ((u32(power) << 23u) + found));
}""",
    "dlvm_f64_of_i64": """fn dlvm_f64_of_i64(x: vec2<u32>) -> vec2<u32> {
  return dlvm_f64_normal(x.y & 0x80000000u, 1084, dlvm_size(x));
}""",
    "dlvm_f64_of_u64": """fn dlvm_f64_of_u64(x: vec2<u32>) -> vec2<u32> {
  return dlvm_f64_normal(0u, 1084, x);
}""",
    "dlvm_i32_of_f64": """fn dlvm_i32_of_f64(x: vec2<u32>, most: u32) -> u32 {
  let found = dlvm_i64_of_f64(x);
  if (dlvm_less(vec2<u32>(most, 0u), found)) { return most; }
  if (dlvm_less(found, vec2<u32>(~most, 0xffffffffu))) { return ~most; }
  return found.x;
}""",
    "dlvm_u32_of_f64": """fn dlvm_u32_of_f64(x: vec2<u32>, most: u32) -> u32 {
  let found = dlvm_u64_of_f64(x);
  return select(found.x, most, dlvm_below(vec2<u32>(most, 0u), found));
}""",
    "dlvm_i64_of_f64": """fn dlvm_i64_of_f64(x: vec2<u32>) -> vec2<u32> {
  let power = (x.y >> 20u) & 0x7ffu;
  if (dlvm_f64_is_nan(x) || power < 1023u) { return vec2<u32>(0u, 0u); }
  let negative = (x.y >> 31u) == 1u;
  if (power >= 1086u) {
    return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), negative);
  }
  let whole = dlvm_lshr(dlvm_f64_parts(x).xy, 1085u - power);
  if (negative) { return dlvm_sub(vec2<u32>(0u, 0u), whole); }
  return whole;
}""",
    "dlvm_u64_of_f64": """fn dlvm_u64_of_f64(x: vec2<u32>) -> vec2<u32> {
  let power = (x.y >> 20u) & 0x7ffu;
  if (dlvm_f64_is_nan(x) || power < 1023u || (x.y >> 31u) == 1u) { return vec2<u32>(0u, 0u); }
  if (power >= 1087u) { return vec2<u32>(0xffffffffu, 0xffffffffu); }
  let whole = dlvm_f64_parts(x).xy;
  if (power == 1086u) { return dlvm_shl(whole, 1u); }
  return dlvm_lshr(whole, 1085u - power);
}""",
    "dlvm_f64_less": """fn dlvm_f64_less(x: vec2<u32>, y: vec2<u32>) -> bool {
  if (dlvm_f64_is_nan(x) || dlvm_f64_is_nan(y)) { return false; }
  if (dlvm_f64_is_zero(x) && dlvm_f64_is_zero(y)) { return false; }
  if (((x.y ^ y.y) >> 31u) == 1u) { return (x.y >> 31u) == 1u; }
  return select(dlvm_below(x, y), dlvm_below(y, x), (x.y >> 31u) == 1u);
}""",
    "dlvm_f64_equal": """fn dlvm_f64_equal(x: vec2<u32>, y: vec2<u32>) -> bool {
  return !dlvm_f64_is_nan(x) && (all(x == y) || (dlvm_f64_is_zero(x) && dlvm_f64_is_zero(y)));
}""",
    "dlvm_f64_is_nan": """fn dlvm_f64_is_nan(x: vec2<u32>) -> bool {
  return dlvm_below(vec2<u32>(0u, 0x7ff00000u), vec2<u32>(x.x, x.y & 0x7fffffffu));
}""",
    "dlvm_f64_is_zero": """fn dlvm_f64_is_zero(x: vec2<u32>) -> bool {
  return (x.x | (x.y & 0x7fffffffu)) == 0u;
}""",
    "dlvm_f64_parts": """fn dlvm_f64_parts(x: vec2<u32>) -> vec3<u32> {
  let power = (x.y >> 20u) & 0x7ffu;
  let rest = vec2<u32>(x.x, x.y & 0xfffffu);
  if (power > 0u) {
    return vec3<u32>(dlvm_shl(vec2<u32>(rest.x, rest.y | 0x100000u), 10u), power);
  }
  let by = dlvm_zeros(rest) - 1u;
  return vec3<u32>(dlvm_shl(rest, by), 11u - by);
}""",
    "dlvm_f64_normal": """fn dlvm_f64_normal(sign: u32, power: i32, whole: vec2<u32>) -> vec2<u32> {
  if ((whole.x | whole.y) == 0u) { return vec2<u32>(0u, sign); }
  let zeros = dlvm_zeros(whole);
  if (zeros == 0u) { return dlvm_f64_rounded(sign, power + 1, dlvm_sticky(whole, 1u)); }
  return dlvm_f64_rounded(sign, power + 1 - i32(zeros), dlvm_shl(whole, zeros - 1u));
}""",
    "dlvm_f64_rounded": """fn dlvm_f64_rounded(sign: u32, power: i32, x: vec2<u32>) -> vec2<u32> {
  var p = power;
  var w = x;
  if (p < 0) {
    w = dlvm_sticky(w, u32(-p));
    p = 0;
  } else if (p > 2045 || (p == 2045 && (dlvm_add(w, vec2<u32>(512u, 0u)).y >> 31u) == 1u)) {
    return vec2<u32>(0u, sign | 0x7ff00000u);
  }
  let half = (w.x & 1023u) == 512u;
  w = dlvm_lshr(dlvm_add(w, vec2<u32>(512u, 0u)), 10u);
  w.x &= ~select(0u, 1u, half);
  return vec2<u32>(w.x, sign | ((u32(p) << 20u) + w.y));
}""",
    "dlvm_sticky": """fn dlvm_sticky(x: vec2<u32>, by: u32) -> vec2<u32> {
  if (by == 0u) { return x; }
  if (by > 63u) { return vec2<u32>(select(0u, 1u, (x.x | x.y) != 0u), 0u); }
  let lost = dlvm_shl(x, 64u - by);
  let moved = dlvm_lshr(x, by);
  return vec2<u32>(moved.x | select(0u, 1u, (lost.x | lost.y) != 0u), moved.y);
}""",
    "dlvm_zeros": """fn dlvm_zeros(x: vec2<u32>) -> u32 {
  return select(countLeadingZeros(x.y), 32u + countLeadingZeros(x.x), x.y == 0u);
}""",
}
"""Each before those that it calls; those of integers follow."""

LESS, EQUAL = "dlvm_f64_less({0}, {1})", "dlvm_f64_equal({0}, {1})"
MORE = "dlvm_f64_less({1}, {0})"
NAN = "dlvm_f64_is_nan({0}) || dlvm_f64_is_nan({1})"


def f64_forms() -> dict[str, str]:
    """The forms for numbers of f64."""
    relations = {
        "oeq": EQUAL,
        "olt": LESS,
        "ole": f"{LESS} || {EQUAL}",
        "ogt": MORE,
        "oge": f"{MORE} || {EQUAL}",
        "one": f"{LESS} || {MORE}",
        "une": f"!{EQUAL}",
        "ueq": f"!({LESS} || {MORE})",
        "ult": f"!({MORE} || {EQUAL})",
        "ule": f"!{MORE}",
        "ugt": f"!({LESS} || {EQUAL})",
        "uge": f"!{LESS}",
        "uno": NAN,
        "ord": f"!({NAN})",
    }
    found = {f"fcmp.{relation}.double": form for relation, form in relations.items()}
    found |= {
        f"f{op}.double": f"dlvm_f64_{op}({{0}}, {{1}})" for op in ("add", "sub", "mul", "div")
    }
    ways = {"trunc": 0, "rint": 1, "roundeven": 1, "floor": 2, "ceil": 3}
    for name, how in ways.items():
        found[f"@llvm.{name}.double"] = f"dlvm_f64_nearest({{0}}, {how}u)"
    for bits in (8, 16, 32):
        most = (1 << bits) - 1
        cut = "" if bits == 32 else f" & {most}u"
        found[f"@llvm.fptoui.sat.double.i{bits}"] = f"dlvm_u32_of_f64({{0}}, {most}u)"
        found[f"@llvm.fptosi.sat.double.i{bits}"] = f"dlvm_i32_of_f64({{0}}, {most >> 1}u){cut}"
        found[f"uitofp.i{bits}.double"] = "dlvm_f64_of_u64(vec2<u32>({0}, 0u))"
        by = 32 - bits
        signed = f"bitcast<u32>(bitcast<i32>({{0}} << {by}u) >> {by}u)"
        wide = f"vec2<u32>({signed}, bitcast<u32>(bitcast<i32>({{0}} << {by}u) >> 31u))"
        found[f"sitofp.i{bits}.double"] = f"dlvm_f64_of_i64({wide})"
    return found | {
        "@llvm.fptoui.sat.double.i64": "dlvm_u64_of_f64({0})",
        "@llvm.fptosi.sat.double.i64": "dlvm_i64_of_f64({0})",
        "uitofp.i1.double": "vec2<u32>(0u, select(0u, 0x3ff00000u, {0}))",
        "uitofp.i64.double": "dlvm_f64_of_u64({0})",
        "sitofp.i64.double": "dlvm_f64_of_i64({0})",
        "bitcast.double.i64": "{0}",
        "bitcast.i64.double": "{0}",
        "fneg.double": "vec2<u32>({0}.x, {0}.y ^ 0x80000000u)",
        "fpext.float.double": "dlvm_f64_of_float({0})",
        "fptrunc.double.float": "dlvm_float_of_f64({0})",
        "@llvm.fabs.double": "vec2<u32>({0}.x, {0}.y & 0x7fffffffu)",
        "@llvm.copysign.double": "vec2<u32>({0}.x, ({0}.y & 0x7fffffffu) | ({1}.y & 0x80000000u))",
        "@dlvm.power.double": "dlvm_f64_power({0}, {1})",
        "@llvm.sqrt.double": "dlvm_f64_root({0})",
        "@llvm.fma.double": "dlvm_f64_add(dlvm_f64_mul({0}, {1}), {2})",
    }
