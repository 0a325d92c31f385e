"""IR text reads back exactly: random programs, every constant, every attribute, every name."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlvm.ir import (
    F32,
    I64,
    NUMBERS,
    Builder,
    Declaration,
    DType,
    Function,
    Module,
    Param,
    TensorType,
    parse,
)
from dlvm.ir.sizes import dims
from dlvm.ops import Add, Constant, Maximum, Print, Tanh
from dlvm.testing.drawing.random_programs import EVERY, Program
from dlvm.testing.strategies import programs

MANY = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 20_000
"""Operations, far more than Python's stack has frames."""

VECTOR = TensorType(F32, (3,))


def module_of(*params: Param, build, name: str = "f") -> Module:
    """A module of one function whose body ``build`` writes."""
    with Builder() as b:
        results = build(*params)
    return Module((Function(name, params, tuple(b.ops), tuple(results)),))


def reread(module: Module) -> Module:
    """The module that its text describes; the text of both is the same."""
    text = str(module)
    again = parse(text)
    assert str(again) == text
    return again


@given(programs(EVERY))
def test_random_programs_read_back_as_themselves(program: Program):
    again = reread(program.module)
    assert again == program.module
    again.verify()


@given(programs(EVERY))
def test_a_program_that_was_read_back_computes_the_same_bits(program: Program):
    again = reread(program.module)
    pairs = zip(program.run(), again.run("main", *program.arrays), strict=True)
    assert all(a.tobytes() == b.tobytes() for a, b in pairs)


SHAPES = ((), (0,), (5,), (2, 3), (3, 0, 2), (5, 7))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@given(shape=st.sampled_from(SHAPES), raw=st.binary(min_size=280, max_size=280))
def test_every_bit_of_every_constant_survives(dtype: DType, shape: tuple[int, ...], raw: bytes):
    raw = raw[: int(np.prod(shape)) * dtype.numpy.itemsize]
    array = np.frombuffer(raw, dtype.numpy) if dtype.kind != "b" else _truth(raw)
    module = module_of(build=lambda: [Constant(array.reshape(shape))])
    (constant,) = reread(module).main.ops
    assert isinstance(constant, Constant)
    assert constant.value.tobytes() == array.tobytes()
    assert constant.type == TensorType(dtype, shape)


def _truth(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw, np.uint8) % 2 == 1


@pytest.mark.parametrize("dtype", [t for t in NUMBERS if t.is_float], ids=str)
def test_the_edges_of_floats_are_written_plainly(dtype: DType):
    edges = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan], dtype.numpy)
    module = module_of(build=lambda: [Constant(edges)])
    assert "value=[0.0, -0.0, 1.0, -1.5, inf, -inf, nan]" in str(module)
    assert reread(module).main.ops[0].value.tobytes() == edges.tobytes()  # type: ignore[attr-defined]


def test_large_constants_stand_once_in_the_data_section():
    many = np.arange(17, dtype=np.int64)
    module = module_of(build=lambda: [Constant(many), Constant(many.copy()), Constant(many[:16])])
    text = str(reread(module))
    assert text.count("value=#0") == 2
    assert text.count("data #") == 1


@given(st.text())
def test_any_text_may_be_a_label(label: str):
    x = Param(VECTOR, "x")

    def build(x: Param) -> list[Param]:
        Print(x, label)
        return [x]

    assert reread(module_of(x, build=build)).main.ops[0].attributes["label"] == label


@given(st.lists(st.one_of(st.text(max_size=4), st.sampled_from(["0", "x", "x_0", "a.b", "arg0"]))))
def test_any_text_may_name_a_parameter(names: list[str]):
    params = [Param(VECTOR, name) for name in names]
    reread(module_of(*params, build=lambda *xs: xs))


@pytest.mark.parametrize(
    "declaration",
    [
        Declaration("adjoint", "df", "f", wrt=(0,)),
        Declaration("adjoint", "df", "f", wrt=(0, 1), keep=(0,), seeded=True),
        Declaration("tangent", "df", "f", wrt=(1,), keep=(0,)),
        Declaration("batched", "df", "f", axes=(None, 0), size=5),
        Declaration("batched", "df", "f", axes=(0, 0), size=2 * dims.symbol("N") + 1),
        Declaration("adjoint", "df", "f", wrt=()),
    ],
    ids=lambda d: d.kind,
)
def test_declarations_read_back(declaration: Declaration):
    scalar = TensorType(F32)
    base = module_of(Param(scalar, "x"), Param(scalar, "y"), build=lambda x, y: [Add(x, y)])
    (again,) = reread(Module((*base.entries, declaration))).declarations
    assert repr(again) == repr(declaration)


def test_dead_operations_and_their_order_are_kept():
    def build(x: Param) -> list[Param]:
        Tanh(x)
        Add(x, x)
        Tanh(x)
        return [x]

    names = [op.name for op in reread(module_of(Param(VECTOR, "x"), build=build)).main.ops]
    assert names == ["tanh", "add", "tanh"]


def test_comments_blank_lines_and_spaces_mean_nothing():
    plain = 'dlvm 1\nfunc @f(%x: f32[3]) -> f32[3] {\n  print %x label="// no"\n  return %x\n}\n'
    loose = (
        "// a comment\n\n dlvm   1  // one\r\n\tfunc @f( %x :f32[ 3 ] )->f32[3]{\n\n"
        '   print %x label = "// no" // "yes"\n return %x\n }  // end\n'
    )
    assert str(parse(loose)) == plain
    assert parse(loose) == parse(plain)


def test_the_text_does_not_depend_on_the_hash_seed():
    code = (
        "from dlvm.ir import *; from dlvm.ir.sizes.dims import symbol\n"
        "size = symbol('B') * symbol('A') + symbol('C')\n"
        "x = Param(TensorType(F32, (size,)), 'x')\n"
        "print(Module((Function('f', (x,), (), (x,)),)))\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    ]
    assert len(set(runs)) == 1
    assert "f32[A*B+C]" in runs[0]


def test_a_program_of_many_operations_needs_no_recursion():
    def build(x: Param) -> list[Add | Maximum]:
        y = x
        for _ in range(MANY // 2):
            y = Maximum(Add(y, x), x)
        return [y]

    module = module_of(Param(TensorType(F32, (1,)), "x"), build=build)
    again = parse(str(module)).verify()
    assert again == module
    assert len(again.main.ops) == MANY
    (last,) = again.run("f", np.zeros(1, np.float32))
    assert last == 0


def test_an_integer_constant_is_no_float():
    module = module_of(build=lambda: [Constant(np.array(2**62 + 1))])
    assert f"value={2**62 + 1} : i64" in str(reread(module))
    assert module.main.results[0].type == TensorType(I64)
