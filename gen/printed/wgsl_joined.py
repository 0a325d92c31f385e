"""WGSL for a kernel with more arrays than a device binds: all of them lie in one, of words.

A device of WebGPU gives a kernel eight arrays at least, and many give no more. Here arrays of any
type are parts of one array of words, each from an index on that is counted in its own elements. A
kernel that stores elements of 8 or 16 bits does so by atomic operations, so all its accesses are
atomic then.
"""

from __future__ import annotations

from dataclasses import replace

from .dialect import Dialect
from .wgsl import NARROW, WGSL

LEAST = 8
"""The arrays that every device gives a kernel, that of the status among them."""


def _joined(atomic: bool) -> Dialect:
    """The language with one array; its words are atomic or not."""

    def word(i: str) -> str:
        return f"atomicLoad(&{{a}}[{i}])" if atomic else f"{{a}}[{i}]"

    def put(i: str, x: str) -> str:
        return f"atomicStore(&{{a}}[{i}], {x});" if atomic else f"{{a}}[{i}] = {x};"

    low, high = "2u * ({i})", "2u * ({i}) + 1u"
    long = f"vec2<u32>({word(low)}, {word(high)})", f"{put(low, '{x}.x')} {put(high, '{x}.y')}"
    ways = {
        "i32": (word("{i}"), put("{i}", "{x}")),
        "float": (f"bitcast<f32>({word('{i}')})", put("{i}", "bitcast<u32>({x})")),
        "i64": long,
        "double": long,
    }
    forms = dict(WGSL.forms)
    for type_, (load, store) in ways.items():
        forms |= {f"load.{type_}.{where}": load for where in ("read", "written")}
        forms[f"store.{type_}.written"] = store
    if atomic:
        forms |= {f"load.{t}.read": forms[f"load.{t}.written"] for t in NARROW}
    held = "atomic<u32>" if atomic else "u32"
    outside = f"@group(0) @binding(2) var<storage, read_write> {{kernel}}_memory: array<{held}>;"
    return replace(WGSL, forms=forms, outside=outside, called="{kernel}_memory")


JOINED, ATOMIC = _joined(atomic=False), _joined(atomic=True)


def joined(types: set[str]) -> Dialect:
    """The language for a kernel that stores elements of such types of LLVM."""
    return ATOMIC if types & NARROW.keys() else JOINED
