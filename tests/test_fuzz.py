"""The long command in short, and the proof that it would see a wrong answer."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.ir import F64, parse
from dlvm.ops import Add

from .fuzz import KINDS, check, program_of
from .programs import Program

SUM = "dlvm 1\nfunc @main(%x: f64[3]) -> f64[3] {\n  %0 = add %x, %x : f64[3]\n  return %0\n}\n"


@pytest.mark.parametrize("first", range(0, 50, 10))
@pytest.mark.parametrize("kind", KINDS)
def test_machine_code_answers_random_programs(kind: str, first: int):
    for seed in range(first, first + 10):
        check(program_of(kind, seed), KINDS[kind][0][0])


def test_the_gradient_that_is_compared_is_the_one_of_the_program():
    programs = [program_of("gradient", seed) for seed in range(20)]
    assert all(p.module.main.name == "gradient" for p in programs)
    slopes = [np.abs(x).max(initial=0) for p in programs for x in p.run()[:-1]]
    assert sum(slope > 1e-3 for slope in slopes) > len(slopes) / 3


def test_a_wrong_answer_is_seen(monkeypatch: pytest.MonkeyPatch):
    program = Program(parse(SUM), (np.ones(3),))
    check(program, F64)
    monkeypatch.setattr(Add, "reference", lambda self, x, y: np.subtract(x, y))
    with pytest.raises(AssertionError):
        check(program, F64)


def test_the_same_seed_gives_the_same_program():
    assert str(program_of("whole", 7).module) == str(program_of("whole", 7).module)
    assert str(program_of("whole", 7).module) != str(program_of("whole", 8).module)
