"""The C header of a function: its declaration with names, types and shapes, and sizes as macros."""

from __future__ import annotations

from dlvm.ir import Dim, DType

from .layout import Layout, Slot
from .names import macro_prefix, state_macros
from .writing import c_comment

C = {
    "bool": "uint8_t",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "f32": "float",
    "f64": "double",
    **{f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
}


def c_type(dtype: DType) -> str:
    """What an element is in C; of halves there are the bits."""
    return C[dtype.name]


def header(layout: Layout, scratch: Dim, stack: int, target: str, version: str, told: str) -> str:
    """The text of ``NAME.h``."""
    name, upper = layout.name, macro_prefix(layout.name)
    guard = f"{upper}_H"
    open_sizes = ", ".join(f"int64_t {n}" for n, _ in layout.sizes)
    fixed = isinstance(scratch, int)
    made = f"Made by dlvm {c_comment(version)} for {c_comment(target)}."
    lines = [
        f"/* {c_comment(told)}",
        f"   {made} A call takes at most {stack} bytes of stack and",
        "   nothing else: no memory, no thread, no global variable, so several may run at once.",
        "   Arrays lie in rows, without gaps, and need no more alignment than their elements. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stdint.h>",
        f"#define {upper}_STACK_BYTES {stack}",
        f"#define {upper}_WEIGHTS_BYTES {layout.weight_bytes}",
    ]
    if fixed:
        lines.append(f"#define {upper}_SCRATCH_BYTES {scratch}")
    end = 0
    macros = state_macros([slot.name for slot, _ in layout.states])
    for (slot, at), macro in zip(layout.states, macros, strict=True):
        assert slot.start is not None
        lines.append(f"#define {upper}_STATE_{macro} {at} /* where it lies */")
        end = at + slot.start.nbytes
    if end:
        lines.append(f"#define {upper}_STATE_BYTES {-(-end // 64) * 64}")
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif"]
    if not fixed:
        lines.append(f"int64_t {name}_scratch_bytes({open_sizes});")
    lines.append(f"const char *{name}_error(int32_t status);")
    lines.append(declaration(layout) + ";")
    lines += ["#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    return "\n".join(lines)


def declaration(layout: Layout) -> str:
    """That of the function, a line for each argument."""
    given = [f"{_typed(a)}{_said(a)}" for a in layout.arguments]
    given += [
        f"{c_type(r.type.dtype)} *{r.name} /* {c_comment(str(r.type))}, written */"
        for r in layout.results
    ]
    given += [f"int64_t {n} /* the size {c_comment(s)} */" for n, s in layout.sizes]
    given += ["const void *weights", "void *scratch"]
    return f"int32_t {layout.name}(\n    " + ",\n    ".join(given) + ")"


def _typed(a: Slot) -> str:
    element = c_type(a.type.dtype)
    if a.by_value:
        return f"{element} {a.name}"
    return f"{'' if a.state else 'const '}{element} *{a.name}"


def _said(a: Slot) -> str:
    label = "" if a.label == a.name else f"{a.label}: "
    return f" /* {c_comment(label + str(a.type))}{', overwritten' * a.state} */"
