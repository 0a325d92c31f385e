"""``load``: the arrays of a file, mapped into memory, by name or in the structure of a tree.

The package safetensors checks a file as a whole: that its header is text of the right form, and
that the arrays lie side by side and fill the file. What it lets pass and we do not take is refused
here: names that stand twice, and element types that dlvm does not have.
"""

from __future__ import annotations

import json
import logging
import math
import mmap
import os
import stat
from collections.abc import Iterable
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, DTypeError, ShapeError, UserError, did_you_mean
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import type_of, user_origin
from dlvm.dsl.trace.specs import WEAK, given, known_type
from dlvm.dsl.trace.specs import Spec as Types
from dlvm.dsl.trace.trees import flatten, labels, unflatten
from dlvm.ir import BOOL, NUMBERS, Array

from .names import ALONE, RESERVED, names_of, path_of

LOG = logging.getLogger("dlvm.files")
START = 8
"""Bytes before the header, which say how long it is."""
TYPES = {t.name.upper(): t for t in NUMBERS}
"""Element types by their names in files."""
SHOWN = 3
"""Names that a message lists at most."""
ROUNDS = 10
"""How often reading starts again because another process puts a new file in the place."""
OTHER = "give a file that dlvm.save or another writer of the format safetensors has written"


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
    data, first, entries = _opened(file)
    chosen = _chosen(file, sorted(entries), wanted, prefix)
    found = {new: _array(file, old, entries[old], data, first) for old, new in chosen.items()}
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


def _bad(file: str, why: str) -> UserError:
    return UserError(f"load: {file!r}: {why}", origin=user_origin(), remedy=OTHER)


# -- bytes -----------------------------------------------------------------------------------------


def _opened(file: str) -> tuple[mmap.mmap, int, dict[str, Any]]:
    """The bytes of a file, where its arrays begin, and the entry of each array in the header."""
    data = _mapped(file)
    first = START + int.from_bytes(data[:START], "little")
    try:
        entries: dict[str, Any] = json.loads(data[START:first], object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _bad(file, f"its header can't be read: {error}") from None
    entries.pop(RESERVED, None)
    return data, first, entries


def _mapped(file: str) -> mmap.mmap:
    """The bytes of a file that safetensors has checked; what is written to them stays here."""
    from safetensors import SafetensorError, safe_open

    for _ in range(ROUNDS):
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise _bad(file, "it is no file, but a folder or a device")
        with open(file, "rb") as opened:
            try:
                with safe_open(file, framework="np"):
                    pass
            except SafetensorError as error:
                raise _bad(file, f"it is no whole file of safetensors: {error}") from None
            if os.path.samestat(os.fstat(opened.fileno()), os.stat(file)):
                return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    raise _bad(file, "another process replaces it all the time")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a name that stands twice in it is an error."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in it")
    return found


def _array(file: str, name: str, entry: dict[str, Any], data: mmap.mmap, first: int) -> Array:
    dtype = TYPES.get(entry["dtype"])
    if dtype is None:
        raise DTypeError(
            f"load: {file!r}: {name} has elements of type {entry['dtype']}; there are "
            f"{', '.join(map(str, NUMBERS))}",
            origin=user_origin(),
            remedy="convert it where the file was written",
        )
    start, end = (first + offset for offset in entry["data_offsets"])
    kind, count = dtype.numpy, math.prod(entry["shape"])
    if end > len(data) or end - start != count * kind.itemsize:
        raise _bad(file, f"{name} does not lie within it")
    flat: Array = np.frombuffer(data, kind, count, start) if count else np.empty(0, kind)
    try:
        array: Array = flat.reshape(entry["shape"])
    except ValueError as error:
        raise _bad(file, f"{name} has a shape that no array has: {error}") from None
    if dtype is BOOL and (array.view(np.uint8) > 1).any():
        raise _bad(file, f"{name} has elements of type bool that are neither 0 nor 1")
    return array if array.flags.aligned else array.copy()


# -- trees -----------------------------------------------------------------------------------------


def _in_place_of(like: Any, found: dict[str, Array], file: str, strict: bool) -> Any:
    """The arrays in the structure of a tree whose leaves have their types."""
    leaves, spec = flatten(like)
    names, places = names_of("load", spec, "like"), labels(spec, "like")
    if strict:
        _check_names(file, names, list(found))
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


def _check_names(file: str, names: list[str], found: list[str]) -> None:
    """Checks that a file and a tree have the same names."""
    missing = sorted({*names} - {*found})
    extra = sorted({*found} - {*names})
    if missing:
        near = did_you_mean(missing[0], extra)
        raise UserError(
            f"load: {file!r} has no {_listed(missing)}, which like= has{near}",
            origin=user_origin(),
            remedy="give a tree with the names of the file, which dlvm.load(path) shows; "
            "strict=False keeps what like= has",
        )
    if extra:
        raise UserError(
            f"load: {file!r} has {_listed(extra)}, for which like= has no place",
            origin=user_origin(),
            remedy="give a tree with the names of the file, or strict=False to leave others out; "
            "dlvm.load(path) gives all by name",
        )


def _listed(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _fitted(file: str, leaf: Any, array: Array, name: str, place: str) -> Any:
    """An array in the place of a leaf; a Python number in the place of one."""
    expected, found = known_type(given(leaf, place), place), type_of(array)
    if found != expected:
        kind = DTypeError if found.shape == expected.shape else ShapeError
        raise kind(
            f"load: {file!r}: {name} is {found}, and {place} is {expected}",
            origin=user_origin(),
            remedy="give a tree of the types in the file, or convert what dlvm.load(path) gives",
        )
    return type(leaf)(array[()]) if type(leaf) in WEAK else array
