"""Derivatives that the user says: used in every mode, batched, in loops, nested, or refused."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ops import Call

X = np.array([0.3, -1.2, 2.5])
Y = np.array([1.5, 0.7, -0.4])
W = np.array([2.0, -3.0, 0.5])


@dlvm.custom_vjp
def wave(x, y):
    return dlvm.sin(x) * y


def wave_forward(x, y):
    return wave(x, y), (dlvm.cos(x), dlvm.sin(x), y)


def wave_backward(kept, ct):
    cos, sin, y = kept
    return ct * cos * y * 2, ct * sin * 3  # twice and thrice the truth, so that it shows


wave.defvjp(wave_forward, wave_backward)


@dlvm.custom_jvp
def wavy(x, y):
    return dlvm.sin(x) * y


@wavy.defjvp
def wavy_rule(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return wavy(x, y), dx * dlvm.cos(x) * y * 2 + dy * dlvm.sin(x) * 3


BOTH = pytest.mark.parametrize("f", [wave, wavy], ids=["custom_vjp", "custom_jvp"])
STAGED = pytest.mark.parametrize("stage", [lambda f: f, dlvm.function], ids=["plain", "staged"])
DX, DY = 2 * np.cos(X) * Y, 3 * np.sin(X)
# the derivative of what the rules say, by their own text: cos and sin in them are the usual ones
DXX, DXY = -2 * np.sin(X) * Y, 2 * np.cos(X)


@BOTH
def test_outside_a_trace_it_is_the_function_itself(f):
    assert np.array_equal(f(X, Y), np.sin(X) * Y)
    assert f.__name__.startswith("wav")


@BOTH
@STAGED
def test_reverse_mode(f, stage):
    loss = stage(lambda x, y: (f(x, y) * W).sum())
    dx, dy = stage(dlvm.grad(loss, wrt=(0, 1)))(X, Y)
    assert np.allclose(dx, DX * W)
    assert np.allclose(dy, DY * W)


@BOTH
@STAGED
def test_forward_mode_of_either_kind(f, stage):
    value, moved = stage(lambda x, y: dlvm.jvp(f, (x, y), (W, Y)))(X, Y)
    assert np.allclose(value, np.sin(X) * Y)
    assert np.allclose(moved, DX * W + DY * Y)
    assert np.allclose(dlvm.jvp(f, (X, Y), (W, None))[1], DX * W)


@BOTH
def test_linear_functions_and_pullbacks(f):
    value, pull = dlvm.vjp(f, X, Y)
    assert np.allclose(pull(W), (DX * W, DY * W))
    _, push = dlvm.linearize(f, X, Y)
    assert np.allclose(push(W, Y), DX * W + DY * Y)
    assert np.allclose(value, np.sin(X) * Y)


@BOTH
def test_second_derivatives_are_those_of_the_rule(f):
    def loss(x, y):
        return (f(x, y) * W).sum()

    assert np.allclose(dlvm.hessian(loss)(X, Y), np.diag(DXX * W))
    assert np.allclose(dlvm.jacobian(dlvm.grad(loss), wrt=1)(X, Y), np.diag(DXY * W))
    twice = dlvm.grad(lambda x, y: (dlvm.grad(loss)(x, y) * Y).sum())
    assert np.allclose(twice(X, Y), DXX * W * Y)


@BOTH
def test_batches_of_gradients_and_gradients_of_batches(f):
    xs = np.stack([X, 2 * X, -X, X + 1])
    apart = np.stack([dlvm.grad(lambda x: (f(x, Y) * W).sum())(x) for x in xs])
    assert np.allclose(dlvm.vmap(dlvm.grad(lambda x: (f(x, Y) * W).sum()))(xs), apart)
    assert np.allclose(dlvm.grad(lambda x: (dlvm.vmap(f, (0, None))(x, Y) * W).sum())(xs), apart)
    shared = dlvm.grad(lambda y: (dlvm.vmap(f, (0, None))(xs, y) * W).sum())(Y)
    assert np.allclose(shared, (3 * np.sin(xs) * W).sum(0))
    moved = dlvm.vmap(lambda x: dlvm.jvp(lambda x: f(x, Y), (x,), (W,))[1])(xs)
    assert np.allclose(moved, 2 * np.cos(xs) * Y * W)
    assert np.allclose(dlvm.jacobian(dlvm.vmap(f))(X, Y), np.diag(DX))


@BOTH
def test_in_control_flow(f):
    def looped(x, y):
        def step(carry, _):
            return dlvm.cond(carry.sum() > -100, lambda c: f(c, y), lambda c: c, carry), None

        return (dlvm.scan(step, x, length=3)[0] * W).sum()

    def by_hand(x, y):
        slope = np.ones(3)
        for _ in range(3):
            slope, x = slope * 2 * np.cos(x) * y, np.sin(x) * y
        return slope * W

    assert np.allclose(dlvm.grad(looped)(X, Y), by_hand(X, Y))
    assert np.allclose(dlvm.grad(dlvm.checkpoint(looped))(X, Y), by_hand(X, Y))
    moved = dlvm.jvp(looped, (X, Y), (np.eye(3)[1], None))[1]
    assert np.allclose(moved, by_hand(X, Y)[1])
    xs = np.stack([X, X / 2])
    apart = [by_hand(x, Y) for x in xs]
    assert np.allclose(dlvm.vmap(dlvm.grad(looped), (0, None))(xs, Y), apart)


@BOTH
def test_in_a_loop_of_unknown_length_whose_lanes_end_apart(f):
    def until(x, y):
        def more(c):
            return (c[1] < x[0] * 10).any()

        value, _ = dlvm.while_loop(more, lambda c: (f(c[0], y), c[1] + 1), (x, 0))
        return (value * W).sum()

    xs = np.stack([np.array([0.3, 1.0, 0.2]), np.array([0.1, 0.4, -0.2]), np.zeros(3)])
    apart = np.stack([dlvm.grad(until)(x, Y) for x in xs])
    assert np.allclose(dlvm.vmap(dlvm.grad(until), (0, None))(xs, Y), apart)
    assert np.count_nonzero(apart)


def test_a_rule_may_say_a_slope_where_the_function_has_none():
    @dlvm.custom_vjp
    def rounded(x):
        return dlvm.round(x)

    rounded.defvjp(lambda x: (rounded(x), None), lambda _, ct: (ct,))
    assert np.allclose(dlvm.grad(lambda x: (rounded(x) * W).sum())(X), W)
    assert np.allclose(dlvm.jvp(rounded, (X,), (W,))[1], W)


def test_a_rule_that_calls_its_own_function_is_used_to_any_order():
    @dlvm.custom_jvp
    def softplus(x):
        return dlvm.log(1 + dlvm.exp(x))

    @softplus.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        return softplus(x), dx * dlvm.exp(-softplus(-x))

    x = np.array([0.3, 700.0, -700.0])
    s = 1 / (1 + np.exp(-np.clip(x, -500, 500)))
    first = dlvm.vmap(dlvm.grad(softplus))
    assert np.allclose(first(x), s)
    assert np.allclose(dlvm.vmap(dlvm.grad(dlvm.grad(softplus)))(x), s * (1 - s))
    third = dlvm.vmap(dlvm.grad(dlvm.grad(dlvm.grad(softplus))))(x)
    assert np.allclose(third, s * (1 - s) * (1 - 2 * s))


def test_a_forward_rule_that_calls_its_own_function_is_inlined():
    made = dlvm.function(dlvm.value_and_grad(lambda x, y: wave(x, y).sum())).compile(X, Y)
    assert not any(isinstance(op, Call) for op in made.road.kernels.main.walk())


def test_trees_integers_and_results_of_several():
    @dlvm.custom_vjp
    def pick(params, i):
        return {"one": params["w"][i], "all": (params["w"].sum(), i)}

    def forward(params, i):
        return pick(params, i), (i, params["w"].shape[0])

    def backward(kept, ct):
        i, n = kept
        assert ct["all"][1] is None
        spread = dlvm.zeros(n).at[i].set(10 * ct["one"])
        return {"w": spread + ct["all"][0], "b": None}, None

    pick.defvjp(forward, backward)

    def loss(params, i):
        found = pick(params, i)
        return found["one"] + 2 * found["all"][0]

    found = dlvm.grad(loss)({"w": X, "b": Y}, 1)
    assert np.allclose(found["w"], [2, 12, 2])
    assert np.array_equal(found["b"], np.zeros(3))


def test_arguments_that_are_not_differentiated_may_be_anything():
    @dlvm.custom_vjp(nondiff_args=("g", 2))
    def through(g, x, scale="no array"):
        return g(x)

    def forward(g, x, scale):
        return g(x), x

    def backward(g, scale, x, ct):
        assert scale == "twice"
        return (2 * g(x) * ct,)

    through.defvjp(forward, backward)
    found = dlvm.grad(lambda x: (through(dlvm.cos, x, "twice") * W).sum())(X)
    assert np.allclose(found, 2 * np.cos(X) * W)
    again = dlvm.grad(lambda x: (through(dlvm.sin, x, scale="twice") * W).sum())(X)
    assert np.allclose(again, 2 * np.sin(X) * W)


def test_a_rule_for_each_argument():
    @dlvm.custom_jvp
    def product(x, y):
        return x * y

    product.defjvps(lambda t, ans, x, y: t * y * 5, None)
    dx, dy = dlvm.grad(lambda x, y: (product(x, y) * W).sum(), wrt=(0, 1))(X, Y)
    assert np.allclose(dx, 5 * Y * W)
    assert np.array_equal(dy, np.zeros(3))


def test_captured_arrays_are_read_at_each_call():
    scale = np.array([1.0, 2.0, 3.0])

    @dlvm.custom_vjp
    def scaled(x):
        return x * scale

    scaled.defvjp(lambda x: (scaled(x), None), lambda _, ct: (ct * scale * 10,))
    gradient = dlvm.grad(lambda x: (scaled(x) * W).sum())
    assert np.allclose(gradient(X), 10 * scale * W)
    scale *= 2
    assert np.allclose(gradient(X), 10 * scale * W)


def test_values_from_outside_that_do_not_vary_are_passed_to_the_rules():
    @dlvm.function
    def outer(x, k):
        factor = k * 2

        @dlvm.custom_jvp
        def f(x):
            return x * factor

        @f.defjvp
        def rule(primals, tangents):
            return f(primals[0]), tangents[0] * factor * k + f(tangents[0]) * 0

        def inner(x):
            return (f(x) * W).sum() + f(f(x)).sum() * 0

        return dlvm.grad(inner)(x), dlvm.vmap(dlvm.grad(inner))(dlvm.stack([x, x]))[1]

    found, lanes = outer(X, 3.0)
    assert np.allclose(found, W * 18)
    assert np.allclose(lanes, W * 18)


def test_unknown_sizes():
    f = dlvm.function(
        dlvm.grad(lambda x: wave(x, dlvm.ones(x.shape)).sum() + wavy(x, x).sum()),
        dynamic={"x": "B"},
    )
    for n in (0, 1, 3, 17):
        x = np.linspace(0, 1, n)
        expected = 2 * np.cos(x) + 2 * np.cos(x) * x + 3 * np.sin(x)
        assert np.allclose(f(x), expected)
    assert len(f.explain().compiles) == 1


def test_the_text_names_the_rules_and_reads_back():
    module = dlvm.trace(wave, X, Y)
    assert "custom_vjp [%x, %y], [] callee=@wave_1 forward=@wave_forward" in str(module)
    assert dlvm.parse(str(module)) == module
    module.verify()
    optimised = dlvm.function(wave).compile(X, Y).text("optimized")
    assert "custom_vjp" not in optimised.partition("func @wave_1")[0]


def test_nobody_who_does_not_differentiate_pays():
    plain = dlvm.function(lambda x, y: dlvm.sin(x) * y).compile(X, Y).report
    for f in (wave, wavy):
        assert dlvm.function(f).compile(X, Y).report.flops == plain.flops


# -- mistakes --------------------------------------------------------------------------------------


def said(f, bwd, fwd=None):
    """What is said of a backward rule, and whether it points at it."""
    g = dlvm.custom_vjp(f)
    g.defvjp(fwd or (lambda *xs: (f(*xs), xs)), bwd)
    with pytest.raises(dlvm.UserError) as error:
        dlvm.grad(lambda x: g(x, Y).sum())(X)
    assert f"test_custom.py:{bwd.__code__.co_firstlineno}" in str(error.value) or fwd
    return error


def test_a_backward_rule_of_the_wrong_structure_shape_or_type():
    def f(x, y):
        return x * y

    assert "a cotangent for each of (x, y), found one" in str(said(f, lambda r, g: g).value)
    assert "found a tuple of 1" in str(said(f, lambda r, g: (g,)).value)
    assert "for x a tree like it" in str(said(f, lambda r, g: ({"x": g}, g)).value)
    wrong = said(f, lambda r, g: (g.sum(), g))
    assert wrong.type is ShapeError
    assert "for x the type f64[3], found f64" in str(wrong.value)
    wrong = said(f, lambda r, g: (g, dlvm.astype(g, dlvm.float32)))
    assert wrong.type is DTypeError
    assert "for y the type f64[3], found f32[3]" in str(wrong.value)


def test_a_forward_rule_that_gives_no_pair_or_other_results():
    def f(x, y):
        return x * y

    def back(r, g):
        return g, g

    assert "must give a pair" in str(said(f, back, lambda x, y: x * y).value)
    assert "results like the function's" in str(said(f, back, lambda x, y: ((x, y), x)).value)
    assert "found f64" in str(said(f, back, lambda x, y: ((x * y).sum(), x)).value)


def test_a_function_without_a_rule():
    f = dlvm.custom_vjp(lambda x: x)
    with pytest.raises(dlvm.UserError, match=r"without a rule(.|\n)*defvjp"):
        f(X)


def test_a_cotangent_that_would_be_lost_is_an_error():
    @dlvm.custom_vjp
    def f(x):
        return x * outside[0]

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    outside = [None]

    def loss(w, x):
        outside[0] = w
        return f(x).sum()

    with pytest.raises(dlvm.UserError, match="pass it as an argument"):
        dlvm.grad(loss)(W, X)
    with pytest.raises(dlvm.UserError, match="pass it as an argument"):
        dlvm.jvp(loss, (W, X), (W, X))


def test_rules_whose_transpose_is_wanted_must_be_linear():
    @dlvm.custom_vjp
    def clipped(x):
        return x * 1

    clipped.defvjp(lambda x: (x * 1, None), lambda _, ct: (dlvm.clip(ct, -1, 1),))
    assert np.allclose(dlvm.grad(lambda x: (clipped(x) * W).sum())(X), np.clip(W, -1, 1))
    with pytest.raises(dlvm.UserError, match=r"cotangents; its operation m\w+imum is not linear"):
        dlvm.jvp(clipped, (X,), (W,))

    @dlvm.custom_jvp
    def square(x):
        return x * x

    square.defjvp(lambda p, t: (square(p[0]), t[0] * t[0]))
    with pytest.raises(dlvm.UserError, match="the tangents; its operation mul is not linear"):
        dlvm.grad(lambda x: square(x).sum())(X)


def cubed(ct):
    """The cotangent, multiplied by itself as often as a loop goes round."""
    return dlvm.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * ct), (1, ct))[1]


def until_small(ct):
    return dlvm.while_loop(lambda c: c.sum() > 1, lambda c: c * 0.5, ct)


def folded(ct):
    return dlvm.scan(lambda c, a: (c * a, None), ct[0], ct)[0] + ct


def chosen(ct):
    return dlvm.cond(ct.sum() > 0, lambda: ct, lambda: ct * 2)


@dlvm.function
def deep(ct, n):
    return dlvm.cond(n == 0, lambda: ct, lambda: deep(ct, n - 1) * ct.sum())


def stacked(ct):
    """What moves is carried only from the second trip on."""
    return dlvm.fori_loop(0, 3, lambda i, s: (s[1], s[0] * s[1] + ct), (X * 0, X * 0 + 1))[0]


@pytest.mark.parametrize(
    "back",
    [cubed, until_small, folded, chosen, lambda ct: deep(ct, 2), stacked, dlvm.stop_gradient],
)
@pytest.mark.parametrize("mode", ["jvp", "linearize"])
def test_what_is_not_linear_is_found_in_loops_branches_and_calls(back, mode):
    @dlvm.custom_vjp
    def f(x):
        return x * 1

    f.defvjp(lambda x: (x * 1, None), lambda _, ct: (back(ct),))
    with pytest.raises(dlvm.UserError, match="must be linear in the cotangents"):
        dlvm.jvp(f, (X,), (W,)) if mode == "jvp" else dlvm.linearize(f, X)


def decayed(x, ct):
    return dlvm.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, dlvm.sin(x) * s[1]), (0, ct))[1]


def solved(x, ct):
    """A solver that is not linear in its steps, with a rule that is."""

    @dlvm.custom_vjp
    def divide(b, a):
        return dlvm.where(b * b > 0, b / a, 0)

    def back(kept, ct):
        y, a = kept
        return divide(ct, a), -divide(ct, a) * y

    divide.defvjp(lambda b, a: (divide(b, a), (divide(b, a), a)), back)
    return divide(ct, dlvm.exp(x))


def second(x, ct):
    return dlvm.vjp(lambda x: dlvm.vjp(lambda x: decayed(x, x), x)[1](x)[0], x)[1](ct)[0]


@dlvm.function
def deeper(x, ct, n):
    return dlvm.cond(n == 0, lambda: ct, lambda: deeper(x, ct, n - 1) * dlvm.sin(x) + ct)


@pytest.mark.parametrize("back", [decayed, solved, second, lambda x, ct: deeper(x, ct, 3)])
def test_what_is_linear_is_transposed(back):
    """The tangent is the transpose of the way back: <J v, w> = <v, J' w>."""

    @dlvm.custom_vjp
    def f(x):
        return x * 1

    f.defvjp(lambda x: (x * 1, x), lambda x, ct: (back(x, ct),))
    pushed, pulled = dlvm.jvp(f, (X,), (W,))[1], dlvm.vjp(f, X)[1](X + 1)[0]
    assert np.allclose((pushed * (X + 1)).sum(), (W * pulled).sum(), rtol=1e-12)
    assert np.allclose(dlvm.linearize(f, X)[1](W), pushed)


def test_a_rule_that_applies_its_function_to_tangents_needs_it_to_be_linear_by_itself():
    @dlvm.custom_jvp
    def divide(b, a):
        return dlvm.where(b * b > 0, b / a, 0)

    divide.defjvp(lambda p, t: (divide(*p), divide(t[0], p[1]) - divide(*p) / p[1] * t[1]))
    assert np.allclose(dlvm.jvp(divide, (X, W), (W, X))[1], 1 - X / W**2 * X)
    with pytest.raises(dlvm.UserError, match="must be linear in the tangents"):
        dlvm.grad(lambda x: divide(x, W).sum())(X)


def test_a_tangent_rule_may_hold_a_checkpoint():
    """What a checkpoint need not compute again is no residual, so the rule is linear."""

    @dlvm.custom_jvp
    def kept(x):
        return dlvm.checkpoint(lambda x: dlvm.sin(x) * x)(x)

    @kept.defjvp
    def rule(primals, tangents):
        return dlvm.jvp(dlvm.checkpoint(lambda x: dlvm.sin(x) * x), primals, tangents)

    y, push = dlvm.linearize(kept, X)
    assert np.allclose(y, np.sin(X) * X)
    assert np.allclose(push(Y), (np.cos(X) * X + np.sin(X)) * Y)
