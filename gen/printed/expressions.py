"""Instructions of LLVM as expressions and declarations of a language, by its table."""

from __future__ import annotations

import re

from dlvm.base.errors import CompilerError

from .dialect import spelt
from .instruction import Instruction, fields
from .module import PrintedText

OF_ONE_TYPE = re.compile(r"(\.(f16|f32|f64|i\d+))+$")
"""The types behind the name of an intrinsic."""


class Expressions:
    """The expressions of the functions of one module."""

    def __init__(self, text: PrintedText) -> None:
        self.text, self.dialect = text, text.dialect

    def type(self, llvm: str) -> str:
        """A type as the language has it."""
        found = self.dialect.type(llvm)
        if found is None:
            raise CompilerError(f"{self.dialect.language} has no type for {llvm}")
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
        form = self._form(i, first)
        signed = self.dialect.signed
        return form.format(
            *xs,
            T="" if i.type == "void" else self.type(i.type),
            F=self.type(first) if first else "",
            S=signed.get(first, ""),
            U=signed.get(i.type, ""),
        )

    def _form(self, i: Instruction, first: str) -> str:
        forms, word = self.dialect.forms, OF_ONE_TYPE.sub("", i.word)
        found = forms.get(f"{word}.{first}", forms.get(word))
        if found is None:
            raise CompilerError(f"{self.dialect.language} has no form for {i.word} of {first}")
        return found

    def blank(self, record: str) -> str:
        """A record of zeros."""
        zeros = ", ".join(self.dialect.constant(t, "zeroinitializer") for t in fields(record))
        return self.dialect.zeros.format(name=self.type(record), zeros=zeros)
