"""Who reads which operation of StableHLO, and what readers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dlvm.ir import Array, TensorType, Value, literal, splat
from dlvm.ops import Broadcast, Constant, Permute, Reshape

from .tree import Block, Node, Tree, unreadable


class Blocks(Protocol):
    """Reads blocks: the operations of the language are written where they are read."""

    tree: Tree

    def run(self, block: Block, arguments: Sequence[Value], outer: Env) -> tuple[Value, ...]:
        """The results of a block on these arguments; ``outer`` are values around it."""
        ...


Env = dict[int, Value]


@dataclass(frozen=True)
class Place:
    """Where an operation is read: who reads blocks, the values so far, and the loop around it."""

    blocks: Blocks
    env: Env


Results = Value | tuple[Value, ...]
Read = Callable[[Node, Sequence[Value], Place], Results]
READERS: dict[str, Read] = {}


def reads(*names: str) -> Callable[[Read], Read]:
    """Registers who reads the operations with these names."""

    def register(read: Read) -> Read:
        READERS.update(dict.fromkeys(names, read))
        return read

    return register


def filled(value: Value, t: TensorType) -> Value:
    """A scalar in every element."""
    return Broadcast(value, t.shape, ()) if t.shape else value


def constant(array: Array, t: TensorType) -> Value:
    """A constant of the language."""
    return Constant(literal(array, t.dtype))


def whole(number: float, like: TensorType) -> Value:
    """A number in every element."""
    return splat(number, like)


def permuted(x: Value, order: Sequence[int]) -> Value:
    """The axes in another order."""
    return x if list(order) == [*range(len(order))] else Permute(x, tuple(order))


def reshaped(x: Value, shape: Sequence[Any]) -> Value:
    """Another shape."""
    return x if x.shape == tuple(shape) else Reshape(x, tuple(shape))


def root(block: Block) -> Node | None:
    """The operation that computes the one result of a block."""
    if len(block.returned) != 1:
        return None
    return next((n for n in block.nodes if block.returned[0] in n.results), None)


def simple(block: Block, name: str) -> str:
    """The one operation of a block on both of its parameters, such as ``add``."""
    node = root(block)
    if len(block.nodes) != 1 or node is None or set(node.operands) != set(block.params):
        raise unreadable(name, "its region is no single operation")
    return node.name.removeprefix("stablehlo.")
