"""Every name of ours in the table for those who come from elsewhere exists, with its options."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import dlvm

PAGE = Path(__file__).parents[1] / "docs" / "porting.md"
ROW = re.compile(r"^\| (.*) \| (.*) \|$", re.M)


def rows() -> list[tuple[str, str]]:
    """What is said of each name, without the heads of the tables."""
    found = ROW.findall(PAGE.read_text("utf8"))
    return [(theirs, ours) for theirs, ours in found if "`" in theirs]


def code(text: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


def paths(text: str) -> list[str]:
    """The dotted names of ours, wherever in an expression."""
    return re.findall(r"\bdlvm(?:\.\w+)+", text)


def found(path: str) -> Any:
    """What a dotted name means."""
    value: Any = dlvm
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


def calls(text: str) -> list[ast.Call]:
    """The calls of ours in an expression."""
    tree = ast.walk(ast.parse(text))
    return [n for n in tree if isinstance(n, ast.Call) and ast.unparse(n.func)[:5] == "dlvm."]


def test_the_table_is_long_enough_to_be_useful():
    theirs = [name for left, _ in rows() for name in code(left)]
    for library, least in (("jax.", 60), ("optax.", 25), ("torch.", 60)):
        assert sum(name.startswith(library) for name in theirs) >= least
    assert len(set(theirs)) == len(theirs), "a name stands in two rows"


@pytest.mark.parametrize(("theirs", "ours"), rows())
def test_every_name_of_ours_exists_and_takes_the_options_shown(theirs: str, ours: str):
    assert paths(ours) or re.search(r"none|the same", ours), "nothing of ours"
    for path in paths(ours):
        assert found(path) is not None, path
    for text in code(ours):
        for call in calls(text) if text.startswith("dlvm.") else []:
            given = {k.arg: None for k in call.keywords if k.arg}
            function = found(ast.unparse(call.func))
            inspect.signature(function).bind_partial(*call.args, **given)


ROOMS = {"torch.nn": dlvm.nn, "nnx": dlvm.nn, "torch.optim": dlvm.optim, "optax": dlvm.optim}


def asked() -> list[tuple[Any, str]]:
    """Names of layers, losses and optimisers in the table, each with the module to ask for it."""
    found = re.findall(
        rf"`({'|'.join(map(re.escape, ROOMS))})\.(\w+)[`(]", " ".join(x for x, _ in rows())
    )
    return sorted({(room, name) for room, name in found if name[0].isalpha()})


@pytest.mark.parametrize(("room", "name"), asked())
def test_a_name_of_theirs_is_ours_or_its_error_leads_on(room: str, name: str):
    module = ROOMS[room]
    if name in module.__all__:
        return
    with pytest.raises(dlvm.UserError) as error:
        getattr(module, name)
    remedy = str(error.value).partition("help: ")[2]
    assert remedy and "lists the names" not in remedy and "did you mean" not in remedy


@pytest.mark.parametrize("name", ["dlvm.nn.no_such_layer", "dlvm.no_such_name"])
def test_a_name_that_does_not_exist_is_found_out(name: str):
    with pytest.raises((AttributeError, dlvm.UserError)):
        found(name)
