"""Every constant of the cost model makes a decision that a test sees.

A constant is multiplied by ten and by a tenth. If no decision of the table changes, either the
table lacks a program near that price, or nothing needs the constant.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dlvm import cost
from dlvm.opt.recompute.ordering import typical_bytes
from dlvm.target import Target
from tests.constants import DECIDES, DECISIONS, FIGURES, GRAINS, OTHER_FIGURES, OTHERS
from tests.decisions import TARGET, grain

ROOT = Path(__file__).parents[1]
FOLDERS = ("ad", "opt", "gen/lower", "gen/products", "gen/program", "gen/schedule")
"""Whoever asks the cost model in these folders may compare its answers with a price."""
COST_MODEL = ("dlvm.cost", "dlvm.gen.schedule.cost", "dlvm.gen.program.parallel")
BESIDE = ("dlvm.opt.kernels.horizontal_fusion",)
"""Modules that compare bytes with a price, and need not ask for them."""
FACTORS = (10, 0.1)
PRICES = {constant for constant, _, _ in DECIDES}

# -- what there is ---------------------------------------------------------------------------------


@cache
def sources() -> dict[str, str]:
    """The text of each module of the compiler, by the name of the module."""
    files = sorted(
        f for d in ("ad", "dlvm", "dsl", "gen", "opt") for f in ROOT.glob(f"{d}/**/*.py")
    )
    return {_named(f): f.read_text("utf-8") for f in files}


def _named(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "dlvm" else ("dlvm", *parts))


@cache
def tree(name: str) -> ast.Module:
    """The syntax of a module."""
    return ast.parse(sources()[name])


def imported(name: str) -> set[str]:
    """The full names of all that a module imports from others."""
    found: set[str] = set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.ImportFrom):
            above = name.split(".")[: -node.level] if node.level else []
            module = ".".join((*above, *filter(None, [node.module])))
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def asking() -> set[str]:
    """The modules that import the cost model, or a part of it."""
    rooms = tuple(f"dlvm.{folder.replace('/', '.')}." for folder in FOLDERS)
    ends = tuple(m.rpartition(".")[2] for m in COST_MODEL)
    near = {
        n for n, text in sources().items() if n.startswith(rooms) and any(e in text for e in ends)
    }
    return {
        n for n in near if any(f"{x}.".startswith(f"{m}.") for x in imported(n) for m in COST_MODEL)
    }


def constants() -> Iterator[str]:
    """The numbers of the cost model, and those in modules of the compiler that ask it."""
    for name in sorted(asking() | {*COST_MODEL, *BESIDE}):
        module = import_module(name)
        own = {n.id for n in ast.walk(tree(name)) if _is_assigned(n)}
        own = {n for n in own if n.isupper() and _is_number(vars(module).get(n))}
        yield from (f"{name}.{n}".removeprefix("dlvm.") for n in sorted(own))


def _is_assigned(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_number(x: Any) -> bool:
    if isinstance(x, tuple):
        return bool(x) and all(map(_is_number, x))
    return isinstance(x, int | float) and not isinstance(x, bool)


def figures(target: Target) -> dict[str, Any]:
    """The numbers of a processor."""
    found = {f.name: getattr(target, f.name) for f in fields(target)}
    machine = target.machine
    found["rate"] = machine.rate
    for i, level in enumerate(machine.levels):
        found |= {f"levels[{i}].{f.name}": getattr(level, f.name) for f in fields(level)}
    return {name: x for name, x in found.items() if _is_number(x)}


# -- other prices ----------------------------------------------------------------------------------


def scaled(x: Any, factor: float) -> Any:
    """A price times a factor; whole numbers stay whole, unless they fall below 1."""
    if isinstance(x, tuple):
        return tuple(scaled(part, factor) for part in x)
    return round(x * factor) if isinstance(x, int) and x * factor >= 1 else x * factor


@contextmanager
def priced(constant: str, factor: float) -> Generator[None]:
    """A constant is larger or smaller inside of the block; what was remembered is forgotten."""
    module, _, name = f"dlvm.{constant}".rpartition(".")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            import_module(module), name, scaled(vars(import_module(module))[name], factor)
        )
        typical_bytes.cache_clear()
        yield
    typical_bytes.cache_clear()


def processor(figure: str, factor: float) -> Target:
    """The processor of the table with one other figure."""
    name, machine = figure, TARGET.machine
    value = scaled(figures(TARGET)[figure], factor)
    if name == "rate":
        return replace(TARGET, measured=replace(machine, rate=value))
    if not name.startswith("levels"):
        return replace(TARGET, **{name: value})
    place, _, part = name.removeprefix("levels[").partition("].")
    levels = list(machine.levels)
    levels[int(place)] = replace(levels[int(place)], **{part: value})
    return replace(TARGET, measured=replace(machine, levels=tuple(levels)))


# -- the tests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DECISIONS)
def test_what_is_decided(name: str):
    ask, answer = DECISIONS[name]
    assert ask(TARGET) == answer


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(("constant", "larger", "smaller"), DECIDES)
def test_each_constant_decides_something(constant: str, larger: str, smaller: str, factor: float):
    ask, answer = DECISIONS[larger if factor > 1 else smaller]
    with priced(constant, factor):
        assert ask(TARGET) != answer


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("figure", FIGURES)
def test_each_figure_of_a_processor_decides_something(figure: str, factor: float):
    ask, answer = DECISIONS[FIGURES[figure][FACTORS.index(factor)]]
    assert ask(processor(figure, factor)) != answer


@pytest.mark.parametrize("word", cost.WEIGHTS)
def test_each_weight_of_a_function_decides_a_grain(word: str, monkeypatch: pytest.MonkeyPatch):
    weight = cost.WEIGHTS[word]
    assert grain(word, TARGET) == str(GRAINS[word])
    for factor in FACTORS:
        monkeypatch.setitem(cost.WEIGHTS, word, scaled(weight, factor))
        assert grain(word, TARGET) != str(GRAINS[word])


def test_every_constant_and_figure_is_in_the_table():
    assert set(constants()) == PRICES | OTHERS.keys()
    assert PRICES.isdisjoint(OTHERS)
    assert figures(TARGET).keys() == FIGURES.keys() | OTHER_FIGURES.keys()
    assert cost.WEIGHTS.keys() == GRAINS.keys()


def test_every_decision_depends_on_a_constant_or_figure():
    told = {name for pair in (*DECIDES, *FIGURES.values()) for name in pair} - PRICES
    assert told == DECISIONS.keys()


def test_no_module_has_a_constant_of_its_own_by_importing_its_value():
    """Another price would not reach it."""
    prices = {f"dlvm.{name}" for name in PRICES}
    words = {name.rpartition(".")[2] for name in PRICES}
    near = [name for name, text in sources().items() if any(word in text for word in words)]
    assert not {name: found for name in near if (found := imported(name) & prices)}
