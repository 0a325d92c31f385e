"""The sizes that a call needs, in one row of words, and a function that fills it in.

First the bytes of the arena and the work, then the bytes of each argument and result, then every
axis of the arguments, then every axis of the results. Of a program without symbols the row is
known; else ``dlvm_sizes(symbols, sizes)`` computes it, as soon as each symbol has been read off
an axis of an argument.
"""

from __future__ import annotations

from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.gen.text.sizes import Offsets
from dlvm.ir import Dim, TensorType
from dlvm.ir.sizes.dims import bounds
from dlvm.ir.sizes.equations import as_clamped, as_line

from .interface import Interface

SIZES = "dlvm_sizes"
ARENA, WORK, BYTES = range(3)
"""Where the row has the arena, the work, and the bytes of the first argument."""

Axis = tuple[int, int, int, int]
"""An argument and one of its axes, which is a factor times a symbol, plus an offset, long."""


def row(interface: Interface) -> list[Dim]:
    """The sizes of a call, in order."""
    types = [p.type for p in interface.params] + [r.type for r in interface.results]
    held = [t.size * t.dtype.bytes for t in types]
    return [interface.arena, interface.work, *held, *(d for t in types for d in t.shape)]


def first_axes(interface: Interface) -> tuple[list[int], list[int]]:
    """Where the row has the first axis of each argument, and of each result."""
    params: list[TensorType] = [p.type for p in interface.params]
    results: list[TensorType] = [r.type for r in interface.results]
    at = BYTES + len(params) + len(results)
    found: list[int] = []
    for t in params + results:
        found.append(at)
        at += t.rank
    return found[: len(params)], found[len(params) :]


def bound_by(interface: Interface) -> list[Axis] | None:
    """For each symbol an axis that tells its value; None where there is none for one of them."""
    axes: dict[str, Axis] = {}
    for clamped in (False, True):  # a minimum says less than any other axis
        for i, p in enumerate(interface.params):
            for axis, d in enumerate(p.type.shape):
                for name in interface.symbols:
                    match as_line(_without_clamp(d, name) if clamped else d, name):
                        case (int(factor), int(offset)) if factor > 0 and name not in axes:
                            axes[name] = (i, axis, factor, offset)
                        case _:
                            pass
    return (
        [axes[name] for name in interface.symbols] if len(axes) == len(interface.symbols) else None
    )


def _without_clamp(d: Dim, name: str) -> Dim:
    """``a + c`` for an axis of ``min(n, a) + c``, from which a symbol in ``a`` is read off.

    An axis that is longer than ``n + c`` differs from the size that is computed of the symbol.
    """
    clamp = as_clamped(d, name)
    return d if clamp is None else clamp[0] + clamp[2]


def largest(interface: Interface) -> int:
    """How large symbols may be so that every size fits in a word: above, sizes need Python."""
    sizes = row(interface)
    for bits in range(60, 0, -1):
        ranges = {name: (0.0, 2.0**bits) for name in interface.symbols}
        if all(max(map(abs, bounds(d, ranges))) < 2**62 for d in sizes):
            return 1 << bits
    return 0


def emit_sizes(interface: Interface, text: Text) -> None:
    """Add the function to a module, where there are symbols and they can be read off."""
    if not interface.symbols or bound_by(interface) is None:
        return
    w = FunctionWriter(text, trusted=True)
    offsets = Offsets(w)
    for i, name in enumerate(interface.symbols):
        at = w.step("i64", "%symbols", i, into=w.head)
        offsets.scopes[0].names[name] = w.load("i64", at, into=w.head)
    for i, size in enumerate(row(interface)):
        value = offsets.index(size)
        at = w.step("i64", "%sizes", i)
        w.store("i64", value, at)
    text.functions[SIZES] = w.function(f"void @{SIZES}(ptr %symbols, ptr %sizes)")
