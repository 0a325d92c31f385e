"""``dlvm cache``: shows where compiled code is kept and how large it is; clears or verifies it."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from dlvm.base.errors import UserError
from dlvm.base.units import size

from .describing import subcommand
from .output import coloured, print_json, print_table

if TYPE_CHECKING:
    from dlvm.gen.llvm.disk import Store

Facts = dict[str, Any] | list[dict[str, Any]]
Found = tuple[Facts, int]
ACTIONS = ("where", "size", "list", "clear", "verify")


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "cache",
        "show, clear or verify the compiled code on disk",
        "list",
    )
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="size")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carries out the action; returns 1 if damaged files were found."""
    from dlvm.gen.llvm.cache import store

    found = store()
    if found is None:
        raise UserError("the cache is off, so it holds no code", remedy="unset DLVM_CACHE")
    act = {"where": _where, "size": _size, "list": _list, "clear": _clear, "verify": _verify}
    facts, code = act[options.action](found)
    if options.json:
        print_json(facts)
    elif isinstance(facts, list):
        print_table([("key", "size", "last used"), *map(_row, facts)])
    else:
        for name, fact in facts.items():
            print(f"{name}: {size(fact) if name in ('bytes', 'limit') else fact}")
    return code


def _where(store: Store) -> Found:
    return {"folder": str(store.folder)}, 0


def _size(store: Store) -> Found:
    kept = store.entries()
    total = sum(e.bytes for e in kept)
    folder = str(store.folder)
    return {"folder": folder, "files": len(kept), "bytes": total, "limit": store.limit}, 0


def _list(store: Store) -> Found:
    return [{"key": e.key, "bytes": e.bytes, "used": e.used} for e in store.entries()], 0


def _row(fact: dict[str, Any]) -> tuple[str, str, str]:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(fact["used"]))
    return fact["key"], size(fact["bytes"]), when


def _clear(store: Store) -> Found:
    kept = store.entries()
    for entry in kept:
        store.remove(entry.key)
    return {"removed": len(kept)}, 0


def _verify(store: Store) -> Found:
    """Removes damaged files; their code is compiled again when it is needed."""
    files, damaged = len(store.entries()), store.damaged()
    for key, _ in damaged:
        store.remove(key)
    facts: dict[str, Any] = {"files": files, "damaged": [why for _, why in damaged]}
    facts["state"] = coloured("damaged files removed", "red") if damaged else "sound"
    return facts, 1 if damaged else 0
