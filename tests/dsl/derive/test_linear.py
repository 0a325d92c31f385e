"""Functions at a point and their linear maps; Jacobians and Hessians, and how they are made."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.ad import expand
from dlvm.compile import at_a_point
from dlvm.dsl.call.made import made_of
from dlvm.dsl.derive.linear import Ahead
from dlvm.ir import TAPE, Module
from dlvm.ops import Call, Elementwise
from tests.ad.nests import nest
from tests.fuzz.staged import linear, ruled

X = np.array([0.3, -1.2, 0.8])
DX = np.array([1.0, 0.5, -2.0])
M = np.array([[0.2, -0.1, 0.4], [0.3, 0.5, -0.2], [-0.6, 0.1, 0.3]])


def straight(x):
    return dlvm.tanh(M @ x) * dlvm.exp(x)


def scanned(x):
    return dlvm.scan(lambda c, a: (dlvm.sin(M @ c) + a, c.sum()), x, x)[1]


def branched(x):
    return dlvm.cond(x.sum() < 1, lambda x: dlvm.sin(x) * x, lambda x: x * 2, x)


def counted(x):
    return dlvm.fori_loop(0, 4, lambda i, c: dlvm.cos(c) * x + i, x)


def unbounded(x):
    return dlvm.while_loop(lambda c: (c * c).sum() < 40, lambda c: c * 1.5 + dlvm.sin(c), x)


def called(x):
    return dlvm.function(straight)(dlvm.checkpoint(branched)(x))


def nested(x):
    def outer(c, a):
        def inner(i, c):
            return dlvm.cond(c[0] > -5, lambda c: dlvm.sin(c) * dlvm.exp(a), lambda c: c, c) * wave(
                x
            )

        return dlvm.fori_loop(0, 3, inner, c), dlvm.tanh(c).sum()

    return dlvm.scan(outer, x, x)[1]


wave = dlvm.function(lambda x: dlvm.tanh(x))


FUNCTIONS = [straight, scanned, branched, counted, unbounded, called]
EACH = pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)


def differences(f, x=X, h=1e-6):
    units = np.eye(x.size).reshape(x.size, *x.shape)
    if not x.size:
        return np.zeros((*np.shape(f(x)), 0))
    columns = [(np.asarray(f(x + h * u)) - np.asarray(f(x - h * u))) / (2 * h) for u in units]
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


@EACH
def test_maps_outside_a_trace(f):
    jacobian = differences(f)
    value, push = dlvm.linearize(f, X)
    again, pull = dlvm.vjp(f, X)
    assert np.allclose(value, f(X)) and np.allclose(again, f(X))
    for scale in (1.0, -3.0):
        assert np.allclose(push(scale * DX), jacobian @ (scale * DX), atol=1e-7)
        assert np.allclose(pull(scale * DX)[0], (scale * DX) @ jacobian, atol=1e-7)


@EACH
def test_maps_in_a_trace_and_in_loops_and_batches_there(f):
    jacobian = differences(f)

    @dlvm.function
    def inside(x, dx):
        value, push = dlvm.linearize(f, x)
        _, pull = dlvm.vjp(f, x)
        looped = dlvm.fori_loop(0, 2, lambda i, c: push(c) * 0.5, dx)
        return value, pull(dx)[0], looped, dlvm.vmap(push)(dlvm.stack([dx, 2 * dx]))

    value, pulled, looped, lanes = inside(X, DX)
    assert np.allclose(value, f(X))
    assert np.allclose(pulled, DX @ jacobian, atol=1e-7)
    assert np.allclose(looped, jacobian @ (jacobian @ DX) / 4, atol=1e-6)
    assert np.allclose(lanes, np.stack([jacobian @ DX, 2 * jacobian @ DX]), atol=1e-7)


@EACH
def test_derivatives_of_linear_maps(f):
    second = differences(lambda x: dlvm.jvp(f, (x,), (DX,))[1])
    assert np.allclose(dlvm.jacobian(lambda x: dlvm.linearize(f, x)[1](DX))(X), second, atol=1e-6)
    weighted = differences(lambda x: dlvm.vjp(f, x)[1](DX)[0])
    assert np.allclose(dlvm.jacobian(lambda x: dlvm.vjp(f, x)[1](DX)[0])(X), weighted, atol=1e-6)


@pytest.mark.parametrize("make", [dlvm.linearize, dlvm.vjp], ids=lambda f: f.__name__)
def test_the_function_runs_once_however_often_its_map_is_called(make):
    def f(x):
        y = dlvm.exp(x)
        dlvm.tap(y, "once")
        return y * dlvm.sin(y)

    with dlvm.taps() as seen:
        _, linear = make(f, X)
        for _ in range(3):
            linear(DX)
    assert len(seen["once"]) == 1


def reachable(module, name):
    found, pending = {}, [name]
    while pending:
        if (name := pending.pop()) not in found:
            found[name] = fn = module.function(name)
            pending += [op.callee.name for op in fn.walk() if isinstance(op, Call)]
    return [op for fn in found.values() for op in fn.walk()]


@pytest.mark.parametrize("f", [straight, scanned, branched, counted, nested])
@pytest.mark.parametrize("make", [dlvm.linearize, dlvm.vjp], ids=lambda f: f.__name__)
def test_a_map_computes_no_function_of_what_was_kept(f, make):
    """Products and sums are linear, all else was computed with the function itself."""
    module = dlvm.trace(lambda x, dx: make(f, x)[1](dx), X, DX)
    (linear,) = [op.callee.name for op in module.main.ops if isinstance(op, Call)][1:]
    again = [op for op in reachable(module, linear) if isinstance(op, Elementwise)]
    functions = {op for op in again if op.ulp > 0.5}
    assert again and not functions
    jacobian = differences(f)
    expected = jacobian @ DX if make is dlvm.linearize else DX @ jacobian
    found = dlvm.function(lambda x, dx: make(f, x)[1](dx))(X, DX)
    assert np.allclose(np.ravel(found), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_maps_of_loops_of_open_length(trips):
    def f(x, xs):
        def step(c, a):
            return dlvm.sin(c * a) * dlvm.sqrt(x) + dlvm.exp(a) * wave(x), c.sum()

        return dlvm.scan(step, x, xs)[0]

    pushed = dlvm.function(lambda x, xs, d: dlvm.linearize(f, x, xs)[1](d, xs), dynamic={"xs": "T"})
    pulled = dlvm.function(lambda x, xs, d: dlvm.vjp(f, x, xs)[1](d), dynamic={"xs": "T"})
    x, xs = abs(X), np.linspace(-1, 1, trips)
    by_x, by_xs = differences(lambda x: f(x, xs), x), differences(lambda xs: f(x, xs), xs)
    assert np.allclose(pushed(x, xs, DX), by_x @ DX + by_xs @ xs, atol=1e-7)
    found = pulled(x, xs, DX)
    assert np.allclose(found[0], DX @ by_x, atol=1e-7)
    assert np.allclose(found[1], DX @ by_xs, atol=1e-7)


def until(trips):
    def more(s, x):
        return s[0] + 1, dlvm.sin(s[1]) * dlvm.exp(x * 0.1) + x * 0.3

    return lambda x: dlvm.while_loop(lambda s: s[0] < trips, lambda s: more(s, x), (0, x))[1]


def grown(c, a):
    return dlvm.while_loop(lambda c: (c * c).sum() < 20, lambda c: c * 1.5 + dlvm.sin(c) * a, c)


def unbounded_in_scan(x):
    def step(c, a):
        c = dlvm.cond(a > 0, lambda c: grown(c, a), dlvm.sin, c * 0.1)
        return c, c.sum()

    last, sums = dlvm.scan(step, x, x)
    return last + sums


def unbounded_in_unbounded(x):
    def outer(s):
        return s[0] + 1, grown(s[1] * 0.3, x.sum())

    return dlvm.while_loop(lambda s: s[0] < 5, outer, (0, x))[1]


def unbounded_in_calls(x):
    return dlvm.function(unbounded_in_scan)(x) * x + dlvm.function(until(3))(x * 0.5)


def two_slopes(x):
    """The maps transpose loops that have a tape of their own."""
    return dlvm.grad(lambda x: unbounded(x).sum())(x) * x


UNBOUNDED = [until(0), until(1), until(64), until(65), until(300), unbounded_in_scan]
UNBOUNDED += [unbounded_in_unbounded, unbounded_in_calls, two_slopes]


@pytest.mark.parametrize("f", UNBOUNDED)
def test_outside_a_trace_unbounded_loops_run_once_for_all_maps(f):
    jacobian = differences(f)
    value, push = dlvm.linearize(f, X)
    again, pull = dlvm.vjp(f, X)
    assert np.allclose(value, f(X)) and np.allclose(again, f(X))
    for scale in (1.0, -3.0):
        close = {"rtol": 1e-5, "atol": 1e-6}
        assert np.allclose(push(scale * DX), jacobian @ (scale * DX), **close)
        assert np.allclose(pull(scale * DX)[0], (scale * DX) @ jacobian, **close)


@pytest.mark.parametrize("forward", [True, False])
def test_the_map_of_an_unbounded_loop_computes_no_function(forward):
    """It reads stacks; a program with too little room says how much it wants."""
    f = unbounded_in_unbounded
    module = dlvm.trace(lambda x: dlvm.function(f)(x), X)
    name = module.main.ops[0].callee.name
    point = at_a_point(module, name, (True,), (True,), forward, 4)
    linear = [op for op in point.map.walk() if isinstance(op, Elementwise)]
    assert linear and not any(op.ulp > 0.5 for op in linear)
    assert not any(t.dtype == TAPE for op in point.map.walk() for t in op.result_types)
    *_, wanted = Module((point.ahead, *point.made)).run(point.ahead.name, X)
    assert wanted > 4


def test_room_for_trips_is_remembered():
    f = until(300)
    for make in (dlvm.linearize, dlvm.linearize):
        make(f, X)
    rooms = [key.room for key in made_of(f) if isinstance(key, Ahead)]
    assert rooms == [64, 512]


def test_recursion_is_computed_again_for_each_map():
    @dlvm.function
    def deep(x):
        return dlvm.cond((x * x).sum() < 9, lambda x: deep(x * 1.5) + dlvm.sin(x), dlvm.exp, x)

    jacobian = differences(deep)
    assert np.allclose(dlvm.linearize(deep, X)[1](DX), jacobian @ DX, rtol=1e-5)
    assert np.allclose(dlvm.vjp(deep, X)[1](DX)[0], DX @ jacobian, rtol=1e-5)


def test_what_a_loop_never_computes_has_no_infinite_derivative():
    """The logarithm is computed in front of a loop that makes no trip."""

    def f(c, x, xs):
        return dlvm.scan(lambda c, a: (c * dlvm.log(x), None), c, xs)[0]

    along = dlvm.function(
        lambda x, xs: dlvm.grad(lambda x: dlvm.linearize(f, X, x, xs)[1](DX, DX, None).sum())(x),
        dynamic={"xs": "T"},
    )
    assert np.array_equal(along(np.zeros(3), np.zeros(0)), np.zeros(3))
    assert np.isfinite(along(np.ones(3), np.zeros(2))).all()


def test_a_result_that_is_written_over_is_not_what_was_kept():
    value, push = dlvm.linearize(dlvm.exp, X)
    x = X.copy()
    _, pull = dlvm.vjp(dlvm.sin, x)
    value[...] = 0
    x[...] = 0
    assert np.allclose(push(DX), np.exp(X) * DX)
    assert np.allclose(pull(DX)[0], np.cos(X) * DX)


def test_trees_numbers_that_are_whole_and_parts_that_do_not_move():
    def f(params, n, x):
        return {"y": dlvm.tanh(params["w"] @ x) * n, "n": n + 1}

    params = {"w": M, "unused": np.ones(2)}
    value, pull = dlvm.vjp(f, params, 3, X)
    assert value["n"] == 4
    dp, dn, dx = pull({"y": DX, "n": None})
    slope = 3 * (1 - np.tanh(M @ X) ** 2) * DX
    assert dn is None
    assert np.allclose(dp["w"], np.outer(slope, X))
    assert np.array_equal(dp["unused"], np.zeros(2))
    assert np.allclose(dx, M.T @ slope)
    _, push = dlvm.linearize(f, params, 3, X)
    assert np.allclose(push(None, None, DX)["y"], 3 * (1 - np.tanh(M @ X) ** 2) * (M @ DX))


def test_auxiliary_results_of_pullbacks_and_jacobians():
    def f(x):
        return dlvm.sin(x), {"twice": 2 * x, "n": 3}

    value, pull, aux = dlvm.vjp(f, X, has_aux=True)
    assert np.allclose(value, np.sin(X)) and aux["n"] == 3
    assert np.allclose(pull(DX)[0], np.cos(X) * DX)
    found, aux = dlvm.jacobian(f, has_aux=True)(X)
    assert np.allclose(found, np.diag(np.cos(X))) and np.allclose(aux["twice"], 2 * X)
    found, aux = dlvm.hessian(lambda x: (dlvm.sin(x).sum(), x), has_aux=True)(X)
    assert np.allclose(found, np.diag(-np.sin(X))) and np.array_equal(aux, X)


# -- Jacobians -------------------------------------------------------------------------------------


@EACH
def test_jacobians_and_hessians_of_control_flow(f):
    assert np.allclose(dlvm.jacobian(f)(X), differences(f), atol=1e-7)

    def loss(x):
        return (f(x) ** 2).sum()

    found = dlvm.hessian(loss)(X)
    assert np.allclose(found, differences(dlvm.grad(loss)), rtol=1e-5, atol=1e-4)
    assert np.allclose(found, found.T)
    product = dlvm.jvp(dlvm.grad(loss), (X,), (DX,))[1]
    assert np.allclose(product, found @ DX)


def kinds(f, *args):
    return {d.kind for d in dlvm.jacobian(f).trace(*args).declarations} - {"batched"}


def test_the_cheaper_mode_is_taken():
    wide, tall = np.ones((2, 30)), np.ones((30, 2))
    assert kinds(lambda x: dlvm.tanh(tall @ x), np.ones(2)) == {"tangent"}
    assert kinds(lambda x: dlvm.tanh(wide @ x), np.ones(30)) == {"adjoint"}
    assert kinds(lambda x: dlvm.tanh(x).sum(), np.ones(3)) == {"adjoint"}
    for n in range(2, 7):  # where sizes are near, work is counted: five tangents, n cotangents
        a = np.ones((n, 5))
        assert kinds(lambda x, a=a: dlvm.tanh(a @ x), np.ones(5)) == (
            {"tangent"} if n >= 5 else {"adjoint"}
        )


def test_jacobians_of_trees_by_several_arguments():
    def f(p, y):
        return {"a": p["m"] @ y, "n": 3, "b": (p["s"] * y).sum()}

    p, y = {"m": M, "s": 2.0, "n": 3}, DX
    found = dlvm.jacobian(f, wrt=("p", 1))(p, y)
    assert found["n"] is None
    by_p, by_y = found["a"]
    assert np.allclose(by_p["m"], np.einsum("ij,k->ijk", np.eye(3), y))
    assert np.array_equal(by_p["s"], np.zeros(3)) and by_p["n"] is None
    assert np.allclose(by_y, M)
    assert np.allclose(found["b"][0]["s"], y.sum())
    tall = dlvm.jacobian(lambda x: dlvm.stack([x, 2 * x, x * x], axis=1))(X)
    assert np.allclose(tall[:, 1], 2 * np.eye(3)) and np.allclose(tall[:, 2], np.diag(2 * X))


def test_third_derivatives_and_open_sizes():
    third = dlvm.jacobian(dlvm.hessian(lambda x: (x**3).sum()))(X)
    expected = np.zeros((3, 3, 3))
    expected[range(3), range(3), range(3)] = 6
    assert np.allclose(third, expected)
    f = dlvm.function(lambda x: dlvm.hessian(lambda x: dlvm.sin(x).sum())(x), dynamic={"x": "B"})
    for n in (0, 1, 4):
        x = np.linspace(0, 1, n)
        assert np.allclose(f(x), np.diag(-np.sin(x)))
    assert len(f.explain().compiles) == 1


def test_linear_maps_name_each_constant_once():
    """What the way back computes again, as it costs nothing, is written there once."""

    def f(x, w):
        y, back = dlvm.vjp(lambda x: 0.7 * x * w, x)
        return y + back(w)[0]

    dlvm.trace(f, X, DX).verify()
    assert np.allclose(f(X, DX), 0.7 * X * DX + 0.7 * DX * DX)


def test_linear_maps_keep_no_tape_of_what_they_call():
    """Such a function is computed again for each tangent: a tape is read only once."""
    f = linear(ruled(linear(nest(8968, 1))))
    size = dlvm.spec("f64[N]")
    dlvm.trace(f, size, size).verify()


def test_linear_maps_of_linear_maps_of_checkpoints():
    """Constants of a body that is written forward and back are one operation each."""

    def inner(x, w):
        a = dlvm.tanh(x * w + 0.9) * x
        return dlvm.sin(a * 0.4) + a * w * 0.5

    def along(f):
        def moved(x, w):
            y, push = dlvm.linearize(lambda x: f(x, w), x)
            return y + push(w) - push(x)

        return moved

    def kept(x, w):
        return dlvm.checkpoint(lambda x: inner(x, w))(x)

    f = along(along(kept))
    expand(dlvm.trace(f, X, DX)).verify()
    np.testing.assert_allclose(f(X, DX), along(along(inner))(X, DX), rtol=1e-13)
    np.testing.assert_allclose(dlvm.function(f)(X, DX), f(X, DX), rtol=1e-12)
