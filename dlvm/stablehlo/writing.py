"""A function as the text of a StableHLO module."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlvm import ops
from dlvm.exporting.formats import register
from dlvm.exporting.program import Language, Program, in_words
from dlvm.ir import Function, Op, Value
from dlvm.ir.dims import Expr

from . import arrays, control, elements, factorisations
from .spelling import tensor
from .text import Term, Text, row

OTHERS = {**factorisations.FORMS, **control.FORMS}


def has(op: Op) -> bool:
    """Whether StableHLO has a form for an operation."""
    return elements.has(op) or arrays.has(op) or type(op) in OTHERS


def whole(op: ops.Abs) -> Value:
    """Bools and unsigned integers are their own magnitude."""
    return op.x


LANGUAGE = Language("StableHLO", has, {ops.Abs: whole})


def written(program: Program) -> str:
    """The text of a module whose function ``main`` computes the program."""
    fn, t = in_words(program.function, LANGUAGE), Text()
    params = [Term(f"%arg{i}", p.type) for i, p in enumerate(fn.params)]
    t.lines = t.first
    for param in params:
        _read_sizes(t, param)
    t.lines = []
    results = Inliner(t).inline(fn, params)
    t.op("func.return", results, ())
    return _module(program.name, params, results, (*t.first, *t.lines))


def _read_sizes(t: Text, param: Term) -> None:
    """States the symbols that are sizes of an argument."""
    for axis, size in enumerate(param.type.shape):
        if isinstance(size, Expr) and (name := str(size)).isidentifier():
            t.known(name, t.read_size(param, axis))


class Inliner:
    """Writes functions and regions where they are used."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def inline(self, fn: Function, arguments: Sequence[Term]) -> tuple[Term, ...]:
        """The operations of a function on these arguments; its results."""
        env: dict[Value, Term] = dict(zip(fn.params, arguments, strict=True))
        for op in fn.ops:
            out = self._one(op, [env[v] for v in op.operands])
            env.update(zip(op.results, out, strict=True))
        return tuple(env[v] for v in fn.results)

    def _one(self, op: Op, xs: Sequence[Term]) -> tuple[Term, ...]:
        kind = type(op)
        if elements.has_word(op):
            return (elements.word(self.text, op, xs),)
        if kind in elements.FORMS:
            return (elements.FORMS[kind](self.text, op, xs),)
        form = arrays.FORMS.get(kind) or OTHERS[kind]
        found = form(self.text, op, xs, self.inline)
        return found if isinstance(found, tuple) else (found,)


def _module(
    name: str, params: Sequence[Term], results: Sequence[Term], lines: Sequence[str]
) -> str:
    signature = f"{row([p.type for p in params])} -> {row([r.type for r in results])}"
    said = f'function_type = {signature}, sym_name = "main", sym_visibility = "public"'
    plain = re.sub(r"\W+", "_", name).strip("_") or "f"
    head = ", ".join(f"{p.name}: {tensor(p.type)}" for p in params)
    return "\n".join(
        (
            f'"builtin.module"() <{{sym_name = "{plain}"}}> ({{',
            f'  "func.func"() <{{{said}}}> ({{',
            *((f"  ^bb0({head}):",) if params else ()),
            *lines,
            "  }) : () -> ()",
            "}) : () -> ()",
            "",
        )
    )


register("stablehlo", written)
