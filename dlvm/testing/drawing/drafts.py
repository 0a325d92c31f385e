"""A random function under construction: its values, its sizes and its dice.

A ``Draft`` offers what every family needs to place one more operation: some value of a kind,
a value of exactly a type, a size, a region. ``families`` says, family by family, how an
operation is placed; ``programs`` makes whole modules of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir import (
    BOOL,
    F32,
    I64,
    U8,
    Builder,
    Function,
    Op,
    Param,
    TensorType,
    Value,
    literal,
)
from dlvm.ir.core import Entry
from dlvm.ir.sizes import dims
from dlvm.ir.types import Array, DType
from dlvm.ops import Broadcast, Cast, Constant, Less

from .dice import Dice

T = TypeVar("T")
SIZES = (0, 1, 2, 3, 5)
MAX_ELEMENTS = 200


class Draft:
    """One function or region under construction."""

    def __init__(
        self,
        dice: Dice,
        dtypes: Sequence[DType],
        sizes: Sequence[dims.Dim],
        ops: Sequence[type[Op]],
        depth: int = 0,
        around: Draft | None = None,
        largest: int = max(SIZES),
        most: int = MAX_ELEMENTS,
    ) -> None:
        self.dice, self.dtypes, self.sizes, self.ops = dice, dtypes, sizes, ops
        self.depth = depth
        self.largest = largest if around is None else around.largest
        self.most = most if around is None else around.most
        self.params: list[Param] = []
        self.pool: list[Value] = []
        self.builder = Builder()
        self.functions: list[Entry] = [] if around is None else around.functions

    # -- dice -----------------------------------------------------------------------------

    def choose(self, items: Collection[T]) -> T:
        """One of several; the first is the simplest."""
        return self.dice.choose(items)

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        return self.dice.integer(low, high)

    def flag(self) -> bool:
        """Yes or no; no is simpler."""
        return bool(self.dice.integer(0, 1))

    def shape(self, ranks: tuple[int, int] = (0, 3)) -> tuple[dims.Dim, ...]:
        """A shape that is not too large, often a square, because exchanged axes show only there."""
        while True:
            shape = tuple(self.choose(self.sizes) for _ in range(self.integer(*ranks)))
            if shape and self.integer(0, 3) == 3:
                shape = shape[:1] * len(shape)
            if self.small(shape):
                return shape

    def small(self, shape: tuple[dims.Dim, ...]) -> bool:
        """Whether a shape stays small when every symbol is at its largest."""
        largest = {s: self.largest for d in shape for s in dims.symbols(d)}
        return dims.evaluate(dims.product(shape), largest) <= self.most

    def subset(self, items: Sequence[T]) -> tuple[T, ...]:
        """A random part of a sequence, in its order."""
        return tuple(i for i in items if self.flag())

    # -- values ---------------------------------------------------------------------------

    def param(self, t: TensorType, donated: bool = False) -> Param:
        """One more parameter."""
        param = Param(t, f"x{len(self.params)}", donated)
        self.params.append(param)
        self.pool.append(param)
        return param

    def value(self, kinds: str = "biuf", rank: int = 0) -> Value:
        """A value of one of these kinds and at least this rank, recent ones first."""
        fitting = [v for v in self.pool if v.dtype.kind in kinds and v.type.rank >= rank]
        if fitting:
            return self.recent(fitting)
        dtype = self.choose([d for d in self.dtypes if d.kind in kinds] or [_DEFAULT[kinds[-1]]])
        return self.fresh(TensorType(dtype, self.shape((rank, max(rank, 2)))))

    def like(self, t: TensorType) -> Value:
        """A value of exactly this type."""
        fitting = [v for v in self.pool if v.type == t]
        return self.recent(fitting) if fitting else self.fresh(t)

    def recent(self, values: Sequence[Value]) -> Value:
        """A recent value, half of the time the last, so that operations use each
        other's results.
        """
        return self.choose(values[::-1][: self.choose((1, 2, 4, 8))])

    def fresh(self, t: TensorType) -> Value:
        """A new value of a type: converted from one of its shape, or a number spread out."""
        same_shape = [v for v in self.pool if v.shape == t.shape and v.dtype.kind != "t"]
        if same_shape and (Cast in self.ops or t.dtype == BOOL):
            return self.convert(self.choose(same_shape[::-1]), t.dtype)
        scalar = Constant(literal(self.number(t.dtype), t.dtype))
        return Broadcast(scalar, t.shape, ()) if t.shape else scalar

    def convert(self, x: Value, dtype: DType) -> Value:
        """The value in another element type; bools come from a comparison."""
        if dtype == BOOL and x.dtype != BOOL:
            zero = Constant(literal(0, x.dtype))
            return Less(Broadcast(zero, x.shape, ()) if x.shape else zero, x)
        return Cast(x, dtype)

    def number(self, dtype: DType) -> Any:
        """A moderate number, often one that appears in laws."""
        if dtype.kind == "b":
            return self.flag()
        whole = self.choose((0, 1, 2, 3, -1, -2))
        if dtype.kind == "u":
            return abs(whole)
        return whole if dtype.is_integer else whole * self.choose((1.0, 0.5, 0.3, -1.0))

    def array(self, t: TensorType) -> Array:
        """A constant of a known shape."""
        rng = np.random.default_rng(self.integer(0, 999))
        return moderate(t.dtype, tuple(int(d) for d in t.shape), rng)

    # -- operations -----------------------------------------------------------------------

    def grow(self, steps: int, place: Callable[[Draft], Op | None]) -> None:
        """Places a number of operations; their results join the pool."""
        for _ in range(steps):
            with self.builder:
                op = place(self)
            if op is not None:
                self.pool.extend(r for r in op.results if self.small(r.shape))

    def region(
        self,
        name: str,
        params: Sequence[TensorType],
        results: Sequence[TensorType] | None,
        place: Callable[[Draft], Op | None] | None,
        extra: int = 1,
    ) -> Function:
        """A closed body; without demanded result types it returns up to ``extra`` values."""
        inner = Draft(self.dice, self.dtypes, self.sizes, self.ops, self.depth + 1, self)
        for t in params:
            inner.param(t)
        if place is not None:
            inner.grow(self.integer(0, 3), place)
        with inner.builder:
            wanted = [inner.like(t) for t in results or ()]
            if results is None:
                wanted = [inner.value() for _ in range(self.integer(1, max(extra, 1)))]
        return inner.finish(name, wanted)

    def finish(self, name: str, results: Sequence[Value]) -> Function:
        """The finished function."""
        return Function(name, tuple(self.params), tuple(self.builder.ops), tuple(results))

    def attempt(self, build: Callable[[], Op]) -> Op | None:
        """The operation, or None if its shape rule refuses the operands."""
        try:
            return build()
        except UserError:
            return None


_DEFAULT = {"b": BOOL, "i": I64, "u": U8, "f": F32}


def moderate(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers between -3 and 3 (small counts for integers), some of them 0, 1 and -1."""
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    low = 0 if dtype.kind == "u" else -3
    whole = rng.integers(low, 4, shape)
    if dtype.is_integer:
        return np.asarray(whole).astype(dtype.numpy)
    exact = rng.random(shape) < 0.25
    return np.where(exact, whole, rng.uniform(-3, 3, shape)).astype(dtype.numpy)
