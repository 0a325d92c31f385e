"""How long a kernel takes under a schedule, on this machine, beside the planner's schedule."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from dlvm.base.errors import CompilerError, UserError
from dlvm.gen.build import build
from dlvm.gen.call.executable import Executable
from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.loops.verifier import verify
from dlvm.gen.program.control import kernels_of
from dlvm.gen.schedule.planner import ALL
from dlvm.gen.schedule.transform import Transform, apply
from dlvm.ir import Array, Builder, Function, Module, Param, TensorType
from dlvm.ir.sizes.dims import evaluate, symbols
from dlvm.ops import Kernel
from dlvm.target import Target

USUAL_SIZE = 64
ROUNDS, SECONDS = 5, 0.01
"""How often two schedules take turns, and for how long each runs at a turn, at least."""
CONFIRMING = 15
"""Rounds by which a gain is confirmed."""


@dataclass(frozen=True, slots=True)
class _As:
    """The plan of a program of one kernel: these loops."""

    loops: LoopKernel

    @property
    def forms(self) -> tuple[str, ...]:
        """None, as the loops are there already."""
        return ()

    def applied(self, plain: LoopKernel) -> LoopKernel:
        """The loops in the place of the plain ones."""
        return self.loops


class Bench:
    """One kernel on random arrays, and how long it takes under one schedule or another."""

    def __init__(self, kernel: Kernel, target: Target, sizes: Mapping[str, int]) -> None:
        self.module, self.target = _alone(kernel), replace(target, adaptive=False)
        ((_, plain),) = kernels_of(self.module)
        self.plain = plain.formed(ALL)
        dice = np.random.default_rng(0)
        self.arrays = [_drawn(p.type, sizes, dice) for p in self.module.main.params]
        self.planned = build(self.module, self.target)
        self.expected = self.planned.run(self.arrays)

    def under(self, steps: Sequence[Transform]) -> Executable | None:
        """The kernel under some steps; None if a transform or the verifier refuses them."""
        try:
            loops = apply(self.plain, steps)
            verify(loops)
        except (UserError, CompilerError):
            return None
        return build(self.module, self.target, plans=_As(loops))

    def ratio(self, steps: Sequence[Transform], rounds: int = ROUNDS) -> float | None:
        """The time under some steps in times that of the planner's; None if they are refused."""
        made = self.under(steps)
        if made is None:
            return None
        found = made.run(self.arrays)
        if any(a.tobytes() != b.tobytes() for a, b in zip(found, self.expected, strict=True)):
            shown = "; ".join(map(str, steps))
            raise CompilerError(f"the schedule of a kernel changes its results: {shown}")
        return side_by_side(made, self.planned, self.arrays, rounds)


def side_by_side(
    one: Executable, other: Executable, arrays: Sequence[Array], rounds: int = ROUNDS
) -> float:
    """The time of one program in times that of another: the median of rounds in which both run."""
    count = max(1, round(SECONDS / max(1e-7, _seconds(other, arrays, 1))))
    pairs = [(_seconds(other, arrays, count), _seconds(one, arrays, count)) for _ in range(rounds)]
    return median(mine / theirs for theirs, mine in pairs)


def _seconds(made: Executable, arrays: Sequence[Array], count: int) -> float:
    """How long so many calls take."""
    start = time.perf_counter()
    for _ in range(count):
        made.run(arrays)
    return time.perf_counter() - start


def _alone(kernel: Kernel) -> Module:
    """A module of the kernel alone."""
    params = tuple(Param(v.type, f"x{i}") for i, v in enumerate(kernel.operands))
    with (builder := Builder()):
        made = kernel.rebuild(params)
    return Module((Function("main", params, tuple(builder.ops), made.results),))


def _drawn(t: TensorType, sizes: Mapping[str, int], dice: np.random.Generator) -> Array:
    """Random numbers; integers are 0 or 1, which are positions in any array that is worth it."""
    known = {s: sizes.get(s, USUAL_SIZE) for d in t.shape for s in symbols(d)}
    shape = tuple(evaluate(d, known) for d in t.shape)
    found = dice.standard_normal(shape) if t.dtype.is_float else dice.integers(0, 2, shape)
    return np.asarray(found).astype(t.dtype.numpy)
