"""What type checkers know of the public names: the stubs that ``tools.stubs`` writes."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import numpy as np
import pytest

import dlvm
from tests.names.forms import forms_of
from tests.names.table import SILENT
from tools.stubs import VARY, pages
from tools.typos import TYPED, marked

ROOT = Path(__file__).parents[1]
STUBS = pages()


@functools.cache
def declared(path: Path) -> dict[str, ast.FunctionDef]:
    """The functions that a stub declares itself."""
    body = ast.parse(path.read_text("utf8")).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def named_in(path: Path) -> set[str]:
    """Every name that a stub gives."""
    found: set[str] = set(declared(path))
    for node in ast.parse(path.read_text("utf8")).body:
        match node:
            case ast.ImportFrom(names=names):
                found.update(alias.name for alias in names if alias.asname == alias.name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
            case _:
                pass
    return found


@pytest.mark.parametrize("path", STUBS, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_stubs_are_those_of_the_functions(path: Path):
    assert path.read_text("utf8") == STUBS[path], "python -m tools.stubs writes the stubs again"


def test_every_public_name_is_known_to_editors():
    assert set(dir(dlvm)) - named_in(ROOT / "dlvm" / "__init__.pyi") == set()


@pytest.mark.parametrize("path", STUBS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_declared_function_has_types_and_a_docstring(path: Path):
    for name, node in declared(path).items():
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        assert ast.get_docstring(node), name
        assert node.returns is not None, name
        assert all(a.annotation is not None for a in every if a is not None), name


def fits(x: object, result: str) -> bool:
    """Whether a result is what a stub says."""
    if result == "Any":
        return True
    if result == "Array":
        return isinstance(x, np.ndarray | np.generic)
    kind = {"tuple": tuple, "list": list}[result.partition("[")[0]]
    return isinstance(x, kind) and all(isinstance(y, np.ndarray | np.generic) for y in x)


def test_results_are_what_the_stub_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    wrong: list[str] = []
    for name, node in declared(ROOT / "dlvm" / "__init__.pyi").items():
        if name in SILENT or name in VARY or not (forms := forms_of(name)):
            continue
        assert node.returns is not None
        result = ast.unparse(node.returns)
        wrong += [f"{f}: {result}" for f in forms if not fits(f.on(f.call, f.arrays), result)]
    assert wrong == []


@pytest.mark.parametrize(
    "module", ["linalg", "nn", "nn.initializers", "onnx", "optim", "random", "tree"]
)
def test_dir_of_a_module_lists_public_names_only(module: str):
    found = functools.reduce(getattr, module.split("."), dlvm)
    assert set(dir(found)) - set(found.__all__) <= {"initializers", "metrics"}


def test_dir_of_a_staged_function_lists_what_users_call():
    f = dlvm.grad(dlvm.function(lambda x: x))
    assert [n for n in sorted(dir(f)) if n[0] != "_"] == ["bind", "compile", "explain", "trace"]


def test_forty_mistakes_are_planted():
    assert len(marked(TYPED)) == 40
