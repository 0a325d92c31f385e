"""Pairs: the derivative of a region as two pieces of code with explicit residuals between them.

``forward`` gives the results and the residuals; the way back is written wherever a rule wants
it, from the residuals, the seeds and those parameters that it may read again (*lent*: captured
values, slices). Residuals are minimal: only values that the way back reads, and of these only
what can't be computed again cheaply from other residuals and lent parameters. What a loop
computes from parameters that no trip changes is computed again, not kept for each trip: hoisting
moves it in front of the loop, where it is shared with its first computation.

For a way back that is to run many times, all of it that does not depend on the cotangents is part
of the way forward, and residuals are what the rest reads; what no trip of a loop changes is
*steady*, and handed to its way back.
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
from dlvm.ir.rewrite import Env, has, mapped, place
from dlvm.ops import (
    Add,
    Broadcast,
    Call,
    Cast,
    Checkpoint,
    Creation,
    Effect,
    Elementwise,
    EmptyTape,
    Movement,
    Permute,
    Pop,
    Push,
    Recompute,
    Reshape,
    Select,
    While,
)

from .activity import Flags, is_tape
from .cotangents import mask_of
from .live import apart, free, live
from .reverse import Engine, Sweep, cotangent, seeds_for, sow, under

_ROOTED = Call | Checkpoint | Effect | EmptyTape | Pop | Push | Recompute | While
"""What stays where it is written, and whatever holds it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A region forward, and its way back."""

    params: tuple[Param, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    residuals: tuple[Value, ...]
    shown: dict[Value, int]
    lent: tuple[int, ...]
    before: tuple[Op, ...]
    steady: tuple[Value, ...]
    seeds: dict[int, Param]
    masks: dict[int, Param]
    covers: tuple[Value | None, ...]
    """For each cotangent, where it may differ from zero, if masks came in and that is known."""
    sums: dict[int, Param]
    tape: Param
    tape_after: Value
    tape_back: Param
    undo: tuple[Op, ...]
    cotangents: tuple[Value, ...]

    @property
    def taped(self) -> bool:
        """Whether it pushes on the tape."""
        return self.tape_after is not self.tape

    @property
    def extra(self) -> tuple[Value, ...]:
        """The residuals that are not results anyway."""
        return tuple(r for r in self.residuals if r not in self.shown)

    def forward(self, name: str) -> Function:
        """Parameters and tape to results, the residuals that are not among them, and tape."""
        tape, after = ((self.tape,), (self.tape_after,)) if self.taped else ((), ())
        return Function(name, (*self.params, *tape), self.ops, (*self.results, *self.extra, *after))

    def unpacked(self, found: Sequence[Value]) -> tuple[Sequence[Value], list[Value]]:
        """The results, and all residuals, from what ``forward`` gave without its tape."""
        results, extra = found[: len(self.results)], iter(found[len(self.results) :])
        kept = [results[self.shown[r]] if r in self.shown else next(extra) for r in self.residuals]
        return results, kept

    @property
    def lent_params(self) -> tuple[Param, ...]:
        """The parameters that the way back reads again."""
        return tuple(self.params[i] for i in self.lent)

    def steady_params(self) -> dict[Value, Param]:
        """A parameter for each value that is steady."""
        return {v: Param(v.type, "steady") for v in self.steady}

    def write_before(self, operands: Sequence[Value], reached: Value | None) -> list[Value]:
        """Write here what is steady; where no trip is made, no derivative flows to it."""
        env: Env = dict(zip(self.params, operands, strict=True))
        builder = current_builder()
        assert builder is not None
        for op in self.before:
            place(builder, op, env)
        found = mapped(self.steady, env)
        return found if reached is None else [_where(reached, v) for v in found]

    def write_back(
        self,
        kept: Sequence[Value],
        env: Mapping[Value, Value] | None = None,
        empty: Collection[int] = (),
    ) -> list[Value]:
        """Write the way back here: the cotangents asked for, then what covers them, then the tape.

        ``kept`` stand for the residuals; ``env`` for seeds, lent parameters, sums and tape,
        where they are not parameters of the function being written. The sums at the positions
        ``empty`` start from nothing: the first cotangent that comes is the sum, and nothing is
        added to a zero.
        """
        nothing = {self.sums[i]: zeros(self.sums[i].type) for i in empty}
        found: Env = {**(env or {}), **nothing, **dict(zip(self.residuals, kept, strict=True))}
        builder = current_builder()
        assert builder is not None
        for op in self.undo:
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
    lent: Iterable[int],
    summed: Iterable[int] = (),
    shown: Iterable[int] = (),
    still: Iterable[int] = (),
    masked: Collection[int] = (),
) -> Pair:
    """Split the derivative of ``fn`` by the parameters flagged ``wrt``, where results are seeded.

    Positions say which parameters are *lent* to the way back, for which the cotangent starts
    from a sum so far, which results are *shown* to the way back anyway, and which of the lent
    parameters stand *still*: a loop has them the same on every trip; and which seeds come *masked*.
    """
    tape = Param(TensorType(TAPE), "tape")
    forward = Builder()
    sweep = Sweep(engine, fn, wrt, seeded, tape)
    results = sweep.forward(forward)
    tape_after = sweep.tape
    back = _way_back(sweep, results, wrt, seeded, summed, masked)
    lendable = {fn.params[i] for i in lent}
    fixed = [fn.params[i] for i in still]
    early, rest = apart(back.ops, back.sources) if engine.often else ((), back.ops)
    ops = tuple(dict.fromkeys((*forward.ops, *early)))  # constants of a body written both ways
    kept, again = residuals(fn.params, ops, lendable, back.reads(rest), fixed)
    before, steady, again = (
        _steady(again, fixed, back.reads(rest)) if engine.often else ((), (), again)
    )
    undo = tuple(dict.fromkeys((*again, *rest)))
    read = set(back.reads(undo))
    seen = {results[i]: i for i in shown}
    return Pair(
        params=fn.params,
        ops=live(ops, (*results, *kept, tape_after)),
        results=results,
        residuals=tuple(kept),
        shown={r: i for r, i in seen.items() if r in kept},
        lent=tuple(i for i, p in enumerate(fn.params) if p in read and p in lendable),
        before=before,
        steady=steady,
        seeds=back.seeds,
        masks=back.masks,
        covers=back.covers,
        sums=back.sums,
        tape=tape,
        tape_after=tape_after,
        tape_back=back.tape,
        undo=undo,
        cotangents=back.out,
    )


@dataclass(frozen=True, slots=True)
class _WayBack:
    """The way back before it is known what is kept for it."""

    seeds: dict[int, Param]
    masks: dict[int, Param]
    covers: tuple[Value | None, ...]
    sums: dict[int, Param]
    tape: Param
    ops: tuple[Op, ...]
    out: tuple[Value, ...]

    @property
    def sources(self) -> tuple[Value, ...]:
        """What comes in with the way back."""
        return (*self.seeds.values(), *self.masks.values(), *self.sums.values(), self.tape)

    def reads(self, ops: Sequence[Op]) -> list[Value]:
        """What code for the way back reads of the way forward."""
        return free(ops, self.out, set(self.sources))


def _way_back(
    sweep: Sweep,
    results: Sequence[Value],
    wrt: Flags,
    seeded: Flags,
    summed: Iterable[int],
    masked: Collection[int],
) -> _WayBack:
    params = sweep.fn.params
    taped = not isinstance(sweep.tape, Param)  # a push has made another value of it
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
        sow(results, under(seeds, masks), cotangents)
    sweep.backward(builder, cotangents)
    with builder:
        out = [cotangent(cotangents, p) for p, f in zip(params, wrt, strict=True) if f]
        covers = [(mask_of(dx) or (None,))[0] for dx in out] if masks else []
    out += [c for c in covers if c is not None]
    out += [sweep.tape] if taped else []
    ops = live(builder.ops, out)
    return _WayBack(seeds, masks, tuple(covers), sums, tape, ops, tuple(out))


def residuals(
    params: Sequence[Param],
    ops: Sequence[Op],
    lent: Collection[Value],
    wanted: Sequence[Value],
    still: Iterable[Value] = (),
) -> tuple[list[Value], list[Op]]:
    """What must be kept so that ``wanted`` are there again, and the operations that make them."""
    fixed = _fixed(ops, still)
    needed = _sources(ops, wanted)
    kept: list[Value] = [p for p in params if p in needed and p not in lent]
    known = {*lent, *kept}
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


def _fixed(ops: Sequence[Op], still: Iterable[Value]) -> set[Op]:
    """The operations that compute the same on every trip and may stand in front of the loop."""
    same = set(still)
    found: set[Op] = set()
    if same:
        for op in ops:
            if all(v in same for v in op.operands) and _is_movable(op):
                found.add(op)
                same.update(op.results)
    return found


def _steady(
    again: Sequence[Op], still: Sequence[Value], wanted: Sequence[Value]
) -> tuple[tuple[Op, ...], tuple[Value, ...], list[Op]]:
    """What stands in front of a loop, the values of it that a trip reads, and what a trip makes.

    That is what is more than moves and plain arithmetic of what no trip changes.
    """
    fixed = _fixed(again, still)
    same = [op for op in again if op in fixed]
    varied = [op for op in again if op not in fixed]
    made = {r for op in same for r in op.results}
    read = [v for v in free(varied, wanted, ()) if v in made]
    steady, cheap = residuals((), same, still, read)
    return live(same, steady), tuple(steady), [*cheap, *varied]


def _where(condition: Value, x: Value) -> Value:
    if not x.dtype.is_float:
        return x
    return Select(Broadcast(condition, x.shape, ()), x, zeros(x.type))


def _is_movable(op: Op) -> bool:
    """Whether it neither acts nor raises, and surely ends."""
    held = any(has(region, _ROOTED) for region in op.regions.values())
    return not (op.may_raise or held or isinstance(op, _ROOTED))


def _sources(ops: Sequence[Op], wanted: Iterable[Value]) -> set[Value]:
    """The wanted values, or what they are made of where that is no larger."""
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
    """Whether a result holds no less than what it is made of, and no more information."""
    if isinstance(op, Cast):
        return op.x.dtype.bits <= op.dtype_to.bits
    return isinstance(op, Creation | Broadcast | Reshape | Permute)


def _is_cheap(op: Op) -> bool:
    """Whether computing it again costs no more than keeping it: moves and plain arithmetic."""
    return isinstance(op, Creation | Movement) or (isinstance(op, Elementwise) and op.ulp <= 0.5)
