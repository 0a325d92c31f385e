"""``load``: the arrays of a file by name, or in the structure of a tree."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from dlvm.base.errors import ArgumentError, DTypeError, ShapeError, UserError, did_you_mean
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import type_of, user_origin
from dlvm.dsl.trace.specs import WEAK, given, known_type
from dlvm.dsl.trace.specs import Spec as Types
from dlvm.dsl.trace.trees import flatten, labels, unflatten
from dlvm.ir import Array, TensorType

from .contents import opened
from .names import ALONE, names_of, path_of, refuse_sharded

LOG = logging.getLogger("dlvm.files")
Parts = tuple[str, str]
"""Remedies where a file has less than a tree, and where it has more."""
PARTS = (
    "give a tree with the names of the file, which dlvm.load(path) shows; "
    "strict=False keeps what like= has",
    "give a tree with the names of the file, or strict=False to leave others out; "
    "dlvm.load(path) gives all by name",
)
RESTORE = (
    "restore it by dlvm.states(folder).restore(like), or load whole arrays, and dlvm.shard them"
)
SHOWN = 3
"""Names that a message lists at most."""


@facing_users
def load(
    path: str | os.PathLike[str],
    like: Any = None,
    *,
    names: Iterable[str] | None = None,
    prefix: str | None = None,
    strict: bool = True,
) -> Any:
    """The arrays of a file of the format safetensors: a dict by name, or a tree like another one.

    ``like`` is a tree of arrays, numbers or specs, such as ``dlvm.eval_shape`` gives: the result
    has its structure and its configuration, and each array must have the shape and the element type
    of the leaf at its place. Arrays are read from the disk when they are used. They may be changed;
    the file does not change. It must not be written in place meanwhile; ``dlvm.save`` puts a new
    file in its place, which does no harm.

    ``names`` reads these arrays alone, as a dict. ``prefix`` reads those whose names begin with it
    and a dot, as a file of its own: ``prefix="params"`` gives ``params.w`` the name ``w``. With
    ``strict=False``, leaves of ``like`` that the file lacks stay as they are in ``like``, and names
    for which it has no place are left out; the log ``dlvm.files`` lists both.
    """
    file = path_of("load", path, "dlvm.load(path, like=tree)")
    wanted = None if names is None else _names_given(names)
    _check_selection(like, wanted, prefix, strict)
    contents = opened(file)
    chosen = _chosen(file, sorted(contents.entries), wanted, prefix)
    found = {new: contents.array(old) for old, new in chosen.items()}
    return found if like is None else _in_place_of(like, found, file, strict)


def _names_given(names: Iterable[str]) -> list[str]:
    found: list[Any] = [names] if isinstance(names, str) else list(names)
    if not all(isinstance(name, str) for name in found):
        raise ArgumentError(
            f"load: names={names!r:.60}: expected names of arrays",
            origin=user_origin(),
            remedy='give a list of names, such as names=["layers.0.weight"]',
        )
    return found


def _check_selection(like: Any, names: Any, prefix: Any, strict: bool) -> None:
    """Checks that what is selected goes together."""
    if names is not None and (like is not None or prefix is not None):
        other = "prefix" if like is None else "like"
        raise ArgumentError(
            f"load: names= and {other}= are given, and names= gives a dict by names in the file",
            origin=user_origin(),
            remedy="leave names= out; strict=False takes a tree that has a part of the names",
        )
    if not strict and like is None:
        raise ArgumentError(
            "load: strict=False is given, and there is no tree that could differ from the file",
            origin=user_origin(),
            remedy="give a tree as well: dlvm.load(path, like=tree, strict=False)",
        )


def _chosen(
    file: str, every: list[str], names: list[str] | None, prefix: str | None
) -> dict[str, str]:
    """The names in the file that are read, each with its name in what is returned."""
    if names is not None:
        for name in names:
            if name not in every:
                raise _lacks(file, name, every)
        return {name: name for name in every if name in names}
    if prefix is None:
        return {name: name for name in every}
    inside = {name: name[len(prefix) + 1 :] for name in every if name.startswith(f"{prefix}.")}
    alone = {prefix: ALONE} if prefix in every else {}
    if not inside and not alone:
        raise _lacks(file, prefix, sorted({name.partition(".")[0] for name in every}))
    return {**alone, **inside}


def _lacks(file: str, name: str, known: list[str]) -> ArgumentError:
    return ArgumentError(
        f"load: {file!r} has no {name!r}{did_you_mean(name, known)}",
        origin=user_origin(),
        remedy="give names of the file, which dlvm.load(path) shows",
    )


# -- trees -----------------------------------------------------------------------------------------


def _in_place_of(like: Any, found: dict[str, Array], file: str, strict: bool) -> Any:
    """The arrays in the structure of a tree whose leaves have their types."""
    leaves, spec = flatten(like)
    names, places = names_of("load", spec, "like"), labels(spec, "like")
    for leaf, place in zip(leaves, places, strict=True):
        refuse_sharded("load", leaf, place, RESTORE)
    if strict:
        check_names("load", file, names, list(found), PARTS)
    else:
        _tell_names(file, names, list(found))
    rows = zip(leaves, names, places, strict=True)
    return unflatten(
        spec,
        [
            _fitted(file, x, found[n], n, at) if n in found else _kept(file, x, n, at)
            for x, n, at in rows
        ],
    )


def _tell_names(file: str, names: list[str], found: list[str]) -> None:
    """Writes the names that a file and a tree do not share into the log."""
    missing, extra = sorted({*names} - {*found}), sorted({*found} - {*names})
    if missing:
        LOG.warning("load: %r has no %s: kept from like=", file, ", ".join(missing))
    if extra:
        LOG.warning("load: %r has %s: left out, not in like=", file, ", ".join(extra))


def _kept(file: str, leaf: Any, name: str, place: str) -> Any:
    """The leaf of ``like`` itself, which must have elements."""
    if isinstance(leaf, Types):
        raise ArgumentError(
            f"load: {file!r} has no {name}, and {place} is a spec, which has no elements",
            origin=user_origin(),
            remedy="give arrays in place of specs for what the file may lack",
        )
    return leaf


def check_names(what: str, file: str, names: list[str], found: list[str], parts: Parts) -> None:
    """Checks that a file and a tree have the same names."""
    missing = sorted({*names} - {*found})
    extra = sorted({*found} - {*names})
    if missing:
        near = did_you_mean(missing[0], extra)
        raise UserError(
            f"{what}: {file!r} has no {_listed(missing)}, which like= has{near}",
            origin=user_origin(),
            remedy=parts[0],
        )
    if extra:
        raise UserError(
            f"{what}: {file!r} has {_listed(extra)}, for which like= has no place",
            origin=user_origin(),
            remedy=parts[1],
        )


def _listed(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _fitted(file: str, leaf: Any, array: Array, name: str, place: str) -> Any:
    """An array in the place of a leaf; a Python number in the place of one."""
    remedy = "give a tree of the types in the file, or convert what dlvm.load(path) gives"
    check_type(f"load: {file!r}: {name}", type_of(array), leaf, place, remedy)
    return in_place_of(leaf, array)


def check_type(said: str, found: TensorType, leaf: Any, place: str, remedy: str) -> None:
    """Checks that what a file has is of the type of a leaf."""
    expected = known_type(given(leaf, place), place)
    if found != expected:
        kind = DTypeError if found.shape == expected.shape else ShapeError
        message = f"{said} is {found}, and {place} is {expected}"
        raise kind(message, origin=user_origin(), remedy=remedy)


def in_place_of(leaf: Any, array: Any) -> Any:
    """An array, or a Python number in the place of one."""
    return type(leaf)(array[()]) if type(leaf) in WEAK else array
