"""Calls of any code are read, or are in doubt; none is an error."""

from __future__ import annotations

import dis
import random
import types
from collections.abc import Iterator
from pathlib import Path

from dlvm.dsl.owned.call_sites import CALLS, call_site
from tests.running import seed

LIBRARY = Path(dis.__file__).parent
LONGEST = 300
"""Instructions of a function that is looked at: each of its calls reads all of them."""


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from codes(inner)


def test_every_call_of_pythons_library_can_be_asked_for():
    files = sorted(LIBRARY.glob("*.py"))
    read = asked = 0
    for file in random.Random(seed()).sample(files, 12):
        for code in codes(compile(file.read_text("utf8"), str(file), "exec")):
            steps = [*dis.get_instructions(code)]
            if len(steps) <= LONGEST:
                for step in (s for s in steps if s.opname in CALLS):
                    asked += 1
                    read += call_site(code, step.offset) is not None
    assert read > asked / 2 > 100, (read, asked)


def test_a_result_that_is_returned_out_of_a_with_overwrites_nothing():
    def returned(step, net):
        with open(__file__):
            return step(net)

    code = returned.__code__
    calls = [s.offset for s in dis.get_instructions(code) if s.opname in CALLS]
    assert all((found := call_site(code, at)) is None or not found.overwritten for at in calls[:2])
