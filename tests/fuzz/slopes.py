"""What must hold of derivatives, by the interpreter: transposes, differences, and lanes.

``<w, J v> = <J' w, v>`` holds forward mode against reverse mode, differences hold both against
the function itself, and a batched form gives what its lanes give one by one. Each function gives
how far it is from that and how far it may be, or None where nothing can be said: at kinks and
poles, and where the program has an error.
"""

from __future__ import annotations

import numpy as np

from dlvm.ad import expand
from dlvm.base.errors import UserError
from dlvm.ir import Array, Declaration, Module
from dlvm.ir.sizes.dims import symbol
from dlvm.testing.drawing.random_programs import Program

from .case import Case
from .judge import Wrong

STEP = 1e-4


def with_derivatives(case: Case) -> tuple[Module, tuple[int, ...]]:
    """The module with the adjoint ``d`` and the tangent ``v`` of the case, and wrt of what."""
    module, wrt = declared(case)
    return expand(module).verify(), wrt


def declared(case: Case) -> tuple[Module, tuple[int, ...]]:
    """The same, said and not written out."""
    signature = case.module.signature(case.entry)
    wrt = tuple(i for i, t in enumerate(signature.params) if t.dtype.is_float)
    every = tuple(range(len(signature.results)))
    adjoint = Declaration("adjoint", "d_of", case.entry, wrt, every, seeded=True)
    tangent = Declaration("tangent", "v_of", case.entry, wrt, every)
    return Module((*case.module.entries, adjoint, tangent)), wrt


def batched(case: Case) -> tuple[Module, tuple[int | None, ...]]:
    """The module with a batched form said and not written out, and which arguments have lanes."""
    signature = case.module.signature(case.entry)
    axes = tuple(0 if t.dtype.is_float else None for t in signature.params)
    form = Declaration("batched", "b_of", case.entry, axes=axes, size=symbol("Lanes"))
    return Module((*case.module.entries, form)), axes


def slopes(case: Case) -> tuple[float, float] | None:
    """The worse of both identities: by how much it fails, and by how much it may."""
    program = case.program()
    full, wrt = with_derivatives(case)
    rng = np.random.default_rng(case.seed)
    v = {i: rng.normal(size=program.arrays[i].shape) for i in wrt}
    try:
        primal = full.run(case.entry, *program.arrays)
        found = _transposed(full, program, primal, v, rng)
        along = None if found is None else _along(full, case.entry, program, found[3], v)
    except UserError:
        return None
    if found is None:
        return None
    left, right, scale, _ = found
    error, most = abs(left - right), 1e-10 * (1 + scale)
    if along is not None and error <= most:
        slope, noise = along
        return abs(slope - right), 10 * noise
    return error, most


def _transposed(
    full: Module,
    program: Program,
    primal: tuple[Array, ...],
    v: dict[int, Array],
    rng: np.random.Generator,
) -> tuple[float, float, float, list[Array]] | None:
    """``<w, J v>`` and ``<J' w, v>``, how large the terms of both are, and ``w``."""
    dy = full.run("v_of", *program.arrays, *v.values())[len(primal) :]
    w = [rng.normal(size=y.shape) for y in dy]
    dx = full.run("d_of", *program.arrays, *w)[: len(v)]
    left = [(a * b).ravel() for a, b in zip(dy, w, strict=True)]
    right = [(a * b).ravel() for a, b in zip(v.values(), dx, strict=True)]
    a, b = (np.concatenate([np.zeros(1), *terms]) for terms in (left, right))
    scale = float(np.abs(a).sum() + np.abs(b).sum())
    if not np.isfinite(scale) or not all(np.isfinite(y).all() for y in primal):
        return None
    return float(a.sum()), float(b.sum()), scale, w


def _along(
    full: Module, entry: str, program: Program, w: list[Array], v: dict[int, Array]
) -> tuple[float, float] | None:
    """The slope of ``<w, f>`` along ``v`` by differences, and how uncertain it is."""

    def value(h: float) -> float:
        moved = [a + h * v[i] if i in v else a for i, a in enumerate(program.arrays)]
        ys = [y for y in full.run(entry, *moved) if y.dtype.kind == "f"]
        return sum(float((y * s).sum()) for y, s in zip(ys, w, strict=True))

    middle = value(0)
    sides = [[(value(s * k * STEP) - middle) / (s * k * STEP) for k in (1, 2)] for s in (1, -1)]
    (right, wide_right), (left, wide_left) = sides
    fine = (right + left) / 2
    kink = abs((wide_right - wide_left) - 2 * (right - left))
    noise = kink + abs((wide_right + wide_left) / 2 - fine) + 1e-9 + 1e-11 * abs(middle)
    if not (np.isfinite(noise) and noise < 1e-5 * (1 + abs(fine))):
        return None
    return fine, noise


def lanes(case: Case) -> tuple[float, float] | None:
    """Two lanes at once against one after the other; the largest relative difference."""
    program = case.program()
    module, axes = batched(case)
    if all(axis is None for axis in axes):
        return None
    both = [program.arrays, tuple(a * 0.5 if a.dtype.kind == "f" else a for a in program.arrays)]
    try:
        full = expand(module).verify()
        alone = [full.run(case.entry, *lane) for lane in both]
    except UserError:
        return None
    pairs = zip(axes, *both, strict=True)
    found = full.run("b_of", *(x if axis is None else np.stack((x, y)) for axis, x, y in pairs))
    worst = 0.0
    for k, results in enumerate(alone):
        for whole, part in zip(found, results, strict=True):
            if not np.allclose(whole[k], part, rtol=1e-9, atol=1e-12, equal_nan=True):
                worst = np.inf
    return worst, 0.0


def judge(case: Case) -> None:
    """Raise where derivatives or lanes are wrong."""
    for law in (slopes, lanes):
        found = law(case)
        if found is not None and not found[0] <= found[1]:
            raise Wrong(f"{law.__name__}: off by {found[0]}, at most {found[1]} is allowed")
