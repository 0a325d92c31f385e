"""Golden files: a ``.dlvm`` file under ``tests/golden`` is a test.

Its first line names the passes (``// simplify, share``; nothing after ``//`` means: only parse
and print) and may name the numerics mode after them (``// simplify; numerics=fast``), or a stage
behind the kernels (``// fuse; stage=loops``; ``nests`` are plain loops, ``schedule`` is what is
done to them, for one processor wherever tests run). Then comes the program, a line ``// ----``, and
the whole exact text that must result, or ``error: ...``.
``pytest --update-golden`` writes the text that results now.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

import dlvm.ad
import dlvm.gen
import dlvm.opt  # noqa: F401  (the folders register their passes)
from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.loops.verifier import verify
from dlvm.gen.program.control import to_program
from dlvm.gen.schedule.planner import ALL, planned
from dlvm.gen.schedule.text import Schedule, schedule_text
from dlvm.ir import Module, parse
from dlvm.ir.numerics import mode_named, numerics
from dlvm.passes import named, run
from tests.gen.compiled import USUAL

MARK = "// ----"


class GoldenMismatch(Exception):
    """The result is not what the file says."""


class GoldenFile(pytest.File):
    """One file, which is one test."""

    def collect(self):
        yield GoldenItem.from_parent(self, name=self.path.stem)


class GoldenItem(pytest.Item):
    """Runs the passes of the first line and compares the text."""

    def runtest(self) -> None:
        program, _, expected = self.path.read_text("utf8").partition(MARK + "\n")
        found = result_of(program, self.path.name)
        if self.config.getoption("--update-golden"):
            self.path.write_text(f"{program}{MARK}\n{found}", "utf8")
        elif found != expected:
            raise GoldenMismatch(difference(expected, found, self.path))

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, GoldenMismatch):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, 0, f"golden: {self.name}"


def result_of(program: str, file: str) -> str:
    """The text after the passes that the first line names, or the error that they give."""
    head = program.partition("\n")[0]
    if not head.startswith("//"):
        raise pytest.UsageError(f"{file}: the first line must be '// pass, pass'")
    listed, *rest = head.removeprefix("//").replace(" ", "").split(";")
    options = dict(option.split("=") for option in rest)
    names = [n for n in listed.split(",") if n]
    try:
        with numerics(mode_named(options.get("numerics", "default"))):
            module = run(parse(program, file).verify(), named(names), verify=True)
    except UserError as error:
        return f"error: {error}\n"
    return after_kernels(module, options["stage"]) if "stage" in options else reread(module)


class _Usual:
    """The loops that the planner makes for one processor, wherever this runs."""

    forms = ALL

    def applied(self, plain: LoopKernel) -> LoopKernel:
        verify(plain)
        planned_ = planned(plain, USUAL)
        verify(planned_)
        return planned_


def after_kernels(module: Module, stage: str) -> str:
    """The text of a stage that has no way back: plain loops, what is done to them, or what runs."""
    plans = Schedule.plain() if stage == "nests" else _Usual()
    kernels = to_program(module, plans).kernels()
    if stage == "schedule":
        return schedule_text(kernels)
    return "".join(f"{kernel}\n" for kernel in kernels)


def reread(module: Module) -> str:
    """The text of a module, which must read back as the same text."""
    text = str(module)
    if str(parse(text)) != text:
        raise GoldenMismatch(f"the result does not read back as itself:\n{text}")
    return text


def difference(expected: str, found: str, path: Path) -> str:
    """A unified diff, and the command that accepts it."""
    lines = difflib.unified_diff(
        expected.splitlines(), found.splitlines(), "expected", "found", lineterm=""
    )
    remedy = f"if the new text is right: pytest --update-golden {path}"
    return "\n".join([*lines, "", remedy])
