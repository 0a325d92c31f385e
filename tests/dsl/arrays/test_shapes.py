"""Shapes as NumPy gives them: a new shape with and without a copy, shapes that stretch."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ArgumentError, ShapeError

X = np.arange(12.0).reshape(3, 4)
VIEWS = {
    "whole": lambda x: x,
    "rows": lambda x: x[1:],
    "columns": lambda x: x[:, 1:3],
    "every second row": lambda x: x[::2],
    "turned": lambda x: x.T,
    "no elements": lambda x: x[:0],
    "one element": lambda x: x[:1, :1],
}
SHAPES = (-1, (2, -1), (1, -1, 1), (-1, 2), ())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("copy", [None, True, False])
def test_a_shape_is_copied_where_numpy_copies_it(shape, view, copy):
    part = VIEWS[view](X)
    try:
        wanted = part.reshape(shape)
    except ValueError:
        with pytest.raises(ValueError, match="reshape"):
            dlvm.reshape(part, shape, copy=copy)
        return

    def write(x):
        whole = x.copy()
        found = dlvm.reshape(VIEWS[view](whole), shape, copy=copy)
        found[...] = 7.0
        return whole, found

    apart = part.size > 0 and not np.may_share_memory(part, wanted)
    if copy is False and apart:
        for call in (
            lambda: dlvm.reshape(part, shape, copy=False),
            lambda: dlvm.function(write)(X),
        ):
            with pytest.raises(ArgumentError, match="without a copy"):
                call()
        return
    found = dlvm.reshape(part, shape=shape, copy=copy)
    assert np.array_equal(found, wanted) and found.shape == wanted.shape
    assert np.may_share_memory(found, X) == (part.size > 0 and not apart and copy is not True)
    meant = X.copy()
    kept = VIEWS[view](meant).reshape(shape)
    kept = kept.copy() if copy else kept
    kept[...] = 7.0
    for one, other in zip(dlvm.function(write)(X), (meant, kept), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("order", ["C", "A"])
def test_an_order_that_is_that_of_rows_changes_nothing(order):
    f = dlvm.function(lambda x: (x.reshape(2, 6, order=order), np.reshape(x, (2, 6), order=order)))
    assert all(np.array_equal(r, X.reshape(2, 6)) for r in f(X))


def test_columns_may_come_first():
    f = dlvm.function(
        lambda x: (x.reshape(2, -1, order="F"), np.ravel(x, order="F"), x.T.ravel("A"))
    )
    expected = X.reshape(2, 6, order="F"), X.ravel("F"), X.T.ravel("A")
    assert all(map(np.array_equal, f(X), expected))


def test_an_order_that_there_is_not_is_named():
    with pytest.raises(ArgumentError, match="expected order='C' or 'F' or 'A', found 'K'"):
        dlvm.function(lambda x: x.reshape((2, 6), order="K"))(X)


SEVERAL = [(), ((2, 3),), ((2, 1), (3,)), ((), (0,), (1,)), ((4, 1, 3), (5, 1), 3)]


@pytest.mark.parametrize("shapes", SEVERAL, ids=str)
def test_shapes_stretch_as_numpys_do(shapes):
    assert dlvm.broadcast_shapes(*shapes) == np.broadcast_shapes(*shapes)


def test_shapes_that_do_not_stretch_are_an_error_and_symbols_stretch():
    with pytest.raises(ShapeError):
        dlvm.broadcast_shapes((2,), (3,))

    def f(x, y):
        return dlvm.zeros(dlvm.broadcast_shapes(x.shape, y.shape, (1, 1)))

    assert dlvm.function(dynamic=True)(f)(np.ones(3), np.ones((2, 1))).shape == (2, 3)
