"""Random programs over the registry: what holds of derivatives and batching of any program."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from dlvm.ad import expand
from dlvm.errors import UserError
from dlvm.ir import BOOL, F64, I64, Declaration, Module, parse
from dlvm.ir.dims import symbol
from dlvm.ops import Assert, Print
from tests.programs import TRACED, Program, programs

from .building import floats

PURE = tuple(c for c in TRACED if c not in (Assert, Print))
PRECISE = (F64, F64, I64, BOOL)


def derived(program: Program) -> tuple[Module, str]:
    main = program.module.main
    wrt = floats(main)
    every = tuple(range(len(main.results)))
    adjoint = Declaration("adjoint", "d", main.name, wrt, every, seeded=True)
    tangent = Declaration("tangent", "v", main.name, wrt, every)
    module = Module((*program.module.entries, adjoint, tangent))
    return module, main.name


@given(programs(TRACED))
def test_derivatives_verify_and_round_trip_and_keep_the_results(program: Program):
    module, _ = derived(program)
    full = expand(module).verify()
    assert parse(str(full)) == full
    primal = program.run()
    ones = [np.ones_like(y) for y in primal if _is_float(y)]
    kept = full.run("d", *program.arrays, *ones)[-len(primal) :] if primal else ()
    for a, b in zip(primal, kept, strict=True):
        assert a.tobytes() == b.tobytes()


def _is_float(y: np.ndarray) -> bool:
    return y.dtype.kind not in "biu"


@given(programs(PURE, PRECISE), st.integers(0, 99))
def test_tangents_and_adjoints_are_transposes(program: Program, seed: int):
    module, name = derived(program)
    full, rng = expand(module), np.random.default_rng(seed)
    wrt = floats(program.module.main)
    v = [rng.normal(size=program.arrays[i].shape) for i in wrt]
    primal = program.run()
    assume(all(np.isfinite(y).all() for y in primal))
    dy = full.run("v", *program.arrays, *v)[len(primal) :]
    w = [rng.normal(size=y.shape) for y in dy]
    dx = full.run("d", *program.arrays, *w)[: len(wrt)]
    assert len(full.function(name).params) == len(program.arrays)
    left = np.concatenate([np.zeros(1), *((a * b).ravel() for a, b in zip(dy, w, strict=True))])
    right = np.concatenate([np.zeros(1), *((a * b).ravel() for a, b in zip(v, dx, strict=True))])
    assume(np.isfinite(left).all())
    scale = np.abs(left).sum() + np.abs(right).sum()
    assert abs(left.sum() - right.sum()) <= 1e-11 * (1 + scale)


@given(programs(PURE, PRECISE), st.data())
def test_batching_is_a_loop_over_lanes(program: Program, data: st.DataObject):
    main = program.module.main
    flags = data.draw(st.lists(st.booleans(), min_size=len(main.params), max_size=len(main.params)))
    assume(any(flags))
    lanes = [program.arrays, tuple(a * 0.5 if _is_float(a) else a for a in program.arrays)]
    axes = tuple(
        data.draw(st.integers(0, a.ndim)) if f else None
        for a, f in zip(program.arrays, flags, strict=True)
    )
    batched = Declaration("batched", "b", main.name, axes=axes, size=symbol("Lanes"))
    try:
        module = expand(Module((*program.module.entries, batched))).verify()
        alone = [
            module.run(main.name, *(lane[i] if f else lanes[0][i] for i, f in enumerate(flags)))
            for lane in lanes
        ]
    except UserError as refused:
        assume("vmap" not in str(refused) and "out of range" not in str(refused))
        raise
    stacked = [
        lanes[0][i] if axis is None else np.stack([lane[i] for lane in lanes], axis)
        for i, axis in enumerate(axes)
    ]
    found = module.run("b", *stacked)
    for k, results in enumerate(alone):
        for whole, part in zip(found, results, strict=True):
            assert np.allclose(whole[k], part, rtol=1e-9, atol=1e-12, equal_nan=True)
