"""Sine, cosine and tangent, for arguments of any size, in any number of lanes.

An argument is brought to ``r = x - q*pi/2`` with |r| <= pi/4. While q has few bits, pi/2 in
three parts does it (Cody and Waite 1980), and the first step is exact. Where any lane is larger, a
function of its own multiplies x by 2/pi in pieces and drops from each exact product what is a
multiple of 4 (after Payne and Hanek 1983).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlvm.gen.text.indices import index_of_word
from dlvm.gen.text.lanes import Lanes, number
from dlvm.gen.text.module import Carry, FunctionWriter
from dlvm.ir import F64

from .coefficients import COS, HALF_PI, HALF_PI_PARTS, SIN, TWO_OVER_PI

SCALE = 200  # of the pieces of 2/pi
TWO_OVER_PI_BYTES = bytes.fromhex("a2f9836e4e441529fc2757d1f534ddc0db6295993c439041")
"""2/pi as a fraction."""
LONG_REDUCTION_FROM = {32: 2.0**15, 64: 2.0**28}  # from here on pi/2 in three parts is too short


def sin(v: Lanes, x: str) -> str:
    """Odd quarters take the cosine of what is left, the second half turns the sign."""
    q, r, low = _reduced(v, x)
    sine, cosine = _sin_cos(v, r, low)
    return v.where_tiny(x, _quarter(v, q, sine, cosine))


def cos(v: Lanes, x: str) -> str:
    """The sine one quarter on."""
    q, r, low = _reduced(v, x)
    sine, cosine = _sin_cos(v, r, low)
    return _quarter(v, v.whole_do("add", q, v.whole(1)), sine, cosine)


def tan(v: Lanes, x: str) -> str:
    """``sin/cos``, in odd quarters ``-cos/sin``."""
    q, r, low = _reduced(v, x)
    sine, cosine = _sin_cos(v, r, low)
    odd = v.is_odd(q)
    over = v.select(odd, v.neg(cosine), sine)
    return v.where_tiny(x, v.div(over, v.select(odd, sine, cosine)))


def sin_cos_of_turns(v: Lanes, x: str) -> tuple[str, str]:
    """``sin(pi*x)`` and ``cos(pi*x)`` but for the sign of both, up to 2**52."""
    part = v.mul(v.sub(x, v.call("rint", x)), v.number(math.pi))
    half = v.mul(part, v.number(0.5))
    sine, cosine = _sin_cos(v, half, v.number(0.0))
    return v.mul(v.add(sine, sine), cosine), v.fma(cosine, cosine, v.neg(v.mul(sine, sine)))


def _quarter(v: Lanes, q: str, sine: str, cosine: str) -> str:
    found = v.select(v.is_odd(q), cosine, sine)
    half = v.whole_do("and", q, v.whole(2))
    sign = v.whole_do("shl", half, v.whole(v.dtype.bits - 2))
    return v.float(v.whole_do("xor", v.bits(found), sign))


def _sin_cos(v: Lanes, r: str, low: str) -> tuple[str, str]:
    """Both of ``r + low`` for |r| <= pi/4."""
    z = v.mul(r, r)
    bits = v.dtype.bits
    polynomial = v.horner if v.f32 else v.estrin
    sine = v.add(v.fma(v.mul(z, r), polynomial(z, SIN[bits]), low), r)
    half = v.mul(z, v.number(0.5))
    main = v.sub(v.number(1.0), half)
    lost = v.sub(v.sub(v.number(1.0), main), half)
    tail = v.fma(v.mul(z, z), polynomial(z, COS[bits]), v.fma(v.neg(r), low, lost))
    return sine, v.add(main, tail)


def _reduced(v: Lanes, x: str) -> tuple[str, str, str]:
    """The quarter as an integer, r, and what r lost in rounding."""
    large = v.is_("uge", v.call("fabs", x), v.number(LONG_REDUCTION_FROM[v.dtype.bits]))
    near = v.select(large, v.number(0.0), x)
    n = v.nearest(near, 2 / math.pi)
    q, (r, low) = n.bits, _less(v, near, n.float)
    types = (v.bits_type, v.type, v.type)
    near_parts = _packed(v, types, (q, r, low))

    def far_parts() -> str:
        far_q, far, far_low = _far(v, x)
        chosen = (
            v.select_whole(large, far_q, q),
            v.select(large, far, r),
            v.select(large, far_low, low),
        )
        return _packed(v, types, chosen)

    row = _row(types)
    found = v.w.maybe(v.any(large), row, near_parts, far_parts)
    q, r, low = (v.w.value(f"extractvalue {row} {found}, {i}") for i in range(3))
    return q, r, low


def _row(types: Sequence[str]) -> str:
    return f"{{ {', '.join(types)} }}"


def _packed(v: Lanes, types: Sequence[str], parts: Sequence[str]) -> str:
    """Several values as one."""
    row, result = _row(types), "poison"
    for i, (kind, part) in enumerate(zip(types, parts, strict=True)):
        result = v.w.value(f"insertvalue {row} {result}, {kind} {part}, {i}")
    return result


def _far(v: Lanes, x: str) -> tuple[str, str, str]:
    """The same of large arguments, by a function in f64 where there is one."""
    if v.f32 and not v.w.text.has_doubles:
        return _of_bits(v, x)
    wide = Lanes(v.w, F64, v.lanes)
    row = _row([wide.type] * 3)
    found = _call(v, wide, row, x)
    q, r, low = (v.w.value(f"extractvalue {row} {found}, {i}") for i in range(3))
    return (v.saturated(q), *v.narrowed(r, low))


def _of_bits(v: Lanes, x: str) -> tuple[str, str, str]:
    """The same of an f32 by integers, from 96 bits of 2/pi (Payne and Hanek 1983)."""
    bits = v.bits(x)
    small = v.whole_do("or", v.whole_do("and", bits, "8388607"), "8388608")
    whole = v.whole_do("shl", small, v.whole_do("and", v.whole_do("lshr", bits, "23"), "7"))
    at = v.whole_do("and", v.whole_do("lshr", bits, "26"), "15")
    high, middle, low = (_word(v, v.whole_do("add", at, str(n)), whole) for n in (0, 4, 8))

    def do(op: str, a: str, b: str) -> str:
        return v.w.value(f"{op} i64 {a}, {b}")

    turns = do("or", do("shl", high, "32"), do("lshr", low, "32"))
    turns = do("add", turns, middle)
    n = do("lshr", do("add", turns, str(1 << 61)), "62")
    rest = do("sub", turns, do("shl", n, "62"))
    first = v.w.value(f"sitofp i64 {rest} to float")
    back = v.w.call("i64", "llvm.fptosi.sat.i64.f32", ("float", first))
    second = v.w.value(f"sitofp i64 {do('sub', rest, back)} to float")
    first, second = (v.mul(part, v.number(2.0**-62)) for part in (first, second))
    r, lost = v.two_product(first, v.number(HALF_PI[32].high))
    lost = v.add(lost, v.mul(first, v.number(HALF_PI[32].low)))
    lost = v.add(lost, v.mul(second, v.number(HALF_PI[32].high)))
    return _signed(v, x, v.w.value(f"trunc i64 {n} to i32"), r, lost)


def _signed(v: Lanes, x: str, q: str, r: str, low: str) -> tuple[str, str, str]:
    """The parts for -x where x is negative; of what is not finite, no number."""
    negative = v.is_("olt", x, v.number(0.0))
    finite = v.is_("olt", v.call("fabs", x), v.number(math.inf))
    r = v.select(finite, v.select(negative, v.neg(r), r), v.number(math.nan))
    q = v.select_whole(negative, v.whole_do("sub", v.whole(0), q), q)
    return q, r, v.select(negative, v.neg(low), low)


def _word(v: Lanes, index: str, whole: str) -> str:
    """The product of 32 bits with those of 2/pi that start at a byte."""
    table, digits = "dlvm.bits_of_two_over_pi", bytes(3) + TWO_OVER_PI_BYTES
    words = [int.from_bytes(digits[i : i + 4], "big") for i in range(len(TWO_OVER_PI_BYTES))]
    items = ", ".join(f"i32 {word}" for word in words)
    v.w.text.constant(table, f"[{len(words)} x i32]", f"[{items}]", "internal")
    place = v.w.step("i32", f"@{table}", index_of_word(v.w, index))
    both = (v.w.load("i32", place), whole)
    a, b = (v.w.value(f"zext i32 {each} to i64") for each in both)
    return v.w.value(f"mul i64 {a}, {b}")


def _less(v: Lanes, x: str, whole: str) -> tuple[str, str]:
    """``x - whole*pi/2``, in two parts."""
    n = v.neg(whole)
    first, second, third = (v.number(part) for part in HALF_PI_PARTS[v.dtype.bits])
    middle, lost = v.two_product(n, second)
    r, error = v.two_sum(v.cancelled(n, first, x), middle)
    return r, v.fma(n, third, v.add(error, lost))


def _call(v: Lanes, wide: Lanes, row: str, x: str) -> str:
    name = f"dlvm.turns.{wide.suffix}"
    if name not in v.w.text.functions:
        v.w.text.functions[name] = _turns(v.w.another(), row, v.lanes, name)
    return v.w.value(f"call {row} @{name}({wide.type} {v.widened(x)})")


def _turns(w: FunctionWriter, row: str, lanes: int, name: str) -> str:
    """The function that gives q, r and what r lost, of any f64.

    x is scaled down by as much as the pieces are scaled up, so that nothing overflows. The sum
    is carried in three parts, as up to 62 leading bits of the fraction may cancel.
    """
    v = Lanes(w, F64, lanes)
    x = v.mul("%x", v.number(2.0**-SCALE))
    zero = v.number(0.0)
    parts = [Carry(v.type, zero) for _ in range(3)]
    with w.loop("0", str(len(TWO_OVER_PI[64])), 1, parts) as turn:
        piece = v.broadcast(_piece(w, turn.index))
        totals = [c.now for c in parts]
        for product in v.two_product(x, piece):
            quarters = v.call("rint", v.mul(product, v.number(0.25)))
            rest = v.fma(quarters, v.number(-4.0), product)
            totals[0], lost = v.two_sum(totals[0], rest)
            totals[1], lost = v.two_sum(totals[1], lost)
            totals[2] = v.add(totals[2], lost)
        for c, total in zip(parts, totals, strict=True):
            c.next = total
    first, second, third = (c.now for c in parts)
    q = v.call("rint", first)
    f, low = v.two_sum(v.sub(first, q), second)
    f, low = v.fast_two_sum(f, v.add(low, third))
    half_pi = HALF_PI[64]
    r, lost = v.two_product(f, v.number(half_pi.high))
    lost = v.fma(f, v.number(half_pi.low), v.fma(low, v.number(half_pi.high), lost))
    result = _packed(v, [v.type] * 3, (q, r, lost))
    return w.function(f"internal {row} @{name}({v.type} %x)", last=f"ret {row} {result}")


def _piece(w: FunctionWriter, index: str) -> str:
    """One piece of 2/pi, from a table."""
    table, row = "dlvm.two_over_pi", TWO_OVER_PI[64]
    numbers = ", ".join(f"double {number(c, F64)}" for c in row)
    w.text.constant(table, f"[{len(row)} x double]", f"[{numbers}]", "internal")
    place = w.step("double", f"@{table}", index)
    return w.load("double", place)
