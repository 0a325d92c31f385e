"""The remainder of a division of floats, exactly: a loop that long division unrolls into.

A quotient has up to 2098 bits, a float 53; each turn takes the highest ones away. It is a
function of its own, written once for each type and number of lanes, since a word stands in the
middle of a block and can't hold a loop.
"""

from __future__ import annotations

import math

from dlvm.gen.text.indices import index_of_word
from dlvm.gen.text.lanes import Lanes
from dlvm.gen.text.module import Carry, FunctionWriter
from dlvm.ir import F64

SCALE = 2.0**1000
"""Large enough to bring every quotient that overflows back into range, small enough to keep
the divisor finite: where x / y overflows, y is below 1."""
HUGE, DOWN = 2.0**900, 2.0**-200


def fmod(v: Lanes, x: str, y: str) -> str:
    """A call of the function for this type and width."""
    short = "f32" if v.f32 else "f64"
    name = f"dlvm.fmod.v{v.lanes}{short}"
    if name not in v.w.text.functions:
        by_bits = v.f32 and not v.w.text.has_doubles
        made = _function_of_bits if by_bits else _function
        v.w.text.functions[name] = made(v.w.another(), name, v)
    return v.w.value(f"call {v.type} @{name}({v.type} {x}, {v.type} {y})")


def _function(w: FunctionWriter, name: str, like: Lanes) -> str:
    v, d = Lanes(w, like.dtype, like.lanes), Lanes(w, F64, like.lanes)
    x, y = (v.call("fabs", f"%{p}") for p in "xy")
    if v.f32:  # the quotient of two f32 never overflows in f64, and what is left fits f32 again
        x, y = (w.value(f"fpext {v.type} {p} to {d.type}") for p in (x, y))
    finite = d.is_("olt", x, d.number(math.inf))
    proper = d.is_("ogt", y, d.number(0.0))
    defined = w.value(f"and {d.truth} {finite}, {proper}")
    x, y = d.select(defined, x, d.number(0.0)), d.select(defined, y, d.number(1.0))
    if not v.f32:
        x = _without_overflow(d, x, y)
    left = _reduced(d, x, y)
    left = d.select(defined, left, d.number(math.nan))
    if v.f32:
        left = w.value(f"fptrunc {d.type} {left} to {v.type}")
    left = v.copysign(left, "%x")
    header = f"internal {v.type} @{name}({v.type} %x, {v.type} %y)"
    return w.function(header, last=f"ret {v.type} {left}")


def _function_of_bits(w: FunctionWriter, name: str, like: Lanes) -> str:
    """The function of f32 by integers: eight bits of the quotient at a time."""
    v = Lanes(w, like.dtype, 1)
    x, y = (v.bits(v.call("fabs", f"%{p}")) for p in "xy")
    proper = w.value(f"icmp ne i32 {y}, 0")
    (x_power, x_whole), (y_power, y_whole) = _parts(v, x), _parts(v, v.select_whole(proper, y, "1"))
    ahead = w.value(f"icmp ugt i32 {x_power}, {y_power}")
    more = v.select_whole(ahead, v.whole_do("sub", x_power, y_power), "0")
    rest = Carry("i32", v.whole_do("urem", x_whole, y_whole))
    with w.loop("0", index_of_word(w, v.whole_do("lshr", more, "3")), 1, [rest]):
        rest.next = v.whole_do("urem", v.whole_do("shl", rest.now, "8"), y_whole)
    last = v.whole_do("shl", rest.now, v.whole_do("and", more, "7"))
    whole = w.value(f"uitofp i32 {v.whole_do('urem', last, y_whole)} to float")
    power = v.whole_do("sub", y_power, str(v.bias + v.mantissa))
    half = v.whole_do("ashr", power, "1")
    left = v.mul(v.mul(whole, v.power_of_two(half)), v.power_of_two(v.whole_do("sub", power, half)))
    less = w.value(f"icmp ult i32 {x}, {y}")
    left = v.select(less, v.float(x), left)
    infinity = v.bits(v.number(math.inf))
    finite = w.value(f"icmp ult i32 {x}, {infinity}")
    number = w.value(f"icmp ule i32 {y}, {infinity}")
    defined = v.both(proper, v.both(finite, number))
    found = v.copysign(v.select(defined, left, v.number(math.nan)), "%x")
    header = f"internal float @{name}(float %x, float %y)"
    return w.function(header, last=f"ret float {found}")


def _parts(v: Lanes, bits: str) -> tuple[str, str]:
    """The power, and the whole number times which it is the number of these bits."""
    power = v.whole_do("lshr", bits, str(v.mantissa))
    normal = v.w.value(f"icmp ne i32 {power}, 0")
    whole = v.whole_do("and", bits, str((1 << v.mantissa) - 1))
    whole = v.select_whole(normal, v.whole_do("or", whole, str(1 << v.mantissa)), whole)
    return v.select_whole(normal, power, "1"), whole


def _without_overflow(v: Lanes, x: str, y: str) -> str:
    """x less some multiples of y, so that ``x / y`` is finite."""
    infinity = v.number(math.inf)
    over = v.is_("oeq", v.div(x, y), infinity)

    def smaller() -> str:
        near = v.mul(y, v.number(SCALE))
        further = v.is_("oeq", v.div(x, near), infinity)
        far = v.select(further, v.mul(near, v.number(2.0**100)), near)
        left = _reduced(v, _reduced(v, x, far), near)
        return v.select(over, left, x)

    return v.w.maybe(_any(v, over), v.type, x, smaller)


def _reduced(v: Lanes, x: str, y: str) -> str:
    """Steps until what is left is smaller than y in every lane.

    Without fma what is huge is scaled down, so that the rounded products stay finite. There y is
    above 2**-124 and loses no digit, as the quotient is finite.
    """
    if v.w.text.fuses("double"):
        return _stepped(v, x, y)
    huge, one = v.is_("ogt", x, v.number(HUGE)), v.number(1.0)
    down, up = (v.select(huge, v.number(s), one) for s in (DOWN, 1 / DOWN))
    return v.mul(_stepped(v, v.mul(x, down), v.mul(y, down)), up)


def _stepped(v: Lanes, x: str, y: str) -> str:
    """The loop."""
    return v.w.as_long_as(
        v.type, x, lambda left: _any(v, v.is_("oge", left, y)), lambda left: _step(v, left, y)
    )


def _step(v: Lanes, x: str, y: str) -> str:
    """``x - q*y >= 0`` without error, q being the float of whole value next below ``x / y``.

    A whole quotient that was rounded up leaves a negative rest, and the next one below it is
    taken: of either the rest is a whole number of units that 53 bits hold.
    """
    q = v.call("trunc", v.div(x, y))
    rest = v.cancelled(v.neg(q), y, x)
    previous = v.float(v.whole_do("sub", v.bits(q), v.whole(1)))
    dense = v.is_("olt", q, v.number(2.0**v.mantissa))
    below = v.select(dense, v.sub(q, v.number(1.0)), previous)
    rest = v.select(v.is_("olt", rest, v.number(0.0)), v.cancelled(v.neg(below), y, x), rest)
    return v.select(v.is_("olt", x, y), x, rest)  # 0 times an infinite y is no number


def _any(v: Lanes, truth: str) -> str:
    """Whether a truth holds in some lane."""
    if v.lanes == 1:
        return truth
    return v.w.call("i1", f"llvm.vector.reduce.or.v{v.lanes}i1", (v.truth, truth))
