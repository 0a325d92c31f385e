"""A module of StableHLO as plain data, and the errors for what can't be read of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlvm.base.errors import Origin, UserError
from dlvm.ir import TensorType


@dataclass(frozen=True, eq=False)
class Node:
    """One operation: names of its operands and results, attributes in Python's own types."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[TensorType, ...]
    attributes: dict[str, Any]
    regions: tuple[Block, ...]


@dataclass(frozen=True, eq=False)
class Block:
    """A list of operations with parameters; ``returned`` are the names of its results."""

    params: tuple[int, ...]
    types: tuple[TensorType, ...]
    nodes: tuple[Node, ...]
    returned: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Tree:
    """The functions of a module by name."""

    functions: dict[str, Block]


def unreadable(name: str, why: str = "", origin: Origin | None = None) -> UserError:
    """The error for an operation of StableHLO that dlvm does not have."""
    reason = f": {why}" if why else ""
    return UserError(
        f"stablehlo.load: the operation {name} can't be read{reason}",
        origin=origin,
        remedy="write the part of the function without it, and load that",
    )
