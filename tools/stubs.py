"""Write the stubs of modules whose functions are made from operations: their types for editors.

python -m tools.stubs

A parameter's type is its annotation or, where that says ``Any``, follows from the kind that it
declares (``dlvm.dsl.trace.kinds``). In the result of a function of arrays ``Any`` is an array. What
another module defines with types is imported from there, so that nothing is said twice.
"""

from __future__ import annotations

import builtins
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import dlvm
from dlvm.dsl.elements.datatypes import NAMES
from dlvm.dsl.trace import kinds, typed
from dlvm.ir import OPS
from dlvm.ops import Elementwise

ROOT = Path(__file__).parents[1]
TYPES: dict[kinds.Kind, str] = {
    kinds.OPERAND: "Operand",
    kinds.OPERANDS: "Sequence[Any] | Operand",
    kinds.INDEX: "SupportsIndex",
    kinds.AXIS: "Axis",
    kinds.PAIRED: "Axis",
    kinds.AXES: "Sequence[SupportsIndex]",
    kinds.SHAPE: "Shape",
    kinds.DTYPE: "DTypeLike | None",
    kinds.TRUTH: "bool",
    kinds.TEXT: "str",
    kinds.NUMBER: "Operand",
    kinds.COUNTS: "Operand",
    kinds.WHOLE: "Operand",
    kinds.CASTING: "str",
    kinds.NAMES: "int | str | Sequence[int | str]",
}
"""Types by kind, of parameters whose annotation does not say one."""
TYPING = {
    "typing": ("Any", "Literal", "SupportsIndex"),
    "collections.abc": ("Callable", "Generator", "Mapping", "Sequence"),
    "numpy.typing": ("DTypeLike",),
    "dlvm.dsl.trace.typed": ("Array", "Axis", "Operand", "Shape"),
}
"""The modules of names that types are written with; others come from the function's own module."""
HOMES = {name: module for module, names in TYPING.items() for name in names}
VARY = (
    *("atleast_1d", "atleast_2d", "atleast_3d", "average", "gradient", "linspace"),
    *("unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"),
    *("linalg.qr", "linalg.svd", "nn.multi_head_attention"),
)
"""Functions that give one array or several, or anything, depending on their arguments."""
HEAD = '"""Types for editors and type checkers, written by ``python -m tools.stubs``."""\n'


class Stub:
    """The text of a stub: imports, which grow while declarations are added."""

    def __init__(self, module: str, defines: Iterable[str]) -> None:
        self.module = module
        self.defines = frozenset(defines)
        self.imports: set[str] = set()
        self.lines: list[str] = []

    def text(self) -> str:
        """The whole stub."""
        again = {line for line in self.imports if f"{line} as {line.split()[-1]}" in self.imports}
        return "\n".join([HEAD, *sorted(self.imports - again), "", *self.lines, ""])

    def declare(self, name: str) -> None:
        """One public name: an import of what has types, or a declaration."""
        found = getattr(sys.modules[self.module], name)
        if (line := _constant(name, found)) is not None:
            self.lines.append(line)
        elif (home := _home(self.module, name, found)) is not None:
            own = name if hasattr(typed, name) else getattr(found, "__name__", name)
            self._import(home, own, name)
        else:
            public = f"{self.module}.{name}".removeprefix("dlvm.")
            self.lines += [self._function(public, found), ""]

    def _import(self, home: str, own: str, name: str) -> None:
        """A name that is another module's, where it may be called otherwise."""
        if own.rpartition(".")[2] == name:
            self.imports.add(f"from {home} import {name} as {name}")
        else:
            self.imports.add(f"from {home} import {own}")
            self.lines.append(f"{name} = {own}\n")

    def _function(self, public: str, fn: Callable[..., Any]) -> str:
        """The declaration of a function, with the first line of its docstring."""
        found = inspect.signature(fn)
        parameters = [self._parameter(public, fn, p) for p in found.parameters.values()]
        result = self._typed(_result(public, found), fn)
        text = str(found.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
        said = (inspect.getdoc(fn) or "").partition("\n")[0].replace("\\", "\\\\")
        return f'def {public.rpartition(".")[2]}{text} -> {result}:\n    """{said}"""'

    def _parameter(
        self, public: str, fn: Callable[..., Any], parameter: inspect.Parameter
    ) -> inspect.Parameter:
        text = self._typed(_declared(public, parameter), fn)
        default = _Written(parameter.default) if parameter.default is not parameter.empty else None
        found = parameter.replace(annotation=_Bare(text))
        return found if default is None else found.replace(default=default)

    def _typed(self, text: str, fn: Callable[..., Any]) -> str:
        """A type as it is written in this stub, which from then on imports its names."""
        for name in dict.fromkeys(re.findall(r"(?<![\w.'\"])[A-Za-z_]\w*", text)):
            if hasattr(builtins, name):
                if name in self.defines:
                    self.imports.add("import builtins")
                    text = re.sub(rf"\b{name}\b", f"builtins.{name}", text)
            elif name in ("np", "os"):
                self.imports.add("import numpy as np" if name == "np" else "import os")
            else:
                self.imports.add(
                    f"from {HOMES.get(name, inspect.unwrap(fn).__module__)} import {name}"
                )
        return text


class _Bare(str):
    """A text that ``inspect`` writes without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


class _Written:
    """A default value as a stub writes it; what has no short text is three dots."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value) if _is_plain(self.value) else "..."


def _is_plain(x: Any) -> bool:
    if isinstance(x, tuple):
        return all(_is_plain(y) for y in x)
    return x is None or type(x) in (bool, int, str) or (type(x) is float and math.isfinite(x))


def _declared(public: str, parameter: inspect.Parameter) -> str:
    """The type of a parameter: what it is annotated with, or what follows from its kind."""
    written = str(parameter.annotation)
    if parameter.name == "out" and parameter.default is None:
        return "None"
    if parameter.annotation is not parameter.empty and written != "Any":
        return written
    text = _of_kind(kinds.kind_of(public, parameter))
    optional = parameter.default is None and text not in ("Any", TYPES[kinds.DTYPE])
    return f"{text} | None" if optional else text


def _of_kind(kind: kinds.Kind | None) -> str:
    return "Any" if kind is None else TYPES.get(kind, "Any")


def _result(public: str, found: inspect.Signature) -> str:
    """The type of a result; a function of arrays gives arrays where nothing else is said."""
    if public in VARY or public in kinds.TREES:
        return "Any"
    if found.return_annotation is not found.empty:
        return re.sub(r"(?<!dtype\[)(?<!iinfo\[)\bAny\b", "Array", str(found.return_annotation))
    return SEVERAL.get(public, "Array")


def _constant(name: str, found: Any) -> str | None:
    """The declaration of what is no function and no class."""
    if isinstance(found, float | str) or found is None:
        return f"{name}: {type(found).__name__ if found is not None else None}"
    return None


def _home(module: str, name: str, found: Any) -> str | None:
    """The module from which a type checker learns what a name is, if there is one."""
    if isinstance(found, ModuleType):
        return found.__name__.rpartition(".")[0]
    if hasattr(typed, name):
        return typed.__name__
    if name in NAMES:
        return "ml_dtypes" if name == "bfloat16" else "numpy"
    home, own = getattr(found, "__module__", module), getattr(found, "__name__", name)
    same = home != module and "." not in own and getattr(sys.modules.get(home), own, None) is found
    return home if same else None


def stub(module: str, names: Iterable[str]) -> str:
    """The stub of a module with these public names."""
    found = Stub(module, names)
    found.lines.append(f"__all__ = {sys.modules[module].__all__!r}\n")
    for name in names:
        found.declare(name)
    return found.text()


def pages() -> dict[Path, str]:
    """The stubs and where they belong."""
    found = {ROOT / "dlvm" / "__init__.pyi": stub("dlvm", [*OWN, *dir(dlvm)])}
    for module in MODULES:
        path = Path(str(sys.modules[module].__file__)).with_suffix(".pyi")
        found[path] = stub(module, _names_of(sys.modules[module]))
    return found


def _names_of(module: ModuleType) -> list[str]:
    """The names that a module gives, and the classes of its functions' results."""
    classes = [n for n, x in vars(module).items() if isinstance(x, type) and n[0] != "_"]
    return sorted({*dir(module), *classes})


MODULES = ("dlvm.linalg", "dlvm.nn", "dlvm.random")
"""Modules whose functions are made of functions on arrays, as those of dlvm itself are."""
OWN = ("__version__", "__array_api_version__", "__array_namespace_info__")
"""Names of dlvm that start with ``_`` and that the array API standard or packagers ask for."""
SEVERAL = {
    cls.public or cls.name: found.replace("TensorType", "Array")
    for cls in OPS.values()
    if issubclass(cls, Elementwise)
    and (found := inspect.signature(cls.infer).return_annotation).startswith("tuple")
}
"""The types of results of element-wise operations that have several."""


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf8")
