"""Functions that are entered at run time: their steps, their memory, and where the stack ends."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import TooDeep
from dlvm.gen.products import objects as product
from dlvm.gen.products.objects import Generic
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.interpreter import run_program
from dlvm.gen.program.memory import plan
from dlvm.gen.program.text import program_text
from dlvm.gen.runtime.activations import MAX_ACTIVATIONS, stack_budget
from dlvm.gen.text.module import PRODUCT, Text
from dlvm.ir import F16, F32, F64, I8
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run
from dlvm.target import Target
from tests.gen.values import same_bits


@dlvm.function(dynamic={"x": "N"})
def halves(x):
    n = x.shape[0]
    return dlvm.cond(
        n <= 1, lambda: np.sin(x).sum(), lambda: halves(x[: n // 2]) + halves(x[n // 2 :]) * 0.5
    )


@dlvm.function
def filled(x, i):
    """``x`` with elements 0 to i set, from the last call out."""
    return dlvm.cond(i < 0, lambda: x, lambda: filled(x, i - 1).at[i].set(x[i] * 2))


def program_of(f, *args):
    module = run(dlvm.trace(f, *args).expanded(), DEFAULT)
    return coalesce(to_program(module))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_the_steps_of_a_program_mean_what_machine_code_does(n):
    x = np.random.default_rng(0).normal(size=n)
    for f in (halves, dlvm.grad(halves)):
        program = program_of(f, dlvm.spec("f64[N]"))
        outcome = run_program(program, plan(program), [x], {"N": n})
        assert np.array_equal(outcome.results[0], f(x))


def test_functions_stand_in_the_text_of_the_loops():
    program = program_of(halves, dlvm.spec("f64[N]"))
    text = program_text(program, plan(program))
    assert text.count("\nprogram @") == 1 and "enter @halves_1(" in text and "sizes (" in text


def test_an_array_that_goes_through_is_as_numpy_would_have_it():
    x = np.arange(6.0)
    expected = np.where(np.arange(6) <= 3, x * 2, x)
    assert np.array_equal(filled(x, 3), expected) and np.array_equal(x, np.arange(6.0))


def test_the_report_counts_one_activation():
    first = halves.compile(dlvm.spec("f64[N]")).report
    assert first.at(N=64).flops >= 32 and first.kernels >= 3


def test_threads_with_small_stacks_end_with_an_error_too():
    @dlvm.function
    def down(n):
        return dlvm.cond(n <= 0, lambda: n, lambda: down(n - 1) + 1)

    assert down(10) == 10
    found = []

    def call():
        with pytest.raises(TooDeep):
            down(10**9)
        found.append(down(1000))

    workers = [threading.Thread(target=call) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found == [1000] * 4


def in_thread(size, call):
    """What a call gives in a thread whose stack is so large."""
    found = []
    before = threading.stack_size(size)
    try:
        worker = threading.Thread(target=lambda: found.append(call()))
        worker.start()
    finally:
        threading.stack_size(before)
    worker.join()
    return found[0]


def test_the_budget_is_half_a_stack_but_what_kernels_take():
    found = in_thread(1 << 18, lambda: stack_budget(0))
    assert 1 << 17 <= found <= 1 << 19  # a stack that is used again may be four times as large
    assert 0 < stack_budget(0) <= MAX_ACTIVATIONS
    assert stack_budget(1 << 20) == stack_budget(0) - (1 << 19)
    assert stack_budget(1 << 40) == 0


def test_what_kernels_take_is_read_off_their_code():
    arrays = "  %1 = alloca [2 x <4 x float>], align 64\n  %2 = alloca [3 x i64], align 8\n"
    text = Text(functions={"f": arrays, "g": "  %1 = alloca [7 x bfloat], align 64\n", "h": ""})
    assert text.stack == 32 + 24
    within = Text(functions={"k": arrays, "k.part1.turns": arrays, "k.part2.turns": arrays})
    assert within.stack == 2 * (32 + 24)


@pytest.mark.parametrize("dtype", [F32, F64, F16, I8], ids=str)
def test_products_take_little_stack(dtype):
    """Large ones ended the process in a thread with half a MiB; their copies lie on the heap."""
    for transposed in (False, True):
        generic = Generic(dtype, transposed, transposed, 96, 256)
        widest = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 512, 32, 1)
        code = [product.code(piece, widest) for piece in product.pieces(generic)]
        assert 0 < Text(functions={"all": "".join(code)}).stack <= PRODUCT

    @dlvm.function
    def products(x, y):
        return x @ y, dlvm.tanh(x.T @ y), (x @ y.T).sum(0), x.T @ y.T, x[:5] @ y

    x, y = ((np.arange(360000).reshape(600, 600) % k).astype(dtype.numpy) for k in (3, 2))
    expected = products(x, y)
    found = in_thread(1 << 19, lambda: products(x, y))
    for a, b in zip(found, expected, strict=True):
        assert same_bits(a, b)


def test_kernels_with_large_arrays_have_room_below_a_recursion():
    """They fell off the end of a small stack, half of which they did not fit into."""

    def spread(x, c):
        m = (x * x[::-1] * c).mean((0, 2, 3), keepdims=True)
        q = (x - x[::-1]).mean((0, 2, 3), keepdims=True)
        v = ((x - m) ** 2).mean((0, 2, 3), keepdims=True)
        return ((x[::-1] - q) * (x - m) * v).mean((0, 2, 3)).sum()

    @dlvm.function(dynamic={"x": "N,C,H,W", "c": "C,1,W"}, threads=1)
    def down(n, x, c):
        return dlvm.cond(n <= 0, lambda: spread(x, c), lambda: down(n - 1, x, c) + spread(x + n, c))

    x, c = np.ones((3, 4, 5, 70)), np.ones((4, 1, 70))

    def deep():
        with pytest.raises(TooDeep):
            down(10**8, x, c)
        return down(3, x, c)

    for size in (1 << 26, 1 << 18, 1 << 17, 3 << 15):
        np.testing.assert_array_equal(in_thread(size, deep), down(3, x, c))


def test_a_thread_with_too_little_stack_takes_none_from_others():
    @dlvm.function(threads=1)
    def down(n, x):
        return dlvm.cond(n <= 0, lambda: x, lambda: down(n - 1, x) @ x)

    def deep():
        with pytest.raises(TooDeep):
            down(10**8, x)

    x = np.eye(8)
    for size in (1 << 18, 1 << 24):
        in_thread(size, deep)
        np.testing.assert_array_equal(down(50, x), x)
    np.testing.assert_array_equal(in_thread(1 << 20, lambda: down(5, x)), x)


@pytest.mark.parametrize("taking", [lambda n: n, float], ids=["entry", "other way"])
def test_a_recursion_that_ran_in_a_large_stack_knows_a_small_one(taking):
    """It fell off the end of it, as how much there is was asked in the first call alone."""

    @dlvm.function
    def down(n):
        if isinstance(taking(1), float):
            dlvm.print("at", n)
        return dlvm.cond(n <= 0, lambda: n, lambda: down(n - 1) + 1)

    def deep():
        with pytest.raises(TooDeep):
            down(taking(10**9))
        return down(taking(50))

    for size in (1 << 26, 1 << 22, 1 << 18, 1 << 20):
        assert in_thread(size, deep) == 50
