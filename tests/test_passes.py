"""Passes by name, and the blame for those that go wrong."""

import gc

import pytest

import dlvm
from dlvm.base.errors import CompilerError, IRError
from dlvm.ir import Function, Module
from dlvm.passes import Pass, function_pass, named, run

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


@pytest.mark.parametrize("wrong", [nothing, failing, breaking], ids=lambda f: f.__name__)
def test_the_guilty_pass_is_named(wrong):
    with pytest.raises(CompilerError, match=f"the pass {wrong.__name__} "):
        run(MODULE, [Pass(wrong.__name__, wrong)], verify=True)


def test_no_garbage_is_searched_for_while_passes_run_and_it_is_again_afterwards():
    seen: list[bool] = []
    watching = Pass("watching", lambda module: (seen.append(gc.isenabled()), module)[1])
    failing = Pass("failing", lambda module: 1 / 0)
    assert gc.isenabled()
    run(MODULE, [watching])
    assert gc.isenabled()
    with pytest.raises(CompilerError):
        run(MODULE, [watching, failing])
    assert gc.isenabled()
    gc.disable()
    try:
        run(MODULE, [watching])
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert seen == [False] * 3
