"""What the values of a model are used for: one pass over its nodes from the back.

A weight is what somebody who trains the model would change: a factor of a product, a kernel, a
table of embeddings, the scale of a normalisation, a bias. A number that only says how something is
computed is none: an exponent, an epsilon, a limit, a mask, a divisor, a running average. The pass
tells them apart by the operand that they are.

It also finds what must be known while the program is made: an operand at a ``known`` position of
the table, and everything from which it is computed. Only the size of an array is asked for by Shape
and Size, so the pass stops there. Such an input of the model is static by value. What chooses a
branch, or the end of a loop that stacks nothing, is known where it is computed of integers and
bools alone; where it depends on floats it is data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto

from .messages import Function, Graph, Node, Tensor, ValueInfo
from .table import TABLE, Key, key_of_node


class Use(Flag):
    """What becomes of a value: any of these, or none of them.

    ``FACTOR`` is an operand that operations train, such as a kernel. ``BIAS`` is added to a
    product, and ``TERM`` is any other operand of arithmetic by element. ``KNOWN`` is a value that
    must be known while the program is made, ``CHOICE`` one that chooses a branch or ends a loop.
    """

    FACTOR = auto()
    BIAS = auto()
    TERM = auto()
    KNOWN = auto()
    CHOICE = auto()


NOTHING = Use(0)
STATIC = Use.KNOWN | Use.CHOICE
FLOATS = (1, 10, 11, 16)
"""The numbers of the element types f32, f16, f64 and bf16 in a file."""
SIZES_ONLY = ("Shape", "Size", "EyeLike")
"""Operations that read the type of an operand, not its elements."""
PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum")
"""Operations to whose results a bias is added."""
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Sum", "Mean", "Where")
"""Operations by element whose operands are terms."""
NAMES = """
Abs Cast CastLike Clip Concat DepthToSpace DequantizeLinear Dropout Erf Exp Expand Flatten Identity
Log Neg Pad QuantizeLinear Reciprocal Reshape Sigmoid Slice Softplus SpaceToDepth Split Sqrt Squeeze
Tanh Tile Transpose Trilu Unsqueeze
"""
PASSED_ON = frozenset(NAMES.split())
"""Operations whose first operand is used for what their result is used for."""
CONSTANTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), (0, 1)),
    **dict.fromkeys(("Pow", "Div"), (1,)),
    **dict.fromkeys(("Clip", "Dropout"), (1, 2)),
    **dict.fromkeys(("Max", "Min"), tuple(range(16))),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), (1, 2)),
    **dict.fromkeys(("If", "Where"), (0,)),
    "Mod": (0, 1),
    "Loop": (0, 1),
    "Pad": (2,),
    "OneHot": (2,),
    "Attention": (3,),
    "RotaryEmbedding": (1, 2),
    "BatchNormalization": (3, 4),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
}
"""Operands that say how something is computed, by the name of the operation."""
Functions = Mapping[Key, Function]
Uses = dict[str, Use]


def bodies(node: Node) -> list[Graph]:
    """The graphs in the attributes of a node."""
    return [g for a in node.attribute for g in (a.g, *a.graphs) if g is not None]


def tensor_of(node: Node) -> Tensor | None:
    """The array of a Constant node."""
    if key_of_node(node) != ("", "Constant"):
        return None
    return next((a.t for a in node.attribute if a.name == "value"), None)


@dataclass
class Finding:
    """The uses of the values of a model; ``tensors`` has those of stored arrays by identity."""

    functions: Functions
    tensors: dict[int, Use] = field(default_factory=dict[int, Use])
    called: dict[tuple[Key, tuple[Use, ...]], Uses] = field(
        default_factory=dict[tuple[Key, tuple[Use, ...]], Uses]
    )

    def of_graph(self, graph: Graph | Function, ends: Uses) -> Uses:
        """The use of every name that a graph reads; ``ends`` has those of its outputs."""
        uses = dict(ends)
        makers = {name: n.op_type or "" for n in graph.node for name in n.output}
        for node in reversed(graph.node):
            for name, use in self._of_node(node, uses, makers):
                uses[name] = uses.get(name, NOTHING) | use
        self._note(graph, uses)
        return uses

    def _note(self, graph: Graph | Function, uses: Uses) -> None:
        """Notes the uses of the arrays that a graph holds."""
        stored = [] if isinstance(graph, Function) else [(t.name, t) for t in graph.initializer]
        made = [
            (node.output[0], t) for node in graph.node if node.output and (t := tensor_of(node))
        ]
        for name, t in (*stored, *made):
            self.tensors[id(t)] = self.tensors.get(id(t), NOTHING) | uses.get(name or "", NOTHING)

    def _of_node(
        self, node: Node, uses: Uses, makers: Mapping[str, str]
    ) -> Iterator[tuple[str, Use]]:
        """The uses of the operands of a node, and of names of the graph around its bodies."""
        key = key_of_node(node)
        results = tuple(uses.get(name, NOTHING) for name in node.output)
        if key in self.functions:
            inside = self._of_function(key, results)
            names = self.functions[key].input
            yield from (
                (o, inside.get(n, NOTHING)) for n, o in zip(names, node.input, strict=False)
            )
            return
        known = TABLE[key].known if key in TABLE else frozenset[int]()
        asked = Use.CHOICE if _may_be_staged(node) else Use.KNOWN
        every = NOTHING if node.op_type in SIZES_ONLY else _all(results) & STATIC
        for k, name in enumerate(node.input):
            yield name, every | (asked if k in known else NOTHING)
            if not bodies(node):
                yield name, _use(node, k, results, makers)
        for body in bodies(node):
            yield from self._of_body(node, body, results)

    def _of_body(
        self, node: Node, body: Graph, results: tuple[Use, ...]
    ) -> Iterator[tuple[str, Use]]:
        """The uses of operands that become inputs of a body, and of names from around it."""
        every = _all(results) & STATIC
        skipped = 1 if node.op_type == "Loop" else 0  # its body also says whether it goes on
        ends = {x.name or "": Use.TERM | every for x in body.output}
        for x, use in zip(body.output[skipped:], results, strict=False):
            ends[x.name or ""] |= use
        inside = self.of_graph(body, ends)
        own = _own(body)
        yield from ((name, use) for name, use in inside.items() if name not in own)
        for x, name in zip(body.input, node.input, strict=False):
            yield name, inside.get(x.name or "", NOTHING) & ~STATIC

    def _of_function(self, key: Key, results: tuple[Use, ...]) -> Uses:
        """The uses of names in a function of the model whose results are used in some ways."""
        if (key, results) not in self.called:
            fn = self.functions[key]
            self.called[key, results] = self.of_graph(
                fn, dict(zip(fn.output, results, strict=False))
            )
        return self.called[key, results]


def find_uses(graph: Graph, functions: Functions) -> tuple[Finding, set[str]]:
    """The uses of stored arrays, and the names of the graph whose values must be known."""
    finding = Finding(functions)
    uses = finding.of_graph(graph, {x.name or "": Use.TERM for x in graph.output})
    known = {name for name, use in uses.items() if name and Use.KNOWN in use}
    return finding, known | {x.name or "" for x in graph.input if _chooses(x, uses)}


def _chooses(x: ValueInfo, uses: Uses) -> bool:
    """Whether an input of integers or bools chooses a branch or ends a loop."""
    kind = x.type.tensor_type.elem_type if x.type and x.type.tensor_type else None
    return Use.CHOICE in uses.get(x.name or "", NOTHING) and kind not in FLOATS


def _may_be_staged(node: Node) -> bool:
    """Whether a node is a branch, or a loop that stacks no results."""
    if node.op_type == "Loop":
        return len(node.output) <= len(node.input) - 2
    return node.op_type == "If"


def _all(uses: Iterable[Use]) -> Use:
    """Any of these."""
    found = NOTHING
    for use in uses:
        found |= use
    return found


def _use(node: Node, k: int, results: Iterable[Use], makers: Mapping[str, str]) -> Use:
    """What an operand of an operation is used for."""
    name = node.op_type or ""
    if k in CONSTANTS.get(name, ()) or name in SIZES_ONLY:
        return NOTHING
    if name in PASSED_ON and (k == 0 or name == "Concat"):
        return _all(results) & ~STATIC
    if name not in ARITHMETIC:
        return Use.FACTOR
    others = [makers.get(x) for j, x in enumerate(node.input) if j != k]
    return Use.BIAS if name == "Add" and others[:1] and others[0] in PRODUCTS else Use.TERM


def _own(graph: Graph) -> set[str]:
    """The names that a graph defines itself."""
    made = {name for node in graph.node for name in node.output}
    return made | {x.name or "" for x in (*graph.input, *graph.initializer)}
