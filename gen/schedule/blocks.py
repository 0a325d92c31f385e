"""Schedules for a GPU: which loops become blocks, and which the lanes of a block.

Every lane of a GPU runs the same code as the 31 others of its warp at a time, so neighbouring
lanes take neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dlvm.gen.loops.statements import Body, Local, Loop, LoopKernel, statements

from .transform import WHOLE, Transform, apply
from .transforms.bind import Bind
from .transforms.fuse import Fuse, nested
from .transforms.lanes import Lanes
from .transforms.split import Split
from .transforms.vectorize import holds_no_lanes

LANES = 128
"""Lanes of a block."""


@dataclass(frozen=True, slots=True)
class GpuPlanner:
    """Plans kernels for a GPU."""

    lanes: int = LANES

    def applied(self, plain: LoopKernel) -> LoopKernel:
        """The kernel under the first schedule that the verifier shows to be right."""
        return blocks(plain, self.lanes)


def blocks(kernel: LoopKernel, lanes: int) -> LoopKernel:
    """The kernel in blocks of ``lanes`` lanes of a GPU: one for each row, or for elements."""
    steps = list(_blocks(kernel.body, lanes))
    return replace(apply(kernel, steps), steps=tuple(map(str, steps)))


def _blocks(body: Body, lanes: int) -> Iterator[Transform]:
    """Rows that lanes share, or else each turn of the outermost loops in a lane."""
    outer = [s for s in body if isinstance(s, Loop) and s.kind == "parallel"]
    if any(isinstance(s, Local) for s in body) and outer:
        yield Lanes(WHOLE, lanes)  # one row, whose loops are those of its lanes
        return
    for loop in outer:
        chain = nested(loop)
        name = loop.var
        if len(chain) > 1:
            yield Fuse(name, len(chain))
            name = f"{name}.f"
        inside = list(statements(chain[-1].body))
        alone = any(holds_no_lanes(s) for s in inside)
        if not alone and any(isinstance(s, Loop) and s.kind == "parallel" for s in inside):
            yield from (Bind(name, "block"), Lanes(name, lanes))
        else:
            yield from (
                Split(name, lanes, "mask"),
                Bind(f"{name}.o", "block"),
                Bind(f"{name}.i", "lane"),
            )
