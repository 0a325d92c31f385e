"""An operation's fields and its constructor follow from the annotations of its class."""

import inspect
from dataclasses import MISSING
from typing import ClassVar

import pytest

from dlvm.ir import F32, Function, Module, Op, Param, TensorType, Value
from dlvm.ir.core import OPS

F = TensorType(F32, (2,))


@pytest.fixture
def cls():
    class Scaled(Op):
        """For this test."""

        name = "test_scaled"
        doc: ClassVar[str] = "not a field"
        x: Value
        rest: tuple[Value, ...]
        by: float = 2.0

        def infer(self):
            return self.x.type

    yield Scaled
    del OPS["test_scaled"]


def test_fields_are_the_annotations(cls):
    assert [(s.name, s.kind, s.default) for s in cls.layout] == [
        ("x", "operand", MISSING),
        ("rest", "operands", MISSING),
        ("by", "attribute", 2.0),
    ]
    assert cls.__match_args__ == ("x", "rest", "by")


def test_the_first_and_every_later_construction_agree(cls):
    x, y = Param(F, "x"), Param(F, "y")
    for _ in range(3):
        for op in (cls(x, (y,)), cls(x, rest=(y,)), cls(rest=(y,), by=2.0, x=x)):
            assert (op.x, op.rest, op.by) == (x, (y,), 2.0)
            assert op.operands == (x, y)
            assert op.type == F
        assert cls(x, (), 3.0).by == 3.0


def test_wrong_arguments_are_said_with_the_name_of_the_class(cls):
    x = Param(F, "x")
    for args, kwargs, said in (
        ((x,), {}, "Scaled needs 'rest'"),
        ((x, ()), {"too": 1}, "Scaled has no field 'too'"),
        ((x, ()), {"x": x}, "Scaled got two values for 'x'"),
        ((x, (), 2.0, 1), {}, "Scaled: expected 3 fields, found 4"),
    ):
        with pytest.raises(TypeError, match=said):
            cls(*args, **kwargs)


def test_the_signature_names_the_fields(cls):
    assert str(inspect.signature(cls)) == "(x, rest, by=2.0)"


def test_an_operation_that_extends_another_has_its_fields_in_front(cls):
    class Shifted(cls):
        """For this test."""

        name = "test_shifted"
        shift: int = 0

    try:
        x = Param(F, "x")
        assert cls(x, ()).by == 2.0
        assert [s.name for s in Shifted.layout] == ["x", "rest", "by", "shift"]
        assert Shifted(x, (), 1.0, 4).shift == 4
        assert not hasattr(cls(x, ()), "shift")
    finally:
        del OPS["test_shifted"]


def test_a_class_without_a_name_of_its_own_is_the_same_operation(cls):
    class Special(cls):
        """For this test."""

    x = Param(F, "x")
    for kind in (Special, cls, Special):
        assert type(kind(x, (), 5.0)) is kind
        assert kind(x, (), 5.0).by == 5.0


def test_annotations_may_be_evaluated():
    class Held(Op):
        """For this test."""

        name = "test_held"
        x: Value
        body: Function
        many: tuple[Value, ...]

    try:
        assert [s.kind for s in Held.layout] == ["operand", "region", "operands"]
    finally:
        del OPS["test_held"]


def test_operations_inherit_the_fields_of_their_family_before_their_own():
    class Family(Op):
        x: Value
        by: float = 2.0

        def infer(self):
            return self.x.type

    class Member(Family):
        """For this test."""

        name = "test_member"
        label: str = ""

    try:
        x = Param(F, "x")
        assert [s.name for s in Member.layout] == ["x", "by", "label"]
        assert (Member(x, 3.0, "a").by, Member(x).by, Member(x).operands) == (3.0, 2.0, (x,))
    finally:
        del OPS["test_member"]


def test_a_module_led_by_another_function_has_the_same_entries():
    first, second = (Function(name, (p := Param(F, "x"),), (), (p,)) for name in ("f", "g"))
    module = Module((first, second))
    assert module.led_by("g").entries == (second, first)
    assert module.led_by("f").entries == module.entries
