"""What a command line names: a function of a script, or IR text, and the arguments for it.

``script.py:fn`` is imported as a module, ``model.onnx`` is read as a model of ONNX; any other name
is a file of IR text, and ``-`` is IR text on the standard input. An argument is a type
(``f32[B,784]``), a file of arrays (``x.npy``, ``data.npz``, or ``data.npz:x`` for one array in
it) or a Python literal (``3``,
``{'w': 'f32[3]'}``), preceded by ``name=`` if it is passed by keyword.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.base.errors import DlvmError, Origin, UserError, did_you_mean
from dlvm.compile import Options, Road
from dlvm.dsl.call.function import StagedFunction, is_staged
from dlvm.dsl.trace.specs import Spec
from dlvm.dsl.trace.trees import map_leaves
from dlvm.ir import Dim, Module, parse
from dlvm.ir.rewrite import resized, sizes_in
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ir.sizes.dims import substitute, symbols

from .models import is_model, model_named

Staged = StagedFunction[..., Any]


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call; a type in them stands for an array."""

    given: list[Any] = field(default_factory=list[Any])
    named: dict[str, Any] = field(default_factory=dict[str, Any])


def add_named(parser: argparse.ArgumentParser) -> None:
    """Adds the two arguments of every command about a program."""
    parser.add_argument("program", help="script.py:function, model.onnx, a file of IR text, or -")
    parser.add_argument(
        "arguments", nargs="*", help="f32[64,784], x.npy, 3, {'w': 'f32[3]'} or name=..."
    )


def add_fixed(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of commands that compile a program and do not run it."""
    add_named(parser)
    add_size(parser, "compile for this value of an open size; default: it stays open")


def add_size(parser: argparse.ArgumentParser, help: str) -> None:
    """Adds the option that gives values of open sizes."""
    parser.add_argument("--size", action="append", default=[], metavar="B=64", help=help)


def sizes_of(texts: Sequence[str]) -> dict[str, int]:
    """The sizes that ``--size`` gives, by name."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, size = text.partition("=")
        if not (name.isidentifier() and size.isdecimal()):
            raise UserError(
                f"--size {text}: expected a name and a size", remedy="write --size B=64"
            )
        found[name] = int(size)
    return found


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """Adds the option of commands that compile a program."""
    parser.add_argument(
        "--schedule", metavar="FILE", help="run its kernels under the schedule in this file"
    )


def schedule_named(path: str | None) -> str | None:
    """The text of the schedule in a file; None if there is no file."""
    if path is None:
        return None
    if not Path(path).exists():
        raise UserError(
            f"there is no file {path}",
            remedy="write one with dlvm show --stage schedule, and edit it",
        )
    return Path(path).read_text("utf8")


def call_written(program: str, arguments: Sequence[str]) -> tuple[Staged, Arguments] | None:
    """A function or a model with the arguments for it; None if the name is one of IR text."""
    if is_model(program):
        written = arguments_of(arguments)
        model, named = model_named(program, written.given, written.named)
        return model, Arguments([], named)
    function = _function_named(program)
    return None if function is None else (function, arguments_of(arguments))


def fixed_call(options: argparse.Namespace) -> tuple[Staged, Arguments] | None:
    """The same with the sizes in the types that ``--size`` fixes."""
    found = call_written(options.program, options.arguments)
    sizes: dict[str, Dim] = {**sizes_of(options.size)}
    if found is None or not sizes:
        return found
    function, written = found
    seen: set[str] = set()

    def fixed(leaf: Any) -> Any:
        if not isinstance(leaf, Spec):
            return leaf
        seen.update(s for d in leaf.shape for s in symbols(d))
        return Spec(leaf.type.substitute(sizes), leaf.sharding)

    given = [map_leaves(fixed, x) for x in written.given]
    named = {name: map_leaves(fixed, x) for name, x in written.named.items()}
    for name in sizes:
        if name not in seen:
            raise _no_size(name, seen)
    return function, Arguments(given, named)


def _no_size(name: str, known: Collection[str]) -> UserError:
    meant = did_you_mean(name, known)
    return UserError(
        f"--size {name}: no argument has an open size {name}{meant}",
        remedy=f"the open sizes are {', '.join(sorted(known))}" if known else "leave --size out",
    )


def function_written(options: argparse.Namespace) -> tuple[Staged, Arguments]:
    """A function or a model with the arguments for it; IR text is refused."""
    found = fixed_call(options)
    if found is None:
        raise UserError(
            f"expected a function of a script or a model of ONNX, found {options.program}",
            remedy="write script.py:function",
        )
    return found


def _function_named(program: str) -> Staged | None:
    """The function of a script, staged; None if the name is one of IR text."""
    path, colon, name = program.rpartition(":")
    if not colon or not path.endswith(".py"):
        return None
    found: Any = _imported(Path(path))
    for part in name.split("."):
        if not hasattr(found, part):
            raise UserError(f"{path} defines no {name!r}", remedy=_known(found))
        found = getattr(found, part)
    if not callable(found):
        raise UserError(f"expected {program} to be a function, found {type(found).__name__}")
    return found if is_staged(found) else StagedFunction(found)


def module_named(program: str) -> Module:
    """The module in a file, or on the standard input."""
    if program == "-":
        return parse(sys.stdin.read())
    if not Path(program).exists():
        raise UserError(
            f"there is no file {program}", remedy="name script.py:function, a file of IR text or -"
        )
    if program.endswith(".py"):
        raise UserError(
            f"expected a function of the script {program}, found the script alone",
            remedy=f"write {program}:function",
        )
    try:
        return parse(Path(program).read_text("utf8"))
    except UnicodeDecodeError:
        raise UserError(
            f"expected IR text in UTF-8, found other bytes in {program}",
            remedy="name a file of IR text",
        ) from None


def road_named(options: argparse.Namespace) -> Road:
    """The stages of a program that is inspected but not run."""
    text = schedule_named(getattr(options, "schedule", None))
    found = fixed_call(options)
    if found is None:
        _none_given(options.arguments)
        return Road(_fixed(module_named(options.program), options.size), Options(schedule=text))
    function, given = found
    own = function.source.options
    mesh = own.mesh if (named := getattr(options, "mesh", None)) is None else Mesh.named(named)
    if mesh is not own.mesh:
        source, static = function.source, tuple(function.parameters.static)
        own = replace(own, mesh=mesh)
        function = StagedFunction(source.fn, static=static, dynamic=source.dynamic, options=own)
    told = Options(numerics=own.numerics, schedule=text, mesh=mesh)
    return Road(function.trace(*given.given, **given.named), told)


def _fixed(module: Module, texts: Sequence[str]) -> Module:
    """IR text with the sizes that ``--size`` fixes."""
    values: dict[str, Dim] = {**sizes_of(texts)}
    known = {s for d in sizes_in(module.main) for s in symbols(d)} if values else set[str]()
    for name in values:
        if name not in known:
            raise _no_size(name, known)
    if not values:
        return module.verify()
    return module.map(lambda fn: resized(fn, lambda d: substitute(d, values))).verify()


def arguments_of(texts: Sequence[str]) -> Arguments:
    """The arguments that are written on the command line."""
    found = Arguments()
    for text in texts:
        name, value = re.fullmatch(r"(?:([A-Za-z_]\w*)=)?(.*)", text, re.S).groups()  # type: ignore[union-attr]
        if name:
            found.named[name] = _readable(text, value)
        else:
            found.given.append(_readable(text, value))
    return found


def _readable(text: str, value: str) -> Any:
    """An argument's value; the error for one that cannot be read names it."""
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
    path, _, name = text.rpartition(":")
    if path.endswith(".npz"):
        return array_in(path, name)
    try:
        return _specs_in(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return dlvm.spec(text)


def array_file(path: str) -> Any:
    """The array in a .npy file, or the arrays in a .npz file by name."""
    try:
        found = np.load(path, allow_pickle=False)
        return {name: found[name] for name in found.files} if path.endswith(".npz") else found
    except ValueError as error:
        raise UserError(f"expected arrays in {path}: {error}") from None


def array_in(path: str, name: str) -> Any:
    """The array of a name in a .npz file."""
    found = array_file(path)
    if name not in found:
        raise UserError(
            f"{path} has no array {name!r}; it has {', '.join(found)}{did_you_mean(name, found)}",
            remedy="name one of these after the colon",
        )
    return found[name]


def _specs_in(literal: Any) -> Any:
    """A literal in which strings are replaced by the types that they spell."""
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
            f"expected no arguments for IR text, whose parameters have types, found "
            f"{' '.join(arguments)}",
            remedy="leave the arguments out",
        )


def _imported(path: Path) -> Any:
    """A script as a module; an exception in it is reported at the script's own line."""
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
    return f"it defines {', '.join(names[:8])}" if names else "define a function in it"
