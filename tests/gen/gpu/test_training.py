"""The training step of the digits example, whole, on an emulated GPU."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def digits(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module("digits")
    sys.modules.pop("digits", None)


def test_steps_of_adam_give_the_bits_of_a_cpu(digits):
    rng = np.random.default_rng(0)
    step = digits.step.__wrapped__
    on_a_cpu = dlvm.function(step, threads=1)
    on_a_gpu = dlvm.function(step, target="cuda", donate=("state",))
    sizes = {"w1": (64, 24), "b1": (24,), "w2": (24, 10), "b2": (10,)}
    params = {name: rng.normal(size=s).astype("f4") * np.float32(0.2) for name, s in sizes.items()}
    zeros = {name: np.zeros(s, "f4") for name, s in sizes.items()}
    state = params, zeros, zeros, np.float32(0)
    there = dlvm.tree.map(np.array, state)
    with using(EmulatedDevice()):
        for _ in range(3):
            x = rng.uniform(0, 1, (16, 64)).astype("f4")
            y = rng.integers(0, 10, 16)
            state, value = on_a_cpu(state, x, y)
            there, found = on_a_gpu(there, x, y)
            assert float(found) == float(value)
    for a, b in zip(dlvm.tree.leaves(there), dlvm.tree.leaves(state), strict=True):
        assert np.array_equal(np.asarray(a), b)
    assert float(value) < np.log(10) + 1
