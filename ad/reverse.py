"""Reverse mode: the forward pass of a body with its residuals, then the backward pass.

Primal and adjoint are one function: the adjoint shares operations and parameters with the primal,
and dead code is removed at the end. A leaf operation is pulled back by its ``adjoint`` formula. A
control operation is written in the forward pass by the rule that ``ADJOINTS`` holds for its class,
which may add residuals to its results, and is pulled back by the pullback that this rule returns. A
loop of unknown length pushes its residuals on one tape, which is threaded through the whole body.
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
from dlvm.ops import Effect, Elementwise, EmptyTape, IndexMap, Select
from dlvm.ops.arrays.maps import as_scatters

from .activity import Activity, Flags, both, is_tape
from .cotangents import accumulate, accumulate_masked, added, mask_of, masked
from .live import live

Made = TypeVar("Made")
Mark = tuple[dict[Hashable, Any], dict[str, Function]]
Cotangents = Sequence[Value | None]
Pullback = Callable[[Cotangents, Cotangents], Cotangents]


class Engine(Protocol):
    """What differentiating a body needs from the module around it."""

    activity: Activity
    transposing: set[FunctionRef]
    pullbacks_reused: bool
    """Whether each pullback is to run many times after one forward pass."""

    def function(self, name: str) -> Function:
        """The named function in the form that is differentiated: without kernels and folds."""
        ...

    def without_donation(self, name: str) -> Function:
        """The named function, expanded, with no parameter donated."""
        ...

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The result of ``make``, computed once for each key."""
        ...

    def define(self, name: str, fn: Function) -> FunctionRef:
        """Adds a function to the module under this name, with a suffix if the name is taken."""
        ...

    def reserve(self, name: str) -> FunctionRef:
        """Reserves this name, with a suffix if it is taken, for a function that may call itself."""
        ...

    def fill(self, ref: FunctionRef, fn: Function) -> None:
        """Adds the function for which a name was reserved."""
        ...

    def recursive(self, name: str) -> bool:
        """Whether the named function calls itself, directly or through other functions."""
        ...

    def assume(self, key: Hashable, made: object) -> None:
        """Sets the provisional result that ``once`` returns to recursive requests for a key."""
        ...

    def mark(self) -> Mark:
        """A snapshot of what was derived so far, for ``reset``."""
        ...

    def reset(self, mark: Mark) -> None:
        """Restores a snapshot: whatever was derived after it is forgotten."""
        ...


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A control operation after the forward pass: its results, and its pullback.

    ``pullback`` takes the cotangents of the results and, for each operand, the sum of cotangents so
    far (None for zero, and for the second occurrence of an operand). It returns the new sums, with
    None for an operand that receives no cotangent.
    """

    results: Sequence[Value]
    pullback: Pullback


@dataclass(frozen=True, slots=True)
class Step:
    """One active operation as the forward pass wrote it."""

    op: Op
    operands: Sequence[Value]
    results: Sequence[Value]
    varied: Flags
    forwarded: Forwarded | None
    taped: bool


Rule = Callable[["Sweep", Op, Sequence[Value]], Forwarded]
ADJOINTS: dict[type[Op], Rule] = {}


class Sweep:
    """The forward and the backward pass of one body."""

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
        """Which of the values vary with the inputs."""
        return tuple(v in self.varied for v in values)

    def active(self, values: Sequence[Value]) -> Flags:
        """Which of the values vary and are useful."""
        return tuple(v in self.varied and v in self.useful for v in values)

    def wanted(self, op: Op) -> tuple[Flags, Flags]:
        """The operands whose cotangents are wanted, and the results that receive cotangents."""
        seeded = self.active(op.results)
        useful = self.engine.activity.operands_useful(op, seeded)
        return both(self.vary(op.operands), useful), seeded

    def tape_operand(self, taped: bool) -> tuple[Value, ...]:
        """The tape as a last operand, for an operation that uses the tape; else nothing."""
        return (self.tape,) if taped else ()

    def without_tape(self, found: Sequence[Value], taped: bool) -> Sequence[Value]:
        """The results without the tape, which comes last and becomes the sweep's current tape."""
        if not taped:
            return found
        self.tape = found[-1]
        return found[:-1]

    def forward(self, builder: Builder) -> tuple[Value, ...]:
        """Writes the forward pass with its residuals into the builder; returns the results."""
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
            forwarded = rule(self, op, operands)
        env.update(zip(op.results, forwarded.results, strict=True))
        taped = taped or self.tape is not tape
        return Step(op, operands, tuple(forwarded.results), varied, forwarded, taped)

    def backward(self, builder: Builder, cotangents: dict[Value, Value]) -> None:
        """Writes the backward pass into the builder; ``cotangents`` holds the cotangents by value.

        An operation that pushed on a tape is pulled back even if it receives no cotangent, so that
        pops stay paired with pushes.
        """
        while self.steps:
            step = self.steps.pop()
            dy = [cotangents.pop(r, None) for r in step.results]
            if step.taped or any(d is not None for d in dy):
                builder.origin = origin_of_derivative(step.op, "adjoint")
                with builder:
                    _pull_back(step, dy, cotangents)


def origin_of_derivative(op: Op, how: str) -> Origin | None:
    """The origin of an operation's derivative: the operation's line, under its own name."""
    at = op.origin
    return at and at.of(f"the {how} of {at.derived or op.name}")


def _pull_back(step: Step, dy: Cotangents, cotangents: dict[Value, Value]) -> None:
    first = {v: i for i, v in reversed(list(enumerate(step.operands)))}
    so_far: list[Value | None] = [
        cotangents.get(v) if first[v] == i else None for i, v in enumerate(step.operands)
    ]
    if step.forwarded is None:
        parts = leaf_pullback(step.op, dy)
        sums = [_sum(*row) for row in zip(step.operands, so_far, parts, strict=True)]
    else:
        sums = step.forwarded.pullback(dy, so_far)
    for i, (v, dv) in enumerate(zip(step.operands, sums, strict=True)):
        if dv is not None and step.varied[i]:
            total = dv if first[v] == i else _sum(v, cotangents.get(v), dv)
            assert total is not None
            cotangents[v] = total


def _sum(x: Value, old: Value | None, new: Value | None) -> Value | None:
    """The sum of two cotangents of ``x``; nobody reads the mask of a parameter's."""
    if old is None or new is None or isinstance(x, Param):
        return added(old, new)
    return accumulate_masked(old, new)


def leaf_adjoint(op: Op, dy: Sequence[Value]) -> Cotangents:
    """The adjoint that a leaf's class states: a cotangent or None per operand, checked."""
    if isinstance(op, IndexMap) and type(op).adjoint is Op.adjoint:
        return as_scatters(op, dy[0])
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


def leaf_pullback(op: Op, dy: Cotangents) -> Cotangents:
    """The cotangents of a leaf's operands by its adjoint; a mask on ``dy`` stays outermost."""
    came = [zeros(r.type) if d is None else d for d, r in zip(dy, op.results, strict=True)]
    parts = leaf_adjoint(op, came)
    passed = len(came) == 1 and all(p is None or p is came[0] for p in parts)
    if passed or len(came) > 1 or not isinstance(op, Elementwise):
        return parts
    mask = mask_of(came[0])
    if mask is None:
        return parts
    return [None if p is None else masked(mask[0], p) for p in leaf_adjoint(op, (mask[1],))]


def seeds_for(fn: Function, seeded: Flags) -> dict[int, Param]:
    """A parameter for the cotangent of each flagged result."""
    return {
        i: Param(r.type, f"seed_{i}")
        for i, (r, f) in enumerate(zip(fn.results, seeded, strict=True))
        if f
    }


def masked_seeds(seeds: Mapping[int, Value], masks: Mapping[int, Value]) -> dict[int, Value]:
    """The seeds, those that came with a mask under that mask."""
    return {
        i: Select(masks[i], seed, zeros(seed.type)) if i in masks else seed
        for i, seed in seeds.items()
    }


def seed_results(
    results: Sequence[Value], seeds: Mapping[int, Value], cotangents: dict[Value, Value]
) -> None:
    """Adds the seeds to the cotangents of the results; one value may be returned more than once."""
    for i, dy in seeds.items():
        old = cotangents.get(results[i])
        cotangents[results[i]] = dy if old is None else accumulate(old, dy)


def adjoint(engine: Engine, d: Declaration) -> Function:
    """The function that the declaration of an adjoint stands for."""
    fn = engine.function(d.of)
    seeded = tuple(r.type.dtype.is_float for r in fn.results)
    seeds = seeds_for(fn, seeded)
    return differentiate(engine, fn, d.name, d.wrt, d.keep, seeds, unit=not d.seeded)


def forward_and_adjoint(
    engine: Engine, fn: Function, wrt: Flags, seeded: Flags, masked: Collection[int] = ()
) -> Function:
    """A function that reruns a body without its effects and returns the gradients.

    Its parameters are those of the body, then the seeds, then masks of the seeds in ``masked``.
    """
    positions = tuple(i for i, f in enumerate(wrt) if f)
    silent = everywhere(fn, _without_effects)
    seeds = seeds_for(silent, seeded)
    masks = {i: Param(seeds[i].type.with_dtype(BOOL), f"mask_{i}") for i in masked}
    with pullbacks_used_once(engine):
        return differentiate(engine, silent, "body", positions, (), seeds, masks=masks)


@contextmanager
def pullbacks_used_once(engine: Engine) -> Generator[None]:
    """While the context lasts, pullbacks are written to run once after each forward pass."""
    pullbacks_reused, engine.pullbacks_reused = engine.pullbacks_reused, False
    try:
        yield
    finally:
        engine.pullbacks_reused = pullbacks_reused


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
    """A function from parameters, seeds and masks of seeds to gradients and kept results.

    If ``unit`` is set, every seed is 1 and there are no parameters for seeds.
    """
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
        seed_results(results, units or masked_seeds(seeds, masks), cotangents)
    sweep.backward(builder, cotangents)
    with builder:
        gradients = [cotangent(cotangents, fn.params[i]) for i in wrt]
    outputs = (*gradients, *(results[i] for i in keep))
    params = (*fn.params, *(() if unit else seeds.values()), *masks.values())
    return Function(name, params, live(builder.ops, outputs), outputs)


def _without_effects(fn: Function) -> Function:
    return transform(fn, lambda op, env: () if isinstance(op, Effect) else None)


def cotangent(cotangents: Mapping[Value, Value], x: Value) -> Value:
    """The cotangent of a value, or zeros if it received none."""
    return or_zeros(cotangents.get(x), x.type)


def or_zeros(dy: Value | None, t: TensorType) -> Value:
    """The cotangent, or zeros of type ``t`` for None."""
    return zeros(t) if dy is None else dy
