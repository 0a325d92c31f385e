"""Functions of symmetric matrices: two orders of derivatives, also at equal eigenvalues."""

from __future__ import annotations

import functools
import itertools

import mpmath as mp
import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.linalg import spectral
from dlvm.testing import gradcheck

WAYS = {"staged": dlvm.function, "unstaged": lambda f: f}
SPECTRA = {
    "apart": [0.5, 1.0, 1.7, 3.0],
    "identity": [1.0, 1.0, 1.0, 1.0],
    "pairs": [1.0, 1.0, 2.0, 2.0],
    "pairs 1e-9 apart": [1.0, 1 + 1e-9, 2.0, 2 + 1e-9],
    "pairs 1e-5 apart": [1.0, 1 + 1e-5, 1 + 2e-5, 2.0],
    "last bits": [1.0, 1 + 2e-16, 1 + 4e-16, 2.0],
}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def symmetric(w: list[float]) -> np.ndarray:
    """A matrix of these eigenvalues; one that repeats a number exactly is left diagonal."""
    if len(set(w)) < len(w):
        return np.diag(w)
    q, _ = np.linalg.qr(rng().standard_normal((len(w), len(w))))
    a = (q * w) @ q.T
    return (a + a.T) / 2


def part(x: np.ndarray) -> np.ndarray:
    return (x + x.T) / 2


G, C, E = (part(x) for x in np.random.default_rng(1).standard_normal((3, 4, 4)))

# Each has the derivative at a in the direction e, and the second one in the directions e and g.
# Those of inv(a) and of the root follow from x a = 1 and x x = a.


def root(a: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of ``r x + x r = right`` for the root r of a."""
    r = value_of_root(a)
    eye = np.eye(len(a))
    whole = np.kron(r, eye) + np.kron(eye, r)
    return np.linalg.solve(whole, right.ravel()).reshape(a.shape)


def value_of_root(a: np.ndarray) -> np.ndarray:
    w, v = np.linalg.eigh(a)
    return (v * np.sqrt(w)) @ v.T


def root_twice(a: np.ndarray, e: np.ndarray, g: np.ndarray) -> np.ndarray:
    x, y = root(a, e), root(a, g)
    return root(a, -x @ y - y @ x)


def block(a: np.ndarray, *directions: np.ndarray) -> np.ndarray:
    """The exponential of a triangle of blocks; the last of its first row has the derivatives."""
    n = len(a)
    size = 2 ** len(directions)
    whole = np.zeros((size * n, size * n))
    for i, j in itertools.product(range(size), repeat=2):
        change = i ^ j
        if i == j:
            whole[i * n : (i + 1) * n, j * n : (j + 1) * n] = a
        elif j & change and change & (change - 1) == 0 and i & change == 0:
            k = change.bit_length() - 1
            whole[i * n : (i + 1) * n, j * n : (j + 1) * n] = directions[k]
    with mp.workdps(30):
        found = mp.expm(mp.matrix(whole.tolist()))
    return np.array(found.tolist(), dtype=float)[:n, -n:]


def inverse_once(a, e):
    i = np.linalg.inv(a)
    return -i @ e @ i


def inverse_twice(a, e, g):
    i = np.linalg.inv(a)
    return i @ e @ i @ g @ i + i @ g @ i @ e @ i


CLOSED = {
    "square": (
        lambda w: w * w,
        lambda a: a @ a,
        lambda a, e: a @ e + e @ a,
        lambda a, e, g: e @ g + g @ e,
    ),
    "cube": (
        lambda w: w**3,
        lambda a: a @ a @ a,
        lambda a, e: a @ a @ e + a @ e @ a + e @ a @ a,
        lambda a, e, g: sum(x @ y @ z for x, y, z in itertools.permutations((a, e, g))),
    ),
    "inverse": (lambda w: 1 / w, np.linalg.inv, inverse_once, inverse_twice),
    "root": (dlvm.sqrt, value_of_root, root, root_twice),
    "exponential": (dlvm.exp, block, block, block),
}


def orders(name):
    """The value, both first derivatives and both second ones of a function, from one program."""
    f = CLOSED[name][0]
    slope = dlvm.grad(lambda a: (spectral(f, a) * G).sum())

    def all_of(a):
        pushed = dlvm.jvp(lambda a: spectral(f, a), (a,), (E,))
        second = dlvm.jvp(slope, (a,), (E,))[1], dlvm.grad(lambda a: (slope(a) * E).sum())(a)
        return spectral(f, a), slope(a), pushed, second

    return dlvm.function(all_of)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CLOSED)
def test_two_orders_have_closed_forms_at_every_spectrum(name):
    """One program serves all spectra: compiling it takes longer than they do."""
    f, value, once, twice = CLOSED[name]
    program = orders(name)
    for spectrum, w in SPECTRA.items():
        a = symmetric(w)
        found, slope, (pushed, turned), second = program(a)
        near = {"rtol": 0, "atol": 2e-13 * max(1, np.abs(value(a)).max()), "err_msg": spectrum}
        np.testing.assert_allclose(spectral(f, a), value(a), **near)
        np.testing.assert_allclose(found, value(a), **near)
        np.testing.assert_allclose(slope, once(a, G), **near)  # it is its own transpose
        np.testing.assert_allclose(pushed, value(a), **near)
        np.testing.assert_allclose(turned, once(a, E), **near)
        expected = twice(a, E, G)
        for x in second:
            np.testing.assert_allclose(x, expected, **near)


def test_a_logarithm_undoes_an_exponential():
    for w in SPECTRA.values():
        a = symmetric(w)
        both = dlvm.grad(lambda a: (spectral(dlvm.log, spectral(dlvm.exp, a)) * G).sum())
        np.testing.assert_allclose(both(a), G, atol=1e-12)
        np.testing.assert_allclose(dlvm.jvp(both, (a,), (E,))[1], 0 * G, atol=1e-11)


FUNCTIONS = {
    "exp": (dlvm.exp, mp.exp),
    "log": (dlvm.log, mp.log),
    "sqrt": (dlvm.sqrt, mp.sqrt),
    "tanh": (dlvm.tanh, mp.tanh),
    "steep": (lambda w: dlvm.sin(1e4 * w), lambda w: mp.sin(10**4 * w)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_divided_differences_have_their_digits_at_every_distance(name):
    """The slope along an element beside the diagonal is the divided difference itself."""
    f, exact = FUNCTIONS[name]
    element = np.array([[0.0, 1], [0, 0]])
    slope = dlvm.grad(lambda a: (spectral(f, a) * element).sum())
    for begin, gap in itertools.product((1e-6, 1.0, 30.0), 10.0 ** np.arange(-15, 2)):
        x, y = begin, begin * (1 + gap)
        with mp.workdps(60):
            a, b = mp.mpf(x), mp.mpf(y)
            expected = float((exact(b) - exact(a)) / (b - a))
            largest = float(max(abs(mp.diff(exact, p)) for p in (a, b)))
        rounded = max(1.0, 1e4 * y) if name == "steep" else 1.0
        tolerance = 1e-14 * rounded * max(abs(expected), largest) + 1e-17
        assert abs(2 * slope(np.diag([x, y]))[0, 1] - expected) < tolerance, (begin, gap)


def test_projectors_depend_on_pairs_across_the_cut_alone():
    w = np.array([-1.0, -1.0, 2.0, 2.0])
    slope = dlvm.grad(lambda a: (spectral(lambda w: dlvm.where(w > 0, 1.0, 0.0), a) * G).sum())
    across = (w[:, None] > 0) != (w > 0)
    np.testing.assert_allclose(slope(np.diag(w)), np.where(across, G / 3, 0), atol=1e-15)


def slopes(a, g):
    def once(a):
        return dlvm.grad(lambda a: (spectral(dlvm.exp, a) * g).sum())(a)

    return spectral(dlvm.exp, a), once(a), dlvm.jvp(once, (a,), (dlvm.ones_like(a),))[1]


@functools.cache
def slopes_of_each() -> tuple[np.ndarray, ...]:
    """What ``slopes`` gives for each matrix of the stack by itself."""
    return tuple(map(np.stack, zip(*map(dlvm.function(slopes), STACK, WEIGHTS), strict=True)))


STACK = np.stack([symmetric(w) for w in SPECTRA.values()])
WEIGHTS = np.arange(1.0, 7)[:, None, None] * G
CALLS = {
    "staged": lambda: dlvm.function(slopes),
    "unstaged": lambda: slopes,
    "mapped": lambda: dlvm.vmap(slopes),
    "open": lambda: dlvm.function(slopes, dynamic={"a": "B,N,N", "g": "B,N,N"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_batches_and_open_sizes(name):
    call = CALLS[name]()
    for x, y in zip(call(STACK, WEIGHTS), slopes_of_each(), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)
    small = {"open": [(0, 2, 2), (3, 1, 1)], "unstaged": [(0, 0), (0, 2, 2), (3, 1, 1)]}
    for shape in small.get(name, ()):  # a program of known sizes is another one for each shape
        assert all(x.shape == shape for x in call(np.ones(shape), np.ones(shape)))


def test_what_a_function_captures_has_derivatives(way, in_depth):
    a = symmetric(SPECTRA["apart"])

    def f(a, t):
        return (spectral(lambda w: dlvm.exp(t * w), a) * G).sum()

    found = way(dlvm.grad(f, wrt="t"))(np.eye(4), 0.5)
    np.testing.assert_allclose(found, np.trace(G) * np.exp(0.5), rtol=1e-13)
    if way is dlvm.function:  # which is what a check of derivatives makes of it
        gradcheck(f, a, 0.5, order=2, elements=4, compiled=in_depth)


def test_mixed_derivatives_at_equal_eigenvalues_are_right_or_nan():
    """The second one by way of the eigenvectors, as that of the values has lost the function."""

    def value(a, t):
        return (spectral(lambda w: dlvm.exp(t * w), a) * G).sum()

    a, right = np.diag([1.0, 1.0, 2.0, 2.0]), block(np.diag([1.0, 1.0, 2.0, 2.0]) / 2, G)
    slope = dlvm.grad(value)
    np.testing.assert_allclose(slope(a, 0.5), 0.5 * right, atol=1e-13)
    step = 1e-4
    scaled = [t * block(t * a, G) for t in (0.5 - step, 0.5 + step)]
    found = dlvm.jacobian(slope, wrt="t")(a, 0.5), dlvm.jvp(slope, (a, 0.5), (None, 1.0))[1]
    for x in found:
        np.testing.assert_allclose(x, (scaled[1] - scaled[0]) / (2 * step), atol=1e-6)
    assert np.isnan(dlvm.grad(dlvm.grad(value, wrt="t"))(a, 0.5)).any()


def test_third_derivatives_where_eigenvalues_differ():
    a = symmetric(SPECTRA["apart"])

    def along(f):
        return lambda a: dlvm.jvp(f, (a,), (E,))[1]

    third = along(along(along(lambda a: spectral(lambda w: w**3, a))))
    np.testing.assert_allclose(third(a), 6 * E @ E @ E, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_element_types(dtype, way):
    a = symmetric(SPECTRA["pairs"]).astype(dtype)
    slope = way(dlvm.grad(lambda a: (spectral(dlvm.exp, a) * G.astype(dtype)).sum()))(a)
    assert slope.dtype == dtype
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(slope, block(a.astype(float), G), atol=30 * eps)


def test_mistakes_are_told(way):
    a = np.eye(3)
    for call, said in {
        lambda: way(lambda x: spectral(dlvm.sum, x))(a): "gave an array of the shape",
        lambda: way(lambda x: spectral(x, x))(a): "spectral: expected a function",
        lambda: way(lambda x: spectral(dlvm.exp, x[:2]))(a): "spectral: expected square matrices",
    }.items():
        with pytest.raises(UserError, match=said):
            call()
