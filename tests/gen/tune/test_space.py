"""The schedules that a search may try: neighbours, and steps that change no bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

import dlvm
from dlvm.gen.program.control import kernels_of
from dlvm.gen.schedule.transforms.split import Split
from dlvm.gen.tune.measure import Bench
from dlvm.gen.tune.space import Space
from dlvm.target import Target

TARGET = Target.host()


def turned(x):
    return dlvm.exp(dlvm.transpose(x, (2, 1, 0)))


def columns(x):
    return (x * x).sum(0)


def softmax(x):
    return dlvm.nn.softmax(x, axis=-1)


def product(x):
    return dlvm.maximum(x @ x.mT, 0)


def joined(x):
    return dlvm.concat([x, x + 1, x * 2], axis=0)


CASES = [
    (turned, (20, 9, 33)),
    (columns, (64, 37)),
    (softmax, (40, 100)),
    (product, (20, 30)),
    (joined, (13, 40)),
]


def kernels(f, shape):
    """The kernels of a function, each with its plain loops."""
    staged = dlvm.function(f)
    return kernels_of(staged.compile(dlvm.spec(f"f32{list(shape)}")).road.kernels)


@pytest.mark.parametrize(("f", "shape"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_no_state_changes_a_bit(f, shape):
    dice = random.Random(3)
    for kernel, plain in kernels(f, shape):
        space, bench = Space(plain), Bench(kernel, TARGET, {})
        assert list(map(str, space.steps(space.start))) == list(map(str, space.base))
        states = [tuple(dice.randrange(len(n.values)) for n in space.numbers) for _ in range(6)]
        runs = [made.run(bench.arrays) for s in states if (made := bench.under(space.steps(s)))]
        assert runs or not space.numbers
        for found in runs:
            for a, b in zip(found, bench.expected, strict=True):
                np.testing.assert_array_equal(a, b)


def test_neighbours_differ_by_one_place():
    ((_, plain),) = kernels(*CASES[0])
    space = Space(plain)
    near = list(space.neighbours(space.start))
    assert near and len(set(near)) == len(near)
    for state in near:
        assert sum(abs(a - b) for a, b in zip(state, space.start, strict=True)) == 1
        assert all(
            0 <= place < len(n.values) for place, n in zip(state, space.numbers, strict=True)
        )


def test_tiles_are_two_splits_and_an_interchange():
    ((_, plain),) = kernels(*CASES[0])
    space = Space(plain)
    places = [2 if n.what == "tile" else n.start for n in space.numbers]
    steps = space.steps(tuple(places))
    assert sum(isinstance(s, Split) for s in steps) == 2
    assert any(str(s).startswith("interchange") for s in steps)
    assert Bench(kernels(*CASES[0])[0][0], TARGET, {}).under(steps) is not None
