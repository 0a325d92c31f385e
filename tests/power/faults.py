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
PROGRAMS = "tests/gen/test_random_programs.py"
KERNELS = "tests/gen/lower/test_kernels.py"
STEPS = "tests/gen/test_steps.py"
FINDERS: dict[str, tuple[str, ...]] = {
    "adjoint": (TANGENTS,),
    "tangent": (TANGENTS, "-k", "control"),
    "batching": ("tests/ad/test_batch.py", "-k", "leaves and sub"),
    "law": ("tests/opt/test_rules.py", "-k", "difference"),
    "failing law": ("tests/opt/test_rules.py", "-k", "failing"),
    "folding": ("tests/opt/test_passes.py",),
    "known branch": ("tests/opt/regions/test_values.py",),
    "select": ("tests/opt/regions/test_lowering.py", "tests/opt/test_passes.py"),
    "sharing": ("tests/opt/regions/test_sharing.py",),
    "hoisting": ("tests/opt/test_passes.py",),
    "folded axis": ("tests/opt/kernels/test_fusion.py",),
    "dropped result": ("tests/opt/kernels/test_fusion.py",),
    "order of kernels": ("tests/opt/kernels/test_fusion.py",),
    "order": ("tests/opt/recompute/test_ordering.py",),
    "dropping": ("tests/opt/test_passes.py",),
    "index map": (KERNELS,),
    "copies": ("tests/gen/program/test_coalesce.py",),
    "memory": ("tests/gen/program/test_memory.py",),
    "loop bound": ("tests/gen/program/test_control.py", "tests/gen/cpu/test_driver.py"),
    "polynomial": ("tests/gen/math/test_functions.py",),
    "vector end": (KERNELS,),
    "LLVM text": (KERNELS,),
    "abort": (KERNELS,),
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
