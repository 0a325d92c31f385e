"""A fault while Python runs comes with a file: what was traced, and what failed next to it.

Faults are planted as functions of ours: what a test itself raised would be the user's error.
"""

from __future__ import annotations

import builtins
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.cli import listing, main
from dlvm.dsl.arrays import placing, shapes
from dlvm.dsl.call import compiled, function, source, traces
from dlvm.dsl.trace import operands, tracing
from dlvm.gen.call import executable
from dlvm.ir.core import Op
from dlvm.ops import Concat, Cond, Exp, Reshape, Sin
from dlvm.trust.reproducer import Reproducer, read

X = np.array([[0.5, 1.0, 1.5], [2.0, 2.5, 3.0]])


def _raising(*args: Any, **kwargs: Any) -> Any:
    raise KeyError("gone")


fault: Callable[..., Any] = types.FunctionType(
    _raising.__code__, {"__name__": "dlvm.planted", "__builtins__": builtins}, "fault"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLVM_REPRO", str(tmp_path / "failures"))
    monkeypatch.setenv("DLVM_CACHE", "0")
    return tmp_path / "failures"


def failed(call: Callable[[], Any], stage: str = "trace") -> tuple[str, Reproducer]:
    """The file of a call that fails by a fault of ours, and what stands in it."""
    with pytest.raises(CompilerError) as caught:
        call()
    found = re.search(r"dlvm repro (\S+)$", str(caught.value), re.M)
    assert found, caught.value
    kept = read(Path(found[1]).read_text())
    assert kept.failure is not None and kept.failure.stage == stage
    return found[1], kept


def middle(x: Any) -> Any:
    """Operations of which each needs those before it."""
    turned = dlvm.concat([x[:, 1:] * 2, x[:, :1]], axis=1)
    return dlvm.exp(turned.reshape((-1, 1)))


PLACES: list[tuple[type[Op], Callable[[Any], Any], tuple[str, ...]]] = [
    (Concat, middle, ("slice", "mul")),
    (Reshape, middle, ("slice", "mul", "concat")),
    (Exp, middle, ("slice", "mul", "concat", "reshape")),
    (Sin, lambda x: dlvm.scan(lambda c, r: (c + dlvm.sin(r * 2), r), x[0], x), ("mul",)),
    (Sin, lambda x: dlvm.vmap(lambda r: dlvm.sin(r + 1))(x), ("add",)),
    (Sin, lambda x: dlvm.grad(lambda y: dlvm.sin(y * y).sum())(x), ("mul",)),
    (Cond, lambda x: dlvm.cond(x.sum() > 0, lambda y: y * 3, dlvm.exp, x), ("sum", "less")),
]


@pytest.mark.parametrize("dynamic", [False, {"x": "N,3"}], ids=["known", "open"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[0].name)
def test_a_shape_rule_that_fails_is_asked_again_after_what_was_traced(
    place: Any, dynamic: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    op, program, before = place
    staged = dlvm.function(program, dynamic=dynamic)
    with monkeypatch.context() as patch:
        patch.setattr(op, "infer", fault)
        file, kept = failed(lambda: staged(X))
        assert kept.attempt is not None and f"\n{op.name} " in kept.attempt["operation"]
        assert {o.name for o in kept.module.main.ops} >= set(before)
        assert main(["repro", file]) == main(["bisect", file]) == 3
        assert "in the same way" in capsys.readouterr().out
    assert main(["repro", file]) == 0
    assert capsys.readouterr().out == "does not fail\n"
    assert main(["show", file]) == 0


DISPATCH: list[tuple[Any, str, Callable[[Any], Any], str]] = [
    (operands, "_clash", lambda x: x + x[:, :2], "add"),
    (shapes, "divide_exactly", lambda x: (x * 2).reshape(-1), "reshape"),
    (shapes, "axes_of", lambda x: dlvm.squeeze(x[:1], axis=0), "squeeze"),
    (placing, "walk", lambda x: dlvm.at(x, np.array([0, 1])).add(1.0), "add"),
]


@pytest.mark.parametrize("staged", [True, False], ids=["staged", "plain"])
@pytest.mark.parametrize("place", DISPATCH, ids=lambda place: place[1])
def test_a_public_function_that_fails_is_recorded(
    place: Any, staged: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    room, name, program, called = place
    with monkeypatch.context() as patch:
        patch.setattr(room, name, fault)
        if not staged and name == "_clash":  # NumPy adds plain arrays itself
            program = lambda x: dlvm.add(x, x[:, :2])  # noqa: E731
        if not staged and called == "reshape":
            program = lambda x: dlvm.reshape(x, -1)  # noqa: E731
        file, kept = failed(lambda: (dlvm.function(program) if staged else program)(X))
        assert kept.attempt is not None and kept.attempt["known"]["in"] == called
        before = [op.name for op in kept.module.main.ops] if staged else []
        assert ("mul" in before) is (called == "reshape" and staged)
        assert bool(kept.module.functions) is staged
        assert main(["repro", file]) == 1
    assert "can't be replayed" in capsys.readouterr().err


def test_a_reference_that_fails_is_replayed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Sin, "reference", fault)
    file, kept = failed(lambda: dlvm.sin(X), "interpret")
    assert kept.arrays is not None and np.array_equal(kept.arrays[0], X)
    assert [op.name for op in kept.module.main.ops] == ["sin"]
    assert main(["repro", file]) == 3
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    file, kept = failed(lambda: dlvm.function(middle_of_sines)(X), "interpret")
    assert kept.arrays is not None and np.array_equal(kept.arrays[0], X)
    assert main(["repro", file]) == main(["bisect", file]) == 3
    assert kept.failure is not None and kept.failure.law is not None
    assert kept.failure.law.name == "_raising"


def middle_of_sines(x: Any) -> Any:
    """Two operations."""
    return dlvm.sin(x) * 2


def test_so_is_a_call_of_machine_code(monkeypatch: pytest.MonkeyPatch):
    staged = dlvm.function(middle_of_sines).compile(X)
    monkeypatch.setattr(executable.Executable, "run", fault)
    monkeypatch.setattr(compiled, "entered", lambda code: None)
    file, kept = failed(lambda: staged.run([X], ()), "machine")
    assert kept.module == staged.module
    assert kept.arrays is not None
    assert main(["repro", file]) == 3


@pytest.mark.parametrize("whole", [True, False], ids=["function", "compiled"])
def test_a_fault_behind_the_entry_comes_with_the_program(
    whole: bool, monkeypatch: pytest.MonkeyPatch
):
    picked = dlvm.function(lambda x, i: x[i])
    call = picked if whole else picked.compile(X, 0)
    for _ in range(3):
        assert np.array_equal(call(X, 1), X[1])
    monkeypatch.setattr(executable.Executable, "failure", fault)
    _, kept = failed(lambda: call(X, 9))
    assert kept.module == picked.trace(X, 0)
    assert kept.attempt is not None and kept.attempt["known"]["args"][1] == "9 of type int"


@pytest.mark.parametrize(
    ("room", "name"),
    [
        (traces, "check_lists"),
        (function, "flatten"),
        (source, "generalised"),
        (tracing, "number"),
    ],
    ids=["specialisation", "flattener", "sizes", "module"],
)
def test_what_no_program_shows_is_recorded(
    room: Any, name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    with monkeypatch.context() as patch:
        patch.setattr(room, name, fault)
        file, kept = failed(lambda: dlvm.function(middle_of_sines)(X))
    assert kept.attempt is not None
    known = kept.attempt["known"]
    assert known["in"] == "middle_of_sines" and known["args"] == ["an array float64[2, 3]"]
    assert known["through"][-1].endswith("_raising")
    assert main(["repro", file]) == 1
    said = capsys.readouterr().err
    assert "can't be replayed" in said and "middle_of_sines" in said


def sines(x: Any) -> Any:
    """Of each row."""
    return dlvm.concat([dlvm.sin(x), x]).sum(0)


WAYS = ["grad", "linearize", "vjp", "jvp", "jacobian", "vmap"]
DERIVED: list[tuple[str, Callable[[], Any]]] = [
    ("adjoint", lambda: dlvm.function(dlvm.grad(lambda x: sines(x).sum()))(X)),
    ("adjoint", lambda: dlvm.linearize(sines, X)[1](X)),
    ("adjoint", lambda: dlvm.vjp(sines, X)[1](X[0])),
    ("adjoint", lambda: dlvm.jvp(sines, (X,), (X,))),
    ("adjoint", lambda: dlvm.jacobian(sines)(X)),
    ("batched", lambda: dlvm.vmap(sines)(X)),
]


@pytest.mark.parametrize(
    "place", DERIVED, ids=["grad", "linearize", "vjp", "jvp", "jacobian", "vmap"]
)
def test_derivatives_and_lanes_come_with_a_module(place: Any, monkeypatch: pytest.MonkeyPatch):
    rule, call = place
    monkeypatch.setattr(Sin if rule == "adjoint" else Concat, rule, fault)
    file, kept = failed(call, "differentiate")
    assert kept.attempt is None and kept.module.declarations
    assert main(["repro", file]) == 3


def test_a_fault_of_the_commands_is_recorded(monkeypatch: pytest.MonkeyPatch, capsys: Any):
    monkeypatch.setattr(listing, "run", fault)
    assert main(["list", "ops"]) == 3
    assert "dlvm repro" in capsys.readouterr().err


def test_so_is_one_in_a_library_that_a_command_calls(monkeypatch: pytest.MonkeyPatch, capsys: Any):
    program = "import json\njson.loads('{')"
    monkeypatch.setattr(listing, "run", lambda _: exec(program, {"__name__": "dlvm.planted"}))
    assert main(["list", "ops"]) == 3
    assert "dlvm repro" in capsys.readouterr().err


def test_passes_that_a_command_runs_come_with_their_names(
    planted_law: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    program = tmp_path / "f.dlvm"
    program.write_text(str(dlvm.function(middle_of_sines).trace(X)))
    with planted_law(Sin, fault):
        assert main(["opt", str(program), "--passes", "drop,simplify"]) == 3
        found = re.search(r"dlvm repro (\S+)$", capsys.readouterr().err, re.M)
        assert found and main(["repro", found[1]]) == 3
    assert read(Path(found[1]).read_text()).pipeline == ("drop", "simplify")
