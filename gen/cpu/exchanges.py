"""Calls of MPI's functions, or of some that take the same, between the steps of a program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from dlvm.gen.loops.status import UNCOUNTED, UNREACHED
from dlvm.gen.program.steps import Exchange, View
from dlvm.gen.runtime import call_words
from dlvm.gen.text.module import FunctionWriter
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv

CALLED = {
    "swap": call_words.SWAP,
    "gather": call_words.GATHER,
    "send": call_words.SEND,
    "sum": call_words.SUM,
}
"""The word that has the function of an exchange."""


def emit_exchange(
    w: FunctionWriter,
    step: Exchange,
    table: str,
    size: Callable[[Dim], str],
    address: Callable[[View], str],
    unless: Callable[[str], AbstractContextManager[None]],
) -> None:
    """Call a function of MPI, or one that takes the same, through the table of the rank."""

    def word(index: int, type_: str = "i64") -> str:
        return w.load(type_, w.step("i64", table, index))

    first = call_words.EXCHANGES + call_words.EACH * step.index
    group = word(first + call_words.GROUP)
    (result,) = step.results
    if step.kind == "index":
        w.store("i64", group, address(result))
        return
    (x,), byte = step.xs, f"i64 {word(call_words.BYTE)}"
    rows = x.type.shape[0] if step.kind == "swap" else 1
    each = 1 if step.kind == "sum" else x.type.dtype.bytes
    bytes_ = size(floordiv(x.type.size * each, rows))
    with unless(w.value(f"icmp sle i64 {bytes_}, {word(call_words.MOST)}")):
        w.store("i64", UNCOUNTED, "%status")
        w.jump("leave")
    count = f"i64 {bytes_}"
    out, back = f"ptr {address(x)}", f"ptr {address(result)}"
    if step.kind == "send":
        to, source = (f"i64 {word(first + i)}" for i in (call_words.TO, call_words.FROM))
        ignored = f"i64 {word(call_words.IGNORED)}"
        given = (out, count, byte, to, "i64 0", back, count, byte, source, "i64 0")
        given = (*given, f"i64 {group}", ignored)
    elif step.kind == "sum":
        how = (f"i64 {word(first + i)}" for i in (call_words.TYPE, call_words.WORD))
        given = (out, back, count, *how, f"i64 {group}")
    else:
        given = (out, count, byte, back, count, byte, f"i64 {group}")
    done = w.value(f"call i32 {word(CALLED[step.kind], 'ptr')}({', '.join(given)})")
    with unless(w.value(f"icmp eq i32 {done}, 0")):
        w.store("i64", UNREACHED, "%status")
        w.jump("leave")
