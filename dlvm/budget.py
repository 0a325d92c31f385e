"""A budget of memory: what users write, and the road's kernels with recomputation until it holds.

What counts is the arena that is planned for the finished program, not an estimate of it: the
plan is asked after each attempt, and the aim is lowered by what is still too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dlvm.cost import body_flops
from dlvm.errors import UserError
from dlvm.ir import Dim, Module
from dlvm.ir.dims import evaluate, symbols

DECIMAL = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
UNITS = DECIMAL | {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
ATTEMPTS = 6
TYPICAL = 64
"""What an open size counts as."""


def budget_of(memory: Any) -> int | None:
    """Bytes, from a number of them or from text such as ``"64MB"`` or ``"1.5GiB"``."""
    if memory is None or (type(memory) is int and memory >= 0):
        return memory
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMG]i?B|B)\s*", memory) if type(memory) is str else None
    if found is None or found[1].count(".") > 1 or found[1] == ".":
        raise UserError(
            f"memory={memory!r:.40}: expected bytes, or a number and a unit",
            remedy='write memory="64MB" (or KB, GB, KiB, MiB, GiB)',
        )
    return int(float(found[1]) * UNITS[found[2]])


def fitted(module: Module, budget: int) -> Module:
    """The kernels of a module with recomputation until the planned memory meets the budget.

    Of the attempts that meet it the one with the fewest operations is taken.
    """
    planned = planned_bytes(module)
    if planned <= budget:
        return module
    tried = [*_attempts(module, budget, planned)]
    met = [made for made, found in tried if found <= budget]
    if met:
        return min(met, key=lambda made: typical(body_flops(made.main)))
    least = min(planned, *(found for _, found in tried))
    error = UserError(
        f"memory={budget} bytes: this function needs {planned} bytes beside its arguments and "
        f"results, and at least {least} with recomputation",
        remedy="allow that much, use smaller batches, or checkpoint loops (dlvm.checkpoint)",
    )
    error.refused = True
    raise error


def _attempts(module: Module, budget: int, planned: int) -> Iterator[tuple[Module, int]]:
    """Recomputation for several aims: lower where too much is planned, then by halving."""
    from dlvm.opt.recomputing import within

    low, high, aim = 0, planned, budget
    for _ in range(ATTEMPTS):
        made = module.replace(within(module.main, aim))
        found = planned_bytes(made)
        yield made, found
        if 0.9 * budget <= found <= budget:
            return
        if found > budget and aim > budget - (found - budget) > low:
            high, aim = aim, budget - (found - budget)
            continue
        low, high = (aim, high) if found <= budget else (low, aim)
        aim = (low + high) // 2


def planned_bytes(module: Module) -> int:
    """The planned memory of a module of kernels; open sizes count as 64."""
    from dlvm.gen.build import planned_bytes

    return typical(planned_bytes(module))


def typical(size: Dim) -> int:
    """A size where every symbol is 64."""
    return evaluate(size, dict.fromkeys(symbols(size), TYPICAL))
