"""A model of ONNX as the program of a command: a function of its inputs, which have types.

An input that the command line leaves out has the type that the file states. A name that is no
identifier, such as ``input.1``, is written ``input_1``. Weights are captured arrays. The results
are a dict by the names of the outputs.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import dlvm
from dlvm.base.errors import UserError, did_you_mean
from dlvm.dsl.call.function import StagedFunction
from dlvm.dsl.trace.specs import Spec

if TYPE_CHECKING:
    from dlvm.onnx.values import Value

Staged = StagedFunction[..., Any]


def is_model(program: str) -> bool:
    """Whether the command line names a model of ONNX."""
    return program.endswith(".onnx")


def model_named(
    program: str, given: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Staged, dict[str, Any]]:
    """The model in a file, staged, and what it is called with by name: arrays or types."""
    model = dlvm.onnx.load(program)
    inputs = _identified(model.inputs)
    written = _by_name(program, inputs, given, named)
    found = {name: _argument(program, name, v, written.get(name)) for name, v in inputs.items()}
    fixed = {v.name: found.pop(name) for name, v in inputs.items() if v.static}
    outputs = [v.name for v in model.outputs]

    def call(**free: Any) -> dict[str, Any]:
        arguments = {inputs[name].name: x for name, x in free.items()}
        results = model.function(model.weights, **fixed, **arguments)
        return dict(zip(outputs, results, strict=True))

    call.__name__ = model.label
    call.__signature__ = _signature(found)  # type: ignore[attr-defined]
    return StagedFunction(call, known=tuple(model.weights.values())), found


def _identified(inputs: Iterable[Value]) -> dict[str, Value]:
    """The inputs by distinct identifiers."""
    found: dict[str, Value] = {}
    for value in inputs:
        name = re.sub(r"\W", "_", value.name)
        while not name.isidentifier() or keyword.iskeyword(name) or name in found:
            name = f"x{name}" if not name[:1].isidentifier() else f"{name}_"
        found[name] = value
    return found


def _signature(names: Iterable[str]) -> inspect.Signature:
    """Arguments by name alone, which are called in IR text as in the file."""
    return inspect.Signature([inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names])


def _by_name(
    program: str, inputs: Mapping[str, Value], given: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the names of inputs; refuses names that the model lacks, and too many."""
    found = {**dict(zip(inputs, given, strict=False)), **named}
    wrong = [name for name in named if name not in inputs]
    if not wrong and len(found) == len(given) + len(named):
        return found
    near = f"no input {wrong[0]!r}{did_you_mean(wrong[0], [*inputs])}" if wrong else ""
    count = f"{len(inputs)} inputs, found {len(given) + len(named)} arguments"
    kinds = ", ".join(f"{name}: {v}" for name, v in inputs.items())
    raise UserError(
        f"the model {program} has {near or count}",
        remedy=f"give each input once, or leave out those that may be random; it has {kinds}",
    )


def _argument(program: str, name: str, value: Value, written: Any) -> Any:
    """An array of the type of an input; a type, if only that is known."""
    from dlvm.onnx.values import typed

    if written is not None and not isinstance(written, Spec):
        return typed(value.name, value, written)
    if value.static:
        raise UserError(
            f"{program}: the input {value.name!r} is part of the program, and no array is given",
            remedy=f"write {name}=[2, 3], or name a .npy file",
        )
    if written is not None:
        return _fitting(program, name, value, written)
    if value.dtype is None or value.shape is None:
        raise UserError(
            f"{program} does not state the type of its input {value.name!r}",
            remedy=f"write its type behind {name}=",
        )
    return dlvm.spec(str(value))


def _fitting(program: str, name: str, value: Value, written: Spec) -> Spec:
    """A type from the command line, which has the element type and rank that the file states."""
    t = written.type
    if (value.dtype is not None and np.dtype(t.dtype.numpy) != value.dtype) or (
        value.shape is not None and len(value.shape) != t.rank
    ):
        raise UserError(
            f"{program}: expected the input {value.name!r} of type {value}, found {t}",
            remedy=f"write {name}={value}",
        )
    return written
