"""Arguments and results as trees: dicts, lists, tuples, NamedTuples, dataclasses and None.

optree does the work under the namespace ``dlvm``; a dataclass is registered when it is first
met. Every leaf has a path, from which its parameter in IR text and its label in messages come.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
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

IsLeaf = Callable[[Any], bool] | None
NAMESPACE = "dlvm"
FIELDS = "dlvm.fields"
"""The namespace in which all fields of a dataclass are parts, configuration among them."""
_PLAIN: set[type] = {np.ndarray, Tensor, float, int, bool, Size}
_registered: set[type] = set()
_with_all_fields: set[type] = set()
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


def flatten_with_none(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Spec]:
    """The leaves of a tree, None among them, and its structure."""
    import optree

    flatten(tree)
    return optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=NAMESPACE)


def flatten_fields(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Spec]:
    """The leaves of a tree, None and configuration among them, and its structure."""
    import optree

    while True:
        leaves, spec = optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=FIELDS)
        found: dict[type[Any], None] = dict.fromkeys(
            x.__class__ for x in leaves if not (is_leaf and is_leaf(x))
        )
        unknown = [cls for cls in found if _registrable(cls, _with_all_fields)]
        if not unknown:
            return leaves, spec
        for cls in unknown:
            _register_all_fields(cls)


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


def map_leaves(fn: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Applies a function to the leaves at the same place of trees of one structure.

    Where one tree has None, as a gradient has for leaves that are no floats, the result has the
    leaf of the first tree that is not None; a None that ``is_leaf`` calls a leaf is one.
    """
    leaves, spec = flatten_with_none(tree, is_leaf)
    if is_leaf is None:
        others = [_same(leaves, spec, t, i) for i, t in enumerate(rest, 2)]
    else:
        others = [_parts_at(leaves, spec, t, i) for i, t in enumerate(rest, 2)]
    whole = is_leaf is not None and bool(is_leaf(None))
    rows = zip(leaves, *others, strict=True)
    return unflatten(spec, [fn(*xs) if whole else _mapped(fn, xs) for xs in rows])


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
        raise _other_structure(place, spec, found, leaves, others)
    return others


def _parts_at(leaves: list[Any], spec: Spec, tree: Any, place: int) -> list[Any]:
    """The parts of another tree at the places of the leaves of a structure."""
    others, found = flatten_with_none(tree)
    try:
        return spec.flatten_up_to(tree)
    except ValueError:
        raise _other_structure(place, spec, found, leaves, others) from None


def _other_structure(
    place: int, spec: Spec, found: Spec, leaves: list[Any], others: list[Any]
) -> UserError:
    from .comparing import unlike

    return UserError(
        f"the trees differ: tree_{place}{unlike('', spec, found, leaves, others)}",
        origin=user_origin(),
        remedy="give trees of the same dicts, tuples and configuration, with a leaf in each "
        "place; None stands for a leaf that is not there",
    )


def spread(marks: Any, spec: Spec) -> Iterator[Any]:
    """The mark of each leaf: marks of the same structure, or one for a whole subtree.

    A dataclass may have truth values or labels in its fields, where they would be configuration in
    any other tree.
    """
    if spec.is_leaf() or type(marks) is not spec.type:
        yield from [marks] * spec.num_leaves
        return
    places: list[Any] = spec.entries()
    inside: list[Any]
    if dataclasses.is_dataclass(marks):
        inside = [getattr(marks, place) for place in places]
    elif (set(marks) if isinstance(marks, dict) else set(range(len(marks)))) == set(places):  # pyright: ignore[reportUnknownArgumentType]
        inside = [marks[place] for place in places]
    else:
        raise ValueError(f"expected {places}, found {marks}")
    for part, child in zip(inside, spec.children(), strict=True):
        yield from spread(part, child)


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


def as_dataclass(x: Any, depth: int = 3) -> str | None:
    """How an object of an undecorated class that holds arrays becomes a tree; None for others."""
    cls: type = x.__class__
    held: dict[str, Any] = getattr(x, "__dict__", None) or {}
    if isinstance(x, type) or (callable(x) and hasattr(x, "__code__")) or not depth:
        return None
    arrays = [name for name, value in held.items() if _holds_arrays(value, depth)]
    if not arrays:
        return None
    fields = ", ".join(f"{name}: Any" for name in held)
    return (
        f"write @dataclasses.dataclass above class {cls.__name__}, and its fields in it: {fields}"
    )


def _holds_arrays(value: Any, depth: int) -> bool:
    found = flatten(value)[0]
    return any(isinstance(x, np.ndarray | Tensor) or as_dataclass(x, depth - 1) for x in found)


def _registrable(cls: type[Any], known: set[type] = _registered) -> bool:
    return dataclasses.is_dataclass(cls) and cls not in known


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


def _register_all_fields(cls: type[Any]) -> None:
    def take(x: Any) -> tuple[tuple[Any, ...], tuple[str, ...], tuple[str, ...]]:
        names = tuple(f.name for f in dataclasses.fields(cls) if hasattr(x, f.name))
        return tuple(getattr(x, n) for n in names), names, names

    def build(names: tuple[str, ...], children: tuple[Any, ...]) -> Any:
        made: Any = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    _node(cls, take, build, FIELDS, _with_all_fields)


def node(cls: type[Any], take: Callable[[Any], Any], build: Callable[[Any, Any], Any]) -> None:
    """Registers a class whose objects are nodes of trees, once."""
    _node(cls, take, build, NAMESPACE, _registered)


def _node(
    cls: type[Any],
    take: Callable[[Any], Any],
    build: Callable[[Any, Any], Any],
    namespace: str,
    known: set[type],
) -> None:
    if cls in known:
        return
    import optree

    with _LOCK:
        if cls in known:
            return
        entry = optree.GetAttrEntry
        register: Any = getattr(optree, "register_pytree_node")  # noqa: B009  # its types are partly unknown
        register(cls, take, build, path_entry_type=entry, namespace=namespace)
        known.add(cls)
