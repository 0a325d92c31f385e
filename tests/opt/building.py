"""Writing small functions by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm.ir import Builder, Function, Module, Param, Value, parse


def function(
    body: Callable[..., Value | Sequence[Value]], *types: str, name: str = "main"
) -> Module:
    """A module of one function, whose parameters have the types written as in IR text."""
    params = [Param(parameter_type(t), f"x{i}") for i, t in enumerate(types)]
    with Builder() as builder:
        out = body(*params)
    results = (out,) if isinstance(out, Value) else tuple(out)
    return Module((Function(name, tuple(params), tuple(builder.ops), results),)).verify()


def region(body: Callable[..., Value | Sequence[Value]], *types: str) -> Function:
    """A closed function to hold in an operation; its symbols are those around it."""
    return function(body, *types, name="body").main


def parameter_type(text: str):
    """The type that a text such as ``f32[B,4]`` means."""
    return parse(f"dlvm 1\nfunc @f(%x: {text}) -> {text} {{\n  return %x\n}}\n").main.params[0].type
