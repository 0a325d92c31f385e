"""Random numbers against published vectors, another library's, and what chance would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm import random
from dlvm.base.errors import DTypeError, ShapeError, UserError
from dlvm.gen.build import build
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run

KEY = random.key(7)
ONES = 0xFFFFFFFF
FLOATS = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_the_vectors_of_those_who_made_the_generator(key, counter, expected):
    at = np.uint64(counter[0] << 32 | counter[1])
    words = np.array(key, np.uint32)
    for f in (dlvm.random_bits, dlvm.function(dlvm.random_bits, static=("shape", "dtype"))):
        found = f(words, (), "u64", at)
        assert int(found) == expected[0] << 32 | expected[1]


def test_the_numbers_of_another_library():
    """What jax.random 0.10.2 gave for the key 7."""
    expected = [15571024786774969728, 837714335556982463]
    assert random.bits(KEY, (2,), "u64").tolist() == expected
    assert random.bits(KEY, (3,), "uint8").tolist() == [11, 0, 170]
    assert random.bits(KEY, (2,), "u16").tolist() == [10507, 32256]
    assert random.bits(KEY, (2,)).tolist() == [2895194379, 4185947648]
    assert random.split(KEY, 3).tolist() == [
        [3625411723, 1954958720],
        [195045567, 4062205631],
        [966301609, 1948237315],
    ]
    assert random.fold_in(KEY, 5).tolist() == [3583082021, 1947592014]
    floats = [0.8441069450823528, 0.04541258512665647, 0.22498462569285382]
    assert random.uniform(KEY, (3,)).tolist() == floats
    np.testing.assert_array_equal(
        random.uniform(KEY, (3,), "f32"), np.float32([0.6740899, 0.9746169, 0.30284357])
    )
    normals = [1.0114813355590866, -1.6910609087906374, -0.7554662899926428]
    np.testing.assert_allclose(random.normal(KEY, (3,)), normals, rtol=1e-14)
    assert random.randint(KEY, (6,), -3, 9).tolist() == [2, 6, -1, 0, 8, 3]
    assert random.randint(KEY, (6,), -3, 9, "i32").tolist() == [4, -1, -3, -2, 3, -1]
    wide = [557925565873535173, -83224294380724291, -907743091019902590, 361740935073184963]
    assert random.randint(KEY, (4,), -(10**18), 10**18).tolist() == wide
    assert random.key(2**40 + 5).tolist() == [256, 5]
    assert random.key(-1).tolist() == [ONES, ONES]


def everything(key, scale):
    keys = random.split(key, 8)
    return (
        random.bits(keys[0], (3, 5)),
        random.uniform(keys[1], (7,), "f32", -scale, scale),
        random.normal(keys[2], (4, 2)),
        random.randint(keys[3], (9,), -5, 5, "i8"),
        random.bernoulli(keys[4], 0.3, (11,)),
        random.exponential(keys[5], (2, 3)),
        random.permutation(keys[6], 13),
        random.categorical(keys[7], dlvm.log(dlvm.asarray([[0.1, 0.2, 0.7]] * 4))),
        random.fold_in(key, 3),
    )


def near(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-5 if a.dtype == np.float32 else 1e-13)
        else:
            np.testing.assert_array_equal(a, b)


def test_staged_unstaged_and_batched_are_the_same_up_to_rounding():
    scale = np.float32(2)
    expected = everything(KEY, scale)
    near(dlvm.function(everything)(KEY, scale), expected)
    keys = random.split(KEY, 3)
    batched = dlvm.function(dlvm.vmap(everything, in_axes=(0, None)))(keys, scale)
    for i, key in enumerate(keys):
        near([b[i] for b in batched], everything(key, scale))


def test_keys_in_loops_and_batches_of_loops():
    def walk(key):
        def step(x, i):
            x = x + random.normal(random.fold_in(key, i))
            return x, x

        return dlvm.scan(step, 0.0, dlvm.arange(20))[1]

    expected = np.cumsum([float(random.normal(random.fold_in(KEY, i))) for i in range(20)])
    np.testing.assert_allclose(dlvm.function(walk)(KEY), expected, rtol=1e-12)
    keys = random.split(KEY, 4)
    found = dlvm.function(dlvm.vmap(walk))(keys)
    np.testing.assert_allclose(found, [dlvm.function(walk)(k) for k in keys], rtol=1e-12)


def test_gradients_go_through_what_is_drawn():
    """The reparameterised gradient of E (mu + sigma z)^2, and that of its batch."""

    def loss(mu, sigma, key):
        return ((mu + sigma * random.normal(key, (50,))) ** 2).mean()

    z = random.normal(KEY, (50,))
    slopes = dlvm.function(dlvm.grad(loss, wrt=(0, 1)))(0.5, 2.0, KEY)
    values = 0.5 + 2 * z
    np.testing.assert_allclose(slopes, [2 * values.mean(), (2 * values * z).mean()], rtol=1e-12)
    keys = random.split(KEY, 3)
    each = dlvm.function(dlvm.vmap(dlvm.grad(loss), in_axes=(None, None, 0)))(0.5, 2.0, keys)
    np.testing.assert_allclose(each, [dlvm.grad(loss)(0.5, 2.0, k) for k in keys], rtol=1e-12)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 0, 3), (1, 13)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_shapes_and_types(shape, dtype):
    for draw in (random.uniform, random.normal, random.exponential, random.gumbel):
        found = draw(KEY, shape, dtype)
        assert found.shape == shape and found.dtype.name == dtype
        assert np.isfinite(found.astype("f8")).all()


def test_an_element_depends_on_its_position_only():
    whole = random.bits(KEY, (10, 10), "u64").reshape(-1)
    np.testing.assert_array_equal(random.bits(KEY, (37,), "u64"), whole[:37])
    np.testing.assert_array_equal(dlvm.random_bits(KEY, (5,), "u64", 30), whole[30:35])
    keys = random.split(KEY, 9)
    assert all((random.fold_in(KEY, i) == k).all() for i, k in enumerate(keys))
    beyond = dlvm.random_bits(KEY, (4,), "u64", np.uint64(2**32 - 2))
    assert len({*beyond.tolist()}) == 4
    alone = dlvm.random_bits(KEY, (), "u64", np.uint64(2**32))
    assert alone == beyond[2]


def test_open_sizes_and_threads_change_no_bit():
    def draw(key, x):
        return random.bits(key, x.shape), random.normal(key, x.shape)

    x = np.zeros((300, 201))
    expected = dlvm.function(draw)(KEY, x)
    near(dlvm.function(draw, dynamic={"x": "A,B"})(KEY, x), expected)
    code = build(run(dlvm.trace(draw, KEY, x), DEFAULT))
    one, *others = (replace(code, threads=t).run([KEY, x]) for t in (1, 2, 3))
    for other in others:
        assert all((a == b).all() for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def many():
    """Some thousand numbers of each kind, compiled."""

    def draw(key):
        keys = random.split(key, 4)
        n = (20_000,)
        return (
            random.uniform(keys[0], n),
            random.normal(keys[1], n),
            random.exponential(keys[2], n),
            random.randint(keys[3], n, 0, 10),
        )

    return dlvm.function(draw)(KEY)


def distance(x, distribution):
    """The largest distance of the empirical distribution, times the root of the count."""
    x = np.sort(x)
    steps = np.arange(len(x) + 1) / len(x)
    p = distribution(x)
    return max(np.max(steps[1:] - p), np.max(p - steps[:-1])) * len(x) ** 0.5


def test_they_are_distributed_as_they_say(many):
    """By Kolmogorov and Smirnov; 1.95 is exceeded once in a thousand keys, and this is one key."""
    uniform, normal, exponential, whole = many
    assert distance(uniform, lambda x: x) < 1.95
    assert distance(normal, lambda x: (1 + dlvm.erf(x / 2**0.5)) / 2) < 1.95
    assert distance(exponential, lambda x: 1 - np.exp(-x)) < 1.95
    counts = np.bincount(whole, minlength=10)
    assert len(counts) == 10 and ((counts - 2000) ** 2 / 2000).sum() < 27.9


def test_a_permutation_has_each_once_and_moves_slices():
    order = random.permutation(KEY, 50)
    assert sorted(order.tolist()) == list(range(50)) and order.tolist() != list(range(50))
    x = np.arange(12.0).reshape(3, 4)
    found = random.permutation(KEY, x, axis=1)
    assert sorted(map(tuple, found.T)) == sorted(map(tuple, x.T))
    firsts = [int(random.permutation(k, 3)[0]) for k in random.split(KEY, 300)]
    assert min(np.bincount(firsts)) > 70
    assert random.permutation(KEY, 0).shape == (0,) and random.permutation(KEY, 1).tolist() == [0]


def test_open_sizes_are_permuted():
    @dlvm.function(dynamic={"x": "N,3"})
    def shuffled(key, x):
        ours, theirs = random.split(key)
        return random.permutation(ours, x), random.permutation(theirs, x.shape[0])

    for n in (0, 1, 7, 64):
        x = np.arange(3.0 * n).reshape(n, 3)
        slices, order = shuffled(KEY, x)
        ours, theirs = random.split(KEY)
        assert np.array_equal(slices, random.permutation(ours, x))
        assert np.array_equal(order, random.permutation(theirs, n))


def test_chances_are_those_of_the_classes():
    p = np.array([0.1, 0.2, 0.7])
    found = random.categorical(KEY, np.broadcast_to(np.log(p), (6000, 3)))
    expected = 6000 * p
    assert ((np.bincount(found) - expected) ** 2 / expected).sum() < 13.8
    hits = random.bernoulli(KEY, np.full(6000, 0.25))
    assert abs(hits.mean() - 0.25) < 3.3 * (0.25 * 0.75 / 6000) ** 0.5


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        (lambda: random.bits(7), DTypeError, "dlvm.random.key"),
        (lambda: random.bits(random.split(KEY)), ShapeError, "dlvm.vmap"),
        (lambda: random.uniform(KEY, (3,), "i32"), DTypeError, "randint"),
        (lambda: random.randint(KEY, (3,), 0, 5, "f32"), DTypeError, "uniform"),
        (lambda: random.bits(KEY, (3,), "i64"), DTypeError, "unsigned"),
        (lambda: random.permutation(KEY, 2.5), UserError, "whole number"),
        (lambda: random.permutation(KEY, np.array(2.5)), UserError, "with axes"),
    ],
)
def test_what_is_wrong_is_said(wrong, kind, said):
    with pytest.raises(kind) as caught:
        wrong()
    assert said in str(caught.value)
