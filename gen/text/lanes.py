"""Values of LLVM code: a scalar, or the same in several lanes of a vector.

``Lanes`` is the arithmetic on them that ``words.py`` and ``math.py`` are written in: for one
element type and width it turns each operation into an instruction. It is portable LLVM, with no
instruction of a single processor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from dlvm.ir import BF16, F64, DType

from .access import suffix, vector
from .module import FunctionWriter, Lines

NAMES = {"bool": "i1", "f16": "half", "bf16": "i16", "f32": "float", "f64": "double"}


def llvm_type(dtype: DType) -> str:
    """The type of one element in a register; bf16 is bits, as only casts look into it."""
    return NAMES.get(dtype.name, f"i{dtype.bits}")


def sum_type(dtype: DType) -> str:
    """A name that types have in common whose sums are the same code."""
    return dtype.name if dtype.is_float else llvm_type(dtype)


def stored_type(dtype: DType) -> str:
    """The type of one element in memory."""
    return "i8" if dtype.kind == "b" else llvm_type(dtype)


def number(x: float | int | bool, dtype: DType) -> str:
    """A constant of one element, exact to the bit."""
    if dtype.kind == "b":
        return "true" if x else "false"
    if dtype.is_integer:
        return str(int(x))
    if dtype is BF16:
        return str(int(dtype.numpy.type(x).view("uint16")))
    if dtype.bits == 16:
        return f"0xH{int(dtype.numpy.type(x).view('uint16')):04X}"
    rounded = float(dtype.numpy.type(x))
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


@dataclass(frozen=True, slots=True)
class Val:
    """A value in code: one (``lanes`` is 1) or a vector."""

    text: str
    dtype: DType
    lanes: int = 1

    @property
    def type(self) -> str:
        """Its LLVM type."""
        return vector(llvm_type(self.dtype), self.lanes)


def splat(w: FunctionWriter, x: Val, lanes: int) -> Val:
    """The same value in every lane."""
    if x.lanes == lanes:
        return x
    element = llvm_type(x.dtype)
    return Val(splat_text(w, element, x.text, lanes), x.dtype, lanes)


def splat_text(
    w: FunctionWriter, element: str, x: str, lanes: int, into: Lines | None = None
) -> str:
    """An operand in every lane; a constant needs no instruction."""
    if lanes == 1:
        return x
    if not x.startswith("%"):
        return f"splat ({element} {x})"
    wide, mask = vector(element, lanes), f"<{lanes} x i32>"
    one = w.value(f"insertelement {wide} poison, {element} {x}, i32 0", into)
    return w.value(f"shufflevector {wide} {one}, {wide} poison, {mask} zeroinitializer", into)


def multiply_add(w: FunctionWriter, element: str, lanes: int, x: str, y: str, z: str) -> str:
    """``x*y + z`` of floats, the only place that asks LLVM for it.

    Where a processor has no such instruction LLVM would call a function of C for each element.
    """
    kind = vector(element, lanes)
    if w.text.fuses(element):
        return w.call(kind, f"llvm.fma.{suffix(element, lanes)}", (kind, x), (kind, y), (kind, z))
    return w.value(f"fadd {kind} {w.value(f'fmul {kind} {x}, {y}')}, {z}")


@dataclass(frozen=True, slots=True)
class Whole:
    """Integers in lanes, in both of their forms."""

    bits: str
    float: str


class Lanes:
    """Floating-point and bit arithmetic on operands of f32 or f64."""

    def __init__(self, w: FunctionWriter, dtype: DType, lanes: int) -> None:
        self.w, self.dtype, self.lanes = w, dtype, lanes
        self.f32 = dtype.bits == 32
        element, bits = llvm_type(dtype), f"i{dtype.bits}"
        self.type, self.bits_type = vector(element, lanes), vector(bits, lanes)
        self.truth = vector("i1", lanes)
        self._element, self._bits, self.suffix = element, bits, suffix(element, lanes)
        self.mantissa, self.bias = (23, 127) if self.f32 else (52, 1023)

    def number(self, x: float) -> str:
        """A constant."""
        return splat_text(self.w, self._element, number(x, self.dtype), self.lanes)

    def whole(self, x: int) -> str:
        """A constant of as many bits."""
        return splat_text(self.w, self._bits, str(x), self.lanes)

    def _do(self, op: str, type_: str, *xs: str) -> str:
        return self.w.value(f"{op} {type_} {', '.join(xs)}")

    def add(self, x: str, y: str) -> str:
        """x + y."""
        return self._do("fadd", self.type, x, y)

    def sub(self, x: str, y: str) -> str:
        """x - y."""
        return self._do("fsub", self.type, x, y)

    def mul(self, x: str, y: str) -> str:
        """x * y."""
        return self._do("fmul", self.type, x, y)

    def div(self, x: str, y: str) -> str:
        """x / y."""
        return self._do("fdiv", self.type, x, y)

    def neg(self, x: str) -> str:
        """-x."""
        return self._do("fneg", self.type, x)

    def call(self, name: str, *xs: str) -> str:
        """An intrinsic whose operands and result have one type."""
        arguments = ((self.type, x) for x in xs)
        return self.w.call(self.type, f"llvm.{name}.{self.suffix}", *arguments)

    def copysign(self, x: str, y: str) -> str:
        """The size of x with the sign of y, of which LLVM sees nothing else.

        Where it sees that y is an f16 made of an f64, it asks for that conversion in one step,
        a function that is nowhere.
        """
        sign = self.float(
            self.whole_do("and", self.bits(y), self.whole(-(1 << self.dtype.bits - 1)))
        )
        return self.call("copysign", x, sign)

    def fma(self, x: str, y: str, z: str) -> str:
        """x*y + z: rounded once, or twice where the processor has no instruction for that."""
        return multiply_add(self.w, self._element, self.lanes, x, y, z)

    def is_(self, relation: str, x: str, y: str) -> str:
        """A comparison by LLVM's name for it."""
        return self._do(f"fcmp {relation}", self.type, x, y)

    def select(self, condition: str, x: str, y: str) -> str:
        """One of two."""
        return self.w.value(f"select {self.truth} {condition}, {self.type} {x}, {self.type} {y}")

    def bits(self, x: str) -> str:
        """The bits of a float."""
        return self.w.value(f"bitcast {self.type} {x} to {self.bits_type}")

    def float(self, x: str) -> str:
        """The float of some bits."""
        return self.w.value(f"bitcast {self.bits_type} {x} to {self.type}")

    def from_whole(self, x: str) -> str:
        """The float nearest to an integer."""
        return self.w.value(f"sitofp {self.bits_type} {x} to {self.type}")

    def whole_do(self, op: str, x: str, y: str) -> str:
        """An instruction on bits."""
        return self._do(op, self.bits_type, x, y)

    # -- what functions are made of ---------------------------------------------------------

    def both(self, a: str, b: str) -> str:
        """Two conditions at once."""
        return self._do("and", self.truth, a, b)

    def either(self, a: str, b: str) -> str:
        """One condition or the other."""
        return self._do("or", self.truth, a, b)

    def neither(self, a: str, b: str) -> str:
        """Not one condition nor the other."""
        return self._do(
            "xor", self.truth, self.either(a, b), splat_text(self.w, "i1", "true", self.lanes)
        )

    def any(self, condition: str) -> str:
        """Whether it holds in any lane, as one bit."""
        if self.lanes == 1:
            return condition
        return self.w.call("i1", f"llvm.vector.reduce.or.v{self.lanes}i1", (self.truth, condition))

    def is_odd(self, n: str) -> str:
        """Whether the last bit is set."""
        last = self.whole_do("and", n, self.whole(1))
        return self._do("icmp ne", self.bits_type, last, self.whole(0))

    def select_whole(self, condition: str, n: str, m: str) -> str:
        """One of two, of bits."""
        kind = self.bits_type
        return self.w.value(f"select {self.truth} {condition}, {kind} {n}, {kind} {m}")

    def broadcast(self, x: str) -> str:
        """One number in every lane."""
        return splat_text(self.w, self._element, x, self.lanes)

    def widened(self, x: str) -> str:
        """The same numbers as f64."""
        to = vector("double", self.lanes)
        return self.w.value(f"fpext {self.type} {x} to {to}") if self.f32 else x

    def narrowed(self, x: str, low: str) -> tuple[str, str]:
        """A sum of two f64 as one of two numbers of this type."""
        if not self.f32:
            return x, low
        wide = vector("double", self.lanes)
        high = self.w.value(f"fptrunc {wide} {x} to {self.type}")
        rest = self.w.value(f"fsub {wide} {x}, {self.widened(high)}")
        return high, self.w.value(f"fptrunc {wide} {rest} to {self.type}")

    def in_f64(self, function: Callable[[Lanes, str], str], x: str) -> str:
        """A function computed in f64, its result rounded."""
        if self.f32 and not self.w.text.has_doubles:
            return self.w.call(self.type, f"dlvm.{function.__name__.strip('_')}", (self.type, x))
        found = function(Lanes(self.w, F64, self.lanes), self.widened(x))
        return self.narrowed(found, found)[0] if self.f32 else found

    def saturated(self, x: str) -> str:
        """f64 as bits of this type's width; NaN is 0."""
        wide = vector("double", self.lanes)
        name = f"llvm.fptosi.sat.{suffix(self._bits, self.lanes)}.{suffix('double', self.lanes)}"
        return self.w.call(self.bits_type, name, (wide, x))

    def clamp(self, x: str, low: float, high: float) -> str:
        """Between two numbers; NaN stays."""
        least, most = self.number(low), self.number(high)
        x = self.select(self.is_("olt", x, least), least, x)
        return self.select(self.is_("ogt", x, most), most, x)

    def where_tiny(self, x: str, y: str) -> str:
        """x where it is so small that its square is lost beside it, else y; keeps the zeros."""
        small = self.number(2.0 ** -(self.mantissa + 2))
        return self.select(self.is_("olt", self.call("fabs", x), small), x, y)

    def nearest(self, x: str, times: float = 1.0) -> Whole:
        """The integer nearest to a multiple of x, which stays below 2**(mantissa - 2).

        Adding 1.5 * 2**mantissa leaves it in the low bits.
        """
        magic = self.number(1.5 * 2.0**self.mantissa)
        shifted = self.add(x, magic) if times == 1 else self.fma(x, self.number(times), magic)
        bits = self.whole_do("sub", self.bits(shifted), self.bits(magic))
        return Whole(bits, self.sub(shifted, magic))

    def power_of_two(self, n: str) -> str:
        """``2**n`` for a normal result."""
        biased = self.whole_do("add", n, self.whole(self.bias))
        return self.float(self.whole_do("shl", biased, self.whole(self.mantissa)))

    def two_sum(self, x: str, y: str) -> tuple[str, str]:
        """x + y and what its rounding lost (Knuth 1969)."""
        total = self.add(x, y)
        part = self.sub(total, x)
        return total, self.add(self.sub(x, self.sub(total, part)), self.sub(y, part))

    def fast_two_sum(self, x: str, y: str) -> tuple[str, str]:
        """The same where y is no larger than x (Dekker 1971)."""
        total = self.add(x, y)
        return total, self.sub(y, self.sub(total, x))

    def two_product(self, x: str, y: str) -> tuple[str, str]:
        """x * y and what its rounding lost, exactly.

        That supposes that neither y nor x * y is within a factor of 1 + 2**-11 of overflow, and
        that the last bit of x times the last bit of y is no smaller than the smallest denormal
        number. Of smaller products it may be off by twice that number.
        """
        product = self.mul(x, y)
        if self.w.text.fuses(self._element):
            return product, self.fma(x, y, self.neg(product))
        (a, b), (c, d) = self._cut(x), self._rounded(y)
        lost = self.add(self.sub(self.mul(a, c), product), self.mul(a, d))
        return product, self.add(self.add(lost, self.mul(b, c)), self.mul(b, d))

    def _cut(self, x: str) -> tuple[str, str]:
        """x as its high half of the bits and the rest.

        In f64 the halves have 26 and 27 bits; those of ``_rounded`` 26 and, with a sign, 26. So
        products of the ones with the others are exact (as in Dekker 1971, whose splitting by a
        multiplication overflows early).
        """
        high = self._high(self.bits(x))
        return high, self.sub(x, high)

    def _rounded(self, x: str) -> tuple[str, str]:
        """x rounded to the high half of its bits, and the rest; the largest x gives infinity."""
        half = self.whole(1 << self.mantissa // 2)
        high = self._high(self.whole_do("add", self.bits(x), half))
        return high, self.sub(x, high)

    def _high(self, bits: str) -> str:
        """The float whose low half of the bits is cleared."""
        return self.float(self.whole_do("and", bits, self.whole(-(2 << self.mantissa // 2))))

    def cancelled(self, x: str, y: str, z: str) -> str:
        """x*y + z, exactly, where z is within a factor of two of -x*y and the result has room.

        Then z plus the rounded product is exact (Sterbenz 1974), and so is adding what that lost.
        """
        if self.w.text.fuses(self._element):
            return self.fma(x, y, z)
        product, lost = self.two_product(x, y)
        return self.add(self.add(z, product), lost)

    def horner(self, x: str, coefficients: Sequence[float]) -> str:
        """A polynomial, lowest coefficient first, with few registers."""
        highest, *rest = (self.number(c) for c in reversed(coefficients))
        return reduce(lambda total, c: self.fma(total, x, c), rest, highest)

    def estrin(self, x: str, coefficients: Sequence[float]) -> str:
        """A polynomial, lowest coefficient first, with a short chain of dependences."""
        return self.estrin_of(x, [self.number(c) for c in coefficients])

    def estrin_of(self, x: str, level: Sequence[str]) -> str:
        """The same of coefficients that are values; the first is added last, so it keeps digits."""
        first, *level = level
        power = x
        while len(level) > 1:
            odd = [level[-1]] if len(level) % 2 else []
            pairs = zip(level[::2], level[1::2], strict=False)
            level = [self.fma(high, power, low) for low, high in pairs] + odd
            power = self.mul(power, power) if len(level) > 1 else power
        return self.fma(x, level[0], first) if level else first
