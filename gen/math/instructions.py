"""The scalar words as LLVM instructions, on a scalar or on all lanes of a vector alike.

What LLVM leaves undefined is guarded: integer division by zero or that overflows, floats too
large for an integer. Half precisions are only ever converted, with the one right rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from dlvm.base.errors import CompilerError
from dlvm.gen.text.lanes import (
    Lanes,
    Val,
    llvm_type,
    number,
    splat_text,
    suffix,
    vector,
)
from dlvm.gen.text.module import FunctionWriter
from dlvm.ir import BF16, BOOL, F16, F32, F64, DType

from . import functions as math
from . import remainder
from .foreign import foreign, sum_of_product

ROUNDINGS = {
    "sqrt": "sqrt",
    "trunc": "trunc",
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
}
ARITHMETIC = {"add", "sub", "mul", "div"}
RELATIONS = {"lt": ("olt", "lt"), "le": ("ole", "le"), "eq": ("oeq", "eq"), "ne": ("une", "ne")}


class LlvmScalars:
    """Writes words on values of equal width."""

    def __init__(self, w: FunctionWriter) -> None:
        self.w = w
        self.casts: dict[str, Val] = {}  # what results of casts were

    def word(self, word: str, dtype: DType, xs: Sequence[Val]) -> Val:
        """The result of a word, of the given element type."""
        lanes = xs[0].lanes
        match word:
            case "cast":
                text = self.cast(xs[0], dtype)
                self.casts[text] = xs[0]
            case "reinterpret":
                text = self._reinterpreted(xs[0], dtype)
            case "select":
                text = self._do("select", *xs)
            case "fma":
                text = sum_of_product(self.w, *xs)
            case _ if (found := foreign(self.w, word, xs, self.casts)) is not None:
                text = found
            case _ if len(xs) == 1:
                text = self._unary(word, xs[0])
            case _:
                text = self._binary(word, *xs)
        return Val(text, dtype, lanes)

    # -- small pieces ----------------------------------------------------------------------

    def _do(self, op: str, *xs: Val) -> str:
        """An instruction that names the type of each operand."""
        return self.w.value(f"{op} {', '.join(f'{x.type} {x.text}' for x in xs)}")

    def _on(self, op: str, x: Val, *others: Val) -> str:
        """An instruction that names the one type of its operands."""
        return self.w.value(f"{op} {x.type} {', '.join(v.text for v in (x, *others))}")

    def _intrinsic(self, name: str, *xs: Val) -> str:
        x = xs[0]
        full = f"llvm.{name}.{suffix(llvm_type(x.dtype), x.lanes)}"
        return self.w.call(x.type, full, *((v.type, v.text) for v in xs))

    def _number(self, x: float, like: Val) -> Val:
        text = number(x, like.dtype)
        return Val(
            splat_text(self.w, llvm_type(like.dtype), text, like.lanes), like.dtype, like.lanes
        )

    def _select(self, condition: str, x: Val, y: Val) -> Val:
        text = self._do("select", Val(condition, BOOL, x.lanes), x, y)
        return Val(text, x.dtype, x.lanes)

    def _compare(self, word: str, x: Val, y: Val) -> str:
        ordered, plain = RELATIONS[word]
        if x.dtype.is_float:
            return self._on(f"fcmp {ordered}", x, y)
        sign = "" if word in ("eq", "ne") else "s" if x.dtype.kind == "i" else "u"
        return self._on(f"icmp {sign}{plain}", x, y)

    def _both(self, op: str, x: str, y: str, lanes: int) -> str:
        return self.w.value(f"{op} {vector('i1', lanes)} {x}, {y}")

    # -- words -----------------------------------------------------------------------------

    def _unary(self, word: str, x: Val) -> str:
        if word in math.UNARY:
            return math.UNARY[word](Lanes(self.w, x.dtype, x.lanes), x.text)
        if word in ROUNDINGS:
            return self._intrinsic(ROUNDINGS[word], x)
        if word == "not":
            return self._on("xor", x, self._number(1 if x.dtype is BOOL else -1, x))
        if word == "neg":
            return self._on("fneg", x) if x.dtype.is_float else self._negative(x)
        if word == "abs":
            return self._intrinsic("fabs", x) if x.dtype.is_float else self._magnitude(x)
        raise CompilerError(f"no code for the word {word!r}")

    def _negative(self, x: Val) -> str:
        return self._on("sub", self._number(0, x), x)

    def _magnitude(self, x: Val) -> str:
        if x.dtype.kind != "i":
            return x.text
        negative = self._compare("lt", x, self._number(0, x))
        return self._select(negative, Val(self._negative(x), x.dtype, x.lanes), x).text

    def _binary(self, word: str, x: Val, y: Val) -> str:
        if word in RELATIONS:
            return self._compare(word, x, y)
        if word in math.BINARY:
            return math.BINARY[word](Lanes(self.w, x.dtype, x.lanes), x.text, y.text)
        if word in ARITHMETIC:
            return self._on(f"f{word}" if x.dtype.is_float else word, x, y)
        if word in ("max", "min"):
            return self._extreme("lt" if word == "min" else "gt", x, y)
        if word == "copysign":
            return Lanes(self.w, x.dtype, x.lanes).copysign(x.text, y.text)
        if word in ("shl", "shr"):
            return self._shifted(word, x, y)
        if word == "fmod":
            return remainder.fmod(Lanes(self.w, x.dtype, x.lanes), x.text, y.text)
        return self._floordiv(x, y) if word == "floordiv" else self._on(word, x, y)

    def _shifted(self, word: str, x: Val, y: Val) -> str:
        """Shifted by a count that is in range, as LLVM demands; further out all bits are alike."""
        far = self._number(x.dtype.bits - 1, x)
        inside = self._on("icmp ule", y, far)
        if word == "shr" and x.dtype.kind == "i":
            return self._on("ashr", x, self._select(inside, y, far))
        zero = self._number(0, x)
        op = "shl" if word == "shl" else "lshr"
        moved = Val(self._on(op, x, self._select(inside, y, zero)), x.dtype, x.lanes)
        return self._select(inside, moved, zero).text

    def _extreme(self, relation: str, x: Val, y: Val) -> str:
        """The larger, or the smaller, where -0 is below 0, and NaN where either is.

        A comparison takes the zeros for equal. Of equal numbers, ``x > y ? x : y`` is y and
        ``y > x ? y : x`` is x; so what both choose is the same but for zeros of two signs, of
        which "and" keeps the positive one and "or" the negative one. A constant needs no care:
        it is chosen, or not, among equals.
        """
        if not x.dtype.is_float:
            return self._better(relation, x, y).text
        if (constant := self._constant(x, y)) is not None:
            return self._against(relation, y if constant is x else x, constant)
        first, second = self._better(relation, x, y), self._better(relation, y, x)
        bits = vector(f"i{x.dtype.bits}", x.lanes)
        whole = [self.w.value(f"bitcast {v.type} {v.text} to {bits}") for v in (first, second)]
        joined = self.w.value(f"{'and' if relation == 'gt' else 'or'} {bits} {', '.join(whole)}")
        best = Val(self.w.value(f"bitcast {bits} {joined} to {x.type}"), x.dtype, x.lanes)
        return self._select(self._on("fcmp uno", x, y), self._number(nan, x), best).text

    def _better(self, relation: str, x: Val, y: Val) -> Val:
        """``x > y ? x : y``, or the same for "<"; y where they are equal or either is NaN."""
        a, b = (x, y) if relation == "lt" else (y, x)
        return self._select(self._compare("lt", a, b), x, y)

    def _constant(self, x: Val, y: Val) -> Val | None:
        """The operand that is a constant, if one is."""
        return next((v for v in (y, x) if not v.text.startswith("%")), None)

    def _against(self, relation: str, x: Val, constant: Val) -> str:
        """The same where one operand is a constant, in three instructions.

        Of equal zeros the constant is chosen where it is the positive one of a maximum or the
        negative one of a minimum, else the other operand.
        """
        negative = constant.text == self._number(-0.0, constant).text
        last = negative == (relation == "lt")
        best = self._better(relation, x, constant) if last else self._better(relation, constant, x)
        return self._select(self._on("fcmp uno", x, constant), self._number(nan, x), best).text

    def _floordiv(self, x: Val, y: Val) -> str:
        """Divided by 1 where y is 0 (the result is 0 then) or where MIN // -1 would trap."""
        zero, one = self._number(0, x), self._number(1, x)
        by_zero = unsafe = self._compare("eq", y, zero)
        if x.dtype.kind == "i":
            lowest = self._compare("eq", x, self._number(x.dtype.lowest, x))
            minus_one = self._compare("eq", y, self._number(-1, x))
            both = self._both("and", lowest, minus_one, x.lanes)
            unsafe = self._both("or", by_zero, both, x.lanes)
        divisor = self._select(unsafe, one, y)
        quotient = Val(self._divided(x, divisor), x.dtype, x.lanes)
        return self._select(by_zero, zero, quotient).text

    def _divided(self, x: Val, y: Val) -> str:
        """The floor of a quotient: one less than truncation where signs differ and it leaves."""
        if x.dtype.kind == "u":
            return self._on("udiv", x, y)
        zero = self._number(0, x)
        quotient = Val(self._on("sdiv", x, y), x.dtype, x.lanes)
        rest = Val(self._on("srem", x, y), x.dtype, x.lanes)
        mixed = Val(self._on("xor", rest, y), x.dtype, x.lanes)
        negative = self._compare("lt", mixed, zero)
        down = self._both("and", self._compare("ne", rest, zero), negative, x.lanes)
        return self._select(
            down, Val(self._on("sub", quotient, self._number(1, x)), x.dtype, x.lanes), quotient
        ).text

    # -- conversions -----------------------------------------------------------------------

    def cast(self, x: Val, to: DType) -> str:
        """Half precisions by way of f32; f64 is rounded to odd there, so that it rounds once."""
        if x.dtype in (F16, BF16):
            x = self._widened(x)
        if to in (F16, BF16):
            if x.dtype is F64:
                return self._halved(self._to_odd(x), to)
            return self._halved(Val(self._plain(x, F32), F32, x.lanes), to)
        return self._plain(x, to)

    def _plain(self, x: Val, to: DType) -> str:
        if x.dtype == to:
            return x.text
        if to is BOOL:
            return self._compare("ne", x, self._number(0, x))
        result = vector(llvm_type(to), x.lanes)
        if x.dtype.is_float and to.is_integer:
            return self._saturated(x, to)
        if x.dtype.is_float:
            op = "fpext" if to.bits > x.dtype.bits else "fptrunc"
        elif to.is_float:
            op = "sitofp" if x.dtype.kind == "i" else "uitofp"
        elif to.bits == x.dtype.bits:
            return x.text
        else:
            wider = "sext" if x.dtype.kind == "i" else "zext"
            op = wider if to.bits > x.dtype.bits else "trunc"
        return self.w.value(f"{op} {x.type} {x.text} to {result}")

    def _saturated(self, x: Val, to: DType) -> str:
        kind = "fptosi" if to.kind == "i" else "fptoui"
        ends = f"{suffix(llvm_type(to), x.lanes)}.{suffix(llvm_type(x.dtype), x.lanes)}"
        result = vector(llvm_type(to), x.lanes)
        return self.w.call(result, f"llvm.{kind}.sat.{ends}", (x.type, x.text))

    def _reinterpreted(self, x: Val, to: DType) -> str:
        kind = vector(llvm_type(to), x.lanes)
        return x.text if kind == x.type else self.w.value(f"bitcast {x.type} {x.text} to {kind}")

    def _widened(self, x: Val) -> Val:
        wide = vector("float", x.lanes)
        if x.dtype is F16:
            return Val(self.w.value(f"fpext {x.type} {x.text} to {wide}"), F32, x.lanes)
        bits = vector("i32", x.lanes)
        high = self.w.value(f"zext {x.type} {x.text} to {bits}")
        shifted = self.w.value(f"shl {bits} {high}, {self._whole(16, x.lanes)}")
        return Val(self.w.value(f"bitcast {bits} {shifted} to {wide}"), F32, x.lanes)

    def _whole(self, n: int, lanes: int) -> str:
        return splat_text(self.w, "i32", str(n), lanes)

    def _halved(self, x: Val, to: DType) -> str:
        """From f32: bf16 by adding half a unit (less one where even), NaN staying quiet NaN.

        By hand, as the instruction for it takes denormal numbers for zero.
        """
        result = vector(llvm_type(to), x.lanes)
        if to is F16:
            return self.w.value(f"fptrunc {x.type} {x.text} to {result}")
        v = Lanes(self.w, F32, x.lanes)
        bits = v.bits(x.text)
        odd = v.whole_do("and", v.whole_do("lshr", bits, v.whole(16)), v.whole(1))
        rounded = v.whole_do("add", bits, v.whole_do("add", odd, v.whole(0x7FFF)))
        quiet = v.whole_do("or", bits, v.whole(0x400000))
        nan = v.is_("uno", x.text, x.text)
        kind = v.bits_type
        chosen = self.w.value(f"select {v.truth} {nan}, {kind} {quiet}, {kind} {rounded}")
        high = v.whole_do("lshr", chosen, v.whole(16))
        return self.w.value(f"trunc {kind} {high} to {result}")

    def _to_odd(self, x: Val) -> Val:
        """f64 to f32 with the last bit set where it is inexact (Boldo and Melquiond 2008)."""
        v, d = Lanes(self.w, F32, x.lanes), Lanes(self.w, F64, x.lanes)
        near = self._plain(x, F32)
        back = self.w.value(f"fpext {v.type} {near} to {d.type}")
        bits = v.bits(near)
        ends_even = v.whole_do("and", bits, v.whole(1))
        even = self.w.value(f"icmp eq {v.bits_type} {ends_even}, {v.whole(0)}")
        inexact = self._both("and", d.is_("one", back, x.text), even, x.lanes)
        grows = d.is_("olt", d.call("fabs", back), d.call("fabs", x.text))
        step = self.w.value(
            f"select {v.truth} {grows}, {v.bits_type} {v.whole(1)}, {v.bits_type} {v.whole(-1)}"
        )
        moved = v.whole_do("add", bits, step)
        kind = v.bits_type
        odd = self.w.value(f"select {v.truth} {inexact}, {kind} {moved}, {kind} {bits}")
        return Val(v.float(odd), F32, x.lanes)
