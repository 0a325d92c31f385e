"""Loops over permuted and stepped arrays read each part where it lies, and give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.opt import pipelines, read_in_place
from tests.gen.values import same_bits

RANDOM = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return (RANDOM.normal(size=shape) * 0.5).astype(dtype)


def mixed(c, x):
    c = c * 0.5 + x
    return c, c.sum()


def total(xs, c):
    return dlvm.scan(mixed, c, xs)


def tanh_net(xs, u):
    def step(h, x):
        h = dlvm.tanh(h @ u + x)
        return h, h[:, 0]

    return dlvm.scan(step, dlvm.zeros((xs.shape[1], u.shape[0]), xs.dtype), xs)


def projected(xs, w):
    def step(h, x):
        h = h * 0.5 + x @ w
        return h, h[0]

    return dlvm.scan(step, dlvm.zeros((xs.shape[1], w.shape[1]), xs.dtype), xs)


def cut_and_turned(xs, c):
    def step(c, x):
        return c + x[:, :16] * x[:, 16:32] + x[:, 32:].T[:, :1] * 2, x.mean(1)

    return dlvm.scan(step, c, xs)


LOOPS = {
    "batch first": (lambda xs, c: total(xs.transpose(1, 0, 2), c), (4, 7, 16), (4, 16)),
    "reversed": (lambda xs, c: total(xs[::-1], c), (7, 4, 16), (4, 16)),
    "every third, backwards": (lambda xs, c: total(xs[::-3], c), (11, 4, 16), (4, 16)),
    "rows of any length": (lambda xs, c: total(xs[::-1], c), (7, 35), (35,)),
    "blocks of any shape": (lambda xs, c: total(xs[::-1], c), (7, 5, 9), (5, 9)),
    "columns apart": (lambda xs, c: total(xs[:, ::2], c), (7, 8, 16), (4, 16)),
    "window": (lambda xs, c: total(xs[1:, 1:, 16:], c), (8, 5, 48), (4, 32)),
    "block of rows": (lambda xs, c: total(xs[:, 1:5], c), (7, 6, 16), (4, 16)),
    "permuted window": (
        lambda xs, c: total(xs[::2, ::-2].transpose(1, 0, 2), c),
        (8, 13, 16),
        (4, 16),
    ),
    "two axes": (lambda xs, c: total(xs.transpose(2, 1, 0, 3), c), (3, 4, 5, 16), (4, 3, 16)),
    "pieces of two axes": (lambda xs, c: total(xs.swapaxes(0, 1), c), (4, 7, 4, 4), (4, 4, 4)),
    "against the loop": (
        lambda xs, c: dlvm.scan(mixed, c, xs.swapaxes(0, 1), reverse=True),
        (4, 7, 16),
        (4, 16),
    ),
    "unrolled": (
        lambda xs, c: dlvm.scan(mixed, c, xs.swapaxes(0, 1), unroll=3),
        (4, 7, 16),
        (4, 16),
    ),
    "cut in the body": (lambda xs, c: cut_and_turned(xs.swapaxes(0, 1), c), (16, 5, 48), (16, 16)),
    "added to a product": (lambda xs, u: tanh_net(xs.swapaxes(0, 1), u), (20, 7, 32), (32, 32)),
    "in a product": (lambda xs, w: projected(xs.swapaxes(0, 1), w), (20, 7, 24), (24, 33)),
    "in a small product": (lambda xs, w: projected(xs.swapaxes(0, 1), w), (3, 7, 16), (16, 2)),
    "on the right of a product": (
        lambda xs, w: dlvm.scan(
            lambda h, x: (h + w @ x, h[0]), w @ xs[:, 0] * 0, xs.swapaxes(0, 1)
        ),
        (16, 5, 20),
        (8, 16),
    ),
}
KEPT = {
    "columns": (lambda xs, c: total(xs.transpose(2, 0, 1), c), (4, 16, 7), (4, 16)),
    "short rows": (lambda xs, c: total(xs.swapaxes(0, 1), c), (4, 7, 15), (4, 15)),
    "uneven rows": (lambda xs, c: total(xs.swapaxes(0, 1), c), (4, 7, 24), (4, 24)),
    "strided rows": (lambda xs, c: total(xs.swapaxes(0, 1)[..., ::2], c), (4, 7, 32), (4, 16)),
    "given back": (
        lambda xs, c: dlvm.scan(lambda c, x: (c + x, x), c, xs.swapaxes(0, 1)),
        (4, 7, 16),
        (4, 16),
    ),
    "needed": (
        lambda xs, c: (total(xs.swapaxes(0, 1), c), xs.swapaxes(0, 1)),
        (4, 7, 16),
        (4, 16),
    ),
    "sorted": (
        lambda xs, c: (
            total(xs.swapaxes(0, 1), c)[0]
            + dlvm.scan(lambda c, x: (c + dlvm.sort(x), 0), c, xs.swapaxes(0, 1))[0]
        ),
        (4, 7, 16),
        (4, 16),
    ),
}
VIEWS = {
    "rows": (lambda xs, c: total(xs[1:6], c), (7, 4, 16), (4, 16)),
    "whole": (total, (7, 4, 16), (4, 16)),
}


def flat(f):
    return lambda *args: dlvm.tree.leaves(f(*args))


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile as if there were no such pass, and keep nothing on disk."""
    monkeypatch.setenv("DLVM_CACHE", "0")
    rest = tuple(step for step in pipelines.KERNELS if step is not read_in_place)
    assert len(rest) + 1 == len(pipelines.KERNELS)
    monkeypatch.setattr(pipelines, "KERNELS", rest)


def compiled(f: Any, args: Any, **options: Any) -> Any:
    """A new program each time, for a function is compiled once."""
    return dlvm.function(lambda xs, c: flat(f)(xs, c), **options).compile(*args)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int8, bool])
@pytest.mark.parametrize("name", [*LOOPS, *KEPT, *VIEWS])
def test_bits_are_those_of_a_program_that_copies(name: str, dtype: Any, monkeypatch):
    f, x, y = {**LOOPS, **KEPT, **VIEWS}[name]
    if dtype is bool:
        pytest.skip("a sum of bools is no bool") if "product" in name else None
        f = lambda xs, c: dlvm.scan(  # noqa: E731
            lambda c, x: (c ^ x, c.any()), c, xs.swapaxes(0, 1)
        )
        x, y = (4, 7, 64), (4, 64)
    elif np.issubdtype(dtype, np.integer):
        f = lambda xs, c: dlvm.scan(  # noqa: E731
            lambda c, x: (c * 3 + x, c.max()), c, xs.swapaxes(0, 1)
        )
        x, y = (4, 7, 64), (4, 64)
    args = [(normal(*shape) * 9).astype(dtype) for shape in (x, y)]
    if np.issubdtype(dtype, np.floating):
        args[0].flat[:4] = np.nan, np.inf, -0.0, -np.inf
    found = compiled(f, args)(*args)
    without(monkeypatch)
    for a, b in zip(found, compiled(f, args)(*args), strict=True):
        assert same_bits(a, b)


@pytest.mark.parametrize("name", LOOPS)
def test_nothing_is_copied_and_no_launch_is_added(name: str, monkeypatch):
    f, x, y = LOOPS[name]
    args = normal(*x), normal(*y)
    new = compiled(f, args)
    assert "_whole" in new.text("kernels")
    without(monkeypatch)
    old = compiled(f, args)
    assert "_whole" not in old.text("kernels")
    assert new.report.launches <= old.report.launches


@pytest.mark.parametrize("name", [*KEPT, *VIEWS])
def test_a_copy_stays_where_it_is_better_or_needed(name: str, monkeypatch):
    f, x, y = {**KEPT, **VIEWS}[name]
    args = normal(*x), normal(*y)
    assert "_whole" not in compiled(f, args).text("kernels")


def test_a_loop_of_rows_takes_no_memory_but_for_numbers():
    f = LOOPS["batch first"][0]
    report = compiled(f, (normal(64, 100, 32), normal(64, 32))).report
    assert report.launches == 2 and report.peak_bytes <= 100 * 8 + 64 * 32 * 4 + 128


OPEN = {"xs": "B,T,16", "c": "B,16"}


@pytest.mark.parametrize("name", ["batch first", "against the loop", "unrolled"])
def test_open_sizes(name: str, monkeypatch):
    f = LOOPS[name][0]
    staged = dlvm.function(lambda xs, c: flat(f)(xs, c), dynamic=OPEN)
    program = staged.compile(normal(4, 7, 16), normal(4, 16))
    assert "_whole" in program.text("kernels")
    without(monkeypatch)
    old = dlvm.function(lambda xs, c: flat(f)(xs, c), dynamic=OPEN)
    for shape in ((4, 7), (1, 1), (0, 5), (3, 0), (1, 31), (130, 3)):
        args = normal(*shape, 16), normal(shape[0], 16)
        found = staged(*args)
        for a, b in zip(found, flat(f)(*args), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
        for a, b in zip(found, old(*args), strict=True):
            assert same_bits(a, b)


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_what_is_added_to_a_product_with_an_open_number_of_trips(trips: int, monkeypatch):
    f = LOOPS["added to a product"][0]
    args, dynamic = (normal(20, trips, 32), normal(32, 32)), {"xs": "B,T,32"}
    new = compiled(f, args, dynamic=dynamic)
    assert "_whole" in new.text("kernels")
    without(monkeypatch)
    old = compiled(f, args, dynamic=dynamic)
    assert new.report.launches <= old.report.launches
    for a, b in zip(new(*args), old(*args), strict=True):
        assert same_bits(a, b)


@pytest.mark.parametrize("open_batch", [False, True])
def test_products_with_a_known_number_of_trips(open_batch: bool):
    f = LOOPS["in a product"][0]
    args = normal(20, 7, 24), normal(24, 33)
    dynamic = {"xs": "B,7,24"} if open_batch else {}
    program = dlvm.function(lambda xs, c: flat(f)(xs, c), dynamic=dynamic).compile(*args)
    assert "_whole" in program.text("kernels")
    for a, b in zip(program(*args), flat(f)(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def test_products_with_an_open_number_of_trips_read_a_copy():
    f = LOOPS["in a product"][0]
    staged = dlvm.function(lambda xs, c: flat(f)(xs, c), dynamic={"xs": "B,T,24"})
    for trips in (7, 1, 0):
        args = normal(20, trips, 24), normal(24, 33)
        for a, b in zip(staged(*args), flat(f)(*args), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    assert "_whole" not in staged.compile(*args).text("kernels")


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", [*LOOPS, *KEPT])
def test_gradients(name: str, monkeypatch):
    f, x, y = {**LOOPS, **KEPT}[name]
    args = normal(*x, dtype=np.float64), normal(*y, dtype=np.float64)

    def loss(xs, c):
        return sum((leaf**2).sum() for leaf in dlvm.tree.leaves(f(xs, c)))

    gradient = dlvm.grad(loss, wrt=(0, 1))
    found = compiled(gradient, args)(*args)
    for a, b in zip(found, flat(gradient)(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    without(monkeypatch)
    for a, b in zip(found, compiled(gradient, args)(*args), strict=True):
        assert same_bits(a, b)


def test_the_adjoint_loop_reads_where_its_operand_lies():
    def loss(xs, c):
        return (dlvm.scan(lambda c, x: (c * x, c.sum()), c, xs.swapaxes(0, 1))[0] ** 2).sum()

    args = normal(32, 40, 64), normal(32, 64)
    text = compiled(dlvm.grad(loss), args).text("kernels")
    main = text[: text.index("func @", text.index("func @") + 1)]
    assert main.count("gather") == 2 and main.count("iota") == 1


def test_mapped_over_a_batch(monkeypatch):
    f = dlvm.vmap(lambda xs, c: total(xs, c))
    args = normal(6, 9, 16), normal(6, 16)
    new = compiled(f, args)
    assert "_whole" in new.text("kernels")
    without(monkeypatch)
    for a, b in zip(new(*args), compiled(f, args)(*args), strict=True):
        assert same_bits(a, b)


def test_loops_inside_of_loops(monkeypatch):
    def f(xs, c):
        def outer(c, k):
            return total((xs * k).swapaxes(0, 1), c)

        return dlvm.scan(outer, c, dlvm.arange(3).astype(xs.dtype))

    args = normal(4, 7, 16), normal(4, 16)
    new = compiled(f, args)
    assert "_whole" in new.text("kernels")
    without(monkeypatch)
    for a, b in zip(new(*args), compiled(f, args)(*args), strict=True):
        assert same_bits(a, b)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_donated_array_is_left_alone_until_it_was_read(threads: int):
    def f(xs, c):
        return total(xs.swapaxes(0, 1), c)[0], xs * 2

    args = normal(64, 30, 64), normal(64, 64)
    staged = dlvm.function(f, donate=("xs",), threads=threads)
    for a, b in zip(staged(args[0].copy(), args[1]), f(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
