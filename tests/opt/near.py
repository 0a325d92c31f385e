"""Whatever a law applies to keeps its meaning, near to its examples too.

A proof on the examples of a law says nothing about its conditions: a law that forgets one applies
to something that its examples do not hold. Here every law is tried on every operation of its class
in a table of near ones, and on the examples of all other laws. Most it must refuse; where it
applies, both sides are compared as in ``test_rules``. The same is asked of batches of matrices, for
which most of these operations can be built as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Any

import numpy as np

from dlvm.ir import (
    BOOL,
    F16,
    F32,
    F64,
    I32,
    I64,
    Array,
    Builder,
    DType,
    Op,
    Param,
    Rule,
    TensorType,
    Value,
    rules,
    splat,
)
from dlvm.ir.knowledge import properties_of
from dlvm.ir.numerics import FAST, ROUNDING, LawClass
from dlvm.ir.sizes import dims
from dlvm.ops import Add, Mul, Sub
from dlvm.opt.algebra.examples import outer
from dlvm.trust.bounds import lost
from dlvm.trust.hostile import hostile
from dlvm.trust.laws import WORSE
from dlvm.trust.recast import widened

from . import near_movements, near_parts, near_products, near_solves, near_sums, near_written
from .building import parameter_type
from .near_products import Made
from .test_rules import Broken, compare, module, rounded, values

SIZES: tuple[dict[str, int], ...] = ({"B": 2, "M": 2, "N": 3, "K": 4}, {})
"""Different ones, and, where a law may take one for another, all 2."""


@dataclass(frozen=True)
class Near:
    """An operation: its name, the types of its parameters, and how to build it."""

    name: str
    given: tuple[str, ...]
    make: Made


@dataclass(frozen=True)
class Built:
    """An operation on parameters of some element types and sizes."""

    name: str
    params: tuple[Param, ...]
    sizes: dict[str, int]
    before: Builder
    left: Op

    def __hash__(self) -> int:
        return id(self)


@cache
def near() -> tuple[Near, ...]:
    """Those of the tables, and the examples of every law."""
    tables = (
        *near_products.groups(),
        *near_parts.PARTS,
        *near_movements.groups(),
        *near_solves.SOLVES,
        *near_sums.SUMS,
        *near_written.WRITTEN,
    )
    found = [Near(name, given, make) for given, makes in tables for name, make in makes.items()]
    for rule in rules():
        found += [Near(f"as {rule.name}", rule.given, example) for example in rule.examples]
    return tuple(found)


@cache
def in_batches() -> tuple[Near, ...]:
    """Those that can be built as well of two matrices each, or two vectors, in a batch."""
    given = (
        (one, tuple(_in_a_batch(t, rank) for t in one.given)) for one in near() for rank in (1, 2)
    )
    wider = (
        Near(f"batches: {one.name}", types, one.make) for one, types in given if types != one.given
    )
    return tuple(one for one in wider if _can_be_built(one))


def _in_a_batch(text: str, rank: int) -> str:
    """The type with one more axis, if it has ``rank`` axes."""
    kind, axes = text[0], [axis for axis in text[2:-1].split(",") if axis]
    return f"{kind}[{','.join(('2', *axes))}]" if len(axes) >= rank else text


def _can_be_built(one: Near) -> bool:
    """Whether an operation has a meaning for its parameters, in all element types and sizes."""
    try:
        for dtypes in _dtypes(one, False, False):
            for sizes in SIZES:
                _built(one, dtypes, sizes, symbolic=bool(sizes))
    except Exception:  # however the functions that build it refuse other shapes
        return False
    return True


@cache
def built(reals: bool, keeps: bool, batches: bool = False) -> dict[type[Op], list[Built]]:
    """Every operation, by its class; sizes that are open differ, and known ones are alike."""
    found: dict[type[Op], list[Built]] = defaultdict(list)
    for one in in_batches() if batches else near():
        for dtypes in _dtypes(one, reals, keeps):
            for sizes in SIZES:
                made = _built(one, dtypes, sizes, symbolic=bool(sizes))
                found[type(made.left)].append(made)
    return found


def _dtypes(one: Near, reals: bool, keeps: bool) -> Iterator[dict[str, DType]]:
    """Floats, and integers for laws that say what becomes of special values."""
    floats = any(text[0] == "f" for text in one.given)
    index = I64 if reals else I32
    for n in (F64, I64) if reals else (F32, I32):
        if not (n.is_integer and (floats or not keeps)):
            yield {"n": n, "f": F64 if reals else F32, "i": index, "b": BOOL}


def _built(one: Near, dtypes: dict[str, DType], sizes: dict[str, int], symbolic: bool) -> Built:
    params: list[Param] = []
    letters: dict[str, int] = {}
    for i, text in enumerate(one.given):
        shape = parameter_type("f32" + text[1:]).shape
        here = {s: sizes.get(s, 2) for d in shape for s in dims.symbols(d)}
        letters |= here
        t = TensorType(dtypes[text[0]], shape)
        params.append(Param(t if symbolic else t.substitute(dict(here)), f"x{i}"))
    with Builder() as before:
        left = one.make(*params)
    assert isinstance(left, Op)
    return Built(one.name, tuple(params), letters, before, left)


def holds_nearby(rule: Rule, batches: bool = False) -> None:
    """A law keeps the meaning of everything it applies to among the operations near to it."""
    for one in operations(rule, batches):
        with Builder() as after:
            right = rule.apply(one.left)
        if right is None or right is one.left:
            continue
        if isinstance(right, Op) and right.key() == one.left.key() and not rule.weighed:
            raise Broken(f"{rule.name} has no end: {one.name}")
        if right.type != one.left.type:
            raise Broken(f"{rule.name} turns {one.left.type} into {right.type}: {one.name}")
        made = module(list(one.params), one.before, right, after).verify()
        rounds = rule.law_class == FAST and any(map(rounded, (*one.before.ops, *after.ops)))
        for arrays, expected in _answers(one, rule.law_class, rule.keeps):
            with np.errstate(all="ignore"):
                found = made.run("f", *arrays)
                compare(rule, expected, found, rounds)
            if "symmetric" in properties_of(right) - properties_of(one.left):
                turned = np.swapaxes(found[0], -1, -2)
                if not np.array_equal(found[0], turned, equal_nan=True):
                    raise Broken(f"{rule.name} claims a symmetry: {one.name}")


def operations(rule: Rule, batches: bool = False) -> list[Built]:
    """Those that a law is tried on; built here before a mistake is made in what builds them."""
    found = tried(rule, batches)
    for one in found:
        _answers(one, rule.law_class, rule.keeps)
    return found


def tried(rule: Rule, batches: bool = False) -> list[Built]:
    """Those that a law is tried on."""
    table = built(rule.law_class == FAST, rule.keeps, batches)
    return [one for root in rule.roots for one in table[root]]


@cache
def _answers(one: Built, law_class: LawClass, keeps: bool) -> list[tuple[list[Array], Any]]:
    """Arguments and what an operation makes of them, for laws of a class."""
    like = replace(next(iter(rules())), law_class=law_class, keeps=keeps)
    whole = module(list(one.params), one.before, one.left).verify()
    rng = np.random.default_rng(0)
    found: list[tuple[list[Array], Any]] = []
    for _ in range(2):
        arrays = [values(p.type, one.sizes, like, rng) for p in one.params]
        with np.errstate(all="ignore"):
            found.append((arrays, whole.run("f", *arrays)))
    return found


def keeps_digits(rule: Rule) -> None:
    """A law that rounds keeps the digits of everything that it applies to, near to its examples."""
    if rule.law_class != ROUNDING:
        return
    dice = np.random.default_rng(2)
    for one in operations(rule):
        with Builder() as after:
            right = rule.apply(one.left)
        if right is None or right is one.left or right.type.dtype != F32:
            continue
        left, made = (
            widened(module(list(one.params), one.before, v, b))
            for v, b in ((one.left, None), (right, after))
        )
        for _ in range(3):
            with np.errstate(all="ignore"):
                arrays = hostile(left, dice, one.sizes)
            if (times := lost(left, made, arrays)) > WORSE:
                raise Broken(f"{rule.name}: {times:.1f} times the bound of errors: {one.name}")


HALVES = (300.0, -300.0, 2.0)
"""Halves whose products are too large for one, and sums of these are not."""
SCALED = (
    Near("scaled twice", ("f[2,2]", "f[2]"), lambda x, u: _numbers(x, 2**-8, 2**8)),
    Near(
        "a sum with a scaled outer product",
        ("f[2,2]", "f[2]"),
        lambda x, u: Add(x, _numbers(outer(_numbers(u, 2**-8), u), 2**8)),
    ),
    Near(
        "a difference with a scaled outer product",
        ("f[2,2]", "f[2]"),
        lambda x, u: Sub(x, _numbers(outer(_numbers(u, 2**-8), u), 2**8)),
    ),
)
"""Halves that are made small before they are made large, as attention scales its operands."""


def _numbers(x: Value, *numbers: float) -> Value:
    """A value times one number after the other."""
    return reduce(lambda value, number: Mul(value, splat(number, x.type)), numbers, x)


def _in_halves(rule: Rule) -> Iterator[Built]:
    """The examples of a law that keeps special values, and the operations that none may move."""
    dtypes = {"n": F16, "f": F16, "i": I32, "b": BOOL}
    every = [Near(rule.name, rule.given, example) for example in rule.examples if rule.keeps]
    for near_one in (*every, *SCALED):
        if any(text[0] in "nf" for text in near_one.given):
            one = _built(near_one, dtypes, {"K": 8}, symbolic=False)
            if isinstance(one.left, rule.roots):
                yield one


def holds_of_halves(rule: Rule) -> None:
    """No law makes a finite half infinite that must not.

    A law that keeps special values computes in f32 where its left side does, and no law moves the
    numbers of ``SCALED``.
    """
    if rule.law_class != ROUNDING:
        return
    rng = np.random.default_rng(0)
    for one in _in_halves(rule):
        with Builder() as after:
            right = rule.apply(one.left)
        if right is None:
            continue
        left, changed = (
            module(list(one.params), one.before, v, b).verify()
            for v, b in ((one.left, None), (right, after))
        )
        for _ in range(8):
            arrays = [_halves(p.type, rng) for p in one.params]
            with np.errstate(all="ignore"):
                (a,), (b,) = (m.run("f", *arrays) for m in (left, changed))
            finite = np.isfinite(a.astype(np.float64))
            if not np.allclose(a[finite].astype(np.float64), b[finite].astype(np.float64), 2e-3):
                raise Broken(f"{rule.name} of halves: {a} is not {b}")


def _halves(t: TensorType, rng: np.random.Generator) -> Array:
    shape = [int(str(d)) for d in t.shape]
    if not t.dtype.is_float:
        return rng.integers(0, 2, shape).astype(t.dtype.numpy)
    return rng.choice(np.array(HALVES, t.dtype.numpy), shape)
