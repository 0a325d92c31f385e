"""A sample of the laws with one mistake, and the tests of the suite that prove the laws."""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import islice
from types import FunctionType

from tests.opt.mutants import Mutant, drawn, laws_of, mutants_of, why_harmless

SAMPLE = 12
"""Number of mutants in the sample, each of another function."""
SEED = 2026
"""Number that the sample is drawn with."""
PROOFS = (
    "tests/opt/test_rules.py",
    "tests/opt/test_over_the_reals.py",
    "tests/opt/test_mutants.py::test_a_law_holds_wherever_it_applies",
)
"""The tests that have a case for each law."""


OWN = {
    "_orthonormal_columns": (
        "tests/opt/algebra/test_properties.py"
        "::test_orthonormal_columns_cancel_behind_their_transpose_and_not_in_front",
    ),
}
"""Tests of functions that no example of a law reaches."""


@cache
def functions() -> dict[str, FunctionType]:
    """Laws, and functions of linear algebra that laws call, which are mutated; by their names.

    Left out are those whose mutants are all known to be harmless. A new law changes the sample in
    one place at most.
    """

    def place(name: str) -> bytes:
        return hashlib.sha256(repr((SEED, name)).encode()).digest()

    found = {function.__qualname__: function for function in laws_of()}
    wrong = (name for name in sorted(found, key=place) if _wrong(found[name]) is not None)
    return {name: found[name] for name in islice(wrong, SAMPLE)}


def mutant(name: str) -> Mutant:
    """The mistake that the sample makes in a function."""
    found = _wrong(functions()[name])
    assert found is not None
    return found


@cache
def _wrong(function: FunctionType) -> Mutant | None:
    """The first mutant of a function that is not known to be harmless."""
    every = drawn(mutants_of(function), SEED)
    return next((m for m in every if not why_harmless(m)), None)


def proofs(name: str) -> tuple[str, ...]:
    """The arguments of pytest that run the proofs of the laws that call a function."""
    if name in OWN:
        return OWN[name]
    laws = " or ".join(f"[{rule.name}]" for rule in laws_of()[functions()[name]])
    return (*PROOFS, "-k", laws)
