"""Writes the code of a kernel in another language than LLVM's, by the table of that language.

The emitter of kernels, the functions of ``gen/math`` and the indices of ``gen/text/sizes`` ask a
writer for instructions, loops and branches. This one prints each as a statement of the language: a
value is a name that is set once, and a pointer an array with an index. What a language has not is
an error here; ``gen/gpu/printing.py`` refuses programs of users before, with their lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dlvm.base.errors import CompilerError
from dlvm.gen.text.access import Kind, MemoryAccess
from dlvm.gen.text.module import Carry, FunctionWriter, Iteration, Lines, flat

from .dialect import spelt
from .expressions import Expressions
from .instruction import Instruction, read
from .module import PrintedText, counted

HEADER = re.compile(r"(?:internal )?(.*?) @([\w.]+)\((.*)\)$")


@dataclass(frozen=True, slots=True)
class Pointer:
    """An element of an array: the name of the array and the index, as they are printed."""

    array: str
    index: str = "0"
    where: str = ""
    """For an element of a buffer, whether the kernel writes to it: see ``Dialect``."""


class PrintedWriter(FunctionWriter):
    """Writes one function."""

    text: PrintedText

    def __init__(self, text: PrintedText, trusted: bool = False) -> None:
        super().__init__(text, trusted)
        self.dialect, self.say = text.dialect, Expressions(text)
        self.pointers: dict[str, Pointer] = {}

    # -- values --------------------------------------------------------------------------------

    def value(self, right: str, into: Lines | None = None) -> str:
        """A name that is set to what an instruction computes."""
        i, name = read(right), f"%{self.name()}"
        lines = self.lines if into is None else into
        if i.word == "insertvalue":
            self._replaced(i, name, lines)
        else:
            lines.append(self.say.let(i.type, name, self.say.expression(i)))
        return name

    def do(self, line: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"{self.say.expression(read(line))};")

    def _replaced(self, i: Instruction, name: str, lines: Lines) -> None:
        (record, whole), (type_, part), (_, number) = i.operands
        before = self.say.blank(record) if whole == "poison" else spelt(whole)
        lines.append(self.say.variable(record, name, before))
        lines.append(f"{spelt(name)}.p{number} = {self.say.operand(type_, part)};")

    def call(self, result: str, function: str, *arguments: tuple[str, str]) -> str:
        """An intrinsic, as the expression that the table has for it."""
        given = ", ".join(f"{t} {x}" for t, x in arguments)
        line = f"call {result} @{function}({given})"
        if result != "void":
            return self.value(line)
        self.do(line)
        return ""

    # -- memory --------------------------------------------------------------------------------

    def pointer(self, x: str) -> Pointer:
        """What a name of LLVM points to: an array itself, or an element of it."""
        return self.pointers.get(x, Pointer(spelt(x)))

    def step(
        self,
        element: str,
        pointer: str,
        index: str | int,
        into: Lines | None = None,
        lanes: int = 1,
    ) -> str:
        """An element further on: an index, which is printed where it is a sum."""
        base, name = self.pointer(pointer), f"%{self.name()}"
        far = self.say.operand(self.text.index, str(index))
        if base.index != "0":
            line = self.say.let(self.text.index, name, f"{base.index} + {far}")
            (self.lines if into is None else into).append(line)
            far = spelt(name)
        self.pointers[name] = Pointer(base.array, far, base.where)
        return name

    def access(self, access: MemoryAccess, into: Lines | None = None, name: str = "") -> str:
        """An element that is read or written."""
        self.accesses += 1
        place = self.pointer(access.pointer)
        where = place.array, place.index, access.element, place.where
        if access.lanes > 1 or access.kind not in (Kind.LOAD, Kind.STORE):
            raise CompilerError(f"{self.dialect.language} has no {access}")
        if access.writes:
            x = self.say.operand(access.element, str(access.value))
            self.lines.append(self.say.stored(*where, x))
            return name
        name = name or f"%{self.name()}"
        line = self.say.let(access.element, name, self.say.element(*where))
        (self.lines if into is None else into).append(line)
        return name

    def array(self, type_: str, alignment: int = 64) -> str:
        """An array of this lane."""
        (count, element), name = counted(type_), f"%{self.name()}"
        told = {"T": self.say.type(element), "name": spelt(name), "count": count}
        self.arrays.append(self.dialect.array.format(**told))
        return name

    # -- branches and loops ----------------------------------------------------------------------

    @contextmanager
    def when(self, condition: str) -> Generator[None]:
        """What is written inside runs only where the condition holds."""
        self.lines.append(f"if ({self.say.operand('i1', condition)}) {{")
        yield
        self.lines.append("}")

    @contextmanager
    def either(self, condition: str) -> Generator[Callable[[], None]]:
        """What is written inside runs where the condition holds, after the call where not."""

        def otherwise() -> None:
            self.lines.append("} else {")

        with self.when(condition):
            yield otherwise

    def maybe_all(
        self, condition: str, type_: str, otherwise: list[str], make: Callable[[], list[str]]
    ) -> list[str]:
        """Values that are computed only where the condition holds, else others."""
        names = [f"%{self.name()}" for _ in otherwise]
        for name, x in zip(names, otherwise, strict=True):
            self.lines.append(self.say.variable(type_, name, self.say.operand(type_, x)))
        with self.when(condition):
            for name, x in zip(names, make(), strict=True):
                self.lines.append(f"{spelt(name)} = {self.say.operand(type_, x)};")
        return names

    @contextmanager
    def loop(
        self, start: str, stop: str, step: int | str = 1, carried: Sequence[Carry] = ()
    ) -> Generator[Iteration]:
        """A loop that counts; carried values are variables before it."""
        index, type_ = f"%{self.name('i')}", self.text.index
        head: Lines = []
        for c in carried:
            c.now = c.next = f"%{self.name('c')}"
            self.lines.append(self.say.variable(c.type, c.now, self.say.operand(c.type, c.start)))
        names = [c.now for c in carried]
        below = self.say.expression(read(f"icmp slt {type_} {index}, {stop}"))
        self.lines.append(
            self.dialect.count.format(
                T=self.say.type(type_),
                i=spelt(index),
                start=self.say.operand(type_, start),
                below=below,
                step=self.say.operand(type_, str(step)),
            )
        )
        self.lines.append(head)
        yield Iteration(index, head)
        self._carry(carried, names)
        self.lines.append("}")
        for c, name in zip(carried, names, strict=True):
            c.now = name

    def _carry(self, carried: Sequence[Carry], names: Sequence[str]) -> None:
        """All at once, as what follows may be made of what others were."""
        following = [f"%{self.name()}" for _ in carried]
        for c, new in zip(carried, following, strict=True):
            self.lines.append(self.say.let(c.type, new, self.say.operand(c.type, c.next)))
        for name, new in zip(names, following, strict=True):
            self.lines.append(f"{spelt(name)} = {spelt(new)};")

    def as_long_as(
        self, type_: str, start: str, holds: Callable[[str], str], step: Callable[[str], str]
    ) -> str:
        """What a value is after steps for as long as a condition of it holds."""
        now, more = f"%{self.name('c')}", f"%{self.name()}"
        self.lines.append(self.say.variable(type_, now, self.say.operand(type_, start)))
        self.lines.append(self.say.variable("i1", more, self.say.operand("i1", holds(now))))
        self.lines.append(f"while ({spelt(more)}) {{")
        following = step(now)
        self.lines.append(f"{spelt(now)} = {self.say.operand(type_, following)};")
        self.lines.append(f"{spelt(more)} = {self.say.operand('i1', holds(now))};")
        self.lines.append("}")
        return now

    @contextmanager
    def again(self, holds: Callable[[], str], labels: Sequence[str]) -> Generator[None]:
        """What is written inside runs for as long as a condition holds, computed first."""
        self.lines.append("for (;;) {")
        self.lines.append(f"if (!{self.say.operand('i1', holds())}) {{ break; }}")
        yield
        self.lines.append("}")

    # -- whole functions -------------------------------------------------------------------------

    def body(self) -> str:
        """The lines, indented by their braces."""
        depth, out = 1, list[str]()
        for line in flat(self.arrays + self.head + self.lines):
            depth -= line.startswith("}")
            out.append("  " * depth + line)
            depth += line.endswith("{")
        return "\n".join(out)

    def function(self, header: str, attributes: str = "#0", last: str = "ret void") -> str:
        """A function that kernels call."""
        found = HEADER.match(header)
        if found is None:
            raise CompilerError(f"no function is declared by {header}")
        result, name, parameters = found.groups()
        d = self.dialect
        given = [p.rsplit(" ", 1) for p in parameters.split(", ")]
        typed = ", ".join(d.parameter.format(T=self.say.type(t), name=spelt(x)) for t, x in given)
        head = d.function.format(T=self.say.type(result), name=spelt(name), parameters=typed)
        value = self.say.operand(result, last.rsplit(" ", 1)[1])
        return f"{head}\n{self.body()}\n  return {value};\n}}"
