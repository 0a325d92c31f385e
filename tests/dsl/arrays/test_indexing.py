"""Random index expressions read and written as NumPy does, in every placement that it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dlvm
from dlvm.base.errors import TraceError, UserError


def axis_items(size: int) -> st.SearchStrategy[Any]:
    bound = st.none() | st.integers(-size - 2, size + 2)
    steps = st.none() | st.sampled_from([1, 2, 3, -1, -2, -3])
    slices = st.builds(slice, bound, bound, steps)
    return slices | st.integers(-size, size - 1) if size else slices


KINDS = ("basic", "basic", "array", "array", "mask", "new")


@st.composite
def array_for(draw: Any, size: int, shape: tuple[int, ...]) -> np.ndarray:
    rank = draw(st.integers(0, len(shape)))
    sizes = [d if draw(st.booleans()) else 1 for d in shape[len(shape) - rank :]]
    if not size:
        sizes = [0]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return rng.integers(-size, max(size, 1), sizes)


@st.composite
def indexed(
    draw: Any, kinds: Any = KINDS, masked: bool = False
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and an index into it of integers, slices, new axes, an ellipsis, arrays, a mask.

    Where it is to be ``masked`` there is a mask.
    """
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)))
    common = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    used = draw(st.integers(int(masked), len(shape)))
    before = draw(st.integers(0, used)) if draw(st.booleans()) else used
    axes = [*range(before), *range(len(shape) - used + before, len(shape))]
    items: list[Any] = [] if before else [Ellipsis]
    while axes:
        axis = axes.pop(0)
        last = masked and not axes and not any(map(is_mask, items))
        kind = "mask" if last else draw(st.sampled_from(kinds))
        if kind == "new":
            items.append(None)
        if kind == "array":
            items.append(draw(array_for(shape[axis], common)))
        elif kind == "mask" and not any(is_mask(i) for i in items):
            rng = np.random.default_rng(draw(st.integers(0, 99)))
            more = axes[:1] if axes[:1] == [axis + 1] and draw(st.booleans()) else []
            axes = axes[len(more) :]
            items.append(rng.random([shape[a] for a in (axis, *more)]) < 0.5)
        else:
            items.append(draw(axis_items(shape[axis])))
        if before < used and len(axes) == used - before:
            items.append(Ellipsis)
    return shape, tuple(items)


def is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == bool


def picked(shape: tuple[int, ...], index: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Elements that are all different, and what NumPy picks of them; else the draw is no index."""
    x = np.arange(float(np.prod(shape))).reshape(shape)
    try:
        return x, np.asarray(x[index])
    except IndexError:
        assume(False)
        raise


@pytest.fixture(scope="module", autouse=True)
def by_the_interpreter():
    """What is traced is at stake; machine code has its turn below."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLVM_INTERPRET", "1")
        yield


def apart(index: tuple[Any, ...]) -> tuple[list[np.ndarray], Any]:
    """The integer arrays of an index, and what puts it together from others in their place."""
    arrays = [i for i in index if isinstance(i, np.ndarray) and not is_mask(i)]

    def joined(given: Any) -> tuple[Any, ...]:
        rest = iter(given)
        return tuple(
            next(rest) if isinstance(i, np.ndarray) and not is_mask(i) else i for i in index
        )

    return arrays, joined


@settings(max_examples=250, deadline=None)
@given(indexed())
def test_what_is_read_is_what_numpy_reads(drawn: Any):
    shape, index = drawn
    x, expected = picked(shape, index)
    arrays, joined = apart(index)
    found = dlvm.function(lambda x, *i: x[joined(i)])(x, *arrays)
    assert found.shape == expected.shape, (index, found.shape, expected.shape)
    assert np.array_equal(found, expected), index
    assert np.array_equal(dlvm.at(x, index).get(), expected), index


@settings(max_examples=250, deadline=None)
@given(indexed(), st.data())
def test_what_is_assigned_is_what_numpy_assigns(drawn: Any, data: Any):
    shape, index = drawn
    x, part = picked(shape, index)
    arrays, joined = apart(index)
    rank = data.draw(st.integers(0, part.ndim))
    sizes = [d if data.draw(st.booleans()) else 1 for d in part.shape[part.ndim - rank :]]
    v = -1.0 - np.arange(float(np.prod(sizes))).reshape(sizes)

    def program(x: Any, v: Any, *i: Any) -> Any:
        a, b = x.copy(), x.copy()
        a[joined(i)] = v
        b[joined(i)] += v
        return a, b

    expected = program(x, v, *arrays)
    for found, wanted in zip(dlvm.function(program)(x, v, *arrays), expected, strict=True):
        assert np.array_equal(found, wanted), (index, v.shape)


@settings(max_examples=60, deadline=None)
@given(indexed(), st.sampled_from(["add", "mul", "min", "max"]))
def test_each_way_to_combine_and_its_gradient(drawn: Any, way: str):
    shape, index = drawn
    x, part = picked(shape, index)
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=shape), rng.normal(size=part.shape)
    weights = rng.normal(size=shape)
    ufunc = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[way]

    def f(x: Any, v: Any) -> Any:
        return (getattr(dlvm.at(x, index), way)(v) * weights).sum()

    def plain(x: np.ndarray, v: np.ndarray) -> float:
        out = x.copy()
        ufunc.at(out, index, v)
        return float((out * weights).sum())

    np.testing.assert_allclose(dlvm.function(f)(x, v), plain(x, v), rtol=1e-12)
    for wrt in (0, 1):
        found, (args, h) = dlvm.grad(f, wrt=wrt)(x, v), ((x, v), 1e-6)
        direction = rng.normal(size=args[wrt].shape)
        ends = [
            [a + s * h * direction if i == wrt else a for i, a in enumerate(args)] for s in (1, -1)
        ]
        slope = (plain(*ends[0]) - plain(*ends[1])) / (2 * h)
        np.testing.assert_allclose((found * direction).sum(), slope, rtol=1e-5, atol=1e-6)


@settings(max_examples=80, deadline=None)
@given(indexed(("basic", "array", "new")))
def test_open_sizes_read_as_numpy_does(drawn: Any):
    """One program for all sizes, for each axis that a mask does not fix."""
    shape, index = drawn
    x, expected = picked(shape, index)
    arrays, joined = apart(index)
    letters = ",".join("NMKL"[: len(shape)])
    opened = dlvm.function(dynamic={"x": letters})(lambda x, i: x[joined(i)])
    assert np.array_equal(opened(x, tuple(arrays)), expected), index


@settings(max_examples=60, deadline=None)
@given(indexed(("mask", "basic", "new"), masked=True), st.data())
def test_a_mask_that_is_not_known_takes_one_value(drawn: Any, data: Any):
    shape, index = drawn
    x, part = picked(shape, index)
    (mask,) = (i for i in index if is_mask(i))
    by_rows = part.ndim > 1 and isinstance(index[-1], slice)
    row = -np.arange(float(part.shape[-1] if by_rows else 1))

    def program(x: Any, mask: Any) -> Any:
        a, b = x.copy(), x.copy()
        place = tuple(mask if is_mask(i) else i for i in index)
        a[place] = 7
        b[place] = row
        return a, b

    for found, wanted in zip(dlvm.function(program)(x, mask), program(x, mask), strict=True):
        assert np.array_equal(found, wanted), index


def test_a_batch_of_indices_is_walked_together():
    rng = np.random.default_rng(0)
    x, i, j = rng.normal(size=(5, 3, 4)), rng.integers(-3, 3, (5, 2)), rng.integers(-4, 4, (5, 2))

    def picked_of(x, i, j):
        return x[i, j], x[:, j], dlvm.at(x, (i, j)).mul(2.0), dlvm.at(x, i).max(0.5)

    for axes in ((0, 0, 0), (None, 0, 0), (0, None, None), (0, 0, None)):
        xs = x[0] if axes[0] is None else x
        js = j[0] if axes[2] is None else j
        is_ = i[0] if axes[1] is None else i
        found = dlvm.vmap(picked_of, in_axes=axes)(xs, is_, js)
        for b in range(5):
            one = [a if n is None else a[b] for a, n in zip((xs, is_, js), axes, strict=True)]
            for together, alone in zip(found, dlvm.function(picked_of)(*one), strict=True):
                np.testing.assert_array_equal(together[b], alone)


def test_no_index_is_a_loop_in_a_batch():
    """Batching writes no loop, and no gather of more than is picked."""
    module = dlvm.trace(
        lambda x, i, j: dlvm.vmap(lambda x, i, j: x[i, j])(x, i, j),
        dlvm.spec("f32[5,30,40]"),
        dlvm.spec("i64[5,2]"),
        dlvm.spec("i64[5,2]"),
    )
    text = str(module.optimize())
    assert "scan" not in text and "while" not in text
    assert "f32[5,2,40]" not in text and "f32[5,30,2]" not in text


def test_machine_code_reads_and_writes_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLVM_INTERPRET", "")
    rng = np.random.default_rng(1)
    x, i, j = rng.normal(size=(4, 5, 6)), np.array([1, -1, 1]), np.array([[0], [-2]])
    mask = rng.random((5, 6)) < 0.4

    def program(x, i, j, mask):
        a, b, c = x.copy(), x.copy(), x.copy()
        a[i, :, j] = 1.5
        b[:, mask] = 0
        b[2, ::-2, i] += 3
        c[i] *= 2
        return a, b, c, x[:, i, j], x[i, 1, ::-1], x[..., i, None], x[j, :, i]

    found = dlvm.function(program)(x, i, j, mask)
    for one, expected in zip(found, program(x, i, j, mask), strict=True):
        assert np.array_equal(one, expected)


def test_a_mask_of_unknown_elements_is_not_read():
    with pytest.raises(TraceError, match=r"(?s)size is not known while tracing.*where=mask"):
        dlvm.function(lambda x: x[x > 0])(np.ones(3))


def test_a_captured_mask_is_read_and_another_one_compiles_again():
    mask = np.array([True, False, True])
    f = dlvm.function(lambda x: x[mask])
    assert f(np.arange(3.0)).tolist() == [0, 2]
    mask[:] = [False, True, False]
    assert f(np.arange(3.0)).tolist() == [1]


@pytest.mark.parametrize("index", [[True, False], ([True, False, True, True],)])
def test_a_mask_of_another_size_is_refused(index: Any):
    with pytest.raises(UserError, match=r"mask bool\[\d\] does not fit"):
        dlvm.function(lambda x: x[index])(np.ones(3))


def test_a_step_backwards_along_an_open_axis():
    for cut in (slice(None, None, -1), slice(3, None, -1), slice(None, 1, -2), slice(-2, 0, -1),
                slice(5, -4, -3), slice(0, 3, -1), slice(-1, -9, -2)):  # fmt: skip
        opened = dlvm.function(dynamic={"x": "B"})(lambda x, cut=cut: x[cut])
        for n in (0, 1, 2, 5, 8):
            x = np.arange(float(n))
            assert np.array_equal(opened(x), x[cut]), (cut, n)


TRUTHS = [True, False, np.True_, np.bool_(False), np.asarray(True), np.asarray(False)]


def _around(m: Any) -> list[tuple[Any, Any]]:
    """Indices with a mask of no axes, and values that NumPy takes there."""
    row = np.array([7.0, 8.0, 9.0])
    of_one = [m, (m, 0), (slice(None), m), (0, m), (m, 1, 2), (..., m)]
    of_rows = [m, (m, slice(1, None)), (None, m)]
    return [*((i, 50.0) for i in of_one), *((i, row) for i in of_rows), (m, row[None, None])]


@pytest.mark.parametrize("at", range(10))
def test_a_mask_of_no_axes_writes_all_or_nothing(at: int):
    x = np.arange(6.0).reshape(2, 3)

    def write(x: Any, m: Any) -> Any:
        index, value = _around(m)[at]
        x = x.copy()
        x[index] = value
        return x

    staged = dlvm.function(write)
    slope = dlvm.function(dlvm.grad(lambda x, m: (write(x, m) * x).sum()))
    for truth in TRUTHS:
        wanted = write(x, bool(truth))
        assert np.array_equal(dlvm.function(lambda x, m=truth: write(x, m))(x), wanted), truth
        assert np.array_equal(staged(x, np.asarray(truth)), wanted), truth
        kept = wanted == x
        assert np.array_equal(slope(x, np.asarray(truth)), wanted + x * kept)


def test_a_mask_of_no_axes_reads_all_and_what_it_can_not_read_is_an_error():
    x = np.arange(3.0)
    f = dlvm.function(lambda x: (x[True], x[np.True_, 1:], x[..., None, True]))
    wanted = (x[None], x[None, 1:], x[..., None, None])
    assert all(np.array_equal(a, b) for a, b in zip(f(x), wanted, strict=True))
    with pytest.raises(UserError, match="not known while tracing"):
        dlvm.function(lambda x: x[x[0] > 1])(x)
    with pytest.raises(UserError, match=r"dlvm.zeros\(\(0, \*x.shape\), dtype=x.dtype\)"):
        dlvm.function(lambda x: x[False])(x)
    made = dlvm.function(lambda x: dlvm.zeros((0, *x.shape), dtype=x.dtype))(x)
    assert made.shape == x[False].shape and made.dtype == x.dtype


@pytest.mark.parametrize(
    "index",
    [slice(None), ..., 0, np.array([0, 2]), np.array([True, False, True]), (slice(None), [1])],
    ids=str,
)
def test_leading_ones_of_what_is_assigned_are_dropped(index: Any):
    def f(x, y):
        y = y + 0
        y[index] = x[None, None, None, :, None][..., 0][..., : y[index].shape[-1]]
        return y

    x, y = np.array([1.0, 2.0, 3.0]), np.zeros((3, 3))
    np.testing.assert_array_equal(dlvm.function(f)(x, y), f(x, y))
    set_ = dlvm.function(lambda x: dlvm.zeros(3).at[:].set(x[None, None]))
    np.testing.assert_array_equal(set_(x), x)
