"""Arguments and results as trees: dicts, lists, tuples, NamedTuples, dataclasses and None.

optree does the work under the namespace ``dlvm``; a dataclass is registered when it is first
met. Every leaf has a path, from which its parameter in IR text and its label in messages come.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm.base.errors import UserError

from .configuration import Parts, functions, parts
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
_LOCK = threading.Lock()


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
    """For each leaf of a tree the part of a prefix tree at its place or above it."""
    import optree

    leaves, _ = flatten_with_none(tree)
    spread = optree.broadcast_prefix(prefix, tree, none_is_leaf=True, namespace=NAMESPACE)
    return [a for a, leaf in zip(spread, leaves, strict=True) if leaf is not None]


def node_kinds(values: Any) -> list[type]:
    """The classes of objects that are nodes of a tree, such as dataclasses and NamedTuples."""
    if isinstance(values, dict):
        return node_kinds(list(values.values()))  # pyright: ignore[reportUnknownArgumentType]
    cls: type = values.__class__
    own = [cls] if dataclasses.is_dataclass(cls) else []
    if isinstance(values, tuple | list):
        named = [type(values)] if hasattr(values, "_fields") else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return [*named, *(k for x in values for k in node_kinds(x))]  # pyright: ignore[reportUnknownVariableType]
    return [
        *own,
        *(k for n in (parts(values)[0] if own else ()) for k in node_kinds(getattr(values, n))),
    ]


def structure(tree: Any) -> Spec:
    """The structure of a tree."""
    return flatten(tree)[1]


def unflatten(spec: Spec, leaves: Sequence[Any]) -> Any:
    """The tree of a structure with these leaves."""
    import optree

    return optree.tree_unflatten(spec, leaves)


def map_leaves(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Applies a function to the leaves at the same place of trees of one structure.

    Where one tree has None, as a gradient has for leaves that are no floats, the result has the
    leaf of the first tree that is not None.
    """
    leaves, spec = flatten_with_none(tree)
    others = [_same(leaves, spec, t, i) for i, t in enumerate(rest, 2)]
    return unflatten(spec, [_mapped(fn, xs) for xs in zip(leaves, *others, strict=True)])


def map_with_keys(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """The same for a function whose first argument is the path of the leaves."""
    leaves, spec = flatten_with_none(tree)
    others = [_same(leaves, spec, t, i) for i, t in enumerate(rest, 2)]
    rows = zip(keys(spec), zip(leaves, *others, strict=True), strict=True)
    return unflatten(spec, [_mapped(functools.partial(fn, path), xs) for path, xs in rows])


def _mapped(fn: Callable[..., Any], xs: tuple[Any, ...]) -> Any:
    if all(x is not None for x in xs):
        return fn(*xs)
    return next((x for x in xs if x is not None), None)


def _same(leaves: list[Any], spec: Spec, tree: Any, place: int) -> list[Any]:
    others, found = flatten_with_none(tree)
    if found != spec:
        from .comparing import unlike

        raise UserError(
            f"the trees differ: tree_{place}{unlike('', spec, found, leaves, others)}",
            origin=user_origin(),
            remedy="give trees of the same dicts, tuples and configuration, with a leaf in each "
            "place; None stands for a leaf that is not there",
        )
    return others


def captured_functions(values: Any) -> list[Callable[..., Any]]:
    """The functions among the configuration of dataclasses; what they capture is captured."""
    if isinstance(values, dict):
        values = list(values.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(values, tuple | list):
        return [f for x in values for f in captured_functions(x)]  # pyright: ignore[reportUnknownVariableType]
    if not dataclasses.is_dataclass(values) or isinstance(values, type):
        return []
    names, settings = parts(values)
    within = [getattr(values, n) for n in names]
    return [*functions(settings), *captured_functions(within)]


def labels(spec: Spec, name: str) -> list[str]:
    """What a user writes to reach each leaf: ``params['w1']``."""
    import optree

    return [accessor.codify(name) for accessor in optree.treespec_accessors(spec)]


def keys(spec: Spec) -> list[tuple[Any, ...]]:
    """The path of each leaf: keys of dicts, positions, and names of fields."""
    import optree

    every = optree.treespec_accessors(spec)
    return [tuple(getattr(e, "field", e.entry) for e in accessor) for accessor in every]


def paths(spec: Spec, name: str) -> list[str]:
    """The name of each leaf in IR text: ``params_w1``."""
    return [plain_name(label) for label in labels(spec, name)]


def _registrable(cls: type[Any]) -> bool:
    return dataclasses.is_dataclass(cls) and cls not in _registered


def _register(cls: type[Any]) -> None:
    def take(x: Any) -> tuple[tuple[Any, ...], Parts, tuple[str, ...]]:
        names, settings = parts(x)
        return tuple(getattr(x, n) for n in names), (names, settings), names

    def build(form: Parts, children: tuple[Any, ...]) -> Any:
        made: Any = object.__new__(cls)
        names, settings = form
        for name, child in zip(names, children, strict=True):
            object.__setattr__(made, name, child)
        for name, setting in settings:
            if setting.value is not dataclasses.MISSING:
                object.__setattr__(made, name, setting.value)
        return made

    node(cls, take, build)


def node(cls: type[Any], take: Callable[[Any], Any], build: Callable[[Any, Any], Any]) -> None:
    """Registers a class whose objects are nodes of trees, once."""
    if cls in _registered:
        return
    import optree

    with _LOCK:
        if cls in _registered:
            return
        entry = optree.GetAttrEntry
        register: Any = getattr(optree, "register_pytree_node")  # noqa: B009  # its types are partly unknown
        register(cls, take, build, path_entry_type=entry, namespace=NAMESPACE)
        _registered.add(cls)
