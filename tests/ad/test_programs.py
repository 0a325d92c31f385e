"""Random programs over the registry: what holds of derivatives and batching of any program."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from dlvm.ad import expand
from dlvm.base.errors import IndexOutOfRange, UserError
from dlvm.ir import BOOL, F64, I64, Declaration, Module, parse
from dlvm.ir.interpret import bind
from dlvm.ir.sizes.dims import evaluate, symbol
from dlvm.ops import Effect
from dlvm.testing.drawing.random_programs import TRACED, Program
from tests.special import SLOPE_BY_CONVENTION

from .building import floats
from .surrounded import called

PURE = tuple(c for c in TRACED if not issubclass(c, Effect))
TRUE_SLOPE = tuple(c for c in PURE if c not in SLOPE_BY_CONVENTION)
KINDS = ("adjoint", "tangent", "batched")
PRECISE = (F64, F64, I64, BOOL)


def derived(program: Program) -> tuple[Module, str]:
    main = program.module.main
    wrt = floats(main)
    every = tuple(range(len(main.results)))
    adjoint = Declaration("adjoint", "d", main.name, wrt, every, seeded=True)
    tangent = Declaration("tangent", "v", main.name, wrt, every)
    module = Module((*program.module.entries, adjoint, tangent))
    return module, main.name


@given(called(TRACED))
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


@given(called(PURE, PRECISE), st.integers(0, 99))
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


@given(called(TRUE_SLOPE, PRECISE, loss=True), st.integers(0, 99))
def test_the_slope_of_a_loss_is_that_of_finite_differences(program: Program, seed: int):
    """Where both sides have one slope: at a kink the convention is a matter of the operation."""
    module, name = derived(program)
    full, rng = expand(module), np.random.default_rng(seed)
    wrt = floats(program.module.main)
    v = dict(zip(wrt, (rng.normal(size=program.arrays[i].shape) for i in wrt), strict=True))

    def loss(h: float) -> float:
        moved = [a + h * v[i] if i in v else a for i, a in enumerate(program.arrays)]
        try:
            return float(full.run(name, *moved)[0])
        except IndexOutOfRange:
            return np.nan

    middle, h = loss(0), 1e-4
    right, left = ([(loss(s * k * h) - middle) / (s * k * h) for k in (1, 2)] for s in (1, -1))
    fine = (right[0] + left[0]) / 2
    kink = abs((right[1] - left[1]) - 2 * (right[0] - left[0]))
    rounding = 2.0**-50 * abs(middle) / h
    noise = kink + abs((right[1] + left[1]) / 2 - fine) + rounding + 1e-9
    assume(np.isfinite(noise) and noise < 1e-5 * (1 + abs(fine)))
    dx = full.run("d", *program.arrays, np.float64(1))[: len(wrt)]
    found = sum(float((g * v[i]).sum()) for i, g in zip(wrt, dx, strict=True))
    assume(np.isfinite(found))  # 0 * inf where an intermediate value is infinite
    assert abs(found - fine) <= 10 * noise


@given(called(PURE, PRECISE), st.data())
def test_batching_is_a_loop_over_lanes(program: Program, data: st.DataObject):
    assert_batched(program.module, program.module.main.name, program.arrays, data)


@given(called(PURE, PRECISE, max_ops=6), st.data())
def test_batched_derivatives_are_derivatives_of_lanes(program: Program, data: st.DataObject):
    module, _ = derived(program)
    of = data.draw(st.sampled_from(("d", "v")))
    extra = module.signature(of).params[len(program.arrays) :]
    sizes = bind(
        [p.type for p in program.module.main.params],
        program.arrays,
        [p.name for p in program.module.main.params],
    )
    rng = np.random.default_rng(0)
    more = [rng.normal(size=[evaluate(n, sizes) for n in t.shape]) for t in extra]
    assert_batched(module, of, (*program.arrays, *more), data)


def assert_batched(
    module: Module, of: str, arrays: tuple[np.ndarray, ...], data: st.DataObject
) -> None:
    """Two lanes at once, on any choice of arguments and axes, give what each gives alone."""
    n = len(arrays)
    flags = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    assume(any(flags))
    lanes = [arrays, tuple(np.asarray(a * 0.5) if _is_float(a) else a for a in arrays)]
    axes = tuple(
        data.draw(st.integers(0, a.ndim)) if f else None for a, f in zip(arrays, flags, strict=True)
    )
    batched = Declaration("batched", "b", of, axes=axes, size=symbol("Lanes"))
    try:
        full = expand(Module((*module.entries, batched))).verify()
        alone = [
            full.run(of, *(lane[i] if f else lanes[0][i] for i, f in enumerate(flags)))
            for lane in lanes
        ]
    except UserError as refused:
        assume("vmap" not in str(refused) and "out of range" not in str(refused))
        raise
    stacked = [
        lanes[0][i] if axis is None else np.stack([lane[i] for lane in lanes], axis)
        for i, axis in enumerate(axes)
    ]
    found = full.run("b", *stacked)
    for k, results in enumerate(alone):
        for whole, part in zip(found, results, strict=True):
            assert np.allclose(whole[k], part, rtol=1e-9, atol=1e-12, equal_nan=True)


@given(called(PURE, PRECISE, max_ops=5), st.data())
def test_derivatives_and_batching_nest_in_any_order(program: Program, data: st.DataObject):
    main = program.module.main
    entries, name = list(program.module.entries), main.name
    types = [p.type for p in main.params]
    sizes = bind(types, program.arrays, [p.name for p in main.params])
    for k, kind in enumerate(data.draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=3))):
        params = Module(tuple(entries)).signature(name).params
        wrt = tuple(i for i, t in enumerate(params) if t.dtype.is_float)
        axes = tuple(0 if i in wrt else None for i in range(len(params)))
        sizes[f"L{k}"] = 2
        form = {
            "adjoint": Declaration("adjoint", f"g{k}", name, wrt, seeded=True),
            "tangent": Declaration("tangent", f"g{k}", name, wrt),
            "batched": Declaration("batched", f"g{k}", name, axes=axes, size=symbol(f"L{k}")),
        }
        entries.append(form[kind])
        name = f"g{k}"
    try:
        full = expand(Module(tuple(entries))).verify()
    except UserError as refused:
        assume("vmap" not in str(refused))
        raise
    assert parse(str(full)) == full
    rng, given_arrays = np.random.default_rng(0), iter(program.arrays)
    args: list[np.ndarray] = []
    for t in full.function(name).signature.params:
        given_array = next(given_arrays, np.zeros(0))
        shape = [evaluate(n, sizes) for n in t.shape]
        args.append(rng.normal(size=shape) if t.dtype.is_float else given_array)
    full.run(name, *args)
