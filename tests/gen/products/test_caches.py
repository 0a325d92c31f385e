"""Products cut for caches of any size: the same bits, whatever was measured or is built in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.gen.build import build
from dlvm.machine import Level, Machine
from dlvm.target import Target

CACHES = [(16 << 10, 64 << 10), (64 << 10, 3 << 20), (999, 4001)]
SHAPES = [(1, 700, 300), (7, 530, 129), (130, 600, 301), (257, 1100, 70)]
FORMS = [lambda x, y: x @ y, lambda x, y: x.T @ y, lambda x, y: x @ y.T, lambda x, y: x.T @ y.T]


def having(first: int, second: int) -> Target:
    levels = (Level(first, 90.0), Level(second, 50.0), Level(4 * second, 20.0), Level(0, 10.0))
    host = Target.host()
    return replace(host, threads=2, measured=replace(Machine.of(host.cpu, 256), levels=levels))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("form", range(len(FORMS)))
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_panels_of_any_size_give_the_same_bits(dtype, form):
    dice = np.random.default_rng(form)
    for m, k, n in SHAPES:
        x, y = (dice.integers(-9, 9, s).astype(dtype) / 4 for s in ((m, k), (k, n)))
        x, y = (a.astype(dtype) for a in (x, y))
        expected = (x.astype(np.float64) @ y.astype(np.float64)).astype(dtype)
        given = [x.T.copy() if form & 1 else x, y.T.copy() if form & 2 else y]
        module = dlvm.function(FORMS[form]).compile(*given).road.kernels
        for sizes in CACHES:
            (found,) = build(module, having(*sizes)).run(given)
            assert np.array_equal(found, expected), (sizes, m, k, n)
