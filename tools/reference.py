"""Write docs/reference.md: public names, their signatures and the first line of each docstring.

A public function stands under the subject of the file that it is written in.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import dlvm
from dlvm import onnx
from dlvm.base import errors
from dlvm.dsl.arrays import placing
from dlvm.dsl.call import compiled, explain, function
from dlvm.dsl.derive import custom
from dlvm.dsl.elements import datatypes
from dlvm.dsl.trace import mistakes, tensor
from dlvm.gen.program.report import Report

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
TOP = """# Reference

Every public name, its signature, and the first line of what `help()` says of it. This page is
written by `make reference`; [the guide](guide.md) shows how things are used. Functions take staged
and plain arrays and numbers; `np.f` of a staged array is `dlvm.f`.
"""
SUBJECTS = {
    "Staging": "staging functions specs configuration module parser abstract",
    "Control flow": "control loops long_scans mapping associative",
    "Derivatives and batching": "derivatives jacobians linear custom",
    "Data and files": "batching reading writing ahead formats",
    "Effects and looking": "effects taps debugging",
    "Making and converting arrays": "creation datatypes defaults random_bits",
    "Element by element": "elementwise arithmetic powers special comparison",
    "Reductions and statistics": "reductions statistics quantiles counting",
    "Along an axis": "running ordering curves polynomials",
    "Shapes and moving": "shapes moving joining diagonals windows",
    "Picking and placing": "picking placing",
    "Products": "products contraction",
}
"""Subjects, each with the files whose functions belong there."""
METHODS = (
    ("A staged function", "f", function.StagedFunction, " ".join(function.CALLED)),
    ("What f.compile gives", "program", compiled.Compiled, "__call__ module report text"),
    ("What it reports", "report", Report, "at to_dict"),
    ("What f.explain gives", "explanation", explain.Explanation, "text"),
    ("A model of ONNX", "m", onnx.Model, "__call__ function trace"),
    ("A module", "module", dlvm.Module, "main functions run optimize verify expanded"),
    ("A function with a custom_vjp", "f", custom.VjpFunction, "defvjp"),
    ("A function with a custom_jvp", "f", custom.JvpFunction, "defjvp defjvps"),
    ("A place in an array", "x.at[i]", placing.At, "set add mul multiply min max get"),
)
"""Objects that calls give: what they are, how they are written here, and what users call there."""


def first_line(of: Any) -> str:
    """What a docstring says first, for Markdown."""
    return (inspect.getdoc(of) or "").partition("\n")[0].replace("``", "`")


def signature(of: Callable[..., Any]) -> str:
    """Names and defaults; ``out=``, which every function refuses, is left out."""
    parts = inspect.signature(of)
    kept = [p.replace(annotation=p.empty) for n, p in parts.parameters.items() if n != "out"]
    brief = [p if len(repr(p.default)) < 60 else p.replace(default=...) for p in kept]
    shown = str(parts.replace(parameters=brief, return_annotation=parts.empty))
    shown = re.sub(r"<function ([\w.]+) at \w+>", r"\1", shown)
    return shown.replace("<factory>", "...").replace("Ellipsis", "...")


def entry(name: str, of: Any) -> str:
    """The line of one name."""
    called = signature(of).replace("(self, ", "(").replace("(self)", "()") if callable(of) else ""
    return f"- `{name.removesuffix('.__call__')}{called}`: {first_line(of)}\n"


def section(title: str, before: str = "", lines: Iterable[str] = ()) -> str:
    """A heading, a paragraph, and a list, of which one may be missing."""
    parts = (before and f"{before}\n", "".join(lines))
    return f"\n## {title}\n\n" + "\n".join(filter(None, parts))


def by_subject() -> Iterator[str]:
    """The functions of dlvm itself."""
    found = {n: getattr(dlvm, n) for n in dir(dlvm)}
    homes = {n: getattr(x, "__module__", "").rpartition(".")[2] for n, x in found.items()}
    said = (inspect.getdoc(dlvm.function) or "").partition("\n\n")[2].replace("``", "`")
    for title, files in SUBJECTS.items():
        names = [n for n, home in homes.items() if home in files.split()]
        before = f"Options of `dlvm.function`: {said}" if "function" in names else ""
        yield section(title, before, [entry(f"dlvm.{n}", found[n]) for n in names])


def rooms() -> Iterator[str]:
    """The functions of modules in dlvm."""
    for name in (
        "gpu",
        "linalg",
        "nn",
        "nn.initializers",
        "nn.metrics",
        "onnx",
        "optim",
        "random",
        "stablehlo",
        "testing",
        "tree",
    ):
        room = functools.reduce(getattr, name.split("."), dlvm)
        lines = [entry(f"dlvm.{name}.{n}", getattr(room, n)) for n in room.__all__]
        yield section(f"dlvm.{name}", first_line(room), lines)


def objects() -> Iterator[str]:
    """What objects have that users call."""
    for title, name, cls, methods in METHODS:
        lines = [entry(f"{name}.{n}", getattr(cls, n)) for n in methods.split()]
        yield section(title, first_line(cls), lines)
    shared = ", ".join(f"`{n}`" for n in sorted(tensor.METHODS))
    own = {n: x for n, x in vars(tensor.Tensor).items() if n in mistakes.OF_ARRAYS and n[0] != "_"}
    lines = [entry(f"x.{n}", x) for n, x in sorted(own.items()) if x is not tensor.Tensor.item]
    yield section("A staged array", f"Functions that are methods as well: {shared}.", lines)


def page() -> str:
    """The whole page."""
    words = ", ".join(f"`dlvm.{n}`" for n in (*datatypes.NAMES, *datatypes.CONSTANTS))
    names = section("Types and numbers", f"{words}.")
    kinds = [x for x in vars(errors).values() if inspect.isclass(x) and issubclass(x, Exception)]
    lines = [f"- `dlvm.{x.__name__}`: {first_line(x)}\n" for x in kinds]
    return "".join([TOP, *by_subject(), names, *rooms(), *objects(), section("Errors", "", lines)])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf8")
