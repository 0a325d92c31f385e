"""The faults that are planted: each a change of one rule, made from outside for a while.

A ``Bug`` says where it is expected to show, and the law that must be named, if it is one. What
looks for them (``planted``, and the fuzzers) knows nothing of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import dlvm.dsl  # noqa: F401  registers every rule
from dlvm.ad.batch import BATCHED, leaf
from dlvm.ad.forward import TANGENTS
from dlvm.gen import build as build_room
from dlvm.gen.cpu.driver import Driver
from dlvm.gen.lower.elements import Pull
from dlvm.gen.math import functions as math
from dlvm.gen.program import coalesce, memory
from dlvm.gen.text.sizes import Offsets
from dlvm.ir import RULES, Array, Dim, Op, Rule
from dlvm.ops import (
    Add,
    Cond,
    Exp,
    Mul,
    Reduction,
    Slice,
    Sub,
)
from dlvm.opt.kernels import partition
from dlvm.opt.kernels.fusion import KernelBody, KernelWriter
from dlvm.opt.laws import simplification
from dlvm.opt.recompute import ordering
from dlvm.opt.regions import branches, hoisting, sharing
from dlvm.opt.regions.dropping import Needed

Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Bug:
    """A fault: where it is expected to show, and the law that must be named, if it is one."""

    name: str
    plant: Plant
    stage: str
    kind: str = "answer"
    law: Callable[..., Any] | str | None = None
    area: str = "straight"
    seed: int = 0
    """Where the suite starts, which looks at few programs."""


def _law(root: type[Op], law: Callable[[Any], Any]) -> Plant:
    rule = Rule(law.__name__, (root,), law, (), (), "exact", law.__doc__ or "")
    return lambda: mock.patch.dict(RULES, {root: [rule, *RULES[root]]})


def wrong_sign(self: Any, *dy: Any) -> Any:
    """d(x y) = y dx - x dy."""
    return self.y * dy[0], -(self.x * dy[0])


TANGENT_OF_COND = TANGENTS[Cond]


def turned_tangent(engine: Any, op: Any, xs: Any, dx: Any) -> Any:
    """The tangent of a branch, its sign turned."""
    results, dy = TANGENT_OF_COND(engine, op, xs, dx)
    return results, [None if d is None else -d for d in dy]


def exchanged(b: Any, op: Any, xs: Any, flags: Any) -> Any:
    """A batched difference the other way round."""
    return leaf(b, op, xs[::-1], flags[::-1])


def difference_is_sum(op: Sub) -> Any:
    """x - y = x + y."""
    return Add(op.x, op.y)


def failing_law(op: Exp) -> Any:
    """Looks for what is not there."""
    return {}["nothing"]


def carried_is_invariant(body: Any, captured: Any) -> Any:
    """What a loop carries is taken to be the same on every trip."""
    return INVARIANT(body, body.params)


INVARIANT = hoisting._invariant
INTERVALS = memory.intervals
RULE_OF = Pull._rule
FOR_LOOP = Driver.for_loop
EXP = math.UNARY["exp"]
OBJECT = build_room.object_code
MASKS = Offsets.masks


def ending_early(program: Any) -> Any:
    """Memory is free again one step too early."""
    found = INTERVALS(program)
    for interval in found.values():
        interval.last = max(interval.first, interval.last - 1)
    return found


def no_enemies(program: Any, among: Any) -> Any:
    """No two storages hold different values at once."""
    return defaultdict(set)


def next_element(self: Any, value: Any, at: Any) -> Any:
    """A slice that starts one further."""
    if isinstance(value, Slice) and value.starts:
        at = replace(at, index=(*at.index[:-1], at.index[-1] + 1))
    return RULE_OF(self, value, at)


def one_trip_less(self: Any, step: Any) -> None:
    """A loop that stops before its last trip."""
    FOR_LOOP(self, replace(step, length=step.length - 1))


def rough_exponential(lanes: Any, x: str) -> str:
    """The exponential with nine digits."""
    return lanes.mul(EXP(lanes, x), lanes.number(1 + 1e-9))


def fewer_lanes(self: Offsets, rest: Dim, lanes: int) -> tuple[str, str]:
    """The masks of the last vector, one lane short."""
    return MASKS(self, rest - 1, lanes)


def no_type(self: Offsets, rest: Dim, lanes: int) -> tuple[str, str]:
    """Masks that LLVM can't read."""
    return "<i1 perhaps>", "<i1 perhaps>"


def ends_the_process(text: str, *args: Any, **kwargs: Any) -> bytes:
    """What LLVM does with an instruction that it can't select."""
    if "exp" in text or "fmul" in text:
        os.write(2, b"LLVM ERROR: Cannot select: v4f64 = fpow\n")
        os.abort()
    return OBJECT(text, *args, **kwargs)


def by_class(op: Op, numbers: Any) -> Any:
    """What an operation is, without its attributes."""
    return type(op), op.result_types


def swapped(condition: Any, x: Any, y: Any) -> Any:
    """The value of the other branch."""
    return CHOSEN(condition, y, x)


EXPORT, ENTER = KernelWriter._export, Needed.enter


def other_axis(self: Any, op: Any) -> None:
    """In a kernel, a square is folded along its other axis."""
    shape = op.operands[0].shape if isinstance(op, Reduction) else ()
    square = len(shape) == 2 and shape[0] == shape[1] and len(op.axes) == 1
    other = {"axes": (1 - op.axes[0],)} if square else {}
    new = op.rebuild([self.operand(op, i) for i in range(len(op.operands))], **other)
    self.values.update(zip(op.results, new.results, strict=True))


def first_result_only(self: Any) -> None:
    """A kernel gives what the body returns first, and nothing for the other results."""
    every = self.fn
    self.fn = replace(every, results=every.results[:1])
    EXPORT(self)
    self.fn = every


def nothing_acts(op: Any) -> bool:
    """Nothing keeps its order."""
    return False


def without_holders(self: Any, fn: Any, holders: Any) -> None:
    """What acts in a branch is needed, but not the branch."""
    ENTER(self, fn, ())


CHOSEN, LITERAL, FROZEN = branches._chosen, branches.literal, simplification._frozen


def opposite(known: Any, dtype: Any) -> Any:
    """The other truth than the one that is known."""
    return LITERAL(not known, dtype)


def one_more(array: Any) -> Array:
    """A constant that is one too large."""
    return FROZEN(array + 1 if array.dtype.kind in "if" else array)


BUGS = (
    Bug(
        "adjoint",
        lambda: mock.patch.object(Mul, "adjoint", wrong_sign),
        "differentiate",
        law=wrong_sign,
        area="adjoint",
        seed=23,
    ),
    Bug(
        "tangent",
        lambda: mock.patch.dict(TANGENTS, {Cond: turned_tangent}),
        "differentiate",
        law=turned_tangent,
        area="tangent",
        seed=13,
    ),
    Bug(
        "batching",
        lambda: mock.patch.dict(BATCHED, {Sub: exchanged}),
        "differentiate",
        law=exchanged,
        area="batched",
        seed=5,
    ),
    Bug("law", _law(Sub, difference_is_sum), "simplify", law=difference_is_sum, seed=12),
    Bug("failing law", _law(Exp, failing_law), "simplify", kind="crash", law=failing_law, seed=4),
    Bug(
        "folding",
        lambda: mock.patch.object(simplification, "_frozen", one_more),
        "fold_constants",
        law="known_result",
        seed=23,
    ),
    Bug(
        "known branch",
        lambda: mock.patch.object(branches, "literal", opposite),
        "propagate",
        law="_visit",
        area="branches",
        seed=3,
    ),
    Bug(
        "select",
        lambda: mock.patch.object(branches, "_chosen", swapped),
        "select_branches",
        law="select_branches",
        area="branches",
        seed=19,
    ),
    Bug(
        "sharing",
        lambda: mock.patch.object(sharing, "facts", by_class),
        "share",
        law="share",
        seed=3,
    ),
    Bug(
        "hoisting",
        lambda: mock.patch.object(hoisting, "_invariant", carried_is_invariant),
        "hoist",
        kind="any",
        law="hoist",
        area="control",
    ),
    Bug(
        "folded axis",
        lambda: mock.patch.object(KernelBody, "write", other_axis),
        "fuse",
        law="fuse",
        area="folds",
        seed=7,
    ),
    Bug(
        "dropped result",
        lambda: mock.patch.object(KernelWriter, "_export", first_result_only),
        "fuse",
        kind="crash",
        seed=6,
    ),
    Bug(
        "order of kernels",
        lambda: mock.patch.object(partition, "acts", nothing_acts),
        "fuse",
        area="telling",
        seed=3,
    ),
    Bug(
        "order",
        lambda: mock.patch.object(ordering, "acts", nothing_acts),
        "order",
        law="order",
        area="telling",
        seed=24,
    ),
    Bug(
        "dropping",
        lambda: mock.patch.object(Needed, "enter", without_holders),
        "drop",
        law="drop",
        area="telling",
        seed=1,
    ),
    Bug(
        "index map",
        lambda: mock.patch.object(Pull, "_rule", next_element),
        "lower",
        kind="any",
        law="one_kernel",
        seed=1,
    ),
    Bug(
        "copies",
        lambda: mock.patch.object(coalesce, "interference", no_enemies),
        "coalesce",
        kind="any",
        area="control",
        seed=11,
    ),
    Bug(
        "memory",
        lambda: mock.patch.object(memory, "intervals", ending_early),
        "memory",
        area="storage",
    ),
    Bug(
        "loop bound",
        lambda: mock.patch.object(Driver, "for_loop", one_trip_less),
        "machine",
        area="control",
        seed=6,
    ),
    Bug(
        "polynomial",
        lambda: mock.patch.dict(math.UNARY, {"exp": rough_exponential}),
        "machine",
        law=rough_exponential,
        seed=5,
    ),
    Bug("vector end", lambda: mock.patch.object(Offsets, "masks", fewer_lanes), "machine", seed=2),
    Bug(
        "LLVM text",
        lambda: mock.patch.object(Offsets, "masks", no_type),
        "emit",
        kind="crash",
        seed=2,
    ),
    Bug(
        "abort",
        lambda: mock.patch.object(build_room, "object_code", ends_the_process),
        "emit",
        kind="died",
        seed=5,
    ),
)
