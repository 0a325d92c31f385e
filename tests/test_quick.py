"""``make quick``: what a change concerns, by the map of what tests run, or by names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from .quick import __main__ as command
from .quick import changes as changes_of
from .quick import mapping, plugin
from .quick.changes import Changes
from .quick.mapped import Map, Relevance, file_of
from .quick.names import SLOW, Nearness
from .quick.sources import ROOT, read

SQRT = "dlvm/ops/elements/transcendental.py"


def differs(monkeypatch: pytest.MonkeyPatch, *files: tuple[str, int, int]) -> Changes:
    """Changes of lines of files, each from one line to another; what was before is as it is."""
    parts = [
        f"diff --git a/{n} b/{n}\n--- a/{n}\n+++ b/{n}\n@@ -{a},{b - a + 1} +{a},{b - a + 1} @@\n"
        for n, a, b in files
    ]

    def git(*words: str) -> str:
        if words[0] == "show":
            return (ROOT / words[1].partition(":")[2]).read_text("utf8")
        return "".join(parts) if words[0] == "diff" else ""

    monkeypatch.setattr(changes_of, "git", git)
    return Changes("HEAD")


def line_of(name: str, start: str) -> int:
    """The first line of a file that starts so."""
    lines = (ROOT / name).read_text("utf8").splitlines()
    return next(i for i, text in enumerate(lines, 1) if text.startswith(start))


# -- by names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("test", "rank"),
    [
        ("tests/test_registry.py::test_claims[sqrt-f32-batched]", 1),
        ("tests/names/test_names.py::test_values[sqrt]", 1),
        ("tests/ops/elements/test_transcendental.py::test_x", 1),
        ("tests/cli/test_commands.py::test_doctor_tells_of_this_machine", None),
        ("tests/test_guards.py::test_x", None),
    ],
)
def test_tests_of_a_changed_operation_are_near(
    test: str, rank: int | None, monkeypatch: pytest.MonkeyPatch
):
    line = line_of(SQRT, "class Sqrt") + 3
    near = Nearness(differs(monkeypatch, (SQRT, line, line)))
    near.rank_of_file.setdefault("tests/cli/test_commands.py", None)
    assert near(test) == rank


def test_changed_tests_are_nearest_and_what_imports_a_changed_helper_is_near(
    monkeypatch: pytest.MonkeyPatch,
):
    names = ("tests/robust/test_scripts.py", "tests/special.py")
    near = Nearness(differs(monkeypatch, *((n, 1, 1) for n in names)))
    assert near("tests/robust/test_scripts.py::test_a") == 0
    assert near("tests/gen/test_special_values.py::test_a") == 2
    assert near("tests/robust/test_other.py::test_a") is None


def test_every_fifth_test_is_far_as_long_as_there_are_near_ones():
    assert [*plugin.interleaved([*"abcdefgh"], [*"123"])] == [*"abcd1efgh23"]


def test_tests_that_quick_leaves_out_exist():
    assert [p for p in SLOW if not [*ROOT.glob(p.rstrip("/") + "*")]] == []


def test_the_tests_of_the_pages_that_always_run_exist():
    text = (ROOT / plugin.DOCS).read_text("utf8")
    assert all(f"def {name}" in text for name in plugin.ALWAYS)


# -- by the map ----------------------------------------------------------------------------------

COST, BATCHING = "dlvm/cost.py", "opt/algebra/pieces/batching.py"
FUNCTIONS = [
    f"{COST}:Count.unary",
    f"{COST}:flops",
    f"{COST}:time",
    f"{BATCHING}:_price",
    f"{SQRT}:Sqrt.adjoint",
    "dlvm/ir/core.py:Op.rebuild",
]
TESTS = [
    "tests/a.py::one",
    "tests/a.py::two",
    "tests/b.py::one",
    "tests/b.py::two[x]",
    "tests/c.py::p",
]


def a_map(**rows: list[str]) -> Map:
    """A map of ``TESTS``: what each runs, by its number, and ``a`` to ``c`` share in a file."""

    def bits(names: list[str]) -> np.ndarray:
        return np.array([any(f.endswith(f":{n}") for n in names) for f in FUNCTIONS])

    ran = np.array([bits(rows.get(f"t{i}", [])) for i in range(len(TESTS))])
    shared = np.array([bits(rows.get(f, [])) for f in "abc"])
    apart = np.array([t.endswith("::p") for t in TESTS])
    digests = dict.fromkeys((COST, BATCHING, SQRT, "tests/a.py"), "")
    always = bits(rows.get("always", []))
    return Map(TESTS, FUNCTIONS, ran, shared, always, apart, np.ones(len(TESTS)), digests)


def concerned(found: Map, changes: Changes) -> set[str]:
    relevance = Relevance(found, changes)
    return {t.removeprefix("tests/") for t in TESTS if relevance(t)} - {"c.py::p"}


def test_a_change_concerns_the_tests_that_run_the_function(monkeypatch: pytest.MonkeyPatch):
    line = line_of(COST, "def flops") + 2
    found = a_map(t0=["flops"], t1=["time"], t3=["flops", "time"])
    assert concerned(found, differs(monkeypatch, (COST, line, line))) == {
        "a.py::one",
        "b.py::two[x]",
    }


def test_what_a_test_may_have_found_ready_concerns_all_tests_of_its_file(
    monkeypatch: pytest.MonkeyPatch,
):
    line = line_of(COST, "def flops") + 2
    changes = differs(monkeypatch, (COST, line, line))
    assert concerned(a_map(b=["flops"]), changes) == {"b.py::one", "b.py::two[x]"}
    assert len(concerned(a_map(always=["flops"]), changes)) == len(TESTS) - 1


def test_tests_with_processes_that_were_not_followed_are_always_concerned(
    monkeypatch: pytest.MonkeyPatch,
):
    line = line_of(COST, "def flops") + 2
    relevance = Relevance(a_map(t0=["flops"]), differs(monkeypatch, (COST, line, line)))
    assert relevance("tests/c.py::p") and not relevance("tests/b.py::one")


def test_a_constant_concerns_those_who_read_it_wherever_they_are(monkeypatch: pytest.MonkeyPatch):
    line = line_of(COST, "LAUNCH = ")
    reader = next(
        name
        for name, words in read(BATCHING, (ROOT / BATCHING).read_text("utf8")).words.items()
        if "LAUNCH" in words
    )
    monkeypatch.setitem(globals(), "FUNCTIONS", [*FUNCTIONS, f"{BATCHING}:{reader}"])
    found = a_map(t1=[reader], t2=["flops"])
    assert concerned(found, differs(monkeypatch, (COST, line, line))) == {"a.py::two"}


def test_a_field_of_a_class_concerns_what_runs_its_methods(monkeypatch: pytest.MonkeyPatch):
    line = line_of(SQRT, "class Sqrt")
    found = a_map(t0=["Sqrt.adjoint"], t1=["flops"])
    assert concerned(found, differs(monkeypatch, (SQRT, line, line))) == {"a.py::one"}


def test_changed_files_of_tests_and_tests_that_are_not_in_the_map_are_concerned(
    monkeypatch: pytest.MonkeyPatch,
):
    found = a_map()
    changes = differs(monkeypatch, ("tests/a.py", 1, 1))
    monkeypatch.setattr(Changes, "sides", lambda self, name: iter(()))
    assert concerned(found, changes) == {"a.py::one", "a.py::two"}
    assert Relevance(found, changes)("tests/b.py::new")


def test_a_table_of_the_tests_concerns_those_that_import_it(monkeypatch: pytest.MonkeyPatch):
    relevance = Relevance(a_map(), differs(monkeypatch, ("tests/special.py", 30, 40)))
    assert relevance("tests/gen/test_special_values.py::test_x")
    assert not relevance("tests/a.py::one")


def test_a_comment_concerns_nothing(monkeypatch: pytest.MonkeyPatch):
    name = "tests/quick/tracing/sitecustomize.py"
    text = "# one\n\nx = 1\n"
    changes = differs(monkeypatch, (name, 1, 2))
    monkeypatch.setattr(
        Changes, "sides", lambda self, n: iter([(read(n, text), {1, 2}, text.splitlines())])
    )
    assert concerned(a_map(t0=["flops"]), changes) == set()


def test_a_map_is_read_as_it_was_written(tmp_path: Path):
    found = a_map(t0=["flops"], a=["time"], always=["Op.rebuild"])
    found.save(tmp_path / "map.npz")
    again = Map.load(tmp_path / "map.npz")
    assert (again.tests, again.functions, again.digests) == (TESTS, FUNCTIONS, found.digests)
    for name in ("ran", "shared", "always", "apart", "seconds"):
        assert np.array_equal(getattr(again, name), getattr(found, name)), name


def test_functions_of_a_text_are_known_by_their_lines():
    text = "A = 1\n\n@cache\ndef f(x):\n    return x + A\n\n"
    text += "class C:\n    y = 2\n    def g(self):\n        pass\n"
    found = read("x.py", text)
    assert [found.at(i) for i in (1, 3, 5, 8, 10)] == [None, "f", "f", None, "C.g"]
    assert (found.class_at(8), found.kept, "A" in found.words["f"]) == ("C", {"f"}, True)


def test_the_plugin_runs_what_a_change_concerns_and_counts_it(tmp_path: Path):
    env = {**os.environ, plugin.SINCE: "HEAD", plugin.TOLD: str(tmp_path / "told")}
    command = [sys.executable, "-m", "pytest", "-n1", "-q", "-p", "tests.quick.plugin"]
    command += [f"--basetemp={tmp_path / 'temporary'}", "tests/dsl/words/test_patterns.py"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads((tmp_path / "told").read_text())
    assert counts["near"] == counts["ran"]


# -- making the map ------------------------------------------------------------------------------

TRACED = """
from functools import cache

def plain(x): return x
@cache
def ready(x): return below(x)
def below(x): return x
def in_a_child(): return 1
def imported(): return 1
imported()
if __name__ == "__main__":
    in_a_child()
"""
TESTING = """
import os, subprocess, sys
import it

def test_one(): assert it.plain(it.ready(1))
def test_two(): assert it.ready(1)
def child(code, **how): subprocess.run([sys.executable, "-c", code], check=True, **how)
def test_child(): child("import it; it.in_a_child()")
def test_script(): subprocess.run([sys.executable, "-m", "it"], check=True)
def test_alone(): child("1", env={})
def test_astray(): child("1", env={**os.environ, "PYTHONPATH": ""})
def test_wrong(): assert not it.plain(1)
"""


def test_what_tests_run_is_noted_in_child_processes_and_below_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "gen").mkdir()
    (tmp_path / "gen" / "it.py").write_text(TRACED)
    (tmp_path / "test_it.py").write_text(TESTING)
    (tmp_path / "cached").write_text("gen/it.py:ready")
    env = {
        **os.environ,
        "PYTHONPATH": f"{mapping.TRACING}:{ROOT}:{tmp_path}/gen",
        "SUITE_NOTES": str(tmp_path / "notes"),
        "SUITE_ROOT": str(tmp_path),
        "SUITE_CACHED": str(tmp_path / "cached"),
        "SUITE_BYTECODE": str(tmp_path / "bytecode"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.quick.mapping", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    found = dict(mapping.read(tmp_path / "notes", time.monotonic()))
    names = ("one", "two", "child", "script", "alone")
    one, two, child, script, alone = (found[f"test_it.py::test_{n}"][0] for n in names)
    assert {"R gen/it.py:plain", "F gen/it.py:ready", "F gen/it.py:below"} <= set(one)
    assert "F gen/it.py:below" not in two
    assert "R gen/it.py:in_a_child" in child and "P" in alone and "P" not in child
    assert "R gen/it.py:in_a_child" in script and "I gen/it.py:imported" in child
    assert "P" in found["test_it.py::test_wrong"][0], "what fails may have run less than it should"
    made = mapping.joined({"test_it.py": found})
    assert 0 < made.seconds.max() < 20
    assert made.tests_of([made.columns["gen/it.py:below"]]) == {t for t in found if t}
    only = made.tests_of([made.columns["gen/it.py:plain"]])
    assert only == {f"test_it.py::test_{name}" for name in ("one", "alone", "astray", "wrong")}


def test_quick_is_green_only_where_all_that_the_change_concerns_ran(
    capsys: pytest.CaptureFixture[str],
):
    assert [command.verdict(0, 5, 5), command.verdict(1, 5, 2)] == [0, 1]
    assert command.verdict(0, 5, 4) == command.UNRUN
    assert "concerns 5 tests, 4 of them ran" in capsys.readouterr().out


def test_files_are_parts_of_the_names_of_tests():
    assert file_of("tests/a.py::one[x::y]") == "tests/a.py"
