"""The data of a page: every stage knows the lines of the source, down to assembly."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.compile import STAGES
from dlvm.viewing.model import model, texts_below

from .programs import ARGUMENTS, LINES, step


@pytest.fixture(scope="module")
def data() -> Any:
    made = step.compile(*ARGUMENTS)
    profile = made.profile(*ARGUMENTS, seconds=0.01)
    return json.loads(json.dumps(model(made.road, profile, ARGUMENTS)))


def reached(data: Any, group: int) -> set[str]:
    """The text of the lines of the source that a group comes from."""
    places = (data["places"][p] for p in data["groups"][group][0])
    return {data["sources"][f]["lines"][n - 1] for f, n, _ in places}


def named(data: Any, name: str) -> Any:
    return next(s for s in data["stages"] if name in (s["name"], s["known_as"]))


def from_line(data: Any, name: str, mark: str) -> list[str]:
    """The lines of a stage that come from a line of the source."""
    lines = named(data, name)["lines"]
    return [t for t, g in lines if any(mark in source for source in reached(data, g))]


@pytest.mark.parametrize("mark", LINES)
@pytest.mark.parametrize("stage", [s for s in STAGES if s != "ptx"])
def test_each_line_of_a_gradient_has_lines_in_every_stage(data: Any, stage: str, mark: str):
    assert from_line(data, stage, mark)


def test_an_adjoint_comes_from_the_line_of_what_it_is_the_adjoint_of(data: Any):
    found = from_line(data, "differentiated", "# first")
    assert any("permute %x" in line for line in found)
    told = {told for places, told in data["groups"] if places}
    assert "the adjoint of tanh" in told


def test_two_operations_of_one_line_are_told_apart(data: Any):
    lines = named(data, "traced")["lines"]
    matmul, tanh = (g for _, g in lines if any("# first" in s for s in reached(data, g)))
    assert reached(data, matmul) == reached(data, tanh)
    assert data["groups"][matmul][0] != data["groups"][tanh][0]


def test_a_launch_comes_from_less_than_everything(data: Any):
    launches = [(t, g) for t, g in named(data, "loops")["lines"] if "launch @" in t]
    assert len(launches) > 2
    assert all(reached(data, g) for _, g in launches)
    assert any(len(reached(data, g)) < len(LINES) for _, g in launches)


@pytest.mark.parametrize("stage", ["nests", "loops", "llvm", "asm"])
def test_below_kernels_a_line_of_a_kernel_comes_from_its_launches(data: Any, stage: str):
    launches = [(t, g) for t, g in named(data, "loops")["lines"] if "launch @k0" in t]
    expected = set().union(*(reached(data, g) for _, g in launches))
    head = {"llvm": "@k0(", "asm": "k0:"}.get(stage, "kernel @k0(")
    lines = named(data, stage)["lines"]
    start = next(i for i, (t, _) in enumerate(lines) if head in t and "call" not in t)
    assert reached(data, lines[start][1]) == expected
    assert reached(data, lines[start + 2][1]) == expected
    assert not all(g for _, g in lines) or stage == "nests"


def test_stages_are_the_texts_of_the_compiled_function(data: Any):
    made = step.compile(*ARGUMENTS)
    for stage, text in texts_below(data).items():
        assert text == made.text(stage)
    kernels = "".join(f"{t}\n" for t, _ in named(data, "kernels")["lines"])
    assert kernels in made.text("kernels")


def test_a_stage_is_shown_only_where_a_pass_changed_something(data: Any):
    texts = [[t for t, _ in s["lines"]] for s in data["stages"] if s["kind"] == "ir"]
    groups = [[g for _, g in s["lines"]] for s in data["stages"] if s["kind"] == "ir"]
    pairs = list(zip(texts, groups, strict=True))
    assert all(a != b for a, b in pairwise(pairs))
    known = [s["known_as"] for s in data["stages"] if s["known_as"]]
    assert known == [s for s in STAGES if s != "ptx"]


def test_a_law_that_was_weighed_tells_what_it_saved():
    found = model(dlvm.function(lambda a, b, x: a @ b @ x).compile(*CHAIN).road)
    (law,) = [law for law in found["laws"] if law["saved"]]
    assert law["stage"] == "rearrange"
    assert "flops" in law["saved"]
    assert found["groups"][law["group"]][0]


CHAIN = np.ones((60, 50)), np.ones((50, 40)), np.ones(40)


def test_refused_fusions_have_reasons_and_lines(data: Any):
    assert data["refused"]
    for refused in data["refused"]:
        assert refused["why"] and reached(data, refused["group"])
    text = "{type} from {source} to {reader}: {why} ({moved})".format
    _ = step.compile(*ARGUMENTS)
    assert [text(**refused) for refused in data["refused"]] == list(step.explain().refused)


def test_buffers_lie_apart_in_the_arena_while_both_are_in_use(data: Any):
    (plan,) = data["memory"]
    placed = [b for b in plan["buffers"] if b["at"] is not None]
    assert len(placed) > 1
    for i, a in enumerate(placed):
        assert a["at"] + a["bytes"] <= plan["arena"]
        for b in placed[:i]:
            over = a["at"] < b["at"] + b["bytes"] and b["at"] < a["at"] + a["bytes"]
            assert not over or a["last"] < b["first"] or b["last"] < a["first"]


def test_sizes_that_are_open_are_known_with_a_profile():
    given = (np.ones((7, 4)),)
    made = dlvm.function(lambda x: dlvm.cumsum(dlvm.exp(x) @ x.T, axis=0), dynamic={"x": "B,4"})
    made = made.compile(*given)
    (plan,) = model(made.road)["memory"]
    assert plan["arena"] is None and "B" in plan["arena_text"]
    profile = made.profile(*given, seconds=0.01)
    (plan,) = model(made.road, profile, given)["memory"]
    assert plan["arena"] > 0
    assert all(b["bytes"] for b in plan["buffers"])


def test_the_profile_leads_to_lines(data: Any):
    parts = data["profile"]["parts"]
    assert sum(p["seconds"] for p in parts) <= data["profile"]["seconds"]
    assert all(reached(data, p["group"]) for p in parts if p["lines"])
    assert any(p["lines"] for p in parts)


def test_interpreted_programs_have_stages_down_to_kernels(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    found = model(step.compile(*ARGUMENTS).road)
    assert [s["known_as"] for s in found["stages"] if s["known_as"]][-1] == "kernels"
    assert found["memory"] == []


def test_a_budget_of_memory_shows_the_kernels_that_were_chosen():
    made = dlvm.function(lambda x: dlvm.cumsum(dlvm.exp(x), axis=0), memory="64MB").compile(
        np.ones((4, 4))
    )
    found = model(made.road)
    assert "".join(f"{t}\n" for t, _ in named(found, "kernels")["lines"]) == made.text("kernels")
