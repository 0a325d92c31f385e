"""Write docs/reference: a page for each module, with the signature, the first line of the docstring
and an example of each public name.

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
from dlvm.dsl.arrays import placing, sharding
from dlvm.dsl.call import compiled, explain, function
from dlvm.dsl.derive import custom
from dlvm.dsl.elements import datatypes
from dlvm.dsl.trace import mistakes, tensor
from dlvm.files.keeping import States
from dlvm.gen.program.report import Report
from dlvm.ir.sharding.sharded import Sharded
from tools import examples

DOCS = Path(__file__).parents[1] / "docs"
TOP = f"""# Every public name

A page for each module has its names, their signatures, the first line of what `help()` says of them
and an example, which ran when `make reference` wrote the page. [The guide](guide.md) shows how
things are used. Functions take staged and plain arrays and numbers; `np.f` of a staged array is
`dlvm.f`. The examples begin with

```python
{examples.GIVEN}```

and show four digits.

"""
MODULES = (
    "gpu", "linalg", "nn", "nn.initializers", "nn.metrics", "onnx", "optim", "random", "stablehlo",
    "testing", "tree",
)  # fmt: skip
Ran = Callable[[str, Any], str]
"""What the example of a name gives."""
SUBJECTS = {
    "Staging": "staging functions specs configuration module parser abstract",
    "Control flow": "control loops long_scans mapping associative",
    "Derivatives and batching": "derivatives jacobians linear custom",
    "Data and files": "batching reading writing keeping ahead formats",
    "Effects and looking": "effects taps debugging",
    "Making and converting arrays": "creation datatypes defaults random_bits",
    "Element by element": "elementwise arithmetic powers special comparison",
    "Reductions and statistics": "reductions statistics quantiles counting",
    "Along an axis": "running ordering curves polynomials",
    "Shapes and moving": "shapes moving joining diagonals windows",
    "Picking and placing": "picking placing",
    "Ranks of a mesh": "sharding",
    "Products and assumptions": "products contraction assumptions",
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
    ("A mesh", "mesh", sharding.Ranks, "from_local index"),
    ("An array that dlvm.shard cuts", "x", Sharded, "whole"),
    ("The states of a run", "runs", States, "save restore latest_step all_steps preempted"),
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


def line(name: str, of: Any) -> str:
    """A name, how it is called, and what it does."""
    called = signature(of).replace("(self, ", "(").replace("(self)", "()") if callable(of) else ""
    return f"`{name.removesuffix('.__call__')}{called}`: {first_line(of)}\n"


def entry(name: str, of: Any, ran: Ran) -> str:
    """The section of one name of a module."""
    session = examples.session(name, of)
    shown = f"\n```pycon\n{session}{ran(name, of)}```\n" if session else ""
    return f"\n### dlvm.{name}\n\n{line(f'dlvm.{name}', of)}{shown}"


def section(title: str, before: str = "", lines: Iterable[str] = ()) -> str:
    """A heading, a paragraph, and a list, of which one may be missing."""
    parts = (before and f"{before}\n", "".join(f"- {x}" for x in lines))
    return f"\n## {title}\n\n" + "\n".join(filter(None, parts))


def subjects() -> dict[str, dict[str, Any]]:
    """The functions of dlvm itself by subject."""
    found = {n: getattr(dlvm, n) for n in dir(dlvm)}
    homes = {n: getattr(x, "__module__", "").rpartition(".")[2] for n, x in found.items()}
    return {
        title: {n: found[n] for n, home in homes.items() if home in files.split()}
        for title, files in SUBJECTS.items()
    }


def module(name: str) -> Any:
    """A module in dlvm."""
    return functools.reduce(getattr, name.split("."), dlvm)


def names() -> dict[str, Any]:
    """Every name that has a section of its own."""
    own = {n: x for below in subjects().values() for n, x in below.items()}
    rest = {f"{m}.{n}": getattr(module(m), n) for m in MODULES for n in module(m).__all__}
    return own | rest


def of_dlvm(ran: Ran) -> Iterator[str]:
    """The page of dlvm itself."""
    options = (inspect.getdoc(dlvm.function) or "").partition("\n\n")[2].replace("``", "`")
    yield "# dlvm\n"
    for title, below in subjects().items():
        before = f"Options of `dlvm.function`: {options}\n" if "function" in below else ""
        yield f"\n## {title}\n" + (before and f"\n{before}")
        yield from (entry(n, x, ran) for n, x in below.items())
    words = ", ".join(f"`dlvm.{n}`" for n in (*datatypes.NAMES, *datatypes.CONSTANTS))
    yield section("Types and numbers", f"{words}.")


def of_module(name: str, ran: Ran) -> Iterator[str]:
    """The page of a module in dlvm."""
    yield f"# dlvm.{name}\n\n{first_line(module(name))}\n"
    yield from (entry(f"{name}.{n}", getattr(module(name), n), ran) for n in module(name).__all__)


def objects() -> Iterator[str]:
    """What objects have that users call."""
    yield "# Objects that calls give\n"
    for title, name, cls, methods in METHODS:
        lines = [line(f"{name}.{n}", getattr(cls, n)) for n in methods.split()]
        yield section(title, first_line(cls), lines)
    shared = ", ".join(f"`{n}`" for n in sorted(tensor.METHODS))
    own = {n: x for n, x in vars(tensor.Tensor).items() if n in mistakes.OF_ARRAYS and n[0] != "_"}
    lines = [line(f"x.{n}", x) for n, x in sorted(own.items()) if x is not tensor.Tensor.item]
    yield section("A staged array", f"Functions that are methods as well: {shared}.", lines)


def of_errors() -> Iterator[str]:
    """What is raised, and what it says."""
    yield "# Errors\n\n"
    for x in vars(errors).values():
        if inspect.isclass(x) and issubclass(x, Exception):
            yield f"- `dlvm.{x.__name__}`: {first_line(x)}\n"


def pages(ran: Ran) -> dict[Path, str]:
    """Every page of the reference."""
    found = {"dlvm": of_dlvm(ran)} | {f"dlvm.{m}": of_module(m, ran) for m in MODULES}
    texts = {
        n: "".join(x) for n, x in (found | {"objects": objects(), "errors": of_errors()}).items()
    }
    told = {m: first_line(module(m.removeprefix("dlvm.")) if m != "dlvm" else dlvm) for m in found}
    told |= {"objects": "Methods of what calls give.", "errors": "Every kind of error."}
    index = TOP + "".join(f"- [{n}](reference/{n}.md): {told[n]}\n" for n in texts)
    written = {DOCS / "reference" / f"{n}.md": text for n, text in texts.items()}
    return {DOCS / "reference.md": index} | written


def write() -> None:
    """Write every page."""
    (DOCS / "reference").mkdir(exist_ok=True)
    for path, text in pages(examples.result).items():
        path.write_text(text, "utf8")


if __name__ == "__main__":
    write()
