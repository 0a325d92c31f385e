"""Collects the nodes of a graph, its constants and the sizes that are open.

Sizes are computed once, before all other nodes, from the shapes of the inputs. Graphs inside of
loops and branches use values of the graphs around them by name. This file does not know the
operations of the language.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dlvm.exporting.inlining import Body, Sizes, TypedName
from dlvm.ir import I64, Array, Dim, DType, TensorType, literal
from dlvm.ir.sizes.dims import Call, Expr
from dlvm.onnx.messages import Attribute, Dimension, Graph, Node, Shape, Tensor, Type, ValueInfo
from dlvm.onnx.messages import TensorType as Tensors
from dlvm.onnx.tensors import NUMBERS, tensor

FLOAT, INT, STRING, GRAPH, INTS = 1, 2, 3, 5, 7


class Nodes:
    """The nodes of a model while it is written."""

    def __init__(self) -> None:
        self.first: list[Node] = []
        self.nodes: list[Node] = []
        self.constants: list[Tensor] = []
        self._count = 0
        self._known: dict[Any, str] = {}
        self.sizes = Sizes()

    def fresh(self) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"_{self._count - 1}"

    def op(
        self,
        kind: str,
        inputs: Sequence[TypedName | None],
        types: Sequence[TensorType],
        **given: Any,
    ) -> tuple[TypedName, ...]:
        """Writes one node; an input that is None is left out."""
        out = tuple(TypedName(self.fresh(), t) for t in types)
        names = [x.name if x is not None else "" for x in inputs]
        attributes = [attribute(name, value) for name, value in given.items()]
        self.nodes.append(
            Node(input=names, output=[t.name for t in out], op_type=kind, attribute=attributes)
        )
        return out

    def one(
        self, kind: str, inputs: Sequence[TypedName | None], t: TensorType, **attributes: Any
    ) -> TypedName:
        """Writes a node with one output."""
        return self.op(kind, inputs, (t,), **attributes)[0]

    def graph(self, types: Sequence[TensorType], body: Body) -> Graph:
        """A graph inside of a node, with inputs of these types."""
        outer, self.nodes = self.nodes, []
        params = tuple(TypedName(self.fresh(), t) for t in types)
        results = [self.one("Identity", (r,), r.type) for r in body(params)]
        inner, self.nodes = self.nodes, outer
        return Graph(
            name=f"body{self.fresh()}",
            node=inner,
            input=[value_info(p.name, p.type) for p in params],
            output=[value_info(r.name, r.type) for r in results],
        )

    # -- constants, sizes and shapes --------------------------------------------------------------

    def constant(self, array: Array, dtype: DType) -> TypedName:
        """An array that is part of the file; equal small ones are one."""
        array = np.asarray(array, dtype.numpy)
        key = (dtype.name, array.shape, array.tobytes()) if array.size < 16 else None
        if key is None or key not in self._known:
            name = self.fresh()
            self.constants.append(tensor(name, array))
            if key is None:
                return TypedName(name, TensorType(dtype, array.shape))
            self._known[key] = name
        return TypedName(self._known[key], TensorType(dtype, array.shape))

    def number(self, value: float, dtype: DType) -> TypedName:
        """A scalar, which nodes broadcast."""
        return self.constant(literal(value, dtype), dtype)

    def filled(self, value: float, t: TensorType) -> TypedName:
        """A number in every element."""
        return self.one("Expand", (self.number(value, t.dtype), self.shape(t.shape)), t)

    @contextmanager
    def at_the_start(self) -> Generator[None]:
        """Nodes that are written inside come before all others."""
        outer, self.nodes = self.nodes, self.first
        yield
        self.nodes = outer

    def size(self, d: Dim) -> TypedName:
        """A size as a scalar."""
        if isinstance(d, int):
            return self.constant(np.asarray(d, np.int64), I64)
        with self.at_the_start():
            if d not in self.sizes:
                self.sizes[d] = self._computed(d)
            return self.sizes[d]

    def _computed(self, d: Expr) -> TypedName:
        t = TensorType(I64)
        total: TypedName | None = None
        for mono, k in d.terms:
            part = self.size(k)
            for atom, power in mono:
                for _ in range(power):
                    part = self.one("Mul", (part, self._atom(atom)), t)
            total = part if total is None else self.one("Add", (total, part), t)
        return total or self.size(0)

    def _atom(self, atom: str | Call) -> TypedName:
        t = TensorType(I64)
        if isinstance(atom, str):
            return self.sizes.symbol(atom)
        x, y = self.size(atom.lhs), self.size(atom.rhs)
        if atom.function in ("min", "max"):
            return self.one(atom.function.capitalize(), (x, y), t)
        rest = self.one("Mod", (x, y), t)
        if atom.function == "mod":
            return rest
        return self.one("Div", (self.one("Sub", (x, rest), t), y), t)

    def read_size(self, x: TypedName, axis: int) -> TypedName:
        """The size of an argument along an axis, as a scalar."""
        with self.at_the_start():
            shape = self.one("Shape", (x,), TensorType(I64, (x.type.rank,)))
            return self.one("Gather", (shape, self.size(axis)), TensorType(I64), axis=0)

    def shape(self, dims: Sequence[Dim]) -> TypedName:
        """Sizes as a vector."""
        if all(isinstance(d, int) for d in dims):
            return self.constant(np.asarray(dims, np.int64).reshape(len(dims)), I64)
        with self.at_the_start():
            single = TensorType(I64, (1,))
            row = self.shape((1,))
            parts = [self.one("Reshape", (self.size(d), row), single) for d in dims]
            return self.one("Concat", parts, TensorType(I64, (len(dims),)), axis=0)

    def reshape(self, x: TypedName, shape: Sequence[Dim]) -> TypedName:
        """The same elements in another shape."""
        t = x.type.with_shape(tuple(shape))
        return self.one("Reshape", (x, self.shape(t.shape)), t, allowzero=1)

    def permute(self, x: TypedName, order: Sequence[int]) -> TypedName:
        """The axes in another order."""
        t = x.type.with_shape(tuple(x.type.shape[i] for i in order))
        if list(order) == [*range(len(order))]:
            return x
        return self.one("Transpose", (x,), t, perm=list(order))

    def cast(self, x: TypedName, dtype: DType) -> TypedName:
        """Another element type, as ONNX converts."""
        if x.type.dtype == dtype:
            return x
        return self.one("Cast", (x,), x.type.with_dtype(dtype), to=number_of(dtype))


def number_of(dtype: DType) -> int:
    """The number of an element type in a file."""
    return NUMBERS[np.dtype(dtype.numpy)]


def attribute(name: str, value: Any) -> Attribute:
    """An attribute: a number, a text, integers or a graph."""
    if isinstance(value, Graph):
        return Attribute(name=name, type=GRAPH, g=value)
    if isinstance(value, str):
        return Attribute(name=name, type=STRING, s=value.encode())
    if isinstance(value, float):
        return Attribute(name=name, type=FLOAT, f=value)
    if isinstance(value, int):
        return Attribute(name=name, type=INT, i=value)
    return Attribute(name=name, type=INTS, ints=list(value))


def value_info(name: str, t: TensorType) -> ValueInfo:
    """The name and the type of a value; a size that is a symbol keeps its name."""
    sizes = [dimension(d) for d in t.shape]
    kind = Tensors(elem_type=number_of(t.dtype), shape=Shape(dim=sizes))
    return ValueInfo(name=name, type=Type(tensor_type=kind))


def dimension(d: Dim) -> Dimension:
    """A size in a type."""
    if isinstance(d, int):
        return Dimension(dim_value=d)
    return Dimension(dim_param=str(d)) if str(d).isidentifier() else Dimension()
