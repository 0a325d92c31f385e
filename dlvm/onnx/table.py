"""The table of operations: a function for each operation of ONNX, under its domain and name.

``operation`` registers a function, ours and a user's alike. It takes a ``Call``, which holds the
attributes of the node and the version of the operation, and the operands: an array of NumPy where
the value is known while the program is made, else a staged one, and None where a node leaves an
operand out. It returns the result, or a tuple of the results.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dlvm.base.errors import UserError, did_you_mean

from .messages import Graph, Node
from .wire import Malformed

F = TypeVar("F", bound=Callable[..., Any])
Key = tuple[str, str]
STANDARD = ("", "ai.onnx")
"""The names of the domain that ONNX itself defines."""


class Unsupported(UserError, NotImplementedError):
    """A model that uses something of ONNX that dlvm can't run."""

    code = "onnx"


@dataclass(frozen=True)
class Operation:
    """An entry of the table.

    ``known`` has the positions of operands, such as shapes, whose values the program is made for;
    ``bodies`` says that attributes of the node are graphs that the function runs.
    """

    run: Callable[..., Any]
    known: frozenset[int]
    bodies: bool

    def takes(self, count: int) -> bool:
        """Whether the function can be called with a number of operands."""
        try:
            inspect.signature(self.run).bind(None, *(None,) * count)
        except TypeError:
            return False
        return True


LONGEST = 200
"""Characters of a name that a message shows."""
SHOWN = 8
"""Results of a node that a message shows."""
TABLE: dict[Key, Operation] = {}
"""Every operation by its domain, which is empty for ONNX's own, and its name."""


def operation(*names: str, known: Iterable[int] = (), bodies: bool = False) -> Callable[[F], F]:
    """Register a function as an operation of ONNX: ``@dlvm.onnx.operation("com.microsoft::Gelu")``.

    A name without a domain is one of ONNX's own. The function takes a call and the operands.
    ``call.get("axis", 0)`` is an attribute, ``call.version`` the version of the operation's domain.
    ``known`` has the positions of operands that must be known while the program is made, such as
    shapes: a model for which they are inputs gets a program for each value.
    """
    entry_of = frozenset(known)

    def register(fn: F) -> F:
        for name in names:
            TABLE[key_of(name)] = Operation(fn, entry_of, bodies)
        return fn

    return register


def key_of(name: str) -> Key:
    """The key of ``Domain::Name``, or of a name of ONNX's own."""
    domain, _, short = name.rpartition("::")
    return ("" if domain in STANDARD else domain, short)


def key_of_node(node: Node) -> Key:
    """The key of a node's operation."""
    domain = node.domain or ""
    return ("" if domain in STANDARD else domain, node.op_type or "")


def described(node: Node) -> str:
    """A node as messages name it."""
    outputs = ", ".join(map(short, node.output[:SHOWN]))
    name = repr(short(node.name)) if node.name else f"that makes {outputs}"
    return f"the node {name}"


def short(name: str) -> str:
    """The name of something in a file, of which a message shows the start if it is long."""
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}..."


def unknown(node: Node) -> Unsupported:
    """The error for an operation that is not in the table."""
    domain, name = map(short, key_of_node(node))
    full = f"{domain}::{name}" if domain else name
    near = did_you_mean(name, [n for d, n in TABLE if d == domain])
    return Unsupported(
        f"onnx: dlvm has no operation {full}, which {described(node)} is{near}",
        remedy=f'register a function for it: @dlvm.onnx.operation("{full}")',
    )


@dataclass(frozen=True)
class Call:
    """A node that is run: its attributes, its version and what messages say of it."""

    node: Node
    version: int
    attributes: dict[str, Any]
    training: bool = False
    run_body: Callable[[Graph, Sequence[Any]], tuple[Any, ...]] | None = None
    again: Callable[[dict[str, Any], str], Any] | None = None
    key: Any = None
    number: Callable[[], int] = int
    most_bytes: int = 1 << 30

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or a default if the node does not have it."""
        return self.attributes.get(name, default)

    def __getitem__(self, name: str) -> Any:
        if name not in self.attributes:
            raise Malformed(
                f"onnx: {self.node.op_type} needs the attribute {name!r}, which "
                f"{described(self.node)} does not have"
            )
        return self.attributes[name]

    def check_bytes(self, count: int, itemsize: int, share: int = 1) -> None:
        """Refuses a value of many elements that is computed while the program is made.

        ``share`` is the part of what it may have, for values that are slow to compute.
        """
        most = self.most_bytes // share
        if count * itemsize > most:
            raise self.unsupported(
                f"it makes {count * itemsize:,} bytes of constants while the program is made; "
                f"expected at most {most:,}",
                "make its operands inputs of the model, so that it is computed at each call",
            )

    def wants(self, position: int) -> bool:
        """Whether somebody uses the result at a position."""
        return position < len(self.node.output) and bool(self.node.output[position])

    def body(self, name: str) -> Callable[..., tuple[Any, ...]]:
        """The graph in an attribute as a function of its inputs."""
        graph, run = self[name], self.run_body
        if not isinstance(graph, Graph) or run is None:
            raise Malformed(f"onnx: the attribute {name!r} of {described(self.node)} is no graph")
        return lambda *args: run(graph, args)

    def unsupported(self, why: str, remedy: str) -> Unsupported:
        """The error for something that this operation can't do here."""
        what = f"onnx: {self.node.op_type}, {described(self.node)}: {why}"
        return Unsupported(what, remedy=remedy)
