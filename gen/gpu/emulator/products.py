"""What ``mma.sync`` does, from the registers of the 32 lanes of a warp.

Elements of a register lie where the PTX ISA says. Products are exact, and the sum over k is rounded
once to f32; what a tensor core does there is not known to the bit.
"""

from __future__ import annotations

import numpy as np

from dlvm.ir import BF16, Array

LANE = np.arange(32)
G, T = LANE // 4, LANE % 4


def multiplied(name: str, given: Array) -> Array:
    """The four new sums of each lane; ``given`` are the ten registers of each, as words."""
    words = given.astype(np.uint64).astype(np.uint32)
    beside, depth = (1, 8) if "tf32" in name else (2, 16)
    x, y = np.zeros((16, depth)), np.zeros((depth, 8))
    for r in range(4):
        row, col = G + 8 * (r % 2), beside * T + (depth // 2) * (r // 2)
        for i, value in enumerate(_elements(name, words[:, r])):
            x[row, col + i] = value
    for r in range(2):
        row = beside * T + (depth // 2) * r
        for i, value in enumerate(_elements(name, words[:, 4 + r])):
            y[row + i, G] = value
    total = x @ y
    sums = words[:, 6:10].view(np.float32).astype(np.float64)
    found = np.empty((32, 4), np.float32)
    for q in range(4):
        found[:, q] = sums[:, q] + total[G + 8 * (q // 2), 2 * T + q % 2]
    return found.view(np.uint32).astype(np.int64)


def _elements(name: str, register: Array) -> list[Array]:
    """The numbers in a register of each lane."""
    if "tf32" in name:
        return [np.ascontiguousarray(register).view(np.float32).astype(np.float64)]
    halves = [(register & 0xFFFF).astype(np.uint16), (register >> 16).astype(np.uint16)]
    dtype = BF16.numpy if "bf16" in name else np.float16
    return [h.view(dtype).astype(np.float64) for h in halves]
