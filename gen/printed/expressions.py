"""Instructions of LLVM as expressions and declarations of a language, by its table."""

from __future__ import annotations

import re

from dlvm.base.errors import CompilerError
from dlvm.gen.text.access import SHORT

from .dialect import spelt
from .instruction import Instruction, fields
from .module import PrintedText


class Missing(CompilerError):
    """What a language has not, in its own words."""


OF_ONE_TYPE = re.compile(r"(\.(f16|f32|f64|i\d+))+$")
"""The types behind the name of an intrinsic."""
ZEROS = {"0x0000000000000000", "0x8000000000000000"}
"""The numbers 0 and -0 of f32 and f64."""


class Expressions:
    """The expressions of the functions of one module."""

    def __init__(self, text: PrintedText) -> None:
        self.text, self.dialect = text, text.dialect

    def type(self, llvm: str) -> str:
        """A type as the language has it."""
        found = self.dialect.type(llvm)
        if found is None:
            raise Missing(f"{self.dialect.language} has no {SHORT.get(llvm, llvm)}")
        if llvm.startswith("{") and llvm not in self.text.declarations:
            d = self.dialect
            parts = [
                d.part.format(T=self.type(t), name=f"p{i}") for i, t in enumerate(fields(llvm))
            ]
            self.text.declarations[llvm] = d.record.format(name=found, fields=" ".join(parts))
        return found

    def operand(self, llvm: str, x: str) -> str:
        """A value of LLVM's text: a name or a constant."""
        return spelt(x) if x.startswith("%") else self.dialect.constant(llvm, x)

    def let(self, llvm: str, name: str, x: str) -> str:
        """A name that is set once."""
        return self.dialect.let.format(T=self.type(llvm), name=spelt(name), x=x)

    def variable(self, llvm: str, name: str, x: str) -> str:
        """A name that may be set again."""
        return self.dialect.variable.format(T=self.type(llvm), name=spelt(name), x=x)

    def expression(self, i: Instruction) -> str:
        """What an instruction computes."""
        xs = [self.operand(t, x) for t, x in i.operands if t]
        if i.word == "extractvalue":
            return f"{xs[0]}.p{i.operands[-1][1]}"
        if i.word.startswith("@") and i.word[1:] in self.text.functions:
            return f"{spelt(i.word)}({', '.join(xs)})"
        first = i.operands[0][0] if i.operands else ""
        result = "" if i.type == "void" else self.type(i.type)
        form = self._form(i, first)
        signed = self.dialect.signed
        return form.format(
            *xs,
            T=result,
            F=self.type(first) if first else "",
            S=signed.get(first, ""),
            U=signed.get(i.type, ""),
        )

    def _form(self, i: Instruction, first: str) -> str:
        forms, word = self.dialect.forms, OF_ONE_TYPE.sub("", i.word)
        xs, names = [x for _, x in i.operands], [f"{word}.{first}.{i.type}", f"{word}.{first}"]
        if len(xs) == 2 and xs[0] == xs[1]:
            names.insert(0, f"{word}.same.{first}")
        if ZEROS.intersection(xs):
            names.insert(0, f"{word}.zero.{first}")
        found = next((forms[n] for n in (*names, word) if n in forms), None)
        if found is None:
            name, type_ = re.sub("^@(dlvm|llvm).", "", word), SHORT.get(first, first)
            raise Missing(f"{self.dialect.language} has no {name} of {type_}")
        return found

    def element(self, a: str, i: str, type_: str, where: str) -> str:
        """An element of an array, as a value."""
        return self.dialect.forms.get(f"load.{type_}.{where}", "{a}[{i}]").format(a=a, i=i)

    def stored(self, a: str, i: str, type_: str, where: str, x: str) -> str:
        """What stores a value as an element of an array."""
        form = self.dialect.forms.get(f"store.{type_}.{where}", "{a}[{i}] = {x};")
        return form.format(a=a, i=i, x=x)

    def blank(self, record: str) -> str:
        """A record of zeros."""
        zeros = ", ".join(self.dialect.constant(t, "zeroinitializer") for t in fields(record))
        return self.dialect.zeros.format(name=self.type(record), zeros=zeros)
