"""How much scratch a call needs: the arena, then what products copy, then what grows."""

from __future__ import annotations

from dlvm.base.errors import UserError
from dlvm.gen.cpu.product_calls import room_of
from dlvm.gen.loops.statements import Product, statements
from dlvm.gen.program.promises import promises
from dlvm.gen.program.steps import Pop, Program, Push
from dlvm.gen.runtime.memory import HEAD, block
from dlvm.ir import Dim
from dlvm.ir.dims import floordiv, maximum, symbols
from dlvm.target import Target


def region(program: Program, target: Target, growing: int | None) -> Dim:
    """Bytes from which code takes memory while it runs; products take some one at a time."""
    grows = program.enters or any(isinstance(s, Push | Pop) for s in program.walk())
    if grows and growing is None:
        what = "functions that call themselves" if program.enters else "the tape of a while_loop"
        raise UserError(
            f"{program.name}: {what} need memory whose size depends on the values",
            remedy="say how many bytes a call may take for it: growing=1 << 20",
        )
    return _copies(program, target) + (floordiv(growing or 0, HEAD) * HEAD if grows else 0)


def _copies(program: Program, target: Target) -> Dim:
    """What the largest product takes."""
    most: Dim = 0
    for kernel, known in promises(program).items():
        for s in statements(kernel.body):
            if isinstance(s, Product):
                size = block(room_of(s, known.shared, target))
                if not {*symbols(size)} <= {*program.symbols}:
                    raise UserError(
                        f"{program.name}: products of sizes that differ between calls of a function"
                        " take memory that is not known before",
                        remedy="compile it for specs without open sizes",
                    )
                most = maximum(most, size)
    return most


def whole(arena: Dim, region: Dim) -> Dim:
    """The scratch of a call: what is ours starts at the next multiple of ``HEAD`` bytes."""
    return start_of_region(arena) + region + (HEAD - 1)


def start_of_region(arena: Dim) -> Dim:
    """Where the region starts."""
    return floordiv(arena + (HEAD - 1), HEAD) * HEAD
