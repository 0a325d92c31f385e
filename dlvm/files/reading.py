"""``load``: the arrays of a file, mapped into memory, by name or in the structure of a tree.

The package safetensors checks a file as a whole: that its header is text of the right form, and
that the arrays lie side by side and fill the file. What it lets pass and we do not take is refused
here: names that stand twice, and element types that dlvm does not have.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError, UserError, did_you_mean
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import type_of, user_origin
from dlvm.dsl.trace.specs import WEAK, given, known_type
from dlvm.dsl.trace.trees import flatten, labels, unflatten
from dlvm.ir import BOOL, NUMBERS, Array

from .names import RESERVED, names_of, path_of

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
def load(path: str | os.PathLike[str], like: Any = None) -> Any:
    """The arrays of a file of the format safetensors: a dict by name, or a tree like another one.

    ``like`` is a tree of arrays, numbers or specs, such as ``dlvm.eval_shape`` gives: the result
    has its structure and its configuration, and each array must have the shape and the element type
    of the leaf at its place. Arrays are read from the disk when they are used. They may be changed;
    the file does not change. It must not be written in place meanwhile; ``dlvm.save`` puts a new
    file in its place, which does no harm.
    """
    file = path_of("load", path, "dlvm.load(path, like=tree)")
    found = _arrays(file)
    return found if like is None else _in_place_of(like, found, file)


def _bad(file: str, why: str) -> UserError:
    return UserError(f"load: {file!r}: {why}", origin=user_origin(), remedy=OTHER)


# -- bytes -----------------------------------------------------------------------------------------


def _arrays(file: str) -> dict[str, Array]:
    data = _mapped(file)
    first = START + int.from_bytes(data[:START], "little")
    try:
        entries: dict[str, Any] = json.loads(data[START:first], object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _bad(file, f"its header can't be read: {error}") from None
    entries.pop(RESERVED, None)
    every = sorted(entries.items())
    return {name: _array(file, name, entry, data, first) for name, entry in every}


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


def _in_place_of(like: Any, found: dict[str, Array], file: str) -> Any:
    """The arrays in the structure of a tree whose leaves have their types."""
    leaves, spec = flatten(like)
    names, places = names_of("load", spec, "like"), labels(spec, "like")
    _check_names(file, names, list(found))
    rows = zip(leaves, names, places, strict=True)
    return unflatten(spec, [_fitted(file, x, found[n], n, at) for x, n, at in rows])


def _check_names(file: str, names: list[str], found: list[str]) -> None:
    """Checks that a file and a tree have the same names."""
    missing = sorted({*names} - {*found})
    extra = sorted({*found} - {*names})
    if missing:
        near = did_you_mean(missing[0], extra)
        raise UserError(
            f"load: {file!r} has no {_listed(missing)}, which like= has{near}",
            origin=user_origin(),
            remedy="give a tree with the names of the file, which dlvm.load(path) shows",
        )
    if extra:
        raise UserError(
            f"load: {file!r} has {_listed(extra)}, for which like= has no place",
            origin=user_origin(),
            remedy="give a tree with the names of the file; dlvm.load(path) gives all by name",
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
