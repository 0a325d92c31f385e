"""Memory of functions that are entered at run time: each activation leases an arena of its own.

What lives during an activation lies on the heap, so the processor's stack holds little more than
return addresses; a call that would still leave it, in a recursion that does not end, stops with
an error instead. The arena goes back when the function returns, whichever way.
"""

from __future__ import annotations

import threading

from dlvm.base.system import stack_size
from dlvm.gen.loops.status import OUT_OF_MEMORY, TOO_DEEP
from dlvm.gen.program.memory import ALIGNMENT
from dlvm.gen.text.module import Text

from . import call_words
from .memory import given_back, include_memory, taken

UNKNOWN = 1 << 20
"""What a thread has at least where nothing tells how large its stack is."""
MAX_ACTIVATIONS = 1 << 26


class _Known(threading.local):
    """What is known of this thread: the size of its stack, once it was asked for."""

    size = 0


_KNOWN = _Known()


def stack_budget(kernels: int) -> int:
    """How many bytes of the processor's stack activations in this thread may take.

    That is half of what is left where kernels take so many; Python, which called, has the other.
    """
    if not _KNOWN.size:
        _KNOWN.size = min(stack_size() or threading.stack_size() or _limit(), 2 * MAX_ACTIVATIONS)
    return max(0, _KNOWN.size - kernels) // 2


def _limit() -> int:
    """The size of the stack of a new thread."""
    try:
        import resource
    except ImportError:
        return UNKNOWN
    size, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return UNKNOWN if size == resource.RLIM_INFINITY else size


FRAME = "declare ptr @llvm.frameaddress.p0(i32)"

DEEP = f"""\
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %at = ptrtoint ptr %here to i64
  %floor.at = getelementptr i64, ptr %context, i64 {call_words.FLOOR}
  %floor = load i64, ptr %floor.at
  %deep = icmp ult i64 %at, %floor"""
"""Whether the stack is used up; where nobody says how large it is, the memory ends first."""


def _functions(text: Text) -> str:
    return f"""
define internal ptr @activation(ptr %context, i64 %bytes, ptr %status) noinline #0 {{
entry:
{"  %deep = icmp eq ptr %context, null" if text.os == "none" else DEEP}
  br i1 %deep, label %stop, label %take
stop:
  store i64 {TOO_DEEP}, ptr %status
  ret ptr null
take:
  %whole = add i64 %bytes, {ALIGNMENT}
  {taken(text, "%block", "%whole")}
  %none = icmp eq ptr %block, null
  br i1 %none, label %fail, label %give
fail:
  store i64 {OUT_OF_MEMORY}, ptr %status
  ret ptr null
give:
  %start = ptrtoint ptr %block to i64
  %after = add i64 %start, {ALIGNMENT}
  %aligned = and i64 %after, -{ALIGNMENT}
  %arena = inttoptr i64 %aligned to ptr
  %owner.at = getelementptr i64, ptr %arena, i64 -1
  store ptr %block, ptr %owner.at
  ret ptr %arena
}}

define internal void @activation_end(ptr %context, ptr %arena) #0 {{
entry:
  %owner.at = getelementptr i64, ptr %arena, i64 -1
  %block = load ptr, ptr %owner.at
  {given_back(text, "%block")}
  ret void
}}"""


def include_activations(text: Text) -> None:
    """Put the functions into a module."""
    include_memory(text)
    text.functions["activation"] = _functions(text)
    text.declarations["frame"] = FRAME
