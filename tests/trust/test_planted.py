"""Every planted fault is found by random programs, named, and cut down to a few operations."""

from __future__ import annotations

import pytest

from dlvm.target import Target
from dlvm.trust.blame import bisect
from dlvm.trust.examine import examine
from dlvm.trust.failure import Law
from tests.faults import BUGS, Bug
from tests.planted import drawn, hunt

MOST = 7
NEAR = 3
"""How many programs the suite looks at; ``make planted`` starts from the first."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize("bug", BUGS, ids=lambda b: b.name)
def test_a_planted_fault_is_found_named_and_reduced(bug: Bug):
    found = hunt(bug, NEAR, seconds=3600, first=bug.seed)
    assert found is not None
    for failure in (found.named, found.still):
        assert failure.stage == bug.stage
        assert bug.kind in ("any", failure.kind)
    if bug.law is not None:
        said = found.still.law
        assert said is not None
        wanted = bug.law if isinstance(bug.law, str) else Law.of(bug.law)
        assert wanted in (said, said.name)
    assert found.reduced.ops <= MOST
    assert found.still.same == found.named.same


def test_they_stand_in_more_than_ten_places():
    assert len({bug.stage for bug in BUGS}) >= 10
    assert len(BUGS) >= 15


@pytest.mark.parametrize("area", sorted({b.area for b in BUGS}))
def test_without_a_fault_nothing_is_found(area):
    for seed in range(3):
        case = drawn(area, seed)
        if case is not None:
            assert examine(case.module, case.arrays, target=Target.host()) is None


def test_what_it_takes_for_machine_code_to_fail_is_told():
    bug = next(b for b in BUGS if b.name == "vector end")
    with bug.plant():
        for seed in range(bug.seed, bug.seed + NEAR):
            case = drawn(bug.area, seed)
            assert case is not None
            found = bisect(case.module, case.arrays, target=Target.host())
            if found is not None:
                break
    assert found is not None
    assert "vectors of one lane" in found.note
