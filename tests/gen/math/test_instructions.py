"""Every element-wise operation, for every element type: compiled is what the reference says."""

import numpy as np
import pytest

from dlvm.base.errors import CompilerError
from dlvm.ir import (
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    NUMBERS,
    OPS,
    Builder,
    Function,
    Module,
    Param,
    TensorType,
)
from dlvm.ir.sizes.dims import symbol
from dlvm.ops import Bitcast, Cast, Elementwise, Kernel, Neg, Polygamma, Select, Shard
from tests.gen.compiled import Compiled, interpret
from tests.gen.values import numbers, same_bits


def rounded(result):
    """Whether an operation is only right up to some units in the last place."""
    return getattr(result, "op", result).ulp > 0.5


def all_of(dtype, size=None):
    """One kernel with a result for every operation that takes elements of this type."""
    n = TensorType(dtype, (size or symbol("N"),))
    x, y = Param(n, "x"), Param(n, "y")
    c = Param(n.with_dtype(BOOL), "c")
    with Builder() as b:
        for cls in OPS.values():
            if not issubclass(cls, Elementwise) or dtype.kind not in cls.accepts or cls is Shard:
                continue  # a Shard is gone before there are kernels
            if cls is Cast:
                [Cast(x, to) for to in NUMBERS]
            elif cls is Bitcast:
                [Bitcast(x, DTYPES[f"{kind}{dtype.bits}"]) for kind in "iu"]
            elif cls is Polygamma:
                [Polygamma(x, order) for order in (1, 2)]
            elif cls is Select:
                Select(c, x, y)
            else:
                cls(*(x, y)[: len(cls.layout)])
    results = tuple(r for op in b.ops for r in op.results)
    return Kernel((x, y, c), Function("f", (x, y, c), tuple(b.ops), results), "loops")


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_compiled_is_the_reference(dtype):
    op = all_of(dtype)
    module = Module((op.body,))
    compiled = Compiled(op)
    rng = np.random.default_rng(0)
    for size in (0, 1, 17, 211):
        x, y = (numbers(dtype, (size,), rng) for _ in range(2))
        c = numbers(BOOL, (size,), rng)
        expected = module.run("f", x, y, c)
        for result, found, value in zip(
            op.body.results, compiled(x, y, c)[0], expected, strict=True
        ):
            made = getattr(result, "op", result)
            name = made.name
            if rounded(result):
                assert close(found, value, made.ulp, (x, y) if made.cancels else ()), (name, size)
            else:
                assert same_values(found, value), (name, result.type, size)


def same_values(found, expected):
    """Equal, where zeros may differ in sign as IEEE leaves that open for max."""
    equal = (found == expected) | ((found != found) & (expected != expected))
    return found.dtype == expected.dtype and bool(np.all(equal))


def close(found, expected, ulp, operands):
    """Within what ours states and the 4 ulp that NumPy takes; half precision within one."""
    a, b = found.astype(np.float64), expected.astype(np.float64)
    if operands:
        size = np.maximum.reduce([np.ones_like(b), *(np.abs(x.astype(b.dtype)) for x in operands)])
        size = np.where(np.isfinite(size), size, 0)
        a, b = a + np.copysign(size, b), b + np.copysign(size, b)
    digits = {2: 2**-7, 4: (ulp + 4) * 2**-23, 8: (ulp + 4) * 2**-52}[found.dtype.itemsize]
    tiny = float(np.finfo(np.float32).smallest_subnormal) * 4
    return bool(np.all(np.isclose(a, b, rtol=digits, atol=tiny, equal_nan=True)))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_the_loop_interpreter_gives_the_same_bits(dtype):
    op = all_of(dtype)
    rng = np.random.default_rng(1)
    x, y = (numbers(dtype, (97,), rng) for _ in range(2))
    c = numbers(BOOL, (97,), rng)
    interpreted, _, _ = interpret(op, (x, y, c))
    for result, found, value in zip(
        op.body.results, Compiled(op)(x, y, c)[0], interpreted, strict=True
    ):
        if not rounded(result):
            assert same_bits(found, value), result


@pytest.mark.parametrize("to", [F16, F32], ids=str)
def test_a_cast_from_f64_rounds_once(to):
    """Halfway cases of the narrow type, moved by less than f32 can see."""
    x = Param(TensorType(F64, (symbol("N"),)), "x")
    op = Kernel((x,), _cast(x, to), "loops")
    near = 1 + np.arange(1, 64, 2) * 2.0**-11
    inputs = np.concatenate([near, near + 2.0**-40, near - 2.0**-40])
    found, _ = Compiled(op)(inputs)
    assert same_bits(found[0], inputs.astype(to.numpy))


def _cast(x, to):
    with Builder() as b:
        out = Cast(x, to)
    return Function("f", (x,), tuple(b.ops), (out,))


def test_a_word_outside_of_the_vocabulary_is_refused():
    class Cosine(Neg):
        def scalar(self, s, *x):
            return s.unary("cosine", *x)

    n = Param(TensorType(F32, (4,)), "n")
    with Builder() as b:
        op = Cosine(n)
    with pytest.raises(CompilerError, match="'cosine' is no scalar word; there are neg"):
        Compiled(Kernel((n,), Function("f", (n,), tuple(b.ops), (op,)), "loops"))
