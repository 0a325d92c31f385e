"""Transformations: against finite differences and by-hand formulas, nested, staged and not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import dlvm

RNG = np.random.default_rng(0)
X = RNG.normal(size=5)


def cube(x):
    return (x * x * x).sum()


def slope(f, x, direction, h=1e-5):
    return (f(x + h * direction) - f(x - h * direction)) / (2 * h)


def agrees(f, x, gradient, rtol=1e-6):
    direction = RNG.normal(size=x.shape)
    expected = slope(f, x, direction)
    assert abs(expected) > 1e-6
    assert np.allclose((gradient * direction).sum(), expected, rtol=rtol)


def test_first_second_and_third_derivatives():
    first = dlvm.grad(cube)
    second = dlvm.grad(lambda x: first(x).sum())
    third = dlvm.grad(lambda x: second(x).sum())
    assert np.allclose(first(X), 3 * X**2)
    assert np.allclose(second(X), 6 * X)
    assert np.allclose(third(X), 6)


def test_a_transformation_is_staged_and_made_once():
    assert dlvm.grad(cube) is dlvm.grad(cube)
    assert dlvm.grad(cube) is not dlvm.grad(cube, wrt=(0,))
    g = dlvm.grad(cube)
    g(X)
    g(X)
    assert len(g.explain().compiles) == 1


def test_staged_code_holds_a_declaration_and_a_call():
    module = dlvm.trace(lambda x: dlvm.grad(cube)(x), X)
    assert [d.kind for d in module.declarations] == ["adjoint"]
    assert "adjoint @adjoint_cube of @cube wrt (0) keep (0)" in str(module)
    assert dlvm.parse(str(module)) == module
    assert np.allclose(module.run(module.main.name, X)[0], 3 * X**2)


def test_wrt_by_name_position_and_tuple():
    def f(x, y):
        return (x * y).sum()

    assert np.allclose(dlvm.grad(f)(X, 2 * X), 2 * X)
    assert np.allclose(dlvm.grad(f, wrt="y")(X, 2 * X), X)
    both = dlvm.grad(f, wrt=("y", 0))(X, 2 * X)
    assert isinstance(both, tuple)
    assert np.allclose(both, (X, 2 * X))
    (alone,) = dlvm.grad(f, wrt=(1,))(X, 2 * X)
    assert np.allclose(alone, X)
    assert np.allclose(dlvm.grad(f, wrt=1)(X, y=2 * X), X)


def test_arguments_that_a_function_takes_in_any_number():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0])

    def f(*xs):
        return sum((i + 1) * (x * x).sum() for i, x in enumerate(xs))

    def g(a, *rest, scale=1.0, **options):
        return (a * scale).sum() + sum(r.sum() for r in rest) + (options["k"] ** 2).sum()

    dx, dy = dlvm.grad(f, wrt=(0, 1))(x, y)
    assert np.array_equal(dx, 2 * x) and np.array_equal(dy, 4 * y)
    assert np.array_equal(dlvm.grad(f, wrt=1)(x, y), 4 * y)
    assert [d.shape for d in dlvm.vjp(f, x, y)[1](1.0)] == [(3,), (2,)]
    assert np.array_equal(dlvm.vmap(lambda *a: a[0] * a[1], in_axes=(0, None))(x, 3.0), 3 * x)
    da, dk, ds = dlvm.grad(g, wrt=("a", "k", "scale"))(x, y, y, scale=2.0, k=x)
    assert np.array_equal(da, [2.0] * 3) and np.array_equal(dk, 2 * x) and ds == x.sum()
    for wrong in (2, "xs"):
        with pytest.raises(dlvm.UserError, match=f"wrt='xs{'' if wrong == 'xs' else '.2.'}'"):
            dlvm.grad(f, wrt=wrong)(x, y)


def test_unused_arguments_give_zeros_and_integers_none():
    def f(p, z):
        return (p["a"] * p["n"]).sum()

    p = {"a": X.astype(np.float32), "n": np.arange(5), "unused": np.ones((2, 2))}
    g = dlvm.grad(f)(p, X)
    assert g["n"] is None
    assert g["a"].dtype == np.float32
    assert np.array_equal(g["unused"], np.zeros((2, 2)))
    assert np.array_equal(dlvm.grad(f, wrt="z")(p, X), np.zeros(5))


def test_auxiliary_results():
    def f(x):
        return cube(x), {"double": 2 * x, "n": 3}

    (value, aux), g = dlvm.value_and_grad(f, has_aux=True)(X)
    assert np.allclose(value, cube(X))
    assert np.allclose(g, 3 * X**2)
    assert np.allclose(aux["double"], 2 * X)
    g, aux = dlvm.grad(f, has_aux=True)(X)
    assert aux["n"] == 3
    value, pull, aux = dlvm.vjp(f, X, has_aux=True)
    assert np.allclose(pull(2.0)[0], 6 * X**2)


def test_a_python_scalar_stays_weak_under_a_transformation():
    def f(x, rate):
        return (x * rate).sum()

    x = X.astype(np.float32)
    value, g = dlvm.value_and_grad(f)(x, 0.5)
    assert value.dtype == g.dtype == np.float32
    assert dlvm.vmap(lambda row, rate: row * rate, in_axes=(0, None))(x, 0.5).dtype == np.float32
    assert np.allclose(dlvm.grad(f, wrt="rate")(x, 0.5), x.sum())
    assert np.allclose(dlvm.jvp(lambda t: t * t, (3.0,), (1.0,))[1], 6)


def test_dataclasses_keep_their_class():
    @dataclasses.dataclass
    class Layer:
        w: np.ndarray
        b: np.ndarray

    layer = Layer(RNG.normal(size=(3, 2)), RNG.normal(size=2))
    x = RNG.normal(size=(4, 3))
    g = dlvm.grad(lambda p, x: dlvm.tanh(x @ p.w + p.b).sum())(layer, x)
    assert isinstance(g, Layer)
    agrees(lambda w: np.tanh(x @ w + layer.b).sum(), layer.w, g.w)


def test_vjp_jvp_and_linearize_agree():
    def f(x, y):
        return {"p": x @ y, "q": dlvm.exp(x) * 2}

    x, y = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
    out, pull = dlvm.vjp(f, x, y)
    ct = {"p": RNG.normal(size=(3, 2)), "q": RNG.normal(size=(3, 4))}
    tx, ty = RNG.normal(size=x.shape), RNG.normal(size=y.shape)
    same, pushed = dlvm.jvp(f, (x, y), (tx, ty))
    _, linear = dlvm.linearize(f, x, y)
    gx, gy = pull(ct)
    assert np.allclose(out["p"], same["p"])
    assert np.allclose(
        (gx * tx).sum() + (gy * ty).sum(),
        (ct["p"] * pushed["p"]).sum() + (ct["q"] * pushed["q"]).sum(),
    )
    assert np.allclose(linear(tx, ty)["q"], pushed["q"])
    assert np.allclose(pull({"p": ct["p"], "q": None})[1], x.T @ ct["p"])


def test_jacobian_and_hessian():
    a = RNG.normal(size=(5, 5))
    assert np.allclose(dlvm.jacobian(lambda x: a @ x)(X), a)
    assert np.allclose(dlvm.jacobian(lambda x: x * x)(X), np.diag(2 * X))
    assert np.allclose(dlvm.hessian(lambda x: x @ (a @ x))(X), a + a.T)
    by_both = dlvm.jacobian(lambda x, y: {"z": x * y}, wrt=(0, 1))(X, X + 1)
    assert np.allclose(by_both["z"][0], np.diag(X + 1))
    assert np.allclose(by_both["z"][1], np.diag(X))


def test_vmap_axes():
    x, y = RNG.normal(size=(3, 4)), RNG.normal(size=4)
    assert np.allclose(dlvm.vmap(lambda a, b: a @ b, in_axes=(0, None))(x, y), x @ y)
    assert np.allclose(dlvm.vmap(lambda a: a * 2, in_axes=1, out_axes=1)(x), 2 * x)
    assert np.allclose(dlvm.vmap(lambda a: a.sum(), in_axes=-1)(x), x.sum(0))
    tree = dlvm.vmap(lambda p: p["a"] + p["b"], in_axes=({"a": 0, "b": None},))
    assert np.allclose(tree({"a": x, "b": y}), x + y)
    assert np.allclose(dlvm.vmap(lambda a, w: a @ w)(x, np.stack([y] * 3)), x @ y)


def test_vmap_closes_over_staged_values():
    @dlvm.function
    def f(x, w):
        scaled = w * 2
        return dlvm.vmap(lambda row: row @ scaled)(x)

    x, w = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
    assert np.allclose(f(x, w), x @ (2 * w))


def test_transformations_nest_in_any_order():
    x = RNG.normal(size=(3, 4))
    per_row = dlvm.vmap(dlvm.grad(cube))(x)
    assert np.allclose(per_row, 3 * x**2)
    through = dlvm.grad(lambda x: dlvm.vmap(cube)(x).sum())(x)
    assert np.allclose(through, 3 * x**2)
    _, mixed = dlvm.jvp(dlvm.grad(cube), (X,), (np.ones(5),))
    assert np.allclose(mixed, 6 * X)
    staged = dlvm.function(lambda x: dlvm.vmap(dlvm.hessian(cube))(x))(x)
    assert np.allclose(staged[1], np.diag(6 * x[1]))


def test_stop_gradient_and_checkpoint():
    g = dlvm.grad(lambda x: (dlvm.stop_gradient({"x": x})["x"] * x).sum())(X)
    assert np.allclose(g, X)

    def layer(x):
        return dlvm.tanh(x) * dlvm.exp(x)

    plain = dlvm.grad(lambda x: layer(layer(x)).sum())(X)
    again = dlvm.grad(lambda x: dlvm.checkpoint(layer)(dlvm.checkpoint(layer)(x)).sum())(X)
    assert np.array_equal(plain, again)
    assert np.allclose(dlvm.checkpoint(layer)(X), layer(X))
    assert "checkpoint" in str(dlvm.trace(lambda x: dlvm.checkpoint(layer)(x), X))


def test_the_mask_keeps_a_branch_that_is_not_taken_out_of_the_gradient():
    x = np.array([0.0, 1.0, -1.0, 2.0])
    g = dlvm.grad(lambda x: dlvm.where(x > 0, dlvm.log(x), 0).sum())(x)
    assert np.array_equal(g, [0, 1, 0, 0.5])
    g = dlvm.grad(lambda x: np.where(x > 0, np.sqrt(x), 0).sum())(x)
    assert np.isfinite(g).all()


def test_gradients_through_scan_while_and_cond():
    def by_scan(x):
        return dlvm.scan(lambda c, a: (dlvm.tanh(c * a + 1), c), 1.0, x)[1].sum()

    agrees(lambda x: float(by_scan(x)), X, dlvm.grad(by_scan)(X))

    def by_while(x, n):
        _, out = dlvm.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, dlvm.tanh(s[1])), (0, x))
        return out.sum()

    for n in (0, 1, 40):
        agrees(lambda x, n=n: float(by_while(x, n)), X, dlvm.grad(by_while)(X, n))

    def by_cond(x, k):
        return dlvm.cond(k > 0, lambda x: (x * x).sum(), lambda x: dlvm.exp(x).sum(), x)

    staged = dlvm.grad(by_cond)
    assert np.allclose(staged(X, 1), 2 * X)
    assert np.allclose(staged(X, -1), np.exp(X))
    assert len(staged.explain().compiles) == 1


def test_second_derivative_through_a_scan():
    def f(x):
        return dlvm.scan(lambda c, a: (dlvm.tanh(c + a * c), None), 1.0, x)[0]

    h = dlvm.hessian(f)(X)
    assert np.allclose(h, h.T)
    for i in range(len(X)):
        unit = np.eye(5)[i]
        column = slope(lambda x: dlvm.grad(f)(x), X, unit)
        assert np.allclose(h[i], column, atol=1e-7)


def test_gradients_of_sizes_that_stay_open():
    @dlvm.function(dynamic={"x": "B,3"})
    def g(x, w):
        return dlvm.grad(lambda w: dlvm.tanh(x @ w).sum() / x.shape[0])(w)

    w = RNG.normal(size=(3, 2))
    for n in (1, 4):
        x = RNG.normal(size=(n, 3))
        agrees(lambda w, x=x: np.tanh(x @ w).sum() / len(x), w, g(x, w))
    assert len(g.explain().compiles) == 1


@pytest.mark.parametrize("depth", [1, 50])
def test_a_chain_of_calls_is_written_once(depth):
    @dlvm.function
    def layer(x):
        return dlvm.tanh(x) * 1.1

    @dlvm.function
    def chain(x):
        for _ in range(depth):
            x = layer(x)
        return x.sum()

    module = chain.trace(X)
    assert [f.name for f in module.functions] == ["chain", "layer"]
    assert len(module.main.ops) == depth + 1

    def plain(x):
        for _ in range(depth):
            x = np.tanh(x) * 1.1
        return x.sum()

    agrees(plain, X, dlvm.grad(chain)(X))
