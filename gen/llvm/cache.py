"""The cache of compiled code of this user: where it is, how large it may be, and what asks it.

A key says everything that the bytes depend on, so that nothing in the cache is ever out of date;
see ``store`` for what is believed of the disk.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from dlvm.base import environment
from dlvm.base.locks import Order, held_at_fork

from .disk import Store

LIMIT = 1 << 30
log = logging.getLogger("dlvm.cache")


def store() -> Store | None:
    """The user's store, or None where ``DLVM_CACHE=0`` or there is no place for one."""
    if environment.value("DLVM_CACHE") == "0":
        return None
    return _store(folder_of_user(), environment.value("DLVM_CACHE_BYTES"))


@cache
def _store(path: Path, limit: str) -> Store | None:
    if not path.is_absolute():
        log.warning("compiled code is not kept: %s is not an absolute path", path)
        return None
    if limit and not limit.isdecimal():
        log.warning("DLVM_CACHE_BYTES=%s is not a number of bytes; %d it is", limit, LIMIT)
    found = Store(path / "v1", int(limit) if limit.isdecimal() else LIMIT)
    held_at_fork(found.lock, Order.STORE)
    return found


def folder_of_user() -> Path:
    """Where this user's files go that can all be made again."""
    if said := environment.value("DLVM_CACHE_DIR"):
        return Path(said)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("dlvm", appauthor=False))


@cache
def source(package: str, file: str) -> bytes | None:
    """A file of ours as it stands, for a key; None where the program was packed without it."""
    try:
        return pkgutil.get_data(package, file)
    except OSError:
        return None


def remembered(key: str | None, make: Callable[[], bytes]) -> bytes:
    """The bytes of a key, made and kept where they are not there yet; without one, just made."""
    kept = store()
    if kept is None or key is None:
        return make()
    found = kept.get(key)
    if found is None:
        found = make()
        kept.put(key, found)
    return found
