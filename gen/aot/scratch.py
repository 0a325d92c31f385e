"""How much scratch a call needs: the arena, then what products copy, then what grows."""

from __future__ import annotations

import math
from dataclasses import replace

from dlvm.base.errors import UserError
from dlvm.gen.cpu.product_calls import room_of
from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.statements import Bind, Loop, LoopKernel, Product, Size, statements
from dlvm.gen.program.promises import promises
from dlvm.gen.program.steps import Program
from dlvm.gen.runtime.memory import HEAD, block
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import Range, at_least, bounds, floordiv, maximum, substitute, symbols
from dlvm.target import Target


def region(program: Program, target: Target, growing: int | None) -> Dim:
    """Bytes from which code takes memory while it runs; products take some one at a time."""
    grows = program.enters or program.has_tape
    if grows and growing is None:
        what = (
            "functions that are called, not copied,"
            if program.enters
            else "the tape of a while_loop"
        )
        raise UserError(
            f"{program.name}: {what} need memory whose size depends on the values",
            remedy="say how many bytes a call may take for it: growing=1 << 20",
        )
    return _copies(program, target) + (floordiv(growing or 0, HEAD) * HEAD if grows else 0)


def _copies(program: Program, target: Target) -> Dim:
    """What the largest product takes."""
    most: Dim = 0
    known = promises(program)
    for step in program.launches():
        highest = _highest(step.kernel)
        for s in statements(step.kernel.body):
            if isinstance(s, Product):
                m, n, k = (step.here(_at_most(d, highest)) for d in (s.m, s.n, s.k))
                size = block(room_of(replace(s, m=m, n=n, k=k), known[step.kernel].shared, target))
                if not {*symbols(size)} <= {*program.symbols}:
                    raise UserError(
                        f"{program.name}: products of sizes that differ between calls of a function"
                        " take memory that is not known before",
                        remedy="compile it for specs without open sizes",
                    )
                most = maximum(most, size)
    return most


def _highest(kernel: LoopKernel) -> dict[str, Dim]:
    """The highest value of each index of a kernel, outer ones first."""
    highest: dict[str, Dim] = {}
    for s in statements(kernel.body):
        match s:
            case Loop(var, extent):
                highest[var] = extent - 1
            case Bind(name, Size(dim), high):
                most = bounds(dim)[1]
                highest[name] = high if most == math.inf else int(most)
            case Bind(name, _, high):
                highest[name] = high
            case _:
                pass
    return highest


def _at_most(d: Dim, highest: dict[str, Dim]) -> Dim:
    """The most that a size is in any turn of the loops around, in sizes that a call is given.

    An index is at its highest where the size grows with it, and 0 where it falls.
    """
    ranges: dict[str, Range] = {}
    for name, high in highest.items():
        ranges[name] = (0, max(0, bounds(high, ranges)[1]))
    most = bounds(d, ranges)[1]
    if most != math.inf:
        return int(most)
    for name in reversed(highest):
        if name in symbols(d) and (step := step_of(d, name)) is not None:
            d = substitute(d, {name: 0 if at_least(-step, 0) else highest[name]})
    return d


def whole(arena: Dim, region: Dim) -> Dim:
    """The scratch of a call: what is ours starts at the next multiple of ``HEAD`` bytes."""
    return start_of_region(arena) + region + (HEAD - 1)


def start_of_region(arena: Dim) -> Dim:
    """Where the region starts."""
    return floordiv(arena + (HEAD - 1), HEAD) * HEAD
