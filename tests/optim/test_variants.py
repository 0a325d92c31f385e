"""What holds for optimisers that vary Adam and SGD: element types, leaves, slopes, clipping."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm import optim
from dlvm.base.errors import UserError

MAKERS = {
    "radam": lambda rate: optim.radam(rate, b2=0.9),
    "adamax": optim.adamax,
    "amsgrad": optim.amsgrad,
    "adadelta": optim.adadelta,
    "adabelief": optim.adabelief,
    "lamb": optim.lamb,
    "lars": optim.lars,
    "adafactor": lambda rate: optim.adafactor(rate, 2),
    "muon": optim.muon,
    "clipped": lambda rate: optim.chain(
        optim.adaptive_grad_clip(0.5), optim.ema(0.5), optim.sgd(rate)
    ),
}
START = {"w": np.array([[1.0, -0.25, 0.5], [0.0, 2.0**-12, -2.0]]), "b": np.array([0.0, 0.75])}


def moved(params, rate, steps=2):
    """The parameters after some steps of each optimiser, and the states."""
    found, states = {}, {}
    for name, make in MAKERS.items():
        made, p = make(rate), {**params, "n": 3, "none": None}
        state = made.init(p)
        for _ in range(steps):
            updates, state = made.update({**p, "n": None}, state, p)
            p = optim.apply(p, updates)
        assert p["none"] is None
        found[name], states[name] = {"w": p["w"], "b": p["b"]}, state
    return found, states


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_steps_in_16_bits_are_those_of_f64_rounded(dtype):
    params = {k: x.astype(dtype) for k, x in START.items()}
    found, states = moved(params, 0.125)
    expected, _ = moved({k: x.astype(np.float64) for k, x in params.items()}, 0.125)
    eps = float(ml_dtypes.finfo(dtype).eps)
    for name in MAKERS:
        for k, x in found[name].items():
            assert x.dtype == dtype
            np.testing.assert_allclose(
                x.astype(float), expected[name][k], rtol=8 * eps, atol=4 * eps, err_msg=name
            )
        kinds = {x.dtype for x in dlvm.tree.leaves(states[name])}
        assert kinds <= {np.dtype(np.float32), np.dtype(np.int64)}


def test_slopes_by_the_rate_go_through_all_of_them_where_gradients_are_0(monkeypatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")

    def after(rate):
        found, _ = moved(START, rate, 1)
        return sum((x**2).sum() for p in found.values() for x in p.values())

    f, h = dlvm.function(after), 1e-5
    slope = dlvm.grad(after)(0.05)
    np.testing.assert_allclose(slope, (f(0.05 + h) - f(0.05 - h)) / (2 * h), rtol=1e-5)


def test_empty_parameters_are_no_trouble():
    for make in MAKERS.values():
        made, p = make(0.1), {"w": np.zeros((0, 3)), "b": np.zeros(0)}
        updates, _ = made.update(p, made.init(p), p)
        assert updates["w"].shape == (0, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["radam", "adamax", "amsgrad", "adadelta", "adabelief"])
def test_a_gradient_that_is_not_finite_spoils_its_own_element_only(name, bad):
    made, g = MAKERS[name](0.1), np.array([1.0, 0.0, -2.0])
    spoilt = np.array([1.0, bad, -2.0])
    found, expected = made.init(g), made.init(g)
    for _ in range(2):
        (u, found), (v, expected) = made.update(spoilt, found, g), made.update(g, expected, g)
    np.testing.assert_array_equal(u[[0, 2]], v[[0, 2]])


@pytest.mark.parametrize(
    "shape, axes", [((3, 4), 0), ((2, 2, 3, 4), (0, 1, 2)), ((5,), 0), ((1, 6), 1), ((3, 2, 4), 0)]
)
def test_adaptive_clipping_limits_each_unit(shape, axes):
    g = np.cos(np.arange(np.prod(shape))).reshape(shape)
    p = np.sin(np.arange(np.prod(shape))).reshape(shape)
    own, size = (np.sqrt((x * x).sum(axis=axes, keepdims=True)) for x in (g, p))
    expected = g * np.minimum(1, 0.7 * np.maximum(size, 1e-3) / own)
    made = optim.adaptive_grad_clip(0.7)
    np.testing.assert_allclose(made.update(g, (), p)[0], expected, rtol=1e-12)
    named = optim.adaptive_grad_clip(0.7, axis=axes)
    np.testing.assert_allclose(named.update(g, (), p)[0], expected, rtol=1e-12)


def test_an_array_is_clipped_by_the_root_of_its_mean_square():
    made = optim.clip_by_block_rms(1.0)
    moved, _ = made.update({"a": np.full((2, 2), 4.0), "b": np.full(2, 0.5)}, ())
    assert (moved["a"] == 1).all() and (moved["b"] == 0.5).all()


def test_adafactor_remembers_rows_and_columns_of_large_matrices():
    state = optim.adafactor(0.1, 4).init({"a": np.ones((2, 5, 4)), "b": np.ones((3, 9))})[0]
    assert [state.v_row["a"].shape, state.v_col["a"].shape, state.v["a"].shape] == [
        (2, 4),
        (2, 5),
        (1,),
    ]
    assert state.v["b"].shape == (3, 9)


def test_muon_gives_nearly_orthogonal_updates_to_matrices_and_adam_to_others():
    dice = np.random.default_rng(0)
    for shape in ((5, 3), (3, 5), (4, 4)):
        moved, _ = optim.scale_by_muon().update(
            g := dice.normal(size=shape), optim.scale_by_muon().init(g)
        )
        values = np.linalg.svd(moved, compute_uv=False)
        assert (values > 0.4).all() and (values < 1.3).all()
    state = optim.muon(0.1).init({"w": np.ones((2, 3)), "b": np.ones(3)})
    assert state.inner_states["muon"].inner_state[0].mu["b"] is None


def test_mistakes_are_told():
    for said, wrong in {
        "needs the parameters": lambda: optim.lamb(0.1).update(START, optim.lamb(0.1).init(START)),
        "expected matrices, found": lambda: optim.scale_by_muon().update(
            START, optim.scale_by_muon().init(START)
        ),
        "expected 3 coefficients": lambda: optim.scale_by_muon((1.0, 2.0)),
        "pass the axes over which": lambda: optim.adaptive_grad_clip(0.1).update(
            np.ones((2,) * 6), (), np.ones((2,) * 6)
        ),
    }.items():
        with pytest.raises(UserError, match=said):
            wrong()


def test_one_array_is_of_one_group():
    """The optimisers of other groups see nothing, and ask for nothing."""
    for w in (np.ones((3, 4), "f4"), np.ones(3, "f4")):
        made = optim.muon(0.1, weight_decay=0.1, adam_weight_decay=0.1)
        alone, _ = made.update(w, made.init(w), w)
        among, _ = made.update({"w": w}, made.init({"w": w}), {"w": w})
        assert np.array_equal(alone, among["w"])
