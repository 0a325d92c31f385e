"""Checks of the calls of a module before they are written out where they stand."""

from __future__ import annotations

from collections.abc import Iterator

from dlvm.base.errors import UserError

from .tree import Block, Node, Tree

MOST = 1_000_000
"""Operations that a module may have once its calls are written out."""
CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""The operations that run a function, and the attribute with its name."""


def check_calls(tree: Tree) -> None:
    """Refuses calls of functions that are missing, of themselves, and too many of them."""
    sizes: dict[str, int] = {}
    open_: dict[str, Iterator[str]] = {"main": iter(_called(tree.functions["main"]))}
    while open_:
        name, callees = next(reversed(open_.items()))
        callee = next(callees, None)
        if callee is None:
            del open_[name]
            sizes[name] = _size(tree.functions[name], sizes, name)
        elif callee in open_:
            raise _refused(f"the function {callee} calls itself")
        elif callee not in tree.functions:
            raise _refused(f"the function {callee} is called and not there")
        elif callee not in sizes:
            open_[callee] = iter(_called(tree.functions[callee]))


def _size(block: Block, sizes: dict[str, int], name: str) -> int:
    total = sum(1 + (sizes[c] if (c := _callee(node)) else 0) for node in _nodes(block))
    if total > MOST:
        raise _refused(f"the function {name} has {total} operations once its calls are written out")
    return total


def _called(block: Block) -> list[str]:
    return [c for node in _nodes(block) if (c := _callee(node))]


def _callee(node: Node) -> str | None:
    return str(node.attributes.get(CALLS[node.name])) if node.name in CALLS else None


def _nodes(block: Block) -> Iterator[Node]:
    for node in block.nodes:
        yield node
        for inner in node.regions:
            yield from _nodes(inner)


def _refused(why: str) -> UserError:
    return UserError(f"stablehlo.load: {why}", remedy="export the function without that call")
