"""Laws with one mistake each, and their forms: where both sides are one form, so are the numbers.

python -m tests.trust.forms_of_mutants [--seconds 600]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from dlvm.ir import BOOL, Array, Builder, Function, Module, Op, Param, Rule, Value
from dlvm.ir.numerics import EXACT
from dlvm.trust.forms.proofs import KNOWN, forms_of
from dlvm.trust.laws import given_type
from tests.opt.mutants import Endless, Mutant, drawn, limited, mutants

FALSE = "equal forms, other numbers"
SECONDS = 4
"""What a mutant may take; one that does not end gives no form."""


def judged(mutant: Mutant) -> Counter[str]:
    """What becomes of each example of each law that a mistake reaches."""
    found: Counter[str] = Counter()
    for rule in mutant.laws:
        for example in range(len(rule.examples)):
            found[_judged(mutant, rule, example)] += 1
    return found


def _judged(mutant: Mutant, rule: Rule, example: int) -> str:
    params = [Param(given_type(t, dict(KNOWN)), f"x{i}") for i, t in enumerate(rule.given)]
    with Builder() as before:
        left = rule.examples[example](*params)  # type: ignore[call-arg]
    try:
        with limited(SECONDS), mutant.planted(), Builder() as after:
            right = rule.apply(left)  # type: ignore[arg-type]
    except (Exception, Endless) as error:
        return f"error {type(error).__name__}"
    if right is None or right.type != left.type:
        return "refused"
    both = forms_of(left, right, rule.law_class == EXACT)
    if both is None or both[0] != both[1]:
        return "other forms"
    ops = (*before.ops, *after.ops)
    return "equal" if same_numbers(params, ops, left, right) else FALSE


def same_numbers(params: Sequence[Param], ops: Sequence[Op], left: Value, right: Value) -> bool:
    """Whether two values are the same on some small whole numbers."""
    module = Module((Function("f", tuple(params), tuple(ops), (left, right)),)).verify()
    rng = np.random.default_rng(0)
    for _ in range(3):
        arrays = [_whole(p, rng) for p in params]
        with np.errstate(all="ignore"):
            a, b = module.run("f", *arrays)
        if not np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True):
            return False
    return True


def _whole(param: Param, rng: np.random.Generator) -> Array:
    low, high = (0, 2) if param.dtype == BOOL else (-3, 4)
    return rng.integers(low, high, param.shape).astype(param.dtype.numpy)


def main() -> int:
    """Counts what becomes of all mutants, and lists those whose forms say what is false."""
    parser = argparse.ArgumentParser(description="forms of laws with one mistake each")
    parser.add_argument("--seconds", type=float, default=600.0)
    end = time.monotonic() + parser.parse_args().seconds
    counts: Counter[str] = Counter()
    for mutant in drawn(mutants(), 0):
        if time.monotonic() > end:
            break
        found = judged(mutant)
        counts += found
        if found[FALSE]:
            print(*mutant.key, found)
    print(dict(counts))
    return 1 if counts[FALSE] else 0


if __name__ == "__main__":
    raise SystemExit(main())
