"""``f.explain()``: what was compiled and why, and what the trace noticed on the way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlvm.base.brief import shortened
from dlvm.base.errors import ArgumentError
from dlvm.base.html import preformatted
from dlvm.dsl.state.guards import brief
from dlvm.dsl.trace.kinds import shown
from dlvm.dsl.words.origins import user_origin
from dlvm.ir import Module
from dlvm.ir.numerics import numerics

if TYPE_CHECKING:
    from .compiled import Compiled
    from .programs import Compile


SHOWN = 10
"""How many lines are shown, besides those about compiles, unless all are asked for."""
COMPILES = 10
"""How many compiles are shown unless all are asked for, the latest ones."""


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """Everything about a staged function that is not in its arguments."""

    name: str
    compiles: tuple[Compile, ...]
    captures: tuple[str, ...]
    guards: tuple[str, ...]
    unwatched: tuple[str, ...]
    constants: tuple[str, ...]
    widenings: tuple[str, ...]
    donations: tuple[str, ...]
    refused: tuple[str, ...]
    calls: tuple[str, ...] = ()
    """Operations whose Python reference is called by machine code, and the lines that use them."""
    fast_laws: tuple[str, ...] = ()
    """Lines where laws of ``numerics="fast"`` would apply, if that was asked for."""
    laws: tuple[str, ...] = ()
    """Laws that were applied, their lines and what they saved, if that was asked for."""
    assumptions: tuple[str, ...] = ()
    """Assumptions about arguments that would save work, if that was asked for."""
    audits: tuple[str, ...] = ()
    """What is known of programs whose state can't be compared at each call."""
    exchanged: tuple[str, ...] = ()
    """What the ranks of a mesh exchange, with lines and reasons, and the memory of each rank."""

    @staticmethod
    def of(
        name: str,
        compiles: Sequence[Compile],
        made: Sequence[Compiled],
        donate: Collection[str],
        laws: bool = False,
    ) -> Explanation:
        """Collects what every program of a function knows; with ``laws`` also which laws would
        help.
        """
        if not isinstance(laws, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(
                f"{name}.explain: laws: expected True or False, found {shown(laws)}",
                origin=user_origin(),
                remedy=f"call {name} with the arguments first, then write {name}.explain()",
            )
        from dlvm.opt.kernels.borders import borders
        from dlvm.opt.law_report import applied_laws, fast_laws, helpful_assumptions

        traces = [s.program.trace for s in made]
        return Explanation(
            name,
            tuple(compiles),
            _once(f"{f.path}: {t}, read at each call" for s in made for f, t in s.state.captured),
            _once(f"{g.path} = {brief(g.expected)}" for s in made for g in s.state.guards),
            _once(f"{path}: {why}" for s in made for path, why in s.unwatched.items()),
            _once(f"{t} computed while tracing at {at}" for tr in traces for t, at in tr.constants),
            _once(f"{what} at {at}" for tr in traces for what, at in tr.widenings),
            _once(line for s in made for line in _donated(s, donate)),
            _once(str(b) for s in made for b in borders(s.road.kernels)),
            _once(line for s in made for line in _calls(s)),
            _once(n for s in made if laws for n in fast_laws(s.road.optimized)),
            _once(str(n) for s in made if laws for n in _in_mode(s, applied_laws)),
            _once(n for s in made if laws for n in _in_mode(s, helpful_assumptions)),
            _once(str(s.audit) for s in made if s.audit is not None),
            _once(line for s in made if s.road.options.mesh is not None for line in _exchanged(s)),
        )

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return shortened(self.text())

    def _repr_html_(self) -> str:
        """The text as notebooks show it."""
        return preformatted(self.text())

    def text(self, whole: bool = False) -> str:
        """The explanation as text: every cause of the latest compiles and the ten lines that
        matter most, or all lines if ``whole``.
        """
        parts = self._parts()
        shown = [len(items) for _, items in parts] if whole else shares(parts, SHOWN)
        lines = [f"{self.name}: {len(self.compiles)} compiled", *self._compiled(whole)]
        for (title, items), count in zip(parts, shown, strict=True):
            if items:
                lines += [f"{title}:", *(f"  {item}" for item in items[:count])]
                rest = len(items) - count
                lines += [f"  and {rest} more: print(f.explain().text(whole=True))"] * bool(rest)
        return "\n".join(lines)

    def _compiled(self, whole: bool) -> Iterable[str]:
        """A line for each compile, with its causes; further causes on lines of their own."""
        hidden = 0 if whole else max(0, len(self.compiles) - COMPILES)
        if hidden:
            yield f"  {hidden} before: print(f.explain().text(whole=True))"
        for compile in self.compiles[hidden:]:
            first, *others = compile.causes
            yield f"  for ({', '.join(compile.types)}): {first}"
            yield from (f"    and {cause}" for cause in others)

    def _parts(self) -> list[tuple[str, Sequence[str]]]:
        """What there is to say, by title."""
        return [
            ("captured arrays", self.captures),
            ("guards", self.guards),
            ("read while tracing, not watched in full", self.unwatched),
            ("audits", self.audits),
            ("arrays that are part of the code", self.constants),
            ("widened to f64", self.widenings),
            ("exchanged by the ranks of the mesh", self.exchanged),
            ("donations", self.donations),
            ("operations whose reference is called in Python", self.calls),
            ("laws that were applied", self.laws),
            ("assumptions that would save work, where they are true", self.assumptions),
            ('laws that numerics="fast" would apply', self.fast_laws),
            (f"{len(self.refused)} refused fusions, which go through memory", self.refused),
        ]


def shares(parts: Sequence[tuple[str, Sequence[str]]], room: int) -> list[int]:
    """How many lines of each part are shown: in turns, so that every part shows its first ones."""
    shown = [0] * len(parts)
    while room and any(n < len(items) for n, (_, items) in zip(shown, parts, strict=True)):
        for i, (_, items) in enumerate(parts):
            if room and shown[i] < len(items):
                shown[i] += 1
                room -= 1
    return shown


def _in_mode(made: Compiled, ask: Callable[[Module], Iterable[Any]]) -> Iterable[Any]:
    """What a question about a program gives under the numerics that it was compiled for."""
    with numerics(made.road.options.numerics):
        return ask(made.road.differentiated)


def _once(items: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))  # type: ignore[call-overload]


def _calls(made: Compiled) -> list[str]:
    ops = (op for fn in made.road.kernels.functions for op in fn.walk() if op.asks_python)
    return [f"{op.name} at {op.origin}" for op in ops if not op.stage]


def _exchanged(made: Compiled) -> Iterable[str]:
    from dlvm.opt.sharding.told import told

    yield f"on the mesh {made.road.options.mesh}:"
    yield from told(made.road.partitioned, made.road.report.peak_bytes)


def _donated(made: Compiled, donate: Collection[str]) -> list[str]:
    if not donate:
        return []
    module = made.module
    taken = {i: j for j, i in module.main.donations().items()}
    lines: list[str] = []
    for i, param in enumerate(module.main.params):
        if i in taken:
            lines.append(f"{param.name} is overwritten by result {taken[i]}")
        elif any(param.name == d or param.name.startswith(f"{d}_") for d in donate):
            lines.append(f"{param.name} is not reused: no result of type {param.type} is left")
    lines += made.copies.lines()
    return lines
