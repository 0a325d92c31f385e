"""Passes by name, and the blame for those that go wrong."""

import gc
from typing import Any

import pytest

import dlvm
from dlvm.base.errors import CompilerError, ExtensionError, IRError
from dlvm.ir import Function, Module
from dlvm.passes import PASSES, Pass, function_pass, named, run

MODULE = dlvm.parse(
    """dlvm 1
func @f(%x: f32[3]) -> f32[3] {
  %0 = neg %x : f32[3]
  return %0
}
"""
)


def test_names_in_a_sequence_or_in_one_text():
    assert named("simplify, drop") == named(["simplify", "drop"])
    with pytest.raises(IRError, match="no pass 'simplfy'; expected one of"):
        named(["simplfy"])


def test_a_name_is_taken_once():
    def drop(fn: Function) -> Function:
        return fn

    with pytest.raises(IRError, match="two passes are called 'drop'"):
        function_pass(drop)
    assert named(["drop"])[0].run is not drop


def nothing(module: Module) -> Module:
    return None  # what an author forgets


def failing(module: Module) -> Module:
    raise KeyError("gone")


def breaking(module: Module) -> Module:
    fn = module.main
    return Module((Function(fn.name, fn.params, (), fn.results),))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (nothing, "returned None; expected a module"),
        (failing, "raised KeyError: 'gone'"),
        (breaking, "broke the program: "),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_the_guilty_pass_is_named(wrong: Any, said: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ExtensionError, match=f"the pass {wrong.__name__} {said}") as caught:
        run(MODULE, [Pass(wrong.__name__, wrong)])
    assert "--> test_passes.py:" in str(caught.value) and "  help: " in str(caught.value)
    monkeypatch.setattr(wrong, "__module__", "dlvm.opt")
    if wrong is not nothing:
        with pytest.raises(CompilerError, match=f"the pass {wrong.__name__} "):
            run(MODULE, [Pass(wrong.__name__, wrong)], verify=True)


def test_an_error_in_a_pass_is_told_at_its_line_and_a_long_program_is_cut():
    lines = "".join(f"  %{n + 1} = neg %{n} : f32[3]\n" for n in range(100))
    text = f"dlvm 1\nfunc @f(%x: f32[3]) -> f32[3] {{\n  %0 = neg %x : f32[3]\n{lines}"
    with pytest.raises(ExtensionError) as caught:
        run(dlvm.parse(f"{text}  return %100\n}}\n"), [Pass("failing", failing)])
    assert 'raise KeyError("gone")' in str(caught.value)
    assert "... and 65 more lines" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 47


def test_a_function_pass_that_forgets_its_return_is_told_the_function():
    @function_pass
    def forgets(fn: Function) -> None:
        """Does nothing with what it makes."""

    try:
        with pytest.raises(ExtensionError, match="forgets returned None; expected @f, changed"):
            run(MODULE, [forgets])
    finally:
        del PASSES["forgets"]


def test_no_garbage_is_searched_for_while_passes_run_and_it_is_again_afterwards():
    seen: list[bool] = []
    watching = Pass("watching", lambda module: (seen.append(gc.isenabled()), module)[1])
    failing = Pass("failing", lambda module: 1 / 0)
    assert gc.isenabled()
    run(MODULE, [watching])
    assert gc.isenabled()
    with pytest.raises(ExtensionError):
        run(MODULE, [watching, failing])
    assert gc.isenabled()
    gc.disable()
    try:
        run(MODULE, [watching])
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert seen == [False] * 3
