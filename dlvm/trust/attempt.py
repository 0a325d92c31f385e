"""What was being done when dlvm failed while Python ran: there is no whole program to replay.

What had been traced is a function of the language all the same. An operation whose constructor
failed is kept beside it, as the line that would have come next, and is made again from that text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from dlvm.base.errors import UserError
from dlvm.ir import Module, Op, TensorType, dtype_of
from dlvm.ir.core import Function
from dlvm.ir.text.line import Line
from dlvm.ir.text.parser import Parser
from dlvm.ir.text.printer import VERSION, Printer, name_values

from .examine import crash
from .failure import Failure

STAGE = "trace"
"""Where failures happen while Python runs."""


def unfinished(error: BaseException) -> Op | None:
    """The operation that was being made when an error was raised, if it was one."""
    found: Op | None = None
    for at in frames(error.__traceback__):
        made = at.tb_frame.f_locals.get("self")
        if isinstance(made, Op) and "operands" in vars(made) and "results" not in vars(made):
            found = made
    return found


def frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """A traceback from the outermost frame to the innermost."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def construction(op: Op, fn: Function) -> str:
    """An unfinished operation as text, which would stand behind the others of a function."""
    printer = Printer()
    printer.lines = [f"dlvm {VERSION}"]
    words = [op.name, *printer.fields(op, name_values(fn)), *_types(op)]
    printer.lines.append(" ".join(words))
    for spec in op.layout:
        if spec.kind == "region":
            printer.function(getattr(op, spec.name), spec.label, "  ")
    return printer.text()


def _types(op: Op) -> list[str]:
    """The types that can be told without the shape rule: written ones, and those of constants."""
    fields = [(spec.kind, getattr(op, spec.name)) for spec in op.layout]
    written: list[TensorType] = [t for kind, types in fields if kind == "types" for t in types]
    arrays = [(dtype_of(a), a.shape) for kind, a in fields if kind == "array"]
    written += [TensorType(dtype, shape) for dtype, shape in arrays if dtype is not None]
    return [f": {', '.join(map(str, written))}"] if written else []


class _Unmade(Parser):
    """Reads one operation without making it, but what its regions hold."""

    def read(self, module: Module) -> tuple[type[Op], dict[str, Any]]:
        """The class and the fields, on values of the first function of a module."""
        self.version()
        self.read_data()
        self.outermost, _ = self.lines[self.place]
        names = name_values(module.main)
        try:
            self.operation(self.line(), {name: value for value, name in names.items()}, 0)
        except _Read as found:
            return found.cls, found.values
        raise AssertionError("an operation is read by constructing it")

    def construct(self, line: Line, cls: type[Op], values: dict[str, Any]) -> Op:
        if line.number == self.outermost:
            raise _Read(cls, values)
        return super().construct(line, cls, values)


class _Read(Exception):
    """An operation was read."""

    def __init__(self, cls: type[Op], values: dict[str, Any]) -> None:
        super().__init__(cls.name)
        self.cls, self.values = cls, values


def made_again(module: Module, text: str) -> Failure | None:
    """How making an operation fails on values of a module; None where it does not."""
    cls, values = _Unmade(text, "<ir>").read(module)
    return failing(lambda: cls(**values))


def failing(again: Callable[[], Any]) -> Failure | None:
    """How something fails that is done again; an error of the user's is no failure."""
    try:
        again()
    except (UserError, MemoryError):
        return None
    except Exception as error:
        return crash(STAGE, error)
    return None
