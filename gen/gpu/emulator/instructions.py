"""What each instruction of PTX computes, as LLVM code: arithmetic, comparisons and conversions.

A form that is not in ``RULES`` is an error that names it. Only ``.rn`` is there where a result is
rounded: without it an assembler may join a product and a sum, and ``.approx`` is another result on
each processor. None has ``.ftz``, so numbers below the normal ones are kept, as a CPU keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from dlvm.base.errors import CompilerError

from .lines import PAIRS, TYPES, WIDTHS, Lines, constant, literal
from .ptx import Instruction, inner

ARITHMETIC = {
    "add": "add",
    "sub": "sub",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "mul.lo": "mul",
}
COMPARED = {
    "eq": "eq",
    "ne": "ne",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "lo": "lt",
    "ls": "le",
    "hi": "gt",
    "hs": "ge",
}
ROUNDED = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
INTRINSIC = {16: "f16", 32: "f32", 64: "f64"}
Rule = Callable[..., None]


def compute(lines: Lines, instruction: Instruction) -> None:
    """The lines of an instruction that only computes."""
    found = _rule(instruction.opcode)
    if found is None:
        raise CompilerError(f"the emulator does not know: {instruction.text}")
    rule, groups = found
    try:
        rule(lines, instruction.operands, *groups)
    except (CompilerError, IndexError, ValueError, KeyError) as error:
        raise CompilerError(f"the emulator cannot read: {instruction.text} ({error})") from None


@lru_cache(maxsize=1024)
def _rule(opcode: str) -> tuple[Rule, tuple[str, ...]] | None:
    for pattern, rule in RULES:
        if found := re.fullmatch(pattern, opcode):
            return rule, found.groups()
    return None


# -- numbers of floating point ---------------------------------------------------------------------


def _float(w: Lines, o: tuple[str, ...], name: str, type_: str) -> None:
    x, y = w.read(o[1], type_), w.read(o[2], type_)
    w.put(o[0], f"f{name} {TYPES[type_]} {x}, {y}", type_)


def _fma(w: Lines, o: tuple[str, ...], type_: str) -> None:
    kind = TYPES[type_]
    given = ", ".join(f"{kind} {w.read(x, type_)}" for x in o[1:4])
    w.put(o[0], f"call {kind} @llvm.fma.{_suffix(type_)}({given})", type_)


def _suffix(type_: str) -> str:
    return {"f32x2": "v2f32", "s16x2": "v2i16", "u16x2": "v2i16"}.get(type_) or (
        INTRINSIC[WIDTHS[type_]] if type_[0] == "f" else f"i{WIDTHS[type_]}"
    )


def _reciprocal(w: Lines, o: tuple[str, ...], type_: str) -> None:
    w.put(o[0], f"fdiv {TYPES[type_]} 1.0, {w.read(o[1], type_)}", type_)


def _root(w: Lines, o: tuple[str, ...], type_: str) -> None:
    _called(w, o[0], "llvm.sqrt", type_, o[1])


def _called(w: Lines, result: str, name: str, type_: str, *operands: str) -> None:
    kind = TYPES[type_]
    given = ", ".join(f"{kind} {w.read(x, type_)}" for x in operands)
    w.put(result, f"call {kind} @{name}.{_suffix(type_)}({given})", type_)


def _float_extreme(w: Lines, o: tuple[str, ...], name: str, type_: str) -> None:
    """Of a number and NaN the number; -0 is less than 0."""
    _called(w, o[0], f"llvm.{name}imumnum", type_, o[1], o[2])


def _float_negated(w: Lines, o: tuple[str, ...], type_: str) -> None:
    bits = WIDTHS[type_]
    x = w.bits(o[1], bits)
    w.put(o[0], f"xor i{bits} {x}, {constant(1 << (bits - 1), bits)}", f"b{bits}")


def _float_size(w: Lines, o: tuple[str, ...], type_: str) -> None:
    bits = WIDTHS[type_]
    x = w.bits(o[1], bits)
    w.put(o[0], f"and i{bits} {x}, {constant((1 << (bits - 1)) - 1, bits)}", f"b{bits}")


def _sign_copied(w: Lines, o: tuple[str, ...], type_: str) -> None:
    _called(w, o[0], "llvm.copysign", type_, o[2], o[1])


# -- integers --------------------------------------------------------------------------------------


def _integer(w: Lines, o: tuple[str, ...], name: str, type_: str) -> None:
    x, y = w.read(o[1], type_), w.read(o[2], type_)
    w.put(o[0], f"{ARITHMETIC[name]} {TYPES[type_]} {x}, {y}", type_)


def _not(w: Lines, o: tuple[str, ...], type_: str) -> None:
    w.put(o[0], f"xor {TYPES[type_]} {w.read(o[1], type_)}, -1", type_)


def _negated(w: Lines, o: tuple[str, ...], type_: str) -> None:
    w.put(o[0], f"sub {TYPES[type_]} 0, {w.read(o[1], type_)}", type_)


def _size(w: Lines, o: tuple[str, ...], type_: str) -> None:
    kind = TYPES[type_]
    x = w.read(o[1], type_)
    w.put(o[0], f"call {kind} @llvm.abs.{_suffix(type_)}({kind} {x}, i1 false)", type_)


def _extreme(w: Lines, o: tuple[str, ...], name: str, type_: str) -> None:
    _called(w, o[0], f"llvm.{type_[0]}{name}", type_, o[1], o[2])


def _relu_extreme(w: Lines, o: tuple[str, ...], name: str) -> None:
    """The extreme of two integers, and no less than 0."""
    x, y = (w.bits(x, 32) for x in o[1:3])
    found = w.let(f"call i32 @llvm.s{name}.i32(i32 {x}, i32 {y})")
    w.put(o[0], f"call i32 @llvm.smax.i32(i32 {found}, i32 0)", "b32")


def _multiply_wide(w: Lines, o: tuple[str, ...], type_: str) -> None:
    w.put(o[0], _wide(w, o, type_), f"b{2 * WIDTHS[type_]}")


def _wide(w: Lines, o: tuple[str, ...], type_: str) -> str:
    """The whole product of two integers, which has twice their bits."""
    bits, how = WIDTHS[type_], "sext" if type_[0] == "s" else "zext"
    x, y = (w.let(f"{how} i{bits} {w.bits(x, bits)} to i{2 * bits}") for x in o[1:3])
    return f"mul i{2 * bits} {x}, {y}"


def _multiply_high(w: Lines, o: tuple[str, ...], type_: str) -> None:
    bits = WIDTHS[type_]
    high = w.let(f"lshr i{2 * bits} {w.let(_wide(w, o, type_))}, {bits}")
    w.put(o[0], f"trunc i{2 * bits} {high} to i{bits}", f"b{bits}")


def _multiply_add(w: Lines, o: tuple[str, ...], type_: str) -> None:
    bits = WIDTHS[type_]
    x, y, z = (w.bits(x, bits) for x in o[1:4])
    w.put(o[0], f"add i{bits} {w.let(f'mul i{bits} {x}, {y}')}, {z}", type_)


def _multiply_add_wide(w: Lines, o: tuple[str, ...], type_: str) -> None:
    bits = 2 * WIDTHS[type_]
    product = w.let(_wide(w, o, type_))
    w.put(o[0], f"add i{bits} {product}, {w.bits(o[3], bits)}", f"b{bits}")


def _divide(w: Lines, o: tuple[str, ...], name: str, type_: str) -> None:
    """By zero a GPU gives all ones; MIN / -1 is MIN, and its remainder 0."""
    bits, signed = WIDTHS[type_], type_[0] == "s"
    kind = f"i{bits}"
    x, y = w.bits(o[1], bits), w.bits(o[2], bits)
    operation = f"{type_[0]}{name}"
    number = literal(o[2])
    if number is not None and number not in (0, -1):
        w.put(o[0], f"{operation} {kind} {x}, {y}", type_, signed)
        return
    zero = w.let(f"icmp eq {kind} {y}, 0")
    minus = w.let(f"icmp eq {kind} {y}, -1") if signed else "false"
    unsafe = w.let(f"or i1 {zero}, {minus}")
    safe = w.let(f"select i1 {unsafe}, {kind} 1, {kind} {y}")
    found = w.let(f"{operation} {kind} {x}, {safe}")
    other = w.let(f"sub {kind} 0, {x}") if name == "div" else "0"
    found = w.let(f"select i1 {minus}, {kind} {other}, {kind} {found}")
    w.put(o[0], f"select i1 {zero}, {kind} -1, {kind} {found}", type_, signed)


def _shift(w: Lines, o: tuple[str, ...], name: str, type_: str) -> None:
    """By all bits or more nothing is left but the sign of a signed number."""
    bits, signed = WIDTHS[type_], type_ in ("s16", "s32", "s64")
    kind, how = f"i{bits}", "shl" if name == "shl" else ("ashr" if signed else "lshr")
    x, far = w.bits(o[1], bits), literal(o[2])
    if far is not None and 0 <= far < bits:
        w.put(o[0], f"{how} {kind} {x}, {far}", type_)
        return
    given = w.bits(o[2], 32)
    near = w.let(f"call i32 @llvm.umin.i32(i32 {given}, i32 {bits - 1})")
    if bits != 32:
        near = w.let(f"{'zext' if bits > 32 else 'trunc'} i32 {near} to {kind}")
    if signed:
        w.put(o[0], f"{how} {kind} {x}, {near}", type_)
        return
    some, over = w.let(f"{how} {kind} {x}, {near}"), w.let(f"icmp uge i32 {given}, {bits}")
    w.put(o[0], f"select i1 {over}, {kind} 0, {kind} {some}", type_)


def _funnel(w: Lines, o: tuple[str, ...], way: str) -> None:
    low, high, far = (w.bits(x, 32) for x in o[1:4])
    w.put(o[0], f"call i32 @llvm.fsh{way}.i32(i32 {high}, i32 {low}, i32 {far})", "b32")


def _field(w: Lines, o: tuple[str, ...], type_: str) -> None:
    """Some bits from a place on, where both are known."""
    bits, start, count = WIDTHS[type_], int(o[2]), int(o[3])
    if not 0 <= start < bits or not 0 < count < bits:
        raise CompilerError("a field outside of the number")
    if type_.startswith("s"):  # its first bit is its sign
        above = max(bits - start - count, 0)
        moved = w.let(f"shl i{bits} {w.bits(o[1], bits)}, {above}")
        w.put(o[0], f"ashr i{bits} {moved}, {start + above}", type_)
        return
    moved = w.let(f"lshr i{bits} {w.bits(o[1], bits)}, {start}")
    w.put(o[0], f"and i{bits} {moved}, {constant((1 << count) - 1, bits)}", type_)


def _permuted(w: Lines, o: tuple[str, ...]) -> None:
    """Four of eight bytes, where it is known which."""
    chosen = literal(o[3])
    if chosen is None or chosen & 0x8888:
        raise CompilerError("only bytes that are known are chosen")
    low, high = (w.let(f"zext i32 {w.bits(x, 32)} to i64") for x in o[1:3])
    both = w.let(f"or i64 {w.let(f'shl i64 {high}, 32')}, {low}")
    found = "0"
    for i in range(4):
        byte = w.let(f"and i64 {w.let(f'lshr i64 {both}, {8 * (chosen >> 4 * i & 7)}')}, 255")
        found = w.let(f"or i64 {w.let(f'shl i64 {byte}, {8 * i}')}, {found}")
    w.put(o[0], f"trunc i64 {found} to i32", "b32")


def _leading_zeros(w: Lines, o: tuple[str, ...], type_: str) -> None:
    kind = TYPES[type_]
    count = f"call {kind} @llvm.ctlz.{kind}({kind} {w.read(o[1], type_)}, i1 false)"
    narrow = count if kind == "i32" else f"trunc {kind} {w.let(count)} to i32"
    w.put(o[0], narrow, "u32")


# -- comparisons and choices -----------------------------------------------------------------------


def _compare(w: Lines, o: tuple[str, ...], how: str, type_: str) -> None:
    sign = "" if how in ("eq", "ne") else ("s" if type_[0] == "s" else "u")
    x, y = w.read(o[1], type_), w.read(o[2], type_)
    w.put(o[0], f"icmp {sign}{COMPARED[how]} {TYPES[type_]} {x}, {y}", "pred")


def _compare_floats(w: Lines, o: tuple[str, ...], how: str, type_: str) -> None:
    known = {"nan": "uno", "num": "ord"}
    name = known.get(how) or (f"u{how[:2]}" if len(how) == 3 else f"o{how}")
    x, y = w.read(o[1], type_), w.read(o[2], type_)
    w.put(o[0], f"fcmp {name} {TYPES[type_]} {x}, {y}", "pred")


def _choose(w: Lines, o: tuple[str, ...], type_: str) -> None:
    bits = WIDTHS[type_]
    x, y, which = w.bits(o[1], bits), w.bits(o[2], bits), w.bits(o[3], 1)
    w.put(o[0], f"select i1 {which}, i{bits} {x}, i{bits} {y}", f"b{bits}")


# -- moves and conversions -------------------------------------------------------------------------


def _move(w: Lines, o: tuple[str, ...], type_: str) -> None:
    """A value, an address, the parts of a register, or a register of parts."""
    bits = WIDTHS[type_]
    if o[0].startswith("{"):
        parts, value = inner(o[0]), w.bits(o[1], bits)
        part = bits // len(parts)
        for i, x in enumerate(parts):
            moved = w.let(f"lshr i{bits} {value}, {part * i}")
            w.put(x, f"trunc i{bits} {moved} to i{part}", f"b{part}")
    elif o[1].startswith("{"):
        parts, found = inner(o[1]), "0"
        part = bits // len(parts)
        for i, x in enumerate(parts):
            wide = w.let(f"zext i{part} {w.bits(x, part)} to i{bits}")
            found = w.let(f"or i{bits} {found}, {w.let(f'shl i{bits} {wide}, {part * i}')}")
        w.same(o[0], found, f"b{bits}")
    else:
        w.same(o[0], w.bits(o[1], bits), "pred" if bits == 1 else f"b{bits}")


def _address(w: Lines, o: tuple[str, ...]) -> None:
    """Addresses of global memory are the same without a space."""
    w.same(o[0], w.bits(o[1], 64), "b64")


def _convert_integer(w: Lines, o: tuple[str, ...], to: str, of: str) -> None:
    bits, has, signed = WIDTHS[to], WIDTHS[of], of[0] == "s"
    value = w.bits(o[1], has)
    if bits == has:
        w.same(o[0], value, to, to[0] == "s")
        return
    how = "trunc" if bits < has else ("sext" if signed else "zext")
    w.put(o[0], f"{how} i{has} {value} to i{bits}", to, to[0] == "s")


def _convert_to_float(w: Lines, o: tuple[str, ...], to: str, of: str) -> None:
    how = "sitofp" if of[0] == "s" else "uitofp"
    w.put(o[0], f"{how} {TYPES[of]} {w.read(o[1], of)} to {TYPES[to]}", to)


def _convert_to_integer(w: Lines, o: tuple[str, ...], how: str, to: str, of: str) -> None:
    """The nearest number that there is; NaN is 0, or the highest bit where 64 bits take part."""
    bits, kind, value = WIDTHS[to], TYPES[of], w.read(o[1], of)
    if how != "rzi":
        value = w.let(f"call {kind} @llvm.{ROUNDED[how]}.{_suffix(of)}({kind} {value})")
    sign = "s" if to[0] == "s" else "u"
    name = f"@llvm.fpto{sign}i.sat.i{bits}.{_suffix(of)}"
    found = w.let(f"call i{bits} {name}({kind} {value})")
    if bits == 64 or of == "f64":
        nan = w.let(f"fcmp uno {kind} {value}, {value}")
        highest = constant(1 << (bits - 1), bits)
        found = w.let(f"select i1 {nan}, i{bits} {highest}, i{bits} {found}")
    w.same(o[0], found, to, to[0] == "s")


def _round_to_integer(w: Lines, o: tuple[str, ...], how: str, type_: str, of: str) -> None:
    if type_ != of:
        raise CompilerError("two types of float")
    _called(w, o[0], f"llvm.{ROUNDED[how]}", type_, o[1])


def _convert_float(w: Lines, o: tuple[str, ...], to: str, of: str) -> None:
    how = "fptrunc" if WIDTHS[to] < WIDTHS[of] else "fpext"
    w.put(o[0], f"{how} {TYPES[of]} {w.read(o[1], of)} to {TYPES[to]}", to)


def _two_halves(w: Lines, o: tuple[str, ...]) -> None:
    parts: list[str] = []
    for x in o[1:3]:
        half = w.let(f"fptrunc float {w.read(x, 'f32')} to half")
        parts.append(w.let(f"zext i16 {w.let(f'bitcast half {half} to i16')} to i32"))
    w.put(o[0], f"or i32 {w.let(f'shl i32 {parts[0]}, 16')}, {parts[1]}", "b32")


def _tf32(w: Lines, o: tuple[str, ...]) -> None:
    """The ten digits of tf32, ties away from zero; what is not finite stays."""
    bits = w.bits(o[1], 32)
    rounded = w.let(f"and i32 {w.let(f'add i32 {bits}, 4096')}, -8192")
    exponent = w.let(f"and i32 {bits}, 2139095040")
    finite = w.let(f"icmp ne i32 {exponent}, 2139095040")
    w.put(o[0], f"select i1 {finite}, i32 {rounded}, i32 {bits}", "b32")


FLOAT, INTEGER, BIT = r"(f32|f64)", r"([su](?:16|32|64))", r"(b16|b32|b64|pred)"
WITH_PAIRS, PAIR = rf"(f32|f64|{'|'.join(p for p in PAIRS if p[0] == 'f')})", "([su]16x2)"
RULES: tuple[tuple[str, Rule], ...] = (
    (rf"(add|sub|mul)\.rn\.{WITH_PAIRS}", _float),
    (rf"(div)\.rn\.{FLOAT}", _float),
    (rf"fma\.rn\.{WITH_PAIRS}", _fma),
    (rf"rcp\.rn\.{FLOAT}", _reciprocal),
    (rf"sqrt\.rn\.{FLOAT}", _root),
    (rf"(min|max)\.{FLOAT}", _float_extreme),
    (r"neg\.(f16|f32|f64)", _float_negated),
    (r"abs\.(f16|f32|f64)", _float_size),
    (rf"copysign\.{FLOAT}", _sign_copied),
    (rf"(add|sub|mul\.lo)\.{INTEGER}", _integer),
    (rf"(add|sub)\.{PAIR}", _integer),
    (rf"(and|or|xor)\.{BIT}", _integer),
    (rf"not\.{BIT}", _not),
    (rf"neg\.{INTEGER}", _negated),
    (rf"abs\.{INTEGER}", _size),
    (rf"(min|max)\.{INTEGER}", _extreme),
    (r"(min|max)\.relu\.s32", _relu_extreme),
    (rf"(min|max)\.{PAIR}", _extreme),
    (r"mul\.wide\.([su](?:16|32))", _multiply_wide),
    (rf"mul\.hi\.{INTEGER}", _multiply_high),
    (rf"mad\.lo\.{INTEGER}", _multiply_add),
    (r"mad\.wide\.([su](?:16|32))", _multiply_add_wide),
    (rf"(div|rem)\.{INTEGER}", _divide),
    (r"(shl)\.(b16|b32|b64)", _shift),
    (r"(shr)\.([subB](?:16|32|64))", _shift),
    (r"shf\.([lr])\.wrap\.b32", _funnel),
    (r"bfe\.([us](?:32|64))", _field),
    (r"prmt\.b32", _permuted),
    (r"clz\.(b32|b64)", _leading_zeros),
    (r"setp\.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs)\.([bsu](?:16|32|64))", _compare),
    (rf"setp\.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan)\.{FLOAT}", _compare_floats),
    (r"selp\.([bsuf](?:16|32|64))", _choose),
    (r"mov\.([bsuf](?:16|32|64)|pred)", _move),
    (r"cvta\.to\.global\.u64", _address),
    (r"cvt\.([su](?:8|16|32|64))\.([su](?:8|16|32|64))", _convert_integer),
    (r"cvt\.rn\.(f32|f64)\.([su](?:8|16|32|64))", _convert_to_float),
    (r"cvt\.(rni|rzi|rmi|rpi)\.([su](?:16|32|64))\.(f32|f64)", _convert_to_integer),
    (r"cvt\.(rni|rzi|rmi|rpi)\.(f32|f64)\.(f32|f64)", _round_to_integer),
    (r"cvt\.rn\.(f16|f32)\.(f32|f64)", _convert_float),
    (r"cvt\.(f32|f64)\.(f16|f32)", _convert_float),
    (r"cvt\.rn\.f16x2\.f32", _two_halves),
    (r"cvt\.rna\.tf32\.f32", _tf32),
)
"""The forms of instructions that compute, each with what writes its lines."""
