"""``gradcheck``: compares the derivatives of a function with finite differences.

Everything is converted to f64 first. At each order five comparisons are made: the adjoint with
differences, element by element; the tangent with differences along a direction; the two with one
another, by ``<J v, w> = <v, J' w>``; second derivatives with their own symmetry; and machine code
with the references. The only tolerance is the estimated truncation and rounding error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.compile import interpreting
from dlvm.dsl.call.application import Application
from dlvm.dsl.call.function import StagedFunction, is_staged
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.ir import Array, Module
from dlvm.trust.answers import Answer, Question, differ
from dlvm.trust.recast import widened
from dlvm.trust.rules import guilty, surrogates

from .causes import Evidence, cause
from .differences import CLEAR, Slope, agreed
from .findings import Checked, Fault, GradientError, Identity, Report, error_of
from .levels import Levels, Mapping, flat
from .look import OTHER, Leaf, Look
from .sampled import Samples

ELEMENTS = 64
IDENTITY = 1e-12


@facing_users
def gradcheck(
    f: Callable[..., Any],
    *args: Any,
    order: int = 2,
    wrt: Any = None,
    elements: int = ELEMENTS,
    compiled: bool = True,
    seed: int = 0,
    sampled: bool = False,
    **kwargs: Any,
) -> Report:
    """Checks the derivatives of ``f`` at these arguments; raises ``GradientError`` if wrong.

    ``wrt`` names arguments by position or name, every float one if it is left out; of each array
    ``elements`` of them are checked one by one, and the rest along random directions. With
    ``sampled=True`` only random directions are checked, by machine code: seconds for a long scan,
    whose elements would take minutes. Other keyword arguments go to ``f``.
    """
    if not (isinstance(order, int) and order >= 1):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"order={order!r}: expected 1, 2 ...", origin=user_origin())
    staged = f if is_staged(f) else StagedFunction(f)
    applied = staged.applied(args, kwargs)
    chosen = positions(staged, applied, wrt)
    labels = [applied.labels[i] for i in chosen]
    module, dice = applied.module, np.random.default_rng(seed)
    levels = levels_of(module, applied.arrays, chosen, order, staged.label)
    check = GradientCheck(levels, staged.label, tuple(labels), elements, dice)
    with np.errstate(all="ignore"):
        if sampled and not check.surrogates:
            return Samples(levels, staged.label, tuple(labels), dice, is_wrong).run()
        return check.run(compiled and not interpreting())


def levels_of(
    module: Module, arrays: Sequence[Array], wrt: tuple[int, ...], order: int, label: str
) -> Levels:
    """The derivatives of a program in f64; there must be some."""
    if not any(r.dtype.is_float for r in module.main.results):
        raise UserError(
            f"{label} gives no float, so it has no derivative",
            origin=user_origin(),
            remedy="return what is to be differentiated",
        )
    wide = widened(module)
    given = (a.astype(p.dtype.numpy) for a, p in zip(arrays, wide.main.params, strict=True))
    return Levels(wide, tuple(given), wrt, order)


def positions(f: StagedFunction[..., Any], applied: Application, wrt: Any) -> tuple[int, ...]:
    """The parameters to differentiate with respect to: float leaves of the named arguments."""
    params = applied.module.main.params
    if wrt is None:
        names = {n for n in applied.owners if n}
    else:
        names = set(f.parameters.resolve(wrt, "wrt"))
    chosen = tuple(
        i
        for i, (owner, p) in enumerate(zip(applied.owners, params, strict=True))
        if owner in names and p.dtype.is_float
    )
    if chosen:
        return chosen
    raise UserError(
        f"{f.label} has no float among {', '.join(sorted(names)) or 'its arguments'}",
        origin=user_origin(),
        remedy="pass floats, or name other arguments in wrt=",
    )


@dataclass
class GradientCheck:
    """One gradient check while it runs."""

    levels: Levels
    name: str
    labels: tuple[str, ...]
    elements: int
    dice: np.random.Generator
    seeds: list[list[Array]] = field(default_factory=list[list[Array]])
    checked: list[Checked] = field(default_factory=list[Checked])
    identities: list[Identity] = field(default_factory=list[Identity])
    meant: list[Question] = field(default_factory=list[Question])

    def run(self, compiled: bool) -> Report:
        """Checks every order, then machine code; returns the report or raises the first fault."""
        v = [self._normal(self.levels.arrays[i]) for i in self.levels.wrt]
        for level in range(self.levels.order):
            self._level(level, v)
        if self.surrogates:
            self._alone()
        elif not any(c.seen for c in self.checked if c.order == 1):
            raise self._nothing()
        if compiled:
            self._machine_code(v)
        return Report(
            self.name,
            tuple(range(1, self.levels.order + 1)),
            tuple(self.checked),
            tuple(self.identities),
            compiled,
            surrogates=self.surrogates,
        )

    @cached_property
    def surrogates(self) -> tuple[str, ...]:
        """The functions with derivatives that are meant to differ, each with its line."""
        found = surrogates(self.levels.module)
        return tuple(dict.fromkeys(f"{op.called.name} at {op.origin}" for op in found if op.called))

    def _alone(self) -> None:
        """Checks each operation by itself, at its own operands, but for the surrogates."""
        levels = self.levels
        blame = guilty(levels.module, levels.arrays, levels.order, is_wrong, of_values=False)
        if blame is not None:
            raise GradientError(
                f"the gradient of {self.name} is wrong: the derivative of {blame.op} is, by itself",
                origin=blame.origin,
                remedy="fix the rule of that operation and check again",
            )

    def _normal(self, like: Array) -> Array:
        return self.dice.standard_normal(like.shape)

    def _level(self, level: int, v: list[Array]) -> None:
        below = [s for each in self.seeds for s in each]
        function = self.levels.function(level, below)
        seeds = [np.where(np.isfinite(y), self._normal(y), 0.0) for y in function.values]
        self.seeds.append(seeds)
        adjoint = self.levels.adjoint(level, [*below, *seeds])
        tangent = self.levels.tangent(level, below, v)
        self.meant += [adjoint, tangent]
        self._values(level, below, function, v)
        look = Look(
            function, level + 1, flat(seeds), flat(adjoint.answer.results), flat(adjoint.allowed)
        )
        if self.surrogates:  # a slope has nothing to do with them, and they need not be symmetric
            self._transposed(look, flat(v), tangent)
            return
        self._adjoint(look)
        self._tangent(look, flat(v), tangent)
        self._transposed(look, flat(v), tangent)
        if level:
            self._symmetric(look, level, below, v, tangent)

    # -- the values that the derivatives come with -------------------------------------------------

    def _values(self, level: int, below: list[Array], function: Mapping, v: list[Array]) -> None:
        """Checks that the value beside each derivative is the function's value."""
        question = function.question
        for mode, found in self.levels.values(level, below, self.seeds[level], v):
            off = differ(question, Answer(tuple(found), question.answer.told))
            if off is not None:
                at = list(off.index) if off.index else ""
                raise self._error(
                    Fault(
                        off.value,
                        f"{off.value}{at}",
                        level + 1,
                        f"value, {mode}",
                        float(off.found),
                        float(off.expected),
                        off.allowed,
                        "the rule gives another value than the function",
                    )
                )

    # -- the adjoint, element by element ---------------------------------------------------------

    def _adjoint(self, look: Look) -> None:
        start = 0
        for label, i in zip(self.labels, self.levels.wrt, strict=True):
            array = self.levels.arrays[i]
            every = np.arange(start, start + array.size)
            start += array.size
            some = every
            limit = self.elements if look.order == 1 else max(self.elements // 4, 1)
            if array.size > limit:
                some = np.sort(self.dice.choice(every, limit, replace=False))
            leaf = Leaf(label, array.shape, every, some)
            found = [look.sure(k) for k in leaf.some]
            if fault := look.fault(leaf, found):
                raise self._error(fault)
            self.checked.append(look.checked(leaf, found))
            if array.size > limit and (fault := self._elsewhere(look, leaf)):
                raise self._error(fault)

    def _elsewhere(self, look: Look, leaf: Leaf) -> Fault | None:
        """Checks the elements that were not checked one by one, all along one direction."""
        rest: Array = np.setdiff1d(leaf.every, leaf.some)
        while look.along(rest, self.dice.choice([-1.0, 1.0], rest.size)):
            if rest.size == 1:
                return look.fault(leaf, [look.sure(int(rest[0]))])
            half: list[Array] = [rest[: rest.size // 2], rest[rest.size // 2 :]]
            signs = [self.dice.choice([-1.0, 1.0], h.size) for h in half]
            guilty_half = [h for h, s in zip(half, signs, strict=True) if look.along(h, s)]
            if not guilty_half:
                return None
            rest = guilty_half[0]
        return None

    # -- the tangent, and what holds of both -----------------------------------------------------

    def _tangent(self, look: Look, v: Array, tangent: Question) -> None:
        tangents, allowed = flat(tangent.answer.results), flat(tangent.allowed)
        by = look.slope(v)
        for k in np.flatnonzero(_apart(tangents, by, allowed)):
            again = agreed(by, look.slope(v, OTHER))
            if _apart(tangents, again, allowed)[k] and not self._bent(look, v, again)[k]:
                raise self._error(
                    Fault(
                        " and ".join(self.labels[:3]),
                        f"result[{k}] along a direction",
                        look.order,
                        "forward mode",
                        float(tangents[k]),
                        float(again.value[k]),
                        float(again.error[k]),
                        cause(Evidence(tangents, again.value, again.error, tangents.shape)),
                    )
                )

    def _bent(self, look: Look, v: Array, along: Slope) -> Array:
        """The results for which the slope along ``v`` is not the sum of slopes along two parts of
        it.
        """
        part = self._normal(v)
        one, other = look.slope(part), look.slope(v - part)
        bound = CLEAR * (along.error + one.error + other.error)
        return np.abs(along.value - one.value - other.value) > bound

    def _transposed(self, look: Look, v: Array, tangent: Question) -> None:
        """Checks ``<J v, w> = <v, J' w>``."""
        jv, off = flat(tangent.answer.results), flat(tangent.allowed)
        finite = np.isfinite(jv)
        left = float(np.sum(np.where(finite, jv, 0) * look.w))
        right = float(np.sum(v * look.found))
        norms = float(np.linalg.norm(jv[finite]) * np.linalg.norm(look.w))
        rounding = float(np.sum(np.abs(look.w[finite]) * off[finite]))
        rounding += float(np.sum(np.abs(v) * look.allowed))
        self._same("<Jv, w> = <v, J'w>", look, left, right, max(IDENTITY * norms, rounding))

    def _symmetric(
        self, look: Look, level: int, below: list[Array], v: list[Array], tangent: Question
    ) -> None:
        """Checks ``<H v, u> = <H u, v>``, each by forward over reverse mode."""
        u = [self._normal(x) for x in v]
        other = self.levels.tangent(level, below, u)
        left = float(np.sum(flat(tangent.answer.results) * flat(u)))
        right = float(np.sum(flat(other.answer.results) * flat(v)))
        rounding = float(np.sum(flat(tangent.allowed) * np.abs(flat(u))))
        rounding += float(np.sum(flat(other.allowed) * np.abs(flat(v))))
        norms = float(np.linalg.norm(flat(tangent.answer.results)) * np.linalg.norm(flat(u)))
        if not any(c.kinks for c in self.checked):
            self._same("<Hv, u> = <Hu, v>", look, left, right, max(IDENTITY * norms, rounding))

    def _same(self, law: str, look: Look, left: float, right: float, allowed: float) -> None:
        if not (np.isfinite(left) and np.isfinite(right) and np.isfinite(allowed)):
            return  # an infinite slope
        apart = abs(left - right)
        self.identities.append(Identity(law, look.order, apart, allowed))
        if apart > allowed:
            where = " and ".join(self.labels[:3])
            why = "forward and reverse mode are not transposes of one another"
            if law.startswith("<H"):
                why = "the second derivative is not symmetric, so the first is no gradient"
            raise self._error(Fault(where, law, look.order, "identity", left, right, allowed, why))

    # -- machine code ----------------------------------------------------------------------------

    def _machine_code(self, v: list[Array]) -> None:
        made = self.levels.compiled(self.seeds, v)
        for k, (found, meant) in enumerate(zip(made, self.meant, strict=True)):
            off = differ(meant, Answer(tuple(found), meant.answer.told))
            if off is None:
                continue
            which, mode = int(off.value.split()[-1]), ("reverse", "forward")[k % 2]
            label = self.labels[which] if k % 2 == 0 else off.value
            fault = Fault(
                label,
                f"{label}{list(off.index)}",
                k // 2 + 1,
                f"{mode} mode, machine code",
                float(off.found),
                float(off.expected),
                off.allowed,
                "the references are right, so the compiler is not: please report it",
            )
            raise error_of(self.name, fault, None)

    # -- what is said ----------------------------------------------------------------------------

    def _error(self, fault: Fault) -> GradientError:
        levels = self.levels
        given = (levels.module, levels.arrays, fault.order, is_wrong, fault.of_values)
        blame = guilty(*given) if self.name else None
        return error_of(self.name, fault, blame)

    def _nothing(self) -> GradientError:
        return GradientError(
            f"nothing of the gradient of {self.name} could be checked",
            origin=user_origin(),
            notes=(
                "every derivative is lost in rounding, at a jump, a tie or the border of a domain",
            ),
            remedy="pass arguments where the function changes visibly",
        )


def _apart(found: Array, by: Slope, allowed: Array) -> Array:
    """Where a tangent differs from differences by more than both errors."""
    bound = CLEAR * by.error + allowed
    with np.errstate(all="ignore"):
        close = np.abs(found - by.value) <= bound
    return ~close & np.isfinite(bound) & np.isfinite(by.value) & ~by.odd


def is_wrong(module: Module, arrays: Sequence[Array], wrt: tuple[int, ...], order: int) -> bool:
    """Whether the derivatives of a small program are wrong when the references run it."""
    labels = tuple(map(str, wrt))
    check = GradientCheck(
        Levels(module, tuple(arrays), wrt, order), "", labels, 16, np.random.default_rng(0)
    )
    try:
        check.run(compiled=False)
    except GradientError as error:
        return error.fault is not None
    return False
