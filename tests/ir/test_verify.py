"""Each rule of the verifier, broken by hand: the error says so under the line of IR text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dlvm.base.errors import IRError, Origin
from dlvm.ir import (
    BOOL,
    F32,
    F64,
    I64,
    Builder,
    Declaration,
    Function,
    FunctionRef,
    Module,
    Op,
    Param,
    TensorType,
    Value,
    literal,
    verify,
)
from dlvm.ir.sizes import dims
from dlvm.ops import (
    Add,
    Broadcast,
    Call,
    Checkpoint,
    Constant,
    DimSize,
    EmptyTape,
    Iota,
    Modf,
    Neg,
    Pop,
    Print,
    Push,
    Tanh,
    While,
)

B, C = dims.symbol("B"), dims.symbol("C")
VECTOR, NUMBER, TRUTH = TensorType(F32, (3,)), TensorType(F32), TensorType(BOOL)


def x_of(t: TensorType = VECTOR) -> Param:
    return Param(t, "x")


def function(*params: Param, ops: tuple[Op, ...] = (), results: tuple[Value, ...] = (), name="f"):
    return Function(name, params, ops, results)


def built(*params: Param, body: Callable[..., Value | tuple[Value, ...]], name: str = "f"):
    with Builder() as b:
        out = body(*params)
    return Function(name, params, tuple(b.ops), out if isinstance(out, tuple) else (out,))


def refused(message: str, *entries: Function | Declaration) -> None:
    with pytest.raises(IRError, match=message):
        Module(entries).verify()


def test_an_operand_must_be_defined_above():
    x = x_of()
    first, second = Neg(x), Tanh(x)
    late = Add(first, second)
    refused(
        r"(?s)@f: add: operand 1, .* is not defined above.*\| %1 = add %0, %2",
        function(x, ops=(first, late, second), results=(late,)),
    )


def test_an_operand_of_another_function_is_not_defined():
    x, y = x_of(), x_of()
    alien = Neg(y)
    op = Add(x, alien)
    refused("operand 1, <neg : .*is not defined above", function(x, ops=(op,), results=(op,)))


def test_a_region_sees_nothing_but_its_parameters():
    x = x_of()
    inner = Neg(x)
    op = Checkpoint((), function(ops=(inner,), results=(inner,), name="body"))
    refused("@body: neg: operand 0", function(x, ops=(op,), results=op.results))


def test_an_operation_stands_once():
    x = x_of()
    op = Neg(x)
    refused("the operation occurs twice", function(x, ops=(op, op), results=(op,)))


def test_a_parameter_stands_once():
    x = x_of()
    refused("the parameter %x occurs twice", function(x, x, results=(x,)))


def test_the_types_are_what_the_shape_rule_infers():
    x = x_of()
    op = Neg(x)
    op.result_types = (NUMBER,)
    refused(r"expected results f32\[3\] by the shape rule, found f32\n", function(x, ops=(op,)))


def test_a_result_must_be_defined():
    x = x_of()
    refused("returns <neg : .*>, which is not defined", function(x, results=(Neg(x),)))


def test_the_results_of_several_are_its_parts():
    x = x_of()
    op = Modf(x)
    refused("which is not defined", function(x, ops=(op,), results=(op,)))
    Module((function(x, ops=(op,), results=op.results),)).verify()


@pytest.mark.parametrize(
    "build",
    [
        lambda: Iota(B),
        lambda: DimSize(B + 1),
        lambda: Broadcast(Constant(literal(1, F32)), (B,), ()),
    ],
)
def test_a_size_must_be_bound_by_a_parameter(build: Callable[[], Op]):
    refused("the symbol B does not occur", built(x_of(), body=lambda x: build()))
    Module((built(x_of(TensorType(F32, (B,))), body=lambda x: build()),)).verify()


def test_a_size_of_the_function_around_is_bound_in_a_region():
    body = built(body=lambda: DimSize(B), name="body")
    Module(
        (built(x_of(TensorType(F32, (B,))), body=lambda x: Checkpoint((), body).results),)
    ).verify()
    refused("@body: dim: the symbol B", built(x_of(), body=lambda x: Checkpoint((), body).results))


CALLEE = built(x_of(TensorType(F32, (B, B))), body=lambda x: Neg(x), name="g")


@pytest.mark.parametrize(
    ("argument", "types", "message"),
    [
        (TensorType(F32, (3, 3)), (TensorType(F32, (3, 3)),), ""),
        (TensorType(F32, (C, C)), (TensorType(F32, (C, C)),), ""),
        (TensorType(F32, (2, 3)), (TensorType(F32, (2, 3)),), "must be B where B = 2, found 3"),
        (TensorType(F64, (3, 3)), (TensorType(F64, (3, 3)),), r"expected f32\[B,B\], found f64"),
        (
            TensorType(F32, (3, 3)),
            (TensorType(F32, (2, 2)),),
            "call of @g: expected results f32.3,3",
        ),
        (TensorType(F32, (3, 3)), (), "call of @g: expected results"),
    ],
)
def test_a_call_unifies_with_its_callee(argument: TensorType, types, message: str):
    fn = built(x_of(argument), body=lambda x: (*Call((x,), FunctionRef("g"), types).results, x))
    if message:
        refused(message, fn, CALLEE)
    else:
        Module((fn, CALLEE)).verify()


def test_a_call_names_a_function_of_the_module():
    fn = built(x_of(), body=lambda x: Call((x,), FunctionRef("g"), (VECTOR,)).results)
    refused("no function @g", fn)


LOSS = built(x_of(), Param(TensorType(I64), "n"), body=lambda x, n: Constant(literal(1, F32)))


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (Declaration("adjoint", "d", "nobody"), "no function @nobody"),
        (Declaration("adjoint", "d", "f", wrt=(2,)), "below 2 of @f, found 2"),
        (Declaration("adjoint", "d", "f", wrt=(-1,)), "found -1"),
        (Declaration("adjoint", "d", "f", wrt=(1,)), "1 of @f to be float, found i64"),
        (Declaration("adjoint", "d", "f", wrt=(0,), keep=(1,)), "below 1 of @f, found 1"),
        (Declaration("adjoint", "d", "f", wrt=(0, 0)), "position 0 occurs twice"),
        (Declaration("tangent", "d", "f", wrt=(1,)), "1 of @f to be float, found i64"),
        (Declaration("batched", "d", "f", axes=(0,), size=3), "for each of 2 parameters, found 1"),
        (Declaration("batched", "d", "f", axes=(2, None), size=3), "from 0 to 1, found 2"),
        (Declaration("batched", "d", "f", axes=(-1, None), size=3), "from 0 to 1, found -1"),
        (Declaration("integral", "d", "f"), "expected a declaration .*, found integral"),
        (Declaration("adjoint", "d", "d", wrt=(0,)), "the declaration of @d refers to itself"),
    ],
)
def test_a_declaration_must_make_sense(declaration: Declaration, message: str):
    refused(message, LOSS, declaration)


def test_an_adjoint_without_seed_needs_one_scalar():
    vector = built(x_of(), body=lambda x: Neg(x))
    refused(
        "must have exactly one float scalar result", vector, Declaration("adjoint", "d", "f", (0,))
    )


def test_declarations_may_not_go_in_a_circle():
    a, b = Declaration("tangent", "a", "b"), Declaration("tangent", "b", "a")
    refused("the declaration of @a refers to itself", LOSS, a, b)


def test_a_predicate_is_pure():
    x = x_of(TRUTH)

    def loud(c: Param) -> Value:
        Print(c, "")
        return c

    condition = built(x_of(TRUTH), body=loud, name="condition")
    body = built(x_of(TRUTH), body=lambda c: c, name="body")
    with Builder() as b, pytest.raises(IRError, match="while: condition must be pure"):
        While((x,), (), condition, body)
    assert b.ops == []


def test_a_tape_is_used_once():
    def forked(x: Param) -> tuple[Value, ...]:
        full = Push(EmptyTape(), (x,))
        return tuple(Pop(full, (full.type, VECTOR)).results[1] for _ in range(2))

    refused("pop: operand 0 is a tape that was used before", built(x_of(), body=forked))


def test_a_tape_is_returned_once():
    def doubled() -> tuple[Value, ...]:
        return (tape := EmptyTape(), tape)

    refused("@f returns a tape that was used before", built(body=doubled))


def test_the_name_of_a_function_can_be_written():
    x = x_of()
    refused("the name .<lambda>. can't be written", Function("<lambda>", (x,), (), (x,)))


def test_an_error_carries_the_line_of_the_user():
    x = x_of()
    op = Neg(x)
    op.origin = Origin("script.py", 12, 3)
    with pytest.raises(IRError) as caught:
        verify(Module((function(x, ops=(op, op)),)))
    assert "script.py:12" in str(caught.value)


def test_an_empty_module_is_fine_but_has_no_main():
    module = Module(()).verify()
    with pytest.raises(IRError, match="expected a module with at least one function"):
        _ = module.main
