"""The whole road, one of each hard thing: compiled for this machine, equal to the interpreter.

Programs are written as a user writes them. Each runs as machine code and as a module in the
interpreter; gradients are checked against differences of the loss in f64.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import dlvm
from dlvm.errors import IndexOutOfRange, UserError

RNG = np.random.default_rng(7)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def interpreted(f, *args):
    """The leaves of the results by the interpreter, on the module that is traced."""
    module = dlvm.trace(f, *args)
    leaves = [np.asarray(x) for x in dlvm.tree.leaves(args)]
    return module.run(module.main.name, *leaves)


def agree(f, *args, rtol=2e-5, atol=1e-6):
    """Compiled equals interpreted; the compiled result."""
    expected = interpreted(f, *args)
    found = f(*args)
    leaves = dlvm.tree.leaves(found)
    assert len(leaves) == len(expected)
    for a, b in zip(leaves, expected, strict=True):
        assert np.asarray(a).dtype == b.dtype and np.shape(a) == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    return found


def differences(f, x, h=1e-6):
    """The gradient of a scalar function of one f64 array, by central differences."""
    out = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = h
        out[i] = (float(f(x + step)) - float(f(x - step))) / (2 * h)
    return out


# -- a training step ---------------------------------------------------------------------------


def loss(params, x, y):
    hidden = dlvm.tanh(x @ params["w1"] + params["b1"])
    return dlvm.nn.cross_entropy(hidden @ params["w2"] + params["b2"], y).mean()


def make_step():
    @dlvm.function(donate=("params",), dynamic={"x": "B,12", "y": "B"})
    def step(params, x, y):
        value, gradient = dlvm.value_and_grad(loss)(params, x, y)
        return dlvm.tree.map(lambda p, d: p - 0.1 * d, params, gradient), value

    return step


def parameters():
    return {"w1": normal(12, 9), "b1": normal(9), "w2": normal(9, 5), "b2": normal(5)}


def test_a_training_step_is_compiled_once_for_every_batch():
    step, params = make_step(), parameters()
    module = dlvm.trace(step, params, dlvm.spec("f32[B,12]"), dlvm.spec("i32[B]"))
    for batch in (0, 1, 17):
        x, y = normal(batch, 12), RNG.integers(0, 5, batch).astype(np.int32)
        leaves = [np.array(p) for p in dlvm.tree.leaves(params)]
        expected = module.run("step", *leaves, x, y)
        given = dlvm.tree.leaves(params)
        params, value = step(params, x, y)
        found = [*dlvm.tree.leaves(params), value]
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        assert all(a is b for a, b in zip(dlvm.tree.leaves(params), given, strict=True))
        if batch == 0:
            params = parameters()  # the mean over nothing is NaN, and so are its gradients
    assert str(step.explain()).count("compile 1") <= 1
    assert len(step.explain().compiles) == 1


def test_the_loss_falls():
    step, params = make_step(), parameters()
    x, y = normal(40, 12), RNG.integers(0, 5, 40).astype(np.int32)
    losses = []
    for _ in range(60):
        params, value = step(params, x, y)
        losses.append(float(value))
    assert losses[-1] < 0.7 * losses[0]


# -- loops and branches ------------------------------------------------------------------------


def rnn(w, u, h, xs):
    def step(h, x):
        h = dlvm.tanh(h @ w + x @ u)
        return h, h.sum()

    h, sums = dlvm.scan(step, h, xs)
    return (h * h).sum() + sums.sum()


@pytest.mark.parametrize("length", [0, 1, 6])
def test_an_rnn_and_its_gradient(length):
    args = [normal(*s, dtype=np.float64) for s in ((4, 4), (3, 4), (4,), (length, 3))]
    agree(dlvm.function(rnn), *args)
    gradients = agree(dlvm.function(dlvm.grad(rnn, wrt=(0, 1, 2, 3))), *args)
    for i, found in enumerate(gradients):
        rest = list(args)

        def along(a, i=i, rest=rest):
            return interpreted(rnn, *rest[:i], a, *rest[i + 1 :])[0]

        np.testing.assert_allclose(found, differences(along, args[i]), rtol=1e-6, atol=1e-7)


def test_the_tangent_of_a_scan_keeps_no_tape():
    args = [normal(*s, dtype=np.float64) for s in ((4, 4), (3, 4), (4,), (5, 3))]
    directions = [normal(*a.shape, dtype=np.float64) for a in args]

    @dlvm.function
    def tangent(args, directions):
        return dlvm.jvp(rnn, tuple(args), tuple(directions))

    _, slope = agree(tangent, args, directions)
    gradients = dlvm.grad(rnn, wrt=(0, 1, 2, 3))(*args)
    expected = sum(float(np.vdot(g, d)) for g, d in zip(gradients, directions, strict=True))
    np.testing.assert_allclose(slope, expected, rtol=1e-10)
    text = str(dlvm.trace(tangent, args, directions).expanded())
    assert "push" not in text and "tape" not in text


def newton(x, a):
    def unfinished(state):
        return state[0] < a

    def step(state):
        i, r = state
        return i + 1, 0.5 * (r + x / r)

    return dlvm.while_loop(unfinished, step, (0, x))[1]


@pytest.mark.parametrize("trips", [0, 1, 7, 1000])
def test_a_while_loop_backwards(trips):
    @dlvm.function
    def gradient(x, a):
        return dlvm.grad(newton)(x, a)

    x = np.float64(2.7)
    found = agree(gradient, x, np.int64(trips), rtol=1e-9)
    exact = 1.0 if trips == 0 else 0.5 * 2.7**-0.5 if trips > 5 else None
    if exact is None:
        exact = differences(lambda v: interpreted(newton, v, np.int64(trips))[0], np.array(x))
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_a_long_loop_fills_chunks_of_tape():
    def powers(x, n):
        def step(state):
            i, y = state
            return i + 1, dlvm.tanh(y * x)

        return dlvm.while_loop(lambda s: s[0] < n, step, (0, x))[1].sum()

    x = normal(64, dtype=np.float64) + 1.5  # 512 bytes a trip and more: several chunks
    found = agree(dlvm.function(dlvm.grad(powers)), x, np.int64(1000), rtol=1e-9)
    expected = differences(lambda v: interpreted(powers, v, np.int64(1000))[0], x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("x", [0.7, -0.7])
def test_branches_keep_different_residuals(x):
    def f(x):
        return dlvm.cond(
            x > 0,
            lambda x: dlvm.exp(x) * dlvm.tanh(x * x),
            lambda x: dlvm.log(1 - x) / (2 - x),
            x,
        )

    x = np.float64(x)
    found = agree(dlvm.function(dlvm.value_and_grad(f)), x, rtol=1e-12)
    expected = differences(lambda v: interpreted(f, v)[0], np.array(x))
    np.testing.assert_allclose(found[1], expected, rtol=1e-6)
    second = agree(dlvm.function(dlvm.grad(dlvm.grad(f))), x, rtol=1e-10)
    slope = dlvm.grad(f)
    np.testing.assert_allclose(second, differences(slope, np.array(x)), rtol=1e-6)


def test_a_chain_of_calls_costs_no_more_than_five_times_its_primal():
    w = normal(8, 8, dtype=np.float64) / 3

    @dlvm.function
    def layer(x, w):
        return dlvm.tanh(x @ w)

    def chain(x, w):
        for _ in range(50):
            x = layer(x, w)
        return x.sum()

    x = normal(4, 8, dtype=np.float64)
    agree(dlvm.function(dlvm.grad(chain, wrt=(0, 1))), x, w, rtol=1e-9)
    primal = dlvm.function(chain).compile(x, w).report.flops
    gradient = dlvm.function(dlvm.grad(chain, wrt=(0, 1))).compile(x, w).report.flops
    assert 2 <= gradient / primal <= 5


def test_updates_of_one_array_cost_as_much_as_they_write():
    def updated(w, v, where):
        def step(w, iv):
            i, x = iv
            return dlvm.at(w, i).set(w[i] * x), None

        w, _ = dlvm.scan(step, w, (where, v))
        return (w * w).sum()

    gradient = dlvm.function(dlvm.grad(updated, wrt=(0, 1)))
    w, v, where = normal(9, dtype=np.float64), normal(20, dtype=np.float64), np.arange(20) * 7 % 9
    found = agree(gradient, w, v, where, rtol=1e-10)
    expected = differences(lambda a: interpreted(updated, a, v, where)[0], w)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-7)

    def cost(n, steps):
        zeros = np.zeros(n), np.zeros(steps), np.zeros(steps, np.int64)
        report = gradient.compile(*zeros).report
        return report.flops, report.bytes

    # linear in n + T: doubling both doubles, and no term n * T appears
    for small, large in zip(cost(2000, 1000), cost(4000, 2000), strict=True):
        assert small > 3000
        assert large <= 2.1 * small


# -- transformations ---------------------------------------------------------------------------


def test_batching_of_an_element_wise_operation_and_of_a_product():
    xs, w = normal(5, 3), normal(3, 4)
    rows = agree(dlvm.function(dlvm.vmap(dlvm.tanh)), xs)
    np.testing.assert_allclose(rows, np.tanh(xs), rtol=1e-5)
    many = normal(5, 2, 3)
    both = agree(dlvm.function(dlvm.vmap(dlvm.matmul, in_axes=(0, None))), many, w)
    np.testing.assert_allclose(both, many @ w, rtol=1e-5, atol=1e-5)


def deep(x, w, wrapped):
    layer = dlvm.checkpoint(block) if wrapped else block
    for _ in range(4):
        x = layer(x, w)
    return x.sum()


def block(x, w):
    for _ in range(3):
        x = dlvm.tanh(x @ w)
    return x


def test_a_checkpoint_lowers_the_planned_peak():
    x, w = normal(64, 16), normal(16, 16) / 4
    plain = dlvm.function(dlvm.grad(lambda x, w: deep(x, w, False), wrt=1))
    saved = dlvm.function(dlvm.grad(lambda x, w: deep(x, w, True), wrt=1))
    found, expected = (agree(f, x, w, rtol=1e-4, atol=1e-4) for f in (saved, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    before, after = (f.compile(x, w).report for f in (plain, saved))
    assert after.peak_bytes < 0.75 * before.peak_bytes
    assert before.flops < after.flops <= 1.5 * before.flops


# -- edges -------------------------------------------------------------------------------------


def test_an_index_out_of_range_names_the_line():
    @dlvm.function
    def pick(x, i):
        return x[i] * 2.0

    x = normal(4)
    np.testing.assert_allclose(pick(x, -1), x[3] * 2)
    with pytest.raises(IndexOutOfRange) as caught:
        pick(x, 9)
    assert "index 9" in str(caught.value) and "size 4" in str(caught.value)
    assert "test_road.py" in str(caught.value) and "return x[i] * 2.0" in str(caught.value)


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
def test_a_softmax_is_one_kernel_with_one_fold(written):
    f = dlvm.function(written)
    x = normal(9, 50) * 10
    compiled = f.compile(x)
    assert compiled.report.kernels == 1
    folds = [
        w for w in compiled.text("kernels").split() if w in ("fold", "logsumexp", "max", "sum")
    ]
    assert folds in (["fold"], ["logsumexp"])
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

    with pytest.raises(UserError, match="copy"):
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
