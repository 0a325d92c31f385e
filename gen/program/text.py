"""The text form of a program, which the stage ``loops`` shows above the kernels."""

from __future__ import annotations

from .memory import Arena, plan
from .steps import Program, Step


def program_text(program: Program, arena: Arena) -> str:
    """The steps, with the place of everything, then the functions entered and the kernels."""
    lines = _function(program, arena)
    for callee in program.callees:
        lines += _function(callee, plan(callee))
    return "\n".join([*lines, *map(str, program.kernels())]) + "\n"


def _function(program: Program, arena: Arena) -> list[str]:
    params = ", ".join(f"%{v.storage.name}: {v.type}" for v in program.params)
    results = ", ".join(f"%{v.storage.name}: {v.type}" for v in program.results)
    head = f"program @{program.name}({params}) -> ({results})"
    lines = [f"{head} arena {arena.bytes} {{"]
    lines += [f"  %{s.name}: {s.dtype}[{s.size}] at {at}" for s, at in arena.offsets.items()]
    for i, array in enumerate(program.constants):
        lines.append(f"  %constant{i}: {array.dtype}{list(array.shape)}")
    _block(program.steps, "  ", lines)
    return [*lines, "}"]


def _block(steps: tuple[Step, ...], indent: str, lines: list[str]) -> None:
    for step in steps:
        first, *others = step.texts
        lines.append(indent + first)
        for body, after in zip(step.bodies, others, strict=True):
            _block(body, indent + "  ", lines)
            lines.append(indent + after)
