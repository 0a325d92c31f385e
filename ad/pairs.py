"""Pairs: the derivative of a region as two pieces of code with explicit residuals between them.

``forward`` gives the results and the residuals. The backward pass is written wherever a rule needs
it, from the residuals, the seeds and those parameters that it may read again (``reread``: captured
values and slices). Residuals are minimal: only values that the backward pass reads, and of those
only the ones that cannot be recomputed cheaply from other residuals and reread parameters. A
loop-invariant value is recomputed rather than kept for each trip: hoisting moves it out of the
backward loop, where it is shared with its first computation.

If the backward pass is to run many times, all of it that does not depend on the cotangents moves
into the forward pass, and the residuals are what the rest reads. Loop-invariant values are then
*hoisted*: computed before the backward loop and captured by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dlvm.ir import (
    BOOL,
    TAPE,
    Builder,
    Function,
    Op,
    Param,
    TensorType,
    Value,
    current_builder,
    zeros,
)
from dlvm.ir.rewrite import Env, mapped, place
from dlvm.ops import (
    Add,
    Broadcast,
    Cast,
    Creation,
    Effect,
    Elementwise,
    EmptyTape,
    Movement,
    Pop,
    Push,
    Select,
)
from dlvm.ops.families import rearranges

from .activity import Flags, is_tape
from .cotangents import mask_of
from .live import free_values, live, partition
from .reverse import Engine, Sweep, cotangent, masked_seeds, seed_results, seeds_for

_IMMOVABLE = Effect | EmptyTape | Pop | Push
"""Operations that are never hoisted, beside calls and those that may not end or run again."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The forward code of a region, and its backward code."""

    params: tuple[Param, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    residuals: tuple[Value, ...]
    returned: dict[Value, int]
    reread: tuple[int, ...]
    hoisted_ops: tuple[Op, ...]
    hoisted: tuple[Value, ...]
    seeds: dict[int, Param]
    masks: dict[int, Param]
    result_masks: tuple[Value | None, ...]
    """For each cotangent, where it may be nonzero, or None; empty without masked seeds."""
    sums: dict[int, Param]
    tape: Param
    tape_after: Value
    tape_back: Param
    backward_ops: tuple[Op, ...]
    cotangents: tuple[Value, ...]

    @property
    def taped(self) -> bool:
        """Whether the forward code pushes on the tape."""
        return self.tape_after is not self.tape

    @property
    def extra(self) -> tuple[Value, ...]:
        """The residuals that are not results of the region as well."""
        return tuple(r for r in self.residuals if r not in self.returned)

    def forward(self, name: str) -> Function:
        """The function from parameters and tape to results, extra residuals and tape."""
        tape, after = ((self.tape,), (self.tape_after,)) if self.taped else ((), ())
        return Function(name, (*self.params, *tape), self.ops, (*self.results, *self.extra, *after))

    def unpacked(self, found: Sequence[Value]) -> tuple[Sequence[Value], list[Value]]:
        """The results and all residuals, from what ``forward`` returned before its tape."""
        results, extra = found[: len(self.results)], iter(found[len(self.results) :])
        kept = [
            results[self.returned[r]] if r in self.returned else next(extra) for r in self.residuals
        ]
        return results, kept

    @property
    def reread_params(self) -> tuple[Param, ...]:
        """The parameters that the backward pass reads again."""
        return tuple(self.params[i] for i in self.reread)

    def hoisted_params(self) -> dict[Value, Param]:
        """A parameter for each hoisted value."""
        return {v: Param(v.type, "steady") for v in self.hoisted}

    def write_hoisted(self, operands: Sequence[Value], reached: Value | None) -> list[Value]:
        """Writes the hoisted values here, as zeros unless the loop is ``reached``."""
        env: Env = dict(zip(self.params, operands, strict=True))
        builder = current_builder()
        assert builder is not None
        for op in self.hoisted_ops:
            place(builder, op, env)
        found = mapped(self.hoisted, env)
        return found if reached is None else [_zero_unless(reached, v) for v in found]

    def write_pullback(
        self,
        kept: Sequence[Value],
        env: Mapping[Value, Value] | None = None,
        empty: Collection[int] = (),
    ) -> list[Value]:
        """Writes the backward pass here; returns cotangents, then their masks, then the tape.

        ``kept`` are the residuals. ``env`` maps seeds, reread parameters, sums and the tape to
        values, unless they are parameters of the function that is being written. The sums at the
        positions ``empty`` are zero: the first cotangent that is added to one becomes the sum.
        """
        nothing = {self.sums[i]: zeros(self.sums[i].type) for i in empty}
        found: Env = {**(env or {}), **nothing, **dict(zip(self.residuals, kept, strict=True))}
        builder = current_builder()
        assert builder is not None
        for op in self.backward_ops:
            if isinstance(op, Add) and (op.x in nothing or op.y in nothing):
                first = op.y if op.x in nothing else op.x
                found[op] = found.get(first, first)
            else:
                place(builder, op, found)
        return mapped(self.cotangents, found)


def pair(
    engine: Engine,
    fn: Function,
    wrt: Flags,
    seeded: Flags,
    reread: Iterable[int],
    summed: Iterable[int] = (),
    returned: Iterable[int] = (),
    invariant: Iterable[int] = (),
    masked: Collection[int] = (),
) -> Pair:
    """Splits the derivative of ``fn`` with respect to parameters ``wrt`` from results ``seeded``.

    The other arguments are positions: ``reread`` of the parameters that the backward pass may read
    again, ``summed`` of those whose cotangent starts from a sum so far, ``returned`` of the results
    that the backward pass may read in any case, ``invariant`` of the reread parameters that are the
    same on every trip of a loop, and ``masked`` of the seeds that come with a mask.
    """
    tape = Param(TensorType(TAPE), "tape")
    forward = Builder()
    sweep = Sweep(engine, fn, wrt, seeded, tape)
    results = sweep.forward(forward)
    tape_after = sweep.tape
    back = _way_back(sweep, results, wrt, seeded, summed, masked)
    lendable = {fn.params[i] for i in reread}
    fixed = [fn.params[i] for i in invariant]
    early, rest = partition(back.ops, back.sources) if engine.pullbacks_reused else ((), back.ops)
    ops = tuple(dict.fromkeys((*forward.ops, *early)))  # both passes define the constants
    kept, again = residuals(fn.params, ops, lendable, back.reads(rest), fixed)
    hoisted_ops, hoisted, again = (
        _hoisted(again, fixed, back.reads(rest)) if engine.pullbacks_reused else ((), (), again)
    )
    backward_ops = tuple(dict.fromkeys((*again, *rest)))
    read = set(back.reads(backward_ops))
    seen = {results[i]: i for i in returned}
    return Pair(
        params=fn.params,
        ops=live(ops, (*results, *kept, tape_after)),
        results=results,
        residuals=tuple(kept),
        returned={r: i for r, i in seen.items() if r in kept},
        reread=tuple(i for i, p in enumerate(fn.params) if p in read and p in lendable),
        hoisted_ops=hoisted_ops,
        hoisted=hoisted,
        seeds=back.seeds,
        masks=back.masks,
        result_masks=back.result_masks,
        sums=back.sums,
        tape=tape,
        tape_after=tape_after,
        tape_back=back.tape,
        backward_ops=backward_ops,
        cotangents=back.out,
    )


@dataclass(frozen=True, slots=True)
class _WayBack:
    """The backward pass before its residuals are chosen."""

    seeds: dict[int, Param]
    masks: dict[int, Param]
    result_masks: tuple[Value | None, ...]
    sums: dict[int, Param]
    tape: Param
    ops: tuple[Op, ...]
    out: tuple[Value, ...]

    @property
    def sources(self) -> tuple[Value, ...]:
        """The values that come in with the backward pass."""
        return (*self.seeds.values(), *self.masks.values(), *self.sums.values(), self.tape)

    def reads(self, ops: Sequence[Op]) -> list[Value]:
        """The values of the forward pass that this code of the backward pass reads."""
        return free_values(ops, self.out, set(self.sources))


def _way_back(
    sweep: Sweep,
    results: Sequence[Value],
    wrt: Flags,
    seeded: Flags,
    summed: Iterable[int],
    masked: Collection[int],
) -> _WayBack:
    params = sweep.fn.params
    taped = not isinstance(sweep.tape, Param)  # each push returns a new tape
    sweep.tape = tape = Param(TensorType(TAPE), "tape")
    seeds = seeds_for(sweep.fn, seeded)
    masks = {i: Param(seeds[i].type.with_dtype(BOOL), f"mask_{i}") for i in seeds if i in masked}
    sums = {
        i: Param(p.type, f"sum_{p.name}")
        for i, p in ((i, params[i]) for i in summed)
        if wrt[i] and not is_tape(p.type)
    }
    builder = Builder()
    with builder:
        cotangents: dict[Value, Value] = {params[i]: total for i, total in sums.items()}
        seed_results(results, masked_seeds(seeds, masks), cotangents)
    sweep.backward(builder, cotangents)
    with builder:
        out = [cotangent(cotangents, p) for p, f in zip(params, wrt, strict=True) if f]
        result_masks = [(mask_of(dx) or (None,))[0] for dx in out] if masks else []
    out += [c for c in result_masks if c is not None]
    out += [sweep.tape] if taped else []
    ops = live(builder.ops, out)
    return _WayBack(seeds, masks, tuple(result_masks), sums, tape, ops, tuple(out))


def residuals(
    params: Sequence[Param],
    ops: Sequence[Op],
    reread: Collection[Value],
    wanted: Sequence[Value],
    invariant: Iterable[Value] = (),
) -> tuple[list[Value], list[Op]]:
    """The residuals that ``wanted`` needs, and the operations that recompute the rest."""
    fixed = _fixed(ops, invariant)
    needed = _sources(ops, wanted)
    kept: list[Value] = [p for p in params if p in needed and p not in reread]
    known = {*reread, *kept}
    cheap: list[Op] = []
    for op in ops:
        if op in fixed or (_is_cheap(op) and all(v in known for v in op.operands)):
            cheap.append(op)
            known.update(op.results)
            continue
        new = [r for r in op.results if r in needed]
        kept += new
        known.update(new)
    return kept, list(live(cheap, wanted))


def _fixed(ops: Sequence[Op], invariant: Iterable[Value]) -> set[Op]:
    """The operations that are loop-invariant and may be hoisted out of the loop."""
    same = set(invariant)
    found: set[Op] = set()
    if same:
        for op in ops:
            if all(v in same for v in op.operands) and _is_hoistable(op):
                found.add(op)
                same.update(op.results)
    return found


def _hoisted(
    again: Sequence[Op], invariant: Sequence[Value], wanted: Sequence[Value]
) -> tuple[tuple[Op, ...], tuple[Value, ...], list[Op]]:
    """The operations to hoist, the hoisted values that a trip reads, and the operations of a trip.

    Cheap operations on loop-invariant values are not hoisted but repeated on every trip.
    """
    fixed = _fixed(again, invariant)
    same = [op for op in again if op in fixed]
    varied = [op for op in again if op not in fixed]
    made = {r for op in same for r in op.results}
    read = [v for v in free_values(varied, wanted, ()) if v in made]
    hoisted, cheap = residuals((), same, invariant, read)
    return live(same, hoisted), tuple(hoisted), [*cheap, *varied]


def _zero_unless(condition: Value, x: Value) -> Value:
    if not x.dtype.is_float:
        return x
    return Select(Broadcast(condition, x.shape, ()), x, zeros(x.type))


def _is_hoistable(op: Op) -> bool:
    """Whether the operation has no effect, cannot raise and is certain to terminate."""
    kinds = {type(op)}.union(*(region.kinds for region in op.regions.values()))
    return not (op.may_raise or any(map(_is_immovable, kinds)))


def _is_immovable(kind: type[Op]) -> bool:
    flow = kind.dataflow
    held = flow is not None and (flow.again or flow.endless)
    return held or bool(kind.enters) or issubclass(kind, _IMMOVABLE)


def _sources(ops: Sequence[Op], wanted: Iterable[Value]) -> set[Value]:
    """The wanted values, each traced back through operations whose operands are no larger."""
    made = {r: op for op in ops for r in op.results}
    found: set[Value] = set()
    pending = list(wanted)
    while pending:
        value = pending.pop()
        op = made.get(value)
        if op is not None and _is_no_smaller(op):
            pending += op.operands
        else:
            found.add(value)
    return found


def _is_no_smaller(op: Op) -> bool:
    """Whether the result takes at least as much memory as its operands and adds no information."""
    if isinstance(op, Cast):
        return op.x.dtype.bits <= op.dtype_to.bits
    return isinstance(op, Creation) or rearranges(op)


def _is_cheap(op: Op) -> bool:
    """Whether recomputing costs no more than keeping: moves and correctly rounded arithmetic."""
    return isinstance(op, Creation | Movement) or (isinstance(op, Elementwise) and op.ulp <= 0.5)
