"""A movement from outside of the package: one class with its index map, and all else follows."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.dsl.words.names import PUBLIC
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.ir import OPS, Dim, TensorType, Value
from dlvm.ir.sizes.dims import floordiv
from dlvm.ir.sizes.positions import Index
from dlvm.ops import IndexMap
from dlvm.ops.families import Read


class Rolling(IndexMap):
    """``y[.., i, p] = x[.., i*step + p*dilation - before]`` along the last axis, 0 outside of x."""

    name = "rolling_test"
    x: Value
    size: int = 3
    step: int = 2
    dilation: int = 2
    before: int = 1

    def infer(self) -> TensorType:
        """The windows that start in x, and their elements."""
        x = self.x.type
        count = floordiv(x.shape[-1] + self.step - 1, self.step)
        return x.with_shape((*x.shape[:-1], count, self.size))

    def reads(self, index: Index) -> tuple[Read, ...]:
        (*before, i, p) = index
        at = i * self.step + p * self.dilation - self.before
        return (Read(0, (*before, at), (at, self.x.shape[-1] - 1 - at)),)


class Corner(IndexMap):
    """``y[i, j] = x[max(i, j) - min(i, j)]`` where i and j are at most one apart; else ``z[j]``."""

    name = "corner_test"
    x: Value
    z: Value

    def infer(self) -> TensorType:
        """A square."""
        (n,) = self.x.shape
        return self.x.type.with_shape((n, n))

    def reads(self, index: Index) -> tuple[Read, ...]:
        i, j = index
        apart: Dim = i - j
        return (Read(0, (apart * apart,), (1 - apart, 1 + apart)), Read(1, (j,)))


class Every(IndexMap):
    """Every second element."""

    name = "every_test"
    x: Value

    def infer(self) -> TensorType:
        """Half as many."""
        return self.x.type.with_shape((floordiv(self.x.shape[0], 2),))

    def reads(self, index: Index) -> tuple[Read, ...]:
        return (Read(0, (index[0] * 2,)),)


OUTSIDE = {cls.name: OPS.pop(cls.name) for cls in (Rolling, Corner, Every)}
"""Registered for the tests of this file alone."""


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for name, cls in OUTSIDE.items():
        monkeypatch.setitem(OPS, name, cls)
    yield
    for name in OUTSIDE:
        PUBLIC.pop(name, None)


def rolling(x, size=3, step=2, dilation=2, before=1):
    return dlvm.rolling_test(x, size, step, dilation=dilation, before=before)


def corner(x, z):
    return dlvm.corner_test(x, z)


def windows(x, size=3, step=2, dilation=2, before=1):
    """The same in NumPy's words."""
    span = (size - 1) * dilation + 1
    wide = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, span)])
    every = np.lib.stride_tricks.sliding_window_view(wide, span, -1)
    count = -(-x.shape[-1] // step)
    return every[..., ::step, ::dilation][..., :count, :]


def corners(x, z):
    n = len(x)
    near = np.abs(np.arange(n)[:, None] - np.arange(n)) <= 1
    apart = np.abs(np.arange(n)[:, None] - np.arange(n)) ** 2
    return np.where(near, x[np.minimum(apart, n - 1)], z[None])


RNG = np.random.default_rng(0)
SHAPES = [(1,), (2,), (9,), (3, 8), (2, 3, 31)]


@pytest.mark.parametrize("cls", [Rolling, Corner])
def test_nothing_is_lacking(cls):
    dlvm.testing.assert_complete(cls)
    assert not cls.asks_python


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
@pytest.mark.parametrize("shape", SHAPES)
def test_meaning_and_machine_code(shape, dtype):
    x = (5 * RNG.normal(size=shape)).astype(dtype)
    (read,) = dlvm.function(rolling).trace(x).run("rolling", x)
    assert np.array_equal(read, windows(x))
    assert np.array_equal(dlvm.function(rolling)(x), windows(x))
    with using(EmulatedDevice()):
        found = np.asarray(dlvm.function(rolling, target="cuda:sm_75")(x))
    assert np.array_equal(found, windows(x))


@pytest.mark.parametrize("n", [2, 3, 7])
def test_several_reads(n):
    x, z = RNG.normal(size=(2, n))
    assert np.array_equal(dlvm.function(corner)(x, z), corners(x, z))
    (read,) = dlvm.function(corner).trace(x, z).run("corner", x, z)
    assert np.array_equal(read, corners(x, z))


def test_open_sizes():
    f = dlvm.function(lambda x: rolling(x) * 2, dynamic={"x": "B,N"})
    for shape in [(2, 3), (0, 4), (3, 17), (1, 1)]:
        x = RNG.normal(size=shape)
        assert np.array_equal(f(x), 2 * windows(x))


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients(shape):
    x = RNG.normal(size=shape)

    def loss(x):
        return dlvm.sum(dlvm.sin(rolling(x)) * 3)

    dlvm.testing.gradcheck(loss, x)
    h = 1e-6
    slope = np.zeros_like(x)
    for at in np.ndindex(shape):
        up, down = x.copy(), x.copy()
        up[at] += h
        down[at] -= h
        slope[at] = (np.sin(windows(up)) - np.sin(windows(down))).sum() * 3 / (2 * h)
    found = dlvm.function(dlvm.grad(loss))(x)
    np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-6)


def test_gradients_of_several_reads():
    x, z = RNG.normal(size=(2, 6))
    dlvm.testing.gradcheck(lambda x, z: dlvm.sum(dlvm.sin(corner(x, z))), x, z)


def test_batches():
    x, z = RNG.normal(size=(4, 9)), RNG.normal(size=(4, 9))
    assert np.array_equal(dlvm.function(dlvm.vmap(rolling))(x), windows(x))
    found = dlvm.function(dlvm.vmap(corner))(x, z)
    assert np.array_equal(found, np.stack([*map(corners, x, z)]))
    slopes = dlvm.function(dlvm.vmap(dlvm.grad(lambda x: dlvm.sum(rolling(x) ** 2))))(x)
    one = dlvm.function(dlvm.grad(lambda x: dlvm.sum(rolling(x) ** 2)))
    np.testing.assert_allclose(slopes, np.stack([one(row) for row in x]), rtol=1e-12)


@pytest.mark.parametrize("format", ["onnx", "stablehlo"])
@pytest.mark.parametrize(("f", "expected"), [(rolling, windows), (corner, corners)])
def test_other_formats(f, expected, format):
    xs = RNG.normal(size=(1 if f is rolling else 2, 9)).astype("f4")
    written = dlvm.export(dlvm.function(f), *xs, format=format)
    if format == "stablehlo":
        pytest.importorskip("jax")
        found = dlvm.function(dlvm.stablehlo.load(written))(*xs)
    else:
        runtime = pytest.importorskip("onnxruntime")
        session = runtime.InferenceSession(written, providers=["CPUExecutionProvider"])
        given = dict(zip([i.name for i in session.get_inputs()], xs, strict=True))
        found = session.run(None, given)[0]
    found = found[0] if isinstance(found, tuple | list) else found
    assert np.array_equal(np.asarray(found), expected(*xs))


def test_the_map_is_read_through_where_it_has_no_condition():
    x = RNG.normal(size=10)
    f = dlvm.function(lambda x: dlvm.sum(dlvm.every_test(x) ** 2))
    assert abs(float(f(x)) - (x[::2] ** 2).sum()) < 1e-12
    text = str(f.compile(x).text("kernels"))
    assert text.count("kernel") == 1


def test_a_movement_from_outside_is_a_function_by_its_name():
    assert "rolling_test" in dir(dlvm)
    x = np.arange(9.0)
    np.testing.assert_array_equal(dlvm.rolling_test(x), windows(x))
    np.testing.assert_array_equal(dlvm.rolling_test(x, size=2), windows(x, size=2))
    np.testing.assert_array_equal(
        dlvm.corner_test([1.0, 2.0, 4.0], x[:3]), corners(np.array([1.0, 2, 4]), x[:3])
    )
    with pytest.raises(TypeError, match="unexpected keyword argument 'width'"):
        dlvm.rolling_test(x, width=2)
    with pytest.raises(TypeError, match="missing a required argument: 'z'"):
        dlvm.corner_test(x)
