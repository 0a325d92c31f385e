"""Multiplying by a power of two in one instruction, where a processor has that.

LLVM knows the instruction for exponents that are integers, and would make floats of them again;
an exponential has its exponents as floats, so here they are handed over as they are.
"""

from __future__ import annotations

from dlvm.gen.text.access import suffix, vector
from dlvm.gen.text.lanes import Lanes, Whole, llvm_type

REGISTERS = (512, 256, 128)
"""Bits of the registers that the instruction takes."""


def scaled(v: Lanes, x: str, n: Whole) -> str:
    """``x * 2**n``, rounded once."""
    bits = v.lanes * v.dtype.bits
    if bits in REGISTERS:
        return _scaled(v, v.lanes, x, n.float)
    if bits % REGISTERS[0] == 0:
        return _piecewise(v, x, n.float)
    kind = suffix(f"i{v.dtype.bits}", v.lanes)
    return v.w.call(v.type, f"llvm.ldexp.{v.suffix}.{kind}", (v.type, x), (v.bits_type, n.bits))


def _scaled(v: Lanes, lanes: int, x: str, n: str) -> str:
    """By the instruction, in as many lanes as a register has."""
    bits, short = lanes * v.dtype.bits, "ps" if v.f32 else "pd"
    type_, mask = vector(llvm_type(v.dtype), lanes), f"i{max(lanes, 8)}"
    arguments = [(type_, x), (type_, n), (type_, x), (mask, "-1")]
    if bits == REGISTERS[0]:
        arguments.append(("i32", "4"))  # rounded as everything else is
    return v.w.call(type_, f"llvm.x86.avx512.mask.scalef.{short}.{bits}", *arguments)


def _piecewise(v: Lanes, x: str, n: str) -> str:
    """Register by register."""
    lanes = REGISTERS[0] // v.dtype.bits
    parts = [
        _scaled(v, lanes, _part(v, x, at, lanes), _part(v, n, at, lanes))
        for at in range(0, v.lanes, lanes)
    ]
    while len(parts) > 1:
        parts = [
            _joined(v, low, high, lanes) for low, high in zip(parts[::2], parts[1::2], strict=True)
        ]
        lanes *= 2
    return parts[0]


def _part(v: Lanes, x: str, start: int, lanes: int) -> str:
    """Some lanes of a value."""
    return v.w.value(f"shufflevector {v.type} {x}, {v.type} poison, {_order(start, lanes)}")


def _joined(v: Lanes, low: str, high: str, lanes: int) -> str:
    """Two values as one."""
    half = vector(llvm_type(v.dtype), lanes)
    return v.w.value(f"shufflevector {half} {low}, {half} {high}, {_order(0, 2 * lanes)}")


def _order(start: int, count: int) -> str:
    lanes = ", ".join(f"i32 {i}" for i in range(start, start + count))
    return f"<{count} x i32> <{lanes}>"
