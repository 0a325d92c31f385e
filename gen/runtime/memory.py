"""Memory that generated code takes while it runs: of the process, or of a region that it was given.

Where there is an allocator, that is asked. Elsewhere blocks lie one behind the other in a region
whose ends are words of the context; each has a head with the block before it and whether it is in
use. A block that is given back is free once all behind it are, so what is taken and given back in
turns, as copies of products are, needs no more than is in use at once.
"""

from __future__ import annotations

from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv

from .call_words import PRINTER, SIGNALS, SINCE

TOP, LIMIT, LAST = PRINTER, SIGNALS, SINCE
"""Where the free part of the region starts and ends, and its last block, if any: words of the
context that are of use only where there is Python."""
HEAD = 64
"""Bytes of a head, so that what is behind it starts on a line of the cache."""

DECLARATIONS = {
    "linux": {"malloc": "declare ptr @malloc(i64)", "free": "declare void @free(ptr)"},
    "none": dict[str, str](),
}

REGION = f"""
define internal ptr @region_take(ptr %context, i64 %bytes) #0 {{
entry:
  %top.at = getelementptr i64, ptr %context, i64 {TOP}
  %top = load i64, ptr %top.at
  %limit.at = getelementptr i64, ptr %context, i64 {LIMIT}
  %limit = load i64, ptr %limit.at
  %more = add i64 %bytes, {2 * HEAD - 1}
  %whole = and i64 %more, -{HEAD}
  %room = sub i64 %limit, %top
  %fits = icmp ule i64 %whole, %room
  br i1 %fits, label %take, label %full
full:
  ret ptr null
take:
  %block = inttoptr i64 %top to ptr
  %last.at = getelementptr i64, ptr %context, i64 {LAST}
  %last = load i64, ptr %last.at
  store i64 %last, ptr %block
  %used.at = getelementptr i64, ptr %block, i64 1
  store i64 1, ptr %used.at
  store i64 %top, ptr %last.at
  %behind = add i64 %top, %whole
  store i64 %behind, ptr %top.at
  %given = getelementptr i8, ptr %block, i64 {HEAD}
  ret ptr %given
}}

define internal void @region_give(ptr %context, ptr %given) #0 {{
entry:
  %own = getelementptr i8, ptr %given, i64 -{HEAD}
  %own.used = getelementptr i64, ptr %own, i64 1
  store i64 0, ptr %own.used
  %top.at = getelementptr i64, ptr %context, i64 {TOP}
  %last.at = getelementptr i64, ptr %context, i64 {LAST}
  br label %look
look:
  %last = load i64, ptr %last.at
  %none = icmp eq i64 %last, 0
  br i1 %none, label %done, label %see
see:
  %block = inttoptr i64 %last to ptr
  %used.at = getelementptr i64, ptr %block, i64 1
  %used = load i64, ptr %used.at
  %busy = icmp ne i64 %used, 0
  br i1 %busy, label %done, label %drop
drop:
  %before = load i64, ptr %block
  store i64 %before, ptr %last.at
  store i64 %last, ptr %top.at
  br label %look
done:
  ret void
}}"""


def block(size: Dim) -> Dim:
    """What so many bytes take of a region."""
    return floordiv(size + (2 * HEAD - 1), HEAD) * HEAD


def include_memory(text: Text) -> None:
    """Put into a module what ``taken`` and ``given_back`` call."""
    text.declarations.update(DECLARATIONS[text.os])
    if text.os == "none":
        text.functions["region"] = REGION


def taken(text: Text, block: str, size: str) -> str:
    """The lines that take so many bytes, or give null; ``%context`` is at hand."""
    if text.os == "none":
        return f"{block} = call ptr @region_take(ptr %context, i64 {size})"
    line = f"{block} = call ptr @malloc(i64 {size})"
    return line if text.listener is None else f"{line}\n  {text.listener.taken(block, size)}"


def given_back(text: Text, block: str) -> str:
    """The lines that give a block back."""
    if text.os == "none":
        return f"call void @region_give(ptr %context, ptr {block})"
    line = f"call void @free(ptr {block})"
    return line if text.listener is None else f"{text.listener.given_back(block)}\n  {line}"


def take(w: FunctionWriter, size: str) -> str:
    """Memory, or null where none is left."""
    include_memory(w.text)
    block = f"%{w.name()}"
    w.do(taken(w.text, block, size))
    return block


def give_back(w: FunctionWriter, block: str) -> None:
    """End the use of what was taken."""
    w.do(given_back(w.text, block))
