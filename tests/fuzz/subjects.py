"""What is drawn: the kinds of cases, each from dice alone.

Programs of whole numbers, of one float type, of every type at once, of sizes that fill vectors
and tiles; derivatives and batched forms of programs, of one another, up to three deep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from dlvm.ir import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    Declaration,
    DType,
    Module,
    Op,
    TensorType,
)
from dlvm.ir.dims import symbol
from dlvm.ops import (
    ArgMax,
    Cast,
    CumulativeLogSumExp,
    Effect,
    Elementwise,
    LogSumExp,
    Modf,
    NextAfter,
    StopGradient,
)
from dlvm.ops.logic import Comparison
from dlvm.testing.dice import Dice
from dlvm.testing.random_programs import TRACED, WEIGHTED, random_program

from .case import Case, of_program


def is_exact(cls: type[Op]) -> bool:
    """Whether it gives whole numbers from whole numbers, to the bit."""
    rounds = cls in (LogSumExp, CumulativeLogSumExp)
    return not (rounds or (issubclass(cls, Elementwise) and cls.accepts == "f"))


def is_smooth(cls: type[Op]) -> bool:
    """Whether a little error in stays a little error out."""
    return not issubclass(cls, Comparison | Cast | ArgMax | Modf)


WHOLE = [c for c in TRACED if is_exact(c) and c is not Cast]
SMOOTH = [c for c in TRACED if is_smooth(c)]
PURE = [c for c in TRACED if not issubclass(c, Effect)]
LARGE = (1, 16, 17, 33, 64, 71)
"""Sizes that fill vectors and tiles, and such that do not."""
PRECISE = (F64, F64, I64, BOOL)

Draw = Callable[[Dice], Case]


def plain(classes: Collection[type[Op]], dtypes: tuple[DType, ...], most: int = 14) -> Draw:
    """A program of small sizes."""
    return lambda dice: of_program(random_program(dice, classes, dtypes, max_ops=most))


def large(dice: Dice) -> Case:
    """Sizes that threads and vectors share."""
    return of_program(random_program(dice, SMOOTH, (F32, F64), max_ops=14, sizes=LARGE))


def large_halves(dice: Dice) -> Case:
    """The same with every type of element."""
    return of_program(random_program(dice, TRACED, WEIGHTED, max_ops=8, sizes=LARGE))


def gradient(dice: Dice) -> Case:
    """The gradient of a program of one number, and the number."""
    case = of_program(random_program(dice, SMOOTH, (F64,), max_ops=10, loss=True))
    main = case.module.main
    wrt = _floats([p.type for p in main.params])
    return _with(case, Declaration("adjoint", "gradient", main.name, wrt, (0,)))


def derived(
    dtypes: tuple[DType, ...], classes: Collection[type[Op]], depths: tuple[int, int]
) -> Draw:
    """Adjoints, tangents and batched forms, one of another."""

    def draw(dice: Dice) -> Case:
        case = of_program(random_program(dice, classes, dtypes, max_ops=6))
        for depth in range(dice.integer(*depths)):
            case = _with(case, _declared(dice, case, f"g{depth}"))
        return case

    return draw


def _declared(dice: Dice, case: Case, name: str) -> Declaration:
    params = case.module.signature(case.entry).params
    wrt = _floats(params)
    some = tuple(i for i in wrt if dice.integer(0, 2)) or wrt
    kind = dice.choose(("adjoint", "tangent", "batched"))
    if kind == "batched":
        axes = tuple(0 if i in some else None for i in range(len(params)))
        size = symbol(f"L{name}") if some else 2
        return Declaration("batched", name, case.entry, axes=axes, size=size)
    results = len(case.module.signature(case.entry).results)
    keep = tuple(i for i in range(results) if dice.integer(0, 1))
    return Declaration(kind, name, case.entry, some, keep, seeded=kind == "adjoint")


def _floats(params: Collection[TensorType]) -> tuple[int, ...]:
    return tuple(i for i, t in enumerate(params) if t.dtype.is_float)


def _with(case: Case, declared: Declaration) -> Case:
    """The case that runs what is declared of its function; batches are of two."""
    sizes = {**case.sizes, **{f"L{declared.name}": 2 for _ in range(declared.kind == "batched")}}
    module = Module((*case.module.entries, declared))
    return replace(case, module=module, entry=declared.name, sizes=sizes)


KINDS: dict[str, Draw] = {
    "whole": plain(WHOLE, (I64, I32, BOOL, U8, I8)),
    "f64": plain(SMOOTH, (F64,)),
    "f32": plain(SMOOTH, (F32,)),
    "mixed": plain(TRACED, WEIGHTED),
    "halves": plain(TRACED, (F16, BF16, F32, BOOL, I32)),
    "large": large,
    "large mixed": large_halves,
    "gradient": gradient,
    "derived": derived(PRECISE, PURE, (1, 3)),
    "derived mixed": derived((F32, F16, BF16, F64, I32, BOOL), PURE, (1, 3)),
}
SLOPES = derived(PRECISE, [c for c in PURE if c not in (StopGradient, NextAfter)], (0, 2))
"""What has the slope that differences say."""
