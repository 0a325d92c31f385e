"""The C function that a program becomes, as LLVM code around the driver.

The tables of the driver lie on its stack, so it may run in several threads at once. What comes by
value is put into memory first. A status of 0 says that all went well; ``NAME_error`` has words for
the others, and ``NAME_scratch_bytes`` says how much scratch a call of open sizes needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlvm.gen.cpu.driver import ENTRY
from dlvm.gen.loops.status import OUT_OF_MEMORY, TOO_DEEP, culprits
from dlvm.gen.loops.status import WORDS as STATUS
from dlvm.gen.runtime import call_words
from dlvm.gen.runtime.memory import HEAD, LAST, LIMIT, TOP
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.gen.text.sizes import Offsets
from dlvm.ir import Dim, DType, Module
from dlvm.ops import Assert

from .joined import exported
from .layout import Layout, Slot
from .sizes import NEGATIVE, TOO_LARGE, refuse
from .writing import llvm_string

OTHER = 0x7FFFFFFF
"""The status of an operation that no line of a user made."""
TOLD = {
    OUT_OF_MEMORY: "the memory for what grows is used up: say more with growing=",
    TOO_DEEP: "a function calls itself too often",
    OTHER: "an operation failed",
}


def messages(module: Module) -> dict[int, str]:
    """What each status means, with the user's line."""
    found = {0: "no error"}
    for code, op in culprits(module).items():
        what = op.message if isinstance(op, Assert) else "an index is out of range"
        at = f"{op.origin}: " if op.origin else ""
        line = f": {op.origin.shown()}" if op.origin and op.origin.source() else ""
        found[code if code < OTHER else OTHER] = f"{at}{what}{line}"
    return found | TOLD


def told_of_sizes(layout: Layout) -> dict[int, str]:
    """What the statuses of sizes that are refused mean, where the function takes sizes."""
    names = ", ".join(name for name, _ in layout.sizes)
    told = {
        NEGATIVE: f"a size is negative, expected 0 or more: {names}",
        TOO_LARGE: f"arrays of such sizes are larger than memory can be: {names}",
    }
    return told if names else {}


def by_value(dtype: DType) -> str:
    """How a single number is passed; halves travel as the bits that they are."""
    if dtype.is_float and dtype.bits > 16:
        return "float" if dtype.bits == 32 else "double"
    signed = " signext" if dtype.kind == "i" else " zeroext"
    bits = max(dtype.bits, 8)
    return f"i{bits}{signed if bits < 32 else ''}"


def emit_entry(
    text: Text, layout: Layout, symbols: Sequence[str], start: Dim, region: Dim, word: int
) -> None:
    """Put the function into a module that has the driver; the region lies behind ``start``.

    Addresses have ``word`` bits.
    """
    w = FunctionWriter(text)
    refuse(w, layout.sizes, [*layout.taken, start, region], word, "i32")
    sizes = {symbol: f"%s.{name}" for name, symbol in layout.sizes}
    offsets = Offsets(w)
    offsets.scopes[0].names.update(sizes)
    params = {slot.index: _place(w, slot) for slot in layout.arguments}
    for weight in layout.weights:
        if weight.param is not None:
            params[weight.param] = _at(w, "%weights", str(weight.offset))
    fresh = {slot.index: f"%r.{slot.name}" for slot in layout.results}
    results = [
        fresh[j] if over is None else params[over] for j, over in enumerate(layout.overwritten)
    ]
    constants = [_at(w, "%weights", str(x.offset)) for x in layout.weights if x.param is None]
    arena = _aligned(w, "%scratch")
    tables = (
        _table(w, "ptr", [params[i] for i in sorted(params)]),
        _table(w, "ptr", results),
        arena,
        _table(w, "i64", [sizes[s] for s in symbols]),
        _table(w, "ptr", constants),
        _table(w, "i64", ["0"] * STATUS),
        _context(w, arena, offsets.index(start), offsets.index(region)),
    )
    given = ", ".join(f"ptr {t}" for t in tables)
    w.do(f"call void @{ENTRY}({given})")
    code = w.load("i64", tables[5])
    known = w.value(f"icmp slt i64 {code}, {OTHER}")
    short = w.value(f"select i1 {known}, i64 {code}, i64 {OTHER}")
    out = w.value(f"trunc i64 {short} to i32")
    symbol = exported(layout.name)
    header = f"i32 @{symbol}({parameters(layout)})"
    text.functions[symbol] = w.function(header, last=f"ret i32 {out}")


def parameters(layout: Layout) -> str:
    """Those of the function, in LLVM's words."""
    given = [
        f"{by_value(a.type.dtype)} %v.{a.name}" if a.by_value else f"ptr %p.{a.name}"
        for a in layout.arguments
    ]
    given += [f"ptr %r.{r.name}" for r in layout.results]
    given += [f"i64 %s.{name}" for name, _ in layout.sizes]
    return ", ".join([*given, "ptr %weights", "ptr %scratch"])


def emit_scratch(text: Text, layout: Layout, size: Dim, word: int) -> None:
    """``int64_t NAME_scratch_bytes(sizes)``: 0 for sizes that the function refuses."""
    w = FunctionWriter(text)
    refuse(w, layout.sizes, [*layout.taken, size], word, "i64", (0, 0))
    offsets = Offsets(w)
    offsets.scopes[0].names.update({s: f"%s.{n}" for n, s in layout.sizes})
    value = offsets.index(size)
    given = ", ".join(f"i64 %s.{name}" for name, _ in layout.sizes)
    name = exported(f"{layout.name}_scratch_bytes")
    text.functions[name] = w.function(f"i64 @{name}({given})", last=f"ret i64 {value}")


def emit_messages(text: Text, name: str, told: Mapping[int, str]) -> None:
    """``const char *NAME_error(int32_t)``."""
    symbol = exported(f"{name}_error")
    cases: list[str] = []
    for i, (code, words) in enumerate([*told.items(), (None, "not a status of this function")]):
        at = f"@{symbol}.{i}"
        text.globals[at] = f"{at} = private constant {llvm_string(words)}"
        if code is not None:
            cases.append(f"    i32 {code}, label %m{i}")
    blocks = "\n".join(f"m{i}:\n  ret ptr @{symbol}.{i}" for i in range(len(told) + 1))
    text.functions[symbol] = (
        f"define ptr @{symbol}(i32 %status) #0 {{\nentry:\n"
        f"  switch i32 %status, label %m{len(told)} [\n" + "\n".join(cases) + f"\n  ]\n{blocks}\n}}"
    )


# -- what the function puts on its stack ---------------------------------------------------------


def _place(w: FunctionWriter, slot: Slot) -> str:
    """Where an argument lies."""
    if not slot.by_value:
        return f"%p.{slot.name}"
    type_ = by_value(slot.type.dtype).split()[0]
    place, value = w.array(type_, 8), f"%v.{slot.name}"
    if slot.type.dtype.kind == "b":
        value = w.value(f"zext i1 {w.value(f'icmp ne i8 {value}, 0')} to i8")
    w.store(type_, value, place)
    return place


def _at(w: FunctionWriter, base: str, offset: str) -> str:
    return w.step("i8", base, offset)


def _aligned(w: FunctionWriter, base: str) -> str:
    """The next multiple of ``HEAD`` bytes: callers need not think of it."""
    gap = w.value(f"sub i64 0, {w.value(f'ptrtoint ptr {base} to i64')}")
    return _at(w, base, w.value(f"and i64 {gap}, {HEAD - 1}"))


def _table(w: FunctionWriter, type_: str, values: Sequence[str]) -> str:
    """Words on the stack, each of eight bytes."""
    array = w.array(f"[{max(1, len(values))} x i64]", 16)
    for i, value in enumerate(values):
        w.store(type_, value, _at(w, array, str(8 * i)), 8)
    return array


def _context(w: FunctionWriter, arena: str, start: str, region: str) -> str:
    """The words of a call that is alone, with the region that it takes memory from."""
    words = ["0"] * call_words.WORDS
    top = w.value(f"ptrtoint ptr {_at(w, arena, start)} to i64")
    words[call_words.THREADS], words[LAST] = "1", "0"
    words[TOP], words[LIMIT] = top, w.value(f"add i64 {top}, {region}")
    return _table(w, "i64", words)
