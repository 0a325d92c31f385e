"""How a call says that it failed: four words, and the error that they stand for.

Word 0 is 0, or one more than the ordinal, in the traced module, of the operation that failed;
words 1 and 2 are the index and the size of the axis. The line of the user's program is looked
up here, in this process's trace, and never stored in code.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.base.errors import CompilerError, DlvmError, UserError
from dlvm.ir import Module, Op
from dlvm.ir.interpret import too_deep
from dlvm.ops import Assert
from dlvm.ops.arrays.indexing import out_of_range

WORDS = 4
UNTRACED = 1 << 62
"""The code of operations that were written by hand, not traced."""
OUT_OF_MEMORY = -1
INTERRUPTED = -2
"""A handler of a signal raised an exception, which the other words are: see ``interrupts``."""
TOO_DEEP = -3
UNREACHED = -4
"""An exchange with other ranks failed."""
UNCOUNTED = -5
"""An exchange is of more bytes than the library counts."""


class Unreached(UserError):
    """The error of a call that left at an exchange with other ranks."""


class CallFailed(Exception):
    """A call ended early; the arguments are the words of its status."""


def code_of(op: Op) -> int:
    """What word 0 becomes when an operation fails."""
    return op.origin.ordinal + 1 if op.origin and op.origin.ordinal >= 0 else UNTRACED


def culprits(module: Module) -> dict[int, Op]:
    """The operations of a module that may fail, by their code."""
    found: dict[int, Op] = {}
    for fn in module.functions:
        for op in fn.walk():
            if op.may_raise and not op.regions:
                found.setdefault(code_of(op), op)
    return found


def error_of(words: Sequence[int], module: Module) -> DlvmError | MemoryError:
    """The error that the words stand for, at the user's line."""
    code, index, size = words[0], words[1], words[2]
    if code == OUT_OF_MEMORY:
        return MemoryError("no memory is left for a loop's tape, a product's copy or another call")
    if code == TOO_DEEP:
        return too_deep(module.main.name)
    if code == UNREACHED:
        return Unreached(
            "an exchange with the other ranks failed", remedy="look at what the others say"
        )
    if code == UNCOUNTED:
        return UserError(
            "an exchange is of more than 2^31 bytes, and this library of MPI counts no further",
            remedy="take MPICH 5 or Intel MPI, or share the array by more ranks",
        )
    op = culprits(module).get(code)
    if op is None:
        return CompilerError(f"the call failed in operation {code - 1}, which is not in the module")
    if isinstance(op, Assert):
        return op.error()
    found = out_of_range(index, size)
    return type(found)(found.message, origin=op.origin, remedy=found.remedy)
