"""What a program shows of the memory of its kernels, which code may rely on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from dlvm.gen.loops.statements import LoopKernel
from dlvm.ir.sizes.dims import mod

from .steps import Given, Program, View

ALIGNED = 16
"""Bytes of which the start of a buffer is known to be a multiple, where it is ``aligned``."""


@dataclass(frozen=True, slots=True)
class Promises:
    """Of the buffers of a kernel, by name: which share memory, and which are not ``aligned``.

    A buffer that is written shares memory with no other one unless it is ``shared``.
    """

    shared: frozenset[str] = frozenset()
    unaligned: frozenset[str] = frozenset()

    def __or__(self, other: Promises) -> Promises:
        return Promises(self.shared | other.shared, self.unaligned | other.unaligned)


def promises(
    program: Program, results: bool = True, given: bool = False
) -> dict[LoopKernel, Promises]:
    """What holds in every launch of each kernel; whether ``results`` are aligned is up to us.

    So is whether all that is ``given`` is.
    """
    found: dict[LoopKernel, Promises] = defaultdict(Promises)
    for step in program.launches():
        pairs = zip(step.kernel.buffers, step.views, strict=True)
        unaligned = frozenset(b.name for b, v in pairs if not _is_aligned(v, results, given))
        found[step.kernel] |= Promises(step.shared, unaligned)
    return found


def _is_aligned(view: View, results: bool, given: bool) -> bool:
    """Whether a view starts at such a multiple: what callers hand over need not."""
    place = view.storage.place
    ours = not isinstance(place, Given) or given or (results and place.kind == "result")
    return ours and mod(view.offset * view.type.dtype.bytes, ALIGNED) == 0
