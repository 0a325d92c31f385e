"""Conversions of f16 for processors that have none, under the names by which LLVM calls them.

Compilers of C link a library of these; a process need not have it. Both are exact: what is read is
no denormal number of f32, which a process may take for zero, and rounding is to even, once.
"""

from __future__ import annotations

WIDEN, NARROW = "__extendhfsf2", "__truncsfhf2"
OWN = {WIDEN: "dlvm.half.widen", NARROW: "dlvm.half.narrow"}
"""What they are called here, for LLVM not to know them."""

WIDENED = f"""  %all = zext i16 %bits to i32
  %sign = and i32 %all, {0x8000}
  %size = and i32 %all, {0x7FFF}
  %moved = shl i32 %size, 13
  %normal = add i32 %moved, {112 << 23}
  %count = uitofp i32 %size to float
  %tiny = fmul float %count, 0x3E70000000000000
  %tiny.bits = bitcast float %tiny to i32
  %is.tiny = icmp ult i32 %size, {0x0400}
  %finite = select i1 %is.tiny, i32 %tiny.bits, i32 %normal
  %endless = add i32 %moved, {224 << 23}
  %quiet = or i32 %endless, {0x400000}
  %is.nan = icmp ugt i32 %size, {0x7C00}
  %special = select i1 %is.nan, i32 %quiet, i32 %endless
  %is.special = icmp uge i32 %size, {0x7C00}
  %found = select i1 %is.special, i32 %special, i32 %finite
  %high = shl i32 %sign, 16
  %signed = or i32 %found, %high
  %out = bitcast i32 %signed to float
  ret float %out"""
"""From ``%bits`` to the end."""

NARROWED = f"""  %all = bitcast float %x to i32
  %high = lshr i32 %all, 16
  %sign = and i32 %high, {0x8000}
  %size = and i32 %all, {0x7FFFFFFF}
  %low = lshr i32 %size, 13
  %odd = and i32 %low, 1
  %less = sub i32 %size, {(112 << 23) - 0xFFF}
  %even = add i32 %less, %odd
  %normal = lshr i32 %even, 13
  %number = bitcast i32 %size to float
  %added = fadd float %number, 5.000000e-01
  %added.bits = bitcast float %added to i32
  %tiny = sub i32 %added.bits, {0x3F000000}
  %is.tiny = icmp ult i32 %size, {113 << 23}
  %finite = select i1 %is.tiny, i32 %tiny, i32 %normal
  %is.large = icmp uge i32 %size, {0x477FF000}
  %bounded = select i1 %is.large, i32 {0x7C00}, i32 %finite
  %kept = and i32 %low, {0x3FF}
  %quiet = or i32 %kept, {0x7E00}
  %is.nan = icmp ugt i32 %size, {0x7F800000}
  %found = select i1 %is.nan, i32 %quiet, i32 %bounded
  %signed = or i32 %found, %sign
  %short = trunc i32 %signed to i16"""
"""From ``%x`` to the bits ``%short``."""


def widen(name: str, linkage: str = "") -> str:
    """The function from f16 to f32."""
    first = "  %bits = bitcast half %x to i16"
    return _define(f"{linkage}float @{name}(half %x)", first, WIDENED)


def narrow(name: str, linkage: str = "") -> str:
    """The function from f32 to f16."""
    last = "  %out = bitcast i16 %short to half\n  ret half %out"
    return _define(f"{linkage}half @{name}(float %x)", NARROWED, last)


def _define(head: str, *lines: str) -> str:
    return "\n".join([f"define {head} nounwind {{", "entry:", *lines, "}"]) + "\n"


FUNCTIONS = widen(OWN[WIDEN]) + narrow(OWN[NARROW])


def for_linking(triple: str) -> dict[str, str]:
    """The code of both for an object, by LLVM's names, seen by that object alone.

    For WebAssembly LLVM passes the halves of these as integers, while it passes a ``half`` as f32.
    """
    if triple.startswith("wasm"):
        return {
            WIDEN: _define(f"internal float @{WIDEN}(i16 zeroext %bits)", WIDENED),
            NARROW: _define(
                f"internal zeroext i16 @{NARROW}(float %x)", NARROWED, "  ret i16 %short"
            ),
        }
    return {WIDEN: widen(WIDEN, "internal "), NARROW: narrow(NARROW, "internal ")}
