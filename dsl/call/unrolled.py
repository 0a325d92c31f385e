"""Python loops that a trace wrote out turn by turn, and what states such a loop once.

A Python loop runs while a function is traced, so its body is in the program as often as it turned:
each copy takes time to compile, and a kernel of its own.
"""

from __future__ import annotations

import ast
import linecache
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.base.errors import Origin
from dlvm.ir import Module, Op, TensorType, Value

COPIES = 16
"""Copies of a line in a Python loop that are worth a hint."""
WITHOUT_LOOP = 64
"""The same of a line outside of a loop, whose function was called as often."""
LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Kind = tuple[str, tuple[TensorType, ...]]


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A loop, traced ``copies`` times; ``apart`` if the last turn reads nothing of the first."""

    line: Origin
    loop: Origin | None
    copies: int
    apart: bool

    def __str__(self) -> str:
        n, by = self.copies, f"the loop at {self.loop}" if self.loop else "calls of its function"
        said = f"{n} copies of one loop: {self.line} was traced {n} times by {by}; "
        if self.apart:
            return f"{said}no turn reads another, so write it with dlvm.vmap, or with dlvm.map"
        return (
            f"{said}write it as dlvm.fori_loop(0, {n}, body, carry), or as dlvm.scan over what it "
            "reads, and its body is compiled once"
        )


def unrolled(module: Module) -> list[Unrolled]:
    """The loops that were written out, the one with most copies first."""
    found: dict[Origin, Unrolled] = {}
    for fn in module.functions:
        lines: dict[Origin, dict[Kind, list[Op]]] = defaultdict(lambda: defaultdict(list))
        for op in fn.walk():
            if op.origin is not None and not op.origin.derived:
                line = Origin(op.origin.file, op.origin.line)
                lines[line][op.name, op.result_types].append(op)
        for line, kinds in lines.items():
            if (one := _of_line(line, [*kinds.values()])) is not None:
                place = one.loop or line
                kept = found.setdefault(place, one)
                found[place] = max(kept, one, key=lambda u: (not u.apart, u.copies))
    return sorted(found.values(), key=lambda u: -u.copies)


def _of_line(line: Origin, kinds: Sequence[list[Op]]) -> Unrolled | None:
    """What a line tells, with the operations of each kind that were traced there."""
    if max(map(len, kinds)) < COPIES:
        return None
    loop = _loop_around(line)
    copied = [ops for ops in kinds if len(ops) >= (COPIES if loop else WITHOUT_LOOP)]
    if not copied:
        return None
    copies = min(map(len, copied))
    first = {ops[0] for ops in copied}
    apart = not any(_reads(ops[-1], first) for ops in copied)
    return Unrolled(line, loop, copies, apart)


def _reads(op: Op, others: set[Op]) -> bool:
    """Whether an operation depends on one of the others."""
    seen, pending = set[Value](), [*op.operands]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        made = getattr(value, "op", value)  # a part is a result of an operation
        if made in others:
            return True
        pending += made.operands if isinstance(made, Op) else ()
    return False


def _loop_around(line: Origin) -> Origin | None:
    """The innermost Python loop of the file whose body has a line."""
    try:
        tree = ast.parse("".join(linecache.getlines(line.file)))
    except SyntaxError:
        return None
    loops = (n for n in ast.walk(tree) if isinstance(n, LOOPS))
    around = [n.lineno for n in loops if n.lineno <= line.line <= (n.end_lineno or n.lineno)]
    return Origin(line.file, max(around)) if around else None
