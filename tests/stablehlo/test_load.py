"""Functions as JAX lowers them, loaded: they equal JAX, and can be differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm

jax = pytest.importorskip("jax", reason="the tests of StableHLO need jax: pip install jax")
jnp, lax = jax.numpy, jax.lax

rng = np.random.default_rng(5)


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return rng.normal(size=shape).astype(np.float32)


def whole(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int32)


X, Y, V, IMAGE, TAPS = drawn(5, 3), drawn(3, 4), drawn(6), drawn(2, 8, 8, 4), drawn(3, 3, 4, 6)
AXES = ("NHWC", "HWIO", "NHWC")
I = whole(0, 2, -1)  # noqa: E741
N, D = whole(7, -7, 100), whole(2, 2, -9)
KEY = np.array([1, 2], np.uint32)


def conv(x, w, *options, **more):
    return lax.conv_general_dilated(x, w, *options, dimension_numbers=AXES, **more)


def rows(c, xs):
    return lax.scan(lambda c, x: (jnp.sin(c * x), c + x), c, xs)


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "bits of floats": (lambda x: lax.bitcast_convert_type(x, jnp.int32), (X,)),
    "bits of halves": (lambda x: lax.bitcast_convert_type(x, jnp.uint16), (X.astype("f2"),)),
    "gradient of a layer": (jax.value_and_grad(lambda w, x: (jnp.tanh(x @ w) ** 2).mean()), (Y, X)),
    "convolution": (lambda x, w: conv(x, w, (2, 1), "SAME"), (IMAGE, TAPS)),
    "dilated": (lambda x, w: conv(x, w, (1, 1), "VALID", rhs_dilation=(2, 1)), (IMAGE, TAPS)),
    "transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (IMAGE, TAPS)),
    "groups": (
        lambda x, w: conv(x, w, (1, 1), "SAME", feature_group_count=2),
        (IMAGE, drawn(3, 3, 2, 6)),
    ),
    "gradient of groups": (
        jax.grad(
            lambda w, x: (conv(x, w, (1, 1), "SAME", feature_group_count=2) ** 2).sum(),
            argnums=(0, 1),
        ),
        (drawn(3, 3, 2, 6), IMAGE),
    ),
    "gradient of a convolution": (
        jax.grad(lambda w, x: (conv(x, w, (2, 1), "SAME") ** 2).sum(), argnums=(0, 1)),
        (TAPS, IMAGE),
    ),
    "top k": (lambda x: lax.top_k(x, 2), (X,)),
    "sort": (lambda x: jnp.sort(x, axis=0), (X,)),
    "argsort": (jnp.argsort, (X,)),
    "sorted pairs": (lambda x, y: lax.sort((x, y), dimension=0, num_keys=1), (X, X * 2)),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), (X,)),
    "cumsum backwards": (lambda x: lax.cumsum(x, axis=0, reverse=True), (X,)),
    "cummax": (lambda x: lax.cummax(x, axis=1), (X,)),
    "cumulative logsumexp": (lambda x: lax.cumlogsumexp(x, axis=1), (X,)),
    "argmax": (lambda x: (jnp.argmax(x, axis=1), jnp.argmin(x, axis=0)), (X,)),
    "max pool": (pooled, (IMAGE,)),
    "gradient of max pool": (jax.grad(lambda x: (pooled(x) ** 2).sum()), (IMAGE,)),
    "sum pool": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        (IMAGE,),
    ),
    "gather": (lambda x, i: x[i], (X, I)),
    "gather of columns": (lambda x, i: x[:, i], (X, I)),
    "gather of elements": (lambda x, i, j: x[i, j], (X, I, I)),
    "take along": (lambda x, i: jnp.take_along_axis(x, i, axis=0), (X, I[None])),
    "vmap of a gather": (jax.vmap(lambda x, i: x[i]), (X, whole(0, 2, 1, 1, 0))),
    "gradient of a gather": (jax.grad(lambda x, i: (x[i] ** 2).sum()), (X, I)),
    "gradient of elements": (jax.grad(lambda x, i, j: (x[i, j] ** 2).sum()), (X, I, I)),
    "set": (lambda x, i: x.at[i].set(0.5), (X, I)),
    "set outside": (lambda x, i: x.at[i].add(1.0), (X, whole(0, 9, -1))),
    "largest of": (lambda x, i: x.at[i].max(0.0), (X, I)),
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, 3), (X, whole(0, 2, 1, 1, 1))),
    "scan": (rows, (V[:3], X)),
    "gradient of a scan": (jax.grad(lambda c, x: rows(c, x)[1].sum(), argnums=(0, 1)), (V[:3], X)),
    "while": (lambda x: lax.while_loop(lambda s: s < 10, lambda s: s * 2, x), (np.float32(1.3),)),
    "fori": (lambda x: lax.fori_loop(2, 7, lambda i, s: s * 0.5 + i, x), (np.float32(1),)),
    "cond": (lambda p, x: lax.cond(p > 0, lambda x: x * 2, lambda x: x + 1, x), (np.float32(1), V)),
    "switch": (
        lambda i, x: lax.switch(i, [lambda x: x * 2, lambda x: x + 1, lambda x: x], x),
        (np.int32(7), V),
    ),
    "random normal": (lambda k: jax.random.normal(k, (40,)), (KEY,)),
    "split keys": (lambda k: jax.random.uniform(jax.random.split(k)[0], (40,)), (KEY,)),
    "permutation": (lambda k: jax.random.bits(k, (5,)), (KEY,)),
    "special": (
        lambda x: (jax.scipy.special.erf(x), jax.scipy.special.gammaln(x), lax.digamma(x)),
        (np.abs(X) + 0.1,),
    ),
    "hyperbolic": (lambda x: (jnp.sinh(x), jnp.arcsin(x / 10), jnp.arccosh(x**2 + 2)), (X,)),
    "rounding": (lambda x: (jnp.round(x), jnp.trunc(x), jnp.sign(x), lax.round(x)), (X * 3,)),
    "quotients": (lambda n, d: (n // d, n % d, lax.div(n, d), lax.rem(n, d)), (N, D)),
    "bits": (lambda n, d: (n << 3, n >> 2, n & d, ~n, lax.population_count(n), lax.clz(n)), (N, D)),
    "padding": (lambda x: lax.pad(x, 1.5, ((1, 2, 1), (-1, 2, 0))), (X,)),
    "dynamic": (
        lambda x, i: (
            lax.dynamic_slice(x, (i, 1), (2, 2)),
            lax.dynamic_update_slice(x, x[:2, :2], (i, 1)),
        ),
        (X, np.int32(4)),
    ),
    "attention": (lambda q: jax.nn.softmax(q @ q.swapaxes(-1, -2)) @ q, (drawn(2, 4, 3),)),
    "einsum": (lambda a, b: jnp.einsum("bij,kjb->bik", a, b), (drawn(2, 3, 4), drawn(5, 4, 2))),
    "gradient of gelu": (jax.grad(lambda x: jax.nn.gelu(x, approximate=False).sum()), (X,)),
    "layer norm": (
        lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5),
        (X,),
    ),
    "associative scan": (lambda x: lax.associative_scan(jnp.multiply, x), (V,)),
    "hessian": (jax.hessian(lambda v: jnp.sin(v).prod()), (V,)),
    "checkpoint": (
        jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())(x)),
        (X,),
    ),
    "halves": (lambda x: x.astype("bfloat16") * jnp.array([1, 2.5, -1], "bfloat16"), (X,)),
    "any": (lambda x: ((x > 0).any(0), (x > 0).all(1), (x > 0).sum()), (X,)),
}


def lowered(f: Any, *args: Any) -> str:
    return jax.jit(f).lower(*args).as_text()


@pytest.mark.parametrize("name", CASES)
def test_what_jax_lowers_is_what_we_compute(name: str):
    f, args = CASES[name]
    expected = jax.tree.leaves(jax.jit(f)(*args))
    found = dlvm.tree.leaves(dlvm.stablehlo.load(lowered(f, *args))(*args))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        theirs = np.asarray(theirs)
        assert ours.dtype == theirs.dtype
        wide = np.float64 if theirs.dtype.kind not in "biu" else theirs.dtype
        size = max(1.0, float(np.abs(theirs.astype(np.float64)).max(initial=0)))
        np.testing.assert_allclose(
            ours.astype(wide), theirs.astype(wide), rtol=3e-5, atol=3e-6 * size
        )


def test_a_counted_loop_becomes_a_scan_whose_gradient_keeps_no_tape():
    f = dlvm.stablehlo.load(lowered(rows, V[:3], X))
    assert " = scan " in str(f.trace(V[:3], X))
    gradient = dlvm.function(dlvm.grad(lambda c, xs: f(c, xs)[1].sum()))
    text = gradient.compile(V[:3], X).text("differentiated")
    assert " scan " in text and "push" not in text
    expected = jax.grad(lambda c, xs: rows(c, xs)[1].sum())(V[:3], X)
    np.testing.assert_allclose(gradient(V[:3], X), expected, rtol=1e-5)


def test_a_loop_that_reads_what_it_wrote_stays_a_loop_of_whole_arrays():
    def running(x):
        def step(i, s):
            return s.at[i].set(s[i] + s.sum())

        return lax.fori_loop(0, 6, step, x)

    f = dlvm.stablehlo.load(lowered(running, V))
    np.testing.assert_allclose(f(V), running(V), rtol=1e-5)


def test_loaded_functions_are_batched():
    f = dlvm.stablehlo.load(lowered(lambda v: jnp.cumsum(v)[::-1], V))
    many = np.stack([V, V * 2])
    np.testing.assert_allclose(dlvm.function(dlvm.vmap(f))(many), np.cumsum(many, 1)[:, ::-1], 1e-5)


def test_what_we_export_we_load():
    f = lambda x: dlvm.scan(lambda s, row: (s + row, s * row), dlvm.zeros(3, "f32"), x)  # noqa: E731
    loaded = dlvm.stablehlo.load(dlvm.export(f, X, format="stablehlo"))
    for ours, theirs in zip(loaded(X), dlvm.function(f)(X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert " = scan " in str(loaded.trace(X))


def solved(t, b):
    left = lax.linalg.triangular_solve(t, b, left_side=True, lower=True)
    right = lax.linalg.triangular_solve(t, b, transpose_a=True, unit_diagonal=True)
    return left, right, lax.linalg.triangular_solve(t, b, lower=True)


def test_factors_and_solves_of_other_processors_are_read():
    """For a CPU JAX calls LAPACK, for a TPU it writes the operation."""
    a = (X.T @ X + 2 * np.eye(3)).astype(np.float32)

    def loaded(f, *xs):
        return dlvm.stablehlo.load(
            jax.jit(f).trace(*xs).lower(lowering_platforms=("tpu",)).as_text()
        )

    found = loaded(jnp.linalg.cholesky, a)(a)
    np.testing.assert_allclose(found, np.linalg.cholesky(a), rtol=1e-5)
    f = loaded(solved, a, a)
    for ours, theirs in zip(f(a, X[:3]), solved(a, X[:3]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5)


UPPER = """func.func @main(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = stablehlo.cholesky %a, lower = false : tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
"""


def test_an_upper_factor_is_read_of_the_upper_triangle():
    a = (X.T @ X + 2 * np.eye(3)).astype(np.float32)
    found = dlvm.stablehlo.load(UPPER)(np.triu(a))
    np.testing.assert_allclose(found, np.linalg.cholesky(a).T, rtol=1e-5)


REFUSED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T), (X,), "custom_call @lapack_spotrf_ffi"),
    "fft": (lambda x: jnp.fft.fft(x).real, (X,), "complex"),
    "keys": (lambda x, y: lax.sort((x, y), num_keys=2), (V, V), "compares by several keys"),
    "bits": (lambda x: lax.bitcast_convert_type(x, jnp.int8), (X,), "bitcast_convert"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused_by_name(name: str):
    f, args, said = REFUSED[name]
    with pytest.raises(dlvm.UserError, match=said):
        dlvm.stablehlo.load(lowered(f, *args))


def test_a_module_without_functions_is_an_error():
    with pytest.raises(dlvm.UserError, match="expected a module with a function, found none"):
        dlvm.stablehlo.load("module {}")


SORTED = {
    "largest first": (lambda x: dlvm.sort(x, descending=True), " = sort "),
    "of numbers that are not floats": (lambda x: dlvm.sort(x.astype("i32")), " = sort "),
}


@pytest.mark.parametrize("name", SORTED)
def test_sorts_that_we_export_are_read_as_sorts(name: str):
    f, said = SORTED[name]
    x = np.array([3, np.nan if "largest" in name else 0, -1, 7, -0.0], np.float32)
    loaded = dlvm.stablehlo.load(dlvm.export(f, x, format="stablehlo"))
    np.testing.assert_array_equal(loaded(x), dlvm.function(f)(x))
    assert said in str(loaded.trace(x))


def test_a_comparison_that_puts_nan_elsewhere_is_refused():
    text = dlvm.export(lambda x: dlvm.sort(x), V, format="stablehlo")
    body, end = text.split('"stablehlo.and"')
    for changed in (
        f'{body}"stablehlo.or"{end}',
        text.replace("direction EQ>", "direction NE>", 1),
    ):
        with pytest.raises(dlvm.UserError, match="compares by several keys"):
            dlvm.stablehlo.load(changed)


def test_text_that_is_no_module_is_an_error():
    with pytest.raises(dlvm.UserError, match="the text of a function that JAX lowered"):
        dlvm.stablehlo.load("func @f() {")


def test_arrays_of_other_types_are_refused():
    f = dlvm.stablehlo.load(lowered(jnp.sin, X))
    with pytest.raises(dlvm.ShapeError, match=r"expected f32\[5,3\], found f32\[3,4\]"):
        f(Y)
    with pytest.raises(dlvm.UserError, match="takes 1 arguments, found 2"):
        f(X, X)


def test_without_jax_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "jax._src.interpreters.mlir", None)
    with pytest.raises(dlvm.UserError, match="pip install jax"):
        dlvm.stablehlo.load("module {}")
