"""The transform ``registers``: turns side by side, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import (
    Check,
    Inside,
    Let,
    Load,
    Loop,
    Size,
    accesses,
    statements,
)
from dlvm.gen.loops.verifier import verify
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.planner import planned
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.registers import Registers
from dlvm.ir.sizes.dims import symbol
from tests.gen.compiled import Compiled, interpret, kernel
from tests.gen.values import same_bits

from .changed import COLUMNS, ROWS, SUM, TURNED, changes_no_bit, first, plain


@pytest.mark.drawn(3)
@pytest.mark.parametrize("text", [ROWS, COLUMNS, TURNED], ids=["rows", "columns", "turned"])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("sizes", [(0, 2, 3), (1, 1, 1), (5, 7, 3), (9, 40, 2)], ids=str)
def test_no_bit_changes(text: str, count: int, sizes: tuple[int, int, int]):
    sizes_ = sizes if text is TURNED else sizes[:2]
    changes_no_bit(text, [Registers(first(plain(text)).var, count)], sizes_)


def test_turns_share_the_loops_inside():
    text = COLUMNS.replace("A", "24").replace("B", "8")
    before, made = plain(text), apply(plain(text), [Registers(first(plain(text)).var, 4)])
    verify(made)
    (turns,) = (s for s in made.body if isinstance(s, Loop))
    loops = [s for s in statements(turns.body) if isinstance(s, Loop)]
    assert len(loops) == len([s for s in statements(first(before).body) if isinstance(s, Loop)])
    loads = [x for x in accesses(turns.body) if isinstance(x, Load) and x.memory.name == "b0"]
    own = [x for x in accesses(first(before).body) if isinstance(x, Load) and x.memory.name == "b0"]
    assert len(loads) == 4 * len(own)


def test_which_turn_fails_first_is_kept():
    index = Size(symbol("%i"))
    check = Check(Inside((symbol("%i"),)), index, 4, 7)
    loop = Loop("%i", 4, "parallel", (Let(index), check))
    with pytest.raises(UserError, match="which of its turns fails first"):
        Registers("%i", 2).rewritten(loop)


PRODUCT = """func @f(%x: f32[4,16], %y: f32[16,32]) -> f32[4,32] {
  %z = matmul %x, %y : f32[4,32]
  return %z
}"""


@pytest.mark.parametrize("rows, step", [(1, ""), (2, "count=2"), (3, ""), (4, "count=4")])
def test_the_rows_of_a_small_product_share_what_they_read(rows: int, step: str):
    op, module = kernel(PRODUCT.replace("f32[4,", f"f32[{rows},"), "product")
    code = Compiled(op)
    found = [s for s in code.lowered.steps if s.startswith("registers")]
    assert [s.split()[-1] for s in found] == ([step] if step else [])
    dice = np.random.default_rng(rows)
    x, y = (dice.standard_normal(s).astype(np.float32) for s in ((rows, 16), (16, 32)))
    assert same_bits(code(x, y)[0][0], interpret(op, (x, y))[0][0])
    np.testing.assert_allclose(code(x, y)[0][0], module.run("f", x, y)[0], rtol=1e-5, atol=1e-5)


def test_a_long_formula_behind_a_small_product_stays_turn_by_turn():
    lines = [f"  %s{i} = tanh %s{i - 1} : f32[4,32]" for i in range(1, 700)]
    text = PRODUCT.replace("%z", "%s0").replace(
        "  return %s0", "\n".join([*lines, "  return %s699"])
    )
    op, _ = kernel(text, "product")
    assert not any(s.startswith("registers") for s in planned(lower(op, "k")).steps)


@pytest.mark.parametrize(
    "text, count, words",
    [
        (ROWS, 0, "a turn does 1 turn or more"),
        (ROWS, 10_000, "statements, where"),
        (SUM, 2, "are serial, not parallel"),
    ],
)
def test_what_is_not_possible_is_refused(text: str, count: int, words: str):
    with pytest.raises(UserError, match=words):
        apply(plain(text), [Registers(first(plain(text)).var, count)])
