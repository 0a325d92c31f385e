"""The long command in short, and the proof that it would see a wrong answer."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.ir import F64, parse
from dlvm.ops import Add

from .fuzz import KINDS, check, program_of
from .programs import Program

SUM = "dlvm 1\nfunc @main(%x: f64[3]) -> f64[3] {\n  %0 = add %x, %x : f64[3]\n  return %0\n}\n"


@pytest.mark.parametrize("kind", KINDS)
def test_machine_code_answers_random_programs(kind: str):
    for seed in range(5):
        check(program_of(kind, seed), KINDS[kind][0][0])


def test_a_wrong_answer_is_seen(monkeypatch: pytest.MonkeyPatch):
    program = Program(parse(SUM), (np.ones(3),))
    check(program, F64)
    monkeypatch.setattr(Add, "reference", lambda self, x, y: np.subtract(x, y))
    with pytest.raises(AssertionError):
        check(program, F64)


def test_the_same_seed_gives_the_same_program():
    assert str(program_of("whole", 7).module) == str(program_of("whole", 7).module)
    assert str(program_of("whole", 7).module) != str(program_of("whole", 8).module)
