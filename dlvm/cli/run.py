"""``dlvm run``: runs a program on arrays from files, or on random ones."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.dsl.trace.trees import flatten, labels

from .describing import add_out, subcommand
from .inputs import add_inputs, call_named
from .output import print_json


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "run",
        "run a program on arrays from files or random ones",
        'model.py:f "f32[B,3]" --size B=8',
    )
    add_inputs(parser)
    add_out(parser, "save the results as .npz or .npy")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the results, or saves them."""
    leaves, tree = flatten(call_named(options).run())
    names = [label.removeprefix("result") or "result" for label in labels(tree, "result")]
    results = dict(zip(names, map(np.asarray, leaves), strict=True))
    if options.out is not None:
        _save(options.out, results)
    elif options.json:
        print_json([_plain(name, a) for name, a in results.items()])
    else:
        for name, a in results.items():
            print(f"{name} : {_type(a)}\n{a}")
    return 0


def _save(path: Path, results: dict[str, Any]) -> None:
    if path.suffix == ".npy" and len(results) == 1:
        np.save(path, *results.values())
    elif path.suffix == ".npz":
        np.savez(path, **results)
    else:
        raise UserError(
            f"expected a .npz file, or .npy for a single result, found {path.name} for "
            f"{len(results)} results",
            remedy="name a .npz file",
        )


def _plain(name: str, a: Any) -> dict[str, Any]:
    return {"name": name, "type": _type(a), "values": a.tolist()}


def _type(a: Any) -> str:
    return f"{a.dtype}{list(a.shape)}" if a.shape else str(a.dtype)
