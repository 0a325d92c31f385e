"""What every test runs under: golden files, and how long Hypothesis looks.

No compiled program is compared with itself: calls without a decorator are computed by references
in every test but those that are marked ``undecorated``.

Hypothesis draws its examples from the seed of the run (``tests.running``), and forgets what failed
in an earlier one. ``HYPOTHESIS_PROFILE=long`` draws forty times as many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dlvm.base import system
from dlvm.base.debugging import debug

from .golden_files import GoldenFile

COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("suite", max_examples=50, database=None, **COMMON)
settings.register_profile("long", max_examples=2000, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what results now into golden files"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".dlvm" and "golden" in file_path.parts:
        return GoldenFile.from_parent(parent, path=file_path)
    return None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "undecorated: calls without a decorator run programs")


@pytest.fixture(autouse=True)
def references(request: pytest.FixtureRequest) -> Iterator[None]:
    """Calls without a decorator are computed by the references."""
    with debug(references=request.node.get_closest_marker("undecorated") is None):
        yield


NEED_LINUX = ("gen/runtime/test_choice.py", "gen/runtime/test_pool.py")
NEED_FORKS_AND_SIGNALS = (
    *("base/test_handlers.py", "dsl/trace/test_limits.py", "files/test_hostile.py"),
    *("files/test_kills.py", "gen/cpu/test_driver.py", "gen/llvm/test_disk.py"),
    *("opt/algebra/test_programs.py", "opt/test_mutants.py", "test_fuzz.py", "test_guards.py"),
    *("test_power.py", "trust/test_examine.py", "trust/test_forms.py"),
)
collect_ignore = [
    *(NEED_LINUX if system.HERE != "Linux" else ()),
    *(NEED_FORKS_AND_SIGNALS if system.HERE == "Windows" else ()),
]
"""Files that can't be imported, or mean nothing, on other systems."""

pytest_plugins = ["pytester", "tests.running"]
