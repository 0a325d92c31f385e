"""Random programs of the suite; ``python -m tests.opt.sharding.programs`` runs more of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dlvm import ops
from dlvm.ir import Array
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ops.families import wide

from .programs import Seen, drawn
from .simulated import Ranks

PROGRAMS = 200
PARTS = 8


def test_ranks_have_what_one_device_has():
    """All families and kinds of exchange come up, and an annotation less is fewer exchanges."""
    seen = Seen()
    for seed in range(PROGRAMS):
        seen.judge(seed)
    seen.enough()


# -- the same bits for any number of ranks -------------------------------------------------------


def products_in_order(op: ops.Matmul, *operands: Array) -> Array:
    x, y = map(wide, operands)
    total = np.zeros((*x.shape[:-1], y.shape[-1]), x.dtype)
    for k in range(x.shape[-1]):
        total = total + x[..., k : k + 1] * y[..., k : k + 1, :]
    return total


def sum_in_order(op: ops.Sum, x: Array) -> Array:
    for axis in reversed(op.axes):
        total = np.zeros_like(np.take(x, 0, axis) if x.shape[axis] else x.sum(axis))
        for part in np.moveaxis(x, axis, 0):
            total = total + part
        x = total
    return x


def logsumexp_in_order(op: ops.LogSumExp, x: Array) -> Array:
    top = np.max(x, axis=op.axes, keepdims=True, initial=-np.inf)
    safe = np.where(np.isinf(top), 0, top)
    total = sum_in_order(op, np.exp(x - safe))  # type: ignore[arg-type]
    return np.log(total) + safe.reshape(total.shape)


@pytest.fixture
def sums_in_order(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """NumPy's own sums take an order that depends on how arrays lie in memory."""
    monkeypatch.setattr(ops.Matmul, "reference", products_in_order)
    monkeypatch.setattr(ops.Sum, "reference", sum_in_order)
    monkeypatch.setattr(ops.LogSumExp, "reference", logsumexp_in_order)
    yield


@pytest.mark.usefixtures("sums_in_order")
def test_pieces_give_the_same_bits_on_any_number_of_ranks():
    exchanges = 0
    for seed in range(0, 48, 3):
        program = drawn(seed, (f"data=1/{PARTS}",), (8, 16, 9, 12, 11))
        first: list[bytes] = []
        for count in (1, 2, 3, 4, 8):
            mesh = Mesh.named(f"data={count}/{PARTS}")
            ranks = Ranks.of(program.annotated(), mesh)
            exchanges += ranks.collectives().total()
            found = [x.tobytes() for x in ranks.whole(program.arrays, program.want)]
            first = first or found
            assert found == first, f"seed {seed}: other bits on {count} ranks"
    assert exchanges > 100
