"""Captured arrays that reach our functions as sizes, axes, counts and options are read by value."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

X = np.arange(24.0).reshape(2, 3, 4)
CASES: dict[str, tuple[Callable[[Any, Any], Any], Any, Callable[[Any], Any]]] = {
    "axis": (lambda x, n: dlvm.sum(x, axis=int(n)), np.array(1), lambda n: n.__setitem__((), 2)),
    "axis0d": (lambda x, n: dlvm.sum(x, axis=n), np.array(1), lambda n: n.__setitem__((), 2)),
    "axisel": (
        lambda x, n: dlvm.sum(x, axis=n[0]),
        np.array([1, 2]),
        lambda n: n.__setitem__(0, 2),
    ),
    "axistuple": (
        lambda x, n: dlvm.sum(x, axis=tuple(n)),
        np.array([0, 1]),
        lambda n: n.__setitem__(0, 2),
    ),
    "roll": (lambda x, n: dlvm.roll(x, n, axis=2), np.array(1), lambda n: n.__setitem__((), 2)),
    "rollel": (
        lambda x, n: dlvm.roll(x, n[0], axis=2),
        np.array([1]),
        lambda n: n.__setitem__(0, 2),
    ),
    "rolltuple": (
        lambda x, n: dlvm.roll(x, tuple(n), axis=(1, 2)),
        np.array([1, 2]),
        lambda n: n.__setitem__(0, 2),
    ),
    "rolllist": (
        lambda x, n: dlvm.roll(x, n.tolist(), axis=(1, 2)),
        np.array([1, 2]),
        lambda n: n.__setitem__(0, 2),
    ),
    "zeros": (lambda x, n: dlvm.zeros(n), np.array([1, 2]), lambda n: n.__setitem__(0, 2)),
    "reshape": (
        lambda x, n: x.reshape(n),
        np.array([6, 4]),
        lambda n: n.__setitem__(slice(None), (4, 6)),
    ),
    "reshape2": (
        lambda x, n: dlvm.reshape(x, n),
        np.array([6, 4]),
        lambda n: n.__setitem__(slice(None), (4, 6)),
    ),
    "reshape3": (
        lambda x, n: x.reshape(*n),
        np.array([6, 4]),
        lambda n: n.__setitem__(slice(None), (4, 6)),
    ),
    "repeat": (
        lambda x, n: dlvm.repeat(x, n, axis=0),
        np.array([1, 2]),
        lambda n: n.__setitem__(0, 2),
    ),
    "repeat2": (
        lambda x, n: dlvm.repeat(x, n, axis=0),
        np.array(2),
        lambda n: n.__setitem__((), 3),
    ),
    "tile": (lambda x, n: dlvm.tile(x, n), np.array([1, 2]), lambda n: n.__setitem__(0, 2)),
    "arange": (lambda x, n: dlvm.arange(n), np.array(3), lambda n: n.__setitem__((), 4)),
    "fori": (
        lambda x, n: dlvm.fori_loop(0, n, lambda i, c: c * 2, x),
        np.array(3),
        lambda n: n.__setitem__((), 4),
    ),
    "slice2": (lambda x, n: x[:, : n[0]], np.array([2]), lambda n: n.__setitem__(0, 1)),
    "index": (lambda x, n: x[n], np.array(1), lambda n: n.__setitem__((), 0)),
    "indexarr": (lambda x, n: x[n], np.array([1, 0]), lambda n: n.__setitem__(0, 0)),
    "mask": (
        lambda x, n: x[n],
        np.array([True, False]),
        lambda n: n.__setitem__(slice(None), (False, True)),
    ),
    "eye": (lambda x, n: dlvm.eye(n), np.array(3), lambda n: n.__setitem__((), 4)),
    "linspace": (lambda x, n: dlvm.linspace(0, 1, n), np.array(3), lambda n: n.__setitem__((), 4)),
    "pad": (
        lambda x, n: dlvm.pad(x, n),
        np.array([[1, 0], [0, 0], [0, 0]]),
        lambda n: n.__setitem__((0, 0), 2),
    ),
    "pad2": (
        lambda x, n: dlvm.pad(x, ((0, 0), (0, 0), (n[0], 0))),
        np.array([1]),
        lambda n: n.__setitem__(0, 2),
    ),
    "split": (
        lambda x, n: dlvm.split(x, n, axis=2)[0],
        np.array([1, 2]),
        lambda n: n.__setitem__(0, 2),
    ),
    "onehot": (
        lambda x, n: dlvm.nn.one_hot(np.array([0, 1]), n),
        np.array(3),
        lambda n: n.__setitem__((), 4),
    ),
    "tri": (lambda x, n: dlvm.tril(x, n), np.array(0), lambda n: n.__setitem__((), 1)),
    "clip": (lambda x, n: dlvm.clip(x, n, 9), np.array(3.0), lambda n: n.__setitem__((), 4)),
    "power": (lambda x, n: x**n, np.array(3), lambda n: n.__setitem__((), 4)),
    "matpow": (
        lambda x, n: dlvm.linalg.matrix_power(x[0, :, :3], n),
        np.array(3),
        lambda n: n.__setitem__((), 4),
    ),
    "norm": (
        lambda x, n: dlvm.linalg.norm(x[0], ord=n),
        np.array(1),
        lambda n: n.__setitem__((), 2),
    ),
    "ddof": (lambda x, n: dlvm.var(x, ddof=n), np.array(0), lambda n: n.__setitem__((), 1)),
    "diff": (lambda x, n: dlvm.diff(x, n), np.array(1), lambda n: n.__setitem__((), 2)),
    "moveaxis": (lambda x, n: dlvm.moveaxis(x, n, 0), np.array(1), lambda n: n.__setitem__((), 2)),
    "rot90": (lambda x, n: dlvm.rot90(x, n), np.array(1), lambda n: n.__setitem__((), 2)),
    "where": (lambda x, n: dlvm.where(n, x, 0), np.array(True), lambda n: n.__setitem__((), False)),
    "keepdims": (
        lambda x, n: dlvm.sum(x, axis=0, keepdims=n),
        np.array(True),
        lambda n: n.__setitem__((), False),
    ),
    "topk": (lambda x, n: dlvm.top_k(x, n)[0], np.array(1), lambda n: n.__setitem__((), 2)),
    "q": (lambda x, n: dlvm.quantile(x, n), np.array(0.1), lambda n: n.__setitem__((), 0.2)),
}
"""A function of an array and of what is captured, what it is, and what changes it in place."""


def _attribute(p: Any, n: Any) -> Any:
    held = types.SimpleNamespace(n=n)
    return lambda x: p(x, held.n)


def _item(p: Any, n: Any) -> Any:
    table = {"n": n}
    return lambda x: p(x, table["n"])


def _keywords(p: Any, n: Any) -> Any:
    table = {"n": n}
    return lambda x: p(x, **table)


def _spread(p: Any, n: Any) -> Any:
    row = [n]
    return lambda x: p(x, *row)


HELD = {
    "closure": lambda p, n: lambda x: p(x, n),
    "attribute": _attribute,
    "item": _item,
    "keywords": _keywords,
    "spread": _spread,
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("name", CASES)
def test_an_option_is_read_at_each_call(name: str, held: str):
    program, first, change = CASES[name]
    captured = np.array(first)
    plain = HELD[held](program, captured)
    staged = dlvm.function(plain)
    for _ in range(2):
        np.testing.assert_allclose(staged(X), np.asarray(plain(X)), rtol=1e-13)
        change(captured)
