"""Loops whose bodies are Python functions of values, for operations that are written as loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm.ir import Builder, Dim, Function, Param, TensorType, Value

from .control import Scan, While

Values = tuple[Value, ...]


def counted(
    step: Callable[..., Values],
    length: Dim,
    init: Sequence[Value],
    xs: Sequence[Value] = (),
    captured: Sequence[Value] = (),
    reverse: bool = False,
) -> Values:
    """A scan; ``step`` takes the carried values, the slices and the captured values."""
    slices = [x.type.with_shape(x.shape[1:]) for x in xs]
    types = (*(v.type for v in init), *slices, *(v.type for v in captured))
    body = _function("step", types, step)
    return Scan(tuple(init), tuple(xs), tuple(captured), body, length, reverse).results


def repeated(
    condition: Callable[..., Value],
    step: Callable[..., Values],
    init: Sequence[Value],
    captured: Sequence[Value] = (),
) -> Values:
    """A while loop; both functions take the carried values, then the captured ones."""
    types = tuple(v.type for v in (*init, *captured))
    test = _function("condition", types, lambda *xs: (condition(*xs),))
    return While(tuple(init), tuple(captured), test, _function("step", types, step)).results


def _function(name: str, types: Sequence[TensorType], written: Callable[..., Values]) -> Function:
    params = tuple(Param(t, f"x{i}") for i, t in enumerate(types))
    with (builder := Builder()):
        results = written(*params)
    return Function(name, params, tuple(builder.ops), results)
