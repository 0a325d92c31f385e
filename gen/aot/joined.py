"""One object of all modules of a program, and how much stack its functions take."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlvm.base.errors import CompilerError
from dlvm.gen.build import Made
from dlvm.gen.cpu.driver import ENTRY
from dlvm.gen.llvm import substitutes
from dlvm.target import Target

from . import worker

FRAME = re.compile(r"stack frame size \((\d+)\) exceeds limit \(\d+\) in function '([^']+)'")
SMALL = "minsize optsize "
SECONDS = 600
"""After which LLVM is taken to hang."""
PREFIX = "export."
"""What the names of exported functions begin with in LLVM's text, where no name in C can clash."""


def exported(name: str) -> str:
    """The symbol in LLVM's text of a function that a program calls by its name in C."""
    return f"{PREFIX}{name}"


@dataclass(frozen=True, slots=True)
class Joined:
    """Machine code; ``frames`` are the bytes of stack of each function that takes some."""

    code: bytes
    frames: dict[str, int]

    @property
    def stack(self) -> int:
        """What a call takes of the stack at most: no function is open twice but recursive ones."""
        return sum(self.frames.values())


def joined(
    modules: Sequence[str],
    exports: Sequence[str],
    target: Target,
    small: bool = False,
    assembly: bool = False,
) -> Joined:
    """One object for a target; of all functions only the exports can be seen.

    An export is a name in C that ``exported`` gave a symbol, or a symbol as it is.
    """
    found = _run(modules, exports, target, small, assembly)
    names = set[str]() if assembly else substitutes.missing(found.code, target.triple)
    if names:
        more = [*modules, substitutes.module(names, target.triple)]
        found = _run(more, exports, target, small, assembly)
    return found


def _run(
    modules: Sequence[str], exports: Sequence[str], target: Target, small: bool, assembly: bool
) -> Joined:
    """LLVM in a process of its own."""
    job = {
        "modules": [_attributed(text, small) for text in modules],
        "exports": list(exports),
        "prefix": PREFIX,
        "triple": target.triple,
        "cpu": target.cpu,
        "features": target.features,
        "reloc": "static" if target.triple.startswith("wasm") else "pic",
        "small": small,
        "assembly": assembly,
    }
    # the file itself, so that the process imports llvmlite and nothing of dlvm
    command = [sys.executable, str(Path(worker.__file__).resolve())]
    done = subprocess.run(
        command, input=json.dumps(job).encode(), capture_output=True, timeout=SECONDS, check=False
    )
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        lines = [line for line in said.splitlines() if line.strip() and not FRAME.search(line)]
        last = "; ".join(lines[-3:]) or f"it ended with {done.returncode}"
        raise CompilerError(f"LLVM can't make code for {target}: {last}")
    return Joined(done.stdout, {name: int(size) for size, name in FRAME.findall(said)})


def assembly_of(made: Made) -> str:
    """The assembly of a program for a target of any kind."""
    return joined([made.llvm], [ENTRY], made.target, assembly=True).code.decode()


def _attributed(text: str, small: bool) -> str:
    """The attributes of every function: that its stack is told, and whether it is to be small."""
    more = f'{SMALL if small else ""}"warn-stack-size"="0" '
    return text.replace("attributes #0 = { ", f"attributes #0 = {{ {more}")
