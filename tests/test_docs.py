"""What the pages say is so: the example runs, links lead somewhere, commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
DLVM = ROOT / "docs/dlvm.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_the_examples_of_the_readme_run_and_print_what_it_shows(capsys: pytest.CaptureFixture[str]):
    blocks = re.findall(r"```(python)?\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    code = "".join(text for kind, text in blocks if kind)
    w, x = np.full((3, 2), 0.1, np.float32), np.ones((5, 3), np.float32)
    namespace = {"w": w, "x": x, "y": np.zeros((5, 2), np.float32)}
    exec(compile(code, "README.md", "exec"), namespace)
    t = np.tanh(0.3)
    np.testing.assert_allclose(namespace["value"], t**2, rtol=1e-5)
    np.testing.assert_allclose(namespace["gradient"], np.full((3, 2), t * (1 - t**2)), rtol=1e-5)
    shown = [text for kind, text in blocks if not kind]
    assert capsys.readouterr().out == "".join(text + "\n" for text in shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_link_leads_to_a_file(page: Path):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_every_command_of_the_pages_is_a_target_of_the_makefile():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    named = {c for p in PAGES for c in re.findall(r"(?:`|    )make (\w+)", p.read_text("utf8"))}
    assert named <= targets


def test_every_promise_of_dlvm_names_a_test_that_exists():
    rows = re.findall(r"^\| (\d+) \|.*\| `([\w/.]+)(?:::(\w+))?` \|$", DLVM.read_text(), re.M)
    assert [int(number) for number, _, _ in rows] == list(range(1, 34))
    for _, path, name in rows:
        assert (ROOT / path).exists(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text(), (path, name)
