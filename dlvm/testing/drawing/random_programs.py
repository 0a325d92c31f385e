"""Random well-typed programs with arguments, over the registry of operations.

``random_program`` returns whole modules; ``classes``, ``dtypes``, ``symbolic`` narrow them.
``TRACED`` are the operations that users can write; ``EVERY`` adds those that only passes and
derivatives make, but for what needs the ranks of a mesh.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlvm.ir import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    OPS,
    Array,
    DType,
    Module,
    Op,
    TensorType,
    Value,
)
from dlvm.ir.sizes import dims
from dlvm.ops import (
    Add,
    Cast,
    Control,
    Effect,
    Mul,
    Sum,
    Tanh,
)
from dlvm.ops.flow.ranked import Ranked

from . import control_families as control_families
from . import ranked_families as ranked_families
from .dice import Dice, Seeded
from .drafts import SIZES, Draft, moderate
from .families import place, place_class

EVERY = tuple(c for c in OPS.values() if not issubclass(c, Ranked))
TRACED = tuple(c for c in EVERY if not c.from_passes)
STRAIGHT = tuple(c for c in TRACED if not issubclass(c, Control | Effect))
FLOATS = (F32, F64, F16, BF16)
WEIGHTED = (F32, F64, F32, F64, F16, BF16, BOOL, *(t for t in DTYPES.values() if t.kind in "iu"))
SYMBOLS = ("A", "B")


@dataclass(frozen=True)
class Program:
    """A module and arguments for its main function, with the sizes and the seed of these."""

    module: Module
    arrays: tuple[Array, ...]
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    seed: int = 0

    def run(self) -> tuple[Array, ...]:
        """The results of the interpreter."""
        return self.module.run(self.module.main.name, *self.arrays)

    def __repr__(self) -> str:
        shown = "\n".join(f"{a.dtype}{list(a.shape)} {a.tolist()}" for a in self.arrays)
        return f"\n{self.module}{shown}\n"


def random_program(
    dice: Dice | int,
    classes: Collection[type[Op]] = TRACED,
    dtypes: Sequence[DType] = WEIGHTED,
    symbolic: bool = True,
    max_ops: int = 10,
    loss: bool = False,
    sizes: Sequence[int] = (),
    donate: bool = False,
) -> Program:
    """Some parameters, some operations of these classes, and one to three results.

    ``dice`` makes the choices; an integer is the seed of one that does. With ``loss`` the only
    result is one scalar of the first dtype; ``sizes`` replaces the default choice of small sizes.
    With ``donate`` some parameters may be overwritten.
    """
    dice = Seeded(dice) if isinstance(dice, int) else dice
    values = {s: dice.choose(sizes or SIZES) for s in SYMBOLS} if symbolic else {}
    drawn = [*sizes, *map(dims.symbol, values)] if sizes else sizes_with(values)
    limits: dict[str, Any] = {"largest": max(sizes), "most": 1 << 16} if sizes else {}
    d = Draft(dice, dtypes, drawn, tuple(classes), **limits)
    for i in range(dice.integer(1, 3)):
        t = TensorType(dtypes[0] if i == 0 and loss else d.choose(dtypes), d.shape())
        d.param(t, donated=donate and d.integer(0, 2) == 2)
    d.grow(dice.integer(0, max_ops), place)
    with d.builder:
        results = [loss_of(d)] if loss else [d.value() for _ in range(dice.integer(1, 3))]
    return finished(d, results, values)


def finished(d: Draft, results: Sequence[Value], values: dict[str, int]) -> Program:
    """The program of a draft, with arguments for these sizes of its symbols."""
    _bind_symbols(d, values)
    module = Module((d.finish("main", results), *d.functions))
    seed = d.integer(0, 2**16)
    return Program(module, arguments(d.params, values, seed), values, seed)


def of_one(
    d: Draft, cls: type[Op], elements: Sequence[DType], values: dict[str, int]
) -> Program | None:
    """The program of one operation of a class, among parameters of these types; or None."""
    for dtype in elements:
        d.param(TensorType(dtype, d.shape((1, 2))))
    with d.builder:
        op = place_class(d, cls)
    if op is None or not any(isinstance(o, cls) for o in d.builder.ops):
        return None
    results = [r for r in op.results if r.dtype.kind != "t"]
    return finished(d, results or d.params[:1], values) if results or not op.results else None


def arguments(params: Sequence[Value], sizes: Mapping[str, int], seed: int) -> tuple[Array, ...]:
    """Moderate arguments of these sizes; for one seed in eight with extreme integers."""
    rng = np.random.default_rng(seed)
    shapes = [tuple(dims.evaluate(n, sizes) for n in p.shape) for p in params]
    drawn = [moderate(p.dtype, s, rng) for p, s in zip(params, shapes, strict=True)]
    return tuple(_with_ends(a, rng) for a in drawn) if seed % 8 == 7 else tuple(drawn)


def _with_ends(x: Array, rng: np.random.Generator) -> Array:
    """Some elements are the smallest or largest number of their integer type."""
    if x.dtype.kind not in "iu":
        return x
    ends = np.array([np.iinfo(x.dtype).min, np.iinfo(x.dtype).max], x.dtype)
    return np.where(rng.random(x.shape) < 0.3, ends[rng.integers(0, 2, x.shape)], x)


def sizes_with(values: dict[str, int]) -> list[dims.Dim]:
    """Mostly small numbers; symbols, and expressions of them."""
    named = [dims.symbol(s) for s in values]
    grown = [*(2 * n + 1 for n in named), *(n + 1 for n in named)]
    return [3, 1, 2, *named, 0, 5, *grown, *(dims.minimum(2, n) for n in named)]


def _bind_symbols(d: Draft, values: dict[str, int]) -> None:
    for name in values:
        d.param(TensorType(d.dtypes[0], (dims.symbol(name),)))


def loss_of(d: Draft) -> Any:
    """One number from all float values: the sum of ``tanh`` of each, so that none dominates."""
    dtype = d.dtypes[0]
    total: Any = d.fresh(TensorType(dtype))
    for value in [v for v in d.pool if v.dtype.is_float]:
        x = Tanh(value if value.dtype == dtype else Cast(value, dtype))
        total = Add(total, Sum(Mul(x, x), tuple(range(x.type.rank))) if x.shape else x)
    return total
