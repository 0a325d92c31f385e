"""Arrays that ``f.bind`` fixed are prepared once, and nobody outside reaches what is prepared."""

from __future__ import annotations

import threading

import numpy as np

import dlvm

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(1, 16, 8, 8)).astype(np.float32)
WEIGHTS = RNG.normal(size=(32, 16, 3, 3)).astype(np.float32)


@dlvm.function
def layer(x, w):
    return dlvm.nn.conv(x, w, padding=1, layout="channels_first")


def constants(made):
    return made.road.executable.interface.constants


def test_bits_are_those_of_arguments():
    bound = layer.bind(w=WEIGHTS)
    assert bound(IMAGES).tobytes() == layer(IMAGES, WEIGHTS).tobytes()


def test_ten_calls_read_weights_that_were_turned_once():
    made = layer.bind(w=WEIGHTS).compile(IMAGES)
    assert "[32,3,3,16]" in layer.compile(IMAGES, WEIGHTS).text("kernels"), "turned in each call"
    assert "[32,3,3,16]" not in made.text("kernels")
    (turned,) = constants(made)
    before = turned.copy()
    results = [made(IMAGES).tobytes() for _ in range(10)]
    assert len(set(results)) == 1 and turned.shape == (1, 32, 144)
    np.testing.assert_array_equal(turned, before)
    assert constants(made)[0] is turned


def test_the_owner_of_an_array_does_not_reach_what_is_prepared():
    own = WEIGHTS.copy()
    bound = layer.bind(w=own)
    before = bound(IMAGES)
    own[:] = 0
    np.testing.assert_array_equal(bound(IMAGES), before)
    (turned,) = constants(bound.compile(IMAGES))
    assert not turned.flags.writeable and not np.shares_memory(turned, own)


def test_an_array_that_is_read_as_it_is_lies_in_memory_once():
    w = RNG.normal(size=(64, 48)).astype(np.float32)
    bound = dlvm.function(lambda x, w: x @ w).bind(w=w)
    (held,) = bound.source.known
    assert constants(bound.compile(np.ones((2, 64), np.float32))) == (held,)


def test_derivatives_with_respect_to_weights_know_no_weights():
    def loss(w, x):
        return (dlvm.nn.conv(x, w, layout="channels_first") ** 2).sum()

    slope = dlvm.function(dlvm.grad(loss)).bind(x=IMAGES)
    first, second = slope(WEIGHTS), slope(2 * WEIGHTS)
    np.testing.assert_allclose(second, 2 * first, rtol=1e-5, atol=1e-3)


def test_threads_share_what_is_prepared():
    bound = layer.bind(w=WEIGHTS)
    expected, wrong = layer(IMAGES, WEIGHTS).tobytes(), list[int]()

    def call() -> None:
        wrong.extend(i for i in range(20) if bound(IMAGES).tobytes() != expected)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
