"""What a command line names: a function of a script, or IR text, and arguments for it.

``script.py:fn`` is imported, not run as a program; anything else is a file of IR text, and ``-``
is text on the standard input. Arguments are types (``f32[B,784]``), arrays (``x.npy``,
``data.npz``), Python literals (``3``, ``{'w': 'f32[3]'}``), each with ``name=`` in front if it is
given by name.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.base.errors import DlvmError, Origin, UserError
from dlvm.compile import Options, Road
from dlvm.dsl.call.function import StagedFunction, is_staged
from dlvm.ir import Module, parse

Staged = StagedFunction[..., Any]


@dataclass(frozen=True)
class Arguments:
    """What a function is to be called with; types stand for arrays."""

    given: list[Any] = field(default_factory=list[Any])
    named: dict[str, Any] = field(default_factory=dict[str, Any])


def add_named(parser: argparse.ArgumentParser) -> None:
    """The two arguments of every command that is about a program."""
    parser.add_argument("program", help="script.py:function, a file of IR text, or -")
    parser.add_argument(
        "arguments", nargs="*", help="f32[64,784], x.npy, 3, {'w': 'f32[3]'} or name=..."
    )


def function_named(program: str) -> Staged | None:
    """The function of a script, staged; None where IR text is named."""
    path, colon, name = program.rpartition(":")
    if not colon or not path.endswith(".py"):
        return None
    found: Any = _imported(Path(path))
    for part in name.split("."):
        if not hasattr(found, part):
            raise UserError(f"{path} has no {name!r}", remedy=_known(found))
        found = getattr(found, part)
    if not callable(found):
        raise UserError(f"{program} is {type(found).__name__}, not a function")
    return found if is_staged(found) else StagedFunction(found)


def module_named(program: str) -> Module:
    """The module of a file, or of the standard input."""
    if program == "-":
        return parse(sys.stdin.read())
    if not Path(program).exists():
        raise UserError(
            f"there is no file {program}", remedy="name script.py:function, a file of IR text or -"
        )
    if program.endswith(".py"):
        raise UserError(
            f"{program} is a script: which function of it is meant is not said",
            remedy=f"write {program}:function",
        )
    try:
        return parse(Path(program).read_text("utf8"))
    except UnicodeDecodeError:
        raise UserError(f"{program} is not text", remedy="name a file of IR text") from None


def road_named(program: str, arguments: Sequence[str]) -> Road:
    """The road of a program that is only looked at."""
    function = function_named(program)
    if function is None:
        _none_given(arguments)
        return Road(module_named(program).verify(), Options())
    given = arguments_of(arguments)
    mode = function.source.options.numerics
    return Road(function.trace(*given.given, **given.named), Options(numerics=mode))


def arguments_of(texts: Sequence[str]) -> Arguments:
    """Arguments as they are written on the command line."""
    found = Arguments()
    for text in texts:
        name, value = re.fullmatch(r"(?:([A-Za-z_]\w*)=)?(.*)", text, re.S).groups()  # type: ignore[union-attr]
        if name:
            found.named[name] = _readable(text, value)
        else:
            found.given.append(_readable(text, value))
    return found


def _readable(text: str, value: str) -> Any:
    """An argument, or an error that says which one can't be read."""
    try:
        return _argument(value)
    except UserError as error:
        said = error.message.partition(": ")[2] if "dlvm.spec(" in error.message else error.message
        raise UserError(
            f"the argument {text!r} can't be read: {said}",
            remedy="give a type such as f32[64,784], a file such as x.npy, or a number",
        ) from None


def _argument(text: str) -> Any:
    if text.endswith((".npy", ".npz")):
        return array_file(text)
    try:
        return _specs_in(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return dlvm.spec(text)


def array_file(path: str) -> Any:
    """The array of a .npy file, or the arrays of a .npz file by name."""
    try:
        found = np.load(path, allow_pickle=False)
        return {name: found[name] for name in found.files} if path.endswith(".npz") else found
    except ValueError as error:
        raise UserError(f"{path} holds no arrays: {error}") from None


def _specs_in(literal: Any) -> Any:
    """A literal in which types are written as texts."""
    match literal:
        case str():
            return dlvm.spec(literal)
        case dict():
            return {k: _specs_in(v) for k, v in literal.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return type(literal)(map(_specs_in, literal))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return literal


def _none_given(arguments: Sequence[str]) -> None:
    if arguments:
        raise UserError(
            f"IR text states the types of its parameters, found {' '.join(arguments)} besides",
            remedy="leave the arguments out",
        )


def _imported(path: Path) -> Any:
    """A script as a module; what it raises is told with its own line."""
    if not path.exists():
        raise UserError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except DlvmError:
        raise
    except Exception as error:
        said = f"{path} can't be imported: {type(error).__name__}: {error}"
        raise UserError(said, origin=_line_in(path, error)) from None
    finally:
        sys.path.pop(0)
    return module


def _line_in(path: Path, error: Exception) -> Origin | None:
    if isinstance(error, SyntaxError):
        return Origin(str(path), error.lineno or 1)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename) == path.resolve()]
    return Origin(str(path), lines[-1]) if lines and lines[-1] else None


def _known(module: Any) -> str:
    held: dict[str, Any] = module.__dict__
    names = [n for n, v in held.items() if callable(v) and not n.startswith("_")]
    return f"it has {', '.join(names[:8])}" if names else "it defines no function"
