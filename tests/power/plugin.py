"""A plugin of pytest that plants one fault before any test runs; ``SUITE_PLANT`` names the fault.

    SUITE_PLANT=adjoint python -m pytest -p tests.power.plugin tests/ad

The fault is one of ``tests.faults``, or ``mutant of NAME``: a mistake in the function of this name.
Nothing else in the process of the tests knows that there is a fault.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

PLANT = "SUITE_PLANT"
PLANTED = pytest.StashKey[AbstractContextManager[Any]]()
MUTANT = "mutant of "


def planted(name: str) -> AbstractContextManager[Any]:
    """The fault of this name, planted while the context lasts."""
    if name.startswith(MUTANT):
        from .mutants import mutant

        return mutant(name.removeprefix(MUTANT)).planted()
    from tests.faults import BUGS

    return next(bug for bug in BUGS if bug.name == name).plant()


def pytest_configure(config: pytest.Config) -> None:
    import dlvm

    found = Path(dlvm.__file__).resolve()
    if not found.is_relative_to(config.rootpath.resolve()):
        raise pytest.UsageError(f"expected the dlvm in {config.rootpath}, found {found}")
    if name := os.environ.get(PLANT):
        config.stash[PLANTED] = planted(name)
        config.stash[PLANTED].__enter__()


def pytest_unconfigure(config: pytest.Config) -> None:
    if PLANTED in config.stash:
        config.stash[PLANTED].__exit__(None, None, None)
