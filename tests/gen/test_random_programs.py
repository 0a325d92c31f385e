"""Random programs with all kinds of control: in place or not, with donated arguments or without,
their steps give what the function gives, and so does machine code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dlvm.base.errors import UserError
from dlvm.gen.build import build
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.interpreter import run_program
from dlvm.gen.program.memory import plan
from dlvm.ir import BOOL, I32, I64, Module, parse
from dlvm.ir.interpret import bind
from dlvm.ops import Bitcast, Cast, Elementwise, LogSumExp
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run
from dlvm.testing.drawing.random_programs import TRACED, Program
from dlvm.testing.strategies import programs

from .program.test_memory import assert_apart

WHOLE = (I64, I32, BOOL)
EXACT = tuple(
    c
    for c in TRACED
    if c not in (Bitcast, Cast, LogSumExp)
    and (c.accepts if issubclass(c, Elementwise) else "") != "f"
)


def assert_answers(found, expected):
    """Whole numbers to the bit; the few floats that are drawn up to rounding."""
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        floats = a.dtype.kind == "f"
        np.testing.assert_allclose(a, b, rtol=1e-5 * floats, atol=1e-5 * floats)


def with_donations(module: Module, flags: list[bool]) -> Module:
    copy = parse(str(module))
    for param, flag in zip(copy.main.params, flags, strict=False):
        param.donated = flag
    return copy


@given(programs(EXACT, WHOLE, max_ops=14), st.lists(st.booleans(), min_size=8), st.booleans())
def test_steps_give_what_the_function_gives(program: Program, flags: list[bool], fused: bool):
    module = with_donations(program.module, flags)
    passes = DEFAULT if fused else DEFAULT[:1]
    params = module.main.params
    steps = coalesce(to_program(run(module, passes)))
    arena = plan(steps)
    arrays = [np.array(a) for a in program.arrays]
    symbols = bind([p.type for p in params], arrays, [p.name for p in params])
    assert_apart(steps, arena, symbols)
    said: list[str] = []
    outcome = run_program(steps, arena, arrays, dict(symbols), said.append)
    try:
        expected = program.run()
    except UserError:
        assert outcome.status[0] != 0
        for array, given_array, param in zip(arrays, program.arrays, params, strict=True):
            assert np.array_equal(array, given_array), param
    else:
        assert outcome.status[0] == 0
        assert_answers(outcome.results, expected)


@settings(max_examples=15, phases=(Phase.explicit, Phase.generate))
@given(programs(EXACT, WHOLE, max_ops=14), st.booleans())
def test_machine_code_gives_what_the_function_gives(program: Program, fused: bool):
    executable = build(run(program.module, DEFAULT if fused else DEFAULT[:1]))
    given_said: list[str] = []
    try:
        expected = program.run()
    except UserError as error:
        with pytest.raises(type(error)):
            executable.run(program.arrays, given_said.append)
    else:
        assert_answers(executable.run(program.arrays, given_said.append), expected)
