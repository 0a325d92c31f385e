"""Products of few elements over a long k: blocks share its chunks, and change no bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.gen.loops.statements import CHUNK, LoopKernel
from dlvm.gen.loops.verifier import verify
from dlvm.gen.schedule import blocks as planning
from dlvm.gen.schedule.blocks import prepared
from dlvm.gen.schedule.transforms.gpu.parts import FEWEST

from .assembly import assembled

RNG = np.random.default_rng(0)
LONG = FEWEST * CHUNK + 77


def drawn(*shape, dtype="f4"):
    return (8 * RNG.normal(size=shape)).astype(dtype)


def window(a, x, y):
    """An array of which a part is replaced by what is read of it and a product."""
    return a.at[2:7, 3:12].add(x @ y)


FORMS = {
    "plain": (lambda x, y: x @ y, ((5, LONG), (LONG, 9))),
    "followed by more": (lambda x, y: dlvm.maximum(x @ y + 1, 0), ((5, LONG), (LONG, 9))),
    "x turned": (lambda x, y: x.T @ y, ((LONG, 5), (LONG, 9))),
    "y turned": (lambda x, y: x @ y.T, ((5, LONG), (9, LONG))),
    "both computed": (lambda x, y: abs(x) @ dlvm.maximum(y, 0), ((17, LONG), (LONG, 19))),
    "both computed and turned": (lambda x, y: abs(x).T @ abs(y).T, ((LONG, 17), (19, LONG))),
    "a row": (lambda x, y: x @ y, ((LONG,), (LONG, 9))),
    "a column": (lambda x, y: x @ y, ((9, LONG), (LONG,))),
    "a batch": (lambda x, y: x @ y, ((3, 5, LONG), (3, LONG, 9))),
    "a batch of one side": (lambda x, y: x @ y, ((3, 5, LONG), (LONG, 9))),
    "of whole chunks": (lambda x, y: x @ y, ((5, FEWEST * CHUNK), (FEWEST * CHUNK, 9))),
    "a gradient": (
        lambda y, x, dz: dlvm.grad(lambda y: dlvm.sum((x @ y) * dz))(y),
        ((7, 9), (LONG, 7), (LONG, 9)),
    ),
    "windows": (
        lambda x, w: dlvm.nn.conv(x, w, padding="VALID"),
        ((1, 7, 7, 90), (5, 5, 90, 3)),
    ),
    "a window": (window, ((9, 13), (5, LONG), (LONG, 9))),
}


def kernels(f, *arrays, target="cuda:sm_75", **options):
    """The schedule, and what the emulator computes; all loops are verified as they are prepared."""
    made: list[LoopKernel] = []

    def checked(plain: LoopKernel, *more: bool) -> Any:
        steps, found = prepared(plain, *more)
        verify(found)
        made.append(found)
        return steps, found

    before, planning.prepared = planning.prepared, checked
    try:
        with using(EmulatedDevice()):
            found = dlvm.function(f, target=target, **options)(*arrays)
    finally:
        planning.prepared = before
    return made, np.asarray(found)


def is_shared(made):
    return any("parallel %part.k" in str(k) for k in made)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("name", FORMS)
def test_blocks_that_share_k_change_no_bit(name, dtype):
    f, shapes = FORMS[name]
    if dtype == "i4" and name in ("a gradient", "windows"):
        pytest.skip("of floats only")
    arrays = [drawn(*shape, dtype=dtype) for shape in shapes]
    made, found = kernels(f, *arrays)
    assert is_shared(made)
    assert found.tobytes() == np.asarray(dlvm.function(f)(*arrays)).tobytes()


@pytest.mark.parametrize("k", [0, 1, CHUNK, CHUNK + 1, LONG])
def test_an_open_k(k):
    x, y = drawn(5, k), drawn(k, 9)
    made, found = kernels(lambda x, y: x @ y, x, y, dynamic={"x": "5,K", "y": "K,9"})
    assert is_shared(made)
    assert found.tobytes() == np.asarray(dlvm.function(lambda x, y: x @ y)(x, y)).tobytes()


def test_a_zero_keeps_its_sign():
    x, y = np.full((5, LONG), -1e-30, "f4"), np.full((LONG, 9), 1e-30, "f4")
    made, found = kernels(lambda x, y: x @ y, x, y)
    assert is_shared(made)
    assert np.signbit(found).all()


@pytest.mark.parametrize("sizes", [(5, LONG - CHUNK, 9), (257, LONG, 256)])
def test_what_is_short_or_has_tiles_enough_stays_as_it_is(sizes):
    m, k, n = sizes
    x, y = dlvm.spec(f"f32[{m},{k}]"), dlvm.spec(f"f32[{k},{n}]")
    text = dlvm.function(lambda x, y: x @ y, target="cuda:sm_90").compile(x, y).text("schedule")
    assert "part.k" not in text


def test_tensor_cores_multiply_chunks_too():
    x, y = drawn(16, LONG, dtype="f2") / 8, drawn(LONG, 16, dtype="f2") / 8
    made, found = kernels(lambda x, y: x @ y, x, y, target="cuda:sm_80")
    assert is_shared(made)
    exact = x.astype("f8") @ y.astype("f8")
    assert np.abs(found - exact).max() <= 2.0**-11 * np.abs(exact).max() + 1e-3


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
def test_no_register_is_spilt(dtype, tmp_path):
    x, y = dlvm.spec(f"{dtype}[64,100000]"), dlvm.spec(f"{dtype}[100000,64]")
    f = dlvm.function(lambda a, b: a @ b + 1, target="cuda:sm_90")
    told = assembled(f.compile(x, y).text("ptx"), tmp_path)
    assert len(told.registers) == 2
    assert not any(told.spilt)
