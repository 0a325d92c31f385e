"""Checks laws again, on their own examples: both sides on small whole numbers, by the interpreter.

No sum or product of small whole numbers is rounded, so both sides of a true law are equal there in
any order of operations. Of a law that rounds, numbers that are drawn against its left side show
whether its right side loses digits (``bounds``). The suite checks more: special values, exact
rationals and symbols.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dlvm.ir import BOOL, F64, I64, Array, Builder, Dim, Function, Module, Param, Rule, Value, parse
from dlvm.ir.numerics import FAST, ROUNDING, LawClass
from dlvm.ir.sizes.dims import evaluate, symbols
from dlvm.ir.types import TensorType

from .bounds import lost
from .hostile import hostile

DTYPES = {"n": F64, "f": F64, "i": I64, "b": BOOL}
SIZES = (0, 1, 2, 3, 5)
WORSE = 4.0
"""How many times the error bound of its left side the right side of a law may have."""


def sides(rule: Rule, example: int, sizes: dict[str, Dim]) -> tuple[Module, Module | None]:
    """Both sides of a law on one of its examples; None where the law does not apply."""
    params = [Param(given_type(t, sizes), f"x{i}") for i, t in enumerate(rule.given)]
    with Builder() as before:
        left = rule.examples[example](*params)
    with Builder() as after:
        right = rule.apply(left)  # type: ignore[arg-type]
    first = _module(params, before, left)
    if right is None:
        return first, None
    return first, _module(params, before, right, after)


def _module(
    params: list[Param], before: Builder, result: Value, after: Builder | None = None
) -> Module:
    from dlvm.opt.regions.dropping import drop

    ops = (*before.ops, *(after.ops if after is not None else ()))
    return drop.run(Module((Function("law", tuple(params), ops, (result,)),)))


def given_type(text: str, sizes: dict[str, Dim]) -> TensorType:
    """The type that ``n[M,K]`` stands for, at some sizes."""
    shape = parse(f"dlvm 1\nfunc @f(%x: f32{text[1:]}) -> () {{\n  return\n}}\n").main.params[0]
    return TensorType(DTYPES[text[0]], shape.shape).substitute(sizes)


def letters(rule: Rule) -> list[str]:
    """The sizes that are open in the types of a law."""
    shapes = (given_type(t, {}).shape for t in rule.given)
    return sorted({s for shape in shapes for d in shape for s in symbols(d)})


def failures(rule: Rule, rounds: int = 20, seed: int = 0) -> Iterator[str]:
    """How a law fails in so many rounds: nothing if it holds."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        sizes: dict[str, Dim] = {s: int(rng.choice(SIZES)) for s in letters(rule)}
        for example in range(len(rule.examples)):
            left, right = sides(rule, example, sizes)
            if right is None:
                yield f"{rule.name} does not apply to its example at sizes {sizes}"
                continue
            arrays = [_drawn(p.type, rng, rule.law_class) for p in left.main.params]
            with np.errstate(all="ignore"):
                (a,), (b,) = (m.run("law", *arrays) for m in (left, right))
            if not np.allclose(a, b, rtol=1e-9, atol=0, equal_nan=True):
                yield f"{rule.name}: both sides differ at sizes {sizes}: {a} and {b}"
            worse = digits_lost(left, right, rng) if rule.law_class == ROUNDING else 0.0
            if worse > WORSE:
                yield f"{rule.name} loses digits at sizes {sizes}: {worse:.1f} times the bound"


def digits_lost(left: Module, right: Module, dice: np.random.Generator) -> float:
    """How many times the error bound of its left side a law has on numbers drawn against it."""
    with np.errstate(all="ignore"):
        return lost(left, right, hostile(left, dice))


def _drawn(t: TensorType, rng: np.random.Generator, law_class: LawClass) -> Array:
    """Small whole numbers; fast laws are identities of positive numbers alone."""
    shape = tuple(evaluate(d, {}) for d in t.shape)
    low, high = (0, 2) if t.dtype == BOOL else (1, 4) if law_class == FAST else (-3, 4)
    return rng.integers(low, high, shape).astype(t.dtype.numpy)
