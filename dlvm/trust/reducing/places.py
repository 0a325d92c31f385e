"""Steps that isolate one place: a region, a called function or one declaration."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from dlvm.ir import Array, Declaration, Function, Module
from dlvm.ir.rewrite import resized
from dlvm.ir.sizes.dims import substitute

from .case import Case, Steps, sizes_of


def focused(case: Case) -> Steps:
    """Makes a region or another function the program, on its first arguments; small ones first."""
    found = [(fn, xs) for fn, xs in case.run.entered.items() if fn is not case.main]
    for fn, arrays in sorted(found, key=lambda pair: len(pair[0].ops)):
        yield lambda fn=fn, arrays=arrays: _alone(case, fn, arrays)


def _alone(case: Case, fn: Function, arrays: Sequence[Array]) -> Case:
    sizes = sizes_of(case)
    main = replace(resized(fn, lambda d: substitute(d, sizes)), name="main")
    others = [f for f in case.module.functions if f is not fn and f is not case.main]
    return Case(Module((main, *_reachable(main, others))), tuple(map(np.asarray, arrays)))


def declared(case: Case) -> Steps:
    """Keeps one declaration and the function that it is of, which becomes the first one."""
    for d in case.module.declarations:
        of = next((f for f in (case.main, *case.run.entered) if f.name == d.of), None)
        if of is not None and of in case.module.functions:
            yield lambda d=d, of=of: _of_declaration(case, d, of)


def _of_declaration(case: Case, d: Declaration, of: Function) -> Case:
    others = [f for f in case.module.functions if f is not of]
    arrays = case.arrays if of is case.main else case.run.entered[of]
    return Case(Module((of, *_reachable(of, others), d)), tuple(arrays))


def _reachable(main: Function, others: Collection[Function]) -> list[Function]:
    names = {f.name: f for f in others}
    found: dict[str, Function] = {}
    pending = [main]
    while pending:
        for op in pending.pop().walk():
            callee = op.called.name if op.called else ""
            if callee in names and callee not in found:
                found[callee] = names[callee]
                pending.append(names[callee])
    return list(found.values())
