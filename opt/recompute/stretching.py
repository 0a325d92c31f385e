"""Loops that keep less for their way back: the start of each stretch of steps, not every step.

    ys, kept = scan(step)                        starts = scan(scan(step))
    back = scan(undo, kept)             ->       back = scan(scan(undo, scan(step, start)))

A scan of T steps stacks what its way back reads. In stretches of k steps only what is carried is
kept, at the start of each; on the way back each stretch runs again. That is T/k carries and k
steps of residuals, at the least about 2 sqrt(T), for one more run of the loop. What results is
loops of the same kind, inside of which and around which the same can be done again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlvm.cost import body_flops, size_in_bytes, typical
from dlvm.ir import Builder, Dim, Function, Op, Param, TensorType, Value
from dlvm.ir.rewrite import Env, inline, mapped
from dlvm.ir.sizes.dims import floordiv
from dlvm.ops import Concat, Reshape, Scan, Slice
from dlvm.opt.facts import pure

from .recomputing import needed


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """A loop, its way back, and the stacks between them: positions among the results of one and
    the slices of the other."""

    forward: Scan
    back: Scan
    stacks: tuple[int, ...]
    slices: tuple[int, ...]
    steps: int
    """How many steps a stretch has."""

    @property
    def key(self) -> tuple[Scan, int]:
        """What tells one choice from another."""
        return self.forward, self.steps

    @property
    def work(self) -> int:
        """The operations of one more run."""
        loop = self.forward
        return 1 + typical(body_flops(loop.body)) * max(1, typical(loop.length))

    @property
    def saved(self) -> int:
        """About how many bytes less are kept."""
        trips = typical(self.forward.length)
        residuals, carries = _sizes(self.forward, self.stacks)
        return trips * residuals - trips // self.steps * carries - self.steps * residuals


def kept_by_loops(fn: Function) -> Iterator[Kept]:
    """The loops of a body, at any depth, which can keep less, each with some numbers of steps."""
    readers: dict[Value, list[Op]] = {}
    for op in fn.ops:
        for value in dict.fromkeys(op.operands):
            readers.setdefault(value, []).append(op)
    given = set(fn.results)
    for op in fn.ops:
        if isinstance(op, Scan):
            yield from _ways_back(op, readers, given)
        if not op.one_nest:
            for region in op.regions.values():
                yield from kept_by_loops(region)


def _ways_back(loop: Scan, readers: dict[Value, list[Op]], given: set[Value]) -> Iterator[Kept]:
    """The one loop the other way that reads stacks as slices, which nobody else does."""
    places: dict[Scan, list[tuple[int, int]]] = {}
    for i, stack in enumerate(loop.results[len(loop.init) :], len(loop.init)):
        found = readers.get(stack, [])
        back = found[0] if len(found) == 1 and stack not in given else None
        if not isinstance(back, Scan) or back.reverse == loop.reverse:
            continue
        where = [j for j, v in enumerate(back.operands) if v is stack]
        n = len(back.init)
        if len(where) == 1 and n <= where[0] < n + len(back.xs):
            places.setdefault(back, []).append((i, where[0] - n))
    if not pure(loop):
        return
    for back, pairs in places.items():
        stacks, slices = zip(*pairs, strict=True)
        for steps in _lengths(loop, stacks):
            found = Kept(loop, back, stacks, slices, steps)
            if found.saved > 0:
                yield found


def _sizes(loop: Scan, stacks: Sequence[int]) -> tuple[int, int]:
    """The bytes of what is stacked of a step, and of what is carried."""
    n = len(loop.init)
    residuals = sum(typical(size_in_bytes(loop.body.results[i].type)) for i in stacks)
    return residuals, sum(typical(size_in_bytes(x.type)) for x in loop.body.params[:n])


def _lengths(loop: Scan, stacks: Sequence[int]) -> list[int]:
    """How many steps a stretch may have: about the best, if possible without steps left over."""
    trips = typical(loop.length)
    residuals, carries = _sizes(loop, stacks)
    best = max(1, min(trips, round(math.sqrt(trips * max(1, carries) / max(1, residuals)))))
    if isinstance(loop.length, int):
        near = [k for k in range(max(1, best // 2), 2 * best + 1) if trips and trips % k == 0]
        if near:
            best = min(near, key=lambda k: abs(math.log(k / best)))
    return [k for k in dict.fromkeys((best, 1)) if k < trips]


# -- writing it ------------------------------------------------------------------------------------


def stretched(fn: Function, chosen: Kept) -> Function:
    """A body in which one loop, and its way back, run in stretches."""
    env: Env = {}
    forward: _Forward | None = None
    with (builder := Builder()):
        for op in fn.ops:
            builder.origin = op.origin
            if op is chosen.forward:
                forward = _Forward(chosen, env)
            elif op is chosen.back and forward is not None:
                _back(forward, env)
            else:
                _inside(op, chosen, env)
    return replace(fn, ops=tuple(builder.ops), results=tuple(mapped(fn.results, env)))


def _inside(op: Op, chosen: Kept, env: Env) -> None:
    regions = {} if op.one_nest else op.regions
    changed = {
        name: stretched(region, chosen)
        for name, region in regions.items()
        if any(inner is chosen.forward for inner in region.walk())
    }
    new = op.rebuild(mapped(op.operands, env), **changed)
    env.update(zip(op.results, new.results, strict=True))


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where a loop is cut: whole stretches in the order of its steps, then those left over."""

    length: Dim
    steps: int
    reverse: bool

    @property
    def trips(self) -> Dim:
        """How many whole stretches there are."""
        return floordiv(self.length, self.steps)

    @property
    def rest(self) -> Dim:
        """How many steps are left over."""
        return self.length - self.trips * self.steps

    def stretches(self, x: Value) -> Value:
        """The slices of whole stretches, by stretch."""
        whole = self.trips * self.steps
        if self.rest != 0:
            x = _window(x, self.rest if self.reverse else 0, whole)
        return Reshape(x, (self.trips, self.steps, *x.shape[1:]))

    def left(self, x: Value) -> Value:
        """The slices that are left over."""
        return _window(x, 0 if self.reverse else self.trips * self.steps, self.rest)

    def joined(self, parts: Value, left: Value | None) -> Value:
        """The slices of both again."""
        whole = Reshape(parts, (self.trips * self.steps, *parts.shape[2:]))
        if left is None:
            return whole
        return Concat((left, whole) if self.reverse else (whole, left), 0)


def _window(x: Value, start: Dim, size: Dim) -> Value:
    rank = x.type.rank
    return Slice(x, (start, *(0,) * (rank - 1)), (size, *x.shape[1:]), (1,) * rank)


def _groups(loop: Scan, given: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    """The operands of a loop: carried, slices, captured."""
    n, m = len(loop.init), len(loop.init) + len(loop.xs)
    return tuple(given[:n]), tuple(given[n:m]), tuple(given[m:])


class _Forward:
    """The loop in stretches, which gives all but the stacks; what its way back starts from."""

    def __init__(self, chosen: Kept, env: Env) -> None:
        loop, n = chosen.forward, len(chosen.forward.init)
        self.chosen = chosen
        self.cut = cut = _Cut(loop.length, chosen.steps, loop.reverse)
        others = [i for i in range(n, len(loop.results)) if i not in chosen.stacks]
        carried, xs, self.captured = _groups(loop, mapped(loop.operands, env))
        self.parts = tuple(cut.stretches(x) for x in xs)
        body = self._stretch(giving(loop.body, [*range(n), *others]))
        out = Scan(carried, self.parts, self.captured, body, cut.trips, loop.reverse).results
        carried, wholes, self.starts = out[:n], out[n : n + len(others)], out[n + len(others) :]
        lefts: Sequence[Value | None] = (None,) * len(others)
        self.left: Sequence[Value] = ()
        if cut.rest != 0:
            full = giving(loop.body, [*range(n), *others, *chosen.stacks])
            ends = tuple(cut.left(x) for x in xs)
            out = Scan(tuple(carried), ends, self.captured, full, cut.rest, loop.reverse).results
            carried, lefts, self.left = (
                out[:n],
                out[n : n + len(others)],
                out[n + len(others) :],
            )
        env.update(zip(loop.results[:n], carried, strict=True))
        for i, whole, left in zip(others, wholes, lefts, strict=True):
            env[loop.results[i]] = cut.joined(whole, left)

    def _stretch(self, body: Function) -> Function:
        """Carried values, slices and captured ones to the same of one stretch, then its start."""
        params = self.params()
        with Builder() as builder:
            found = self.steps(self.chosen.forward, body, params)
        starts = params[: len(self.chosen.forward.init)]
        return Function("body", params, tuple(builder.ops), (*found, *starts))

    def params(self) -> tuple[Param, ...]:
        """Parameters for one stretch of the loop."""
        carried, slices, captured = _groups(self.chosen.forward, self.chosen.forward.body.params)
        return (
            *(Param(p.type, "start") for p in carried),
            *(Param(_by_step(p.type, self.cut.steps), "slices") for p in slices),
            *(Param(p.type, "captured") for p in captured),
        )

    def steps(self, loop: Scan, body: Function, given: Sequence[Value]) -> Sequence[Value]:
        """The steps of one stretch, written here."""
        n, k = len(loop.init), self.cut.steps
        carried, slices, captured = _groups(loop, given)
        if k > 1:
            return Scan(
                carried, slices, captured, body, k, loop.reverse, min(loop.unroll, k)
            ).results
        ones = (Reshape(x, x.shape[1:]) for x in slices)
        found = inline(body, (*carried, *ones, *captured))
        return [*found[:n], *(Reshape(y, (1, *y.shape)) for y in found[n:])]


def _back(forward: _Forward, env: Env) -> None:
    """The way back in stretches, each of which first runs forward again."""
    chosen, cut, back = forward.chosen, forward.cut, forward.chosen.back
    n = len(back.init)
    carried, xs, captured = _groups(back, mapped(back.operands, env))
    lefts: Sequence[Value | None] = (None,) * (len(back.results) - n)
    if cut.rest != 0:
        known = dict(zip(chosen.slices, forward.left, strict=True))
        ends = tuple(known[j] if j in known else cut.left(x) for j, x in enumerate(xs))
        found = Scan(carried, ends, captured, back.body, cut.rest, back.reverse).results
        carried, lefts = tuple(found[:n]), found[n:]
    own = [cut.stretches(x) for j, x in enumerate(xs) if j not in chosen.slices]
    slices = (*forward.starts, *forward.parts, *own)
    every = (*forward.captured, *captured)
    out = Scan(carried, slices, every, _again(forward), cut.trips, back.reverse).results
    env.update(zip(back.results[:n], out[:n], strict=True))
    for result, whole, left in zip(back.results[n:], out[n:], lefts, strict=True):
        env[result] = cut.joined(whole, left)


def _again(forward: _Forward) -> Function:
    """One stretch forward from its start, then back."""
    chosen, k = forward.chosen, forward.cut.steps
    loop, back = chosen.forward, chosen.back
    carried, slices, captured = _groups(back, back.body.params)
    starts, parts, fixed = _groups(loop, forward.params())
    seeds = tuple(Param(p.type, "seed") for p in carried)
    rest = tuple(Param(p.type, "captured") for p in captured)
    own = {
        j: Param(_by_step(p.type, k), "slices")
        for j, p in enumerate(slices)
        if j not in chosen.slices
    }
    n = len(loop.init)
    with Builder() as builder:
        body = giving(loop.body, [*range(n), *chosen.stacks])
        kept = forward.steps(loop, body, (*starts, *parts, *fixed))[n:]
        known = {**own, **dict(zip(chosen.slices, kept, strict=True))}
        given = (*seeds, *(known[j] for j in range(len(slices))), *rest)
        found = forward.steps(back, back.body, given)
    params = (*seeds, *starts, *parts, *own.values(), *fixed, *rest)
    return Function("body", params, tuple(builder.ops), tuple(found))


def giving(body: Function, which: Sequence[int]) -> Function:
    """A body with some of its results, and what these need."""
    results = tuple(body.results[i] for i in which)
    ops, _ = needed(body.ops, results)
    return replace(body, ops=ops, results=results)


def _by_step(t: TensorType, steps: int) -> TensorType:
    return t.with_shape((steps, *t.shape))
