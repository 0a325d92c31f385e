"""NumPy's words that write an ONNX graph, so that ONNX Runtime runs the programs as they stand."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OPSET = 18
"""The version of ONNX's operations."""


@dataclass
class Graph:
    """The nodes so far, and the constants."""

    nodes: list[Any] = field(default_factory=list[Any])
    constants: list[Any] = field(default_factory=list[Any])

    def node(self, kind: str, *inputs: str, **options: Any) -> str:
        """The name of what a new node gives."""
        helper = importlib.import_module("onnx.helper")
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **options))
        return name

    def constant(self, value: Any, dtype: Any) -> str:
        """The name of a constant."""
        numpy_helper = importlib.import_module("onnx.numpy_helper")
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name


@dataclass(frozen=True)
class Value:
    """A value of the graph; numbers beside it take its type."""

    graph: Graph
    name: str
    dtype: Any

    def _with(self, kind: str, other: Any, swapped: bool = False) -> Value:
        right = other.name if isinstance(other, Value) else self.graph.constant(other, self.dtype)
        pair = (right, self.name) if swapped else (self.name, right)
        return self._new(self.graph.node(kind, *pair))

    def _new(self, name: str) -> Value:
        return Value(self.graph, name, self.dtype)

    def __add__(self, other: Any) -> Value:
        return self._with("Add", other)

    def __sub__(self, other: Any) -> Value:
        return self._with("Sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self._with("Sub", other, swapped=True)

    def __mul__(self, other: Any) -> Value:
        return self._with("Mul", other)

    def __truediv__(self, other: Any) -> Value:
        return self._with("Div", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._with("Div", other, swapped=True)

    def __matmul__(self, other: Any) -> Value:
        return self._with("MatMul", other)

    def __neg__(self) -> Value:
        return self._new(self.graph.node("Neg", self.name))

    def reshape(self, *shape: int) -> Value:
        """The same elements in another shape."""
        wanted = self.graph.constant(shape, np.int64)
        return self._new(self.graph.node("Reshape", self.name, wanted))

    def permuted(self, *axes: int) -> Value:
        """The axes in another order."""
        return self._new(self.graph.node("Transpose", self.name, perm=axes))

    def made(self, kind: str, *others: Value, **options: Any) -> Value:
        """What a node gives of this value and others."""
        names = (self.name, *(x.name for x in others))
        return self._new(self.graph.node(kind, *names, **options))

    __radd__, __rmul__ = __add__, __mul__


ELEMENTS = {"tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "abs": "Abs"}
FOLDS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}


class Words:
    """What programs call ``xp``."""

    def __getattr__(self, word: str) -> Any:
        if word in ELEMENTS:
            return lambda x: x._new(x.graph.node(ELEMENTS[word], x.name))
        if word not in FOLDS:
            raise AttributeError(word)

        def fold(x: Value, axis: int, keepdims: bool = False) -> Value:
            axes = x.graph.constant([axis], np.int64)
            return x._new(x.graph.node(FOLDS[word], x.name, axes, keepdims=int(keepdims)))

        return fold

    def maximum(self, x: Value, y: Any) -> Value:
        """The larger of two."""
        return x._with("Max", y)

    def relu(self, x: Value) -> Value:
        """Positive parts."""
        return x.made("Relu")

    def conv(self, x: Value, w: Value, padding: int) -> Value:
        """A convolution, whose node wants channels before rows and columns."""
        x, w = x.permuted(0, 3, 1, 2), w.permuted(3, 2, 0, 1)
        return x.made("Conv", w, pads=[padding] * 4).permuted(0, 2, 3, 1)

    def max_pool(self, x: Value) -> Value:
        """The largest of each 2 by 2 elements."""
        found = x.permuted(0, 3, 1, 2).made("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
        return found.permuted(0, 2, 3, 1)

    def squeeze(self, x: Value, axis: int) -> Value:
        """Without an axis of one element."""
        axes = x.graph.constant([axis], np.int64)
        return x._new(x.graph.node("Squeeze", x.name, axes))


def model(program: Any, arguments: Sequence[Any]) -> bytes:
    """The ONNX model of a program that is called with these words and values like the arguments."""
    helper = importlib.import_module("onnx.helper")
    graph = Graph()
    names = [f"x{i}" for i in range(len(arguments))]
    given = [Value(graph, n, a.dtype) for n, a in zip(names, arguments, strict=True)]
    found = program(Words(), *given)
    results = found if isinstance(found, tuple) else (found,)
    inputs = [_info(n, a.dtype, a.shape) for n, a in zip(names, arguments, strict=True)]
    outputs = [_info(r.name, r.dtype, None) for r in results]
    made = helper.make_graph(graph.nodes, "program", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(made, opset_imports=opsets, ir_version=9).SerializeToString()


def _info(name: str, dtype: Any, shape: Any) -> Any:
    helper = importlib.import_module("onnx.helper")
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )
