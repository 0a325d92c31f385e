"""A function as an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm import ops
from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.scopes import user_origin
from dlvm.exporting.formats import register
from dlvm.exporting.inlining import TypedName, inlined, symbols_of
from dlvm.exporting.program import Language, Program, in_words
from dlvm.ir import BOOL, I64, Function, Op, TensorType
from dlvm.onnx import wire
from dlvm.onnx.messages import Graph, Model, Node, OperatorSetId

from . import arrays, elements
from .nodes import Nodes, value_info

IR_VERSION = 10
OPSETS = range(18, 26)
"""Versions of ONNX's operations that have all of those written here, with the same meaning."""
CONTROL = (ops.Cond, ops.While, ops.Scan)


def has(op: Op) -> bool:
    """Whether ONNX has a form for an operation."""
    return elements.has(op) or arrays.has(op) or isinstance(op, CONTROL)


LANGUAGE = Language("ONNX", has, elements.OWN)


def written(program: Program, opset: int = 18) -> bytes:
    """The bytes of a model that computes the program, for a version of ONNX's operations."""
    if opset not in OPSETS:
        raise ArgumentError(
            f"export: opset={opset!r}: expected a version from {OPSETS[0]} to {OPSETS[-1]}",
            origin=user_origin(),
            remedy="leave it out, and it is 18",
        )
    fn, n = in_words(program.function, LANGUAGE), Nodes()
    labels = program.arguments
    params = [TypedName(name, p.type) for name, p in zip(labels, fn.params, strict=True)]
    for param in params:
        for axis, symbol in symbols_of(param):
            n.sizes.know(symbol, n.read_size(param, axis))
    found = Inliner(n).inline(fn, params)
    names = [r if r not in labels else f"{r}_" for r in program.results]
    for name, result in zip(names, found, strict=True):
        n.nodes.append(Node(input=[result.name], output=[name], op_type="Identity"))
    graph = Graph(
        name=program.name,
        node=[*n.first, *n.nodes],
        initializer=n.constants,
        input=[value_info(p.name, p.type) for p in params],
        output=[value_info(name, r.type) for name, r in zip(names, found, strict=True)],
    )
    imports = [OperatorSetId(domain="", version=opset)]
    model = Model(ir_version=IR_VERSION, opset_import=imports, producer_name="dlvm", graph=graph)
    return wire.write(model)


class Inliner:
    """Writes functions and regions where they are used."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def inline(self, fn: Function, arguments: Sequence[TypedName]) -> tuple[TypedName, ...]:
        """The operations of a function on these arguments; its results."""
        return inlined(fn, arguments, self._one)

    def _one(self, op: Op, xs: Sequence[TypedName]) -> TypedName | tuple[TypedName, ...]:
        if isinstance(op, ops.Cond):
            return self._cond(op, xs)
        if isinstance(op, ops.While):
            return self._while(op, xs)
        if isinstance(op, ops.Scan):
            return self._scan(op, xs)
        if elements.has(op):
            return elements.written(self.nodes, op, xs)
        return arrays.FORMS[type(op)](self.nodes, op, xs)

    def _cond(self, op: ops.Cond, xs: Sequence[TypedName]) -> tuple[TypedName, ...]:
        condition, *captured = xs
        then, otherwise = (
            self.nodes.graph((), lambda _, b=body: self.inline(b, captured)) for body in op.giving
        )
        branches = {"then_branch": then, "else_branch": otherwise}
        return self.nodes.op("If", (condition,), op.result_types, **branches)

    def _while(self, op: ops.While, xs: Sequence[TypedName]) -> tuple[TypedName, ...]:
        carried, captured = xs[: op.carries], xs[op.carries :]
        types = [x.type for x in carried]

        def step(params: tuple[TypedName, ...]) -> Sequence[TypedName]:
            after = self.inline(op.body, (*params[2:], *captured))
            return (*self.inline(op.condition, (*after, *captured)), *after)

        first = self.inline(op.condition, xs)[0]
        body = self.nodes.graph((TensorType(I64), TensorType(BOOL), *types), step)
        return self.nodes.op("Loop", (None, first, *carried), types, body=body)

    def _scan(self, op: ops.Scan, xs: Sequence[TypedName]) -> tuple[TypedName, ...]:
        c, m = op.carries, op.carries + op.slices
        carried, sliced, captured = xs[:c], [*xs[c:m]], xs[m:]
        counted = not sliced
        if counted:  # a scan has at least one input that is sliced
            sliced = [arrays.count(self.nodes, op.length)]
        types = [x.type for x in carried]
        rows = [x.type.with_shape(x.type.shape[1:]) for x in sliced]

        def step(params: tuple[TypedName, ...]) -> Sequence[TypedName]:
            given = params[:c] if counted else params
            return self.inline(op.body, (*given, *captured))

        body = self.nodes.graph((*types, *rows), step)
        back, out = int(op.reverse), len(op.result_types) - c
        given = {"scan_input_directions": [back] * len(sliced)}
        if out:
            given["scan_output_directions"] = [back] * out
        inputs = (*carried, *sliced)
        return self.nodes.op(
            "Scan", inputs, op.result_types, body=body, num_scan_inputs=len(sliced), **given
        )


register("onnx", written)
