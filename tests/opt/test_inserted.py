"""Passes from outside: put into compiled functions, seen by checks and the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import passes
from dlvm.base.errors import CompilerError, ExtensionError, IRError
from dlvm.gen.warm import key_of
from dlvm.ir import Function, Value
from dlvm.ir.numerics import EXACT, ROUNDING
from dlvm.ir.rewrite import RULES, rewrite, transform
from dlvm.ops import Exp, Mul, Sum, Tanh
from dlvm.opt import pipelines
from dlvm.passes import Pass, function_pass
from dlvm.target import Target
from dlvm.trust.reproducer import read

X = np.linspace(-1.0, 1.0, 5)


def replacing(name: str, change: Callable[[Value], Value]) -> Pass:
    """A pass from outside, which replaces each hyperbolic tangent."""

    def run(fn: Function) -> Function:
        return transform(fn, lambda op, _: (change(op.x),) if isinstance(op, Tanh) else None)

    run.__name__ = name
    return function_pass(run)


def by_exponentials(x: Value) -> Value:
    """``tanh(x) = 1 - 2 / (e**(2x) + 1)``."""
    return (-2.0) / (Exp(x * 2.0) + 1.0) + 1.0


@contextmanager
def inserted(name: str, change: Callable[[Value], Value], **place: str) -> Iterator[Pass]:
    """The pass, in the pipelines for a while."""
    step = replacing(name, change)
    pipelines.insert(step, **place)
    try:
        yield step
    finally:
        pipelines.remove(step)


def loss(x):
    return (dlvm.tanh(x) * x).sum()


def test_a_pass_from_outside_acts_in_compiled_functions_and_their_gradients():
    plain = dlvm.function(dlvm.value_and_grad(loss))
    expected = plain(X)
    assert "tanh" in plain.compile(X).text("optimized")
    with inserted("open_tanh", by_exponentials, after="simplify"):
        made = dlvm.function(dlvm.value_and_grad(loss))
        found = made(X)
        assert "tanh" not in made.compile(X).text("optimized")
        assert "tanh" in str(made.trace(X).expanded())
        module = made.trace(X).expanded()
        assert module.optimize() != module.optimize([p.name for p in pipelines.DEFAULT])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)
    assert pipelines.default() == pipelines.DEFAULT


def test_the_pass_stands_at_every_run_of_its_neighbour_in_order_of_insertion():
    with (
        inserted("one", by_exponentials, after="drop") as one,
        inserted("two", by_exponentials, after="drop") as two,
        inserted("first", by_exponentials, before="inline_calls") as first,
    ):
        names = [p.name for p in pipelines.default()]
        assert names[:2] == ["first", "inline_calls"]
        after = [names[i + 1 : i + 3] for i, n in enumerate(names) if n == "drop"]
        assert after == [["one", "two"]] * 3
        assert pipelines.default() == (*pipelines.meaning(), *pipelines.kernels())
        assert {one, two, first} < set(pipelines.default())


def test_verifying_passes_names_the_guilty_pass_from_outside(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLVM_VERIFY", "passes")
    with inserted("turn_tanh", lambda x: -Tanh(-x), after="lower"):
        dlvm.function(dlvm.grad(loss))(X)
    with (
        inserted("open_tanh", by_exponentials, after="simplify"),
        pytest.raises(CompilerError) as caught,
    ):
        dlvm.function(dlvm.grad(loss))(X)
    assert "expected -0.0 exactly, found 0.0" in str(caught.value)  # numerically right, not exact
    with (
        inserted("squash", lambda x: Mul(x, x), after="lower"),
        pytest.raises(CompilerError) as caught,
    ):
        dlvm.function(dlvm.grad(loss))(X)
    said = str(caught.value)
    assert "stage  squash" in said
    assert f"this is a bug in the pass squash of {__name__}" in said
    file = Path(said.rpartition("dlvm repro ")[2])
    assert "squash" in (read(file.read_text()).pipeline or ())
    with pytest.raises(IRError, match="there is no pass 'squash'"):
        read(file.read_text()).how()


def test_a_pass_that_breaks_the_program_is_named_without_being_asked():
    def failing(x: Value) -> Value:
        raise KeyError("gone")

    with (
        inserted("fails", failing, after="hoist"),
        pytest.raises(ExtensionError, match=r"the pass fails raised KeyError") as caught,
    ):
        dlvm.function(loss)(X)
    assert 'raise KeyError("gone")' in str(caught.value)
    with (
        inserted("sums", lambda x: Sum(x, (0,)), after="hoist"),
        pytest.raises(
            ExtensionError,
            match=r"sums broke the program: expected @tanh to stay",
        ),
    ):
        dlvm.function(dlvm.tanh)(X)


def test_a_pass_comes_in_goes_and_comes_in_again():
    before = dict(passes.PASSES)
    with inserted("open_tanh", by_exponentials, after="simplify") as step:
        once = dict(passes.INSERTED), dict(passes.PASSES), pipelines.default()
        pipelines.remove(step)
        assert before == passes.PASSES and pipelines.default() == pipelines.DEFAULT
        assert "tanh" in dlvm.function(lambda x: loss(x)).compile(X).text("optimized")
        pipelines.insert(step, after="simplify")
        assert (dict(passes.INSERTED), dict(passes.PASSES), pipelines.default()) == once
        assert "tanh" not in dlvm.function(lambda x: loss(x)).compile(X).text("optimized")
    assert "tanh" in dlvm.function(lambda x: loss(x)).compile(X).text("optimized")


@pytest.mark.parametrize(
    ("apply", "said"),
    [
        (lambda op: op.x.gone, "raised AttributeError: 'Param' object has no attribute 'gone'"),
        (lambda op: True, r"returned True; expected a value of the type f64\[5\]"),
        (lambda op: Sum(op.x, (0,)), r"returned <sum : f64>; expected a value of the type f64\["),
        (lambda op: -Tanh(-op.x), r"rules .* form a cycle(?s:.*)help: let <lambda> return None"),
    ],
    ids=["raises", "no value", "type", "cycle"],
)
@pytest.mark.parametrize("weighed", [False, True])
def test_an_error_of_a_law_from_outside_is_told_at_its_line(
    apply: Any, said: str, weighed: bool
) -> None:
    law = ROUNDING if weighed else EXACT
    rewrite(Tanh, example=lambda x: Tanh(x), law_class=law, weighed=weighed, keeps=not weighed)(
        apply
    )
    try:
        if weighed and "cycle" in said:  # it saves nothing, so it is not applied
            dlvm.function(loss)(X)
            return
        with pytest.raises(ExtensionError, match=said) as caught:
            dlvm.function(loss)(X)
    finally:
        RULES[Tanh].pop()
    assert "--> test_inserted.py:" in str(caught.value)


def test_with_an_inserted_pass_no_whole_program_is_kept_on_disk(monkeypatch: pytest.MonkeyPatch):
    traced = dlvm.trace(loss, X)
    assert key_of(traced, Target.host()) is not None
    with inserted("open_tanh", by_exponentials, after="simplify"):
        assert key_of(traced, Target.host()) is None
    ours = passes.named("inline_kernels")[0]  # of dlvm's own, but in another place
    monkeypatch.setitem(passes.INSERTED, "inline_kernels", passes.Inserted(ours, after="drop"))
    assert key_of(traced, Target.host()) is None


def test_wrong_places_are_errors():
    with inserted("twice", by_exponentials, after="simplify") as step:
        with pytest.raises(IRError, match=r"'twice' is in the pipeline already, after simplify"):
            pipelines.insert(step, before="drop")
        with pytest.raises(IRError, match="expected one place for 'twice'"):
            pipelines.insert(step)
        with pytest.raises(IRError, match="expected one place for 'twice'"):
            pipelines.insert(step, before="drop", after="drop")
        with pytest.raises(
            IRError,
            match=r"no pass 'simplfy' in the pipeline; expected one of .*mean 'simplify'",
        ):
            pipelines.insert(step, after="simplfy")
        with pytest.raises(IRError, match="two passes are called 'twice'") as caught:
            replacing("twice", by_exponentials)
        assert str(caught.value).endswith(
            "dlvm.opt.pipelines.remove(twice) takes the first one out"
        )
    with pytest.raises(IRError, match="'twice' was not inserted"):
        pipelines.remove(step)
    with pytest.raises(IRError, match="expected a pass, found <function"):
        pipelines.insert(by_exponentials, after="simplify")  # type: ignore[arg-type]
