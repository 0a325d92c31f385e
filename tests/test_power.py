"""The faults that ``python -m tests.power`` looks for, and the tests that must find them, exist."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from types import CodeType

import pytest

from dlvm.ir.sizes import order
from tests.faults import BUGS
from tests.ir import test_dims
from tests.power.bugs_again import AGAIN, GONE, Bug
from tests.power.faults import FINDERS, faults
from tests.power.mutants import OWN, PROOFS, SAMPLE, functions, mutant
from tests.power.plugin import planted
from tests.power.running import ROOT, changed

PLANTS = "a nested minimum is not split"
EXPECTED = [*(bug.tests for bug in AGAIN), *FINDERS.values(), PROOFS, *OWN.values()]
"""Arguments of pytest that select the tests of the faults. Which laws the sample mutates is not
asked here: drawing the sample takes seconds in each process that collects this file."""


def the(name: str) -> Bug:
    """The bug of this name."""
    return next(bug for bug in AGAIN if bug.name == name)


@pytest.mark.parametrize("bug", AGAIN, ids=lambda bug: bug.name)
def test_a_bug_is_a_change_of_one_place_in_the_sources_as_they_are(bug: Bug):
    text = (ROOT / bug.file).read_text("utf8")
    assert ast.dump(ast.parse(bug.applied(text))) != ast.dump(ast.parse(text))


def test_a_change_that_fits_no_place_or_several_is_refused():
    bug = Bug("two", "a.py", "x = 1", "x = 2", ())
    assert bug.applied("x = 1; y = 1") == "x = 2; y = 1"
    for text in ("x = 3", "x = 1; x = 1"):
        with pytest.raises(ValueError, match=r"expected 'x = 1' once in a\.py"):
            bug.applied(text)


def test_a_copy_holds_a_bug_for_a_while(tmp_path: Path):
    file = tmp_path / "a.py"
    file.write_text("x = 1\n", "utf8")
    with changed(tmp_path, Bug("one", "a.py", "1", "2", ())):
        assert file.read_text("utf8") == "x = 2\n"
    assert [*tmp_path.iterdir()] == [file] and file.read_text("utf8") == "x = 1\n"


def test_no_test_that_must_find_a_fault_is_left_out_by_some_seed():
    """One that is named runs whole, whatever the seed draws in the suite."""
    named = [t for tests in EXPECTED for t in tests if "::" in t]
    for file, _, test in (t.partition("::") for t in named):
        head = (ROOT / file).read_text("utf8").partition(f"def {test.partition('[')[0]}(")[0]
        assert "mark.drawn" not in head.rpartition("\n\n\n")[2], (file, test)


def test_there_is_one_fault_of_each_name_and_its_tests_are_among_those_expected():
    names = [fault.name for fault in faults()]
    known = {t for tests in EXPECTED for t in selected(tests)}
    assert all(known.issuperset(selected(fault.tests)) for fault in faults())
    assert len(names) == len(set(names))
    assert len(AGAIN) >= 20 and {bug.name for bug in BUGS} == set(FINDERS) <= set(names)


def test_the_page_tells_of_every_fault_and_of_bugs_that_cannot_come_back():
    page = (ROOT / "docs/bugs-found.md").read_text("utf8")
    told = page.partition("## The power of the suite")[2]
    assert not [fault.name for fault in faults() if f"| {fault.name} |" not in told]
    assert not [row for row in GONE if f"| {row}" not in page]


def selected(arguments: Sequence[str]) -> list[str]:
    """Files and tests among arguments of pytest, without the expression behind ``-k``."""
    end = arguments.index("-k") if "-k" in arguments else len(arguments)
    return list(arguments[:end])


@pytest.mark.parametrize("place", sorted({t for tests in EXPECTED for t in selected(tests)}))
def test_an_expected_test_exists(place: str):
    file, _, name = place.partition("::")
    assert (ROOT / file).exists() and "test_planted" not in file
    assert not name or f"\ndef {name}(" in (ROOT / file).read_text("utf8")


def test_the_sample_holds_mutants_that_change_what_a_law_does():
    assert len(functions()) == SAMPLE
    for name, function in functions().items():
        before = function.__code__
        assert mutant(name).laws
        with planted(f"mutant of {name}"):
            assert function.__code__ != before
        assert function.__code__ == before


def test_a_bug_that_is_made_again_is_found(monkeypatch: pytest.MonkeyPatch):
    """One that a single function decides, in this process."""
    bug, fails = the(PLANTS), test_dims.test_a_minimum_is_split_though_another_is_made_of_it
    assert bug.tests[0].endswith(f"::{fails.__name__}")
    code = compile(bug.applied((ROOT / bug.file).read_text("utf8")), bug.file, "exec")
    function = order._Proof.never_negative
    bodies = [c for c in code.co_consts if isinstance(c, CodeType)]
    (body,) = (c for c in bodies if c.co_name == "_Proof")
    inner = (c for c in body.co_consts if isinstance(c, CodeType))
    (again,) = (c for c in inner if c.co_name == function.__name__)
    fails()
    monkeypatch.setattr(function, "__code__", again)
    with pytest.raises(AssertionError):
        fails()
