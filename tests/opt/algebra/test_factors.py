"""A factor of any kind: what its product is taken to cost is what the operations written cost."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dlvm.cost import Work, work
from dlvm.ir import F64, I64, Builder, Function, Module, Param, TensorType, splat
from dlvm.ops import Iota
from dlvm.opt.algebra.examples import identity, kron, one_hot
from dlvm.opt.algebra.factors.factors import Factor, Sketch, step_work, times
from dlvm.opt.algebra.factors.products import apart

SIZES = ((2, 3, 4, 5), (8, 8, 16, 16), (16, 1, 2, 7), (3, 128, 64, 2))
KINDS = ("dense", "diagonal", "picking", "kronecker", "kronecker with an identity")


def factor(kind: str, rows: int, columns: int, name: str) -> Factor | None:
    """A factor of a kind and size, if there is one."""

    def param(*shape: int, dtype: Any = F64) -> Param:
        return Param(TensorType(dtype, shape), f"{name}{len(shape)}{dtype}")

    match kind:
        case "dense":
            return Factor(param(rows, columns))
        case "diagonal":
            return Factor(param(rows), kind="diagonal") if rows == columns else None
        case "picking":
            hot = one_hot(param(rows, dtype=I64), splat(0, TensorType(F64)), columns)
            return apart(hot, lambda value: False).factors[0]
        case _:
            m, n = (next(d for d in (4, 3, 2, 1) if size % d == 0) for size in (rows, columns))
            a, b = param(m, n), param(rows // m, columns // n)
            if "identity" in kind:
                if m != n:
                    return None
                a = identity(a)
            return apart(kron(a, b), lambda value: False).factors[0]


def params_of(*factors: Factor) -> list[Param]:
    pending, found = [v for f in factors for v in (f.value, *f.parts)], list[Param]()
    while pending:
        value = pending.pop()
        if isinstance(value, Param):
            found += [] if value in found else [value]
        else:
            pending += value.operands  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(("left", "right"), list(itertools.product(KINDS, KINDS)))
def test_a_product_costs_what_is_written_and_is_the_product_of_the_matrices(left: str, right: str):
    tried = 0
    for (m, _, k, n), turned in itertools.product(SIZES, itertools.product((0, 1), repeat=2)):
        with Builder() as made:
            x = factor(left, *((k, m) if turned[0] else (m, k)), "x")
            y = factor(right, *((n, k) if turned[1] else (k, n)), "y")
            if x is None or y is None or (x.diagonal and y.diagonal and m != n):
                continue
            x = x.transpose() if turned[0] else x
            y = y.transpose() if turned[1] else y
        before = set(made.ops)
        with made:
            found = times(x, y)
            whole, a, b = found.matrix(), x.matrix(), y.matrix()
        spent = _spent(found.value, before)
        expected = step_work(Sketch.of(x), Sketch.of(y), F64, 1)
        assert expected.flops == spent.flops, (m, k, n, turned)
        assert abs(expected.bytes - spent.bytes) <= 32 * max(m, k, n)  # the indices, and no more
        _equal(made, (x, y), (whole, a, b))
        tried += 1
    assert tried or {left, right} == {"diagonal"} or "diagonal" in (left, right)


def _spent(value: Any, before: set[Any]) -> Work:
    """The work of the operations that were written for a value."""
    pending, seen = [value], set[Any]()
    while pending:
        op = pending.pop()
        if op in before or op in seen or isinstance(op, Param):
            continue
        seen.add(op)
        pending += op.operands
    return Work.sum(map(work, seen))


def _equal(made: Builder, factors: tuple[Factor, ...], results: tuple[Any, ...]) -> None:
    params = params_of(*factors)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-1, 6, p.shape) if p.dtype == I64 else rng.standard_normal(p.shape)
        for p in params
    ]
    fn = Function("f", tuple(params), tuple(made.ops), results)
    whole, a, b = Module((fn,)).run("f", *arrays)
    np.testing.assert_allclose(whole, a @ b, rtol=1e-9, atol=1e-9)


def test_places_that_count_are_inside():
    with Builder():
        (found,) = apart(one_hot(Iota(5), splat(0, TensorType(F64)), 9), lambda v: False).factors
    assert found.kind == "picking"
