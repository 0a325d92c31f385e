"""Where programs meet their edges: bad indices, infinities, aliases, captured state, modes.

Written as a user writes them, compiled, and equal to the interpreter where there is an answer.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import IndexOutOfRange, UserError

from .road import agree, normal


def test_an_index_out_of_range_names_the_line():
    @dlvm.function
    def pick(x, i):
        return x[i] * 2.0

    x = normal(4)
    np.testing.assert_allclose(pick(x, -1), x[3] * 2)
    with pytest.raises(IndexOutOfRange) as caught:
        pick(x, 9)
    assert "index 9" in str(caught.value) and "size 4" in str(caught.value)
    assert "test_edges.py" in str(caught.value) and "return x[i] * 2.0" in str(caught.value)


def test_integer_division_is_defined_everywhere():
    @dlvm.function
    def divide(x, y):
        return x // y

    lowest = np.iinfo(np.int32).min
    x = np.array([7, -7, lowest, 0, 5], np.int32)
    y = np.array([0, 2, -1, 0, -3], np.int32)
    np.testing.assert_array_equal(agree(divide, x, y), [0, -4, lowest, 0, -2])


def test_a_product_with_its_epilogue_is_one_kernel():
    @dlvm.function
    def layer(x, w, b):
        return dlvm.tanh(x @ w + b)

    compiled = layer.compile(normal(33, 20), normal(20, 70), normal(70))
    assert compiled.report.kernels == 1
    assert 'family="product"' in compiled.text("kernels")
    agree(layer, normal(33, 20), normal(20, 70), normal(70))


def softmax(x):
    e = dlvm.exp(x - dlvm.max(x, axis=1, keepdims=True))
    return e / dlvm.sum(e, axis=1, keepdims=True)


@pytest.mark.parametrize("written", [softmax, dlvm.nn.softmax])
def test_a_softmax_is_one_kernel_with_one_exponential_for_each_element(written):
    f = dlvm.function(written)
    x = normal(9, 64) * 10
    compiled = f.compile(x)
    assert compiled.report.kernels == 1
    assert compiled.text("loops").count("= exp ") == 1
    exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(agree(f, x), exact / exact.sum(1, keepdims=True), rtol=2e-5)


def test_the_mask_of_a_branch_that_is_not_taken():
    def f(x):
        return dlvm.where(x > 0, dlvm.log(x), 0.0).sum()

    gradient = agree(dlvm.function(dlvm.grad(f)), np.array([0.0, 2.0, -1.0]))
    np.testing.assert_array_equal(gradient, [0.0, 0.5, 0.0])


def test_a_raising_read_is_not_made_where_it_is_not_reached():
    def read(x, i):
        return dlvm.cond(i < x.shape[0], lambda: x[i] * 2.0, lambda: 0.0)

    assert float(agree(dlvm.function(read), normal(3, dtype=np.float64), np.int64(9))) == 0.0

    def loop(x, i, n):
        return dlvm.fori_loop(0, n, lambda _, s: s + x[i], 0.0)

    found = agree(dlvm.function(loop), normal(3, dtype=np.float64), np.int64(9), np.int64(0))
    assert float(found) == 0.0


def test_views_of_one_array():
    @dlvm.function
    def edit(x):
        w = x.copy()
        part = w[1:3]
        part *= 2
        w[0] = part.sum()
        return w

    x = normal(5)
    expected = x.copy()
    expected[1:3] *= 2
    expected[0] = expected[1:3].sum()
    np.testing.assert_allclose(agree(edit, x), expected, rtol=1e-6)


def test_a_view_across_a_region_is_refused():
    @dlvm.function
    def bad(x):
        w = x.copy()

        def body(i, s):
            w[0] = s
            return s

        return dlvm.fori_loop(0, 3, body, x[0])

    with pytest.raises(UserError, match="make w part of what the body takes and returns"):
        bad(normal(3))


SCALE = 2.0
TABLE = normal(4)


def test_captured_state_is_read_at_each_call():
    @dlvm.function
    def scaled(x):
        return x * SCALE + TABLE

    x = normal(4)
    np.testing.assert_allclose(scaled(x), x * 2.0 + TABLE, rtol=1e-6)
    TABLE[0] = 100.0
    np.testing.assert_allclose(scaled(x), x * 2.0 + TABLE, rtol=1e-6)
    assert len(scaled.explain().compiles) == 1
    globals()["SCALE"] = 3.0
    np.testing.assert_allclose(scaled(x), x * 3.0 + TABLE, rtol=1e-6)
    assert len(scaled.explain().compiles) == 2


def test_half_precision_rounds_once():
    @dlvm.function
    def f(x, y):
        return x * y + y

    x, y = normal(100).astype(np.float16), normal(100).astype(np.float16)
    product = (x.astype(np.float32) * y.astype(np.float32)).astype(np.float16)
    expected = (product.astype(np.float32) + y.astype(np.float32)).astype(np.float16)
    assert agree(f, x, y, rtol=0, atol=0).tobytes() == expected.tobytes()


SCRIPT = """
import numpy as np, dlvm
@dlvm.function
def f(x):
    return dlvm.tanh(x).sum()
print(float(f(np.ones(3, "f4"))), f.compile(np.ones(3, "f4")).report.target)
"""


def test_an_environment_variable_runs_the_interpreter(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def run(**extra):
        environment = {**os.environ, **extra, "PYTHONPATH": os.getcwd()}
        command = [sys.executable, str(script)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split(None, 1)

    compiled, interpreted_ = run(), run(DLVM_INTERPRET="1")
    assert abs(float(compiled[0]) - float(interpreted_[0])) < 1e-5
    assert "interpreter" in interpreted_[1] and "interpreter" not in compiled[1]


def test_a_module_that_still_holds_declarations_runs():
    module = dlvm.parse(
        """dlvm 1
func @f(%x: f64[3]) -> f64 {
  %0 = mul %x, %x : f64[3]
  %1 = sum %0 axes=(0) : f64
  return %1
}
adjoint @df of @f wrt (0) keep (0)
"""
    )
    gradient, value = module.run("df", np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(gradient, [2, 4, 6])
    assert value == 14


def nested(x, depth):
    if depth == 0:
        return x
    return dlvm.cond(x > 0, lambda x: nested(x * 0.99, depth - 1), lambda x: x, x)


def test_control_flow_nests_deep_but_not_without_end():
    def fifty(x):
        return nested(x, 50)

    found = agree(dlvm.function(dlvm.grad(fifty)), np.float64(2.0), rtol=1e-12)
    np.testing.assert_allclose(found, 0.99**50)
    with pytest.raises(UserError, match="more than 100 deep"):
        dlvm.function(lambda x: nested(x, 150))(np.float64(2.0))


def test_a_chain_of_reductions_costs_as_much_as_it_is_long():
    def flops(n):
        def chain(x):
            for _ in range(n):
                x = x * (1.0 + x.sum())
            return x

        return dlvm.function(chain).compile(np.ones(1000, np.float32)).report.flops

    assert 1.9 < flops(20) / flops(10) < 2.1


@pytest.mark.parametrize(
    "row", [[np.inf, 1, 2], [-np.inf] * 3, [-np.inf, 1, 2], [np.nan, 1, 2], [np.inf, -np.inf, 0]]
)
def test_the_edges_of_a_streamed_sum_are_those_of_the_references(row):
    def total(x):
        return dlvm.exp(x - x.max()).sum()

    x = np.array(row, np.float32)
    with np.errstate(all="ignore"):
        expected = np.exp(x - x.max()).sum()
    np.testing.assert_allclose(agree(dlvm.function(total), x), expected, rtol=1e-6)
