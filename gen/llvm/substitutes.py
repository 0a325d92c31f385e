"""Functions that LLVM calls where a processor has no instruction, as LLVM code.

A compiler of C links a library of these; an object of ours brings them along, seen by nobody else.
``missing`` tells which of them an object calls, ``module`` gives their code. All are exact or
rounded once, and total where the caller is: nobody divides by zero, or converts what is out of
range. Arithmetic in f64 on processors that have none (Cortex-M4) is left to the library of C.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from . import half_conversions as halves
from .undefined import undefined

CTLZ = "declare i64 @llvm.ctlz.i64(i64, i1)"

DIVIDE = """define internal i64 @__udivdi3(i64 %n, i64 %d) nounwind {
entry:
  %both = or i64 %n, %d
  %high = lshr i64 %both, 32
  %short = icmp eq i64 %high, 0
  br i1 %short, label %words, label %wide
words:
  %n.low = trunc i64 %n to i32
  %d.low = trunc i64 %d to i32
  %q.low = udiv i32 %n.low, %d.low
  %q.short = zext i32 %q.low to i64
  ret i64 %q.short
wide:
  %less = icmp ult i64 %n, %d
  br i1 %less, label %none, label %long
none:
  ret i64 0
long:
  %n.zeros = call i64 @llvm.ctlz.i64(i64 %n, i1 false)
  %d.zeros = call i64 @llvm.ctlz.i64(i64 %d, i1 false)
  %steps = sub i64 %d.zeros, %n.zeros
  %top = shl i64 %d, %steps
  br label %turn
turn:
  %left = phi i64 [ %n, %long ], [ %left.next, %turn ]
  %q = phi i64 [ 0, %long ], [ %q.next, %turn ]
  %by = phi i64 [ %top, %long ], [ %by.next, %turn ]
  %k = phi i64 [ %steps, %long ], [ %k.next, %turn ]
  %fits = icmp uge i64 %left, %by
  %taken = select i1 %fits, i64 %by, i64 0
  %left.next = sub i64 %left, %taken
  %bit = zext i1 %fits to i64
  %twice = shl i64 %q, 1
  %q.next = or i64 %twice, %bit
  %by.next = lshr i64 %by, 1
  %k.next = sub i64 %k, 1
  %more = icmp ne i64 %k, 0
  br i1 %more, label %turn, label %end
end:
  ret i64 %q.next
}
"""
"""By shifting and subtracting, as many turns as the quotient has bits."""

SIGNED_DIVIDE = """define internal i64 @__divdi3(i64 %n, i64 %d) nounwind {
entry:
  %n.sign = ashr i64 %n, 63
  %d.sign = ashr i64 %d, 63
  %n.turned = xor i64 %n, %n.sign
  %d.turned = xor i64 %d, %d.sign
  %n.size = sub i64 %n.turned, %n.sign
  %d.size = sub i64 %d.turned, %d.sign
  %q = call i64 @__udivdi3(i64 %n.size, i64 %d.size)
  %sign = xor i64 %n.sign, %d.sign
  %turned = xor i64 %q, %sign
  %out = sub i64 %turned, %sign
  ret i64 %out
}
"""


def _remainder(name: str, divide: str) -> str:
    return f"""define internal i64 @{name}(i64 %n, i64 %d) nounwind {{
entry:
  %q = call i64 @{divide}(i64 %n, i64 %d)
  %whole = mul i64 %q, %d
  %out = sub i64 %n, %whole
  ret i64 %out
}}
"""


def _to_double(name: str, signed: bool) -> str:
    """Two halves, of which each is exact, so that their sum rounds once."""
    shift, convert = ("ashr", "sitofp") if signed else ("lshr", "uitofp")
    return f"""define internal double @{name}(i64 %x) nounwind {{
entry:
  %shifted = {shift} i64 %x, 32
  %high = trunc i64 %shifted to i32
  %low = trunc i64 %x to i32
  %high.float = {convert} i32 %high to double
  %low.float = uitofp i32 %low to double
  %moved = fmul double %high.float, 0x41F0000000000000
  %out = fadd double %moved, %low.float
  ret double %out
}}
"""


def _to_single(name: str, double: str, signed: bool) -> str:
    """Through f64, which what is below its digits is first brought into, so that f32 rounds once.

    Where x has more than 53 bits its lowest 11 are gathered in one, far below the digits of f32.
    """
    sign = "ashr i64 %x, 63" if signed else "and i64 0, 0"
    return f"""define internal float @{name}(i64 %x) nounwind {{
entry:
  %sign = {sign}
  %turned = xor i64 %x, %sign
  %top = lshr i64 %turned, 53
  %short = icmp eq i64 %top, 0
  %last = and i64 %x, 2047
  %carried = add i64 %last, 2047
  %gathered = or i64 %x, %carried
  %cleared = and i64 %gathered, -2048
  %chosen = select i1 %short, i64 %x, i64 %cleared
  %wide = call double @{double}(i64 %chosen)
  %out = fptrunc double %wide to float
  ret float %out
}}
"""


TO_UNSIGNED = """define internal i64 @__fixunsdfdi(double %x) nounwind {
entry:
  %bits = bitcast double %x to i64
  %moved = lshr i64 %bits, 52
  %biased = and i64 %moved, 2047
  %fraction = and i64 %bits, 4503599627370495
  %digits = or i64 %fraction, 4503599627370496
  %right = sub i64 1075, %biased
  %left = sub i64 %biased, 1075
  %right.count = and i64 %right, 63
  %left.count = and i64 %left, 63
  %down = lshr i64 %digits, %right.count
  %up = shl i64 %digits, %left.count
  %large = icmp ugt i64 %biased, 1075
  %found = select i1 %large, i64 %up, i64 %down
  %small = icmp ult i64 %biased, 1023
  %out = select i1 %small, i64 0, i64 %found
  ret i64 %out
}
"""
TO_SIGNED = """define internal i64 @__fixdfdi(double %x) nounwind {
entry:
  %bits = bitcast double %x to i64
  %sign = ashr i64 %bits, 63
  %size = call i64 @__fixunsdfdi(double %x)
  %turned = xor i64 %size, %sign
  %out = sub i64 %turned, %sign
  ret i64 %out
}
"""


def _from_single(name: str, double: str) -> str:
    return f"""define internal i64 @{name}(float %x) nounwind {{
entry:
  %wide = fpext float %x to double
  %out = call i64 @{double}(double %wide)
  ret i64 %out
}}
"""


def _truncate(name: str, type_: str, bits: int, digits: int) -> str:
    """The bits of the fraction are cleared; with a size below 1 all but the sign."""
    bias = (1 << bits - digits - 2) - 1
    low, sign = (1 << digits) - 1, -(1 << bits - 1)
    return f"""define internal {type_} @{name}({type_} %x) nounwind {{
entry:
  %bits = bitcast {type_} %x to i{bits}
  %moved = lshr i{bits} %bits, {digits}
  %biased = and i{bits} %moved, {2 * bias + 1}
  %power = sub i{bits} %biased, {bias}
  %count = and i{bits} %power, {bits - 1}
  %fraction = lshr i{bits} {low}, %count
  %mask = xor i{bits} %fraction, -1
  %cleared = and i{bits} %bits, %mask
  %sign = and i{bits} %bits, {sign}
  %small = icmp ult i{bits} %biased, {bias}
  %large = icmp uge i{bits} %biased, {bias + digits}
  %some = select i1 %small, i{bits} %sign, i{bits} %cleared
  %found = select i1 %large, i{bits} %bits, i{bits} %some
  %out = bitcast i{bits} %found to {type_}
  ret {type_} %out
}}
"""


def _round(name: str, type_: str, bits: int, digits: int) -> str:
    """To even: a large number is added, whose last bit is a one, and taken away."""
    magic = f"{2.0**digits:e}"
    low = (1 << bits - 1) - 1
    return f"""define internal {type_} @{name}({type_} %x) nounwind {{
entry:
  %bits = bitcast {type_} %x to i{bits}
  %size.bits = and i{bits} %bits, {low}
  %sign = and i{bits} %bits, {-low - 1}
  %size = bitcast i{bits} %size.bits to {type_}
  %added = fadd {type_} %size, {magic}
  %less = fsub {type_} %added, {magic}
  %less.bits = bitcast {type_} %less to i{bits}
  %signed = or i{bits} %less.bits, %sign
  %rounded = bitcast i{bits} %signed to {type_}
  %small = fcmp olt {type_} %size, {magic}
  %out = select i1 %small, {type_} %rounded, {type_} %x
  ret {type_} %out
}}
"""


def _floor(name: str, truncate: str, type_: str, bits: int, step: str, relation: str) -> str:
    """One further where truncation went towards zero from the other side; keeps the sign of 0."""
    return f"""define internal {type_} @{name}({type_} %x) nounwind {{
entry:
  %whole = call {type_} @{truncate}({type_} %x)
  %moved = fadd {type_} %whole, {step}
  %beyond = fcmp {relation} {type_} %whole, %x
  %found = select i1 %beyond, {type_} %moved, {type_} %whole
  %bits = bitcast {type_} %found to i{bits}
  %size = and i{bits} %bits, {(1 << bits - 1) - 1}
  %x.bits = bitcast {type_} %x to i{bits}
  %sign = and i{bits} %x.bits, {-(1 << bits - 1)}
  %signed = or i{bits} %size, %sign
  %out = bitcast i{bits} %signed to {type_}
  ret {type_} %out
}}
"""


def _roundings(letter: str, type_: str, bits: int, digits: int) -> dict[str, str]:
    """Those of a type; C marks the names of f32 with a letter."""
    truncate = f"trunc{letter}"
    return {
        truncate: _truncate(truncate, type_, bits, digits),
        f"floor{letter}": _floor(f"floor{letter}", truncate, type_, bits, "-1.0", "ogt"),
        f"ceil{letter}": _floor(f"ceil{letter}", truncate, type_, bits, "1.0", "olt"),
        f"rint{letter}": _round(f"rint{letter}", type_, bits, digits),
        f"roundeven{letter}": _round(f"roundeven{letter}", type_, bits, digits),
    }


ARM = {
    "__aeabi_l2d": ("__floatdidf", "i64", "double"),
    "__aeabi_ul2d": ("__floatundidf", "i64", "double"),
    "__aeabi_l2f": ("__floatdisf", "i64", "float"),
    "__aeabi_ul2f": ("__floatundisf", "i64", "float"),
    "__aeabi_d2lz": ("__fixdfdi", "double", "i64"),
    "__aeabi_d2ulz": ("__fixunsdfdi", "double", "i64"),
    "__aeabi_f2lz": ("__fixsfdi", "float", "i64"),
    "__aeabi_f2ulz": ("__fixunssfdi", "float", "i64"),
}
"""Names of its own; there floats are passed as integers, as on processors that have none."""


def _on_arm(name: str, other: str, given: str, result: str) -> str:
    return f"""define internal arm_aapcscc {result} @{name}({given} %x) nounwind {{
entry:
  %out = call {result} @{other}({given} %x)
  ret {result} %out
}}
"""


def _divide_on_arm(name: str, divide: str) -> str:
    """A quotient with its remainder."""
    return f"""define internal arm_aapcscc {{ i64, i64 }} @{name}(i64 %n, i64 %d) nounwind {{
entry:
  %q = call i64 @{divide}(i64 %n, i64 %d)
  %whole = mul i64 %q, %d
  %rest = sub i64 %n, %whole
  %first = insertvalue {{ i64, i64 }} poison, i64 %q, 0
  %both = insertvalue {{ i64, i64 }} %first, i64 %rest, 1
  ret {{ i64, i64 }} %both
}}
"""


def _arm() -> dict[str, str]:
    pairs = {"__aeabi_ldivmod": "__divdi3", "__aeabi_uldivmod": "__udivdi3"}
    found = {name: _divide_on_arm(name, divide) for name, divide in pairs.items()}
    return found | {name: _on_arm(name, *facts) for name, facts in ARM.items()}


@cache
def functions(triple: str) -> dict[str, str]:
    """The code of each, by the name that LLVM calls on a target."""
    return (_arm() if triple.startswith(("arm", "thumb")) else {}) | {
        "__udivdi3": DIVIDE,
        "__umoddi3": _remainder("__umoddi3", "__udivdi3"),
        "__divdi3": SIGNED_DIVIDE,
        "__moddi3": _remainder("__moddi3", "__divdi3"),
        "__floatdidf": _to_double("__floatdidf", signed=True),
        "__floatundidf": _to_double("__floatundidf", signed=False),
        "__floatdisf": _to_single("__floatdisf", "__floatdidf", signed=True),
        "__floatundisf": _to_single("__floatundisf", "__floatundidf", signed=False),
        "__fixunsdfdi": TO_UNSIGNED,
        "__fixdfdi": TO_SIGNED,
        "__fixunssfdi": _from_single("__fixunssfdi", "__fixunsdfdi"),
        "__fixsfdi": _from_single("__fixsfdi", "__fixdfdi"),
        **halves.for_linking(triple),
        **_roundings("f", "float", 32, 23),
        **_roundings("", "double", 64, 52),
    }


def missing(code: bytes, triple: str) -> set[str]:
    """Which of them an object file calls and does not have."""
    return undefined(code) & functions(triple).keys()


def module(names: Iterable[str], triple: str) -> str:
    """Some of them, and those that they call; LLVM must keep all, as it calls them last."""
    known, found = functions(triple), dict[str, str]()
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        found[name] = known[name]
        waiting += [n for n in known if n not in found and f"@{n}(" in known[name]]
    kept = ", ".join(f"ptr @{name}" for name in found)
    used = f"@llvm.compiler.used = appending global [{len(found)} x ptr] [{kept}]"
    declared = [CTLZ] if "__udivdi3" in found else []
    return "\n".join([*found.values(), *declared, f'{used}, section "llvm.metadata"']) + "\n"
