"""Memory budgets: parsing ``memory=``, and recomputation until a program fits its budget.

What counts is the arena that is planned for the finished program, not an estimate: the plan is made
after each attempt, and the next attempt aims lower by the excess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dlvm.base.errors import UserError
from dlvm.cost import body_flops, typical
from dlvm.ir import Module

DECIMAL = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
UNITS = DECIMAL | {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
ATTEMPTS = 6
CHEAP = 1.1
"""Ratio of operations to those without recomputation that counts as cheap."""


def budget_of(memory: Any) -> int | None:
    """A number of bytes, from an integer or from text such as ``"64MB"`` or ``"1.5GiB"``."""
    if memory is None or (type(memory) is int and memory >= 0):
        return memory
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMG]i?B|B)\s*", memory) if type(memory) is str else None
    if found is None or found[1].count(".") > 1 or found[1] == ".":
        raise UserError(
            f"memory={memory!r:.40}: expected a number of bytes, or text with a number and a unit",
            remedy='write memory="64MB" (or KB, GB, KiB, MiB, GiB)',
        )
    return int(float(found[1]) * UNITS[found[2]])


@dataclass(frozen=True, slots=True)
class Version:
    """A module of kernels, and the bytes of memory that are planned for it."""

    module: Module
    planned: int

    @property
    def work(self) -> int:
        """The floating-point operations of the module; symbolic sizes count as 64."""
        return typical(body_flops(self.module.main))


def fitted(module: Module, budget: int, fuse: Callable[[Module], Module]) -> Module:
    """The kernels of a module, with as much recomputation as the budget requires.

    Loops keep less, one more loop at a time, and kernels are recomputed. Among the versions within
    the budget the one with the fewest operations is chosen. ``fuse`` turns a module into kernels.
    """
    loops = [*_loops(module, budget, fuse)]
    if loops[0].planned <= budget:
        return loops[0].module
    tried = [*loops, *(made for level in _worth(loops) for made in _attempts(level, budget))]
    met = [made for made in tried if made.planned <= budget]
    if met:
        return min(met, key=lambda made: (made.work, made.planned)).module
    least = min(made.planned for made in tried)
    error = UserError(
        f"memory={budget} bytes: this function needs {loops[0].planned} bytes besides its "
        f"arguments and results, and at least {least} bytes with recomputation",
        remedy="raise memory=, use smaller batches, or checkpoint loops (dlvm.checkpoint)",
    )
    error.refused = True
    raise error


def _loops(module: Module, budget: int, fuse: Callable[[Module], Module]) -> Iterator[Version]:
    """The module, then versions with one more loop in stretches, until one is within the budget.

    A loop *in stretches* keeps its carried values only at the start of each stretch of trips and
    recomputes the others. The next loop is the one that saves the most memory for its operations; a
    loop whose plan does not shrink is left unchanged.
    """
    from dlvm.opt.recompute.stretching import kept_by_loops, stretched
    from dlvm.opt.regions.inlining import keep_reachable

    made, module = _made(fuse(module)), keep_reachable.run(module)
    yield made
    refused: set[object] = set()
    for _ in range(ATTEMPTS):
        choices = [c for c in kept_by_loops(module.main) if c.key not in refused]
        if made.planned <= budget or not choices:
            return
        best = max(choices, key=lambda c: c.saved / c.work)
        less = module.replace(stretched(module.main, best))
        new = _made(fuse(less))
        if new.planned < made.planned:
            module, made = less, new
            yield made
        else:
            refused.add(best.key)


def _worth(loops: Sequence[Version]) -> list[Version]:
    """The versions in which kernels may be recomputed: the first one and the last two."""
    return list(dict.fromkeys((loops[0], *loops[-2:])))


def _made(module: Module) -> Version:
    return Version(module, planned_bytes(module))


def _attempts(made: Version, budget: int) -> Iterator[Version]:
    """Versions with recomputation for several aims: lower by the excess, then by bisection."""
    from dlvm.opt.recompute.recomputing import within

    if made.planned <= budget:
        return
    low, high, aim = 0, made.planned, budget
    for _ in range(ATTEMPTS):
        new = _made(made.module.replace(within(made.module.main, aim)))
        yield new
        near, cheap = new.planned >= 0.9 * budget, new.work <= CHEAP * made.work
        if new.planned <= budget and (near or cheap):
            return
        excess = new.planned - budget
        if excess > 0 and aim > budget - excess > low:
            high, aim = aim, budget - excess
            continue
        low, high = (aim, high) if excess <= 0 else (low, aim)
        aim = (low + high) // 2


def planned_bytes(module: Module) -> int:
    """The planned memory of a module of kernels in bytes; symbolic sizes count as 64."""
    from dlvm.gen.build import planned_bytes

    return typical(planned_bytes(module))
