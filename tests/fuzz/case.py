"""A case: a module with declarations, the function to run, and what its arguments are drawn from.

Its text is a ``.dlvm`` file whose first line says how it is run:

    // run main with seed 7 and A=3 B=2
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlvm.ad import expand
from dlvm.ir import Module, parse
from dlvm.testing.drawing.random_programs import Program, arguments

HEAD = re.compile(r"// run (\S+) with seed (\d+) and(.*)")
CORPUS = Path(__file__).parents[1] / "corpus"
"""One case for each bug found, all of which the suite runs."""


@dataclass(frozen=True)
class Case:
    """What the interpreter and machine code are to agree on."""

    module: Module
    entry: str
    sizes: Mapping[str, int]
    seed: int

    def program(self) -> Program:
        """Declarations filled in, the function to run first, and its arguments."""
        functions = expand(self.module.verify()).verify().functions
        module = Module(tuple(sorted(functions, key=lambda fn: fn.name != self.entry)))
        arrays = arguments(module.main.params, self.sizes, self.seed)
        return Program(module, arrays, self.sizes, self.seed)

    def __str__(self) -> str:
        sizes = "".join(f" {name}={size}" for name, size in self.sizes.items())
        return f"// run {self.entry} with seed {self.seed} and{sizes}\n{self.module}"


def of_program(program: Program) -> Case:
    """The case that runs a program's first function."""
    return Case(program.module, program.module.main.name, program.sizes, program.seed)


def read(text: str) -> Case:
    """The case that ``str`` wrote."""
    found = HEAD.match(text)
    if found is None:
        raise ValueError("the first line must be '// run NAME with seed N and A=1 ...'")
    entry, seed, sizes = found.groups()
    pairs = (word.split("=") for word in sizes.split())
    return Case(parse(text), entry, {name: int(size) for name, size in pairs}, int(seed))
