"""A version has one number and one day, its changes fit two screens; pages name their extras."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import dlvm

from .test_docs import PAGES

ROOT = Path(__file__).parents[1]
SCREENS = 100
"""Lines of two screens."""
CHANGES = (ROOT / "CHANGELOG.md").read_text("utf8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"][
    "optional-dependencies"
]
BROUGHT = {"sklearn": "scikit-learn"}
"""A distribution that has another name than what is imported."""


def sections() -> list[tuple[str, str]]:
    """The heading of each version with its text, the latest first."""
    parts = re.split(r"^## (.*)\n", CHANGES, flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_the_latest_version_of_the_changelog_is_that_of_the_package_and_of_the_citation():
    headings = [heading for heading, _ in sections()]
    assert headings[0] == "[Unreleased]"
    found = re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", headings[1])
    assert found is not None
    version, day = found.groups()
    citation = (ROOT / "CITATION.cff").read_text("utf8")
    assert version == dlvm.__version__
    assert f"\nversion: {version}\ndate-released: {day}\n" in citation
    assert f"git tag -a v{version} " in (ROOT / "docs/releasing.md").read_text("utf8")


@pytest.mark.parametrize(("heading", "text"), sections(), ids=[h for h, _ in sections()])
def test_the_changes_of_a_version_fit_two_screens(heading: str, text: str):
    lines = text.splitlines()
    assert len(lines) <= SCREENS, f"{heading}: shorten it"
    assert [line for line in lines if len(line) > 130] == []


def imported(page: Path) -> set[str]:
    """The packages that the blocks of a page import, which an extra brings."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text("utf8"), re.S | re.M))
    names = set(re.findall(r"^\s*(?:import|from) (\w+)", code, re.M))
    return {BROUGHT.get(n, n) for n in names} & {d for e in EXTRAS.values() for d in map(bare, e)}


def bare(requirement: str) -> str:
    """The distribution that a requirement names."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0]


def test_a_page_that_needs_an_extra_names_it():
    needing = {page.stem: imported(page) for page in PAGES if imported(page)}
    assert {"testing", "sympy", "deploy"} <= set(needing)
    for page in PAGES:
        named = re.findall(r"dlvm-compiler\[(\w+)\]", page.read_text("utf8"))
        brought = {bare(d) for extra in named for d in EXTRAS[extra]}
        assert imported(page) <= brought, f"{page.name} names no extra that brings these"
