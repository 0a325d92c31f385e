"""Forward mode agrees with reverse mode to the last digits, and keeps no tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlvm import ops
from dlvm.base.errors import CompilerError
from dlvm.ir import F32, OPS, Declaration, Module, Value
from dlvm.ops import Elementwise

from .building import checked, derivatives, draw, floats, function
from .controls import CASES
from .leaves import LEAVES, SIZES

RNG = np.random.default_rng


def assert_dual(module: Module, args: list[np.ndarray]) -> None:
    """``<J v, w> = <v, J' w>`` for random v and w, and the kept results are the primal's."""
    f = module.function("f")
    v = [RNG(i).normal(size=args[i].shape) for i in floats(f)]
    moved = module.run("v", *args, *v)
    primal = module.run("f", *args)
    for a, b in zip(primal, moved, strict=False):
        assert np.array_equal(a, b)
    dy = moved[len(primal) :]
    w = [RNG(i).normal(size=y.shape) for i, y in enumerate(dy)]
    dx = module.run("d", *args, *w)
    forward = sum(float((a * b).sum()) for a, b in zip(dy, w, strict=True))
    backward = sum(float((a * b).sum()) for a, b in zip(v, dx, strict=False))
    assert abs(forward - backward) <= 1e-12 * (1 + abs(forward)), (forward, backward)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("leaf", LEAVES)
def test_leaves(leaf: str, sizes: dict[str, int]) -> None:
    fn = function("f", *LEAVES[leaf])
    assert_dual(derivatives(fn), [draw(p.type, RNG(5), **sizes) for p in fn.params])


@pytest.mark.parametrize("name", CASES)
def test_control(name: str) -> None:
    case = CASES[name]
    module = derivatives(*case.functions)
    assert_dual(module, case.arguments(RNG(6)))
    names = {op.name for op in module.function("v").walk()}
    assert not names & {"push", "pop", "empty_tape"}


@pytest.mark.parametrize("name", CASES)
def test_forward_over_reverse_is_reverse_over_reverse(name: str) -> None:
    """The Hessian is symmetric: ``d/dt <w, g(x + t v)>`` both ways."""
    case = CASES[name]
    module = derivatives(*case.functions)
    wrt = floats(module.function("f"))
    first = Declaration("adjoint", "d", "f", wrt, seeded=True)
    over = Declaration("tangent", "hv", "d", wrt)
    full = checked(*case.functions, first, over)
    args = case.arguments(RNG(7))
    outs = [o for o in full.run("f", *args) if o.dtype.kind == "f"]
    seeds = [RNG(8).normal(size=o.shape) for o in outs]
    v = [RNG(9 + i).normal(size=args[i].shape) for i in wrt]
    columns = full.run("hv", *args, *seeds, *v)
    w = [RNG(90 + i).normal(size=args[i].shape) for i in wrt]
    unseeded = [np.zeros(o.shape) for o in outs]
    rows = module.run("dd", *args, *seeds, *w, *unseeded)
    forward = sum(float((a * b).sum()) for a, b in zip(columns, w, strict=False))
    backward = sum(float((a * b).sum()) for a, b in zip(v, rows, strict=False))
    assert abs(forward - backward) <= 1e-11 * (1 + abs(forward)), (forward, backward)


CROOKED: dict[str, tuple[Callable[..., Any], str]] = {
    "not linear": (lambda dy: (dy * dy,), "the adjoint of crooked is not linear"),
    "one too many": (lambda dy: (dy, dy), r"expected \(f64\[3\]\), found \(f64\[3\], f64\[3\]\)"),
    "none": (lambda dy: (), r"the adjoint of crooked .* found \(\)"),
    "no tuple": (lambda dy: dy, "the adjoint of crooked must be a tuple"),
    "another shape": (lambda dy: (ops.Sum(dy, (0,)),), r"expected \(f64\[3\]\), found \(f64\)"),
    "another type": (lambda dy: (ops.Cast(dy, F32),), r"crooked .* found \(f32\[3\]\)"),
    "no value": (lambda dy: (0.0,), r"crooked .* found \(0.0\)"),
}
UNSEEN = ("adjoint", "not linear")
FAULTS = [(k, f) for k in ("adjoint", "tangent") for f in CROOKED if (k, f) != UNSEEN]


@pytest.mark.parametrize(("kind", "fault"), FAULTS)
def test_an_adjoint_that_is_wrong_is_named(kind: str, fault: str) -> None:
    formula, message = CROOKED[fault]

    class Crooked(Elementwise):
        """Its adjoint has a fault."""

        name = "crooked"
        x: Value

        def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
            return formula(*dy)

    try:
        f = function("f", "f64[3]", Crooked)
        with pytest.raises(CompilerError, match=message):
            checked(f, Declaration(kind, "v", "f", (0,), seeded=kind == "adjoint"))
    finally:
        del OPS["crooked"]
