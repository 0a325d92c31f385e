"""Reverse mode: one body forward with whatever its way back needs, then the way back.

Primal and adjoint are one function: operations and parameters are shared with the primal, and
what is not needed is dropped at the end. A leaf operation is pulled back by its ``adjoint``
formula. A control operation goes forward by the rule that ``ADJOINTS`` holds for its class,
which may give it residuals as further results, and comes back by the way that the rule returns.
A loop of unknown length pushes its residuals on one tape, threaded through the whole body.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from dlvm.base.errors import CompilerError, Origin
from dlvm.ir import (
    BOOL,
    Builder,
    Declaration,
    Function,
    FunctionRef,
    Op,
    Param,
    TensorType,
    Value,
    splat,
    zeros,
)
from dlvm.ir.rewrite import Env, everywhere, mapped, place, transform
from dlvm.ops import Effect, Elementwise, EmptyTape, Select

from .activity import Activity, Flags, both, is_tape
from .cotangents import accumulate, accumulate_masked, added, mask_of, masked
from .live import live

Made = TypeVar("Made")
Mark = tuple[dict[Hashable, Any], dict[str, Function]]
Cotangents = Sequence[Value | None]
Back = Callable[[Cotangents, Cotangents], Cotangents]


class Engine(Protocol):
    """What differentiating a body asks of the module around it."""

    activity: Activity
    transposing: set[FunctionRef]
    often: bool
    """Whether ways back are to run many times for one way forward."""

    def function(self, name: str) -> Function:
        """A function of the module as derivatives see it: without kernels and general folds."""
        ...

    def lent(self, name: str) -> Function:
        """A function of the module, expanded, that does not own its arguments."""
        ...

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` gives, made once for each key."""
        ...

    def define(self, name: str, fn: Function) -> FunctionRef:
        """Add a function to the module, under this name or one like it."""
        ...

    def reserve(self, name: str) -> FunctionRef:
        """This name or one like it, for a function that may call itself."""
        ...

    def fill(self, ref: FunctionRef, fn: Function) -> None:
        """Add the function that a name was reserved for."""
        ...

    def recursive(self, name: str) -> bool:
        """Whether a function of the module calls itself, directly or through others."""
        ...

    def assume(self, key: Hashable, made: object) -> None:
        """What ``once`` gives for a key while it is being made."""
        ...

    def mark(self) -> Mark:
        """All that was made so far, to come back to."""
        ...

    def reset(self, mark: Mark) -> None:
        """Forget what was made since."""
        ...


@dataclass(frozen=True, slots=True)
class Way:
    """How a control operation went forward: what its results became, and the way back.

    ``back`` takes the cotangents of the results, and for each operand the sum so far (None for
    zero, or for an operand that stands twice); it gives the new sums, None where nothing comes.
    """

    results: Sequence[Value]
    back: Back


@dataclass(frozen=True, slots=True)
class Step:
    """One operation that varies, as it went forward."""

    op: Op
    operands: Sequence[Value]
    results: Sequence[Value]
    varied: Flags
    way: Way | None
    taped: bool


Rule = Callable[["Sweep", Op, Sequence[Value]], Way]
ADJOINTS: dict[type[Op], Rule] = {}


class Sweep:
    """One body going forward and coming back."""

    def __init__(
        self, engine: Engine, fn: Function, wrt: Flags, seeded: Flags, tape: Value
    ) -> None:
        self.engine = engine
        self.fn = fn
        self.tape = tape
        self.varied = engine.activity.varied(fn, wrt)
        self.useful = engine.activity.useful(fn, seeded)
        self.steps: list[Step] = []

    def vary(self, values: Sequence[Value]) -> Flags:
        """Which values of the body vary."""
        return tuple(v in self.varied for v in values)

    def active(self, values: Sequence[Value]) -> Flags:
        """Which values of the body vary and are useful."""
        return tuple(v in self.varied and v in self.useful for v in values)

    def wanted(self, op: Op) -> tuple[Flags, Flags]:
        """The operands whose cotangents are wanted, and the results whose cotangents come."""
        seeded = self.active(op.results)
        useful = self.engine.activity.operands_useful(op, seeded)
        return both(self.vary(op.operands), useful), seeded

    def threaded(self, taped: bool) -> tuple[Value, ...]:
        """The tape as the last operand of its group, for an operation that uses it."""
        return (self.tape,) if taped else ()

    def untied(self, found: Sequence[Value], taped: bool) -> Sequence[Value]:
        """What an operation gave, without the tape that stands last: the sweep goes on with it."""
        if not taped:
            return found
        self.tape = found[-1]
        return found[:-1]

    def forward(self, builder: Builder) -> tuple[Value, ...]:
        """Write the body into the builder, with residuals; its results."""
        env: Env = {}
        for op in self.fn.ops:
            builder.origin = op.origin
            if any(self.active(op.results)):
                self.steps.append(self._step(builder, op, env))
            else:
                place(builder, op, env)
        return tuple(mapped(self.fn.results, env))

    def _step(self, builder: Builder, op: Op, env: Env) -> Step:
        varied = self.vary(op.operands)
        rule = ADJOINTS.get(type(op))
        taped = any(is_tape(v.type) for v in (*op.operands, *op.results))
        if rule is None:
            new = place(builder, op, env)
            return Step(new, new.operands, new.results, varied, None, taped)
        tape, operands = self.tape, mapped(op.operands, env)
        with builder:
            way = rule(self, op, operands)
        env.update(zip(op.results, way.results, strict=True))
        taped = taped or self.tape is not tape
        return Step(op, operands, tuple(way.results), varied, way, taped)

    def backward(self, builder: Builder, cotangents: dict[Value, Value]) -> None:
        """Write the way back into the builder, from the cotangents of results to all others.

        What was pushed on a tape is popped even where no cotangent comes, to stay in step.
        """
        while self.steps:
            step = self.steps.pop()
            dy = [cotangents.pop(r, None) for r in step.results]
            if step.taped or any(d is not None for d in dy):
                builder.origin = derived(step.op, "adjoint")
                with builder:
                    _pull(step, dy, cotangents)


def derived(op: Op, how: str) -> Origin | None:
    """Where the derivative of an operation stands: at its line, as what it is."""
    at = op.origin
    return at and at.of(f"the {how} of {at.derived or op.name}")


def _pull(step: Step, dy: Cotangents, cotangents: dict[Value, Value]) -> None:
    first = {v: i for i, v in reversed(list(enumerate(step.operands)))}
    so_far: list[Value | None] = [
        cotangents.get(v) if first[v] == i else None for i, v in enumerate(step.operands)
    ]
    if step.way is None:
        parts = pulled_back(step.op, dy)
        sums = [_sum(*row) for row in zip(step.operands, so_far, parts, strict=True)]
    else:
        sums = step.way.back(dy, so_far)
    for i, (v, dv) in enumerate(zip(step.operands, sums, strict=True)):
        if dv is not None and step.varied[i]:
            total = dv if first[v] == i else _sum(v, cotangents.get(v), dv)
            assert total is not None
            cotangents[v] = total


def _sum(x: Value, old: Value | None, new: Value | None) -> Value | None:
    """The sum of cotangents of ``x``; nothing asks for the mask of a parameter's."""
    if old is None or new is None or isinstance(x, Param):
        return added(old, new)
    return accumulate_masked(old, new)


def stated(op: Op, dy: Sequence[Value]) -> Cotangents:
    """The adjoint that the class of a leaf states: for each operand one of its type, or None."""
    given = cast(object, op.adjoint(*dy))
    parts = cast("tuple[object, ...]", given if isinstance(given, tuple) else (given,))
    found = [p.type if isinstance(p, Value) else p for p in parts]
    expected = [x.type for x in op.operands]
    fits = parts is given and len(found) == len(expected)
    if not fits or any(t is not None and t != x for t, x in zip(found, expected, strict=True)):
        raise CompilerError(
            f"the adjoint of {op.name} must be a tuple with a cotangent, or None, for each "
            f"operand: expected {_shown(expected)}, found {_shown(found)}"
        )
    return cast(Cotangents, parts)


def _shown(types: Sequence[object]) -> str:
    return f"({', '.join(map(str, types))})"


def pulled_back(op: Op, dy: Cotangents) -> Cotangents:
    """The cotangents of the operands of a leaf, by its formula; masks stay outermost."""
    came = [zeros(r.type) if d is None else d for d, r in zip(dy, op.results, strict=True)]
    parts = stated(op, came)
    passed = len(came) == 1 and all(p is None or p is came[0] for p in parts)
    if passed or len(came) > 1 or not isinstance(op, Elementwise):
        return parts
    mask = mask_of(came[0])
    if mask is None:
        return parts
    return [None if p is None else masked(mask[0], p) for p in stated(op, (mask[1],))]


def seeds_for(fn: Function, seeded: Flags) -> dict[int, Param]:
    """A parameter for the cotangent of each result flagged."""
    return {
        i: Param(r.type, f"seed_{i}")
        for i, (r, f) in enumerate(zip(fn.results, seeded, strict=True))
        if f
    }


def under(seeds: Mapping[int, Value], masks: Mapping[int, Value]) -> dict[int, Value]:
    """Seeds under the masks that came with them."""
    return {
        i: Select(masks[i], seed, zeros(seed.type)) if i in masks else seed
        for i, seed in seeds.items()
    }


def sow(
    results: Sequence[Value], seeds: Mapping[int, Value], cotangents: dict[Value, Value]
) -> None:
    """Add the cotangents that the way back starts from; one value may be returned twice."""
    for i, dy in seeds.items():
        old = cotangents.get(results[i])
        cotangents[results[i]] = dy if old is None else accumulate(old, dy)


def adjoint(engine: Engine, d: Declaration) -> Function:
    """The function that a declaration of an adjoint asks for."""
    fn = engine.function(d.of)
    seeded = tuple(r.type.dtype.is_float for r in fn.results)
    seeds = seeds_for(fn, seeded)
    return differentiate(engine, fn, d.name, d.wrt, d.keep, seeds, unit=not d.seeded)


def again(
    engine: Engine, fn: Function, wrt: Flags, seeded: Flags, masked: Collection[int] = ()
) -> Function:
    """A body forward and back in one, without the effects that it had the first time.

    After the seeds it takes masks of some of them.
    """
    positions = tuple(i for i, f in enumerate(wrt) if f)
    silent = everywhere(fn, _without_effects)
    seeds = seeds_for(silent, seeded)
    masks = {i: Param(seeds[i].type.with_dtype(BOOL), f"mask_{i}") for i in masked}
    with once_only(engine):
        return differentiate(engine, silent, "body", positions, (), seeds, masks=masks)


@contextmanager
def once_only(engine: Engine) -> Generator[None]:
    """While it lasts ways back are written that run once for each way forward."""
    often, engine.often = engine.often, False
    try:
        yield
    finally:
        engine.often = often


def differentiate(
    engine: Engine,
    fn: Function,
    name: str,
    wrt: Sequence[int],
    keep: Sequence[int],
    seeds: Mapping[int, Param],
    unit: bool = False,
    masks: Mapping[int, Param] | None = None,
) -> Function:
    """Parameters, seeds and their masks to gradients and kept results; a unit seed is none."""
    masks = masks or {}
    flags = tuple(i in wrt for i in range(len(fn.params)))
    seeded = tuple(i in seeds for i in range(len(fn.results)))
    builder = Builder()
    with builder:
        sweep = Sweep(engine, fn, flags, seeded, EmptyTape())
    results = sweep.forward(builder)
    cotangents: dict[Value, Value] = {}
    with builder:
        units = {i: splat(1, p.type) for i, p in seeds.items() if unit}
        sow(results, units or under(seeds, masks), cotangents)
    sweep.backward(builder, cotangents)
    with builder:
        gradients = [cotangent(cotangents, fn.params[i]) for i in wrt]
    outputs = (*gradients, *(results[i] for i in keep))
    params = (*fn.params, *(() if unit else seeds.values()), *masks.values())
    return Function(name, params, live(builder.ops, outputs), outputs)


def _without_effects(fn: Function) -> Function:
    return transform(fn, lambda op, env: () if isinstance(op, Effect) else None)


def cotangent(cotangents: Mapping[Value, Value], x: Value) -> Value:
    """The cotangent of a value, zero where none came."""
    return or_zeros(cotangents.get(x), x.type)


def or_zeros(dy: Value | None, t: TensorType) -> Value:
    """A cotangent that None may stand for."""
    return zeros(t) if dy is None else dy
