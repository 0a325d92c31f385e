"""``save``: a tree of arrays becomes a file, at once or not at all.

The file is written in a folder of its own beside the old file, brought to the disk, and renamed. A
process that is killed meanwhile leaves the old file, and that folder, which a later save removes.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dlvm.base import system
from dlvm.base.errors import NumberOutOfRange
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import type_of, user_origin
from dlvm.dsl.trace.specs import concrete
from dlvm.dsl.trace.trees import flatten, labels
from dlvm.ir import I64, Array

from .names import names_of, path_of, refuse_sharded

ABANDONED = 3600.0
"""Seconds without a write after which the folder of an unfinished save has no owner any more."""

KEEP = "keep it by dlvm.states(folder).save(step, tree), or save {}.whole()"


@facing_users
def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Writes a tree of arrays and numbers to a file of the format safetensors.

    An array is named by its path in the tree, with dots: ``blocks.0.qkv``. Elements keep all their
    bits; a Python number becomes an array without axes; None and configuration are left out. A save
    that is killed at any moment leaves the file that was there before.
    """
    file = path_of("save", path, "dlvm.save(path, tree)")
    written, spec = flatten(tree)
    names = names_of("save", spec, "tree")
    pairs = zip(written, labels(spec, "tree"), strict=True)
    arrays: dict[str, Array] = {}
    for name, (leaf, label) in zip(names, pairs, strict=True):
        refuse_sharded("save", leaf, label, KEEP.format(label))
        arrays[name] = saved(leaf, label)
    write_arrays(Path(os.path.realpath(file)), arrays)


def saved(leaf: Any, label: str) -> Array:
    """A leaf as an array whose elements lie side by side."""
    if isinstance(leaf, int) and not I64.lowest <= leaf <= I64.highest:
        raise NumberOutOfRange(
            f"save: {label} is the integer {leaf}, which does not fit in i64",
            origin=user_origin(),
            remedy="save it as a float, or as an array of u64",
        )
    array = concrete("save", leaf, label)
    type_of(array, label)
    return np.asarray(array, order="C")


def write_arrays(target: Path, arrays: dict[str, Array]) -> None:
    """Writes arrays to a file, at once or not at all."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

    try:
        write_whole(target, lambda new: save_file(arrays, new))
    except SafetensorError as error:
        raise OSError(f"save: {target} could not be written: {error}") from None


def write_whole(target: Path, fill: Callable[[Path], object]) -> None:
    """Gives a file its name once it is complete and on the disk; ``fill`` writes it."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "save: there is no such folder", str(target.parent))
    _tidy(target)
    folder = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
    try:
        new = folder / target.name
        new.touch()
        mode = (target if target.exists() else new).stat().st_mode
        fill(new)
        new.chmod(mode & 0o7777)
        to_disk(new)
        _put(new, target)
        to_disk(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put(new: Path, target: Path) -> None:
    """Give a complete file its name, in the place of an older one."""
    try:
        os.replace(new, target)
    except PermissionError:
        if system.has(system.REPLACING) or not target.exists():
            raise
        raise system.lacking(system.REPLACING, f"save: {target}") from None


def _prefix(target: Path) -> str:
    return f".{target.name[:50]}.saving-"


def to_disk(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    windows = system.HERE == "Windows"
    if windows and path.is_dir():
        return  # folders can't be opened there, and files only be waited for by who may write them
    handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _tidy(target: Path) -> None:
    """Removes what killed saves of the same file left, once nobody can be writing it."""
    for folder in target.parent.glob(f"{glob.escape(_prefix(target))}*"):
        try:
            written = max(p.stat().st_mtime for p in (folder, *folder.iterdir()))
        except OSError:
            continue  # another process removes it
        if time.time() - written > ABANDONED:
            shutil.rmtree(folder, ignore_errors=True)
