"""The bytecode of a function as data: each instruction with the instructions that may follow it.

The names of instructions differ among versions of Python; the data in this module do not.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# dis does not say what its entries are.

from __future__ import annotations

import bisect
import dis
import functools
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"}
_JUMPS = {*dis.hasjrel, *dis.hasjabs}


@dataclass(frozen=True, slots=True)
class Handler:
    """The handler of an exception: how much of the stack it keeps, and how much it pushes."""

    target: int
    depth: int
    pushed: int


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction: its name, its argument, and the steps that may follow it.

    ``effect`` and ``jump_effect`` are the growth of the stack if it continues or jumps.
    """

    name: str
    arg: int
    value: Any
    line: int
    following: int | None
    target: int | None
    effect: int
    jump_effect: int
    handler: Handler | None


@dataclass(frozen=True, slots=True)
class Code:
    """All steps of a function, and the offset of each."""

    steps: Sequence[Step]
    offsets: Sequence[int]

    def always_runs(self, step: int) -> bool:
        """Whether no jump leads over a step: each call of the function runs it, if it returns."""
        return all(s.target is None or s.target <= step for s in self.steps[:step])

    def at(self, offset: int) -> int:
        """The number of the step that runs at an offset, as a frame reports it."""
        return bisect.bisect_right(self.offsets, offset) - 1


@functools.lru_cache(maxsize=4096)
def decoded(code: types.CodeType) -> Code:
    """The steps of a function."""
    bytecode = dis.Bytecode(code)
    instructions = [i for i in bytecode if i.opname != "CACHE"]
    number = {i.offset: n for n, i in enumerate(instructions)}
    covers: Any = bytecode.exception_entries  # type: ignore[attr-defined]
    line, steps = code.co_firstlineno, list[Step]()
    for n, i in enumerate(instructions):
        line = (i.positions.lineno if i.positions else None) or line
        arg = i.arg if i.opcode >= dis.HAVE_ARGUMENT else None
        jumps = i.opcode in _JUMPS
        always = jumps and i.opname.startswith("JUMP_") and "IF" not in i.opname
        at: Any = next((e for e in covers if e.start <= i.offset < e.end), None)
        handler = at and Handler(number[at.target], at.depth, 2 if at.lasti else 1)
        steps.append(
            Step(
                i.opname,
                i.arg or 0,
                i.argval,
                line,
                None if always or i.opname in _ENDS else n + 1,
                number[i.argval] if jumps else None,
                dis.stack_effect(i.opcode, arg, jump=False),
                dis.stack_effect(i.opcode, arg, jump=True),
                handler,
            )
        )
    return Code(steps, [i.offset for i in instructions])
