"""Reads a module through the bindings in jaxlib, which know every version of the format.

This is the one file that imports jax, when a module is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir import Array, TensorType

from .attributes import dense_of, shaped, type_of, value_of
from .tree import Block, Node, Tree


def read(source: str) -> Tree:
    """The functions of a module in text."""
    mlir, ir = _tools()
    with mlir.make_ir_context() as context:
        try:
            module = ir.Module.parse(source, context)
        except Exception as error:
            raise UserError(
                f"stablehlo.load: {str(error).strip() or 'this is no module'}",
                remedy="give it the text of a function that JAX lowered, or bytes of jax.export",
            ) from error
        return _tree(module)


def _tools() -> tuple[Any, Any]:
    try:
        mlir = import_module("jax._src.interpreters.mlir")
        ir = import_module("jaxlib.mlir.ir")
    except ImportError as error:
        raise UserError(
            "stablehlo.load reads text through the package jax, which is not installed",
            remedy="run pip install jax, or give it the bytes of jax.export",
        ) from error
    return mlir, ir


def _tree(module: Any) -> Tree:
    functions: dict[str, Block] = {}
    for op in module.body.operations:
        found = op.operation
        if found.name == "func.func":
            name = value_of(str(found.attributes["sym_name"]))
            functions[name] = Reader().block(found.regions[0].blocks[0])
    if not functions:
        raise UserError(
            "stablehlo.load: expected a module with a function, found none",
            remedy="give it the text of a function that JAX lowered, or bytes of jax.export",
        )
    if "main" not in functions:
        functions["main"] = next(iter(functions.values()))
    return Tree(functions)


class Reader:
    """Gives each value of a function a number."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def _number(self, value: Any) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def block(self, block: Any) -> Block:
        """A block whose last operation returns."""
        params = tuple(map(self._number, block.arguments))
        types = tuple(type_of(str(a.type)) for a in block.arguments)
        *rest, last = (op.operation for op in block.operations)
        nodes = tuple(map(self._node, rest))
        return Block(params, types, nodes, tuple(map(self._number, last.operands)))

    def _node(self, op: Any) -> Node:
        regions = tuple(self.block(r.blocks[0]) for r in op.regions)
        operands, results = (tuple(map(self._number, vs)) for vs in (op.operands, op.results))
        types = tuple(type_of(str(r.type)) for r in op.results)
        names = [a if isinstance(a, str) else a.name for a in op.attributes]
        attributes = {name: _attribute(op.attributes[name]) for name in names}
        return Node(op.name, operands, results, types, attributes, regions)


def _attribute(attribute: Any) -> Any:
    text = str(attribute)
    return _elements(attribute, text) if text.startswith("dense<") else value_of(text)


def _elements(attribute: Any, text: str) -> Array:
    t: TensorType = type_of(text[text.rindex("tensor<") :])
    try:
        found = np.array(attribute)
    except TypeError:  # of bfloat the bindings give no buffer
        return dense_of(text, t)
    return shaped(found.astype(t.dtype.numpy), t)
