"""Arguments and results as trees: dicts, lists, tuples, NamedTuples, dataclasses and None.

optree does the work under the namespace ``dlvm``; a dataclass is registered when it is first
met. Every leaf has a path, from which its parameter in IR text and its label in messages come.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm.base.errors import UserError

from .scopes import plain_name, user_origin
from .sizes import Size
from .tensor import Tensor

if TYPE_CHECKING:
    from optree import PyTreeSpec as Spec
else:
    Spec = object  # for annotations; optree is imported with the first tree that is taken apart

NAMESPACE = "dlvm"
_PLAIN: set[type] = {np.ndarray, Tensor, float, int, bool, Size}
_registered: set[type] = set()


def flatten(tree: Any) -> tuple[list[Any], Spec]:
    """The leaves of a tree and its structure."""
    import optree

    while True:
        leaves, spec = optree.tree_flatten(tree, namespace=NAMESPACE)
        unknown = [cls for x in leaves if (cls := x.__class__) not in _PLAIN and _registrable(cls)]
        if not unknown:
            return leaves, spec
        for cls in dict.fromkeys(unknown):
            _register(cls)


def flatten_with_none(tree: Any) -> tuple[list[Any], Spec]:
    """The leaves of a tree, None among them, and its structure."""
    import optree

    flatten(tree)
    return optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any]:
    """For each leaf of a tree what stands at its place, or above it, in a prefix of the tree."""
    import optree

    leaves, _ = flatten_with_none(tree)
    spread = optree.broadcast_prefix(prefix, tree, none_is_leaf=True, namespace=NAMESPACE)
    return [a for a, leaf in zip(spread, leaves, strict=True) if leaf is not None]


def node_kinds(values: Any) -> list[type]:
    """The classes of objects that are nodes of a tree, such as dataclasses and NamedTuples."""
    if isinstance(values, dict):
        return node_kinds(list(values.values()))  # pyright: ignore[reportUnknownArgumentType]
    own = [type(values)] if dataclasses.is_dataclass(values) else []
    if isinstance(values, tuple | list):
        named = [type(values)] if hasattr(values, "_fields") else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return [*named, *(k for x in values for k in node_kinds(x))]  # pyright: ignore[reportUnknownVariableType]
    fields = [f.name for f in dataclasses.fields(values)] if own else []  # pyright: ignore[reportArgumentType]
    return [*own, *(k for n in fields for k in node_kinds(getattr(values, n)))]


def structure(tree: Any) -> Spec:
    """The structure of a tree."""
    return flatten(tree)[1]


def unflatten(spec: Spec, leaves: Sequence[Any]) -> Any:
    """The tree of a structure with these leaves."""
    import optree

    return optree.tree_unflatten(spec, leaves)


def map_leaves(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """A function of the leaves that stand at the same place in trees of one structure."""
    leaves, spec = flatten(tree)
    others = [_same(spec, t) for t in rest]
    return unflatten(spec, [fn(*xs) for xs in zip(leaves, *others, strict=True)])


def _same(spec: Spec, tree: Any) -> list[Any]:
    leaves, found = flatten(tree)
    if found != spec:
        raise UserError(
            f"trees of different structure: {shown(spec)} and {shown(found)}",
            origin=user_origin(),
            remedy="give trees of the same dicts and tuples, with a leaf in each place",
        )
    return leaves


def shown(spec: Spec) -> str:
    """A structure in messages, with a star for each leaf."""
    text = str(spec).removeprefix("PyTreeSpec(").removesuffix(")")
    return text.split(", namespace=")[0].removesuffix(", NoneIsLeaf")


def labels(spec: Spec, name: str) -> list[str]:
    """What a user writes to reach each leaf: ``params['w1']``."""
    import optree

    return [accessor.codify(name) for accessor in optree.treespec_accessors(spec)]


def paths(spec: Spec, name: str) -> list[str]:
    """The name of each leaf in IR text: ``params_w1``."""
    return [plain_name(label) for label in labels(spec, name)]


def _registrable(cls: type[Any]) -> bool:
    return dataclasses.is_dataclass(cls)


def _register(cls: type[Any]) -> None:
    import optree

    if cls in _registered:
        raise UserError(f"a field of the dataclass {cls.__name__} holds the dataclass itself")
    _registered.add(cls)
    names = tuple(f.name for f in dataclasses.fields(cls))

    def take(x: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
        return tuple(getattr(x, n) for n in names), None, names

    def build(_: None, children: tuple[Any, ...]) -> Any:
        made: Any = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    entry = optree.GetAttrEntry
    register: Any = getattr(optree, "register_pytree_node")  # noqa: B009  # its types are partly unknown
    register(cls, take, build, path_entry_type=entry, namespace=NAMESPACE)
