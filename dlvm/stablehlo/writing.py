"""A function as the text of a StableHLO module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from dlvm import ops
from dlvm.exporting.formats import register
from dlvm.exporting.inlining import TypedName, inlined, symbols_of
from dlvm.exporting.program import Language, Program, in_words
from dlvm.ir import Function, Op, Value

from . import arrays, control, elements, factorisations
from .spelling import tensor
from .text import Text, row

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
    params = [TypedName(f"%arg{i}", p.type) for i, p in enumerate(fn.params)]
    t.lines = t.first
    for param in params:
        for axis, symbol in symbols_of(param):
            t.sizes.know(symbol, t.read_size(param, axis))
    t.lines = []
    results = _inlined(t, fn, params)
    t.op("func.return", results, ())
    return _module(program.name, params, results, (*t.first, *t.lines))


def _inlined(t: Text, fn: Function, arguments: Sequence[TypedName]) -> tuple[TypedName, ...]:
    """Writes functions and bodies where they are used."""

    def write(op: Op, xs: Sequence[TypedName]) -> TypedName | tuple[TypedName, ...]:
        kind = type(op)
        if elements.has_word(op):
            return elements.word(t, op, xs)
        if kind in elements.FORMS:
            return elements.FORMS[kind](t, op, xs)
        form = arrays.FORMS.get(kind) or OTHERS[kind]
        return form(t, op, xs, partial(_inlined, t))

    return inlined(fn, arguments, write)


def _module(
    name: str, params: Sequence[TypedName], results: Sequence[TypedName], lines: Sequence[str]
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
