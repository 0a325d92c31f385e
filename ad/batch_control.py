"""Batching of calls, scans and recomputations.

A loop body is batched repeatedly until the set of batched carried values reaches a fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.ir import BOOL, Dim, Function, FunctionRef, Op, TensorType, Value, splat
from dlvm.ir.rewrite import types_of
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.verify import unify
from dlvm.ops import Call, Checkpoint, Kernel, Permute, Recompute, Scan

from .activity import Flags, is_tape
from .batch import BATCHED, Batch, Lanes


@dataclass(frozen=True, slots=True)
class Callee:
    """The batched form of a function of the module: its types, and which results are batched."""

    params: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    batched: Flags
    ref: FunctionRef


def call(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A call of the batched callee; an unknown number of lanes gets a symbol of its own there."""
    assert isinstance(op, Call)
    fn = b.engine.without_donation(op.callee.name)
    size = b.size if isinstance(b.size, int) else fresh_size(fn)
    guard = b.guard(op) or _size_carrier(b, xs, flags)
    callee = _callee(Batch(b.engine, size), op.callee.name, flags, bool(guard))
    given = (*xs, *guard)
    sizes = unify(callee.params, types_of(given))
    types = tuple(t.substitute(sizes) for t in callee.results)
    return Call(given, callee.ref, types).results, callee.batched


def _size_carrier(b: Batch, xs: Sequence[Value], flags: Flags) -> tuple[Value, ...]:
    """A mask of all lanes, if no other argument tells the callee an unknown number of lanes.

    A tape does not tell it.
    """
    told = any(f and not is_tape(x.type) for x, f in zip(xs, flags, strict=True))
    if told or isinstance(b.size, int):
        return ()
    return (splat(True, TensorType(BOOL, (b.size,))),)


def _callee(b: Batch, name: str, flags: Flags, masked: bool) -> Callee:
    """The batched callee; if it is recursive, all of its results are batched."""
    fn, key = b.engine.without_donation(name), ("callee", name, flags, b.size, masked)

    def make() -> Callee:
        ref = b.engine.reserve(f"{name}_batched")
        if not b.engine.recursive(name):
            body = b.body(fn, flags, masked)
            b.engine.fill(ref, body.fn)
            signature = body.fn.signature
            return Callee(signature.params, signature.results, body.batched, ref)
        spread_all = (True,) * len(fn.results)
        pairs = zip(fn.params, flags, strict=True)
        params = [b.type(p.type) if f else p.type for p, f in pairs]
        params += [TensorType(BOOL, (b.size,))] if masked else []
        results = tuple(b.type(r.type) for r in fn.results)
        b.engine.assume(key, callee := Callee(tuple(params), results, spread_all, ref))
        b.engine.fill(ref, b.spread_results(b.body(fn, flags, masked), spread_all))
        return callee

    return b.engine.once(key, make)


def fresh_size(fn: Function) -> Dim:
    """A symbol for the number of lanes that the function does not use yet."""
    taken = {s for p in fn.params for d in p.type.shape for s in symbols(d)}
    return symbol(next(n for i in range(len(taken) + 1) if (n := f"L{i or ''}") not in taken))


def batched_parameters(b: Batch, body: Function, flags: Flags, n: int, masked: bool) -> Flags:
    """Which parameters of a loop's body are batched after any number of trips."""
    while True:
        out = b.body(body, flags, masked).batched
        grown = (*(a or o for a, o in zip(flags[:n], out[:n], strict=True)), *flags[n:])
        if grown == flags:
            return flags
        flags = grown


def scan(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Lanes are the second axis of the arrays that the scan slices and stacks."""
    assert isinstance(op, Scan)
    n, m = len(op.init), len(op.init) + len(op.xs)
    flags = tuple(f or is_tape(v.type) for f, v in zip(flags, xs, strict=True))
    guard = b.guard(op)
    settled = batched_parameters(b, op.body, flags, n, bool(guard))
    body = b.body(op.body, settled, bool(guard))
    batched = (*settled[:n], *body.batched[n:])
    step = b.spread_results(body, batched)
    init = [b.spread(x, f) if s else x for x, f, s in zip(xs, flags, settled[:n], strict=False)]
    slices = [_swapped(x) if f else x for x, f in zip(xs[n:m], flags[n:m], strict=True)]
    groups = tuple(init), tuple(slices), (*xs[m:], *guard)
    found = Scan(*groups, step, op.length, op.reverse, op.unroll).results
    stacked = [_swapped(y) if f else y for y, f in zip(found[n:], batched[n:], strict=True)]
    return (*found[:n], *stacked), batched


def _swapped(x: Value) -> Value:
    return Permute(x, (1, 0, *range(2, x.type.rank)))


def checkpoint(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A checkpoint of the batched body."""
    assert isinstance(op, Checkpoint)
    guard = b.guard(op)
    body = b.body(op.body, flags, bool(guard))
    return Checkpoint((*xs, *guard), body.fn, op.policy).results, body.batched


def recompute(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A recomputation of the batched body, on the same triggers."""
    assert isinstance(op, Recompute)
    n = len(op.xs)
    guard = b.guard(op)
    body = b.body(op.body, flags[:n], bool(guard))
    return Recompute((*xs[:n], *guard), tuple(xs[n:]), body.fn).results, body.batched


def kernel(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A kernel is inlined."""
    assert isinstance(op, Kernel)
    return b.write(op.body, xs, flags)


BATCHED.update(
    {
        Call: call,
        Scan: scan,
        Checkpoint: checkpoint,
        Recompute: recompute,
        Kernel: kernel,
    }
)
