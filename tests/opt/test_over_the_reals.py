"""Every law by the strongest means that there is for it; none stays unchecked.

Laws that keep every bit are tried on edges of IEEE arithmetic (``test_rules``), and here without
rounding as well, as far as they are about numbers. Laws over the reals are identities of rational
functions, tried on random rationals in exact arithmetic, where a wrong one shows almost surely
(Schwartz 1980, Zippel 1979), or of transcendental ones, which SymPy proves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dlvm.ir import BOOL, F64, I64, Array, Builder, Function, Module, Param, Rule, TensorType, rules
from dlvm.ir import parse as parse_module
from dlvm.ir.numerics import EXACT
from dlvm.ir.sizes.dims import evaluate, symbols
from dlvm.ops import Add, Broadcast, Matmul, Reshape
from dlvm.opt.laws.simplification import before_broadcast, before_reshape
from dlvm.opt.laws.softmax import open_softmax

from .building import parameter_type
from .reals import ANALYSIS, FIELD, NoMeaning, meaning, objects
from .test_rules import the

RATIONALS, SYMBOLS, BITS = "rationals", "symbols", "bits"
DTYPES = {"n": F64, "f": F64, "i": I64, "b": BOOL}
SYMBOLIC = {"exponential_of_logarithm", "logarithm_of_exponential"}
"""The laws about functions that leave the rationals."""


def sides(rule: Rule, example: Callable[..., Any], size: int) -> tuple[Function, Function]:
    """Both sides of a law on one example, where every letter is one size."""
    params = [Param(_sized(text, size), f"x{i}") for i, text in enumerate(rule.given)]
    with Builder() as before:
        left = example(*params)
    with Builder() as after:
        right = rule.apply(left)
    assert right is not None
    ops = (*before.ops, *after.ops)
    first, second = (Function("f", tuple(params), ops, (v,)) for v in (left, right))
    return first, second


def _sized(text: str, size: int) -> TensorType:
    shape = parameter_type("f32" + text[1:]).shape
    letters = {s for d in shape for s in symbols(d)}
    return TensorType(
        DTYPES[text[0]], tuple(evaluate(d, dict.fromkeys(letters, size)) for d in shape)
    )


def rational(t: TensorType, rng: np.random.Generator) -> Array:
    shape = tuple(int(str(d)) for d in t.shape)
    if t.dtype == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    count = int(np.prod(shape))
    if t.dtype.is_integer:  # as indices some are inside of what they read
        wide = rng.choice((10, 10**6))
        return objects(shape, (Fraction(int(n)) for n in rng.integers(-wide, wide, count)))
    pairs = zip(rng.integers(-(10**6), 10**6, count), rng.integers(1, 10**6, count), strict=True)
    return objects(shape, (Fraction(int(a), int(b)) for a, b in pairs))


def symbolic(t: TensorType, name: str, **known: bool) -> Array:
    shape = tuple(int(str(d)) for d in t.shape)
    count = int(np.prod(shape))
    return objects(shape, (sympy.Symbol(f"{name}{i}", **known) for i in range(count)))


def over_the_rationals(rule: Rule) -> None:
    """Both sides are equal on random rationals, at sizes 0 to 3, if they have a meaning there."""
    rng = np.random.default_rng(0)
    for example in rule.examples:
        for size in range(4):
            left, right = sides(rule, example, size)
            for _ in range(3):
                arrays = [rational(p.type, rng) for p in left.params]
                a, b = (meaning(fn, arrays, FIELD) for fn in (left, right))
                assert a.shape == b.shape
                assert (a == b).all(), f"{rule.name}: {a} is not {b}"


def by_symbols(rule: Rule) -> None:
    """The difference of both sides is 0 for SymPy, elements being any positive numbers."""
    for example in rule.examples:
        left, right = sides(rule, example, 2)
        arrays = [symbolic(p.type, f"{p.name}_", positive=True) for p in left.params]
        a, b = (meaning(fn, arrays, ANALYSIS) for fn in (left, right))
        for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True):
            assert sympy.simplify(x - y) == 0, f"{rule.name}: {x} is not {y}"


def means(rule: Rule) -> set[str]:
    """By which means a law holds; one that fails raises."""
    found = {BITS} if rule.law_class == EXACT else set[str]()
    for name, check in ((RATIONALS, over_the_rationals), (SYMBOLS, by_symbols)):
        try:
            check(rule)
        except NoMeaning:
            continue
        return found | {name}
    return found


@pytest.mark.parametrize("rule", list(rules()), ids=lambda r: r.name)
def test_every_law_is_checked_by_the_means_for_it(rule: Rule):
    found = means(rule)
    wanted = SYMBOLS if rule.name in SYMBOLIC else RATIONALS
    assert wanted in found, f"{rule.name} is checked by {found or 'nothing'}"


def test_no_law_is_left_out():
    names = {rule.name for rule in rules()}
    assert names >= SYMBOLIC
    assert {rule.name for rule in rules() if rule.law_class != EXACT} >= SYMBOLIC


def test_softmax_is_opened_by_a_law_over_the_reals():
    """exp(x - log(sum(exp(x)))), by a maximum: on any ascending numbers, so that it is known."""
    module = parse_module("""dlvm 1
func @f(%x: f64[2,3]) -> f64[2,3] {
  %0 = logsumexp %x axes=(1) : f64[2]
  %1 = broadcast %0 shape=(2,3) axes=(0) : f64[2,3]
  %2 = sub %x, %1 : f64[2,3]
  %3 = exp %2 : f64[2,3]
  return %3
}
""")
    start = symbolic(TensorType(F64, (2, 1)), "t", real=True)
    steps = symbolic(TensorType(F64, (2, 2)), "a", positive=True)
    x = np.concatenate([start, start + steps[:, :1], start + steps[:, :1] + steps[:, 1:]], axis=1)
    opened: Module = open_softmax.run(module)
    assert opened is not module
    found = meaning(opened.main, [x], ANALYSIS)
    for row, given in zip(found, x, strict=True):
        total = sum(sympy.exp(v) for v in given)
        for value, v in zip(row, given, strict=True):
            assert sympy.simplify(value - sympy.exp(v) / total) == 0


def general(law: Callable[[Any], Any], example: Callable[..., Any], *given: str) -> Rule:
    """A law of ``simplify`` about every formula of elements, on one of them."""
    return Rule(law.__name__, (Add,), law, (example,), given, EXACT, law.__doc__ or "")


GENERAL = [
    general(
        before_broadcast,
        lambda x, y: Add(Broadcast(x, (4, *x.shape), (1,)), Broadcast(y, (4, *y.shape), (1,))),
        "f[M]",
        "f[M]",
    ),
    general(before_broadcast, lambda x: Broadcast(x, (4, *x.shape), (1,)) + 2.0, "f[M]"),
    general(before_reshape, lambda x: Reshape(x, (1, *x.shape)) + 2.0, "f[M]"),
    general(
        before_reshape,
        lambda x, y: Add(Reshape(x, (x.type.size,)), Reshape(y, (y.type.size,))),
        "f[M,2]",
        "f[M,2]",
    ),
    general(
        before_reshape,
        lambda x, y, b: Add(
            Reshape(Matmul(x, y), (1, 2, 4, 8)), Broadcast(b, (1, 2, 4, 8), (0, 1))
        ),
        "n[2,2]",
        "n[2,32]",
        "n[1,2]",
    ),
    general(
        before_reshape,
        lambda x, y, z: Add(z, Reshape(Matmul(x, y), (2, 4, 8))),
        "n[2,2]",
        "n[2,32]",
        "n[2,4,8]",
    ),
]


@pytest.mark.parametrize("rule", GENERAL, ids=lambda r: r.name)
def test_so_are_those_about_every_formula(rule: Rule):
    assert RATIONALS in means(rule)


# -- what is wrong is caught ----------------------------------------------------------------------


def wrong(name: str, apply: Any) -> Rule:
    return replace(the(name), apply=apply)


WRONG = {
    "a factor next to one": wrong("add_zero", lambda op: op.x * (1.0 + 2.0**-50)),
    "a shift": wrong("multiply_floats_by_zero", lambda op: op.x + op.y),
    "operands exchanged": wrong("one_factor_for_all", lambda op: op * -1.0),
    "a wrong multiple of a function": wrong(
        "logarithm_of_exponential", lambda op: op.x.x * 1.0000001
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_law_is_caught(name: str):
    with pytest.raises(AssertionError):
        means(WRONG[name])
