"""L-BFGS by its minima, step by step and as one program."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import optim
from dlvm.base.errors import UserError


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("size, dtype", [(2, np.float64), (10, np.float64), (2, np.float32)])
def test_rosenbrock_has_its_minimum_at_one(size, dtype):
    tol, near = (1e-9, 1e-8) if dtype == np.float64 else (1e-3, 1e-3)
    found = optim.minimize(rosenbrock, np.full(size, -1.2, dtype), tol=tol)
    assert found.converged and found.params.dtype == dtype and found.steps < 120
    np.testing.assert_allclose(found.params, 1, rtol=near)
    np.testing.assert_allclose(found.grad, dlvm.grad(rosenbrock)(found.params), atol=1e-6)
    assert found.value == dlvm.function(rosenbrock)(found.params)


def test_steps_by_hand_are_the_same_staged_or_not_and_those_of_minimize():
    made = optim.lbfgs()

    def step(params, state):
        value, grads = dlvm.value_and_grad(rosenbrock)(params)
        updates, state = made.update(grads, state, params, value=value, value_fn=rosenbrock)
        return optim.apply(params, updates), state

    ends = []
    for run in (step, dlvm.function(step, donate=("params", "state"))):
        params = np.array([-1.2, 1.0])
        state = made.init(params)
        for _ in range(20):
            params, state = run(params, state)
        ends.append(params)
        assert state.count == 20 and state.count.dtype == np.int64
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-9)
    whole = optim.minimize(rosenbrock, np.array([-1.2, 1.0]), steps=20)
    np.testing.assert_allclose(whole.params, ends[1], rtol=1e-9)
    assert not whole.converged and whole.steps == 20


def test_trees_with_other_leaves_and_types():
    params = {"x": np.zeros(2, np.float32), "y": 1.0, "n": 3, "none": None}

    def distance(p, to):
        return ((p["x"] - to) ** 2).sum().astype("f64") + (p["y"] - p["n"]) ** 2

    found = optim.minimize(distance, params, np.array([1.0, -2.0], np.float32))
    np.testing.assert_allclose(found.params["x"], [1, -2], rtol=1e-6)
    np.testing.assert_allclose(found.params["y"], 3)
    assert found.params["x"].dtype == np.float32 and found.params["n"] == 3
    assert found.params["none"] is None and found.grad["n"] is None


def test_a_valley_beside_a_pole_is_searched_without_leaving_the_domain():
    found = optim.minimize(lambda x: x.sum() - dlvm.log(x).sum(), np.array([5.0, 0.01]))
    np.testing.assert_allclose(found.params, 1, rtol=1e-8)


def test_least_squares_of_a_badly_conditioned_matrix():
    a = np.vander(np.linspace(0, 1, 20), 5)
    b = np.cos(3 * a[:, -2])
    found = optim.minimize(lambda w: ((a @ w - b) ** 2).sum(), np.zeros(5), tol=1e-10, steps=400)
    expected = np.linalg.lstsq(a, b)[0]
    np.testing.assert_allclose(found.params, expected, rtol=1e-5)


def test_a_kink_and_a_line_without_end_do_not_converge_and_end():
    for f in (lambda x: abs(x).sum(), lambda x: x.sum()):
        found = optim.minimize(f, np.array([3.0, -2.0]), steps=60)
        assert not found.converged and found.steps <= 60


def test_a_minimum_at_the_start_takes_no_step():
    found = optim.minimize(lambda x: (x * x).sum(), np.zeros(2))
    assert found.converged and found.steps == 0 and found.value == 0


def test_minimize_in_a_staged_function_and_other_data_compile_once():
    @dlvm.function
    def fitted(to):
        return optim.minimize(lambda x: ((x - to) ** 2).sum(), np.zeros(2)).params

    for to in (np.array([1.0, 2.0]), np.array([3.0, 4.0])):
        np.testing.assert_allclose(fitted(to), to)
    assert len(fitted.explain().compiles) == 1


def test_a_function_may_read_captured_state():
    center = np.array([1.0, 2.0])

    def f(x):
        return ((x - center) ** 2).sum()

    np.testing.assert_allclose(optim.minimize(f, np.zeros(2)).params, [1, 2])
    center[:] = 5
    np.testing.assert_allclose(optim.minimize(f, np.zeros(2)).params, [5, 5])


def test_what_the_line_search_needs_is_told():
    made, x = optim.lbfgs(), np.ones(2)
    with pytest.raises(UserError, match="value_fn=loss_of"):
        made.update(x, made.init(x), x)
    with pytest.raises(UserError, match="no float leaf"):
        optim.minimize(rosenbrock, {"n": 3})
    with pytest.raises(UserError, match="memory_size"):
        optim.lbfgs(memory_size=0)


def test_a_function_of_other_arguments_is_refused_with_those_it_is_called_with():
    start = np.zeros(2)
    with pytest.raises(dlvm.CallError, match=r"called with \(params\): missing .* 'y'"):
        optim.minimize(lambda x, y: (x * y).sum(), start)
    with pytest.raises(dlvm.CallError, match=r"called with \(params, arg0\): too many positional"):
        optim.minimize(lambda x: (x * x).sum(), start, 1.0)
    with pytest.raises(dlvm.CallError, match=r"called with \(params\)"):
        dlvm.function(lambda x: optim.minimize(lambda x, y: (x * y).sum(), x))(start)


@pytest.mark.parametrize("args", [(), (1.0,)])
def test_an_error_of_the_function_is_the_users_own(args):
    def failing(x, *args):
        raise TypeError("of the user")

    with pytest.raises(TypeError, match=r"^of the user$"):
        optim.minimize(failing, np.zeros(2), *args)
