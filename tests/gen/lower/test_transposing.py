"""Operands that lie transposed, copied tile by tile: read in place, turned round and elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm

PROGRAMS = {
    "in place": lambda x, y: y + x.T,
    "turned round": lambda x, y: x.T[::-1, ::-1] * 2 + y,
    "rows turned round": lambda x, y: x.T[::-1] * 1,
    "columns turned round": lambda x, y: y - x.T[:, ::-1],
    "both": lambda x, y: x.T + x.T[::-1] * y,
    "the whole turned round": lambda x, y: (y + x.T)[:, ::-1] * 2,
    "rolled": lambda x, y: np.roll(x.T, 3, 0) + y + x.T,
    "padded": lambda x, y: np.pad(x.T, ((1, 0), (0, 0)))[:-1] + x.T,
}
"""Of a matrix and one of the shape of its transpose."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("kind", [np.float32, np.int64, np.int8])
def test_a_tile_serves_those_who_read_it_in_place(name, kind, open_sizes):
    program = PROGRAMS[name]
    dynamic = {"x": "A,B", "y": "B,A"} if open_sizes else {}
    staged = dlvm.function(program, dynamic=dynamic)
    for rows, columns in ((2, 3), (65, 300), (300, 65), (1, 9), (4, 0)):
        x = (np.arange(rows * columns) % 61).reshape(rows, columns).astype(kind)
        y = (np.arange(rows * columns) % 7).reshape(columns, rows).astype(kind)
        np.testing.assert_array_equal(staged(x, y), program(x, y))
