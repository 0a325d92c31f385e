"""What becomes of kernels: loops, schedule, LLVM and assembly, each line with its kernel's places.

The code is that of a build which is read and neither run nor kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dlvm.base.errors import Origin
from dlvm.compile import Road
from dlvm.executables import OnDevice
from dlvm.gen.aot.joined import assembly_of
from dlvm.gen.program.memory import Arena
from dlvm.gen.program.steps import CallPython, Program

from .groups import NONE, Groups
from .stages import Line, Stage

KINDS = {
    **{"nests": "loops", "schedule": "schedule", "loops": "loops"},
    **{"llvm": "llvm", "asm": "asm", "ptx": "ptx"},
}
"""The stages and their kinds: nests and loops are the same language."""
HEADS = {
    "loops": re.compile(r"kernel @([\w.$]+)\("),
    "schedule": re.compile(r"kernel @([\w.$]+)"),
    "llvm": re.compile(r'define .*?@"?([\w.$]+)"?\('),
    "asm": re.compile(r"_?((?!\.?L)[\w.$]+):"),
    "ptx": re.compile(r"\.visible \.entry ([\w.$]+)\("),
}
"""How the text of a kernel starts, with its name."""
ENDS = {"loops": "}", "schedule": "", "llvm": "}", "asm": ".Lfunc_end", "ptx": "}"}
"""How it ends; a schedule goes on to the next kernel."""


@dataclass(frozen=True, slots=True)
class Code:
    """The steps of a program, its memory, and its stages as text."""

    program: Program
    arena: Arena
    texts: Mapping[str, str]

    @staticmethod
    def of(road: Road) -> Code:
        """The code of a road; that for a GPU, which no cache keeps, is not written again."""
        if isinstance(road.executable, OnDevice):
            return Code(
                road.executable.code.program, road.executable.code.arena, road.executable.texts
            )
        made = road.described()
        texts = made.texts(None if road.options.target == "host" else assembly_of)
        return Code(made.program, made.arena, texts)


def stages(code: Code, groups: Groups) -> Iterator[Stage]:
    """The stages below kernels."""
    kernels = _kernels(code, groups)
    names = [name for name in KINDS if name in code.texts]
    if "ptx" in names:
        names.remove("asm")  # the same text
    for name in names:
        kind = KINDS[name]
        lines = list(_lines(code.texts[name].splitlines(), kind, kernels))
        if name == "loops":
            lines = list(_steps(lines, code, groups))
        yield Stage(name, kind, lines, known_as=name)


def _kernels(code: Code, groups: Groups) -> Mapping[str, int]:
    """The group of each kernel: all places whose operations its launches compute."""
    places: dict[str, list[Origin]] = {}
    for launch in code.program.launches():
        places.setdefault(launch.kernel.name, []).extend(launch.places)
    return {name: groups.of(found) for name, found in places.items()}


def _lines(text: list[str], kind: str, kernels: Mapping[str, int]) -> Iterator[Line]:
    """The lines, each with the group of the kernel that it is in."""
    now = NONE
    for line in text:
        if found := HEADS[kind].match(line):
            now = _group(found[1], kernels)
        yield line, now
        if ENDS[kind] and line.startswith(ENDS[kind]):
            now = NONE


def _group(name: str, kernels: Mapping[str, int]) -> int:
    """That of a kernel, or of a part of it, which is called ``k1.tile1``."""
    return kernels.get(name) or kernels.get(re.split(r"[._$]", name)[0], NONE)


def _steps(lines: list[Line], code: Code, groups: Groups) -> Iterator[Line]:
    """The same lines; those that launch a kernel or call Python come from their own operations."""
    launches = iter(code.program.launches())
    asked = iter([step for step in code.program.walk() if isinstance(step, CallPython)])
    for line, group in lines:
        if group == NONE and line.lstrip().startswith("launch @"):
            yield line, groups.of(next(launches).places)
        elif group == NONE and line.lstrip().startswith("call reference "):
            yield line, groups.of((code.program.calls[next(asked).index][0].origin,))
        else:
            yield line, group
