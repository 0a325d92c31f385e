"""Adjoints of calls and branches.

A call is split into two functions of the module. A branch is split into two branches, with slots
for the residuals that both sides share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from dlvm.base.errors import UserError
from dlvm.ir import BOOL, Builder, Function, FunctionRef, Op, Param, TensorType, Value, zeros
from dlvm.ir.rewrite import Env, everywhere, inline, mapped, transform, types_of
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.unify import unify
from dlvm.ops import Call, Cond

from .activity import Flags
from .cotangents import added, mask_of, under_cover
from .pairs import Pair, pair
from .reverse import ADJOINTS, Cotangents, Engine, Forwarded, Sweep, or_zeros

KEPT_OF_CALLS = 5_000
"""Values of its calls that a function may keep for its backward pass."""


def placed(parts: Sequence[Value], where: Sequence[int], so_far: Cotangents) -> Cotangents:
    """The sums of cotangents after ``parts`` were added for the operands at positions ``where``."""
    sums = list(so_far)
    for i, part in zip(where, parts, strict=True):
        sums[i] = added(so_far[i], part)
    return sums


def picked(flags: Flags) -> tuple[int, ...]:
    """The positions of the flags that are set."""
    return tuple(i for i, f in enumerate(flags) if f)


def seed_values(split: Pair, dy: Cotangents) -> list[Value]:
    """The cotangents for the seeds of a pair, zeros for those that received none."""
    return [or_zeros(dy[i], p.type) for i, p in split.seeds.items()]


# -- call ------------------------------------------------------------------------------------------


def written_out(engine: Engine, fn: Function, wanted: Callable[[Call], bool]) -> Function:
    """The function with its wanted calls inlined, nested regions and callees included."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Call)
        if not wanted(op):
            return None
        callee = written_out(engine, engine.without_donation(op.callee.name), wanted)
        sizes = unify(types_of(callee.params), types_of(op.operands))
        return inline(callee, mapped(op.operands, env), sizes)

    return everywhere(fn, lambda body: transform(body, visit, on=Call))


@dataclass(frozen=True, slots=True)
class Split:
    """The forward and backward functions of a differentiated callee."""

    pair: Pair
    active: Flags
    forward: FunctionRef
    backward: FunctionRef
    witness: tuple[Param, ...]
    under: Callable[[tuple[int, ...]], Split | None]
    """The split for masked seeds, or None if its backward pass needs other residuals."""


def split_callee(sweep: Sweep, name: str, wrt: Flags, seeded: Flags) -> Split:
    """The split of a function of the module, made once for each activity."""
    engine = sweep.engine

    def make() -> Split:
        fn = engine.function(name)
        split = _pair(engine, fn, wrt, seeded)
        _check_kept(fn, split)
        backward, witness = _backward(fn, split)
        refs = (
            engine.define(f"{name}_forward", split.forward(name)),
            engine.define(f"{name}_backward", backward),
        )

        def under(masked: tuple[int, ...]) -> Split | None:
            return engine.once(
                (key, masked), lambda: _masked_split(engine, fn, found, seeded, masked)
            )

        found = Split(split, wrt, *refs, witness, under)
        return found

    key = ("split", name, wrt, seeded, engine.pullbacks_reused)
    return engine.once(key, make)


def _check_kept(fn: Function, split: Pair) -> None:
    """Refuses a function whose calls keep too much: it doubles where each calls another twice."""
    kept, own = len(split.residuals), sum(1 for _ in fn.walk())
    if kept > KEPT_OF_CALLS + own:
        raise UserError(
            f"the derivative of {fn.name} keeps {kept:,} values, nearly all of calls inside of "
            f"its {own:,} operations; expected at most {KEPT_OF_CALLS:,} of calls",
            origin=next((op.origin for op in fn.ops if isinstance(op, Call)), None),
            remedy="repeat the function in a loop of dlvm instead of calling it several times",
        )


def _pair(
    engine: Engine, fn: Function, wrt: Flags, seeded: Flags, masked: tuple[int, ...] = ()
) -> Pair:
    reread, returned = range(len(fn.params)), range(len(fn.results))
    return pair(engine, fn, wrt, seeded, reread=reread, returned=returned, masked=masked)


def _masked_split(
    engine: Engine, fn: Function, plain: Split, seeded: Flags, masked: tuple[int, ...]
) -> Split | None:
    """The split for masked seeds, if its backward pass reads the residuals of the plain one."""
    split = _pair(engine, fn, plain.active, seeded, masked)
    if _reads(split) != _reads(plain.pair):
        return None
    backward, witness = _backward(fn, split)
    ref = engine.define(f"{fn.name}_backward", backward)
    return replace(plain, pair=split, backward=ref, witness=witness)


def _reads(split: Pair) -> object:
    """What the backward pass reads, as positions of values in the forward code."""
    made = [*split.params, *(r for op in split.ops for r in op.results)]
    place = {v: i for i, v in enumerate(made)}
    return [place[r] for r in split.residuals], split.reread, len(split.ops)


def _backward(fn: Function, split: Pair) -> tuple[Function, tuple[Param, ...]]:
    kept = [Param(r.type, f"kept_{i}") for i, r in enumerate(split.residuals)]
    tape = (split.tape_back,) if split.taped else ()
    params = (*kept, *split.reread_params, *split.seeds.values(), *split.masks.values())
    witness = witness_of(fn, params)
    with Builder() as builder:
        cotangents = split.write_pullback(kept)
    params = (*params, *witness, *tape)
    return Function(fn.name, params, tuple(builder.ops), tuple(cotangents)), witness


def witness_of(fn: Function, params: Sequence[Param]) -> tuple[Param, ...]:
    """A parameter without elements whose shape tells the sizes that no other parameter tells."""
    names = sorted({s for p in fn.params for d in p.type.shape for s in symbols(d)})
    told = {d for p in params for d in p.type.shape}
    missing = tuple(symbol(s) for s in names if symbol(s) not in told)
    return (Param(TensorType(BOOL, (0, *missing)), "sizes"),) if missing else ()


def call_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """``y = f(x)`` becomes ``y, kept = f_forward(x)`` and ``dx = f_backward(kept, x, dy)``."""
    assert isinstance(op, Call)
    return forward_call(sweep, split_callee(sweep, op.callee.name, *sweep.wanted(op)), operands)


def forward_call(sweep: Sweep, split: Split, operands: Sequence[Value]) -> Forwarded:
    """A call of the forward function, whose pullback calls the backward function."""
    parts, active = split.pair, split.active
    sizes = unify(types_of(parts.params), types_of(operands))
    given = [r.type.substitute(sizes) for r in parts.results]
    tape = sweep.tape_operand(parts.taped)
    types = (*given, *(r.type.substitute(sizes) for r in parts.extra), *types_of(tape))
    forward = Call((*operands, *tape), split.forward, types).results
    results, kept = parts.unpacked(sweep.without_tape(forward, parts.taped))

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        seeds = {i: or_zeros(dy[i], given[i]) for i in parts.seeds}
        found = {i: mask for i, seed in seeds.items() if (mask := mask_of(seed)) is not None}
        masked = split.under(tuple(found)) if found else None
        chosen, masks = masked or split, found if masked else {}
        seeds |= {i: seed for i, (_, seed) in masks.items()}
        witness = [zeros(p.type.substitute(sizes)) for p in chosen.witness]
        tape = sweep.tape_operand(parts.taped)
        again = (operands[i] for i in parts.reread)
        held = (*kept, *again, *seeds.values(), *(mask for mask, _ in masks.values()))
        where = picked(active)
        covered = [
            i for i, c in zip(where, chosen.pair.result_masks, strict=False) if c is not None
        ]
        result_masks = (operands[i].type.with_dtype(BOOL) for i in covered)
        types = (*(operands[i].type for i in where), *result_masks, *types_of(tape))
        out = sweep.without_tape(
            Call((*held, *witness, *tape), chosen.backward, types).results, parts.taped
        )
        cover = dict(zip(covered, out[len(where) :], strict=True))
        pairs = zip(where, out, strict=False)
        return placed([under_cover(cover.get(i), x) for i, x in pairs], where, so_far)

    return Forwarded(results, pullback)


# -- cond ------------------------------------------------------------------------------------------


def cond_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """Each branch keeps its residuals in shared slots; the pullback is a cond as well."""
    assert isinstance(op, Cond)
    active, seeded = sweep.wanted(op)
    active = active[1:]
    every = range(len(op.captured))
    sides = [
        pair(sweep.engine, fn, active, seeded, reread=every, summed=every)
        for fn in (op.then, op.otherwise)
    ]
    slots, places = shared_slots([types_of(side.residuals) for side in sides])
    taped = any(side.taped for side in sides)
    then, otherwise = (
        _forward_branch(*row, slots, taped) for row in zip(sides, places, strict=True)
    )
    captured = (*operands[1:], *sweep.tape_operand(taped))
    new = Cond(operands[0], captured, then, otherwise, op.otherwise_first)
    forward = sweep.without_tape(new.results, taped)
    results, kept = forward[: len(op.results)], forward[len(op.results) :]

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        where = [i + 1 for i in picked(active)]
        sums = {i: total for i in sides[0].sums if (total := so_far[i + 1]) is not None}
        reread = sorted({i for side in sides for i in side.reread})
        again = (operands[i + 1] for i in reread)
        tape = sweep.tape_operand(taped)
        given = (*kept, *again, *seed_values(sides[0], dy), *sums.values(), *tape)
        pairs = zip(sides, places, strict=True)
        ways = (_backward_branch(side, own, slots, reread, [*sums], taped) for side, own in pairs)
        out = Cond(operands[0], given, *ways, otherwise_first=not op.otherwise_first)
        totals = list(so_far)
        for i, total in zip(where, sweep.without_tape(out.results, taped), strict=True):
            totals[i] = total
        return totals

    return Forwarded(results, pullback)


def shared_slots(
    sides: Sequence[Sequence[TensorType]],
) -> tuple[list[TensorType], list[list[int]]]:
    """The fewest slots that hold the residuals of either side, and each side's slot numbers."""
    slots: list[TensorType] = []
    places: list[list[int]] = []
    for types in sides:
        free = dict.fromkeys(range(len(slots)))
        own: list[int] = []
        for t in types:
            slot = next((k for k in free if slots[k] == t), len(slots))
            if slot == len(slots):
                slots.append(t)
            free.pop(slot, None)
            own.append(slot)
        places.append(own)
    return slots, places


def _forward_branch(
    side: Pair, own: Sequence[int], slots: Sequence[TensorType], taped: bool
) -> Function:
    tape = (side.tape,) if taped else ()
    held = dict(zip(own, side.residuals, strict=True))
    with Builder(side.ops) as builder:
        kept = [held[k] if k in held else zeros(t) for k, t in enumerate(slots)]
    after = (side.tape_after,) if taped else ()
    results = (*side.results, *kept, *after)
    return Function("branch", (*side.params, *tape), tuple(builder.ops), results)


def _backward_branch(
    side: Pair,
    own: Sequence[int],
    slots: Sequence[TensorType],
    reread: Sequence[int],
    sums: Sequence[int],
    taped: bool,
) -> Function:
    """The way back of one branch; ``sums`` are the positions to which cotangents came before."""
    kept = [Param(t, "kept") for t in slots]
    tape = (side.tape_back,) if taped else ()
    with Builder() as builder:
        empty = [i for i in side.sums if i not in sums]
        out = side.write_pullback([kept[k] for k in own], empty=empty)
    if taped and not side.taped:
        out.append(side.tape_back)
    params = (
        *kept,
        *(side.params[i] for i in reread),
        *side.seeds.values(),
        *(side.sums[i] for i in sums),
        *tape,
    )
    return Function("branch", params, tuple(builder.ops), tuple(out))


ADJOINTS[Cond] = cond_adjoint
