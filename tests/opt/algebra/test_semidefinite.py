"""Gram matrices take Cholesky factors, and LU factors where those fail: what LU means stays."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.ad import expand
from dlvm.ir import parse

linalg = dlvm.linalg
RNG = np.random.default_rng(0)
SIZES = [0, 1, 16, 17, 61, 100]
TYPES = [np.float64, np.float32]


def gram(n, dtype=np.float64, batch=(), columns=None):
    """A definite matrix of a condition that both kinds of factors solve well."""
    x = RNG.standard_normal((*batch, 2 * n if columns is None else columns, n))
    return (np.swapaxes(x, -1, -2) @ x / max(n, 1)).astype(dtype)


def everything(a, b):
    """All that factors serve, of a matrix that is stated to be semidefinite alone."""
    a = dlvm.assume(a, "psd")
    sign, logarithm = linalg.slogdet(a)
    return linalg.solve(a, b), linalg.inv(a), b.mT @ linalg.inv(a) @ b, sign, logarithm


def counted(call, *arrays, **options):
    """How often each is written in the optimised text of the first function."""
    text = str(dlvm.function(call, **options).compile(*arrays).text("optimized"))
    text = text.split("\n}")[0]
    return {op: text.count(f"= {op} ") for op in ("cholesky", "lu")}


def strictly(call):
    return dlvm.function(call, numerics="strict")


BRANCH, LU = {"cholesky": 1, "lu": 1}, {"cholesky": 0, "lu": 1}


def agree(call, *arrays, rtol):
    """The same as with LU factors; sizes of rounding errors are those of the largest element."""
    found, expected = dlvm.function(call)(*arrays), strictly(call)(*arrays)
    for one, other in zip(found, expected, strict=True):
        other = np.asarray(other)
        assert one.dtype == other.dtype
        size = np.abs(other[np.isfinite(other)]).max(initial=0)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * size)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", SIZES)
def test_a_definite_matrix_has_the_results_of_lu_factors(n, dtype):
    a, b = gram(n, dtype), RNG.standard_normal((n, 3)).astype(dtype)
    agree(everything, a, b, rtol=1e4 * np.finfo(dtype).eps)
    assert counted(everything, a, b) == (BRANCH if n >= 16 else LU)


def singular(kind, dtype):
    """Matrices without a usable Cholesky factor."""
    n = 20
    x = RNG.integers(-3, 4, (30, n)).astype(dtype)
    x[:, 7] = x[:, 3]
    a = x.T @ x
    match kind:
        case "duplicate columns":
            return a
        case "nearly singular":
            return (a + np.diag(np.eye(n)[7] * 3 * np.finfo(dtype).eps * a[7, 7])).astype(dtype)
        case "zeros":
            return np.zeros_like(a)
        case "a row of zeros":
            keep = np.arange(n) != 5
            return a * np.outer(keep, keep)
        case "indefinite":
            return (gram(n) - np.eye(n)).astype(dtype)
        case "nan":
            a[4, 4] = np.nan
            return a
        case "inf":
            a[9, 9] = np.inf
            return a
        case _:
            return -gram(n, dtype)


KINDS = [
    "duplicate columns",
    "nearly singular",
    "zeros",
    "a row of zeros",
    "indefinite",
    "nan",
    "inf",
    "negative",
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_where_there_is_no_factor_the_bits_are_those_of_lu_factors(kind, dtype):
    """Also of nearly singular matrices, whose inverses would amplify any other rounding."""
    a, b = singular(kind, dtype), RNG.standard_normal((20, 3)).astype(dtype)

    def call(a, b):
        a = dlvm.assume(a, "psd")
        return linalg.solve(a, b), *linalg.slogdet(a), linalg.det(a)

    assert counted(call, a, b) == BRANCH
    found, expected = dlvm.function(call)(a, b), strictly(call)(a, b)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rounding_may_leave_a_factor_of_a_singular_matrix_which_is_not_taken():
    """The last pivot of ones plus roundings is 1e-16 at best, and LU factors give an exact 0."""
    a = np.full((16, 16), 3.0)
    a[:15, :15] += np.eye(15) * 7
    a[15] = a[:, 15] = a[3]
    a[15, 15] = a[3, 3]
    found = dlvm.function(lambda a: linalg.det(dlvm.assume(a, "psd")))(a)
    assert found == strictly(lambda a: linalg.det(a))(a)


def test_rows_of_other_units_are_not_singular():
    """Pivots are compared with their own rows: this matrix takes the Cholesky factor."""
    a = gram(20)
    units = 10.0 ** np.linspace(-60, 60, 20)
    scaled = a * np.outer(units, units)
    call = dlvm.function(lambda a, b: linalg.solve(dlvm.assume(a, "psd"), b))
    definite = dlvm.function(lambda a, b: linalg.solve(dlvm.assume(a, "spd"), b))
    b = units * RNG.standard_normal(20)
    np.testing.assert_array_equal(call(scaled, b), definite(scaled, b))
    np.testing.assert_allclose(call(scaled, b) * units, np.linalg.solve(a, b / units), rtol=1e-9)


# -- batches --------------------------------------------------------------------------------------


def solved(a, b):
    return linalg.solve(dlvm.assume(a, "psd"), b)


def mixed(dtype=np.float64):
    """Good matrices with one that has no factor among them."""
    many = gram(20, dtype, (4,))
    many[2] = singular("indefinite", dtype)
    return many, RNG.standard_normal((4, 20, 2)).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("wrap", [lambda f: f, dlvm.vmap], ids=["batch", "vmap"])
def test_one_bad_matrix_of_a_batch_changes_no_other(wrap, dtype):
    many, right = mixed(dtype)
    call = dlvm.function(wrap(solved))
    assert counted(wrap(solved), many, right) == BRANCH
    found = call(many, right)
    for i in (0, 1, 3):
        definite = dlvm.function(lambda a, b: linalg.solve(dlvm.assume(a, "spd"), b))
        np.testing.assert_array_equal(found[i], definite(many[i], right[i]))
    np.testing.assert_array_equal(found[2], strictly(solved)(many[2], right[2]))
    many[2] = 0
    assert np.isnan(call(many, right)[2]).all()
    np.testing.assert_array_equal(call(many, right)[[0, 1, 3]], found[[0, 1, 3]])


def test_a_matrix_shared_by_all_lanes_is_factorised_once():
    (a, bad), right = (gram(20), singular("indefinite", np.float64)), mixed()[1]
    shared = dlvm.vmap(solved, in_axes=(None, 0))
    assert counted(shared, a, right) == BRANCH
    for x in (a, bad):
        np.testing.assert_allclose(
            dlvm.function(shared)(x, right), np.linalg.solve(x, right), rtol=1e-9, atol=1e-11
        )


def test_batches_of_two_axes_and_of_no_matrices():
    call = dlvm.function(solved)
    many = gram(17, batch=(2, 3))
    many[1, 1] = singular("indefinite", np.float64)[:17, :17]
    right = RNG.standard_normal((2, 3, 17, 1))
    np.testing.assert_allclose(call(many, right), np.linalg.solve(many, right), rtol=1e-8)
    assert call(many[:0], right[:0]).shape == (0, 3, 17, 1)


def test_determinants_of_a_batch_have_their_signs():
    many = mixed()[0]
    call = dlvm.function(lambda a: (*linalg.slogdet(dlvm.assume(a, "psd")), linalg.det(a)))
    sign, logarithm, det = call(many)
    np.testing.assert_array_equal(sign, np.linalg.slogdet(many)[0])
    np.testing.assert_allclose(logarithm, np.linalg.slogdet(many)[1], rtol=1e-10)
    np.testing.assert_allclose(det, np.linalg.det(many), rtol=1e-10)


# -- derivatives ----------------------------------------------------------------------------------


def ridge(x, y, weight):
    gram = x.T @ x + weight * dlvm.eye(x.shape[1])
    return ((x @ linalg.solve(gram, x.T @ y) - y) ** 2).sum()


def likelihood(x, y, noise):
    covariance = x @ x.T + noise**2 * dlvm.eye(x.shape[0])
    half = y @ linalg.inv(covariance) @ y
    return linalg.slogdet(covariance).logabsdet + half


X, Y = RNG.standard_normal((40, 20)), RNG.standard_normal(40)
# A weight of -30 makes the Gram matrix of the ridge indefinite: its factors are LU ones.
PROBLEMS = [(ridge, (X, Y, 0.5)), (ridge, (X, Y, -30.0)), (likelihood, (X, Y, 0.7))]


@pytest.mark.parametrize(("loss", "arguments"), PROBLEMS)
def test_a_value_and_its_gradient_share_one_factor_and_one_branch(loss, arguments):
    both = dlvm.value_and_grad(loss, wrt=(0, 1, 2))
    assert counted(loss, *arguments) == counted(both, *arguments) == BRANCH


@pytest.mark.parametrize(("loss", "arguments"), PROBLEMS)
def test_derivatives_are_those_of_lu_factors_and_of_differences(loss, arguments):
    slope = dlvm.grad(loss, wrt=(0, 1, 2))
    found, expected = dlvm.function(slope)(*arguments), strictly(slope)(*arguments)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)
    along = tuple(RNG.standard_normal(np.shape(v)) for v in arguments)
    step = 1e-5
    ends = [
        loss(*(v + s * d for v, d in zip(arguments, along, strict=True))) for s in (step, -step)
    ]
    difference = (ends[0] - ends[1]) / (2 * step)
    assert abs(difference) > 1e-3
    total = sum((np.asarray(g) * d).sum() for g, d in zip(found, along, strict=True))
    np.testing.assert_allclose(total, difference, rtol=1e-5)
    forward = dlvm.function(lambda v, d: dlvm.jvp(loss, v, d))(arguments, along)[1]
    np.testing.assert_allclose(forward, total, rtol=1e-9)


def test_derivatives_of_a_batch_with_a_bad_matrix():
    many, right = mixed()
    slope = dlvm.grad(lambda a, b: (solved(a, b) ** 2).sum(), wrt=(0, 1))
    assert counted(slope, many, right) == BRANCH
    for one, other in zip(
        dlvm.function(slope)(many, right), strictly(slope)(many, right), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def test_the_rewritten_text_has_a_derivative_too():
    """Where there is a Cholesky factor; where there is none, that of the factor is NaN."""
    weight = 0.5
    text = str(dlvm.function(ridge).compile(X, Y, weight).text("optimized")).rstrip()
    assert "= cond " in text
    module = expand(parse(f"{text}\nadjoint @slope of @ridge wrt (0, 1, 2)\n")).verify()
    found = module.run("slope", X, Y, np.float64(weight))
    expected = strictly(dlvm.grad(ridge, wrt=(0, 1, 2)))(X, Y, weight)
    for one, other in zip(found[-3:], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("weight", [0.5, -30.0])
def test_machine_code_and_interpreter_agree(weight):
    compiled = dlvm.function(ridge).compile(X, Y, weight)
    expected = parse(str(compiled.text("optimized"))).run("ridge", X, Y, np.float64(weight))[0]
    np.testing.assert_allclose(compiled(X, Y, weight), expected, rtol=1e-12)


# -- where it applies -----------------------------------------------------------------------------


def scaled(x, y, s):
    return linalg.solve(s * (x.T @ x) / 7.0, x.T @ y)


def symmetric(x, y, s):
    return linalg.solve(x.T @ x - s * dlvm.ones((20, 20)), x.T @ y)


def half_known(x, y, s):
    return linalg.solve(x.T @ x + s * (x[:20] + x[:20].T), x.T @ y)


def lacking(x, y, s):
    return linalg.solve(x @ x.T, y * s)


def stated(x, y, s):
    return linalg.solve(dlvm.assume(x.T @ x, "spd"), x.T @ y * s)


def few(x, y, s):
    return linalg.solve(x[:, :15].T @ x[:, :15], x[:, :15].T @ y * s)


def cofactors(x, y, s):
    return dlvm.grad(lambda a: linalg.det(a.T @ a))(x[:20] * s)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (scaled, BRANCH),
        (symmetric, LU),
        (half_known, LU),
        (lacking, LU),
        (stated, {"cholesky": 1, "lu": 0}),
        (few, LU),
        (cofactors, LU),
    ],
)
def test_which_matrices_are_tried(call, expected):
    assert counted(call, X, Y, 1.5) == expected
    expected = strictly(call)(X, Y, 1.5)
    if call is not lacking:
        np.testing.assert_allclose(dlvm.function(call)(X, Y, 1.5), expected, rtol=1e-8)


def test_open_sizes_and_strict_numerics_keep_lu_factors():
    assert counted(ridge, X, Y, 1.0, numerics="strict") == LU
    assert counted(ridge, dlvm.spec("f64[M,N]"), dlvm.spec("f64[M]"), 1.0) == LU
    few_and_many = dlvm.function(ridge).compile(
        dlvm.spec("f64[M,20]"), dlvm.spec("f64[M]"), dlvm.spec("f64")
    )
    assert "= cholesky " in str(few_and_many.text("optimized"))
    np.testing.assert_allclose(few_and_many(X, Y, 1.0), strictly(ridge)(X, Y, 1.0), rtol=1e-10)


def test_a_batch_of_open_size_branches():
    call = dlvm.function(solved).compile(dlvm.spec("f64[B,20,20]"), dlvm.spec("f64[B,20,2]"))
    assert "= cholesky " in str(call.text("optimized"))
    many, right = mixed()
    for count in (0, 1, 4):
        a, b = many[:count], right[:count]
        np.testing.assert_allclose(call(a, b), np.linalg.solve(a, b), rtol=1e-8, atol=1e-10)


def test_solves_inside_of_a_loop_branch_on_every_trip():
    def call(x, b):
        def trip(i, v):
            covariance, b = v
            covariance = covariance @ covariance.T / 9.0 + dlvm.eye(20)
            return covariance, linalg.solve(covariance, b)

        return dlvm.fori_loop(0, 3, trip, (x, b))[1]

    a, b = RNG.standard_normal((20, 20)), RNG.standard_normal(20)
    assert counted(call, a, b) == BRANCH
    np.testing.assert_allclose(dlvm.function(call)(a, b), strictly(call)(a, b), rtol=1e-9)


def test_explain_names_the_law_and_the_assumption_that_spares_the_branch():
    f = dlvm.function(ridge)
    f(X, Y, 1.0)
    (line,) = (line for line in f.explain(laws=True).laws if line.startswith("by_cholesky_or_lu"))
    assert __file__.rsplit("/", 1)[-1] in line
    assert 'dlvm.assume(…, "spd")' in line


def test_programs_for_gpus_and_for_other_processors_are_written(tmp_path):
    made = dlvm.function(ridge, target="cuda:sm_90").compile(X, Y, 1.0)
    assert "= cond " in str(made.text("optimized"))
    assert ".entry" in made.text("ptx")
    bundle = dlvm.aot(
        ridge,
        *(dlvm.spec(t) for t in ("f64[40,20]", "f64[40]", "f64")),
        target="x86-64-v3",
        out=tmp_path,
    )
    assert bundle is not None
    assert any(tmp_path.iterdir())


# -- projections ----------------------------------------------------------------------------------


def by_inverse(x, y):
    return x @ linalg.inv(x.T @ x) @ x.T @ y


def by_solve(x, y):
    return x @ linalg.solve(x.T @ x, x.T) @ y


@pytest.mark.parametrize("columns", [4, 20, 60])
@pytest.mark.parametrize("project", [by_inverse, by_solve])
def test_a_projection_of_all_rows_is_never_formed(project, columns):
    x, y = RNG.standard_normal((307, columns)), RNG.standard_normal(307)

    def squares(x, y):
        return (project(x, y) * y).sum()

    for call in (project, dlvm.value_and_grad(squares, wrt=(0, 1))):
        text = str(dlvm.function(call).compile(x, y).text("optimized")).split("\n}")[0]
        assert "[307,307]" not in text
    q = np.linalg.qr(x)[0]
    np.testing.assert_allclose(dlvm.function(project)(x, y), q @ (q.T @ y), atol=1e-9)
    _, (dx, dy) = dlvm.function(dlvm.value_and_grad(squares, wrt=(0, 1)))(x, y)
    np.testing.assert_allclose(dy, 2 * q @ (q.T @ y), atol=1e-9)
    z = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(dx, 2 * np.outer(y - x @ z, z), atol=1e-9)
