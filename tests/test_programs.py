"""Random programs are well-typed and run: what the other property tests stand on."""

from __future__ import annotations

from hypothesis import given

from dlvm.testing.drawing.random_programs import EVERY, Program
from dlvm.testing.strategies import programs


@given(programs(EVERY))
def test_random_programs_are_well_typed_and_run(program: Program):
    program.module.verify()
    results = program.run()
    assert len(results) == len(program.module.main.results)


@given(programs(EVERY, loss=True))
def test_a_loss_is_one_number(program: Program):
    (loss,) = program.module.verify().main.results
    assert loss.type.rank == 0
    program.run()
