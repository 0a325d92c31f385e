"""Checks laws again, on their own examples: both sides on small whole numbers, by the interpreter.

No sum or product of small whole numbers is rounded, so both sides of a true law are equal there in
any order of operations. An exact law also keeps every bit of special values. Of a law that rounds,
numbers that are drawn against its left side show whether its right side loses digits (``bounds``).
The suite checks more: other element types, exact rationals and symbols.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dlvm.ir import BOOL, F64, I64, Array, Builder, Dim, Function, Module, Param, Rule, Value, parse
from dlvm.ir.numerics import EXACT, FAST, ROUNDING, LawClass
from dlvm.ir.sizes.dims import evaluate, symbols
from dlvm.ir.types import TensorType

from .bounds import lost
from .hostile import hostile

DTYPES = {"n": F64, "f": F64, "i": I64, "b": BOOL}
SIZES = (0, 1, 2, 3, 5)
SPECIAL = (0.0, -0.0, 1.0, -1.5, 65504.0, 1e-45, 1e308, np.inf, -np.inf, np.nan)
"""Numbers on which an exact law keeps every bit."""
TRIES = 4
"""Arrays of special numbers that are drawn in a round."""
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
    """How a law fails in so many rounds, with both of its sides: nothing if it holds."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        sizes: dict[str, Dim] = {s: int(rng.choice(SIZES)) for s in letters(rule)}
        at = f" at {', '.join(f'{s}={n}' for s, n in sizes.items())}" if sizes else ""
        for example in range(len(rule.examples)):
            left, right = sides(rule, example, sizes)
            if right is None:
                yield f"{rule.name} does not apply to its example{at}\n{shown(left)}"
                continue
            if (said := _different(rule, left, right, rng)) is not None:
                on = " on special numbers" if said.special else ""
                yield f"{rule.name}: both sides differ{on}{at}\n{said.text}"
            worse = digits_lost(left, right, rng) if rule.law_class == ROUNDING else 0.0
            if worse > WORSE:
                said = f"{rule.name} loses digits{at}: {worse:.1f} times the bound"
                yield f"{said}\n{shown(left, right)}"


@dataclass(frozen=True)
class _Difference:
    """Both sides as text, with the numbers on which they differ."""

    special: bool
    text: str


def _different(
    rule: Rule, left: Module, right: Module, rng: np.random.Generator
) -> _Difference | None:
    """Numbers on which both sides differ; None if they agree on all that are drawn."""
    for special in (False, *[True] * TRIES * (rule.law_class == EXACT)):
        arrays = [_drawn(p.type, rng, rule.law_class, special) for p in left.main.params]
        with np.errstate(all="ignore"):
            (a,), (b,) = (m.run("law", *arrays) for m in (left, right))
        if not (_same(a, b) if special else np.allclose(a, b, 1e-9, 0, equal_nan=True)):
            return _Difference(special, shown(left, right, arrays, (a, b)))
    return None


def shown(
    left: Module,
    right: Module | None = None,
    arrays: Sequence[Array] = (),
    results: Sequence[Array] = (),
) -> str:
    """Both sides of a law as text, and what they give on these arrays."""
    lines = ["  left side", *_body(left)]
    if right is not None:
        lines += ["  right side", *_body(right)]
    for p, x in zip(left.main.params, arrays, strict=False):
        lines.append(f"  where %{p.name} is {_numbers(x)}")
    for side, y in zip(("left", "right"), results, strict=False):
        lines.append(f"  the {side} side is {_numbers(y)}")
    return "\n".join(lines)


def _body(module: Module) -> list[str]:
    """The operations of a side, without the line of its name."""
    from dlvm.opt.regions.dropping import drop

    lines = str(drop.run(module)).splitlines()[2:]
    return [f"  {line}" for line in lines[: lines.index("}")]]


def _numbers(x: Array) -> str:
    return " ".join(np.array2string(x, threshold=12, separator=", ").split())


def _same(a: Array, b: Array) -> bool:
    """Whether two results have the same bits, but for those of a NaN."""
    if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
        return False
    return a.dtype.kind != "f" or bool((np.signbit(a) == np.signbit(b))[~np.isnan(a)].all())


def digits_lost(left: Module, right: Module, dice: np.random.Generator) -> float:
    """How many times the error bound of its left side a law has on numbers drawn against it."""
    with np.errstate(all="ignore"):
        return lost(left, right, hostile(left, dice))


def _drawn(t: TensorType, rng: np.random.Generator, law_class: LawClass, special: bool) -> Array:
    """Small whole numbers, or ``special`` ones; fast laws are identities of positive numbers."""
    shape = tuple(evaluate(d, {}) for d in t.shape)
    if special and t.dtype.is_float:
        return rng.choice(np.array(SPECIAL), shape).astype(t.dtype.numpy)
    low, high = (0, 2) if t.dtype == BOOL else (1, 4) if law_class == FAST else (-3, 4)
    return rng.integers(low, high, shape).astype(t.dtype.numpy)
