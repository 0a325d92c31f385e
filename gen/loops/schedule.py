"""How a kernel is laid out in loops: data that is printed, compared and chosen, never code.

A schedule decides who computes what and in which widths. It never decides in which order a
result is folded (that is the kernel's ``tree``), so no schedule changes a bit of an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WORK = 1 << 16
"""Units of work, some two microseconds, that are worth a thread."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Vectors of ``width`` on a CPU (0: as the target has), blocks of ``width`` lanes on a GPU.

    ``tile`` are the rows of a product that are handed to its epilogue at once, and the bytes of
    each; ``work`` is how much of it is worth a thread (see ``grains``; 0: one thread does all).
    """

    processor: Literal["cpu", "gpu"] = "cpu"
    width: int = 0
    tile: tuple[int, int] = (96, 1024)
    work: int = 0

    def __str__(self) -> str:
        width, tile = self.width or "target", f"{self.tile[0]}x{self.tile[1]}B"
        return f"{self.processor} width={width} tile={tile} work={self.work}"


def cpu(width: int = 0, work: int = WORK) -> Schedule:
    """Rows shared among threads, vectors along the innermost axis that is contiguous."""
    return Schedule("cpu", width, work=work)


def gpu_elementwise(lanes: int = 128) -> Schedule:
    """One lane for each element, in blocks."""
    return Schedule("gpu", lanes)


def gpu_row_reduction(lanes: int = 32) -> Schedule:
    """One block for each row; its lanes are those of the reduction tree."""
    return Schedule("gpu", lanes)
