"""Open sizes in full: one compile serves every size, through whatever the language offers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from tests.road import interpreted, normal

SIZES = ((1, 1), (2, 3), (7, 5), (31, 1), (1, 17), (67, 129))
EMPTY = ((0, 3), (3, 0), (0, 0))
Case = tuple[Callable[..., Any], Any, Callable[[int, int], tuple[Any, ...]]]
CASES: dict[str, Case] = {}


def case(dynamic: Any, draw: Callable[[int, int], tuple[Any, ...]]) -> Any:
    """Register a function, which of its sizes are open, and arguments for two sizes."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        CASES[f.__name__] = (f, dynamic, draw)
        return f

    return register


def f64(*shape: int) -> Any:
    return normal(*shape, dtype=np.float64)


@case({"x": "A,B", "y": "B"}, lambda a, b: (f64(a, b), f64(b)))
def several_symbols(x: Any, y: Any) -> Any:
    return dlvm.tanh(x * y + 1.0).sum(0), (x @ y).sum()


@case({"x": "2*A+1,B"}, lambda a, b: (f64(2 * a + 1, b),))
def arithmetic_between_them(x: Any) -> Any:
    return x[::2].sum(0) - x[1::2].sum(0), x.shape[0] * x.shape[1] + x.sum()


@case({"x": "A,B"}, lambda a, b: (f64(a, b),))
def quotients_and_rests(x: Any) -> Any:
    half, rest = x.shape[0] // 2, x.shape[1] % 3
    return x[:half], x[half:], x[:, rest:], dlvm.zeros((half + rest, 2))


@case({"x": "A,B"}, lambda a, b: (f64(a, b),))
def reshapes_with_inferred_sizes(x: Any) -> Any:
    return x.reshape(-1), x.T.reshape((-1, 1)), dlvm.tanh(x)[None].reshape((1, -1)).sum()


@case({"x": "A,4,B"}, lambda a, b: (f64(a, 4, b),))
def reshapes_that_split_and_join(x: Any) -> Any:
    a, _, b = x.shape
    joined = x.reshape((a * 4, b))
    return joined, joined.reshape((a, 2, 2, b)), x.sum(2).reshape((2, -1, 2))


@case({"x": "A,3", "y": "B,3"}, lambda a, b: (f64(a, 3), f64(b, 3)))
def joins(x: Any, y: Any) -> Any:
    both = dlvm.concat([x, y, x])
    return both, both.sum(0), dlvm.stack([x, x + 1.0], axis=1)


@case({"x": "A,B"}, lambda a, b: (f64(a, b),))
def pads(x: Any) -> Any:
    return np.pad(x, ((1, 2), (0, 3))), np.pad(x, ((x.shape[1], 0), (1, 1))).sum(1)


@case({"x": "A,B"}, lambda a, b: (f64(a + 2, b + 2),))
def slices(x: Any) -> Any:
    return x[1:-1, ::-1], x[-2:], x[:, :-2], x[0], x[..., -1]


@case({"x": "A,B", "y": "B,A"}, lambda a, b: (f64(a, b), f64(b, a)))
def einsums(x: Any, y: Any) -> Any:
    return np.einsum("ij,jk->ik", x, y), np.einsum("ij,ji->", x, y), np.einsum("ij->j", x)


@case({"x": "A,B"}, lambda a, b: (f64(a, b),))
def scans(x: Any) -> Any:
    return dlvm.scan(lambda c, row: (dlvm.sin(c) + row, c * row), x.sum(0) * 0.0, x)


@case({"x": "A,B"}, lambda a, b: (f64(a, b),))
def loops_and_branches(x: Any) -> Any:
    grown = dlvm.fori_loop(0, x.shape[0], lambda i, c: c * 0.5 + x.sum(0), x.sum(0))
    chosen = dlvm.cond(x.sum() > 0, lambda v: v * 2.0, lambda v: v - 1.0, x)
    return grown, chosen, dlvm.while_loop(lambda c: c.sum() > 1.0, lambda c: c * 0.5, x * x)


@case({"x": "A,B", "y": "B"}, lambda a, b: (f64(a, b), f64(b)))
def batches(x: Any, y: Any) -> Any:
    row = dlvm.vmap(lambda r: dlvm.tanh(r * y).sum() + r)
    return row(x), dlvm.vmap(lambda c: c.sum() * c, in_axes=1, out_axes=1)(x)


@case({"x": "A,B", "w": "B,4"}, lambda a, b: (f64(a, b), f64(b, 4)))
def gradients(x: Any, w: Any) -> Any:
    def loss(w: Any) -> Any:
        rows = dlvm.scan(lambda c, r: (dlvm.tanh(c + r @ w), c), x.sum() * 0 + w.sum(0), x)[1]
        return (rows * rows).sum() + dlvm.nn.softmax(x @ w).sum()

    return dlvm.grad(loss)(w), dlvm.jvp(loss, (w,), (w,))[1]


@case({"x": "A,B"}, lambda a, b: (f64(a, b),))
def second_order(x: Any) -> Any:
    f = lambda v: (dlvm.sin(v) * v).sum()  # noqa: E731
    return dlvm.vmap(dlvm.grad(lambda r: dlvm.grad(f)(r).sum()))(x)


@case({"x": "A,B", "i": "A"}, lambda a, b: (f64(a, b), np.zeros(a, np.int64)))
def gathers_and_orders(x: Any, i: Any) -> Any:
    return dlvm.sort(x, axis=1), dlvm.cumulative_sum(x, axis=0), dlvm.at(x, i).add(1.0, mode="drop")


@case(True, lambda a, b: (f64(a, 3), f64(a)))
def leading_axes(x: Any, y: Any) -> Any:
    return x.mean(1), x.T @ x, y * 2.0


@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_every_size(name: str):
    f, dynamic, draw = CASES[name]
    opened = dlvm.function(f, dynamic=dynamic)
    for a, b in (*SIZES, *EMPTY):
        args = draw(a, b)
        leaves = zip(dlvm.tree.leaves(opened(*args)), interpreted(f, *args), strict=True)
        for found, right in leaves:
            assert np.shape(found) == np.shape(right)
            np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)
    assert len(opened.explain().compiles) == 1


def test_a_row_that_is_kept_goes_through_one_kernel_whatever_its_length():
    def norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / dlvm.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    x = normal(4, 6)
    fixed = dlvm.function(norm).compile(x)
    opened = dlvm.function(norm, dynamic={"x": "N,M"}).compile(x)
    assert opened.report.kernels == fixed.report.kernels == 1


def test_columns_are_folded_in_pieces_of_any_length():
    opened = dlvm.function(lambda x: (x.sum(0), x.max(0)), dynamic={"x": "N,M"})
    for n in (1, 7, 600):
        for m in (0, 1, 63, 511, 512, 513, 1100):
            x = normal(n, m)
            found = opened(x)
            fixed = dlvm.function(lambda x: (x.sum(0), x.max(0)))(x)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(found, fixed, strict=True))


WRONG: list[tuple[Callable[..., Any], Any, tuple[Any, ...], tuple[str, ...]]] = [
    (
        lambda x, y: x + y,
        {"x": "A", "y": "B"},
        (normal(3), normal(3)),
        ("A", "B", "x", "y"),
    ),
    (lambda x, y: x @ y, {"x": "A,B", "y": "C,A"}, (normal(3, 3), normal(3, 3)), ("B", "C")),
    (lambda x: x.reshape((5, -1)), {"x": "A,3"}, (normal(5, 3),), ("A", "5")),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_an_error_names_the_equation_that_does_not_hold(wrong: Any):
    f, dynamic, args, names = wrong
    with pytest.raises(UserError) as caught:
        dlvm.function(f, dynamic=dynamic)(*args)
    text = str(caught.value)
    assert all(re.search(rf"\b{name}\b", text) for name in names), text


@pytest.mark.parametrize(
    ("dynamic", "shapes", "patterns"),
    [
        ({"x": "B,4", "y": "B"}, ((3, 4), (5,)), ("B", "x", "y", "3", "5")),
        ({"x": "2*B+1", "y": "B"}, ((4,), (2,)), (r"2\*B\+1", "x", "4")),
        ({"x": "B,B", "y": "B"}, ((3, 4), (3,)), ("B", "x", "3", "4")),
    ],
)
def test_a_call_that_fits_no_size_names_the_arguments_where_both_sides_come_from(
    dynamic: Any, shapes: Any, patterns: Any
):
    f = dlvm.function(lambda x, y: x.sum() + y.sum(), dynamic=dynamic)
    with pytest.raises(UserError) as caught:
        f(*(normal(*s) for s in shapes))
    assert all(re.search(p, str(caught.value)) for p in patterns), str(caught.value)
