"""Writes operations in MLIR's generic form, which is one rule for all of them.

``%3 = "stablehlo.add"(%1, %2) <{attributes}> ({regions}) : (types) -> types``. Sizes that are open
are computed once, at the start of the function, from the sizes of its arguments. This file knows
how text is put together, and which operation asks for the shape of its result as a value; it does
not know the operations of the language.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from dlvm.exporting.inlining import Body, Sizes, TypedName
from dlvm.ir import I32, I64, Array, Dim, DType, TensorType, literal
from dlvm.ir.sizes.dims import Call, Monomial

from .spelling import dense, integers, tensor

INDENT = "  "
SCALAR = TensorType(I64)
FLOOR = {"floordiv": False, "mod": True}


Attributes = Mapping[str, str]


class Text:
    """The text of one function while it is written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.first: list[str] = []
        """Lines that compute sizes, which stand before all others."""
        self.depth = 2
        self._count = 0
        self.sizes = Sizes()
        self._shapes: dict[tuple[Dim, ...], TypedName] = {}

    # -- operations -------------------------------------------------------------------------------

    def op(
        self,
        name: str,
        operands: Sequence[TypedName],
        results: Sequence[TensorType],
        attributes: Attributes | None = None,
        regions: Sequence[str] = (),
    ) -> tuple[TypedName, ...]:
        """Writes one operation; returns its results."""
        base, count = self.fresh(), len(results)
        out = f"{base} = " if count == 1 else f"{base}:{count} = " if count else ""
        given = ", ".join(f"{k} = {v}" for k, v in sorted((attributes or {}).items()))
        said = f" <{{{given}}}>" if given else ""
        inner = f" ({', '.join(regions)})" if regions else ""
        called = name if "." in name else f"stablehlo.{name}"
        types = f"{row([v.type for v in operands])} -> {row(results, bare=count == 1)}"
        names = ", ".join(v.name for v in operands)
        self.line(f'{out}"{called}"({names}){said}{inner} : {types}')
        labels = (base,) if count == 1 else (f"{base}#{i}" for i in range(count))
        return tuple(map(TypedName, labels, results))

    def one(
        self,
        name: str,
        operands: Sequence[TypedName],
        result: TensorType,
        attributes: Attributes | None = None,
        regions: Sequence[str] = (),
    ) -> TypedName:
        """Writes an operation with one result."""
        (found,) = self.op(name, operands, (result,), attributes, regions)
        return found

    def region(self, types: Sequence[TensorType], body: Body) -> str:
        """A region with parameters of these types, as text."""
        outer, self.lines = self.lines, []
        params = tuple(TypedName(self.fresh(), t) for t in types)
        self.depth += 1
        results = body(params)
        self.op("return", results, ())
        self.depth -= 1
        inner, self.lines = self.lines, outer
        pad = INDENT * self.depth
        head = f"{pad}^bb0({', '.join(f'{p.name}: {tensor(p.type)}' for p in params)}):"
        return "\n".join(("{", *([head] if params else []), *inner, f"{pad}}}"))

    def fresh(self) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"%{self._count - 1}"

    def line(self, text: str) -> None:
        """Writes one line."""
        self.lines.append(f"{INDENT * self.depth}{text}")

    # -- constants, sizes and shapes --------------------------------------------------------------

    def constant(self, array: Array, dtype: DType) -> TypedName:
        """A constant tensor."""
        t = TensorType(dtype, array.shape)
        return self.one("constant", (), t, {"value": dense(array, t)})

    def filled(self, number: float, t: TensorType) -> TypedName:
        """The same number in every element."""
        if all(isinstance(d, int) for d in t.shape):
            array = np.broadcast_to(literal(number, t.dtype), [int(d) for d in t.shape])
            return self.constant(array, t.dtype) if array.size else self._empty(t)
        return self.broadcast(self.constant(literal(number, t.dtype), t.dtype), t, ())

    def _empty(self, t: TensorType) -> TypedName:
        return self.one("constant", (), t, {"value": f"dense<> : {tensor(t)}"})

    def size(self, d: Dim) -> TypedName:
        """A size as an i64."""
        if isinstance(d, int):
            return self.constant(np.asarray(d, np.int64), I64)
        with self._at_the_start():
            return self._size(d)

    @contextmanager
    def _at_the_start(self) -> Generator[None]:
        lines, depth = self.lines, self.depth
        self.lines, self.depth = self.first, 2
        yield
        self.lines, self.depth = lines, depth

    def _size(self, d: Dim) -> TypedName:
        if isinstance(d, int):
            return self.constant(np.asarray(d, np.int64), I64)
        if d not in self.sizes:
            parts = [self._product(mono, k, d) for mono, k in d.terms]
            total = parts[0]
            for part in parts[1:]:
                total = self.one("add", (total, part), SCALAR)
            self.sizes[d] = total
        return self.sizes[d]

    def _product(self, mono: Monomial, k: int, whole: Dim) -> TypedName:
        factors = [self._atom(atom, whole) for atom, power in mono for _ in range(power)]
        product = factors[0] if factors else self._size(1)
        for factor in factors[1:]:
            product = self.one("multiply", (product, factor), SCALAR)
        return product if k == 1 else self.one("multiply", (product, self._size(k)), SCALAR)

    def _atom(self, atom: str | Call, whole: Dim) -> TypedName:
        if isinstance(atom, str):
            return self.sizes.symbol(atom)
        x, y = self._size(atom.lhs), self._size(atom.rhs)
        if atom.function not in FLOOR:
            return self.one(f"{atom.function}imum", (x, y), SCALAR)
        return self._floored(x, y, FLOOR[atom.function])

    def _floored(self, x: TypedName, y: TypedName, rest: bool) -> TypedName:
        """A quotient rounded down, or the rest; the divisor is positive."""
        left = self.one("remainder", (x, y), SCALAR)
        left = self.one("remainder", (self.one("add", (left, y), SCALAR), y), SCALAR)
        if rest:
            return left
        return self.one("divide", (self.one("subtract", (x, left), SCALAR), y), SCALAR)

    def shape(self, dims: tuple[Dim, ...]) -> TypedName:
        """A shape as a vector of i64."""
        if all(isinstance(d, int) for d in dims):
            return self.constant(np.asarray(dims, np.int64), I64)
        with self._at_the_start():
            if dims not in self._shapes:
                parts = [self._size(d) for d in dims]
                single = TensorType(I64, (1,))
                rows = [self.one("reshape", (p,), single) for p in parts]
                t = TensorType(I64, (len(rows),))
                self._shapes[dims] = self.one("concatenate", rows, t, {"dimension": "0 : i64"})
            return self._shapes[dims]

    # -- operations that ask for the shape of their result where it is open -----------------------

    def broadcast(self, x: TypedName, t: TensorType, axes: Sequence[int]) -> TypedName:
        """Repeats along new axes."""
        said = {"broadcast_dimensions": integers(axes)}
        if fixed(t):
            return self.one("broadcast_in_dim", (x,), t, said)
        said |= {"known_expanding_dimensions": "array<i64>"}
        said |= {"known_nonexpanding_dimensions": integers(range(len(axes)))}
        return self.one("dynamic_broadcast_in_dim", (x, self.shape(t.shape)), t, said)

    def reshape(self, x: TypedName, t: TensorType) -> TypedName:
        """The same elements in another shape."""
        if x.type.shape == t.shape:
            return x
        if fixed(t):
            return self.one("reshape", (x,), t)
        if (axes := placed_in(x.type.shape, t.shape)) is not None:
            return self.broadcast(x, t, axes)
        if (axes := placed_in(t.shape, x.type.shape)) is not None:
            return self._dropped(x, t, [i for i in range(x.type.rank) if i not in axes])
        return self.one("dynamic_reshape", (x, self.shape(t.shape)), t)

    def _dropped(self, x: TypedName, t: TensorType, axes: Sequence[int]) -> TypedName:
        """Without axes of size 1: their only element plus zero, of which -0.0 stays -0.0."""
        scalar = TensorType(t.dtype)
        zero = self.constant(literal(-0.0 if t.dtype.is_float else 0, t.dtype), t.dtype)
        word = "or" if t.dtype.kind == "b" else "add"
        body = self.region((scalar, scalar), lambda xs: (self.one(word, xs, scalar),))
        return self.one("reduce", (x, zero), t, {"dimensions": integers(axes)}, (body,))

    def iota(self, t: TensorType, axis: int) -> TypedName:
        """Counts along an axis."""
        said = {"iota_dimension": f"{axis} : i64"}
        if fixed(t):
            return self.one("iota", (), t, said)
        return self.one("dynamic_iota", (self.shape(t.shape),), t, said)

    def read_size(self, x: TypedName, axis: int) -> TypedName:
        """The size of an argument along an axis, as an i64."""
        said = {"dimension": f"{axis} : i64"}
        found = self.one("get_dimension_size", (x,), TensorType(I32), said)
        return self.one("convert", (found,), SCALAR)


def fixed(t: TensorType) -> bool:
    """Whether every size of a type is a number."""
    return all(isinstance(d, int) for d in t.shape)


def placed_in(few: Sequence[Dim], many: Sequence[Dim]) -> list[int] | None:
    """Which of ``many`` sizes are the ``few``, where all others are 1."""
    axes: list[int] = []
    for i, d in enumerate(many):
        if len(axes) < len(few) and d == few[len(axes)]:
            axes.append(i)
        elif d != 1:
            return None
    return axes if len(axes) == len(few) else None


def row(types: Sequence[TensorType], bare: bool = False) -> str:
    """Several types, in parentheses unless there is one and it stands ``bare``."""
    text = ", ".join(map(tensor, types))
    return text if bare else f"({text})"
