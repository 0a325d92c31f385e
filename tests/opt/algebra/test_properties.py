"""What is known of a matrix is so: how it is made, through loops and branches, and as assumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.ir.knowledge import properties_of
from dlvm.ir.properties import IMPLIED, closed
from dlvm.ops import Assume, Matmul
from dlvm.opt.pipelines import MEANING
from dlvm.passes import run

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, 6, 6))
V = RNG.standard_normal(6)

HOLDS: dict[str, Callable[[Any], bool]] = {
    "symmetric": lambda x: np.allclose(x, np.swapaxes(x, -1, -2)),
    "psd": lambda x: bool((np.linalg.eigvalsh(x) > -1e-9 * np.abs(x).max()).all()),
    "spd": lambda x: bool((np.linalg.eigvalsh(x) > 0).all()),
    "lower": lambda x: np.array_equal(x, np.tril(x)),
    "upper": lambda x: np.array_equal(x, np.triu(x)),
    "diagonal": lambda x: np.array_equal(x, x * np.eye(x.shape[-1])),
    "orthogonal": lambda x: np.allclose(np.swapaxes(x, -1, -2) @ x, np.eye(x.shape[-1])),
    "identity": lambda x: np.array_equal(x, np.broadcast_to(np.eye(x.shape[-1]), x.shape)),
    "nonnegative": lambda x: bool((x >= 0).all()),
}

MADE: dict[str, tuple[Callable[..., Any], str]] = {
    "a Gram matrix": (lambda a, b, v: a @ a.T, "psd"),
    "another one": (lambda a, b, v: a.T @ a, "psd"),
    "a congruence": (lambda a, b, v: b @ (a + a.T) @ b.T, "symmetric"),
    "a congruence of a Gram matrix": (lambda a, b, v: b.T @ (a @ a.T @ b), "psd"),
    "a matrix and its transpose": (lambda a, b, v: a.T + a, "symmetric"),
    "a multiple": (lambda a, b, v: 3 * (a @ a.T) / 2, "psd"),
    "a difference": (lambda a, b, v: a @ a.T - b @ b.T, "symmetric"),
    "a sum of Gram matrices": (lambda a, b, v: a @ a.T + b @ b.T, "psd"),
    "a Schur product": (lambda a, b, v: (a @ a.T) * (b @ b.T), "psd"),
    "an outer product": (lambda a, b, v: dlvm.outer(v, v), "psd"),
    "a lower triangle": (lambda a, b, v: dlvm.tril(a), "lower"),
    "below the diagonal": (lambda a, b, v: dlvm.tril(a, -2), "lower"),
    "an upper triangle": (lambda a, b, v: dlvm.triu(a, 1), "upper"),
    "a turned triangle": (lambda a, b, v: dlvm.triu(a).T, "lower"),
    "a product of triangles": (lambda a, b, v: dlvm.tril(a) @ dlvm.tril(b), "lower"),
    "triangles of both sides": (lambda a, b, v: dlvm.tril(dlvm.triu(a)), "diagonal"),
    "a masked triangle": (lambda a, b, v: dlvm.tril(a) * b, "lower"),
    "a diagonal matrix": (lambda a, b, v: dlvm.diag(v), "diagonal"),
    "the identity": (lambda a, b, v: dlvm.eye(6), "identity"),
    "a shifted matrix": (lambda a, b, v: a @ a.T + 2 * dlvm.eye(6), "psd"),
    "a function of elements": (lambda a, b, v: dlvm.exp(a + a.T), "symmetric"),
    "exponentials": (lambda a, b, v: dlvm.exp(a), "nonnegative"),
    "squares": (lambda a, b, v: a * a, "nonnegative"),
    "a principal part": (lambda a, b, v: (a @ a.T)[1:5:2, 1:5:2], "psd"),
    "a Cholesky factor": (lambda a, b, v: dlvm.linalg.cholesky(a @ a.T), "lower"),
    "an upper factor": (lambda a, b, v: dlvm.linalg.qr(a[:, :4]).R, "upper"),
    "reflections": (lambda a, b, v: dlvm.linalg.qr(a).Q, "orthogonal"),
    "eigenvectors": (lambda a, b, v: dlvm.linalg.eigh(a).eigenvectors, "orthogonal"),
    "left singular vectors": (lambda a, b, v: dlvm.linalg.svd(a).U, "orthogonal"),
    "right singular vectors": (lambda a, b, v: dlvm.linalg.svd(a).Vh, "orthogonal"),
    "singular values": (lambda a, b, v: dlvm.linalg.svdvals(a), "nonnegative"),
    "a batch": (lambda a, b, v: dlvm.stack([a, b]) @ dlvm.stack([a, b]).mT, "psd"),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_known_of_a_matrix_holds(name: str):
    made, wanted = MADE[name]
    module = dlvm.trace(made, A, B, V).optimize(["simplify", "share"])
    found = properties_of(module.main.results[0])
    assert wanted in found, found
    (value,) = module.run(module.main.name, A, B, V)
    for word in found:
        assert HOLDS[word](value), word


@pytest.mark.parametrize("word", IMPLIED)
def test_what_follows_holds_of_random_matrices(word: str):
    """Every implication is true of matrices that are made to have a property."""
    s = A @ A.T
    made = {
        "symmetric": A + A.T,
        "psd": np.outer(V, V),
        "spd": s,
        "lower": np.tril(A),
        "upper": np.triu(A),
        "diagonal": np.diag(V),
        "orthogonal": np.linalg.qr(A)[0],
        "identity": np.eye(6),
        "nonnegative": A * A,
    }
    assert all(HOLDS[implied](made[word]) for implied in closed((word,)))
    assert closed(("lower", "upper")) >= {"diagonal", "symmetric"}
    assert closed(("lower", "symmetric")) >= {"diagonal", "upper"}


def test_a_carry_is_known_to_keep_what_every_trip_keeps():
    def kalman(p, a, q):
        def step(p, _):
            return a @ p @ a.T + q @ q.T, p.T @ a  # p.T is p, as every p is symmetric

        return dlvm.scan(step, p @ p.T, None, length=5)

    text = str(dlvm.trace(kalman, A, A, A).optimize([step.name for step in MEANING]))
    inside = text[text.index("body(") :]
    assert "permute %carry" not in inside and "assume" not in text
    f = dlvm.function(kalman)
    for found, expected in zip(f(A, A / 9, B), kalman(A, A / 9, B), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_carry_that_loses_a_property_is_not_known_to_have_it():
    def f(p, a):
        def step(p, _):
            return p @ a, p.T

        return dlvm.scan(step, p @ p.T, None, length=3)

    for found, expected in zip(dlvm.function(f)(A, B), f(A, B), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_both_sides_of_a_branch_must_have_it():
    def same(c, a):
        return dlvm.cond(c, lambda x: x @ x.T, lambda x: x + x.T, a).T

    def other(c, a):
        return dlvm.cond(c, lambda x: x @ x.T, lambda x: x @ x, a).T

    names = [step.name for step in MEANING]
    assert "permute" in str(dlvm.trace(other, True, A).optimize(names))
    for f in (same, other):
        for c in (True, False):
            np.testing.assert_allclose(dlvm.function(f)(c, A), f(c, A), rtol=1e-9)
    last = dlvm.trace(same, True, A).optimize(names).main.results[0]
    assert last.name != "permute"  # type: ignore[attr-defined]


SIGNED: dict[str, Callable[..., Any]] = {
    "a root": lambda a: dlvm.sqrt(a),
    "one over a root": lambda a: 1 / dlvm.sqrt(a),
    "a quotient of roots": lambda a: dlvm.sqrt(a) / dlvm.sqrt(a),
    "a square": lambda a: a * a,
    "one over a square": lambda a: 1 / (a * a),
    "exponentials": lambda a: dlvm.exp(a) * dlvm.sigmoid(a),
    "a root times a square": lambda a: dlvm.sqrt(a) * (a * a),
    "the least of two": lambda a: dlvm.where(a > 0, dlvm.sqrt(a), 0),
    "a magnitude": lambda a: abs(a) + dlvm.hypot(a, a),
    "a constant": lambda a: np.array([[-0.0, 2.0], [1.0, 0.0]]) * dlvm.exp(a[:2, :2]),
    "a Gram matrix's diagonal": lambda a: dlvm.linalg.diagonal(a @ a.T),
    "sums of squares": lambda a: (a * a).sum(0),
}
"""Values whose signs are known, or seem to be: at -0 some of them are negative infinities."""
EDGES = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e308])


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_magnitude_changes_no_bit_of_a_special_value(name: str, dtype: Any):
    """Laws of elements are exact or absent, what is known of signs included."""
    with np.errstate(all="ignore"):
        a = np.stack([np.roll(EDGES, i) for i in range(len(EDGES))]).astype(dtype)
        found = dlvm.function(lambda a: abs(SIGNED[name](a)))(a)
        expected = dlvm.function(lambda a: abs(SIGNED[name](a)), numerics="strict")(a)
    np.testing.assert_array_equal(found, expected)
    known_bits = ~np.isnan(expected)
    assert not np.signbit(found[known_bits]).any()


# -- assumptions ----------------------------------------------------------------------------------

S = A + A.T
Q = np.linalg.qr(A)[0]


def products(f: Any, *arrays: Any) -> int:
    main = dlvm.function(f).compile(*arrays).road.optimized.main
    return sum(isinstance(op, Matmul) for op in main.ops)


def test_the_gradient_of_a_quadratic_form_is_one_product():
    def form(x, a):
        return 0.5 * x @ dlvm.assume(a, "symmetric") @ x

    gradient = dlvm.grad(form)
    assert products(gradient, V, S) <= 2
    np.testing.assert_allclose(gradient(V, S), S @ V, rtol=1e-9)
    hessian = dlvm.jacobian(gradient)
    np.testing.assert_allclose(hessian(V, S), S, rtol=1e-9)
    np.testing.assert_allclose(dlvm.grad(form, wrt=1)(V, S), 0.5 * np.outer(V, V), rtol=1e-9)


def test_orthogonal_factors_cancel():
    def f(q, a):
        q = dlvm.assume(q, "orthogonal")
        return q.T @ (q @ a)

    assert products(f, Q, A) == 0
    np.testing.assert_allclose(dlvm.function(f)(Q, A), A, rtol=1e-9)
    g = dlvm.function(lambda q: dlvm.assume(q, "orthogonal").T @ dlvm.assume(q, "orthogonal"))
    np.testing.assert_allclose(g(Q), np.eye(6), atol=1e-12)


FACTORS: dict[str, tuple[Callable[..., Any], str]] = {
    "the lower triangle of a Cholesky factor": (
        lambda s, a: dlvm.tril(dlvm.linalg.cholesky(s)),
        "select",
    ),
    "more of it than that": (lambda s, a: dlvm.tril(dlvm.linalg.cholesky(s), 2), "select"),
    "the upper triangle of R": (lambda s, a: dlvm.triu(dlvm.linalg.qr(a).R), "select"),
    "the other triangle": (lambda s, a: dlvm.tril(dlvm.linalg.cholesky(s).T.T), "select"),
    "columns of eigenvectors": (
        lambda s, a: dlvm.linalg.eigh(s)[1].T @ dlvm.linalg.eigh(s)[1],
        "matmul",
    ),
    "reflections and their transpose": (
        lambda s, a: dlvm.linalg.qr(s).Q.T @ (dlvm.linalg.qr(s).Q @ a.T),
        "matmul",
    ),
    "reduced reflections": (
        lambda s, a: dlvm.linalg.qr(a.T).Q.T @ (dlvm.linalg.qr(a.T).Q @ a),
        "matmul",
    ),
    "rows of singular vectors": (lambda s, a: _right(a) @ _right(a).T, "matmul"),
}
"""Programs and the operation that what is known of factors saves."""


def _right(a: Any) -> Any:
    return dlvm.linalg.svd(a, full_matrices=False).Vh


def test_projections_of_reduced_factors_stay():
    """``Q Q'`` is no identity where Q has more rows than columns."""

    def project(a):
        q, v = dlvm.linalg.qr(a.T).Q, _right(a)
        return q @ q.T, v.T @ v

    p, v = dlvm.function(project)(A[:4])
    np.testing.assert_allclose([p.trace(), v.trace()], [4, 4], atol=1e-12)
    np.testing.assert_allclose(p, v, atol=1e-12)


@pytest.mark.parametrize("name", FACTORS)
def test_what_is_known_of_factors_saves_work(name: str):
    program, saved = FACTORS[name]
    s, a = A @ A.T + np.eye(6), A[:4]
    names = [step.name for step in MEANING]
    text = str(dlvm.trace(lambda s, a: program(s, a), s, a).optimize(names))
    assert f" {saved} %" not in text
    strict = dlvm.function(lambda s, a: program(s, a), numerics="strict")
    np.testing.assert_allclose(
        dlvm.function(lambda s, a: program(s, a))(s, a), strict(s, a), atol=1e-12
    )


def test_other_triangles_of_factors_are_cut():
    s = A @ A.T + np.eye(6)
    for k in (-1, -3):
        found = dlvm.function(lambda s, k=k: dlvm.tril(dlvm.linalg.cholesky(s), k))(s)
        np.testing.assert_allclose(found, np.tril(np.linalg.cholesky(s), k), atol=1e-12)
    found = dlvm.function(lambda s: dlvm.triu(dlvm.linalg.cholesky(s)))(s)
    np.testing.assert_allclose(found, np.diag(np.diag(np.linalg.cholesky(s))), atol=1e-12)


def test_a_diagonal_matrix_scales():
    def f(d, a):
        return dlvm.assume(d, "diagonal") @ a

    assert products(f, np.diag(V), A) == 0
    np.testing.assert_allclose(dlvm.function(f)(np.diag(V), A), V[:, None] * A, rtol=1e-9)


def test_an_assumption_is_the_identity_and_leaves_no_trace():
    f = dlvm.function(lambda a: dlvm.assume(a, "spd", "nonnegative") * 2)
    np.testing.assert_array_equal(f(A), A * 2)
    compiled = f.compile(A)
    assert 'assume %a known="spd"' in compiled.text("traced")
    assert "assume" not in compiled.text("optimized")
    assert dlvm.assume(A, "spd") is A
    batched = dlvm.vmap(lambda a: dlvm.assume(a, "symmetric").T)(np.stack([S, S]))
    np.testing.assert_array_equal(batched, np.stack([S, S]))


FALSE = {
    "symmetric": A,
    "psd": -np.eye(6),
    "spd": -np.eye(6),
    "lower": A,
    "upper": A,
    "diagonal": A,
    "orthogonal": 2 * Q,
    "identity": 2 * np.eye(6),
    "nonnegative": A,
}
TRUE = {
    "symmetric": S,
    "psd": A @ A.T,
    "spd": A @ A.T,
    "lower": np.tril(A),
    "upper": np.triu(A),
    "diagonal": np.diag(V),
    "orthogonal": Q,
    "identity": np.eye(6),
    "nonnegative": A * A,
}


@pytest.mark.parametrize("word", IMPLIED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_debug_checks_what_is_assumed(word: str, dtype: Any):
    f = dlvm.function(lambda a: dlvm.assume(a * 1, word) + 1)
    f(FALSE[word].astype(dtype))
    with dlvm.debug(assumptions=True):
        f(TRUE[word].astype(dtype))
        with pytest.raises(dlvm.FalseAssumption, match=word) as caught:
            f(FALSE[word].astype(dtype))
    assert "test_properties.py" in str(caught.value)
    f(FALSE[word].astype(dtype))


NEARLY = {
    "an spd matrix that is not symmetric": (np.array([[1.0, 2.0], [0.0, 1.0]]), "spd"),
    "a psd matrix that is not symmetric": (np.array([[1.0, 2.0], [0.0, 1.0]]), "psd"),
    "infinities that differ": (np.array([[0.0, np.inf], [-np.inf, 0.0]]), "symmetric"),
    "a NaN beside a number": (np.array([[0.0, np.nan], [1.0, 0.0]]), "symmetric"),
    "a large element beside an infinity": (np.array([[np.inf, 5.0], [1.0, 1.0]]), "symmetric"),
    "one matrix of a batch": (np.stack([S, A]), "symmetric"),
    "whole numbers": (np.array([[1, 2], [3, 4]]), "symmetric"),
}
FITTING = {
    "nothing": (np.zeros((0, 0)), "spd"),
    "one number": (np.ones((1, 1)), "identity"),
    "a NaN on both sides": (np.array([[1.0, np.nan], [np.nan, 1.0]]), "spd"),
    "an infinity on both sides": (np.array([[1.0, np.inf], [np.inf, 1.0]]), "symmetric"),
    "a batch": (np.stack([S, S]), "symmetric"),
    "whole numbers": (np.array([[1, 2], [2, 4]]), "psd"),
    "halves": (S.astype(np.float16), "symmetric"),
}


@pytest.mark.parametrize("name", NEARLY)
def test_debug_finds_what_only_seems_to_have_a_property(name: str):
    array, word = NEARLY[name]
    with dlvm.debug(assumptions=True), pytest.raises(dlvm.FalseAssumption):
        dlvm.function(lambda a: dlvm.assume(a, word) + 1)(array)


@pytest.mark.parametrize("name", FITTING)
def test_debug_lets_pass_what_has_a_property(name: str):
    array, word = FITTING[name]
    with dlvm.debug(assumptions=True):
        dlvm.function(lambda a: dlvm.assume(a, word) + 1)(array)


def test_debug_checks_inside_of_loops():
    def f(a):
        return dlvm.scan(lambda c, _: (dlvm.assume(c @ a, "symmetric"), None), a, None, length=2)[0]

    checked = dlvm.function(f, debug="assumptions")
    checked(np.eye(6) * 2)
    with pytest.raises(dlvm.FalseAssumption):
        checked(A)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: dlvm.assume(A, "round"), "there is no such property"),
        (lambda: dlvm.assume(A[:3], "symmetric"), "square"),
        (lambda: dlvm.assume(V, "spd"), "square"),
    ],
)
def test_what_can_not_be_assumed_is_an_error(call: Any, said: str):
    with pytest.raises(dlvm.UserError, match=said):
        call()


def test_an_assumption_goes_into_the_text_and_out_of_it():
    module = dlvm.trace(lambda a: dlvm.assume(a, "lower") @ a, A)
    again = dlvm.parse(str(module))
    assert str(again) == str(module)
    assert any(isinstance(op, Assume) for op in again.main.ops)


def columns(a: Any) -> Any:
    """Three orthonormal columns of five elements."""
    return dlvm.linalg.qr(a)[0]


def of_rows(a: Any) -> Any:
    """The same as the transpose of orthonormal rows."""
    return dlvm.linalg.svd(a.T, full_matrices=False)[2].T


@pytest.mark.parametrize("made", [columns, of_rows])
def test_orthonormal_columns_cancel_behind_their_transpose_and_not_in_front(made: Any):
    a, x, y = RNG.normal(size=(5, 3)), RNG.normal(size=(3, 7)), RNG.normal(size=(5, 7))
    inner = dlvm.trace(lambda a, x: made(a).T @ (made(a) @ x), a, x)
    outer = dlvm.trace(lambda a, y: made(a) @ (made(a).T @ y), a, y)
    for module, given, products in ((inner, (a, x), 0), (outer, (a, y), 2)):
        found = run(module, MEANING)
        assert sum(isinstance(op, Matmul) for op in found.main.ops) == products
        name = module.main.name
        np.testing.assert_allclose(found.run(name, *given)[0], module.run(name, *given)[0])
