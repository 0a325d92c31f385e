"""No law that rounds loses digits: bounds of errors, and errors that are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.ir import Rule, parse, rules
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import Matmul, Sub
from dlvm.trust.bounds import LONG, bounds, lost
from dlvm.trust.laws import WORSE, digits_lost, letters, sides

from .near import keeps_digits

LAWS = [rule for rule in rules() if rule.law_class == ROUNDING]
RNG = np.random.default_rng(0)


def worst(rule: Rule, rounds: int) -> float:
    """The largest factor by which a law exceeds the bound of its left side."""
    dice, found = np.random.default_rng(1), [0.0]
    for _ in range(rounds):
        sizes = {s: int(dice.integers(1, 8)) for s in letters(rule)}
        for example in range(len(rule.examples)):
            left, right = sides(rule, example, sizes)
            assert right is not None
            found.append(digits_lost(left, right, dice))
    return max(found)


@pytest.mark.parametrize("rule", LAWS, ids=lambda rule: rule.name)
def test_a_law_keeps_the_digits_of_its_left_side(rule: Rule):
    assert worst(rule, 8) <= WORSE


@pytest.mark.drawn(3)
@pytest.mark.parametrize("rule", LAWS, ids=lambda rule: rule.name)
def test_a_law_keeps_digits_wherever_it_applies(rule: Rule):
    keeps_digits(rule)


def test_a_law_that_takes_differences_apart_is_found():
    wrong = Rule(
        "wrong",
        (Matmul,),
        lambda op: Sub(Matmul(op.x.x, op.y), Matmul(op.x.y, op.y)),  # type: ignore[attr-defined]
        (lambda a, b, x: Matmul(Sub(a, b), x),),
        ("f[M,N]", "f[M,N]", "f[N,1]"),
        ROUNDING,
        "",
    )
    assert worst(wrong, 8) > 1000
    assert worst(next(r for r in rules() if r.name == "sum_times_taken_apart"), 8) > WORSE


@pytest.mark.parametrize(
    ("op", "shape", "sizes"),
    [("matmul", "f32[1,1]", LONG * 11.0), ("mul", "f32[1,2]", [9.0, 4.0])],
)
def test_bounds_are_those_of_the_book(op: str, shape: str, sizes: Any):
    x = np.array([[3.0, -2.0]])
    y = np.array([[1.0], [4.0]]) if op == "matmul" else x
    types = [f"f32[{','.join(map(str, a.shape))}]" for a in (x, y)]
    params = f"%x: {types[0]}, %y: {types[1]}"
    text = f"dlvm 1\nfunc @f({params}) -> {shape} {{\n  %z = {op} %x, %y : {shape}\n"
    module = parse(text + "  return %z\n}\n")
    ((_, error),) = bounds(module, [x, y])
    np.testing.assert_allclose(error, np.broadcast_to(sizes, error.shape))
    assert lost(module, module, [x, y]) <= 1


N = 96
MEAN = (1000 + RNG.normal(size=(N, N))).astype("f4")
COLUMN = (1000 + RNG.normal(size=(N, 3))).astype("f4")
NEAR = (np.eye(N) + 1e-5 * RNG.normal(size=(N, N))).astype("f4")
V = RNG.normal(size=(N, 3)).astype("f4")
U = RNG.normal(size=N).astype("f4")
RANK_ONE = (np.outer(U, U) * (1 + 1e-5 * RNG.normal(size=(N, N)))).astype("f4")
DIAGONAL = (1e4 * np.eye(N) + 1e-3 * RNG.normal(size=(N, N))).astype("f4")
HOSTILE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "both centred": (lambda w, x: (w - w.mean()) @ (x - x.mean(0)), (MEAN, COLUMN)),
    "less its diagonal": (lambda a, x: (a - dlvm.diag(dlvm.diag(a))) @ x, (DIAGONAL, V)),
    "less the identity": (lambda m, x: (m - dlvm.eye(N, dtype="f4")) @ x, (NEAR, V)),
    "less a row": (lambda x, c, w: (x - c) @ w, (MEAN, MEAN[0], V)),
    "less an outer product": (lambda a, u, x: (a - dlvm.outer(u, u)) @ x, (RANK_ONE, U, V)),
    "summed": (lambda x, c: ((x - c) @ (x - c).T).sum(0), (MEAN, MEAN[0])),
}


def measured(name: str, mode: str) -> float:
    """The error beside the literal program's, both beside f64, on sixteen perturbed inputs."""
    f, given = HOSTILE[name]
    dice = np.random.default_rng(2)
    compiled, literal = (dlvm.function(f, numerics=m) for m in (mode, "strict"))
    ours = theirs = size = 0.0
    for _ in range(16):
        moved = [(a * (1 + 1e-6 * dice.normal(size=a.shape))).astype("f4") for a in given]
        exact = np.asarray(literal(*(a.astype("f8") for a in moved)))
        ours = max(ours, np.abs(compiled(*moved) - exact).max())
        theirs = max(theirs, np.abs(literal(*moved) - exact).max())
        size = max(size, np.abs(exact).max())
    return ours / max(theirs, 2.0**-24 * np.sqrt(N) * size)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cancels_keeps_its_digits(name: str):
    assert measured(name, "default") <= WORSE


def test_under_fast_it_does_not():
    assert measured("less an outer product", "fast") > WORSE
