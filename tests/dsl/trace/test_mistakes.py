"""Wrong programs and what is said about them: the user's line, names, shapes and one remedy."""

from __future__ import annotations

import math
import queue
import re

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import (
    DTypeError,
    IndexOutOfRange,
    ShapeError,
    StagedTypeError,
    TraceError,
    UserError,
)
from tests.mistaken import X, judge, programs, wrong

Y = np.ones((4, 2), np.float32)
N = np.arange(3)
CAPTURED = np.ones(3)
LEAKED: queue.SimpleQueue = queue.SimpleQueue()


@wrong(
    ShapeError,
    r"size 5.*are 4",
    r"left: f32\[3,5\]",
    r"right: f32\[4,2\], 'w', an argument",
    args=(X, Y),
)
def mismatched_product(x, w):
    return x @ w  # here


@wrong(ShapeError, r"help: the transpose would fit: x @ y\.mT")
def transposed_product(x):
    return x @ x  # here


@wrong(
    ShapeError,
    r"rows of f32\[4,2\]",
    r"params\['w'\]",
    r"made at test_mistakes\.py:\d+: h = x \* 2",
    args=({"w": Y}, X),
)
def product_with_a_parameter(params, x):
    h = x * 2
    return h @ params["w"]  # here


@wrong(ShapeError, r"insert: .*one dimensional", r"help: give a vector of positions, or a mask")
def insertion_at_a_matrix(x):
    return dlvm.insert(x, np.ones((2, 2), bool), 1.0)  # here


@wrong(UserError, r"decimals from -308 to 308, found 2147483648", r"no float has so many")
def rounding_beyond_every_float(x):
    return dlvm.round(x, 2**31)  # here


@wrong(ShapeError, r"\(3, 5\) and \(4, 2\) don't broadcast: 3 against 4", args=(X, Y))
def shapes_that_do_not_stretch(x, y):
    return x + y  # here


@wrong(
    ShapeError,
    "B against 3",
    "a symbolic size never stretches",
    args=(dlvm.spec("f32[B]"), dlvm.spec("f32[3]")),
)
def a_symbol_against_a_number(x, y):
    return x + y  # here


@wrong(TraceError, r"help: write return dlvm\.where\(x\.sum\(\) > 0, x, -x\)")
def if_on_a_staged_value(x):
    if x.sum() > 0:  # here
        return x
    return -x


@wrong(TraceError, r"x = dlvm\.while_loop\(lambda x: x\.sum\(\) < 10, body, x\), where body\(x\)")
def while_on_a_staged_value(x):
    while x.sum() < 10:  # here
        x = x * 2
    return x


@wrong(TraceError, r"help: write dlvm\.where\(x\[0, 0\] > 1, x, -x\)")
def conditional_expression(x):
    return x if x[0, 0] > 1 else -x  # here


@wrong(TraceError, r"help: write \(a > 1\) & \(~\(a < 3\)\)")
def and_of_staged_values(x):
    a = x.sum()
    return a > 1 and not a < 3  # here


@wrong(TraceError, r"help: write \(1 < a\) & \(a < 3\)")
def a_chain_of_comparisons(x):
    a = x.sum()
    return 1 < a < 3  # here


@wrong(TraceError, r"help: write dlvm\.maximum\(a, 1\.0\)")
def python_max(x):
    a = x.sum()
    return max(a, 1.0)  # here


@wrong(TraceError, r'dlvm\.assert_\(x\.sum\(\) > 0, "message"\)')
def assert_on_a_staged_value(x):
    assert x.sum() > 0  # here
    return x


@wrong(TraceError, "can't become float", r"write x\.sum\(\), without float")
def to_float(x):
    return float(x.sum())  # here


@wrong(TraceError, "can't become a NumPy array", r"dlvm\.asarray\(\[a, a\]\)")
def numpy_array_of_staged(x):
    a = x.sum()
    return np.array([a, a])  # here


@wrong(TraceError, "can't become an index or a size", r"fori_loop\(0, n", args=(3,))
def range_over_staged(n):
    return sum(i for i in range(n))  # here


@wrong(UserError, "out= has no meaning", "assign the result")
def out_argument(x):
    y = x.copy()
    np.exp(x, out=y)  # here
    return y


@wrong(TraceError, r"assignment into x: f32\[3,5\], an argument", r"x = x\.copy\(\)")
def into_an_argument(x):
    x[0] = 1  # here
    return x


@wrong(TraceError, "assignment into x", r"write x = x \+ 1$")
def plus_into_an_argument(x):
    x += 1  # here
    return x


@wrong(TraceError, "change the NumPy array CAPTURED", r"w = dlvm\.copy\(CAPTURED\)")
def into_a_captured_array(x):
    global CAPTURED
    CAPTURED += x[:, 0]  # here
    return x


@wrong(TraceError, "a value from outside this region", "what the body takes and returns")
def into_an_outer_box(x):
    total = dlvm.zeros(3)

    def body(c, row):
        total[0] = c  # here
        return c, None

    return dlvm.scan(body, 0.0, x)


@wrong(IndexOutOfRange, "index 3 is out of range for an axis of size 3", "valid are -3 to 2")
def static_index_out_of_range(x):
    return x[3]  # here


@wrong(IndexOutOfRange, r"3 indices for f32\[3,5\]")
def too_many_indices(x):
    return x[0, 0, 0]  # here


@wrong(TraceError, "a mask as an index", "write return x, x > 0, and index with the mask after")
def mask_as_index(x):
    return x[x > 0]  # here


@wrong(TraceError, "slice bound is n: i64", r"dlvm\.take\(x, i \+ dlvm\.arange", args=(X, 2))
def staged_slice_bound(x, n):
    return x[:n]  # here


@wrong(TraceError, r"np\.linalg\.eig can't be staged")
def unknown_numpy_function(x):
    return np.linalg.eig(x)  # here


@wrong(
    TraceError, r"successor .*a ufunc that is not NumPy's, can't", "write it as a Python function"
)
def unknown_ufunc(x):
    def successor(y):
        return y + 1

    return np.frompyfunc(successor, 1, 1)(x)  # here


@wrong(ShapeError, r"axis 2 is out of range for f32\[3,5\]")
def bad_axis(x):
    return x.sum(axis=2)  # here


@wrong(ShapeError, "15 elements")
def bad_reshape(x):
    return x.reshape(4, 4)  # here


@wrong(TraceError, "mode is 'relu' of type str", r"static=\('mode',\)", args=(X, "relu"))
def a_string_argument(x, mode):
    return x


@wrong(TraceError, "x is a list of lists", r"np\.asarray\(x\)", args=([[1, 2], [3, 4]],))
def a_list_of_lists(x):
    return x


@wrong(TraceError, "returns 'done' of type str", "leave it out")
def returns_a_string(x):  # here
    return {"a": x, "b": "done"}


@wrong(ShapeError, r"result is f32\[3,5\] in one, f32\[5\] in the other")
def branches_differ(x):
    return dlvm.cond(x.sum() > 0, lambda: x, lambda: x[0])  # here


@wrong(ShapeError, r"must give carry the type it has, f32\[3,5\], found f32\[5\]")
def carry_changes(x):
    return dlvm.while_loop(lambda c: c.sum() < 3, lambda c: c[0], x)  # here


@wrong(TraceError, "must give a pair", "carry, None")
def scan_without_a_pair(x):
    return dlvm.scan(lambda c, row: c + row, x[0], x)  # here


@wrong(UserError, r"needs one float scalar as its result, found f32\[3,5\]", r"dlvm\.jacobian")
def gradient_of_a_vector(x):
    return dlvm.grad(lambda x: x * 2)(x)  # here


@wrong(UserError, r"there is no float among its leaves \(i64\[3\]\)", args=(N,))
def gradient_by_integers(n):
    return dlvm.grad(lambda n: (n * 2.0).sum())(n)  # here


@wrong(UserError, "wrt='y': there is no such parameter", "the parameters are x")
def unknown_wrt(x):
    return dlvm.grad(lambda x: x.sum(), wrt="y")(x)  # here


@wrong(ShapeError, "a is batched over 3, b over 4", args=(X, Y))
def mismatched_batches(x, y):
    return dlvm.vmap(lambda a, b: a)(x, y)  # here


@wrong(DTypeError, r"f64\[3\] can't be stored in i64\[3\] in place", args=(N,))
def another_kind_in_place(n):
    m = n.copy()
    m += 0.5  # here
    return m


@wrong(TraceError, "its leading size is a symbol", r"dlvm\.scan", dynamic=True)
def iteration_over_a_symbolic_axis(x):
    return [row for row in x]  # here


@wrong(TraceError, "the size N is not known while tracing", r"dlvm\.where", dynamic=True)
def python_size_of_a_symbolic_axis(x):
    return x * (x.shape[0] or 1)  # here


@wrong(TraceError, "truth value", r"return dlvm\.where\(x\.shape\[0\] == 1, x, -x\)", dynamic=True)
def branch_on_a_symbolic_size(x):
    if x.shape[0] == 1:  # here
        return x
    return -x


@wrong(TraceError, "truth value", r"dlvm\.any\(dlvm\.asarray\(\(1, 3\)\) == x", dynamic=True)
def symbolic_size_among_others(x):
    return x if x.shape[0] in (1, 3) else -x  # here


@wrong(TraceError, "truth value", r"dlvm\.where\(x\.shape\[0\] == \.\.\., x, -x\)", dynamic=True)
def symbolic_shape_as_a_tuple(x):
    return x if x.shape == (1, 3) else -x  # here


@wrong(StagedTypeError, "the size N is not known .* no hash", r"dlvm\.where", dynamic=True)
def symbolic_size_as_a_key(x):
    return x * {3: 10.0}.get(x.shape[0], 0.0)  # here


@wrong(TraceError, "truth value", r"dlvm\.minimum\(x\.shape\[0\], 3\)", dynamic=True)
def least_of_a_symbolic_size(x):
    return x * min(x.shape[0], 3)  # here


@wrong(TraceError, "while", r"write dlvm\.arange\(x\.shape\[0\]\)", dynamic=True)
def numpy_counts_to_a_symbolic_size(x):
    return x[:, 0] * np.arange(x.shape[0])  # here


@wrong(TraceError, "the size N is not known", r"write dlvm\.zeros\(x\.shape\)", dynamic=True)
def numpy_makes_a_symbolic_shape(x):
    return np.sin(x) + np.zeros(x.shape)  # here


@wrong(TraceError, "the size N .* can't become float", r"dlvm\.sqrt", dynamic=True)
def root_of_a_symbolic_size(x):
    return x / math.sqrt(x.shape[0])  # here


@wrong(TraceError, "the size N .* can't become float", r"x\.shape\[0\] \*\* 0\.5", dynamic=True)
def float_of_a_symbolic_size(x):
    return x / float(x.shape[0])  # here


@wrong(TraceError, "the size N .* can't become a Python int", r"dlvm\.fori_loop", dynamic=True)
def range_of_a_symbolic_size(x):
    return sum(x[i] for i in range(x.shape[0]))  # here


@wrong(ShapeError, "may have fewer than 1 elements", r'dynamic={"x": "N\+1"}', dynamic=True)
def largest_of_a_symbolic_axis(x):
    return dlvm.top_k(x, 1, axis=0)  # here


@pytest.mark.parametrize("program", programs(__name__))
def test_the_message(program):
    judge(program)


def test_there_are_enough_of_them():
    assert len(programs(__name__)) >= 40


def test_a_value_used_after_its_trace_says_where_both_happened():
    @dlvm.function
    def leaking(x):
        LEAKED.put(x * 2)  # a queue is known to C only
        return x

    leaking(X)
    with pytest.raises(TraceError) as caught:
        LEAKED.get() + 1
    text = str(caught.value)
    assert re.search(r"made at test_mistakes\.py:\d+", text)
    assert re.search(r"--> test_mistakes\.py:\d+\n +\| LEAKED\.get\(\) \+ 1", text)


def test_a_value_of_one_region_used_in_another_is_an_error():
    kept = []

    @dlvm.function
    def f(x):
        def then(y):
            kept.append(y * 2)
            return y

        return dlvm.cond(x.sum() > 0, then, lambda y: kept[0], x)

    with pytest.raises(TraceError, match="after its trace or region has ended"):
        f(X)


def test_a_compiled_program_never_traces_again():
    program = dlvm.function(lambda x: x * 2).compile(X)
    with pytest.raises(UserError, match=r"x: axis 0 of f32\[3,5\] must be 3, found 4"):
        program(np.ones((4, 5), np.float32))
    with pytest.raises(UserError, match=r"x: expected f32\[3,5\], found f64\[3,5\]"):
        program(X.astype(np.float64))
    with pytest.raises(
        UserError, match="compiled for other arguments: x: expected an array, found a tuple"
    ):
        program((X, X))


def test_a_dynamic_index_out_of_range_names_the_line():
    @dlvm.function
    def f(x, i):
        return x[i]

    assert np.array_equal(f(X, -1), X[-1])
    with pytest.raises(IndexOutOfRange, match="index 7 is out of range for an axis of size 3") as e:
        f(X, 7)
    assert re.search(r"test_mistakes\.py:\d+\n +\| return x\[i\]", str(e.value))


def test_an_assertion_names_the_line():
    @dlvm.function
    def f(x):
        dlvm.assert_(x > 0, "x must be positive")
        return x * 2

    f(X)
    with pytest.raises(UserError, match="x must be positive") as caught:
        f(-X)
    assert "dlvm.assert_(x > 0" in str(caught.value)
