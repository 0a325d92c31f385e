"""Functions of f64 where a language has no f64, and numbers of it are only bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlvm.gen.text.lanes import Val, llvm_type, multiply_add, suffix
from dlvm.gen.text.module import FunctionWriter
from dlvm.ir import F64, I64

from . import functions


def foreign(
    w: FunctionWriter, word: str, xs: Sequence[Val], casts: Mapping[str, Val]
) -> str | None:
    """What the language itself has for a word, or an error of it; None where there is f64.

    ``casts`` are the values of which others were cast: a power whose exponent was an integer is a
    whole power.
    """
    known = word in functions.UNARY or word in functions.BINARY or word == "fmod"
    if not known or xs[0].dtype is not F64 or w.text.has_doubles:
        return None
    exponent = casts.get(xs[-1].text)
    if word == "pow" and exponent is not None and exponent.dtype is I64:
        word, xs = "power", (xs[0], exponent)
    return w.call(xs[0].type, f"dlvm.{word}", *((x.type, x.text) for x in xs))


def sum_of_product(w: FunctionWriter, x: Val, y: Val, z: Val) -> str:
    """``x*y + z``, rounded as the device likes where the language leaves that open."""
    if not w.text.may_fuse:
        return multiply_add(w, llvm_type(x.dtype), x.lanes, x.text, y.text, z.text)
    name = f"llvm.fma.{suffix(llvm_type(x.dtype), x.lanes)}"
    return w.call(x.type, name, *((v.type, v.text) for v in (x, y, z)))
