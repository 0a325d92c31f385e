"""A module in a language in which kernels are printed: its constants, records and functions."""

from __future__ import annotations

import re

from dlvm.base.errors import CompilerError
from dlvm.gen.text.module import Text

from .dialect import Dialect, spelt

ARRAY = re.compile(r"\[(\d+) x (\w+)\]")


class PrintedText(Text):
    """A module in a language; its pieces are those of a module of LLVM."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__("", fma=dialect.fuses, may_fuse=dialect.may_fuse, index=dialect.index)
        self.has_doubles = dialect.has_doubles
        self.dialect = dialect
        self.arrays: list[str] = []
        """The shared arrays of a kernel, which are declared at its head."""

    def shared(self, name: str, element: str, size: int) -> str:
        """An array that the lanes of a block share."""
        d = self.dialect
        line = d.shared.format(T=d.types[element], name=spelt(name), count=size)
        if line not in self.arrays:
            self.arrays.append(line)
        return f"@{name}"

    def constant(self, name: str, type_: str, value: str, linkage: str = "private") -> None:
        """Constant data, as a table of the module."""
        count, element = counted(type_)
        items = (x.strip().rpartition(" ")[2] for x in value.strip("[]").split(","))
        d = self.dialect
        if element not in d.types:
            raise CompilerError(f"{d.language} has no type for the table {name} of {element}")
        self.globals[name] = d.table.format(
            T=d.types[element],
            name=spelt(name),
            count=count,
            items=", ".join(d.constant(element, x) for x in items),
        )
        self.constants[name] = type_

    def __str__(self) -> str:
        pieces = (self.declarations, self.globals, self.functions)
        body = "\n\n".join("\n".join(piece.values()) for piece in pieces if piece)
        head = "\n".join(x for x in (self.dialect.head, *self._helpers(body)) if x)
        return f"{head}\n\n{body}\n"

    def _helpers(self, body: str) -> list[str]:
        """The functions that are called, each after those that it calls."""
        found: list[str] = []
        for name, text in self.dialect.helpers.items():
            if f"{name}(" in body or any(f"{name}(" in other for other in found):
                found.insert(0, text)
        return found


def counted(type_: str) -> tuple[int, str]:
    """How many elements an array of LLVM has, and of which type; a type alone is one."""
    if type_.isalnum():
        return 1, type_
    found = ARRAY.fullmatch(type_)
    if found is None:
        raise CompilerError(f"an array of vectors where elements are printed: {type_}")
    return int(found[1]), found[2]
