"""The transform ``use``: loops that an instruction takes the place of, with the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.instructions import INSTRUCTIONS, turn_of
from dlvm.gen.loops.statements import Loop, LoopKernel, Store, statements
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.use import Use
from tests.gen.compiled import Compiled, interpret, kernel
from tests.gen.values import same_bits

from .changed import ROWS, changes_no_bit, first, plain
from .test_stage import ACROSS, STEPS


def copies(loops: LoopKernel) -> Loop:
    """The loops that copy the tile."""
    made = apply(loops, STEPS)
    return next(s for s in statements(made.body) if isinstance(s, Loop) and turn_of(s))


def test_a_copy_of_a_tile_is_a_turn():
    loop = copies(plain(ACROSS))
    turn = turn_of(loop)
    assert turn is not None and (turn.source.name, turn.width) == ("b0", 4)
    changes_no_bit(ACROSS, [*STEPS, Use(loop.var, "turn")], (13, 31))


def test_a_loop_that_means_something_else_is_refused():
    loop = first(plain(ROWS))
    with pytest.raises(UserError, match=r"does not mean target\[r \* width \+ c\]"):
        apply(plain(ROWS), [Use(loop.var, "turn")])
    with pytest.raises(UserError, match="the instruction is one of turn"):
        apply(plain(ROWS), [Use(loop.var, "spin")])
    assert all(known.unify(loop) is None for known in INSTRUCTIONS.values())


def test_a_tile_that_is_written_elsewhere_is_no_turn():
    loop = copies(plain(ACROSS))
    (inner,) = loop.body
    assert isinstance(inner, Loop)
    read, store = inner.body
    assert isinstance(store, Store)
    for offset in (store.offset + 1, 2 * store.offset):
        body = (read, replace(store, offset=offset))
        assert turn_of(replace(loop, body=(replace(inner, body=body),))) is None


@pytest.mark.parametrize("a, b", [(300, 200), (257, 65)])
def test_the_planner_asks_for_it_where_operands_lie_across(a: int, b: int):
    op, _ = kernel(ACROSS.replace("A", str(a)).replace("B", str(b)))
    code = Compiled(op)
    assert any(step.endswith("instruction=turn") for step in code.lowered.steps)
    x = np.random.default_rng(0).standard_normal((a, b)).astype(np.float32)
    y = np.ascontiguousarray(x.T)
    assert same_bits(code(x, y)[0][0], interpret(op, (x, y))[0][0])
