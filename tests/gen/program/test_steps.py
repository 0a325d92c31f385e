"""What each class of steps states of itself covers its fields, so no analysis overlooks one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest

from dlvm.gen.program.steps import Copy, For, If, Step, Storage, View, While, walk
from dlvm.ir import BOOL, TensorType

KINDS: tuple[Any, ...] = get_args(Step)
NOTHING = View(Storage("c", BOOL, 1), TensorType(BOOL, ()))


def named(kind: Any, *types: str) -> set[str]:
    """The fields of a class that have one of these types."""
    return {f.name for f in fields(kind) if f.type in types}


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_view_of_a_step_is_read_or_written(kind: Any):
    views = named(kind, "View", "tuple[View, ...]")
    assert {*kind.READS, *kind.WRITES} == views
    assert len({*kind.READS} & {*kind.WRITES}) == 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_body_of_a_step_runs_and_has_a_line_after_it(kind: Any):
    bodies = named(kind, "tuple[Step, ...]")
    assert {name for name in kind.ORDER if name} == bodies
    assert kind.ORDER.count(None) == 1
    assert len(kind.TEXT) == 1 + len(bodies)


def test_a_while_reads_its_condition_between_its_bodies():
    first, second = Copy(NOTHING, NOTHING), Copy(NOTHING, NOTHING)
    loop = While((first,), NOTHING, (second,))
    assert loop.order == ((first,), None, (second,))
    assert loop.bodies == ((first,), (second,))
    assert loop.repeats
    assert loop.trips is None


def test_a_branch_runs_one_of_its_bodies_and_a_loop_all():
    branch, loop = If(NOTHING, (), ()), For("i", 3, True, ())
    assert branch.CHOOSES
    assert not branch.repeats
    assert loop.repeats
    assert loop.trips == 3
    assert not Copy(NOTHING, NOTHING).repeats


def test_other_views_and_bodies_reach_everything_inside():
    other = View(Storage("d", BOOL, 1), NOTHING.type)
    loop = For("i", 3, True, (If(NOTHING, (Copy(NOTHING, NOTHING),), ()),))

    def moved(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(step.changed(moved, lambda _: other) for step in steps)

    (found,) = moved((loop,))
    assert [v for s in walk((found,)) for v in (*s.reads, *s.writes)] == [other] * 3
    assert len(list(walk((loop,)))) == 3


def test_the_text_of_a_step_names_its_views():
    assert Copy(NOTHING, NOTHING).texts == (f"copy {NOTHING} -> {NOTHING}",)
    assert For("i", 3, True, ()).texts == ("for i < 3 downwards {", "}")
