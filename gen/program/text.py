"""The text form of a program, which the stage ``loops`` shows above the kernels."""

from __future__ import annotations

from .memory import Arena, plan
from .steps import (
    CallFunction,
    CallPython,
    Copy,
    EndUnless,
    For,
    Given,
    If,
    Launch,
    Pop,
    Program,
    Push,
    Show,
    Step,
    Storage,
    Tick,
    View,
    While,
)


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
    lines += [f"  %{s.name}: {_room(s)} at {at}" for s, at in arena.offsets.items()]
    for i, array in enumerate(program.constants):
        lines.append(f"  %constant{i}: {array.dtype}{list(array.shape)}")
    _block(program.steps, "  ", lines)
    return [*lines, "}"]


def _room(storage: Storage) -> str:
    return f"{storage.dtype}[{storage.size}]"


def view_text(view: View) -> str:
    """``%t3: f32[2,4] + offset``; alone where it covers its storage in the shape it has."""
    where = f" + {view.offset}" if view.offset != 0 else ""
    if isinstance(view.storage.place, Given) and view.whole:
        return f"%{view.storage.name}"
    return f"%{view.storage.name}{where}: {view.type}"


def _block(steps: tuple[Step, ...], indent: str, lines: list[str]) -> None:
    for step in steps:
        _step(step, indent, lines)


def _step(step: Step, indent: str, lines: list[str]) -> None:
    inner = indent + "  "
    match step:
        case If():
            lines.append(f"{indent}if {view_text(step.condition)} {{")
            _block(step.then, inner, lines)
            lines.append(f"{indent}}} else {{")
            _block(step.otherwise, inner, lines)
            lines.append(f"{indent}}}")
        case While():
            lines.append(f"{indent}loop {{")
            _block(step.before, inner, lines)
            lines.append(f"{inner}leave unless {view_text(step.condition)}")
            _block(step.body, inner, lines)
            lines.append(f"{indent}}}")
        case For():
            how = " downwards" * step.reverse + " apart" * step.apart
            lines.append(f"{indent}for {step.variable} < {step.length}{how} {{")
            _block(step.body, inner, lines)
            lines.append(f"{indent}}}")
        case _:
            lines.append(indent + leaf_text(step))


def leaf_text(
    step: Launch | Copy | Push | Pop | EndUnless | Show | CallPython | CallFunction | Tick,
) -> str:
    """A step without steps inside."""
    match step:
        case Launch():
            return f"launch @{step.kernel.name}({_list(step.views)})"
        case Copy():
            return f"copy {view_text(step.source)} -> {view_text(step.target)}"
        case Push():
            return f"push ({_list(step.xs)}) on {view_text(step.tape)} -> {view_text(step.result)}"
        case Pop():
            return f"pop ({_list(step.xs)}) off {view_text(step.tape)} -> {view_text(step.result)}"
        case EndUnless():
            return f"check {view_text(step.condition)} code {step.code}"
        case CallFunction():
            sizes = f" sizes ({', '.join(map(str, step.sizes))})" if step.sizes else ""
            results = _list(step.results)
            return f"enter @{step.callee}({_list(step.arguments)}) -> ({results}){sizes}"
        case CallPython():
            return f"call reference {step.index} ({_list(step.xs)}) -> ({_list(step.results)})"
        case Show():
            return f"show {view_text(step.x)} as {step.index}"
        case Tick():
            return f"tick {step.slot}"


def _list(views: tuple[View, ...]) -> str:
    return ", ".join(map(view_text, views))
