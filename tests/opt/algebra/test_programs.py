"""Random programs rich in linear algebra mean after optimisation what they meant before."""

from __future__ import annotations

import pytest

from dlvm.base.errors import CompilerError, UserError
from dlvm.ir.sizes.dims import symbols
from tests.opt.mutants import mutants

from .programs import compare, program

PROGRAMS = 200
BATCH = 10
"""Programs of one test, the first of which runs as machine code as well."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_optimised_programs_agree_with_the_interpreter(first: int):
    for seed in range(first, first + BATCH):
        assert not (said := compare(program(seed), compiled=seed == first)), f"seed {seed}: {said}"


def test_programs_hold_what_the_laws_speak_of():
    every = [program(seed) for seed in range(0, PROGRAMS, 4)]
    words = {op.name for p in every for fn in p.module.functions for op in fn.walk()}
    assert words >= {"matmul", "permute", "assume", "scan", "cond", "diagonal", "gather", "select"}
    assert any(p.whole for p in every)
    params = [q for p in every for q in p.module.main.params]
    assert any(symbols(d) for q in params for d in q.type.shape)


# -- what is wrong is caught ----------------------------------------------------------------------

WRONG = {
    "_take_apart": "for part in (y, x) if not turned else (x, y):",
    "_take_apart_scaling": "left = turned != (rows is None)",
    "_scaled": "axes = (*range(rank - 2), rank - 2 if not x.diagonal else rank - 1)",
    "_add": "if product.factors[-1:] == [_inverse(factor, facts)]:",
    "common_factor": "return Matmul(type(op)(c, a), b) if b is d else None",
    "transpose_of_symmetric": "return op.x if is_transpose(op) else None",
}
"""Mistakes in laws, by function."""


@pytest.mark.parametrize("name", WRONG)
def test_programs_find_a_wrong_law(name: str):
    (mutant,) = (m for m in mutants() if m.key == (name, WRONG[name]))
    with mutant.planted():
        assert any(_fails(seed) for seed in range(PROGRAMS))


def _fails(seed: int) -> bool:
    try:
        return bool(compare(program(seed), compiled=False))
    except (CompilerError, UserError):  # a law that builds what has no type
        return True
