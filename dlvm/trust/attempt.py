"""Failures while Python runs: what was traced so far, and the operation under construction.

There is no whole program to replay then, but the traced part is a function of the language all the
same. An operation whose constructor failed is stored next to it, as the line of text that would
have followed, and is constructed again from that text.
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
"""The stage of failures that happen while Python runs."""


def unfinished(error: BaseException) -> Op | None:
    """The operation whose constructor raised the error, or None."""
    found: Op | None = None
    for at in frames(error.__traceback__):
        made = at.tb_frame.f_locals.get("self")
        if isinstance(made, Op) and "operands" in vars(made) and "results" not in vars(made):
            found = made
    return found


def frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """The frames of a traceback, from the outermost to the innermost."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def construction(op: Op, fn: Function) -> str:
    """The text of an unfinished operation, on values of the function."""
    printer = Printer()
    printer.lines = [f"dlvm {VERSION}"]
    words = [op.name, *printer.fields(op, name_values(fn)), *_types(op)]
    printer.lines.append(" ".join(words))
    for spec in op.layout:
        if spec.kind == "region":
            printer.function(getattr(op, spec.name), spec.label, "  ")
    return printer.text()


def _types(op: Op) -> list[str]:
    """The types that are known without the shape rule: declared ones, and those of constants."""
    fields = [(spec.kind, getattr(op, spec.name)) for spec in op.layout]
    written: list[TensorType] = [t for kind, types in fields if kind == "types" for t in types]
    arrays = [(dtype_of(a), a.shape) for kind, a in fields if kind == "array"]
    written += [TensorType(dtype, shape) for dtype, shape in arrays if dtype is not None]
    return [f": {', '.join(map(str, written))}"] if written else []


class _Unmade(Parser):
    """A parser that reads one operation without constructing it."""

    def read(self, module: Module) -> tuple[type[Op], dict[str, Any]]:
        """The class and the fields of the operation, on values of the module's first function."""
        self.version()
        self.read_data()
        self.outermost, _ = self.lines[self.place]
        names = name_values(module.main)
        try:
            self.operation(self.line(), {name: value for value, name in names.items()}, 0)
        except _Read as found:
            return found.cls, found.values
        raise AssertionError("the parser did not construct the operation that it read")

    def construct(self, line: Line, cls: type[Op], values: dict[str, Any]) -> Op:
        if line.number == self.outermost:
            raise _Read(cls, values)
        return super().construct(line, cls, values)


class _Read(Exception):
    """Raised when the operation has been read."""

    def __init__(self, cls: type[Op], values: dict[str, Any]) -> None:
        super().__init__(cls.name)
        self.cls, self.values = cls, values


def made_again(module: Module, text: str) -> Failure | None:
    """The failure of constructing the operation in the text on values of a module, or None."""
    cls, values = _Unmade(text, "<ir>").read(module)
    return failing(lambda: cls(**values))


def failing(again: Callable[[], Any]) -> Failure | None:
    """The failure of calling ``again``, or None; a user's error is no failure."""
    try:
        again()
    except (UserError, MemoryError):
        return None
    except Exception as error:
        return crash(STAGE, error)
    return None
