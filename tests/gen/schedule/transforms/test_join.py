"""The transform ``join``: loops behind one another at each index in turn, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import (
    Buffer,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Number,
    Store,
)
from dlvm.gen.loops.verifier import verify
from dlvm.gen.program.control import kernels_of
from dlvm.gen.schedule.planner import planned
from dlvm.gen.schedule.transform import WHOLE, apply
from dlvm.gen.schedule.transforms.join import Join, against
from dlvm.ir import F32, TensorType
from dlvm.ir.sizes.dims import symbol


def pairs(a: Any) -> Any:
    """Even elements, then odd ones."""
    a = a.copy()
    a[..., ::2] = a[..., ::2] * 2 + 1
    a[..., 1::2] = a[..., 1::2] * 3
    return a


def beside(a: Any) -> Any:
    """The second window reads what the first one wrote, in its own row."""
    a = a.copy()
    a[:, 1:] = a[:, 1:] + a[:, :1]
    a[:, :5] = a[:, :5] * 2
    return a


def below(a: Any) -> Any:
    """The second window reads what the first one wrote one row above."""
    a = a.copy()
    a[:, :4] = a[:, :4] * 2
    a[1:, 4:8] = a[:-1, :4]
    return a


def plain(f: Callable[..., Any], *sizes: Any) -> list[LoopKernel]:
    array = np.ones(sizes, np.float32)
    made = dlvm.function(f, donate=("a",)).compile(array)
    return [loops for _, loops in kernels_of(made.road.kernels)]


@pytest.mark.parametrize("f", [pairs, beside, below])
@pytest.mark.parametrize("rows", [0, 1, 3, 40])
def test_windows_are_those_of_numpy(f: Callable[..., Any], rows: int):
    a = np.random.default_rng(0).standard_normal((rows, 9)).astype(np.float32)
    made = dlvm.function(f, donate=("a",))
    np.testing.assert_array_equal(made(a.copy()), f(a))


@pytest.mark.parametrize("f, levels", [(pairs, 1), (beside, 1)])
def test_windows_of_one_row_follow_one_another(f: Callable[..., Any], levels: int):
    (loops,) = plain(f, 40, 8)
    assert sum(isinstance(s, Loop) for s in loops.body) == 2
    made = apply(loops, [Join(WHOLE, levels)])
    verify(made)
    (rows,) = (s for s in made.body if isinstance(s, Loop))
    assert rows.extent == 40
    assert f"join {WHOLE}" in " ".join(planned(loops).steps)


def test_what_another_turn_touches_is_no_turn_of_its_own():
    def f(a: Any) -> Any:
        a = a.copy()
        a[:, :4] = a[:, :4] * 2
        a[:, 4:] = a[::-1, :4]
        return a

    for loops in plain(f, 40, 8):
        if sum(isinstance(s, Loop) for s in loops.body) == 2:
            with pytest.raises(UserError, match="touches what another turn"):
                apply(loops, [Join(WHOLE)])
        assert "join" not in " ".join(planned(loops).steps)


def corner(a: Any) -> Any:
    """What the first window wrote decides all of the second; and a place of its own."""
    a = a.copy()
    a[:, :4] = a[:, :4] * 2
    a[:, 4:8] = a[0, 0]
    a[3, 3] = 7
    a[:, 1:5] = a[:, 1:5] + 1
    return a


@pytest.mark.parametrize("rows", [1, 4, 40])
def test_scalars_and_single_elements_between_windows_keep_their_place(rows: int):
    a = np.random.default_rng(0).standard_normal((max(rows, 4), 9)).astype(np.float32)
    made = dlvm.function(corner, donate=("a",))
    np.testing.assert_array_equal(made(a.copy()), corner(a))


def window(var: str, at: int) -> Loop:
    """Writes one element of each row of 8."""
    x = Load(F32, X, 8 * symbol(var))
    return Loop(var, 40, "parallel", (Let(x), Store(Y, 8 * symbol(var) + at, x)))


X = Buffer("x", TensorType(F32, (40, 8)), "in")
Y = Buffer("y", TensorType(F32, (40, 8)), "inout")


@pytest.mark.parametrize(
    "between, words",
    [
        ((), ""),
        ((Let(Load(F32, X, 3)),), ""),
        ((Let(Load(F32, Y, 3)),), "read from what they write"),
        ((Let(n := Number(F32, 1.0)), Store(Y, 0, n)), "more than scalars"),
    ],
)
def test_what_stands_between_loops(between: Any, words: str):
    body = (window("%i", 0), *between, window("%j", 1))
    loops = LoopKernel("k", (X, Y), (), body, may_raise=False)
    assert bool(against(body, 1)) == bool(words)
    if words:
        with pytest.raises(UserError, match=words):
            apply(loops, [Join(WHOLE)])
        assert "join" not in " ".join(planned(loops).steps)
    else:
        assert sum(isinstance(s, Loop) for s in apply(loops, [Join(WHOLE)]).body) == 1


def test_an_array_that_both_write_is_no_part_of_a_turn():
    array = Local("t", F32, 40)
    x = Load(F32, X, symbol("%i"))
    y = Load(F32, array, 39 - symbol("%j"))
    first = Loop("%i", 40, "parallel", (Let(x), Store(array, symbol("%i"), x)))
    second = Loop("%j", 40, "parallel", (Let(y), Store(Y, symbol("%j"), y)))
    assert "touches what another" in against((array, first, second)[1:], 1)


def test_few_places_are_not_joined():
    (loops,) = plain(beside, 15, 8)
    assert "join" not in " ".join(planned(loops).steps)


def test_loops_over_other_indices_stay():
    for loops in plain(below, 40, 8):
        with pytest.raises(UserError, match="no 1 loops over the same indices"):
            apply(loops, [Join(WHOLE)])
