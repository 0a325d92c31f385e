"""What is a view and what is a copy is decided as in NumPy, by the strides that NumPy has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import TraceError
from dlvm.dsl.words.layout import Layout, Ordered, Viewed, kept_order, layout, regrouped
from dlvm.dsl.words.views import Reordered
from tests.dsl.arrays.views import draw
from tests.running import seed

PROGRAMS = 500
PARTS = 10


@pytest.fixture(autouse=True)
def by_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is traced is at stake here, not machine code."""
    monkeypatch.setenv("DLVM_INTERPRET", "1")


@pytest.mark.drawn(3)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_of_views_do_as_numpy_does(part: int):
    for i in range(part, PROGRAMS, PARTS):
        program = draw(seed() * PROGRAMS + i)
        assert program.failure() is None, f"{program.reduced()}\n{program.failure()}"


# -- the rules against NumPy -----------------------------------------------------------------------


def some_array(rng: np.random.Generator, shape: Any = None) -> np.ndarray:
    """An array of few elements with strides of any kind."""
    sizes = shape or rng.choice([1, 2, 3], int(rng.integers(1, 5)))
    perm = rng.permutation(len(sizes))
    steps = rng.choice([1, 1, 1, 2, -1], len(sizes))
    whole = np.zeros([int(d * abs(s)) for d, s in zip(sizes, steps, strict=True)])
    whole = np.zeros([whole.shape[i] for i in perm]).transpose(np.argsort(perm))
    return whole[tuple(slice(None, None, int(s)) for s in steps)]


def layout_of(x: np.ndarray) -> Layout:
    return Layout(x.shape, tuple(s // x.itemsize for s in x.strides))


def along_several(x: np.ndarray, strides: Any) -> list[int]:
    """The strides along axes of two elements or more; others mean nothing."""
    return [int(s) for d, s in zip(x.shape, strides, strict=True) if d > 1]


def test_orders_are_numpys():
    rng = np.random.default_rng(seed())
    for _ in range(300):
        x = some_array(rng)
        lies = layout_of(x)
        assert lies.row_major == x.flags.c_contiguous
        assert lies.column_major == x.flags.f_contiguous
        marked = np.arange(x.size).reshape(x.shape)
        x[...] = marked
        for order in "CFAK":
            found = marked.transpose(lies.reading_order(order)).ravel()
            assert np.array_equal(found, x.ravel(order)), (order, x.shape, x.strides)


def test_a_result_lies_in_the_order_of_its_operands():
    rng = np.random.default_rng(seed())
    for _ in range(300):
        x = some_array(rng)
        y = some_array(rng, x.shape[int(rng.integers(0, x.ndim)) :])
        found = kept_order(x.shape, [layout_of(x), layout_of(y)])
        expected = x + y
        strides = [s // 8 for s in expected.strides]
        assert along_several(x, found) == along_several(x, strides), (x.strides, y.strides)


def test_a_shape_is_a_view_where_strides_reach():
    rng = np.random.default_rng(seed())
    for _ in range(300):
        x = some_array(rng)
        shape = (*rng.permutation(x.shape), 1)
        found = regrouped(x.shape, layout_of(x).strides, tuple(int(d) for d in shape))
        expected = x.reshape(shape)
        assert (found is not None) == np.shares_memory(x, expected)
        if found is not None:
            strides = [s // 8 for s in expected.strides]
            assert along_several(expected, found) == along_several(expected, strides)


# -- by hand ---------------------------------------------------------------------------------------


def same(program: Any, *arrays: np.ndarray) -> None:
    staged, plain = dlvm.function(program)(*arrays), program(*(a.copy() for a in arrays))
    for found, expected in zip(staged, plain, strict=True):
        assert np.array_equal(found, expected), (found, expected)


X = np.arange(12.0).reshape(4, 3)


def test_an_element_is_a_view_where_the_index_has_an_ellipsis():
    def program(x: Any) -> Any:
        y = x.copy()
        v, scalar = y[0, 1, ...], y[2, 2]
        v[...] = 7
        w = v
        w += 1
        scalar += 100
        y[2, 2] = 5
        return y, v, scalar

    same(program, X)


def test_an_array_without_axes_is_no_scalar():
    def program(x: Any) -> Any:
        total, last = np.zeros_like(x[0, 0, ...]), x[3, 2]
        alias, other = total, last
        total += 3
        last += 3
        view = total.reshape(1)
        view[0] += 10
        return alias, total, view, last, other, np.where(last > 0, total, 0.0)

    same(program, X)


def test_a_vector_of_every_other_element_is_copied_by_ravel_and_not_by_reshape():
    def program(x: Any) -> Any:
        y = x[:, 0].copy()
        raveled, reshaped = y[::2].ravel(), y[::2].reshape(-1)
        raveled[0], reshaped[1] = 50, 60
        return y, raveled, reshaped

    same(program, X)


def test_a_copy_of_part_of_an_argument_may_be_assigned_into():
    def program(x: Any) -> Any:
        columns = x.T.ravel()
        columns[0] = 9
        return columns, x

    same(program, X)


@pytest.mark.parametrize(
    "take",
    [
        lambda y: np.broadcast_to(y, (2, 4, 3)),
        lambda y: np.broadcast_arrays(y, np.ones((2, 1, 1)))[0],
        lambda y: np.diagonal(y),
        lambda y: np.diag(y),
        lambda y: np.lib.stride_tricks.sliding_window_view(y, 2, 0),
    ],
)
def test_what_is_read_only_shows_later_writes(take: Any):
    def program(x: Any) -> Any:
        y = x.copy()
        view = take(y)
        y[1, 1] = 70
        return y, view, view.reshape(-1)

    same(program, X)

    def wrong(x: Any) -> Any:
        view = take(x.copy())
        view[0] = 1
        return view

    with pytest.raises(TraceError, match=r"read only(.|\n)*view = view\.copy\(\)"):
        dlvm.function(wrong)(X)


def test_a_captured_array_has_its_own_strides():
    captured = np.asfortranarray(X)

    def program(x: Any) -> Any:
        y = captured + 1
        z = y.ravel()
        z[0] = 99
        w = y.ravel("K")
        w[1] = -5
        return y, z, w

    same(program, X)


def test_strides_are_numpys():
    def program(x: Any) -> Any:
        y = (x.T + 1)[::-1, 1:]
        assert y.strides == (-8, 24)
        return y

    program(X)
    dlvm.function(program)(X)


def test_the_layout_after_a_long_program_is_found_without_recursion():
    laid: Any = Viewed((X.shape, None), Reordered((1, 0)))
    for _ in range(20_000):
        laid = Ordered(X.T.shape, [(X.T.shape, laid)])
    assert layout((X.T.shape, laid)).strides == (1, 3)


def test_nothing_is_computed_about_layouts_without_a_reshape(monkeypatch: pytest.MonkeyPatch):
    def found(self: Any) -> Any:
        raise AssertionError("a layout was asked for")

    monkeypatch.setattr(Viewed, "find", found)
    monkeypatch.setattr(Ordered, "find", found)

    def program(x: Any) -> Any:
        y = np.exp(x.T[::-1] + x[1].copy()[:, None])
        y[0] = 5
        return y.T + x, (x + 1).reshape(-1).sum()

    dlvm.function(program)(X)


# -- open sizes ------------------------------------------------------------------------------------

OPENED: list[Callable[[Any], Any]] = [
    lambda y: y[::2].ravel(),
    lambda y: y[:, ::2].ravel(),
    lambda y: y[1:].ravel(),
    lambda y: y.T.ravel(),
    lambda y: y.T.ravel(order="F"),
    lambda y: (y.T + 1).T.ravel(),
    lambda y: (y.T + y.T).ravel(order="K"),
    lambda y: y.reshape(-1)[1:],
    lambda y: y.T.reshape(-1),
    lambda y: y[:, None].reshape(-1, y.shape[1]),
    lambda y: y[..., None].T.ravel(order="A"),
    lambda y: y[0, 0, ...],
    lambda y: y.copy().T.reshape(-1, order="A"),
]


@pytest.mark.parametrize("take", OPENED)
def test_open_sizes_count_as_large(take: Callable[[Any], Any]):
    def program(x: Any) -> Any:
        y = x.copy()
        v = take(y)
        v[...] = -v
        return y, v

    opened = dlvm.function(dynamic={"x": "N,M"})(program)
    for shape in ((4, 3), (5, 8), (9, 2)):
        x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        for found, expected in zip(opened(x), program(x), strict=True):
            assert np.array_equal(found, expected)


# -- outside of staged functions -------------------------------------------------------------------

ARRAYS = {
    "rows": X,
    "columns": np.asfortranarray(X),
    "turned": X.T[::-1],
    "every other": X[::2, ::2],
    "vector": X[:, 1],
}
CALLS: dict[str, Any] = {
    "ravel": lambda xp, x: xp.ravel(x),
    **{f"ravel {o}": lambda xp, x, o=o: xp.ravel(x, order=o) for o in "CFAK"},
    "reshape": lambda xp, x: xp.reshape(x, (-1, 1)),
    "reshape F": lambda xp, x: xp.reshape(x, (-1,), order="F"),
    "transpose": lambda xp, x: xp.transpose(x),
    "broadcast_to": lambda xp, x: xp.broadcast_to(x, (2, *x.shape)),
    "diagonal": lambda xp, x: xp.diagonal(x) if x.ndim > 1 else xp.flip(x),
    "squeeze": lambda xp, x: xp.squeeze(x),
    "real": lambda xp, x: xp.real(x),
    "astype": lambda xp, x: xp.astype(x, np.float64, copy=False),
    "astype copy": lambda xp, x: xp.astype(x, np.float64),
    "asarray": lambda xp, x: xp.asarray(x),
    "copy": lambda xp, x: xp.copy(x),
    "round": lambda xp, x: xp.round(x),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_outside_of_staged_functions_share_as_numpys_do(call: str, name: str):
    x = ARRAYS[name]
    found, expected = CALLS[call](dlvm, x), CALLS[call](np, x)
    assert np.array_equal(found, expected)
    assert np.shares_memory(x, found) == np.shares_memory(x, expected)
    assert found.flags.writeable == expected.flags.writeable


def test_a_scalar_that_is_reshaped_to_no_axes_is_a_scalar():
    def program(xp: Any, y: Any) -> Any:
        scalar = y.copy()[1].reshape(())
        array = xp.asarray(scalar)
        array[array > 50] = 1
        return scalar, array

    y = np.array([1.0, 99.0])
    found = dlvm.function(lambda y: program(dlvm, y))(y)
    assert [float(x) for x in found] == [float(x) for x in program(np, y)] == [99.0, 1.0]
