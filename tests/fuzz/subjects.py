"""What is drawn: the kinds of cases, each from dice alone.

Programs of whole numbers, of one float type, of every type at once, of sizes that fill vectors
and tiles; derivatives and batched forms of programs, of one another, up to three deep; nests of
control flow as users write them, under transformations, of open sizes; several folds of one value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

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
from dlvm.ir.sizes.dims import symbol
from dlvm.ops import (
    Abs,
    Add,
    ArgMax,
    Bitcast,
    Broadcast,
    Cast,
    Cond,
    CumulativeLogSumExp,
    Effect,
    Elementwise,
    Exp,
    Less,
    LogSumExp,
    Max,
    Maximum,
    Modf,
    Mul,
    Permute,
    Scan,
    Select,
    Slice,
    Sub,
    Sum,
    While,
)
from dlvm.ops.elements.logic import Comparison
from dlvm.testing.drawing.dice import Dice
from dlvm.testing.drawing.families import placing_of
from dlvm.testing.drawing.random_programs import TRACED, WEIGHTED, random_program
from tests.special import SLOPE_BY_CONVENTION

from .case import Case, of_program
from .folds import folds
from .staged import staged


def is_exact(cls: type[Op]) -> bool:
    """Whether it gives whole numbers from whole numbers, to the bit."""
    rounds = cls in (LogSumExp, CumulativeLogSumExp)
    return not (rounds or (issubclass(cls, Elementwise) and cls.accepts == "f"))


def is_smooth(cls: type[Op]) -> bool:
    """Whether a little error in stays a little error out."""
    return not issubclass(cls, Bitcast | Comparison | Cast | ArgMax | Modf)


WHOLE = [c for c in TRACED if is_exact(c) and c not in (Bitcast, Cast)]
SMOOTH = [c for c in TRACED if is_smooth(c)]
EFFECTS = [c for c in TRACED if issubclass(c, Effect)]
HOLDERS = (Cond, While, Scan)
PURE = [c for c in TRACED if not issubclass(c, Effect)]
LARGE = (1, 16, 17, 33, 64, 71)
"""Sizes that fill vectors and tiles, and such that do not."""
PRECISE = (F64, F64, I64, BOOL)
COMMON = (Add, Mul, Sub, Exp, Abs, Maximum, Select, Sum, Max, Broadcast, Permute, Slice, Less)
"""What most programs are made of, and most laws and kernels speak of."""

Draw = Callable[[Dice], Case]
Classes = Sequence[type[Op]]


def some(dice: Dice, classes: Classes) -> Classes:
    """Every class, or a few from as many families: few at a time meet more often.

    Groce, Zhang, Eide, Chen and Regehr, *Swarm testing* (2012).
    """
    if dice.integer(0, 2) == 0:
        return classes
    families: dict[Any, list[type[Op]]] = defaultdict(list)
    for cls in classes:
        families[placing_of(cls)].append(cls)
    every = list(families.values())
    common = [cls for cls in COMMON if cls in classes]
    few = [dice.choose(dice.choose(every)) for _ in range(dice.integer(1, 6))]
    return [*few, *(dice.choose(common) for _ in range(dice.integer(1, 4)))]


def plain(classes: Classes, dtypes: tuple[DType, ...], most: int = 14, **how: Any) -> Draw:
    """A program of small sizes."""
    return lambda dice: of_program(
        random_program(dice, some(dice, classes), dtypes, max_ops=most, donate=True, **how)
    )


def telling(dice: Dice) -> Case:
    """A program that says much, in branches and loops and between what may change places."""
    saying = [dice.choose((*EFFECTS, *HOLDERS)) for _ in range(6)]
    classes = [*saying, *some(dice, COMMON)]
    return of_program(random_program(dice, classes, (F64, I64), max_ops=14, sizes=LARGE))


def gradient(dice: Dice) -> Case:
    """The gradient of a program of one number, and the number."""
    classes = some(dice, SMOOTH)
    case = of_program(random_program(dice, classes, (F64,), max_ops=10, loss=True))
    main = case.module.main
    wrt = _floats([p.type for p in main.params])
    return _with(case, Declaration("adjoint", "gradient", main.name, wrt, (0,)))


def derived(dtypes: tuple[DType, ...], classes: Classes, depths: tuple[int, int]) -> Draw:
    """Adjoints, tangents and batched forms, one of another."""

    def draw(dice: Dice) -> Case:
        case = of_program(random_program(dice, some(dice, classes), dtypes, max_ops=6))
        for depth in range(dice.integer(*depths)):
            case = _with(case, _declared(dice, case, f"g{depth}"))
        return case

    return draw


def _declared(dice: Dice, case: Case, name: str) -> Declaration:
    params = case.module.signature(case.entry).params
    wrt = _floats(params)
    chosen = tuple(i for i in wrt if dice.integer(0, 2)) or wrt
    kind = dice.choose(("adjoint", "tangent", "batched"))
    if kind == "batched":
        axes = tuple(0 if i in chosen else None for i in range(len(params)))
        size = symbol(f"L{name}") if chosen else 2
        return Declaration("batched", name, case.entry, axes=axes, size=size)
    results = len(case.module.signature(case.entry).results)
    keep = tuple(i for i in range(results) if dice.integer(0, 1))
    return Declaration(kind, name, case.entry, chosen, keep, seeded=kind == "adjoint")


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
    "large": plain(SMOOTH, (F32, F64), sizes=LARGE),
    "large mixed": plain(TRACED, WEIGHTED, 8, sizes=LARGE),
    "telling": telling,
    "gradient": gradient,
    "derived": derived(PRECISE, PURE, (1, 3)),
    "derived mixed": derived((F32, F16, BF16, F64, I32, BOOL), PURE, (1, 3)),
    "staged": staged,
    "folds": folds,
}
SLOPES = derived(PRECISE, [c for c in PURE if c not in SLOPE_BY_CONVENTION], (0, 2))
"""What has the slope that differences say."""
