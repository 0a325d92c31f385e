"""What moves elements against NumPy: by its own names, staged and not, with every derivative.

All of it is linear, so one gradient says what the function does to every argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

A, B = (2, 3, 4), (3, 5)
PICKS = np.array([2, 0, 2])

CASES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "flip": (lambda x: np.flip(x), A),
    "flip one": (lambda x: np.flip(x, -1), A),
    "flip two": (lambda x: np.flip(x, (0, 2)), A),
    "flipud": (lambda x: np.flipud(x) + np.fliplr(x), A),
    "rot90": (lambda x: np.rot90(x), B),
    "rot90 back": (lambda x: np.rot90(x, -1, axes=(2, 0)), A),
    "rot90 twice": (lambda x: np.rot90(x, 2, axes=(0, 2)) + np.rot90(x, 4), A),
    "roll": (lambda x: np.roll(x, 2), B),
    "roll far": (lambda x: np.roll(x, -13, axis=1), B),
    "roll several": (lambda x: np.roll(x, (1, -2), axis=(0, 2)), A),
    "moveaxis": (lambda x: np.moveaxis(x, (0, 2), (-1, 0)), A),
    "moveaxis one": (lambda x: np.moveaxis(x, -1, 0), A),
    "swapaxes": (lambda x: x.swapaxes(0, -1) + np.swapaxes(x, 2, 0), A),
    "expand_dims": (lambda x: np.expand_dims(x, (0, -1, 2)), B),
    "squeeze": (lambda x: np.squeeze(x[:, None], 1), B),
    "flatten": (lambda x: x.flatten() + x.ravel(), A),
    "repeat": (lambda x: np.repeat(x, 3), B),
    "repeat rows": (lambda x: x.repeat(2, axis=1), A),
    "repeat each": (lambda x: np.repeat(x, [1, 0, 3], axis=1), A),
    "repeat none": (lambda x: np.repeat(x, 0, axis=0), B),
    "tile": (lambda x: np.tile(x, 2), B),
    "tile more axes": (lambda x: np.tile(x, (2, 1, 3)), B),
    "tile fewer axes": (lambda x: np.tile(x, (2,)), A),
    "pad": (lambda x: np.pad(x, 2), B),
    "pad pairs": (lambda x: np.pad(x, ((1, 0), (0, 0), (3, 2))), A),
    "pad edge": (lambda x: np.pad(x, ((4, 1), (0, 2)), mode="edge"), B),
    "pad reflect": (lambda x: np.pad(x, ((5, 7), (2, 11)), mode="reflect"), B),
    "pad symmetric": (lambda x: np.pad(x, ((8, 1), (3, 6)), mode="symmetric"), B),
    "pad wrap": (lambda x: np.pad(x, (4, 9), mode="wrap"), B),
    "broadcast_arrays": (lambda x: sum(np.broadcast_arrays(x, x[:1])), B),
    "concatenate": (lambda x: np.concatenate([x, x[:, ::-1], x[:0]], 0), B),
    "concatenate flat": (lambda x: np.concatenate([x, x[0]], None), B),
    "stack": (lambda x: np.stack([x, x], -1), A),
    "hstack": (lambda x: np.hstack([x, x[:, 1:]]), B),
    "vstack": (lambda x: np.vstack([x, x[0]]), B),
    "hstack of vectors": (lambda x: np.hstack([x[0], x[1]]), B),
    "dstack": (lambda x: np.dstack([x, x[::-1]]), B),
    "column_stack": (lambda x: np.column_stack([x, x[:, 0]]), B),
    "append": (lambda x: np.append(x, x[:1], axis=0), B),
    "split": (lambda x: np.split(x, 2, axis=-1)[1], A),
    "split at": (lambda x: np.concatenate(np.split(x, [1, 2, 9], 1)[::-1], 1), B),
    "array_split": (lambda x: np.concatenate(np.array_split(x, 3, 1)[::-1], 1), B),
    "hsplit": (lambda x: np.hsplit(x, [2])[1], B),
    "vsplit": (lambda x: np.vsplit(x, 3)[1], B),
    "atleast": (lambda x: np.atleast_1d(x[0, 0]) + np.atleast_2d(x[0])[0], B),
    "atleast_3d": (lambda x: np.atleast_3d(x)[0, :, 0] + np.atleast_3d(x[0])[0, :, 0], B),
    "diagonal": (lambda x: np.diagonal(x), B),
    "diagonal beside": (lambda x: np.diagonal(x, 2, 2, 1), A),
    "diagonal below": (lambda x: np.diagonal(x, -1), B),
    "diagonal of nothing": (lambda x: np.diagonal(x, 7), B),
    "trace": (lambda x: np.trace(x, offset=1), B),
    "trace of planes": (lambda x: x.trace(0, 1, 2), A),
    "diag": (lambda x: np.diag(x[0], 2) + np.diag(x[1], -2), B),
    "diag of a matrix": (lambda x: np.diag(x, 1), B),
    "tril": (lambda x: np.tril(x, -1) + np.tril(x), A),
    "triu": (lambda x: np.triu(x, 1) - np.triu(x, -2), B),
    "take": (lambda x: np.take(x, PICKS, axis=-1), A),
    "take flat": (lambda x: np.take(x, PICKS[:, None]), B),
    "take wrapping": (lambda x: np.take(x, PICKS * 5 - 7, axis=1, mode="wrap"), B),
    "take_along_axis": (lambda x: np.take_along_axis(x, PICKS[None, :, None] % 2, axis=1), A),
}  # fmt: skip


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> tuple[Any, np.ndarray]:
    program, shape = CASES[request.param]
    return program, np.random.default_rng(0).integers(-9, 9, shape).astype(float)


def test_it_moves_as_numpy_moves(case: Any):
    program, x = case
    found, expected = dlvm.function(program)(x), program(x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_its_gradient_moves_back(case: Any):
    """``g . x = w . f(x)`` for a gradient g taken elsewhere, as f is linear."""
    program, x = case
    w = np.random.default_rng(1).integers(-9, 9, np.shape(program(x))).astype(float)
    g = dlvm.grad(lambda y: (program(y) * w).sum())(np.zeros(x.shape))
    for _ in range(2):
        assert (g * x).sum() == (program(x) * w).sum()
        x = np.random.default_rng(2).integers(-9, 9, x.shape).astype(float)


def test_a_batch_of_it_is_each_alone(case: Any):
    program, x = case
    xs = np.stack([x, x + 1, -x])
    np.testing.assert_array_equal(dlvm.vmap(program)(xs), [program(one) for one in xs])


OPEN = {k: v for k, v in CASES.items() if k not in {
    "split", "vsplit", "repeat each", "atleast",  "diag", "take_along_axis", "split at",
    "take wrapping", "broadcast_arrays"}}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_one_program_moves_arrays_of_all_sizes(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    program, shape = OPEN[name]
    opened = dlvm.function(dynamic={"x": ",".join("NMK"[: len(shape)])})(program)
    for sizes in (shape, tuple(n + 2 for n in shape)):
        x = np.arange(float(np.prod(sizes))).reshape(sizes)
        np.testing.assert_array_equal(opened(x), program(x))


def test_plain_arrays_move_by_the_same_names():
    x = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(dlvm.roll(x, 1, axis=0), np.roll(x, 1, axis=0))
    parts = dlvm.unstack(x, axis=1)
    assert len(parts) == 4 and np.array_equal(parts[2], x[:, 2])
    assert all(map(np.array_equal, dlvm.array_split(x, 2), np.array_split(x, 2)))
    assert np.array_equal(
        dlvm.pad(x, 1, constant_values=np.inf), np.pad(x, 1, constant_values=np.inf)
    )
    pairs = ((1, 2), (3, 4))
    assert np.array_equal(
        dlvm.pad(x, pairs, constant_values=pairs), np.pad(x, pairs, constant_values=pairs)
    )
    assert np.array_equal(dlvm.matrix_transpose(x), x.T)


def test_a_shift_may_be_known_only_in_the_call():
    f = dlvm.function(lambda x, k: dlvm.roll(x, k, axis=1))
    x = np.arange(10.0).reshape(2, 5)
    for k in (0, 3, -7, 12):
        assert np.array_equal(f(x, np.int64(k)), np.roll(x, k, axis=1))


def test_the_value_around_an_array_has_a_derivative():
    g = dlvm.grad(lambda v: dlvm.pad(np.ones((2, 3)), 1, constant_values=v).sum())
    assert g(2.0) == 20 - 6


def test_a_turned_array_is_a_view():
    def program(x):
        a = x.copy()
        np.flip(a, 0)[0] = 7
        np.moveaxis(a, 0, 1)[1] += 10
        np.split(a, [1])[1][0] = -1
        np.rot90(a)[0, 1] = 99
        return a

    x = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(dlvm.function(program)(x), program(x))


def test_positions_along_an_axis_are_assigned():
    def program(x, i):
        a = x.copy()
        np.put_along_axis(a, i, -1.0, axis=0)
        np.put_along_axis(a, i.T[:3, :1], np.array([[7.0], [8], [9]]), axis=1)
        return a

    x, i = np.arange(12.0).reshape(3, 4), np.array([[0, 2, 1, 0], [1, 1, 0, 2], [2, 0, 2, 1]])
    assert np.array_equal(dlvm.function(program)(x, i), program(x, i))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: dlvm.permute_dims(x, (0, 0)), "twice"),
        (lambda x: dlvm.permute_dims(x, (0, 2)), "axis 2 is out of range"),
        (lambda x: dlvm.expand_dims(x, 4), "axis 4 is out of range"),
        (lambda x: dlvm.moveaxis(x, (0, 1), 0), "2 axes do not go to 1 places"),
        (lambda x: dlvm.split(x, 3), r"(?s)no 3 equal parts.*array_split"),
        (lambda x: dlvm.pad(x, -1), "at least 0"),
        (lambda x: dlvm.pad(x, 1, mode="mean"), "mode='mean': expected one of 'constant'"),
        (lambda x: dlvm.pad(x[:0], 1, mode="edge"), "no element to repeat"),
        (lambda x: dlvm.repeat(x, x), "repeats is staged"),
        (lambda x: dlvm.tril(x[0]), "expected a matrix"),
        (lambda x: dlvm.roll(x, (1, 2), axis=0), "2 shifts for 1 axes"),
    ],
)  # fmt: skip
def test_mistakes_are_said_in_words(wrong: Any, words: str):
    with pytest.raises(UserError, match=words):
        dlvm.function(wrong)(np.ones((4, 2)))


ROLLED = {
    "far": lambda np, x: np.roll(x, 5, axis=1),
    "back": lambda np, x: np.roll(x, -2, axis=0),
    "both": lambda np, x: np.roll(x, (1, -7), axis=(0, 1)),
    "flat": lambda np, x: np.roll(x, 3),
    "in sums": lambda np, x: (np.roll(x, 1, axis=1) * x - np.roll(x, -1, axis=1)).sum(1),
    "twice": lambda np, x: np.roll(np.roll(x, 2, axis=1), -2, axis=1)[::-1],
}


@pytest.mark.parametrize("name", ROLLED)
def test_open_axes_are_rolled_by_two_copies(name):
    """They were gathered: two to five times as long."""
    f = ROLLED[name]
    staged = dlvm.function(lambda x: f(dlvm, x), dynamic={"x": "N,M"})
    slopes = dlvm.function(
        dlvm.grad(lambda x: (f(dlvm, x) * dlvm.sin(f(dlvm, x))).sum()), dynamic={"x": "N,M"}
    )
    known = dlvm.function(dlvm.grad(lambda x: (f(dlvm, x) * dlvm.sin(f(dlvm, x))).sum()))
    for shape in ((0, 3), (3, 0), (1, 1), (2, 4), (4, 3), (5, 7), (30, 70)):
        x = np.random.default_rng(0).normal(size=shape)
        np.testing.assert_allclose(staged(x), f(np, x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(slopes(x), known(x), rtol=1e-12, atol=1e-12)
    lanes = dlvm.function(dlvm.vmap(lambda x: f(dlvm, x)), dynamic={"x": "B,N,M"})
    xs = np.random.default_rng(1).normal(size=(3, 4, 6))
    np.testing.assert_allclose(lanes(xs), [f(np, x) for x in xs], rtol=1e-12, atol=1e-12)
    assert len(staged.explain().compiles) == 1
    assert "gather" not in str(staged.compile(xs[0]).text("kernels"))
