"""Every fault that the suite must find, with the tests that are expected to find the fault."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tests.faults import BUGS

from .bugs_again import AGAIN, Bug
from .mutants import functions, proofs
from .plugin import MUTANT

TANGENTS = "tests/ad/test_forward.py"
GOLDEN = "tests/golden"
EFFECTS = "tests/dsl/flow/test_effects.py"
FUSION = "tests/opt/kernels/test_fusion.py"
KERNELS = "tests/gen/lower/test_kernels.py"
FINDERS: dict[str, tuple[str, ...]] = {
    "adjoint": (TANGENTS,),
    "tangent": (TANGENTS, "-k", "control"),
    "batching": ("tests/ad/test_batch.py", "-k", "leaves and sub"),
    "law": ("tests/opt/test_rules.py", "-k", "difference"),
    "failing law": ("tests/opt/test_rules.py", "-k", "failing"),
    "folding": (GOLDEN, "-k", "fold_constants"),
    "known branch": (GOLDEN, "-k", "propagate"),
    "select": (GOLDEN, "-k", "select_branches"),
    "sharing": ("tests/dsl/arrays/test_counting.py",),
    "hoisting": ("tests/dsl/flow/test_control.py",),
    "folded axis": (f"{FUSION}::test_a_square_is_folded_along_the_axis_that_is_stated",),
    "dropped result": (FUSION,),
    "order of kernels": (EFFECTS, "-k", "order"),
    "order": ("tests/opt/recompute/test_ordering.py",),
    "dropping": (EFFECTS, "-k", "nobody_reads"),
    "index map": (KERNELS, "-k", "vectors"),
    "copies": ("tests/gen/program/test_coalesce.py",),
    "memory": ("tests/gen/program/test_memory.py",),
    "loop bound": ("tests/gen/cpu/test_driver.py", "-k", "means"),
    "polynomial": ("tests/gen/math/test_functions.py", "-k", "exp"),
    "vector end": (KERNELS, "-k", "softmax"),
    "LLVM text": (KERNELS, "-k", "softmax"),
    "abort": ("tests/dsl/call/test_function.py",),
}
"""Tests that find a fault of ``tests.faults`` without knowing of planted faults."""


@dataclass(frozen=True)
class Fault:
    """A fault, the arguments of pytest that select its tests, and the bug if it is one."""

    name: str
    tests: tuple[str, ...]
    bug: Bug | None = None


@cache
def faults() -> tuple[Fault, ...]:
    """Bugs that are made again, planted faults and mutants of laws, each with its own name."""
    again = (Fault(bug.name, bug.tests, bug) for bug in AGAIN)
    planted = (Fault(bug.name, FINDERS[bug.name]) for bug in BUGS)
    mutants = (Fault(f"{MUTANT}{name}", proofs(name)) for name in functions())
    return (*again, *planted, *mutants)
