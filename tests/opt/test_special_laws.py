"""Every law on all special values: what is compiled by default, and strictly, is as interpreted.

Laws that suppose finite operands are tried strictly alone.

The example of each law that the mode licenses is a program. Its elements are every pair or triple
of special values where the law is about elements, and drawn from them otherwise.
"""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.compile import Options, Road
from dlvm.ir import (
    BOOL,
    F16,
    F32,
    I32,
    Array,
    Builder,
    Function,
    Module,
    Param,
    Rule,
    TensorType,
    rules,
)
from dlvm.ir.numerics import EXACT, FAST
from dlvm.ir.sizes import dims
from tests.special import combinations, kinds, special_values

from .building import parameter_type
from .test_rules import SPECIAL

SIZE = 3
TYPES = {"n": F32, "f": F32, "i": I32, "b": BOOL}
FINITE = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5)


def programs(rule: Rule, half: bool) -> list[tuple[Module, list[Array]]]:
    """The examples of a law as programs, with arguments."""
    found: list[tuple[Module, list[Array]]] = []
    for example in rule.examples:
        types, arrays = arguments(rule, half)
        params = tuple(Param(t, f"x{i}") for i, t in enumerate(types))
        with Builder() as b:
            left = example(*params)
        main = Function("f", params, tuple(b.ops), (left,))
        found.append((Module((main,)), arrays))
    return found


def arguments(rule: Rule, half: bool) -> tuple[list[TensorType], list[Array]]:
    dtypes = [F16 if half and t[0] in "nf" else TYPES[t[0]] for t in rule.given]
    if {t[1:] for t in rule.given} == {"[M,N]"}:  # a law about elements
        pools = [special_values(t) for t in dtypes]
        if len(pools) > 3:
            pools = [p if t == BOOL else p[::2] for p, t in zip(pools, dtypes, strict=True)]
        arrays = [a.reshape(1, -1) for a in combinations(pools)]
        return [TensorType(t, a.shape) for t, a in zip(dtypes, arrays, strict=True)], arrays
    rng = np.random.default_rng(0)
    types = [TensorType(t, shape(text)) for t, text in zip(dtypes, rule.given, strict=True)]
    return types, [drawn(t, rng) for t in types]


def shape(text: str) -> tuple[int, ...]:
    open_shape = parameter_type("f32" + text[1:]).shape
    letters = {s: SIZE for d in open_shape for s in dims.symbols(d)}
    return tuple(dims.evaluate(d, letters) for d in open_shape)


def drawn(t: TensorType, rng: np.random.Generator) -> Array:
    """Mostly zeros and ones, so that sums are not all NaN; integers in the range of an index."""
    if not t.dtype.is_float:
        return rng.integers(0, 2, t.shape).astype(t.dtype.numpy)
    pool = np.where(rng.random(t.shape) < 0.1, rng.choice(SPECIAL, t.shape), 0.0)
    return np.where(pool == 0, rng.choice(FINITE, t.shape), pool).astype(t.dtype.numpy)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("rule", [r for r in rules() if r.law_class != FAST], ids=lambda r: r.name)
def test_a_law_changes_no_special_value(rule: Rule):
    for half in (False, True) if any(t[0] in "nf" for t in rule.given) else (False,):
        for module, arrays in programs(rule, half):
            with np.errstate(all="ignore"):
                (expected,) = module.run("f", *arrays)
            for mode in ("default", "strict") if rule.keeps else ("strict",):
                (found,) = Road(module, Options(numerics=mode, threads=1)).executable.run(arrays)
                wrong = np.argwhere(kinds(found) != kinds(expected))
                assert not len(wrong), (mode, found[*wrong[0]], expected[*wrong[0]])
                if rule.law_class == EXACT:
                    np.testing.assert_array_equal(found, expected)
