"""Long rows on a GPU: a block of several warps folds each, and gives the bits of a CPU."""

import re

import numpy as np
import pytest

import dlvm
from dlvm.gen.schedule.transforms.gpu import stages

from .assembly import assembled, barriers
from .kinds import KINDS
from .test_programs import assert_same_bits, emulated, machine_code
from .test_rows import ROWS
from .test_sums import compiled, launches

softmax, layer_norm = KINDS["softmax"][0], KINDS["layer norm"][0]


def loss_of(f):
    """The gradient of what a function of rows gives, weighed by position."""
    return lambda x: dlvm.grad(lambda x: (f(x) * x).sum())(x)


FOLDS = {
    "sum": lambda x: x.sum(axis=1),
    "max": lambda x: x.max(axis=1),
    "argmax": lambda x: np.argmax(x, axis=1),
    "softmax": softmax,
    "layer norm": lambda x: layer_norm(x, x[0], x[1]),
    "sum, centred": lambda x: x - x.sum(axis=1, keepdims=True),
    "argmax, centred": lambda x: x - np.argmax(x, axis=1).astype(x.dtype)[:, None],
    "gradient of softmax": loss_of(softmax),
    "gradient of layer norm": loss_of(lambda x: layer_norm(x, x[0], x[1])),
    "gradient of max": loss_of(lambda x: x.max(axis=1, keepdims=True)),
    "gradient of sum": loss_of(lambda x: x.sum(axis=1, keepdims=True) ** 2),
}


TWO_AXES = {
    "softmax": lambda x: dlvm.nn.softmax(x, axis=(1, 2)),
    "softmax, turned": lambda x: dlvm.nn.softmax(x, axis=(1, 2)).transpose(0, 2, 1),
    "fold of rows of a fold": lambda x: (x - x.max(axis=(1, 2), keepdims=True)).sum(axis=2),
    "columns": lambda x: x - x.sum(axis=(1, 2), keepdims=True) * x[0, :, :1],
    "where the largest is": lambda x: x - np.argmax(x.reshape(3, -1), axis=1)[:, None, None] * x,
    "several at once": lambda x: x / (x.max(axis=(1, 2), keepdims=True) - x.mean()),
}


@pytest.fixture
def many_rows(monkeypatch):
    """Three rows count as many, whose chunks are not blocks of their own."""
    monkeypatch.setattr(stages, "MOST_ROWS", 2)


@pytest.mark.drawn(3)
@pytest.mark.usefixtures("many_rows")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("columns", [2049, 4096, 4100, 8192, 8193])
@pytest.mark.parametrize("name", FOLDS)
def test_bits_are_those_of_a_cpu(name, columns, dtype):
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype(dtype)
    assert_same_bits(emulated(FOLDS[name], x), machine_code(FOLDS[name], x))


@pytest.mark.drawn(3)
@pytest.mark.usefixtures("many_rows")
@pytest.mark.parametrize("sizes", [(3, 80, 50), (3, 7, 2100), (3, 129, 33)], ids=str)
@pytest.mark.parametrize("name", TWO_AXES)
def test_rows_of_two_axes(name, sizes):
    x = np.random.default_rng(0).standard_normal(sizes)
    assert_same_bits(emulated(TWO_AXES[name], x), machine_code(TWO_AXES[name], x))


def kept_rows(kind, columns, dtype):
    """Softmax or layer norm of many rows."""
    own = [f"{dtype}[{columns}]"] * 2 if kind == "layer norm" else []
    return compiled(KINDS[kind][0], f"{dtype}[65536,{columns}]", *own)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("columns", [2049, 4096, 4100, 8192])
@pytest.mark.parametrize("kind", ROWS)
def test_warps_wait_once_for_a_row_and_once_for_each_fold(kind, columns, dtype):
    """All wait until the row is there, if it is kept, and then for what a fold came to."""
    made = kept_rows(kind, columns, dtype)
    assert [lanes for _, lanes in launches(made)] == [128]
    text = made.text("ptx")
    folds, kept = 2, int("stage " in made.text("schedule"))
    assert barriers(text) == folds + kept
    assert kept == (columns * int(dtype[1:]) // 8 <= 32768)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("columns", [2049, 4096, 4100, 8192])
@pytest.mark.parametrize("kind", ROWS)
def test_sixteen_warps_fit_on_a_processor(kind, columns, dtype, tmp_path):
    """Of an H100: 65,536 registers, which blocks take in eights, and 227 KiB of shared memory."""
    told = assembled(kept_rows(kind, columns, dtype).text("ptx"), tmp_path)
    assert not any(told.spilt)
    by_registers = 65536 // (128 * 8 * -(-told.registers[0] // 8))
    memory = told.shared[0] + 1024
    assert 4 * min(by_registers, 227 * 1024 // memory) >= 16


def test_a_sum_of_one_chunk_is_left_to_one_warp():
    def lanes(columns):
        made = compiled(lambda x: x.sum(axis=1), f"f32[65536,{columns}]")
        return [lanes for _, lanes in launches(made)]

    assert [lanes(n) for n in (4096, 8192, 16384, 32768)] == [[32], [64], [128], [128]]


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(
    ("columns", "dtype", "width"), [(8192, "f32", 4), (4100, "f32", 4), (4096, "f64", 2)]
)
def test_lanes_read_and_write_sixteen_bytes_at_once(kind, columns, dtype, width):
    made = kept_rows(kind, columns, dtype)
    assert re.search(r"unroll %\S*\.b0\S* factor=8", made.text("schedule"))
    text = made.text("ptx")
    for access in ("ld.global", "st.shared", "ld.shared", "st.global"):
        assert f"{access}.v{width}.b" in text or f"{access}.nc.v{width}.b" in text


@pytest.mark.parametrize("columns", [2049, 4098])
def test_rows_that_start_anywhere_are_read_element_by_element(columns):
    text = kept_rows("softmax", columns, "f32").text("ptx")
    assert ".v4." not in text


@pytest.mark.parametrize("shape", [(40, 40), (2, 33, 33)], ids=str)
def test_what_depends_on_the_row_alone_is_known_in_a_transposed_tile(shape):
    """The index of a row stands before the loop over its elements."""
    x = np.arange(np.prod(shape), dtype="f4").reshape(shape)

    def f(x):
        return dlvm.tril(x * 0.5 + dlvm.linalg.matrix_transpose(x))

    assert "transpose" in dlvm.function(f, target="cuda").compile(x).text("schedule")
    assert_same_bits(emulated(f, x), machine_code(f, x))
