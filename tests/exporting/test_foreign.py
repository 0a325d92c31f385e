"""The table of foreign names: a name is read as the operation that is written under it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dlvm.exporting.foreign import NAMES
from dlvm.ir import F32, I32, Builder, Param, TensorType
from dlvm.onnx.table import TABLE
from dlvm.ops import Elementwise, ShiftLeft
from dlvm.stablehlo.reading.elements import KINDS
from dlvm.stablehlo.reading.table import READERS

INTEGERS = ("bitwise_invert", "bitwise_and", "bitwise_or", "bitwise_xor")
OPERATIONS = pytest.mark.parametrize("kind", NAMES, ids=lambda k: k.name)


def operands(kind: type[Elementwise]) -> list[Any]:
    """As many parameters as an operation has, of a type that it takes."""
    whole = kind is ShiftLeft or kind.public in INTEGERS
    count = sum(slot.kind == "operand" for slot in kind.layout)
    return [Param(TensorType(I32 if whole else F32, (3,)), f"x{i}") for i in range(count)]


@OPERATIONS
def test_names_of_stablehlo_are_read_as_their_operation(kind: type[Elementwise]):
    for name in filter(None, (NAMES[kind].stablehlo, NAMES[kind].only_read)):
        full = name if "." in name else f"stablehlo.{name}"
        assert KINDS[full] is kind
        with Builder() as b:
            node: Any = SimpleNamespace(name=full)
            place: Any = None
            READERS[full](node, operands(kind), place)
        assert [type(op) for op in b.ops] == [kind]


@OPERATIONS
def test_names_of_onnx_take_the_operands_of_their_operation(kind: type[Elementwise]):
    name = NAMES[kind].onnx
    for each in {name, name.removeprefix("Bitwise")} - {""}:
        assert TABLE["", each].takes(len(operands(kind)))
