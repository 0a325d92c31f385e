"""What classes say of their operations is so, and says it of the ones that passes mean."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm import ops
from dlvm.ir import F64, OPS, Function, Module, Op, Param, TensorType
from dlvm.ops.arrays.overwriting import Overwriting
from dlvm.ops.arrays.scattering import SCATTERS
from dlvm.ops.families import IndexMap, rearranges

X = Param(TensorType(F64, (3, 3)), "x")
MOVED = {
    "permute": (ops.Permute(X, (1, 0)), True),
    "reshape": (ops.Reshape(X, (9,)), True),
    "broadcast": (ops.Broadcast(X, (2, 3, 3), (1, 2)), True),
    "slice": (ops.Slice(X, (0, 0), (2, 3), (1, 1)), False),
    "diagonal": (ops.Diagonal(X), False),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_rearranges_has_every_element_of_its_operand_and_no_other(name: str):
    op, whole = MOVED[name]
    assert op.everywhere and rearranges(op) is whole
    x = np.arange(9.0).reshape(3, 3)
    (found,) = Module((Function("f", (X,), (op,), (op,)),)).run("f", x)
    assert (set(found.ravel()) == set(x.ravel())) is whole


def test_an_alias_has_the_elements_of_its_operand_in_their_order():
    aliases = [cls for cls in OPS.values() if cls.alias]
    assert ops.Reshape in aliases
    assert all(issubclass(cls, IndexMap) and cls.rearranges for cls in aliases)


def test_every_operation_that_only_writes_at_indices_is_in_the_table():
    writing = {cls for cls in OPS.values() if issubclass(cls, ops.Scatter)} - {ops.Exchange}
    assert {cls for cls in writing if cls.__module__.startswith("dlvm.ops")} == set(
        SCATTERS.values()
    )
    assert all(issubclass(cls, Overwriting) for cls in SCATTERS.values())


@pytest.mark.parametrize("name", ["solve", "determinant", "log_determinant"])
def test_what_laws_speak_of_is_lowered_late_and_has_a_lowering(name: str):
    assert OPS[name].lowered_late and OPS[name].lowering is not Op.lowering
