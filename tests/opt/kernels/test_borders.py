"""``explain()`` says what goes through memory between kernels, and why."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import dlvm
from dlvm.dsl.call.explain import SHOWN
from dlvm.ir import Module
from dlvm.ops import Kernel
from dlvm.opt.kernels.borders import borders

X, W = np.ones((8, 5), np.float32), np.ones((5, 3), np.float32)


def one_kernel(x):
    return (np.tanh(x) + 1).sum(axis=1)


def into_a_product(x, w):
    h = np.tanh(x)  # first
    return h @ w  # second


def out_of_a_product(x, w):
    h = x @ w  # first
    return h.max(axis=0)  # second


def into_a_sort(x):
    h = np.tanh(x)  # first
    return np.sort(h, axis=1)  # second


def into_a_scan_along_rows(x):
    h = np.tanh(x)  # first
    return np.cumsum(h, axis=1)  # second


def into_a_scan_across_rows(x):
    h = x * np.tanh(x).sum(axis=1)[:, None]  # first
    return np.cumsum(h, axis=0)  # second


def along_other_axes(x):
    s = x.sum(axis=1, keepdims=True)  # first
    h = x / s + 1  # second
    return (h * h.sum(axis=0)).sum(axis=0)


def beside_another(x, w, n):
    """The first two lines are one kernel without being of each other."""
    h = np.tanh(x)  # first
    n = n + 1
    return h @ w, n  # second


@pytest.mark.parametrize(
    "fn, args, type_, why",
    [
        (into_a_product, (X, W), "f32[8,5]", "a product starts a kernel"),
        (out_of_a_product, (X, W), "f32[8,3]", "element-wise operations of its shape only"),
        (into_a_sort, (X,), "f32[8,5]", "a sort or a search is a kernel of its own"),
        (into_a_scan_along_rows, (X,), "f32[8,5]", "along the last axis is a kernel of its own"),
        (into_a_scan_across_rows, (X,), "f32[8,5]", "takes element-wise operations of its"),
        (along_other_axes, (X,), "f32[8]", "no one nest of loops"),
        (beside_another, (X, W, 3), "f32[8,5]", "a product starts a kernel"),
    ],
)
def test_a_value_between_two_kernels_is_listed_with_both_lines(fn, args, type_, why):
    staged = dlvm.function(fn)
    staged(*args)
    found = [line for line in staged.explain().refused if why in line and type_ in line]
    lines, start = inspect.getsourcelines(fn)
    first, second = (
        next(f"test_borders.py:{start + i}" for i, text in enumerate(lines) if mark in text)
        for mark in ("# first", "# second")
    )
    assert any(f"from {first} to {second}: " in line for line in found), staged.explain().refused
    assert "refused fusions, which go through memory:" in str(staged.explain())


def test_of_many_the_first_are_shown_unless_all_are_asked_for():
    def deep(x, ws):
        for w in ws:
            x = np.tanh(x @ w)
        return x

    staged = dlvm.function(deep)
    staged(np.ones((4, 1)), [np.ones((n, n + 1)) for n in range(1, 15)])
    explained = staged.explain()
    refused = explained.refused
    assert len(refused) > SHOWN
    text, whole = str(explained), explained.text(whole=True)
    shown = sum(line in text for line in refused)
    assert SHOWN - 2 <= shown <= SHOWN
    assert f"{len(refused)} refused fusions" in text and f"and {len(refused) - shown} more" in text
    assert all(line in whole for line in refused) and "more:" not in whole
    assert refused[shown - 1] in text and refused[shown] not in text


def test_what_moves_most_bytes_is_the_first_and_trips_of_a_loop_count():
    def f(x, w, big):
        small = dlvm.scan(lambda c, _: (np.tanh(np.tanh(c) @ w) @ w.T, None), x, None, length=3)[0]
        return small, np.tanh(big @ big) @ big

    staged = dlvm.function(f)
    args = np.ones((4, 2)), np.ones((2, 2)), np.ones((30, 30))
    found = borders(staged.compile(*args).road.kernels)
    moved = [border.bytes for border in found]
    assert moved == sorted(moved, reverse=True) and moved[0] == 2 * 30 * 30 * 8
    assert moved[-1] == 2 * 4 * 2 * 8 * 3
    assert str(found[0]).endswith("(14.1 KiB)")
    opened = dlvm.function(into_a_product).compile(dlvm.spec("f32[N,5]"), W)
    (border,) = borders(opened.road.kernels)
    assert "N" in border.moved and border.moved.endswith(" bytes")


def test_guards_are_shown_by_names():
    staged = dlvm.function(into_a_product)
    staged(X, W)
    assert "np = the module numpy" in str(staged.explain())
    outer = dlvm.function(lambda x: one_kernel(x))
    outer(X)
    assert "one_kernel = tests.opt.kernels.test_borders.one_kernel" in str(outer.explain())
    assert "weakref" not in str(outer.explain())


def test_one_kernel_refuses_nothing():
    staged = dlvm.function(one_kernel)
    staged(X)
    assert staged.explain().refused == ()
    assert "refused" not in str(staged.explain())


def test_functions_that_no_longer_run_refuse_nothing():
    staged = dlvm.function(lambda x, w: dlvm.grad(lambda w: into_a_product(x, w).sum())(w))
    staged(X, W)
    made = staged.compile(X, W).road.kernels
    assert len(made.functions) > 1
    assert len(staged.explain().refused) == len(borders(Module((made.main,))))


def test_as_many_lines_as_values_between_kernels():
    """Inside of loops as well."""

    def f(x, w):
        return dlvm.scan(lambda c, _: (np.tanh(np.tanh(c) @ w) @ w.T, None), x, None, length=3)[0]

    staged = dlvm.function(f)
    staged(X, W)
    made = staged.compile(X, W).road.kernels
    (loop,) = (op for fn in made.functions for op in fn.ops if op.regions and op.name == "scan")
    kernels = [op for op in loop.regions["body"].ops if isinstance(op, Kernel)]
    assert len(kernels) == 3 and len(staged.explain().refused) == 2
