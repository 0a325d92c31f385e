"""A function's code is summarised once, and what is found of one place is found once per trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from benchmarks.tables import program
from dlvm.dsl.state.captures import Captures
from dlvm.dsl.state.follow import Follow
from dlvm.dsl.state.items import Items
from dlvm.dsl.state.summaries import Summary, summary_of

X = np.arange(3.0)


def effects_of(f: Any) -> list[str]:
    """The operations of a function's summary, by name."""
    summary = summary_of(f.__code__)
    assert isinstance(summary, Summary)
    return [op.effect.name for op in summary.operations]


def test_moves_on_the_stack_and_locals_that_are_stored_once_are_no_operations():
    def f(x: Any) -> Any:
        y, z = x, 2
        return y * z

    assert effects_of(f) == ["operate", "give"]


def test_a_load_is_one_operation_however_often_it_is_written():
    def f(x: Any) -> Any:
        return np.sin(x) + np.sin(x) + np.sin(x)

    assert effects_of(f).count("global") == effects_of(f).count("attribute") == 1


def test_the_summary_of_a_code_object_is_made_once():
    def made(n: int) -> Any:
        return lambda x: x * n

    assert summary_of(made(1).__code__) is summary_of(made(2).__code__)


def test_either_branch_of_an_expression_is_followed():
    a, b, flag = np.ones(3), np.ones(3), True
    f = dlvm.function(lambda x: x * (a if flag else b) + (b if flag else a))
    np.testing.assert_array_equal(f(X), X + 1)
    a[:] = 5.0
    np.testing.assert_array_equal(f(X), X * 5 + 1)
    flag = False
    np.testing.assert_array_equal(f(X), X + 5)


def test_a_variable_that_holds_itself_ends():
    f = dlvm.function(lambda x: grown(x, 5))
    np.testing.assert_array_equal(f(X), X * 6)


def grown(x: Any, count: int) -> Any:
    """A sum whose terms a nested tuple holds."""
    held: Any = (x, None)
    for _ in range(count):
        held = (x, held)
    total = 0.0
    while held is not None:
        first, held = held
        total = total + first
    return total


def test_no_operation_is_evaluated_often_where_a_table_of_functions_is_reached(
    monkeypatch: pytest.MonkeyPatch,
):
    """The walk looked at every possible value of a variable at each step, and walked again."""
    evaluated: list[Any] = []
    items: list[Any] = []

    def counted(into: list[Any], run: Any) -> Any:
        return lambda *args: into.append(args) or run(*args)

    monkeypatch.setattr(Follow, "_evaluate", counted(evaluated, Follow._evaluate))
    monkeypatch.setattr(Items, "_item", counted(items, Items._item))
    Captures([program(50, 20)])
    different = {(args[1], args[2]) for args in evaluated}
    assert len(different) > 1000
    assert len(evaluated) < 2 * len(different)
    assert len(items) < 20 * 12  # of twenty nodes with the keys that the operations read


def test_the_table_of_functions_follows_what_changes():
    f = program(10, 10)
    staged = dlvm.function(f)
    x = np.linspace(-1.0, 1.0, 64).reshape(8, 8)
    np.testing.assert_allclose(staged(x), f(x))
    (graph,) = (c.cell_contents for c in f.__closure__ or () if isinstance(c.cell_contents, list))
    graph[1].attributes["alpha"] = 3.0
    np.testing.assert_allclose(staged(x), f(x))
