"""Every operation keeps what its registration promises: the table has no hole."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from dlvm.base.errors import DlvmError, UserError
from dlvm.ir import (
    BOOL,
    F32,
    F64,
    I64,
    OPS,
    TAPE,
    U8,
    Builder,
    Function,
    FunctionRef,
    Module,
    Op,
    Param,
    TensorType,
    literal,
)
from dlvm.ir.sizes import dims
from dlvm.ops import EmptyTape
from dlvm.ops.flow.ranked import Ranked
from dlvm.testing import assert_complete
from dlvm.testing.drawing.dice import Seeded
from dlvm.testing.drawing.drafts import Draft, moderate
from dlvm.testing.drawing.families import place_class
from dlvm.testing.drawing.random_programs import EVERY, random_program

from . import table
from .table import COLUMNS, DERIVATIVES, cell, reason_for_none, samples


@pytest.fixture(params=OPS, ids=str)
def cls(request: pytest.FixtureRequest) -> type[Op]:
    return OPS[request.param]


def test_it_lacks_nothing(cls: type[Op]):
    """One message lists all that a new class lacks, and what to write."""
    assert_complete(cls)


def test_it_appears_in_random_programs(cls: type[Op]):
    assert any(True for _ in samples(cls, symbolic=False))
    assert any(True for _ in samples(cls, symbolic=True))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_claimed_of_it_holds(cls: type[Op], column: str):
    found = cell(cls, column)
    assert found.state != "NO", f"{cls.name}, {column}: {found.reason}"


MATHEMATICS = (
    r"works on (bools and )?integers",
    r"its result is (bool|an integer)",
    r"is constant (between whole numbers|on either side of zero)",
    r"moves in steps",
    r"is there to stop derivatives",
    r"are no function of the matrix",
    r"has no (operands|result)",
    r"only passes write it, behind all derivatives",
)


def test_only_mathematics_leaves_a_cell_of_the_table_empty():
    """Integers and steps have no slope, stops stop it, what takes nothing depends on nothing.

    What passes alone write stands in no program of which a derivative is taken.
    """
    for op, column in itertools.product(OPS.values(), COLUMNS):
        if reason := reason_for_none(op, column):
            assert column in DERIVATIVES or (column == "batched" and issubclass(op, Ranked))
            assert any(re.search(known, reason) for known in MATHEMATICS), (op.name, reason)


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table, "OPS", {name: OPS[name] for name in ("add", "less", "sort")})
    table.main()
    found = capsys.readouterr().out.splitlines()
    assert found[0].split() == list(COLUMNS)
    assert found[1].split() == ["add", *["yes"] * len(COLUMNS)]
    assert found[2].split()[4:7] == ["-"] * 3
    assert found[4].startswith("-   less: ")


B = dims.symbol("B")
TYPES = (
    TensorType(F32, (3, 2)),
    TensorType(F64, (2,)),
    TensorType(I64),
    TensorType(I64, (B,)),
    TensorType(BOOL),
    TensorType(BOOL, (3, 2)),
    TensorType(U8, (0, B)),
    TensorType(F32),
    TensorType(TAPE),
)
X = Param(TensorType(F32), "x")
WRONG = {
    "int": (0, -1, 7),
    "bool": (False, True),
    "str": ("error", "", "no such mode"),
    "Dim": (0, 3, -1, B),
    "DType": (F32, BOOL, TAPE),
    "FunctionRef": (FunctionRef("nobody"),),
    "tuple[int, ...]": ((), (0,), (0, 0), (5,), (-1,), (1, 0)),
    "tuple[int, int]": ((4096, 32), (0, 0)),
    "tuple[Dim, ...]": ((), (3, 2), (B,), (-1,), (2, 2, 2)),
    "tuple[float, ...]": ((), (0.0,), (float("nan"), 1.0)),
    "tuple[TensorType, ...]": ((), TYPES[:1]),
    "tuple[str, ...]": (("data",), (), ("",), ("nobody",), ("data", "data")),
    "mesh": ("data=2", "data=2,b=2", "", "data", "data=3/4"),
    "Array": (literal(1.0, F32), literal([1, 2], I64), literal(1.0, F32).astype("c8")),
    "Function": (Function("r", (), (), ()), Function("r", (X,), (), (X,))),
}


def test_bad_operands_give_an_error_in_words(cls: type[Op]):
    """Whatever stands in the fields: the operation, or an error that the user can read."""
    dice = Seeded(0)
    params = [Param(t, f"p{i}") for i, t in enumerate(TYPES)]
    for _ in range(60):
        fields = {
            spec.name: dice.choose(params)
            if spec.kind == "operand"
            else tuple(dice.choose(params) for _ in range(dice.integer(0, 3)))
            if spec.kind == "operands"
            else dice.choose(WRONG.get(spec.name, WRONG[spec.annotation]))
            for spec in cls.layout
        }
        try:
            with Builder() as b:
                op = cls(**fields)
        except UserError as error:
            assert any(word in str(error) for word in (cls.name, "negative", "no axes", "a mesh"))
            continue
        refused_or_run(Function("f", tuple(params), tuple(b.ops), op.results))


def refused_or_run(fn: Function) -> None:
    """An operation whose types were accepted is refused by the verifier, or runs to its end."""
    rng = np.random.default_rng(0)
    arrays = [
        EmptyTape().reference()
        if p.dtype == TAPE
        else moderate(p.dtype, tuple(dims.evaluate(d, {"B": 2}) for d in p.shape), rng)
        for p in fn.params
    ]
    try:
        Module((fn,)).verify().run("f", *arrays)
    except UserError:
        return


def test_every_class_of_a_random_program_is_drawn():
    seen: set[str] = set()
    for seed in itertools.count():
        program = random_program(Seeded(seed), EVERY)
        seen |= {op.name for fn in program.module.functions for op in fn.walk()}
        if seen == {c.name for c in EVERY} or seed > 2000:
            break
    assert seen == {c.name for c in EVERY}


def test_an_operation_that_no_family_places_is_noticed():
    d = Draft(Seeded(0), (F32,), (3,), ())

    class Unplaced(Op):
        """Of no family."""

    with Builder():
        assert place_class(d, Unplaced) is None


def test_two_operations_of_one_name_are_refused():
    with pytest.raises(DlvmError, match=r"are both called .add."):

        class Again(Op):
            """A second sum."""

            name = "add"
