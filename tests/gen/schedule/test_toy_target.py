"""A processor of two registers and one instruction, whose products come from this one file.

The instruction says what it means as loops. The planner of the processor is a list of the steps
that there are, and a product that it runs has the bits of all other targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.instructions import INSTRUCTIONS, Instruction
from dlvm.gen.loops.interpreter import Counts, _Run, fma
from dlvm.gen.loops.statements import (
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Store,
    Word,
    statements,
)
from dlvm.gen.loops.status import WORDS
from dlvm.gen.loops.verifier import verify
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.text import parse_schedule, schedule_text
from dlvm.gen.schedule.transform import Transform, apply
from dlvm.gen.schedule.transforms.fuse import nested
from dlvm.gen.schedule.transforms.interchange import Interchange
from dlvm.gen.schedule.transforms.use import Use
from tests.gen.compiled import arguments, interpret, kernel, written
from tests.gen.values import same_bits

PRODUCT = """func @f(%x: f32[M,K], %y: f32[K,N]) -> f32[M,N] {
  %z = matmul %x, %y : f32[M,N]
  %r = neg %z : f32[M,N]
  return %r
}"""


# -- the instruction ------------------------------------------------------------------------


@dataclass(frozen=True)
class Chain:
    """``sum[0] = fma(x[k], y[k], sum[0])`` for each k in turn."""

    turns: Loop
    x: Load
    y: Load
    total: Local


def chain_of(loop: Loop) -> Chain | None:
    """The chain that a loop is, if its operands lie at one distance from turn to turn."""
    match loop:
        case Loop(
            k,
            _,
            "serial",
            (
                Let(Load() as x),
                Let(Load() as y),
                Let(Load(_, Local() as total, 0, ()) as before),
                Let(Word(_, "fma", (a, b, c)) as made),
                Store(kept, 0, stored, ()),
            ),
        ) if (a, b, c, stored) == (x, y, before, made) and kept == total:
            even = all(step_of(load.offset, k) is not None for load in (x, y))
            return Chain(loop, x, y, total) if even else None
        case _:
            return None


@pytest.fixture(autouse=True)
def instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Instruction("sum = fma(x[k], y[k], sum) for all k in turn", chain_of)
    monkeypatch.setitem(INSTRUCTIONS, "chain", known)


# -- the planner ----------------------------------------------------------------------------


def planned(plain: LoopKernel) -> LoopKernel:
    """Columns before rows, so that a factor stays in its register, and each sum by one chain."""
    steps: list[Transform] = []
    for rule in (_columns_first, _chains):
        chosen = [*rule(plain)]
        steps += chosen
        plain = apply(plain, chosen)
    return replace(plain, steps=tuple(map(str, steps)))


def _columns_first(kernel: LoopKernel) -> Iterator[Transform]:
    nests = (s for s in kernel.body if isinstance(s, Loop))
    yield from (Interchange(s.var) for s in nests if len(nested(s)) == 2)


def _chains(kernel: LoopKernel) -> Iterator[Transform]:
    loops = (s for s in statements(kernel.body) if isinstance(s, Loop))
    yield from (Use(s.var, "chain") for s in loops if chain_of(s) is not None)


# -- the processor --------------------------------------------------------------------------


class Processor(_Run):
    """It has one register for a factor and one for the sum, and counts its instructions."""

    done = 0

    def loop(self, s: Loop) -> None:
        chain = chain_of(s) if s.by == "chain" else None
        if chain is None:
            super().loop(s)
            return
        kept, total, _ = self.places(chain.total, 0, ())
        for k in range(int(self.dim(s.extent))):
            self.index[s.var] = k
            factor = self.load(chain.x)
            kept[total] = fma(factor, self.load(chain.y), kept[total])
            self.done += 1


def run(loops: LoopKernel, op: Any, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, int]:
    """The result of a kernel on the processor, and how many instructions it took."""
    buffers, found = arguments(loops, op, arrays)
    machine = Processor(loops, buffers, dict(found), np.zeros(WORDS, np.int64), Counts())
    machine.body(loops.body)
    return written(loops, buffers)[0], machine.done


@pytest.mark.parametrize("m, k, n", [(1, 7, 5), (2, 16, 16), (4, 2, 3), (3, 30, 4)])
def test_its_products_have_the_bits_of_every_target(m: int, k: int, n: int):
    text = PRODUCT.replace("M", str(m)).replace("K", str(k)).replace("N", str(n))
    op, _ = kernel(text, "product")
    plain = lower(op, "k")
    made = planned(plain)
    verify(made)
    dice = np.random.default_rng(m * k * n)
    x, y = (dice.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    found, count = run(made, op, (x, y))
    assert count == m * k * n
    assert same_bits(found, interpret(op, (x, y))[0][0])
    again = parse_schedule(schedule_text([made])).applied(plain)
    assert str(again) == str(made) and "by chain" in str(made)


def test_what_is_no_chain_is_left_to_loops():
    text = PRODUCT.replace("M", "2").replace("K", "3").replace("N", "4")
    op, _ = kernel(text, "product")
    plain = lower(op, "k")
    (used,) = (s for s in statements(plain.body) if isinstance(s, Loop) and chain_of(s))
    broken = replace(used, body=(*used.body, *used.body[-1:]))
    assert chain_of(broken) is None and chain_of(replace(used, kind="parallel")) is None
    x, y = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    assert run(plain, op, (x, y))[1] == 0
