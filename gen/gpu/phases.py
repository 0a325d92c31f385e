"""The phases of a kernel: what a GPU runs as launches of their own, one after the other.

Blocks can't wait for one another inside of a launch. So each of the outermost loops of a kernel is
a launch, and so are the statements between them, which one lane runs. Scalars are computed again in
each phase that uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlvm.gen.loops.simplify import used
from dlvm.gen.loops.statements import (
    Bind,
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Statement,
    Store,
    accesses,
    statements,
)


def phases(kernel: LoopKernel) -> list[LoopKernel]:
    """The phases, as kernels of the same buffers and sizes."""
    if not divisible(kernel.body):
        return [replace(kernel, body=_mapped(kernel.body))]
    found: list[LoopKernel] = []
    for before, group in _groups(kernel.body):
        name = kernel.name if not found else f"{kernel.name}_{len(found)}"
        body = used((*before, *group))
        found.append(replace(kernel, name=name, body=_mapped(body)))
    return found


def divisible(body: Body) -> bool:
    """Whether each phase can compute the scalars that it uses, and has its arrays for itself."""
    groups = _groups(body)
    return not _share_arrays(body, groups) and not any(_stale(body, *group) for group in groups)


def _groups(body: Body) -> list[tuple[list[Statement], list[Statement]]]:
    """What each phase is made of: the scalars before it, and its own statements."""
    scalars: list[Statement] = []
    groups: list[tuple[list[Statement], list[Statement]]] = []
    plain = False
    for s in body:
        loop, scalar = isinstance(s, Loop), isinstance(s, Let | Define | Bind | Local)
        if loop or not (plain or scalar):
            groups.append(([*scalars], []))
            plain = not loop
        if plain or loop:
            groups[-1][1].append(s)
        if scalar:
            scalars.append(s)
    return groups


def _stale(body: Body, before: list[Statement], group: list[Statement]) -> bool:
    """Whether a phase reads what was overwritten since it was loaded."""
    order = {id(s): i for i, s in enumerate(body)}
    start = order[id(group[0])]
    for s in used((*before, *group)):
        memory = s.scalar.memory if isinstance(s, Let) and isinstance(s.scalar, Load) else None
        at = order.get(id(s), start)
        if isinstance(memory, Buffer) and at < start and _written(body[at:start], memory):
            return True
    return False


def _written(body: Body, memory: Buffer) -> bool:
    return any(isinstance(s, Store) and s.memory == memory for s in statements(body))


def _share_arrays(body: Body, groups: Sequence[tuple[list[Statement], list[Statement]]]) -> bool:
    """Whether an array that is declared outside of loops is touched in several phases."""
    arrays = {s.name for s in body if isinstance(s, Local)}
    seen: set[str] = set()
    for _, group in groups:
        touched = {x.memory.name for x in accesses(tuple(group))} & arrays
        if touched & seen:
            return True
        seen |= touched
    return False


def _mapped(body: Body) -> Body:
    """Statements that are in no block and no lane, in one lane of one block."""
    loops = {s.kind for s in body if isinstance(s, Loop)}
    if loops & {"block", "lane"}:
        return body
    return (Loop("%one", 1, "block", (Loop("%only", 1, "lane", body),)),)
